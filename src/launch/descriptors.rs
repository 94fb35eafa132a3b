//! File descriptors. An open directory is a door out of every sandbox, so none of the caller's but the standard three
//! passes.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::process::Command;

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::ablate::{self, Mitigation};

/// Marks every descriptor past standard error as not inherited.
pub(super) fn close_on_exec() -> io::Result<()> {
    if ablate::is_off(Mitigation::Descriptors) {
        return Ok(());
    }
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
    // SAFETY: the kernel has just listed `number` as open in this process, and the borrow ends with this call. If
    // another thread closes it meanwhile, there is nothing to mark, or its successor is marked: neither touches memory.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    match fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
        Err(Errno::BADF) => Ok(()),
        marked => Ok(marked?),
    }
}

/// The name of a standard stream that is an open directory.
pub(super) fn directory_among_standard() -> Option<&'static str> {
    let is_directory = |fd: BorrowedFd| fstat(fd).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
    // A stream that is closed is no door.
    [
        ("standard input", io::stdin().as_fd()),
        ("standard output", io::stdout().as_fd()),
        ("standard error", io::stderr().as_fd()),
    ]
    .into_iter()
    .find(|(_, fd)| is_directory(*fd))
    .map(|(name, _)| name)
}

/// Gives bwrap an empty file under each of `numbers`.
pub(super) fn pass_empty(bwrap: &mut Command, numbers: Range<RawFd>) -> io::Result<()> {
    let open = |child_fd| Ok(FdMapping { parent_fd: fs::File::open("/dev/null")?.into(), child_fd });
    let mappings = numbers.map(open).collect::<io::Result<Vec<_>>>()?;
    bwrap.fd_mappings(mappings).map_err(io::Error::other)?;
    Ok(())
}
