//! `mount_setattr`, which `rustix` does not have (Linux 5.12).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes this mount, and all mounts in it, read-only. All other flags stay as they are. Allocates
/// nothing.
#[allow(unsafe_code)]
pub(crate) fn remount_all_ro(mount: BorrowedFd) -> io::Result<()> {
    // `struct mount_attr`: flags to set, flags to clear, propagation, user namespace.
    let attributes: [u64; 4] = [libc::MOUNT_ATTR_RDONLY, 0, 0, 0];
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
