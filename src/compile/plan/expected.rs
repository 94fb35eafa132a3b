//! The mounts that the guard must find before the command starts.

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::guard_plan::{Expectation, Expected};
use crate::policy::AbsPath;

use super::{Mount, OnMissingSource, Plan, View};

impl Plan {
    /// One entry for each path at which the view changes.
    pub(super) fn expected(&self) -> BTreeMap<AbsPath, Expected> {
        let with = |is: fn(&Mount) -> bool| -> BTreeSet<&AbsPath> {
            self.mounts.iter().filter(|planned| is(&planned.mount)).map(|planned| &planned.path).collect()
        };
        let may_be_missing = with(|mount| matches!(mount, Mount::MaskFile { on_missing: OnMissingSource::Skip }));
        let with_content = with(|mount| matches!(mount, Mount::DataFile { .. }));
        let second = self.mounts.iter().filter_map(|planned| match &planned.mount {
            Mount::SecondMount { source } => Some((&planned.path, source)),
            _ => None,
        });
        let second: BTreeMap<&AbsPath, &AbsPath> = second.collect();
        let mut around: Vec<(&AbsPath, View)> = Vec::new();
        let expected = self.views.iter().map(|(path, view)| {
            while around.pop_if(|(at, _)| !path.is_within(at)).is_some() {}
            let view_around = around.last().map_or(View::HostRo, |(_, view)| *view);
            around.push((path, *view));
            let access = match view {
                _ if with_content.contains(path) => Expectation::Content,
                View::HostRw => Expectation::Rw,
                View::HostRo => Expectation::Ro,
                View::Masked => Expectation::Hidden,
                View::Fresh | View::Dev | View::Proc => Expectation::Own,
            };
            let required = view.is_narrower_than(view_around) && !may_be_missing.contains(path);
            let source = second.get(path).map(|source| (*source).clone());
            (path.clone(), Expected { path: path.clone(), access, required, source })
        });
        expected.collect()
    }
}
