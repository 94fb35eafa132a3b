//! What a command may do at a path, read off the mounts of a plan.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::plan::{BindKind, Mount, Plan, PlannedMount, Purpose};
use crate::policy::path::{AbsPath, PathMap};
use crate::policy::rule::Access;

/// What a command finds, and what it may do with it as far as the sandbox has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effective {
    /// The host's, to read and to change.
    Rw,
    /// The host's, to read.
    Ro,
    /// Hidden: neither to read nor to change.
    Exclude,
    /// A place of the sandbox's own, empty at first, which goes with it.
    Private,
    /// The same, and the command can put nothing there.
    PrivateRo,
    /// The sandbox's own `/dev`.
    Dev,
    /// The sandbox's own `/proc`.
    Proc,
}

impl Effective {
    /// The access of a rule that this would be, for a colour.
    pub fn like(self) -> Access {
        match self {
            Effective::Rw | Effective::Private => Access::Rw,
            Effective::Ro | Effective::PrivateRo | Effective::Dev | Effective::Proc => Access::Ro,
            Effective::Exclude => Access::Exclude,
        }
    }

    /// Whether what the host has shows.
    pub fn shows_host(self) -> bool {
        matches!(self, Effective::Rw | Effective::Ro)
    }

    /// In words.
    pub fn meaning(self) -> &'static str {
        match self {
            Effective::Rw => "can be read and changed",
            Effective::Ro => "can be read, not changed",
            Effective::Exclude => "can be neither read nor changed",
            Effective::Private => "a place of the sandbox's own, empty at first, gone after the run",
            Effective::PrivateRo => "a place of the sandbox's own, in which nothing can be made",
            Effective::Dev => "the sandbox's own `/dev`, with a few harmless devices",
            Effective::Proc => "the sandbox's own `/proc`, with its own processes",
        }
    }
}

impl From<Access> for Effective {
    fn from(access: Access) -> Self {
        match access {
            Access::Rw => Effective::Rw,
            Access::Ro => Effective::Ro,
            Access::Exclude => Effective::Exclude,
        }
    }
}

/// As it is written in JSON.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Effective::Rw => "rw",
            Effective::Ro => "ro",
            Effective::Exclude => "exclude",
            Effective::Private => "private",
            Effective::PrivateRo => "private-ro",
            Effective::Dev => "dev",
            Effective::Proc => "proc",
        })
    }
}

/// The mounts that are seen when all of them are made.
pub struct Inside<'p> {
    mounts: PathMap<&'p PlannedMount>,
    sealed: BTreeSet<&'p AbsPath>,
    /// Everything that is mounted on, seen or not.
    points: BTreeSet<&'p AbsPath>,
}

impl<'p> Inside<'p> {
    /// The last mount that covers a path is the one that is seen.
    pub fn of(plan: &'p Plan) -> Self {
        let mut inside = Self { mounts: PathMap::default(), sealed: BTreeSet::new(), points: BTreeSet::new() };
        for planned in &plan.mounts {
            let path = planned.mount.path();
            match planned.mount {
                Mount::RemountReadOnly { .. } => _ = inside.sealed.insert(path),
                // In a file system that another mount has made.
                Mount::Directory { .. } => {}
                _ => {
                    inside.mounts.cover(path.clone(), planned);
                    inside.points.insert(path);
                }
            }
        }
        inside
    }

    /// The mount that shows `path`, which holds no symlinks.
    pub fn mount(&self, path: &AbsPath) -> Option<&'p PlannedMount> {
        self.mounts.nearest(path).map(|(_, planned)| *planned)
    }

    /// The mount points from which on something else is seen, parents first.
    pub fn seen(&self) -> impl Iterator<Item = &AbsPath> {
        self.mounts.keys()
    }

    pub fn at(&self, path: &AbsPath) -> Effective {
        // Everything lies below a read-only mount of `/`.
        self.mount(path).map_or(Effective::Ro, |planned| self.gives(planned))
    }

    /// What there is from the mount point downwards.
    pub fn gives(&self, planned: &PlannedMount) -> Effective {
        match &planned.mount {
            Mount::Bind { kind: BindKind::ReadOnly, .. }
            | Mount::OwnBinary { .. }
            | Mount::GuardPlan { .. }
            | Mount::Symlink { .. } => Effective::Ro,
            Mount::Bind { kind: BindKind::Writable | BindKind::WithDevices, .. } | Mount::SecondMount { .. } => {
                Effective::Rw
            }
            Mount::MaskFile { .. } | Mount::MaskSource { .. } => Effective::Exclude,
            // Git's copy of its list is there to be read.
            Mount::DataFile { .. } if planned.purpose == Purpose::Base => Effective::Ro,
            Mount::DataFile { .. } => Effective::Exclude,
            Mount::Tmpfs { .. } if planned.purpose != Purpose::Base => Effective::Exclude,
            Mount::Tmpfs { path, .. } if self.sealed.contains(path) => Effective::PrivateRo,
            Mount::Tmpfs { .. } => Effective::Private,
            // Neither shows anything of its own; see `of`.
            Mount::Directory { .. } | Mount::RemountReadOnly { .. } => Effective::PrivateRo,
            Mount::Dev { .. } => Effective::Dev,
            Mount::Proc { .. } => Effective::Proc,
        }
    }

    /// The directories on the way to `path` that the command can rename: what is mounted on cannot be (SPEC B12).
    pub fn movable(&self, path: &AbsPath) -> Vec<AbsPath> {
        let is_open = |directory: &AbsPath| self.at(directory) == Effective::Rw;
        let mut movable: Vec<AbsPath> = path
            .ancestors()
            .skip(1)
            .filter(|directory| directory.parent().is_some_and(|parent| is_open(&parent)))
            .filter(|directory| is_open(directory) && !self.points.contains(directory))
            .collect();
        movable.reverse();
        movable
    }
}
