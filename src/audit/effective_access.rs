//! The access that a command has at a path, as the mounts of a plan give it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::decide::Decision;
use crate::compile::plan::{BindKind, Mount, Plan, PlannedMount, Purpose, View};
use crate::policy::{AbsPath, Access, PathMap};

/// The file or folder that a command finds at a path, and the access that the sandbox gives to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename = "Effective", rename_all = "kebab-case")]
pub enum EffectiveAccess {
    /// The host's file or folder, which the command can read and change.
    Rw,
    /// The host's file or folder, which the command can read.
    Ro,
    /// Hidden: the command can neither read nor change it.
    Exclude,
    /// A copy of the host's file without its credentials, which the command can read.
    Redacted,
    /// Another file or folder, or a text, which the policy injects here. The command can read it.
    Injected,
    /// A copy of the host's file, kept for this project, which the command can read and change.
    PrivateFile,
    /// A private folder, empty at the start and removed after the run.
    Private,
    /// A private folder, in which the command can create nothing.
    PrivateRo,
    /// The sandbox's own `/dev`.
    Dev,
    /// The sandbox's own `/proc`.
    Proc,
}

impl EffectiveAccess {
    pub fn shows_host(self) -> bool {
        matches!(self, EffectiveAccess::Rw | EffectiveAccess::Ro)
    }

    /// The access that `decision` gives at `path`.
    pub(super) fn of_decision(path: &AbsPath, decision: &Decision) -> Self {
        match decision.is_own_place() {
            true if path.is_root() => EffectiveAccess::PrivateRo,
            true => EffectiveAccess::Private,
            false => decision.access.into(),
        }
    }

    pub fn meaning(self) -> &'static str {
        match self {
            EffectiveAccess::Rw => "can be read and changed",
            EffectiveAccess::Ro => "can be read, not changed",
            EffectiveAccess::Exclude => "can be neither read nor changed",
            EffectiveAccess::Redacted => "a copy without its credentials can be read, not changed",
            EffectiveAccess::Injected => "the injected content can be read; the host's file is not visible",
            EffectiveAccess::PrivateFile => {
                "a copy for this project can be read and changed; the host's file stays as \
                                             it is"
            }
            EffectiveAccess::Private => "a private folder, empty at first, gone after the run",
            EffectiveAccess::PrivateRo => "a private folder, in which nothing can be created",
            EffectiveAccess::Dev => "the sandbox's own `/dev`, with a few harmless devices",
            EffectiveAccess::Proc => "the sandbox's own `/proc`, with its own processes",
        }
    }
}

impl From<Access> for EffectiveAccess {
    fn from(access: Access) -> Self {
        match access {
            Access::Rw => EffectiveAccess::Rw,
            Access::Ro => EffectiveAccess::Ro,
            Access::Exclude => EffectiveAccess::Exclude,
        }
    }
}

/// The mounts of a plan that are visible when all of them are made.
pub struct VisibleMounts<'p> {
    plan: &'p Plan,
    mounts: PathMap<&'p PlannedMount>,
    read_only: BTreeSet<&'p AbsPath>,
    /// Paths of private files, at which the guard mounts links.
    links: BTreeSet<&'p AbsPath>,
    /// Every mount point, visible or not.
    points: BTreeSet<&'p AbsPath>,
}

impl<'p> VisibleMounts<'p> {
    /// The last mount that covers a path is the visible one.
    pub fn of(plan: &'p Plan) -> Self {
        let links = plan.links.iter().map(|link| &link.path).collect();
        let (mounts, read_only, points) = Default::default();
        let mut visible = Self { plan, mounts, read_only, links, points };
        for planned in &plan.mounts {
            let path = &planned.path;
            match planned.mount {
                Mount::RemountReadOnly => _ = visible.read_only.insert(path),
                // A created directory lies in a file system that another mount has made, so the
                // access does not change.
                Mount::Directory { .. } => {}
                _ => {
                    visible.mounts.cover(path.clone(), planned);
                    visible.points.insert(path);
                }
            }
        }
        visible
    }

    /// The mount that shows `path`, which holds no symlinks.
    pub fn showing(&self, path: &AbsPath) -> Option<&'p PlannedMount> {
        self.mounts.nearest(path).map(|(_, planned)| *planned)
    }

    /// The visible mount points, parents first.
    pub fn points(&self) -> impl Iterator<Item = &AbsPath> {
        self.mounts.keys()
    }

    pub fn access(&self, path: &AbsPath) -> EffectiveAccess {
        if self.links.contains(path) {
            return EffectiveAccess::PrivateFile;
        }
        // Everything lies below a read-only mount of `/`.
        self.showing(path).map_or(EffectiveAccess::Ro, |planned| self.access_by(planned))
    }

    /// The access that `planned` gives at its mount point and below.
    pub fn access_by(&self, planned: &PlannedMount) -> EffectiveAccess {
        let view = self.plan.view(&planned.path);
        match &planned.mount {
            Mount::Bind { kind: BindKind::ReadOnly, .. }
            | Mount::OwnBinary { .. }
            | Mount::GuardPlan
            | Mount::Readme
            | Mount::Symlink { .. } => EffectiveAccess::Ro,
            Mount::Bind { .. } | Mount::SecondMount { .. } | Mount::PrivateCopies { .. } => EffectiveAccess::Rw,
            Mount::MaskFile { .. } | Mount::MaskSource => EffectiveAccess::Exclude,
            // The copy of git's `info/exclude` is readable.
            Mount::DataFile { .. } if planned.purpose == Purpose::Base => EffectiveAccess::Ro,
            Mount::Injected { .. } => EffectiveAccess::Injected,
            Mount::DataFile { .. } if view == View::Injected => EffectiveAccess::Injected,
            Mount::DataFile { .. } if view == View::Redacted => EffectiveAccess::Redacted,
            Mount::DataFile { .. } => EffectiveAccess::Exclude,
            Mount::Tmpfs { .. } if matches!(planned.purpose, Purpose::Rule(_)) && view != View::Fresh => {
                EffectiveAccess::Exclude
            }
            Mount::Tmpfs { .. } if self.read_only.contains(&planned.path) => EffectiveAccess::PrivateRo,
            Mount::Tmpfs { .. } => EffectiveAccess::Private,
            // `of` records neither directories nor remounts. The sandbox's own root is read-only.
            Mount::Directory { .. } | Mount::RemountReadOnly | Mount::OwnRoot => EffectiveAccess::PrivateRo,
            Mount::Dev => EffectiveAccess::Dev,
            Mount::Proc => EffectiveAccess::Proc,
        }
    }

    /// The directories on the way to `path` that the command can rename. A mount point cannot be
    /// renamed (SPEC B12).
    pub fn movable(&self, path: &AbsPath) -> Vec<AbsPath> {
        let is_open = |directory: &AbsPath| self.access(directory) == EffectiveAccess::Rw;
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
