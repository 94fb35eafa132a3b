//! Which of the two stages makes a mount: bwrap, or the guard that comes after it.
//!
//! bwrap reads the whole mount table again for each bind, so its binds are quadratic; the guard's are not. The guard can only tighten, and
//! comes last, so it gets what takes something away and has nothing mounted in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::ablate::{self, Mitigation};
use crate::guard_plan::{Expectation, Expected, Tightening};
use crate::path::AbsPath;

use super::{BindKind, IfGone, Mount, Plan, Planned, Purpose, View};

/// The mounts of a plan, by who makes them.
pub struct Split<'p> {
    pub bwrap: Vec<&'p Planned>,
    pub guard: Vec<(Tightening, &'p Planned)>,
}

/// Where a mount lies.
#[derive(Clone, Copy)]
struct Place {
    /// Nothing is mounted in it.
    alone: bool,
    /// What is seen around it in the end, and in its place.
    around: View,
    here: View,
}

impl Plan {
    /// With `guard` off, everything is bwrap's.
    pub fn split(&self, guard: bool) -> Split<'_> {
        let mut split = Split { bwrap: Vec::new(), guard: Vec::new() };
        for (planned, place) in self.mounts.iter().zip(self.places()) {
            let alone = guard && place.alone;
            match Self::tightening(planned, place).filter(|_| alone) {
                Some(tightening) => split.guard.push((tightening, planned)),
                // Comes with the mask, which is the guard's.
                None if alone && matches!(planned.mount, Mount::Seal { .. }) && place.here == View::Masked => {}
                None => split.bwrap.push(planned),
            }
        }
        split
    }

    fn tightening(planned: &Planned, place: Place) -> Option<Tightening> {
        if !matches!(planned.purpose, Purpose::Rule(_)) {
            return None;
        }
        let around = place.around;
        match &planned.mount {
            Mount::MaskFile { path, if_gone: IfGone::Fail } if around.shows_host() => {
                Some(Tightening::Mask(path.clone()))
            }
            Mount::MaskFile { path, if_gone: IfGone::Skip } if around.shows_host() => {
                Some(Tightening::MaskIfThere(path.clone()))
            }
            // What a test switches off is bwrap's to leave out.
            Mount::Tmpfs { .. } if ablate::is_off(Mitigation::MaskDenied) || ablate::is_off(Mitigation::MaskSealed) => {
                None
            }
            Mount::Tmpfs { path, .. } if around.shows_host() && place.here == View::Masked => {
                Some(Tightening::Hide(path.clone()))
            }
            Mount::Bind { path, kind: BindKind::ReadOnly, .. } if around == View::HostRw => {
                Some(Tightening::ReadOnly(path.clone()))
            }
            _ => None,
        }
    }

    /// Where each mount lies, in their order. What is around them is found in one sweep.
    fn places(&self) -> Vec<Place> {
        let mut points: Vec<(&AbsPath, usize)> =
            self.mounts.iter().map(|planned| planned.mount.path()).zip(0..).collect();
        points.sort();
        let mut places = vec![Place { alone: true, around: View::HostRo, here: View::HostRo }; points.len()];
        let mut views = self.views.sweep();
        let mut points = points.chunk_by(|a, b| a.0 == b.0).peekable();
        while let Some(here) = points.next() {
            let path = here[0].0;
            let view = |found: Option<(_, &View)>| found.map_or(View::HostRo, |(_, view)| *view);
            let place = Place {
                alone: points.peek().is_none_or(|next| !next[0].0.is_within(path)),
                around: view(views.nearest_above(path)),
                here: view(views.nearest(path)),
            };
            here.iter().for_each(|(_, at)| places[*at] = place);
        }
        places
    }

    /// What the guard must find once all mounts are made.
    pub fn expected(&self) -> Vec<Expected> {
        let with = |is: fn(&Mount) -> bool| -> BTreeSet<&AbsPath> {
            self.mounts.iter().map(|planned| &planned.mount).filter(|mount| is(mount)).map(Mount::path).collect()
        };
        let may_go = with(|mount| matches!(mount, Mount::MaskFile { if_gone: IfGone::Skip, .. }));
        // A file of ours stands there, whatever the host has.
        let ours = with(|mount| matches!(mount, Mount::DataFile { .. }));
        let elsewhere: BTreeMap<&AbsPath, &AbsPath> =
            self.mounts.iter().filter_map(|planned| planned.mount.elsewhere()).collect();
        let expected = |(path, view, around): (&AbsPath, View, View)| Expected {
            path: path.clone(),
            access: match view {
                _ if ours.contains(path) => Expectation::Hidden,
                View::HostRw => Expectation::Rw,
                View::HostRo => Expectation::Ro,
                View::Masked => Expectation::Hidden,
                View::Fresh | View::Dev | View::Proc => Expectation::Own,
            },
            required: view.is_narrower_than(around) && !may_go.contains(path),
            identity: None,
            source: elsewhere.get(path).map(|source| (*source).clone()),
        };
        self.views.with_around().map(expected).collect()
    }
}
