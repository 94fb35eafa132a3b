//! The mounts that the guard makes itself. Each of them takes something away.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, move_mount, open_tree,
};
use rustix::process::getuid;

use crate::compile::guard_plan::Tightening;
use crate::policy::path::AbsPath;
use crate::policy::places;

const CLOSED: MountFlags =
    MountFlags::RDONLY.union(MountFlags::NODEV).union(MountFlags::NOSUID).union(MountFlags::NOEXEC);

/// Stops mounts that the host makes from now on from appearing here.
pub(super) fn detach_from_host() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Makes one mount of the overflow list.
pub(super) fn tighten(step: &Tightening) -> io::Result<()> {
    let point = match (open(step.path()), step) {
        // A socket of a service comes and goes by itself.
        (Err(e), Tightening::MaskIfThere(path)) if is_missing(&e) || is_out_of_reach(&e, path) => return Ok(()),
        (opened, _) => opened?,
    };
    let made = mount_on(&point, step);
    match step {
        // The service ended in this moment.
        Tightening::MaskIfThere(path) if made.is_err() && open(path).as_ref().is_err_and(is_missing) => Ok(()),
        _ => made,
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Whether a directory of another user keeps the guard from `path`. The command has the same rights.
/// A directory that the user owns does not count: the command could change its mode.
fn is_out_of_reach(error: &io::Error, path: &AbsPath) -> bool {
    let is_closed = error.raw_os_error() == Some(Errno::ACCESS.raw_os_error());
    let closing = path.ancestors().skip(1).find_map(|directory| open(&directory).ok());
    let owner = closing.and_then(|directory| fstat(&directory).ok()).map(|found| found.st_uid);
    is_closed && owner.is_some_and(|owner| owner != getuid().as_raw())
}

fn mount_on(point: &OwnedFd, step: &Tightening) -> io::Result<()> {
    match step {
        // A copy has the flags of its mount: read-only, without devices.
        Tightening::Mask(_) | Tightening::MaskIfThere(_) => attach(&copy_of_mask()?, point),
        Tightening::Hide(_) => Ok(mount("tmpfs", by_descriptor(point), "tmpfs", CLOSED, c"mode=0000,size=4k")?),
        // `verify` makes a read-only mount, and every mount in it, read-only. A pin keeps its
        // access.
        Tightening::ReadOnly(_) | Tightening::Pin(_) => {
            Ok(mount_bind_recursive(by_descriptor(point), by_descriptor(point))?)
        }
    }
}

fn copy_of_mask() -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(open_tree(CWD, places::MASKED, flags)?)
}

/// Mounts by file descriptors: `mount(2)` would have to look both up in `/proc/self/fd`.
fn attach(tree: &OwnedFd, point: &OwnedFd) -> io::Result<()> {
    let by_descriptor = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, c"", point, c"", by_descriptor)?)
}

/// Whether an error means that the path is not what it was when the policy was compiled. Mounting
/// on a file that was removed after it was opened gives EINVAL or ENOENT.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::INVAL].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| gone.contains(&number))
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
