//! The view of the command at a path.

use std::fmt;

use crate::policy::{AbsPath, Access, PathMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    HostRw,
    HostRo,
    /// Hidden by a rule.
    Masked,
    /// A copy of the host's file without its credentials.
    Redacted,
    /// Another content, which an injection put there.
    Injected,
    /// An empty, writable private place.
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

    /// Whether a rule with this access would change nothing here. A fresh place shows nothing of
    /// the host, so there is nothing to hide.
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
            View::Masked | View::Redacted | View::Injected | View::Fresh | View::Dev | View::Proc => 0,
        };
        openness(self) < openness(other)
    }

    /// Whether the command sees the host here.
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
            View::Redacted => "redacted",
            View::Injected => "injected",
            View::Fresh => "private",
            View::Dev => "own /dev",
            View::Proc => "own /proc",
        })
    }
}

/// The view at `path`. `views` has an entry for each mount point; everything lies below a mount of
/// `/`.
pub(super) fn at(views: &PathMap<View>, path: &AbsPath) -> View {
    views.nearest(path).map_or(View::HostRo, |(_, view)| *view)
}

pub(super) fn above(views: &PathMap<View>, path: &AbsPath) -> View {
    views.nearest_above(path).map_or(View::HostRo, |(_, view)| *view)
}
