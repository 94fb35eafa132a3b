//! The mounts that a process inside can see, after each operation in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::argv::{BindAccess, BwrapOperation, Modes};
use super::guard::GuardMount;
use super::{ModelError, ModelFiles, ModelView};
use crate::policy::AbsPath;

/// Nothing is ever unmounted, so the deepest visible mount at or above a path governs it.
pub(super) struct MountTree {
    /// The mounts by mount point. A mount that a later one hides is no longer here.
    visible: BTreeMap<AbsPath, ModelMount>,
    /// The directories and files of the host that have something mounted on them, visible or not.
    /// A mount sits on a directory of a file system, not on a path of the sandbox. These are the
    /// paths of such directories on the host. A process inside cannot rename them through any
    /// bind.
    ///
    /// (Directories of a tmpfs need no such list. A tmpfs is shown in one place only, so as long as
    /// one of its directories can be seen, a mount on it can be seen too.)
    covered: BTreeSet<AbsPath>,
}

enum ModelMount {
    /// A file or directory of the host.
    Bind {
        source: AbsPath,
        access: BindAccess,
    },
    /// A file system that belongs to the sandbox.
    Tmpfs(Tmpfs),
    Dev,
    Proc,
    /// A read-only file of ours, with its content if that is known.
    Data(Option<Vec<u8>>),
    /// A read-only file that no process inside can open.
    Masked,
    /// A symlink, which leads to the copy of a private file.
    Link {
        target: OsString,
    },
}

/// Nodes are keyed by their path inside the sandbox; the root of the tmpfs is one of them. Only
/// nodes that the argv creates are here. A regular file is never a node, because bwrap creates
/// files only as mount points.
struct Tmpfs {
    nodes: BTreeMap<AbsPath, TmpfsNode>,
    writable: bool,
}

enum TmpfsNode {
    Directory { mode: u32 },
    Symlink { target: OsString },
}

impl Tmpfs {
    fn mounted_at(path: &AbsPath, mode: u32) -> Self {
        let root = (path.clone(), TmpfsNode::Directory { mode });
        Self { nodes: BTreeMap::from([root]), writable: true }
    }
}

impl MountTree {
    /// bwrap starts with an empty tmpfs for the root, writable and of mode 0755.
    pub(super) fn at_start() -> Self {
        let root = AbsPath::root();
        let tmpfs = Tmpfs::mounted_at(&root, Modes::DEFAULT.own);
        Self { visible: BTreeMap::from([(root, ModelMount::Tmpfs(tmpfs))]), covered: BTreeSet::new() }
    }

    pub(super) fn apply(
        &mut self,
        dest: &AbsPath,
        operation: BwrapOperation,
        files: &ModelFiles,
        exists: &impl Fn(&AbsPath) -> bool,
    ) -> Result<(), ModelError> {
        let mount = match operation {
            BwrapOperation::Bind { source, access, optional } => {
                let is_read_only = access == BindAccess::ReadOnly;
                if is_read_only && files.unreadable.contains(&source) {
                    ModelMount::Masked
                } else if let Some(content) = files.contents.get(&source).filter(|_| is_read_only) {
                    ModelMount::Data(Some(content.clone()))
                } else if exists(&source) {
                    ModelMount::Bind { source, access }
                } else {
                    return if optional { Ok(()) } else { Err(ModelError::MissingSource { path: source }) };
                }
            }
            BwrapOperation::Tmpfs { modes } => {
                return self.mount(dest, modes, ModelMount::Tmpfs(Tmpfs::mounted_at(dest, modes.own)));
            }
            BwrapOperation::Dev => ModelMount::Dev,
            BwrapOperation::Proc => ModelMount::Proc,
            BwrapOperation::Data { descriptor } => ModelMount::Data(files.descriptors.get(&descriptor).cloned()),
            BwrapOperation::Directory { modes } => return self.make_directories(dest, modes),
            BwrapOperation::Symlink { target } => return self.symlink(target, dest),
            BwrapOperation::RemountReadOnly => return self.remount_read_only(dest),
        };
        self.mount(dest, Modes::MOUNT_POINT, mount)
    }

    /// Applies a mount of the guard, which mounts on paths of the host that it can open.
    pub(super) fn apply_guard(
        &mut self,
        mount: GuardMount,
        exists: &impl Fn(&AbsPath) -> bool,
    ) -> Result<(), ModelError> {
        use GuardMount::{Hide, Link, Mask, MaskIfThere, Pin, ReadOnly};
        let (Mask(path) | MaskIfThere(path) | Hide(path) | ReadOnly(path) | Pin(path) | Link(path, _)) = &mount;
        let source = match self.view_of_reached(path) {
            ModelView::Host { source, .. } if exists(&source) => source,
            _ if matches!(mount, MaskIfThere(_)) => return Ok(()),
            _ => return Err(ModelError::NothingThere { path: path.clone() }),
        };
        let made = match &mount {
            Mask(_) | MaskIfThere(_) => ModelMount::Masked,
            Link(_, copy) => ModelMount::Link { target: copy.as_os_str().to_owned() },
            Hide(_) => ModelMount::Tmpfs(Tmpfs { writable: false, ..Tmpfs::mounted_at(path, 0o000) }),
            ReadOnly(_) => ModelMount::Bind { source, access: BindAccess::ReadOnly },
            // The bind includes the mounts below it, so only the directory itself changes.
            Pin(_) => {
                self.covered.insert(source);
                return Ok(());
            }
        };
        self.mount(path, Modes::MOUNT_POINT, made)
    }

    /// The content of agent-sandbox's own file that is visible at `path`.
    pub(super) fn data_at(&self, path: &AbsPath) -> Option<&Vec<u8>> {
        let Some(ModelMount::Data(content)) = self.visible.get(path) else { return None };
        content.as_ref()
    }

    /// The view of a process that owns the tmpfs directories and has no capabilities.
    pub(super) fn view(&self, path: &AbsPath) -> ModelView {
        let mut reopenable = None;
        for step in parents_from_root(path) {
            let Some((_, ModelMount::Tmpfs(tmpfs))) = self.governing(&step) else { continue };
            match tmpfs.nodes.get(&step) {
                Some(TmpfsNode::Directory { mode }) if mode & 0o100 != 0 => {}
                Some(TmpfsNode::Directory { .. }) if tmpfs.writable => {
                    reopenable.get_or_insert(step);
                }
                Some(TmpfsNode::Directory { .. }) => {
                    return ModelView::Unreachable { closed: step, reopenable: false };
                }
                Some(TmpfsNode::Symlink { target }) if reopenable.is_none() => {
                    return ModelView::Symlink { at: step, target: target.clone() };
                }
                Some(TmpfsNode::Symlink { .. }) | None => break,
            }
        }
        match reopenable {
            Some(closed) => ModelView::Unreachable { closed, reopenable: true },
            None => self.view_of_reached(path),
        }
    }

    fn view_of_reached(&self, path: &AbsPath) -> ModelView {
        match self.governing(path) {
            Some((at, ModelMount::Bind { source, access })) => view_of_bind(at, source, *access, path),
            Some((_, ModelMount::Tmpfs(tmpfs))) => match tmpfs.nodes.get(path) {
                Some(TmpfsNode::Directory { mode }) => ModelView::Fresh { mode: *mode, writable: tmpfs.writable },
                Some(TmpfsNode::Symlink { target }) => ModelView::Symlink { at: path.clone(), target: target.clone() },
                None => ModelView::Absent { creatable: tmpfs.writable },
            },
            Some((_, ModelMount::Dev)) => ModelView::Dev,
            Some((_, ModelMount::Proc)) => ModelView::Proc,
            Some((at, ModelMount::Data(_))) if at == path => ModelView::Data,
            Some((at, ModelMount::Masked)) if at == path => ModelView::MaskedFile,
            Some((at, ModelMount::Link { target })) => ModelView::Symlink { at: at.clone(), target: target.clone() },
            // `None` never happens: something is mounted at the root from the start.
            Some((_, ModelMount::Data(_) | ModelMount::Masked)) | None => ModelView::Absent { creatable: false },
        }
    }

    /// Whether a directory at `path` can be renamed. A mount below it does not prevent that.
    pub(super) fn can_rename(&self, path: &AbsPath) -> bool {
        if matches!(self.view(path), ModelView::Unreachable { reopenable: false, .. } | ModelView::Symlink { .. }) {
            return false;
        }
        match self.governing(path) {
            Some((at, _)) if at == path => false,
            Some((at, ModelMount::Bind { source, access })) => {
                *access != BindAccess::ReadOnly && !self.covered.contains(&shown_by_bind(at, source, path))
            }
            Some((_, ModelMount::Tmpfs(Tmpfs { nodes, writable }))) => {
                *writable && matches!(nodes.get(path), Some(TmpfsNode::Directory { .. }))
            }
            _ => false,
        }
    }

    fn governing(&self, path: &AbsPath) -> Option<(&AbsPath, &ModelMount)> {
        path.ancestors().find_map(|at| self.visible.get_key_value(&at))
    }

    fn mount(&mut self, dest: &AbsPath, modes: Modes, mount: ModelMount) -> Result<(), ModelError> {
        self.make_directories(dest, modes)?;
        if let Some((at, ModelMount::Bind { source, .. })) = self.governing(dest) {
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

    fn symlink(&mut self, target: OsString, dest: &AbsPath) -> Result<(), ModelError> {
        self.make_parents(dest, Modes::MOUNT_POINT.parents)?;
        let Some((at, Tmpfs { nodes, writable })) = self.governing_tmpfs(dest) else {
            return Err(not_modelled("--symlink", dest, "it would be made outside a tmpfs"));
        };
        match nodes.get(dest) {
            Some(TmpfsNode::Symlink { target: same }) if *same == target => {
                let why = "the same link twice is an error to some versions of bwrap only";
                Err(not_modelled("--symlink", dest, why))
            }
            Some(_) => Err(ModelError::Occupied { path: dest.clone() }),
            None if !*writable => Err(ModelError::ReadOnly { path: dest.clone(), tmpfs: at }),
            None => {
                nodes.insert(dest.clone(), TmpfsNode::Symlink { target });
                Ok(())
            }
        }
    }

    /// Changes this one mount: those below it, and the submounts that a bind brings along, stay as
    /// they are. For anything but a visible tmpfs the effect depends on more than the argv: on the
    /// submounts of a bind, or on a mount of the host's own.
    fn remount_read_only(&mut self, dest: &AbsPath) -> Result<(), ModelError> {
        match self.visible.get_mut(dest) {
            Some(ModelMount::Tmpfs(tmpfs)) => {
                tmpfs.writable = false;
                Ok(())
            }
            // Its devices are mounts of their own, and stay as they are.
            Some(ModelMount::Dev) => Ok(()),
            _ => Err(not_modelled("--remount-ro", dest, "no tmpfs of this argv is seen there")),
        }
    }

    fn make_directories(&mut self, path: &AbsPath, modes: Modes) -> Result<(), ModelError> {
        self.make_parents(path, modes.parents)?;
        self.make_directory(path, modes.own)
    }

    fn make_parents(&mut self, path: &AbsPath, mode: u32) -> Result<(), ModelError> {
        parents_from_root(path).try_for_each(|step| self.make_directory(&step, mode))
    }

    /// Creates a directory where there is none; an existing directory keeps its mode. The model
    /// needs this only on a tmpfs. Elsewhere the path exists, or bwrap creates it on the host, or
    /// bwrap fails: in each case the sandbox, if it starts, shows the host's file or directory.
    fn make_directory(&mut self, path: &AbsPath, mode: u32) -> Result<(), ModelError> {
        let Some((at, Tmpfs { nodes, writable })) = self.governing_tmpfs(path) else { return Ok(()) };
        match nodes.get(path) {
            Some(TmpfsNode::Directory { .. }) => Ok(()),
            // bwrap follows a relative link, and an absolute one to the wrong root.
            Some(TmpfsNode::Symlink { .. }) => {
                Err(not_modelled("--symlink", path, "a later operation passes through it"))
            }
            None if !*writable => Err(ModelError::ReadOnly { path: path.clone(), tmpfs: at }),
            None => {
                nodes.insert(path.clone(), TmpfsNode::Directory { mode });
                Ok(())
            }
        }
    }

    /// The tmpfs that governs `path`, if one does, and where it is mounted.
    fn governing_tmpfs(&mut self, path: &AbsPath) -> Option<(AbsPath, &mut Tmpfs)> {
        let at = self.governing(path)?.0.clone();
        match self.visible.get_mut(&at)? {
            ModelMount::Tmpfs(tmpfs) => Some((at, tmpfs)),
            _ => None,
        }
    }
}

/// The path on the host that a bind of `source` at `at` shows at `path`.
fn shown_by_bind(at: &AbsPath, source: &AbsPath, path: &AbsPath) -> AbsPath {
    path.relative_to(at).map_or_else(|| source.clone(), |beyond| source.join(beyond))
}

fn view_of_bind(at: &AbsPath, source: &AbsPath, access: BindAccess, path: &AbsPath) -> ModelView {
    let null = AbsPath::root().child("dev").child("null");
    let source = shown_by_bind(at, source, path);
    let (writable, devices) = (access != BindAccess::ReadOnly, access == BindAccess::WritableWithDevices);
    if source.is_below(&null) {
        ModelView::Absent { creatable: false }
    } else if source == null && !devices {
        ModelView::MaskedFile
    } else {
        ModelView::Host { source, writable, devices }
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
