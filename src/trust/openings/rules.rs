//! Which rule decides at a path.

use crate::compile::plan::{Mount, Planned, Purpose};
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;

use crate::compile::Compiled;

/// The rule that governs `path`, if one does.
pub(crate) fn origin_of<'c>(compiled: &'c Compiled, path: &AbsPath) -> Option<&'c Origin> {
    compiled.decisions.governing(path).map(|(_, decision)| &decision.origin)
}

/// The same, or else the part of every sandbox that shows what is there.
pub(crate) fn governing(compiled: &Compiled, path: &AbsPath) -> Origin {
    let shows = |planned: &&Planned| {
        let is_seen = !matches!(planned.purpose, Purpose::Pin { .. })
            && !matches!(planned.mount, Mount::Seal { .. } | Mount::Directory { .. });
        is_seen && path.is_within(planned.mount.path())
    };
    // Of all that contain a path, the last one that was mounted shows.
    let mount = compiled.plan.mounts.iter().rev().find(shows);
    let decided = compiled.decisions.governing(path);
    match (mount, decided) {
        (None, None) => Origin::BuiltIn("the host is read-only"),
        (None, Some((_, decision))) => decision.origin.clone(),
        (Some(mount), None) => mount.because.clone(),
        (Some(mount), Some((at, decision))) => {
            // A decision that changes nothing has no mount, and still is what decides.
            let is_part_of_all = mount.purpose == Purpose::Base && !matches!(mount.mount, Mount::DataFile { .. });
            let is_nearer = at.is_below(mount.mount.path()) || (is_part_of_all && at == mount.mount.path());
            if is_nearer { decision.origin.clone() } else { mount.because.clone() }
        }
    }
}
