//! Which rule decides at a path.

use crate::compile::plan::{Mount, PlannedMount, Purpose};
use crate::policy::{AbsPath, Origin};

use crate::compile::Compiled;

/// The rule that governs `path`, if one does.
pub(crate) fn origin_of<'c>(compiled: &'c Compiled, path: &AbsPath) -> Option<&'c Origin> {
    compiled.decisions.governing(path).map(|(_, decision)| &decision.origin)
}

/// The origin of the rule that governs `path`, or of the base mount that shows it.
pub(crate) fn governing(compiled: &Compiled, path: &AbsPath) -> Origin {
    let shows = |planned: &&PlannedMount| {
        let is_seen = !matches!(planned.purpose, Purpose::Pin { .. })
            && !matches!(planned.mount, Mount::RemountReadOnly | Mount::Directory { .. });
        is_seen && path.is_within(&planned.path)
    };
    // The last mount that contains a path shows.
    let mount = compiled.plan.mounts.iter().rev().find(shows);
    let decided = compiled.decisions.governing(path);
    match (mount, decided) {
        (None, None) => Origin::BuiltIn("the host is read-only"),
        (None, Some((_, decision))) => decision.origin.clone(),
        (Some(mount), None) => mount.because.clone(),
        (Some(mount), Some((at, decision))) => {
            // A decision that changes nothing has no mount, and still decides.
            let is_part_of_all = mount.purpose == Purpose::Base && !matches!(mount.mount, Mount::DataFile { .. });
            let is_nearer = at.is_below(&mount.path) || (is_part_of_all && *at == mount.path);
            if is_nearer { decision.origin.clone() } else { mount.because.clone() }
        }
    }
}
