//! The mounts that a process inside can see, after each operation in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::guard::Step;
use super::words::{BindKind, IfMissing, Modes, Operation};
use super::{Files, ModelError, View};
use crate::policy::path::AbsPath;

/// Nothing is ever unmounted, so what governs a path is the deepest visible mount at or above it.
pub(super) struct Mounts {
    /// By mount point. One that a later mount hides is no longer here.
    visible: BTreeMap<AbsPath, Mount>,
    /// What of the host has something mounted on it, visible or not. A mount sits on a directory of
    /// a file system, not on a path of the sandbox: this is that directory's path on the host, and
    /// no bind that shows it can move it.
    ///
    /// (Directories of a tmpfs need no such list. A tmpfs is shown in one place only, so as long as
    /// one of its directories can be seen, a mount on it can be seen too.)
    covered: BTreeSet<AbsPath>,
}

enum Mount {
    Bind {
        source: AbsPath,
        kind: BindKind,
    },
    Tmpfs(Tmpfs),
    Dev,
    Proc,
    /// A read-only file with content of ours.
    Data(DataSource),
    /// A read-only file that no process inside can open.
    Masked,
}

/// Where the content of a file of ours comes from.
#[derive(Clone)]
pub(super) enum DataSource {
    File(AbsPath),
    Descriptor(i32),
}

/// Nodes are keyed by where they are inside the sandbox; the root of the tmpfs is one of them. Only
/// what the argv makes is here. A regular file never is: bwrap makes files only as mount points.
struct Tmpfs {
    nodes: BTreeMap<AbsPath, Node>,
    writable: bool,
}

enum Node {
    Directory { mode: u32 },
    Symlink { target: OsString },
}

impl Tmpfs {
    fn mounted_at(path: &AbsPath, mode: u32) -> Self {
        let root = (path.clone(), Node::Directory { mode });
        Self { nodes: BTreeMap::from([root]), writable: true }
    }
}

impl Mounts {
    /// bwrap starts with an empty tmpfs for the root, writable and of mode 0755.
    pub(super) fn at_start() -> Self {
        let root = AbsPath::root();
        let tmpfs = Tmpfs::mounted_at(&root, Modes::DEFAULT.own);
        Self { visible: BTreeMap::from([(root, Mount::Tmpfs(tmpfs))]), covered: BTreeSet::new() }
    }

    pub(super) fn apply(
        &mut self,
        operation: &Operation,
        files: &Files,
        exists: &impl Fn(&AbsPath) -> bool,
    ) -> Result<(), ModelError> {
        match operation {
            Operation::Bind { source, dest, kind: BindKind::ReadOnly, .. } if files.unreadable.contains(source) => {
                self.mount(dest, Modes::MOUNT_POINT, Mount::Masked)
            }
            Operation::Bind { source, dest, kind: BindKind::ReadOnly, .. } if files.contents.contains_key(source) => {
                self.mount(dest, Modes::MOUNT_POINT, Mount::Data(DataSource::File(source.clone())))
            }
            Operation::Bind { source, dest, kind, if_missing } => {
                if !exists(source) {
                    return match if_missing {
                        IfMissing::Skip => Ok(()),
                        IfMissing::Refuse => Err(ModelError::MissingSource { source: source.clone() }),
                    };
                }
                let bind = Mount::Bind { source: source.clone(), kind: *kind };
                self.mount(dest, Modes::MOUNT_POINT, bind)
            }
            Operation::Tmpfs { dest, modes } => {
                self.mount(dest, *modes, Mount::Tmpfs(Tmpfs::mounted_at(dest, modes.own)))
            }
            Operation::Dev { dest } => self.mount(dest, Modes::MOUNT_POINT, Mount::Dev),
            Operation::Proc { dest } => self.mount(dest, Modes::MOUNT_POINT, Mount::Proc),
            Operation::Data { descriptor, dest } => {
                self.mount(dest, Modes::MOUNT_POINT, Mount::Data(DataSource::Descriptor(*descriptor)))
            }
            Operation::Directory { dest, modes } => {
                self.make_parents(dest, modes.parents)?;
                self.make_directory(dest, modes.own)
            }
            Operation::Symlink { target, dest } => self.symlink(target, dest),
            Operation::RemountReadOnly { dest } => self.remount_read_only(dest),
        }
    }

    /// Applies a mount of the guard, which mounts on paths of the host that it can open.
    pub(super) fn apply_step(&mut self, step: &Step, exists: &impl Fn(&AbsPath) -> bool) -> Result<(), ModelError> {
        let (path, if_there) = match step {
            Step::Mask { path, if_there } => (path, *if_there),
            Step::Hide(path) | Step::ReadOnly(path) | Step::Pin(path) => (path, false),
        };
        let Some(source) = self.shown(path, exists) else {
            return if if_there { Ok(()) } else { Err(ModelError::NothingThere { path: path.clone() }) };
        };
        let mount = match step {
            Step::Mask { .. } => Mount::Masked,
            Step::Hide(_) => Mount::Tmpfs(Tmpfs { writable: false, ..Tmpfs::mounted_at(path, 0o000) }),
            Step::ReadOnly(_) => Mount::Bind { source, kind: BindKind::ReadOnly },
            // The bind takes along the mounts below it, so only the directory itself changes.
            Step::Pin(_) => {
                self.covered.insert(source);
                return Ok(());
            }
        };
        self.mount(path, Modes::MOUNT_POINT, mount)
    }

    /// The file of ours that is seen at `path`.
    pub(super) fn data_at(&self, path: &AbsPath) -> Option<&DataSource> {
        match self.visible.get(path) {
            Some(Mount::Data(source)) => Some(source),
            _ => None,
        }
    }

    /// What of the host is seen at `path`, if it exists.
    fn shown(&self, path: &AbsPath, exists: &impl Fn(&AbsPath) -> bool) -> Option<AbsPath> {
        match self.view_of_reached(path) {
            View::Host { source, .. } => Some(source).filter(|source| exists(source)),
            _ => None,
        }
    }

    /// What is at `path` for a process that owns the tmpfs directories and has no capabilities.
    pub(super) fn view(&self, path: &AbsPath) -> View {
        let mut reopenable = None;
        for step in parents_from_root(path) {
            let Some((_, Mount::Tmpfs(tmpfs))) = self.governing(&step) else {
                continue;
            };
            match tmpfs.nodes.get(&step) {
                Some(Node::Directory { mode }) if mode & 0o100 != 0 => {}
                Some(Node::Directory { .. }) if tmpfs.writable => {
                    reopenable.get_or_insert(step);
                }
                Some(Node::Directory { .. }) => {
                    return View::Unreachable { closed: step, reopenable: false };
                }
                Some(Node::Symlink { target }) if reopenable.is_none() => {
                    return View::Symlink { at: step, target: target.clone() };
                }
                Some(Node::Symlink { .. }) | None => break,
            }
        }
        match reopenable {
            Some(closed) => View::Unreachable { closed, reopenable: true },
            None => self.view_of_reached(path),
        }
    }

    fn view_of_reached(&self, path: &AbsPath) -> View {
        match self.governing(path) {
            Some((at, Mount::Bind { source, kind })) => view_of_bind(at, source, *kind, path),
            Some((_, Mount::Tmpfs(tmpfs))) => match tmpfs.nodes.get(path) {
                Some(Node::Directory { mode }) => View::Fresh { mode: *mode, writable: tmpfs.writable },
                Some(Node::Symlink { target }) => View::Symlink { at: path.clone(), target: target.clone() },
                None => View::Absent { creatable: tmpfs.writable },
            },
            Some((_, Mount::Dev)) => View::Dev,
            Some((_, Mount::Proc)) => View::Proc,
            Some((at, Mount::Data(_))) if at == path => View::Data,
            Some((at, Mount::Masked)) if at == path => View::MaskedFile,
            Some((_, Mount::Data(_) | Mount::Masked)) => View::Absent { creatable: false },
            // Never: something is mounted at the root from the start.
            None => View::Absent { creatable: false },
        }
    }

    /// Whether a directory at `path` can be renamed. What is mounted below it does not hinder that.
    pub(super) fn can_rename(&self, path: &AbsPath) -> bool {
        if matches!(self.view(path), View::Unreachable { reopenable: false, .. } | View::Symlink { .. }) {
            return false;
        }
        match self.governing(path) {
            // What is on another mount than its parent is where that is mounted.
            Some((at, _)) if at == path => false,
            Some((at, Mount::Bind { source, kind })) => {
                !matches!(kind, BindKind::ReadOnly) && !self.covered.contains(&shown_by_bind(at, source, path))
            }
            Some((_, Mount::Tmpfs(Tmpfs { nodes, writable }))) => {
                *writable && matches!(nodes.get(path), Some(Node::Directory { .. }))
            }
            Some((_, Mount::Dev | Mount::Proc | Mount::Data(_) | Mount::Masked)) | None => false,
        }
    }

    fn governing(&self, path: &AbsPath) -> Option<(&AbsPath, &Mount)> {
        path.ancestors().find_map(|at| self.visible.get_key_value(&at))
    }

    fn mount(&mut self, dest: &AbsPath, modes: Modes, mount: Mount) -> Result<(), ModelError> {
        self.make_parents(dest, modes.parents)?;
        self.make_directory(dest, modes.own)?;
        if let Some((at, Mount::Bind { source, .. })) = self.governing(dest) {
            let covered = shown_by_bind(at, source, dest);
            self.covered.insert(covered);
        }
        let from_dest = self.visible.range::<AbsPath, _>(dest..).map(|(at, _)| at);
        let hidden: Vec<AbsPath> = from_dest.take_while(|at| at.is_within(dest)).cloned().collect();
        for at in hidden {
            self.visible.remove(&at);
        }
        self.visible.insert(dest.clone(), mount);
        Ok(())
    }

    fn symlink(&mut self, target: &OsString, dest: &AbsPath) -> Result<(), ModelError> {
        self.make_parents(dest, Modes::MOUNT_POINT.parents)?;
        let Some((at, Tmpfs { nodes, writable })) = self.governing_tmpfs(dest) else {
            return Err(not_modelled("--symlink", dest, "it would be made outside a tmpfs"));
        };
        match nodes.get(dest) {
            Some(Node::Symlink { target: same }) if same == target => {
                let why = "the same link twice is an error to some versions of bwrap only";
                return Err(not_modelled("--symlink", dest, why));
            }
            Some(_) => return Err(ModelError::Occupied { path: dest.clone() }),
            None => {}
        }
        if !*writable {
            return Err(ModelError::ReadOnly { path: dest.clone(), tmpfs: at });
        }
        nodes.insert(dest.clone(), Node::Symlink { target: target.clone() });
        Ok(())
    }

    /// Only this one mount: those below it, and the submounts that a bind brings along, keep what
    /// they have. For anything but a tmpfs that can be seen the words do not tell what happens:
    /// which submounts a bind has, whether the host has a mount of its own there, or a hidden mount
    /// of the same name.
    pub(super) fn remount_read_only(&mut self, dest: &AbsPath) -> Result<(), ModelError> {
        match self.visible.get_mut(dest) {
            Some(Mount::Tmpfs(tmpfs)) => {
                tmpfs.writable = false;
                Ok(())
            }
            _ => Err(not_modelled("--remount-ro", dest, "no tmpfs of this argv is seen there")),
        }
    }

    fn make_parents(&mut self, path: &AbsPath, mode: u32) -> Result<(), ModelError> {
        parents_from_root(path).try_for_each(|step| self.make_directory(&step, mode))
    }

    /// Makes a directory where there is none; one that exists keeps its mode. This shows only on a
    /// tmpfs. Elsewhere the path exists, or bwrap makes it on the host, or bwrap fails because the
    /// bind is read-only: in each case the sandbox, if it starts, shows what the host has there.
    fn make_directory(&mut self, path: &AbsPath, mode: u32) -> Result<(), ModelError> {
        let Some((at, Tmpfs { nodes, writable })) = self.governing_tmpfs(path) else {
            return Ok(());
        };
        match nodes.get(path) {
            Some(Node::Directory { .. }) => Ok(()),
            Some(Node::Symlink { .. }) => {
                // bwrap follows a relative link, and an absolute one to the wrong root.
                Err(not_modelled("--symlink", path, "a later operation passes through it"))
            }
            None if !*writable => Err(ModelError::ReadOnly { path: path.clone(), tmpfs: at }),
            None => {
                nodes.insert(path.clone(), Node::Directory { mode });
                Ok(())
            }
        }
    }

    /// The tmpfs that governs `path`, if one does, and where it is mounted.
    fn governing_tmpfs(&mut self, path: &AbsPath) -> Option<(AbsPath, &mut Tmpfs)> {
        let at = self.governing(path)?.0.clone();
        match self.visible.get_mut(&at)? {
            Mount::Tmpfs(tmpfs) => Some((at, tmpfs)),
            Mount::Bind { .. } | Mount::Dev | Mount::Proc | Mount::Data(_) | Mount::Masked => None,
        }
    }
}

/// The path on the host of what a bind of `source` at `at` shows at `path`.
fn shown_by_bind(at: &AbsPath, source: &AbsPath, path: &AbsPath) -> AbsPath {
    match path.relative_to(at) {
        Some(beyond) => source.join(beyond),
        None => source.clone(),
    }
}

fn view_of_bind(at: &AbsPath, source: &AbsPath, kind: BindKind, path: &AbsPath) -> View {
    let null = AbsPath::root().child("dev").child("null");
    let source = shown_by_bind(at, source, path);
    let (writable, devices) = match kind {
        BindKind::ReadOnly => (false, false),
        BindKind::Writable => (true, false),
        BindKind::WritableWithDevices => (true, true),
    };
    if source.is_below(&null) {
        View::Absent { creatable: false }
    } else if source == null && !devices {
        View::MaskedFile
    } else {
        View::Host { source, writable, devices }
    }
}

/// The directories that a walk to `path` passes, `/` first, `path` itself not among them.
fn parents_from_root(path: &AbsPath) -> impl Iterator<Item = AbsPath> + use<> {
    let mut parents: Vec<AbsPath> = path.ancestors().skip(1).collect();
    parents.reverse();
    parents.into_iter()
}

fn not_modelled(flag: &str, path: &AbsPath, why: &'static str) -> ModelError {
    ModelError::NotModelled { flag: flag.into(), value: path.as_os_str().into(), why }
}
