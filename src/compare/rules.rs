//! Which rule decides at a path.

use crate::origin::Origin;
use crate::path::AbsPath;
use crate::plan::{Mount, Planned, Purpose};

use super::Stages;

/// The rule that governs `path`, if one does.
pub(crate) fn origin_of<'s>(stages: &Stages<'s>, path: &AbsPath) -> Option<&'s Origin> {
    stages.decisions.governing(path).map(|(_, decision)| &decision.origin)
}

/// The same, or else the part of every sandbox that shows what is there.
pub(crate) fn governing(stages: &Stages, path: &AbsPath) -> Origin {
    let shows = |planned: &&Planned| {
        let is_seen = !matches!(planned.purpose, Purpose::Pin { .. })
            && !matches!(planned.mount, Mount::Seal { .. } | Mount::Directory { .. });
        is_seen && path.is_within(planned.mount.path())
    };
    // Of all that contain a path, the last one that was mounted shows.
    let mount = stages.plan.mounts.iter().rev().find(shows);
    let decided = stages.decisions.governing(path);
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
