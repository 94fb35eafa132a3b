//! What the command finds at a path: the vocabulary of "already so".

use std::fmt;

use crate::policy::path::{AbsPath, Growing, PathMap, Sweep};
use crate::policy::rule::Access;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    HostRw,
    HostRo,
    /// Hidden by a rule.
    Masked,
    /// An empty, writable place of the sandbox's own.
    Fresh,
    Dev,
    Proc,
}

impl View {
    pub fn of(access: Access) -> Self {
        match access {
            Access::Rw => View::HostRw,
            Access::Ro => View::HostRo,
            Access::Exclude => View::Masked,
        }
    }

    /// Whether a rule with this access would change nothing here. Nothing of the host shows in a fresh place, so
    /// there is nothing to hide there.
    pub fn gives(self, access: Access) -> bool {
        match access {
            Access::Rw => self == View::HostRw,
            Access::Ro => self == View::HostRo,
            Access::Exclude => matches!(self, View::Masked | View::Fresh),
        }
    }

    /// Whether less can be read or written here than in `other`.
    pub(super) fn is_narrower_than(self, other: Self) -> bool {
        let openness = |view| match view {
            View::HostRw => 2,
            View::HostRo => 1,
            View::Masked | View::Fresh | View::Dev | View::Proc => 0,
        };
        openness(self) < openness(other)
    }

    /// Whether what the host has at a path shows here.
    pub fn shows_host(self) -> bool {
        matches!(self, View::HostRw | View::HostRo)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            View::HostRw => "rw",
            View::HostRo => "ro",
            View::Masked => "excluded",
            View::Fresh => "private",
            View::Dev => "own /dev",
            View::Proc => "own /proc",
        })
    }
}

/// What governs from a path downwards, as mounts are planned.
#[derive(Clone, Debug, Default)]
pub(super) struct Views(PathMap<View>);

impl Views {
    /// What is seen at `path`. Everything lies below a mount of `/`.
    pub(super) fn at(&self, path: &AbsPath) -> View {
        self.0.nearest(path).map_or(View::HostRo, |(_, view)| *view)
    }

    /// All of them, each with what is seen around it.
    pub(super) fn with_around(&self) -> impl Iterator<Item = (&AbsPath, View, View)> {
        let view = |found: Option<(&AbsPath, &View)>| found.map_or(View::HostRo, |(_, view)| *view);
        self.0.with_around().map(move |(path, here, around)| (path, *here, view(around)))
    }

    pub(super) fn borders(&self) -> impl Iterator<Item = &AbsPath> {
        self.0.iter().map(|(path, _)| path)
    }

    /// What is seen around `path`.
    pub(super) fn above(&self, path: &AbsPath) -> View {
        self.0.nearest_above(path).map_or(View::HostRo, |(_, view)| *view)
    }

    /// For who asks what is seen around paths, in their order.
    pub(super) fn sweep(&self) -> Sweep<'_, View> {
        self.0.sweep()
    }

    /// Something is mounted at `path`, and what was mounted below it is no longer seen.
    pub(super) fn cover(&mut self, path: AbsPath, view: View) {
        self.0.cover(path, view);
    }
}

/// What is seen while the mounts of rules are made over those of the base, which come first, in the order of their paths.
pub(super) struct Layering {
    /// Of the base, what is not reached yet.
    base: std::iter::Peekable<std::vec::IntoIter<(AbsPath, View)>>,
    seen: Growing<Layered>,
}

struct Layered {
    view: View,
    is_base: bool,
}

impl Layering {
    /// With room for the mounts of `count` rules.
    pub(super) fn over(base: Views, count: usize) -> Self {
        let seen = Growing::with_room(base.0.count() + count);
        Self { base: base.0.into_iter().peekable(), seen }
    }

    /// The mount point that governs `path`, and what is seen there.
    pub(super) fn at(&mut self, path: &AbsPath) -> Option<(&AbsPath, View)> {
        while let Some((at, view)) = self.base.next_if(|(at, _)| at <= path) {
            self.put_base(at, view);
        }
        self.seen.reach(path);
        self.seen.nearest().map(|(at, layered)| (at, layered.view))
    }

    /// Something is mounted at `path`, which was just asked for, and what the base has below it is no longer seen.
    pub(super) fn cover(&mut self, path: AbsPath, view: View) {
        self.seen.put(path, Layered { view, is_base: false });
    }

    pub(super) fn done(mut self) -> Views {
        while let Some((at, view)) = self.base.next() {
            self.put_base(at, view);
        }
        Views(self.seen.done().map(|layered| layered.view))
    }

    fn put_base(&mut self, path: AbsPath, view: View) {
        self.seen.reach(&path);
        if self.seen.nearest().is_none_or(|(_, around)| around.is_base) {
            self.seen.put(path, Layered { view, is_base: true });
        }
    }
}
