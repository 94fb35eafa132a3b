//! File descriptors. An open directory is a door out of every sandbox, so none of the caller's but the standard three
//! passes.

use std::fs;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Command;

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{FileType, MemfdFlags, SealFlags, fcntl_add_seals, fstat, memfd_create};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::lower::Data;

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
    // SAFETY: the kernel has just listed `number` as open in this process, and the borrow ends with this call. If
    // another thread closes it meanwhile, there is nothing to mark, or its successor is marked: neither touches memory.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    match fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
        Err(Errno::BADF) => Ok(()),
        marked => Ok(marked?),
    }
}

/// A file in memory that nobody can change any more.
fn holding(content: &[u8]) -> io::Result<OwnedFd> {
    if content.is_empty() {
        return Ok(fs::File::open("/dev/null")?.into());
    }
    let memory = memfd_create("agent-sandbox", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = fs::File::from(memory);
    file.write_all(content)?;
    file.rewind()?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
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

/// Gives bwrap each content under its number.
pub(super) fn pass(bwrap: &mut Command, data: &[Data]) -> io::Result<()> {
    let open = |data: &Data| Ok(FdMapping { parent_fd: holding(&data.content)?, child_fd: data.descriptor });
    let mappings = data.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    bwrap.fd_mappings(mappings).map_err(io::Error::other)?;
    Ok(())
}
