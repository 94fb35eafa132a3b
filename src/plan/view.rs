//! What the command finds at a path: the vocabulary of "already so".

use std::fmt;

use crate::path::{AbsPath, PathMap};
use crate::rule::Access;

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

    pub(super) fn iter(&self) -> impl Iterator<Item = (&AbsPath, &View)> {
        self.0.iter()
    }

    pub(super) fn borders(&self) -> impl Iterator<Item = &AbsPath> {
        self.0.iter().map(|(path, _)| path)
    }

    /// The mount point that governs what lies around `path`.
    pub(super) fn source_above(&self, path: &AbsPath) -> Option<&AbsPath> {
        self.0.nearest_above(path).map(|(at, _)| at)
    }

    /// Something is mounted at `path`, and what was mounted below it is no longer seen.
    pub(super) fn cover(&mut self, path: AbsPath, view: View) {
        let hidden: Vec<AbsPath> = self.0.below(&path).map(|(at, _)| at.clone()).collect();
        for at in hidden {
            self.0.remove(&at);
        }
        self.0.insert(path, view);
    }
}
