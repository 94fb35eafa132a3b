//! The mounts that the guard must find before the command starts.

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::guard_plan::{Expectation, Expected};
use crate::policy::path::AbsPath;

use super::{Mount, OnMissingSource, Plan, View};

impl Plan {
    /// One entry for each path at which the view changes.
    pub(super) fn expected(&self) -> BTreeMap<AbsPath, Expected> {
        let with = |is: fn(&Mount) -> bool| -> BTreeSet<&AbsPath> {
            self.mounts.iter().map(|planned| &planned.mount).filter(|mount| is(mount)).map(Mount::path).collect()
        };
        let may_be_missing = with(|mount| matches!(mount, Mount::MaskFile { on_missing: OnMissingSource::Skip, .. }));
        let with_content = with(|mount| matches!(mount, Mount::DataFile { .. }));
        let second: BTreeMap<&AbsPath, &AbsPath> =
            self.mounts.iter().filter_map(|planned| planned.mount.second_mount()).collect();
        let expected = |(path, view): (&AbsPath, &View)| Expected {
            path: path.clone(),
            access: match view {
                _ if with_content.contains(path) => Expectation::Content,
                View::HostRw => Expectation::Rw,
                View::HostRo => Expectation::Ro,
                View::Masked => Expectation::Hidden,
                View::Fresh | View::Dev | View::Proc => Expectation::Own,
            },
            required: view.is_narrower_than(self.view_around(path)) && !may_be_missing.contains(path),
            source: second.get(path).map(|source| (*source).clone()),
        };
        self.views.iter().map(|border| (border.0.clone(), expected(border))).collect()
    }
}
