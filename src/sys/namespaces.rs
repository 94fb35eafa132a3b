//! User and mount namespaces: makes them, and enters those of a sandbox. Also `mount_setattr`
//! (Linux 5.12), which `rustix` does not have.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{DumpableBehavior, Pid, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::process::in_child;

/// Enters a new user namespace as the same user, and a mount namespace that belongs to it. The
/// kernel locks every mount that exists by then: no process inside can unmount it or make it
/// writable.
pub(crate) fn enter() -> io::Result<()> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // A process without privileges may map its group only after this.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Allocates nothing. `flags` must only be those of user and mount namespaces.
#[allow(unsafe_code)]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: `unshare` is unsafe if threads stop sharing a file descriptor table, which does not
    // happen with these flags.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Allows one more user namespace below the present one. The kernel counts all namespaces below a
/// namespace, so the limit must be set in the last namespace but one.
pub(crate) fn allow_one_more() -> io::Result<()> {
    fs::write("/proc/sys/user/max_user_namespaces", "1")
}

/// Starts `command` in a mount namespace in which no later mount of the host appears.
#[allow(unsafe_code)]
pub(crate) fn make_mounts_private(command: &mut Command) {
    let make = || {
        unshare(UnshareFlags::NEWNS)?;
        Ok(mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(make) };
}

/// The namespaces of a sandbox's command. Its mounts exist while these descriptors are open, even
/// if no process is left in the namespaces.
pub(crate) struct Namespaces {
    pub(super) user: OwnedFd,
    pub(super) mounts: OwnedFd,
    /// The root as the command sees it.
    root: OwnedFd,
}

impl Namespaces {
    pub(crate) fn of(process: Pid) -> io::Result<Self> {
        let process = format!("/proc/{}", process.as_raw_nonzero());
        let of = |kind: &str| io::Result::Ok(File::open(format!("{process}/ns/{kind}"))?.into());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(format!("{process}/root"), flags, Mode::empty())?;
        Ok(Self { user: of("user")?, mounts: of("mnt")?, root })
    }

    /// Opens a directory as the command sees it. A symlink on the way is an error.
    pub(crate) fn open_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        Ok(openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }

    /// Makes all mounts of a sandbox read-only after its last process has ended.
    ///
    /// A command can hand a directory to a command in another sandbox, by a descriptor over a
    /// socket. The directory stays open there, on a writable mount of the ended sandbox, and the
    /// other command could create the paths in it that a placeholder blocked. A file that is still
    /// open for writing makes this fail with EBUSY.
    #[allow(unsafe_code)]
    pub(crate) fn remount_all_ro(&self) -> io::Result<()> {
        let remount = || {
            self.enter_from_outside()?;
            let root = open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            remount_all_ro(root.as_fd())
        };
        // SAFETY: the closure makes only system calls.
        unsafe { in_child(remount) }
    }

    /// Enters the namespaces from outside. The kernel allows this to a process of their owner.
    pub(super) fn enter_from_outside(&self) -> io::Result<()> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        move_into_link_name_space(self.user.as_fd(), Some(LinkNameSpaceType::User))?;
        Ok(move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?)
    }
}

/// Opens the `/tmp` of a process in a sandbox, so that the caller can ask how full it is. The
/// process must be the guard before it starts the command. Afterwards the command could have
/// replaced a directory on the way.
pub(crate) fn open_tmp_of(process: Pid) -> io::Result<OwnedFd> {
    let path = format!("/proc/{}/root/tmp", process.as_raw_nonzero());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Makes this mount, and all mounts in it, read-only. All other flags stay as they are. Allocates
/// nothing.
pub(crate) fn remount_all_ro(mount: BorrowedFd) -> io::Result<()> {
    set_mount_flags(mount, libc::MOUNT_ATTR_RDONLY)
}

/// Sets flags of this mount, and of all mounts in it. Allocates nothing.
#[allow(unsafe_code)]
pub(super) fn set_mount_flags(mount: BorrowedFd, flags: u64) -> io::Result<()> {
    // `struct mount_attr`: flags to set, flags to clear, propagation, user namespace.
    let attributes: [u64; 4] = [flags, 0, 0, 0];
    // SAFETY: the pointers are to values that live until the call returns, and the size is that of
    // the structure; the kernel only reads them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
