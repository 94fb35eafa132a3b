//! The meaning of a bwrap argv, from its arguments alone.
//!
//! The model shares no code with the stages that produce an argv, so agreement between the two is
//! evidence and not repetition. The other half of the evidence is `tests/model_kernel`, which
//! compares the model with a process in a real sandbox.
//!
//! Semantics are those of bwrap 0.8. Operations apply in order. A later mount hides everything at
//! or below its mount point. A bind shows the *host's* tree as it was at the start, not the
//! sandbox's, with all its submounts. A read-only bind makes the submounts read-only too;
//! `--remount-ro` changes one mount only. A hidden mount still exists: a directory with a mount on
//! it cannot be renamed, wherever it is visible.
//!
//! The model assumes that the process inside owns all that the argv creates and has no
//! capabilities. That holds for ordinary users, and for uid 0 with `--unshare-user --cap-drop ALL`.

mod argv;
mod guard;
mod mounts;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use thiserror::Error;

use mounts::MountTree;

use crate::policy::{AbsPath, escape_for_display};

/// The meaning of one argv.
pub struct Model {
    mounts: MountTree,
    unshared: BTreeSet<Namespace>,
    /// The working directory of the command. Without `--chdir` it depends on where bwrap starts.
    pub cwd: Option<AbsPath>,
    variables: BTreeMap<OsString, OsString>,
    pub command: Vec<OsString>,
}

/// The state of a path for a process inside when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelView {
    /// The host's file or directory at `source`, if it exists. If `writable` is true, the mount
    /// allows writing; the host's own permissions still apply. Device nodes can be opened only with
    /// `devices`.
    Host {
        source: AbsPath,
        writable: bool,
        devices: bool,
    },
    /// The host's `/dev/null` through a bind without devices: it can be seen, and opening it gives
    /// EACCES.
    MaskedFile,
    /// A read-only file that belongs to the sandbox, with content that the caller provides.
    Data,
    /// A directory that the argv creates on a tmpfs. Not `writable`: nothing in it can change, not
    /// even its mode. `writable`: its owner can change it, if necessary after `chmod`.
    Fresh {
        mode: u32,
        writable: bool,
    },
    /// Nothing, on a tmpfs (or below a masked file); `creatable` if that tmpfs can be written.
    Absent {
        creatable: bool,
    },
    /// The directory `closed` on the way may not be searched (EACCES). `reopenable`: each such
    /// directory is on a writable tmpfs, so the process inside can make it searchable with
    /// `chmod`.
    Unreachable {
        closed: AbsPath,
        reopenable: bool,
    },
    /// A link that `--symlink` makes, at the path or on the way to it: ask again for its target.
    Symlink {
        at: AbsPath,
        target: OsString,
    },
    /// The sandbox's own `/dev`: a few harmless nodes on a writable tmpfs.
    Dev,
    Proc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Namespace {
    /// Implied for an ordinary user even without a flag.
    User,
    Ipc,
    Pid,
    Net,
    Uts,
    Cgroup,
}

impl Namespace {
    const ALL: [Namespace; 6] = [Self::User, Self::Ipc, Self::Pid, Self::Net, Self::Uts, Self::Cgroup];
}

/// Files that an argv names and whose content decides the meaning of the argv.
#[derive(Clone, Debug, Default)]
pub struct ModelFiles {
    pub contents: BTreeMap<AbsPath, Vec<u8>>,
    /// Files that no process can open.
    pub unreadable: BTreeSet<AbsPath>,
    pub descriptors: BTreeMap<i32, Vec<u8>>,
}

impl Model {
    /// Reads a whole command: `bwrap` (or a path to it) first, then flags up to `--`, then the
    /// command. A flag that the model does not know is an error. `exists` tells whether the source
    /// of a bind exists on the host.
    pub fn read<S: AsRef<OsStr>>(
        argv: &[S],
        files: &ModelFiles,
        exists: impl Fn(&AbsPath) -> bool,
    ) -> Result<Model, ModelError> {
        let argv::Invocation { operations, unshared, cwd, variables, mut command } = argv::read(argv)?;
        let mut mounts = MountTree::at_start();
        for (dest, operation) in operations {
            mounts.apply(&dest, operation, files, &exists)?;
        }
        if let Some(called) = guard::call(&command) {
            let plan = mounts.data_at(&AbsPath::root().join(guard::PLAN)).ok_or(ModelError::MissingPlan)?;
            for mount in guard::mounts(plan)? {
                mounts.apply_guard(mount, &exists)?;
            }
            command = called.to_vec();
        }
        Ok(Model { mounts, unshared, cwd, variables, command })
    }

    /// The state of `path`, which holds no symlink of the host, for a process inside.
    pub fn view(&self, path: &AbsPath) -> ModelView {
        self.mounts.view(path)
    }

    /// The content of agent-sandbox's own file that a process inside reads at `path`, if it is
    /// known.
    pub fn content(&self, path: &AbsPath) -> Option<&[u8]> {
        self.mounts.data_at(path).map(Vec::as_slice)
    }

    /// Whether the mounts let a process inside rename the directory at `path`, if necessary after
    /// `chmod` of a directory on a tmpfs. The kernel refuses to move a directory that has a mount
    /// on it in this mount namespace, even where that mount cannot be seen. The model does not
    /// know the host's own mounts; they can only refuse more.
    ///
    /// (Where there is no directory, and in `Dev` and `Proc`, which have rules of their own, the
    /// answer is no. The model also does not know whether the host has a directory there.)
    pub fn can_rename(&self, path: &AbsPath) -> bool {
        self.mounts.can_rename(path)
    }

    pub fn is_unshared(&self, namespace: Namespace) -> bool {
        self.unshared.contains(&namespace)
    }

    /// The command's environment when bwrap is started with `outer`. bwrap sets `PWD`; without
    /// `--chdir` the model keeps the value of `outer`.
    pub fn environment(&self, outer: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
        let own = self.cwd.iter().map(|cwd| ("PWD".into(), cwd.as_os_str().into()));
        outer.into_iter().chain(self.variables.clone()).chain(own).collect()
    }
}

/// The reason why an argv has no meaning here: bwrap would refuse it, or the model does not cover
/// it. The model never guesses, so a check that uses it must fail when the model cannot answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    #[error("the first argument is not `bwrap`")]
    NotBwrap,
    #[error("`{}` is not a bwrap flag that the model knows", escape_for_display(.flag))]
    UnknownFlag { flag: OsString },
    /// A known flag, used in a way whose effect depends on more than the argv.
    #[error("`{flag} {}` is not modelled: {why}", escape_for_display(.value))]
    NotModelled { flag: String, value: OsString, why: &'static str },
    #[error("`{flag}` lacks a value")]
    MissingValue { flag: String },
    #[error("`{flag} {}` is invalid: expected {expected}", escape_for_display(.value))]
    InvalidValue { flag: String, value: OsString, expected: &'static str },
    #[error("`{}` of `{flag}` is not an absolute path in normal form", escape_for_display(.value))]
    NotNormal { flag: String, value: OsString },
    /// A `--perms` that is not directly before the flag that it modifies.
    #[error("`--perms` does not apply to `{}`", escape_for_display(.before))]
    StrayPerms { before: OsString },
    /// A `--size` before a flag other than `--perms` and `--tmpfs`.
    #[error("`--size` does not apply to `{}`", escape_for_display(.before))]
    StraySize { before: OsString },
    #[error("`{flag}` needs `{needs}`")]
    Needs { flag: String, needs: &'static str },
    #[error("no command follows `--`")]
    NoCommand,
    /// bwrap counts the arguments of the command, and not its own name.
    #[error("bwrap takes at most {limit} arguments")]
    TooManyWords { limit: usize },
    #[error("`{path}` does not exist")]
    MissingSource { path: AbsPath },
    /// Something would have to be created on a tmpfs that is read-only by then.
    #[error("`{path}` cannot be made: the tmpfs at `{tmpfs}` is read-only by then")]
    ReadOnly { path: AbsPath, tmpfs: AbsPath },
    #[error("the guard's plan is not mounted, or its content is not known")]
    MissingPlan,
    #[error("the guard's plan makes no sense: {why}")]
    InvalidPlan { why: String },
    #[error("the guard finds nothing at `{path}` to mount on")]
    NothingThere { path: AbsPath },
    /// `--symlink` where the argv has already created something.
    #[error("`{path}` exists already")]
    Occupied { path: AbsPath },
}

#[cfg(test)]
mod tests;
