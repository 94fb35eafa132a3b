//! What a bwrap argv means, from its words alone.
//!
//! This shares nothing with the stages that produce an argv, so that agreement between the two is
//! evidence and not repetition. The other half of the evidence is `tests/model_kernel`, which
//! compares the model with what a process in a real sandbox finds.
//!
//! Semantics are those of bwrap 0.8. Operations apply in order. A later mount hides everything at
//! or below its mount point. A bind shows the *host's* tree as it was at the start, not the
//! sandbox's, with all its submounts. A read-only bind makes the submounts read-only too;
//! `--remount-ro` changes one mount only. What is hidden is still there: a directory with a mount
//! on it cannot be renamed, wherever it shows.
//!
//! The process inside is taken to be the owner of what the argv makes, without capabilities. That
//! holds for ordinary users, and for uid 0 with `--unshare-user --cap-drop ALL`.

mod error;
mod guard;
mod mounts;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

pub use error::ModelError;
use mounts::{DataSource, Mounts};

use crate::policy::path::AbsPath;

/// The meaning of one argv.
pub struct Model {
    mounts: Mounts,
    unshared: BTreeSet<Namespace>,
    cwd: Option<AbsPath>,
    environment: Vec<EnvironmentChange>,
    command: Vec<OsString>,
}

/// What a process inside finds at a path when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Whatever the host has at `source`, if anything. `writable` is the mount's word; the host's
    /// own permissions still apply. Device nodes can be opened only with `devices`.
    Host { source: AbsPath, writable: bool, devices: bool },
    /// The host's `/dev/null` through a bind without devices: it can be seen, and opening it gives
    /// EACCES.
    MaskedFile,
    /// A read-only file of the sandbox's own, with what the caller passed by a descriptor.
    Data,
    /// A directory that the argv made on a tmpfs. Not `writable`: nothing in it can change, not
    /// even its mode. `writable`: its owner can change it, if need be after `chmod`.
    Fresh { mode: u32, writable: bool },
    /// Nothing, on a tmpfs (or below a masked file); `creatable` if that tmpfs can be written.
    Absent { creatable: bool },
    /// A directory on the way, `closed`, may not be searched (EACCES, whatever is there).
    /// `reopenable`: each such directory is on a writable tmpfs, so `chmod` by the process inside
    /// opens the way.
    Unreachable { closed: AbsPath, reopenable: bool },
    /// A link that `--symlink` made, at the path or on the way to it: ask again for where it leads.
    Symlink { at: AbsPath, target: OsString },
    /// The sandbox's own `/dev`: a few harmless nodes on a writable tmpfs.
    Dev,
    /// The sandbox's own `/proc`.
    Proc,
}

impl View {
    /// A process inside can change what is here, or make something here, and the mounts let it.
    /// (For `Dev` and `Proc`, which have rules of their own, the answer is no.)
    pub fn is_writable(&self) -> bool {
        match self {
            View::Host { writable, .. } | View::Fresh { writable, .. } => *writable,
            View::Absent { creatable } => *creatable,
            View::MaskedFile
            | View::Data
            | View::Unreachable { .. }
            | View::Symlink { .. }
            | View::Dev
            | View::Proc => false,
        }
    }
}

/// What bwrap can give the sandbox an instance of its own.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentChange {
    Set { name: OsString, value: OsString },
    Unset { name: OsString },
    Clear,
}

/// Files that an argv names and whose content decides what the argv means.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Contents by path.
    pub contents: BTreeMap<AbsPath, Vec<u8>>,
    /// Files that no process can open.
    pub unreadable: BTreeSet<AbsPath>,
    /// Contents by file descriptor.
    pub descriptors: BTreeMap<i32, Vec<u8>>,
}

impl Model {
    /// Reads a whole command: `bwrap` (or a path to it) first, then flags up to `--`, then the
    /// command. A flag that is not understood is an error, never ignored. Each bind's source is
    /// taken to exist.
    pub fn read<S: AsRef<OsStr>>(words: &[S]) -> Result<Model, ModelError> {
        Self::read_with(words, |_| true)
    }

    /// Like [`Model::read`], for a host where a bind's source exists as `exists` says.
    pub fn read_with<S: AsRef<OsStr>>(words: &[S], exists: impl Fn(&AbsPath) -> bool) -> Result<Model, ModelError> {
        Self::read_whole(words, &Files::default(), exists)
    }

    /// Like [`Model::read_with`], with the files that the arguments name and whose content decides.
    pub fn read_whole<S: AsRef<OsStr>>(
        words: &[S],
        files: &Files,
        exists: impl Fn(&AbsPath) -> bool,
    ) -> Result<Model, ModelError> {
        let mut invocation = words::read(words)?;
        let mut mounts = Mounts::at_start();
        for operation in &invocation.operations {
            mounts.apply(operation, files, &exists)?;
        }
        if let Some(power) = invocation.powers.first() {
            // CAP_SYS_ADMIN unmounts a mask, CAP_DAC_OVERRIDE walks through a directory of mode
            // 0000.
            return Err(ModelError::NotModelled {
                flag: "--cap-add".to_owned(),
                value: power.clone(),
                why: "a capability may undo what the mounts say",
            });
        }
        if let Some(command) = guard::call(&invocation.command) {
            let plan = mounts.data_at(&AbsPath::root().join(guard::PLAN)).and_then(|source| match source {
                DataSource::File(path) => files.contents.get(path),
                DataSource::Descriptor(number) => files.descriptors.get(number),
            });
            for step in guard::steps(plan.ok_or(ModelError::MissingPlan)?)? {
                mounts.apply_step(&step, &exists)?;
            }
            invocation.command = command.to_vec();
        }
        Ok(Model {
            mounts,
            unshared: invocation.unshared,
            cwd: invocation.cwd,
            environment: invocation.environment,
            command: invocation.command,
        })
    }

    /// What a process inside finds at `path`, which holds no symlink of the host.
    pub fn view(&self, path: &AbsPath) -> View {
        self.mounts.view(path)
    }

    /// Whether a process inside can rename the directory at `path`, as far as mounts have a say, if
    /// need be after `chmod` of what is on a tmpfs. The kernel refuses to move what something is
    /// mounted on in this mount namespace, even where that mount cannot be seen. Mounts of the
    /// host's own are not known here; they can only refuse more.
    ///
    /// (Where there is no directory, and in `Dev` and `Proc`, which have rules of their own, the
    /// answer is no. Whether the host has a directory there is not known here, either.)
    pub fn can_rename(&self, path: &AbsPath) -> bool {
        self.mounts.can_rename(path)
    }

    /// The network is the host's.
    pub fn network(&self) -> bool {
        !self.is_unshared(Namespace::Net)
    }

    pub fn is_unshared(&self, namespace: Namespace) -> bool {
        self.unshared.contains(&namespace)
    }

    /// Where the command starts. Without `--chdir` that depends on where bwrap is started.
    pub fn cwd(&self) -> Option<&AbsPath> {
        self.cwd.as_ref()
    }

    /// `--setenv`, `--unsetenv` and `--clearenv` as written.
    pub fn environment_changes(&self) -> &[EnvironmentChange] {
        &self.environment
    }

    /// The command's environment when bwrap is started with `outer`. bwrap sets `PWD` last, so no
    /// `--setenv` reaches it; without `--chdir` its value is not known here and `outer`'s is left.
    pub fn environment(&self, outer: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
        let mut environment: BTreeMap<OsString, OsString> = outer.into_iter().collect();
        for change in &self.environment {
            match change {
                EnvironmentChange::Set { name, value } => {
                    environment.insert(name.clone(), value.clone());
                }
                EnvironmentChange::Unset { name } => _ = environment.remove(name),
                EnvironmentChange::Clear => environment.clear(),
            }
        }
        if let Some(cwd) = &self.cwd {
            environment.insert("PWD".into(), cwd.as_os_str().into());
        }
        environment
    }

    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

#[cfg(test)]
mod tests;
