//! Making a mount read-only or writable, by a descriptor of it: `mount_setattr`, which `rustix` does not have (Linux 5.12). It takes a third of the
//! time of `mount(2)`, which has to look the descriptor up in `/proc/self/fd`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    Writable,
    /// Writable, and device nodes work.
    WithDevices,
    /// Read-only, with neither devices nor programs that run with other rights.
    Sealed,
    /// The same, and no programs at all.
    Closed,
}

/// Of this mount and all that are mounted in it, or of none. All other flags stay as they are. Allocates nothing.
pub(crate) fn set(mount: BorrowedFd, access: Access) -> io::Result<()> {
    set_with(mount, access, libc::AT_RECURSIVE)
}

/// The same of this mount alone.
pub(crate) fn set_alone(mount: BorrowedFd, access: Access) -> io::Result<()> {
    set_with(mount, access, 0)
}

/// No bind takes this mount along.
pub(crate) fn set_unbindable(mount: BorrowedFd) -> io::Result<()> {
    change(mount, 0, [0, 0, libc::MS_UNBINDABLE, 0])
}

fn set_with(mount: BorrowedFd, access: Access, reach: libc::c_int) -> io::Result<()> {
    const SEALED: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID;
    let (set, clear) = match access {
        Access::ReadOnly => (libc::MOUNT_ATTR_RDONLY, 0),
        Access::Writable => (0, libc::MOUNT_ATTR_RDONLY),
        Access::WithDevices => (0, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV),
        Access::Sealed => (SEALED, 0),
        Access::Closed => (SEALED | libc::MOUNT_ATTR_NOEXEC, 0),
    };
    change(mount, reach, [set, clear, 0, 0])
}

/// `attributes` is `struct mount_attr`: what to set, what to clear, propagation, user namespace.
#[allow(unsafe_code)]
fn change(mount: BorrowedFd, reach: libc::c_int, attributes: [u64; 4]) -> io::Result<()> {
    // SAFETY: the pointers are to values that live until the call returns, and the size is that of the structure; the kernel only
    // reads them.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | reach,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
