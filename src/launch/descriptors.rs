//! File descriptors. An open directory is a door out of every sandbox, so none of the caller's but the standard three
//! passes.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, RawFd};
use std::process::Command;

use command_fds::{CommandFdExt, FdMapping};
use rustix::io::{FdFlags, fcntl_setfd};

/// Marks every descriptor past standard error as not inherited.
pub(super) fn close_on_exec() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse::<RawFd>().ok())
            && number > 2
        {
            mark(number)?;
        }
    }
    Ok(())
}

#[allow(unsafe_code)]
fn mark(number: RawFd) -> io::Result<()> {
    // SAFETY: the kernel has just listed `number` as open in this process, which has one thread left and closes
    // nothing meanwhile; the borrow ends with this call.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_setfd(descriptor, FdFlags::CLOEXEC)?)
}

/// Gives bwrap an empty file under each of `numbers`.
pub(super) fn pass_empty(bwrap: &mut Command, numbers: Range<RawFd>) -> io::Result<()> {
    let open = |child_fd| Ok(FdMapping { parent_fd: fs::File::open("/dev/null")?.into(), child_fd });
    let mappings = numbers.map(open).collect::<io::Result<Vec<_>>>()?;
    bwrap.fd_mappings(mappings).map_err(io::Error::other)?;
    Ok(())
}
