//! The access of a command at a path, in the coarse terms of a user.

use std::path::Path;

use agent_sandbox::model::{Model, ModelView as View};

use crate::scene::{HOME, Scene};
use crate::support::{abs, leads_to_copy};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The host's file, writable.
    Rw,
    /// The host's file, read-only.
    Ro,
    /// No file is visible, and none can be created.
    Hidden,
    /// A writable private place.
    Private,
    Dev,
    Proc,
}

impl Class {
    /// The access to the host: 0 for none, 1 for reading, 2 for writing.
    pub fn of_the_host(self) -> u8 {
        match self {
            Class::Hidden | Class::Private | Class::Dev | Class::Proc => 0,
            Class::Ro => 1,
            Class::Rw => 2,
        }
    }

    /// Whether both mean the same to a user. In a private `/tmp`, `/run` or home, a mask hides
    /// nothing more.
    pub fn means(self, other: Class, path: &Path, scene: &Scene) -> bool {
        let own_home = scene.has_own_places() && path.starts_with(HOME);
        let private_place = path.starts_with("/tmp") || path.starts_with("/run") || own_home;
        self == other || (private_place && self.of_the_host() == 0 && other.of_the_host() == 0)
    }
}

/// The access that the argv gives at `path`.
pub fn class(model: &Model, path: &Path) -> Class {
    match model.view(&abs(path)) {
        View::Host { source, writable, .. } => {
            assert_eq!(source.as_path(), path, "a bind shows another path");
            if writable { Class::Rw } else { Class::Ro }
        }
        View::Fresh { writable: true, .. } | View::Absent { creatable: true } => Class::Private,
        View::MaskedFile | View::Data | View::Fresh { writable: false, .. } | View::Absent { creatable: false } => {
            Class::Hidden
        }
        View::Unreachable { reopenable, .. } => {
            assert!(!reopenable, "{path:?} is hidden only until the command calls chmod");
            Class::Hidden
        }
        // The host's private file is read-only (SPEC Q1), and there is no path below it.
        View::Symlink { at, target } if path.starts_with(at.as_path()) && leads_to_copy(&target) => Class::Ro,
        // In a private home, a link on the way to a visible path exists (SPEC O4).
        View::Symlink { at, .. } if at.as_path() == path => match model.view(&at.parent().unwrap()) {
            View::Fresh { writable: true, .. } => Class::Private,
            View::Fresh { writable: false, .. } => Class::Hidden,
            view => panic!("unexpected link at {at}, in {view:?}"),
        },
        View::Symlink { at, .. } => panic!("unexpected link at {at}"),
        View::Dev => Class::Dev,
        View::Proc => Class::Proc,
    }
}
