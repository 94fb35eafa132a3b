//! Which of the two stages makes a mount: bwrap, or the guard that comes after it.
//!
//! bwrap reads the whole mount table again for each bind, so its binds are quadratic; the guard's are not. So bwrap makes what must
//! be there before the guard starts: the root, `/proc`, and what is mounted in that, where nothing of the host is left to take it from.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::bytes::Word;
use crate::guard_plan::{Expectation, Expected, GuardMount};
use crate::path::AbsPath;
use crate::places;

use super::{BindKind, CLOSED, IfGone, Mount, Plan, Planned, Purpose, View};

/// The mounts of a plan, by who makes them.
pub struct Split<'p> {
    pub bwrap: Vec<&'p Planned>,
    pub guard: Vec<(GuardMount, &'p Planned)>,
}

impl Plan {
    /// With `guard` off, everything is bwrap's.
    pub fn split(&self, guard: bool) -> Split<'_> {
        let mut split = Split { bwrap: Vec::new(), guard: Vec::with_capacity(self.mounts.len()) };
        let proc = places::at(places::PROC);
        let is_bwraps = |path: &AbsPath| path.is_root() || path.is_within(&proc);
        let mut mounts = self.mounts.iter().peekable();
        while let Some(planned) = mounts.next() {
            if !guard || is_bwraps(planned.mount.path()) {
                split.bwrap.push(planned);
                continue;
            }
            // A mask in which nothing is mounted: one step instead of two.
            let hides = matches!(&planned.mount, Mount::Tmpfs { mode: CLOSED, .. });
            let seals = |next: &Mount| matches!(next, Mount::Seal { path } if path == planned.mount.path());
            let mount = match mounts.next_if(|next| hides && seals(&next.mount)) {
                Some(_) => Some(GuardMount::Hide(planned.mount.path().clone())),
                None => by_guard(planned),
            };
            match mount {
                Some(mount) => split.guard.push((mount, planned)),
                None => split.bwrap.push(planned),
            }
        }
        split
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

/// `None` for what only bwrap can make.
fn by_guard(planned: &Planned) -> Option<GuardMount> {
    let path = planned.mount.path().clone();
    Some(match &planned.mount {
        Mount::Bind { .. } if matches!(planned.purpose, Purpose::Pin { .. }) => GuardMount::Pin(path),
        Mount::Bind { kind, if_gone, .. } => match (kind, if_gone) {
            (BindKind::ReadOnly, IfGone::Fail) => GuardMount::ReadOnly(path),
            (BindKind::ReadOnly, IfGone::Skip) => GuardMount::ReadOnlyIfThere(path),
            (BindKind::Writable, IfGone::Fail) => GuardMount::Writable(path),
            (BindKind::Writable, IfGone::Skip) => GuardMount::WritableIfThere(path),
            (BindKind::WithDevices, IfGone::Fail) => GuardMount::WithDevices(path),
            (BindKind::WithDevices, IfGone::Skip) => GuardMount::WithDevicesIfThere(path),
        },
        Mount::OwnBinary { executable: source, .. } | Mount::Elsewhere { source, .. } => {
            GuardMount::From { path, source: source.clone() }
        }
        Mount::MaskFile { if_gone: IfGone::Fail, .. } => GuardMount::Mask(path),
        Mount::MaskFile { if_gone: IfGone::Skip, .. } => GuardMount::MaskIfThere(path),
        Mount::Tmpfs { mode, .. } => GuardMount::Tmpfs { path, mode: *mode },
        Mount::Directory { mode, .. } => GuardMount::Directory { path, mode: *mode },
        Mount::Symlink { target, .. } => GuardMount::Symlink { path, target: Word(target.clone().into()) },
        Mount::DataFile { content, .. } => {
            GuardMount::Data { path, content: Word(OsString::from_vec(content.clone())) }
        }
        Mount::Seal { .. } => GuardMount::Seal(path),
        Mount::Dev { .. } => GuardMount::Dev(path),
        Mount::Proc { .. } => return None,
    })
}
