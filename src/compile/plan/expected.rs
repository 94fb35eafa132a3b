//! The mounts that the guard must find before the command starts.

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::guard_plan::{Expectation, Expected};
use crate::policy::path::AbsPath;

use super::{Mount, OnMissingSource, Plan, Purpose, View};

impl Plan {
    /// One entry for each path from which on the command finds something else, parents first.
    pub fn expected(&self) -> Vec<Expected> {
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
        self.views.iter().map(expected).collect()
    }

    /// The directories that must stay where they are, parents first.
    pub fn pins(&self) -> impl Iterator<Item = &AbsPath> {
        let is_pin = |purpose: &Purpose| matches!(purpose, Purpose::Pin { .. });
        self.mounts.iter().filter(move |planned| is_pin(&planned.purpose)).map(|planned| planned.mount.path())
    }
}
