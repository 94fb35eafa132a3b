//! What the command finds at a path: the vocabulary of "already so".

use std::fmt;

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

    /// Whether what the host has at a path shows here.
    pub fn shows_host(self) -> bool {
        matches!(self, View::HostRw | View::HostRo)
    }

    pub fn is_writable(self) -> bool {
        matches!(self, View::HostRw | View::Fresh)
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
