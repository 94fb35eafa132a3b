//! The mounts that bwrap's arguments have no room for (SPEC B14).
//!
//! bwrap reads the whole mount table for each bind, so its time grows with the square of their
//! number, and it takes at most 9,000 arguments. The guard's mounts cost microseconds, but the guard
//! can only tighten. The guard makes the masks and read-only binds beyond the first [`MOST_IN_ARGV`],
//! and the pins beyond as many: a command can create any number of paths that patterns match. It also
//! makes every mask of a service's socket, which comes and goes by itself: bwrap would fail, or make a
//! file in its place. A pin of the guard is visible, so a file that moves across it is copied (EXDEV).

use std::collections::BTreeSet;

use crate::compile::guard_plan::Tightening;
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Mitigation};

use super::{BindKind, CLOSED, Mount, OnMissingSource, Plan, PlannedMount, Purpose, View};

/// With 64 of them bwrap's share of a start is as long as that of the default policy; with 128 it
/// is three times as long (benches/results).
pub const MOST_IN_ARGV: usize = 64;

/// bwrap puts `/newroot` before a path, and the kernel takes 4,095 bytes.
const LONGEST_OF_BWRAP: usize = 4080;

/// Whether a step is the guard's wherever it stands: the path is too long for bwrap, or a service
/// may remove it.
fn is_guards(step: &Tightening) -> bool {
    matches!(step, Tightening::MaskIfThere(_)) || step.path().as_os_str().len() > LONGEST_OF_BWRAP
}

/// The mounts of a plan, by the program that makes them.
pub struct Split<'p> {
    pub bwrap: Vec<&'p PlannedMount>,
    pub guard: Vec<(Tightening, &'p PlannedMount)>,
}

impl Plan {
    /// Without a guard, bwrap makes all mounts.
    pub fn split(&self, guard: bool) -> Split<'_> {
        let mut split = Split { bwrap: Vec::with_capacity(self.mounts.len()), guard: Vec::new() };
        if !guard {
            split.bwrap.extend(&self.mounts);
            return split;
        }
        let blocked = if self.mounts.len() > self.most_in_argv { self.above_openings() } else { BTreeSet::new() };
        let (mut kept, mut pins) = (0, 0);
        for planned in &self.mounts {
            let path = planned.mount.path();
            if matches!(planned.purpose, Purpose::Pin { .. }) {
                pins += 1;
                let step = Tightening::Pin(path.clone());
                match pins > self.most_in_argv || is_guards(&step) {
                    true => split.guard.push((step, planned)),
                    false => split.bwrap.push(planned),
                }
                continue;
            }
            let tightening = self.tightening(planned).filter(|_| !blocked.contains(path));
            let is_mask_of_guard = |split: &Split| split.guard.last().is_some_and(|(step, _)| step.path() == path);
            match tightening {
                Some(step) if kept == self.most_in_argv || is_guards(&step) => {
                    split.guard.push((step, planned));
                }
                // The guard seals the masks that it makes.
                None if matches!(planned.mount, Mount::RemountReadOnly { .. }) && is_mask_of_guard(&split) => {}
                tightening => {
                    kept += usize::from(tightening.is_some());
                    split.bwrap.push(planned);
                }
            }
        }
        split
    }

    /// The directories around a mount that is bwrap's in any case. A mount of the guard, which
    /// comes later, would cover it.
    fn above_openings(&self) -> BTreeSet<AbsPath> {
        let is_pin = |planned: &&PlannedMount| matches!(planned.purpose, Purpose::Pin { .. });
        let is_seal = |planned: &&PlannedMount| matches!(planned.mount, Mount::RemountReadOnly { .. });
        let bwraps = self.mounts.iter().filter(|planned| !is_pin(planned) && !is_seal(planned));
        let bwraps = bwraps.filter(|planned| self.tightening(planned).is_none());
        bwraps.flat_map(|planned| planned.mount.path().ancestors().skip(1)).collect()
    }

    /// The guard's step for a mount that only takes something away from the host's view.
    fn tightening(&self, planned: &PlannedMount) -> Option<Tightening> {
        if !matches!(planned.purpose, Purpose::Rule(_)) {
            return None;
        }
        let around = self.view_around(planned.mount.path());
        match &planned.mount {
            Mount::MaskFile { path, on_missing } if around.shows_host() => Some(match on_missing {
                OnMissingSource::Skip => Tightening::MaskIfThere(path.clone()),
                OnMissingSource::Notice | OnMissingSource::Refuse => Tightening::Mask(path.clone()),
            }),
            // A test that switches off the seal of masks needs bwrap's masks.
            Mount::Tmpfs { path, mode: CLOSED } if around.shows_host() && !ablate::is_off(Mitigation::MaskSealed) => {
                Some(Tightening::Hide(path.clone()))
            }
            Mount::Bind { path, kind: BindKind::ReadOnly, .. } if around == View::HostRw => {
                Some(Tightening::ReadOnly(path.clone()))
            }
            _ => None,
        }
    }
}
