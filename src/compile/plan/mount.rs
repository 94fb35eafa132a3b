//! The mounts of a plan: the content and the reason of each.

use crate::policy::{AbsPath, Access, Origin};

/// A mount in bwrap's terms, without the spelling of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// The host's file or directory of the same path.
    Bind {
        kind: BindKind,
        on_missing: OnMissingSource,
    },
    /// Our own executable, which is the guard.
    OwnBinary {
        executable: AbsPath,
    },
    /// Our text for the command. Its content follows from the whole policy, so `lower` fills it in.
    Readme,
    /// The guard's plan. Its content follows from all other mounts, so `lower` fills it in.
    GuardPlan,
    /// The file that all masked files show, for the guard to compare with.
    MaskSource,
    /// A file of the host that also appears here, writable.
    SecondMount {
        source: AbsPath,
    },
    /// The folder with the copies of this project's private files, writable.
    PrivateCopies {
        source: AbsPath,
    },
    /// Another file or directory of the host, read-only (SPEC J1).
    Injected {
        source: AbsPath,
    },
    Tmpfs {
        mode: u32,
    },
    /// An empty directory in a file system of ours.
    Directory {
        mode: u32,
    },
    /// A symlink in a file system of ours.
    Symlink {
        target: std::path::PathBuf,
    },
    /// A file of ours that cannot be opened, over a file.
    MaskFile {
        on_missing: OnMissingSource,
    },
    /// The root that bwrap starts with, an empty file system of ours. It needs no arguments.
    OwnRoot,
    /// A read-only file of ours with this content, over a file.
    DataFile {
        content: Vec<u8>,
    },
    /// Makes a file system of ours read-only, once everything in it is in place.
    RemountReadOnly,
    Dev,
    Proc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindKind {
    ReadOnly,
    Writable,
    /// Writable, and device nodes in it work.
    WithDevices,
}

/// The effect of a bind whose source is missing when bwrap mounts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissingSource {
    /// Nothing is mounted: a missing path has nothing to open or to hide.
    Skip,
    /// The guard notices, and the start is repeated. Without a guard bwrap fails.
    Notice,
    /// bwrap fails.
    Refuse,
}

#[derive(Clone, Debug)]
pub struct PlannedMount {
    pub path: AbsPath,
    pub mount: Mount,
    pub purpose: Purpose,
    pub because: Origin,
}

impl PlannedMount {
    pub(super) fn of_rule(path: AbsPath, mount: Mount, access: Access, because: &Origin) -> Self {
        Self { path, mount, purpose: Purpose::Rule(access), because: because.clone() }
    }
}

/// The purpose of a step of the set-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The step belongs to every sandbox.
    Base,
    /// The step makes a private place that a setting asks for.
    Own,
    Rule(Access),
    /// The step shows other content instead of the host's.
    Injection,
    /// The step keeps a directory from being moved, so that `keeps`, a path below it, stays where
    /// the rule says (SPEC B12). A writable bind covers the pin, so the command does not see it.
    Pin {
        keeps: AbsPath,
    },
}

impl Purpose {
    /// The purpose and the rule behind it, as text for people.
    pub fn explained(&self, because: &Origin) -> String {
        match self {
            Purpose::Base => because.to_string(),
            Purpose::Own => format!("own: {because}"),
            Purpose::Rule(access) => format!("{access}: {because}"),
            Purpose::Injection => format!("inject: {because}"),
            Purpose::Pin { keeps } => format!("pin: keeps `{keeps}` in its place, {because}"),
        }
    }
}
