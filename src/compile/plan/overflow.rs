//! The mounts that bwrap's arguments have no room for (SPEC B14).
//!
//! bwrap reads the whole mount table for each bind, so its time grows with the square of their
//! number, and it takes at most 9,000 arguments. The guard's mounts cost microseconds, but the
//! guard can only tighten. bwrap makes the first [`MOST_IN_ARGV`] masks and read-only binds, and
//! the first [`MOST_IN_ARGV`] pins. The guard makes the others: a command can create any number of
//! paths that patterns match. The guard also masks the sockets of services, because a service can
//! remove its socket at any time: bwrap would then fail, or make a file in its place. A pin of the
//! guard is visible, so a file that moves across it is copied (EXDEV).

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::guard_plan::{Expectation, Expected, Tightening};
use crate::policy::AbsPath;
use crate::sys::ablate::{self, Mitigation};

use super::{BindKind, CLOSED, Mount, OnMissingSource, Plan, PlannedMount, Purpose, View};

/// The most masks and read-only binds, and the most pins, in bwrap's arguments. With 64 of them
/// bwrap's share of a start is as long as that of the default policy; with 128 it is three times as
/// long (benches/results).
pub const MOST_IN_ARGV: usize = 64;

/// The longest path that bwrap can mount. bwrap puts `/newroot` before a path, and the kernel
/// accepts paths of at most 4,095 bytes.
const LONGEST_OF_BWRAP: usize = 4080;

/// The mounts of a plan, by the program that makes them.
#[derive(Default)]
pub struct Split<'p> {
    pub bwrap: Vec<&'p PlannedMount>,
    pub guard: Vec<(Tightening, &'p PlannedMount)>,
    /// The mounts of bwrap that the guard must find. Empty without a guard.
    pub expect: Vec<Expected>,
}

impl Plan {
    /// Decides which program makes each mount. Without a guard, bwrap makes all of them.
    pub fn split(&self, guard: bool) -> Split<'_> {
        if !guard {
            return Split { bwrap: self.mounts.iter().collect(), ..Split::default() };
        }
        let mut expected = self.expected();
        let steps: Vec<Option<Tightening>> =
            self.mounts.iter().map(|planned| self.tightening(planned, &expected)).collect();
        let blocked = if self.mounts.len() > self.most_in_argv { self.above_openings(&steps) } else { BTreeSet::new() };
        let mut split = Split { bwrap: Vec::with_capacity(self.mounts.len()), ..Split::default() };
        let (mut masks, mut pins) = (0, 0);
        for (planned, step) in self.mounts.iter().zip(steps) {
            let path = &planned.path;
            let is_pin = matches!(step, Some(Tightening::Pin(_)));
            let count = if is_pin { &mut pins } else { &mut masks };
            match step.filter(|_| is_pin || !blocked.contains(path)) {
                Some(step) if *count == self.most_in_argv || is_guards(&step) => {
                    if !is_pin {
                        expected.remove(path);
                    }
                    split.guard.push((step, planned));
                }
                Some(_) => {
                    *count += 1;
                    split.bwrap.push(planned);
                }
                // The guard itself makes the directories that it hides read-only.
                None if is_seal(planned) && split.guard.last().is_some_and(|(step, _)| step.path() == path) => {}
                None => split.bwrap.push(planned),
            }
        }
        split.expect = expected.into_values().collect();
        split
    }

    /// The mounts that the guard must find before the command starts: one for each path at which
    /// the view changes.
    fn expected(&self) -> BTreeMap<AbsPath, Expected> {
        let with = |is: fn(&Mount) -> bool| -> BTreeSet<&AbsPath> {
            self.mounts.iter().filter(|planned| is(&planned.mount)).map(|planned| &planned.path).collect()
        };
        let may_be_missing = with(|mount| matches!(mount, Mount::MaskFile { on_missing: OnMissingSource::Skip }));
        let with_content = with(|mount| matches!(mount, Mount::DataFile { .. }));
        let second = self.mounts.iter().filter_map(|planned| match &planned.mount {
            Mount::SecondMount { source } | Mount::Injected { source } => Some((&planned.path, source)),
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
                View::Injected if ablate::is_off(Mitigation::InjectedReadOnly) => Expectation::Rw,
                View::HostRo | View::Injected => Expectation::Ro,
                View::Masked | View::Redacted => Expectation::Hidden,
                View::Fresh | View::Dev | View::Proc => Expectation::Own,
            };
            let required = view.is_narrower_than(view_around) && !may_be_missing.contains(path);
            let source = second.get(path).map(|source| (*source).clone());
            (path.clone(), Expected { path: path.clone(), access, required, source })
        });
        expected.collect()
    }

    /// The directories around a mount that only bwrap can make. A mount of the guard on such a
    /// directory would come later and cover that mount.
    fn above_openings(&self, steps: &[Option<Tightening>]) -> BTreeSet<AbsPath> {
        let mounts = self.mounts.iter().zip(steps);
        let bwraps = mounts.filter(|(planned, step)| step.is_none() && !is_seal(planned));
        bwraps.flat_map(|(planned, _)| planned.path.ancestors().skip(1)).collect()
    }

    /// The guard's step for a mount that only takes something away from the host's view.
    fn tightening(&self, planned: &PlannedMount, expected: &BTreeMap<AbsPath, Expected>) -> Option<Tightening> {
        let path = planned.path.clone();
        let step = match (&planned.purpose, &planned.mount) {
            (Purpose::Pin { .. }, _) => return Some(Tightening::Pin(path)),
            (Purpose::Rule(_), Mount::MaskFile { on_missing: OnMissingSource::Skip }) => {
                return self.view_around(&path).shows_host().then_some(Tightening::MaskIfThere(path));
            }
            (Purpose::Rule(_), Mount::MaskFile { .. }) => Tightening::Mask(path),
            // A test that switches off the seal of masks needs bwrap's masks.
            (Purpose::Rule(_), Mount::Tmpfs { mode: CLOSED }) if !ablate::is_off(Mitigation::MaskSealed) => {
                Tightening::Hide(path)
            }
            (Purpose::Rule(_), Mount::Bind { kind: BindKind::ReadOnly, .. }) => Tightening::ReadOnly(path),
            _ => return None,
        };
        (expected.get(step.path()) == step.expected().as_ref()).then_some(step)
    }
}

/// Whether only the guard can make a mount: a service may remove the path, or it is too long for
/// bwrap.
fn is_guards(step: &Tightening) -> bool {
    matches!(step, Tightening::MaskIfThere(_)) || step.path().as_os_str().len() > LONGEST_OF_BWRAP
}

fn is_seal(planned: &PlannedMount) -> bool {
    planned.mount == Mount::RemountReadOnly
}
