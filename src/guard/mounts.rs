//! The mounts that the guard makes itself. Each of them restricts the command further.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2, symlink};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change, mount_remount,
    move_mount, open_tree,
};
use rustix::process::getuid;

use crate::compile::guard_plan::{PrivateLink, Tightening};
use crate::host::LastParent;
use crate::policy::private::link_of;
use crate::policy::{AbsPath, places};
use crate::sys::namespaces::remount_all_ro;

const CLOSED: MountFlags =
    MountFlags::RDONLY.union(MountFlags::NODEV).union(MountFlags::NOSUID).union(MountFlags::NOEXEC);

/// Keeps mounts that the host makes from now on from appearing here.
pub(super) fn detach_from_host() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// A copy of the mount at the path of `step`, which [`tighten`] attaches there. `None` if the step
/// needs no copy. To copy a mount, the kernel goes through every mount in the file system around
/// the path, so all copies are taken before the first is attached.
pub(super) fn copy(step: &Tightening) -> io::Result<Option<OwnedFd>> {
    let (Tightening::ReadOnly(path) | Tightening::Pin(path)) = step else { return Ok(None) };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(Some(open_tree(&open(path)?, c"", flags)?))
}

/// Makes one mount of the overflow list from its [`copy`]. `parent` is the directory of the last
/// mask.
pub(super) fn tighten(step: &Tightening, copy: Option<OwnedFd>, parent: &mut LastParent) -> io::Result<()> {
    match (step, copy) {
        (Tightening::Mask(path), _) => mask(path, parent),
        (Tightening::MaskIfThere(path), _) => mask(path, parent).or_else(|e| match open(path) {
            // A socket of a service comes and goes by itself.
            Err(now) if now.kind() == io::ErrorKind::NotFound || is_out_of_reach(&now, path) => Ok(()),
            _ => Err(e),
        }),
        (Tightening::Hide(path), _) => {
            let point = open(path)?;
            Ok(mount("tmpfs", by_descriptor(&point), "tmpfs", CLOSED, c"mode=0000,size=4k")?)
        }
        // For `ReadOnly`, `Verifier::close` then makes this mount, and every mount in it,
        // read-only.
        (Tightening::ReadOnly(path) | Tightening::Pin(path), Some(copy)) => {
            let at = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            Ok(move_mount(&copy, c"", &open(path)?, c"", at)?)
        }
        (Tightening::ReadOnly(_) | Tightening::Pin(_), None) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn mask(path: &AbsPath, parent: &mut LastParent) -> io::Result<()> {
    let (parent, name) = parent.of(path.as_path())?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    // A copy has the flags of its mount: read-only, without devices.
    let copy = open_tree(CWD, places::MASKED, clone)?;
    // `move_mount` follows no symlink at the end of a path unless it is told to.
    Ok(move_mount(&copy, c"", parent, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Mounts a file system for symlinks over an empty directory of ours. It stays mounted, so that the
/// supervisor can mount a link again after the host has replaced the file under it (SPEC Y1).
pub(super) fn begin_links() -> io::Result<()> {
    let flags = CLOSED.difference(MountFlags::RDONLY);
    Ok(mount("tmpfs", places::MARKER, "tmpfs", flags, c"mode=0700,size=1m")?)
}

/// Mounts a link to the private copy over the file. Some programs resolve a link, write a new file
/// beside its target, and rename it. With this link they do so beside the copy.
pub(super) fn link(PrivateLink { path, copy }: &PrivateLink, parent: &mut LastParent) -> io::Result<()> {
    let link = link_of(path);
    symlink(copy.as_path(), link.as_path())?;
    let (parent, name) = parent.of(path.as_path())?;
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = open_tree(CWD, link.as_path(), clone)?;
    remount_all_ro(mount.as_fd())?;
    Ok(move_mount(&mount, c"", parent, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Makes the file system for symlinks read-only.
pub(super) fn end_links() -> io::Result<()> {
    remount(&places::at(places::MARKER), CLOSED)
}

/// Whether a directory of another user keeps the guard from `path`. The command has the same
/// rights. A directory that the user owns does not count: the command could change its mode.
fn is_out_of_reach(error: &io::Error, path: &AbsPath) -> bool {
    let closing = path.ancestors().skip(1).find_map(|directory| open(&directory).ok());
    let owner = closing.and_then(|directory| fstat(&directory).ok()).map(|found| found.st_uid);
    Errno::from_io_error(error) == Some(Errno::ACCESS) && owner.is_some_and(|owner| owner != getuid().as_raw())
}

/// Binds a part of `/proc` over itself, read-only.
pub(super) fn bind_read_only(path: &AbsPath) -> io::Result<()> {
    let point = open(path)?;
    mount_bind(by_descriptor(&point), by_descriptor(&point))?;
    remount(path, CLOSED)
}

/// Changes the flags of the topmost mount at `path`. All locked flags must be among `flags`.
pub(super) fn remount(path: &AbsPath, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(by_descriptor(&open(path)?), flags | MountFlags::BIND, c"")?)
}

/// Opens a path without following a symlink: another sandbox may share the project and change it at
/// this moment.
pub(super) fn open(path: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat2(CWD, path.as_path(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

fn by_descriptor(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
