//! File descriptors. An open directory is a door out of every sandbox, so none of the caller's but
//! the standard three passes.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::Command;

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use crate::sys::ablate::{self, Mitigation};

/// A descriptor and what is read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub descriptor: i32,
    pub content: Vec<u8>,
}

/// Marks every descriptor past standard error as not inherited.
pub(crate) fn close_on_exec() -> io::Result<()> {
    if ablate::is_off(Mitigation::Descriptors) {
        return Ok(());
    }
    if mark_all() { Ok(()) } else { mark_each() }
}

fn mark_each() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse::<RawFd>().ok())
            && number > 2
        {
            match mark(number) {
                Err(e) if e.raw_os_error() == Some(Errno::BADF.raw_os_error()) => {}
                marked => marked?,
            }
        }
    }
    Ok(())
}

/// In one call, which Linux has since 5.11; `false` before.
#[allow(unsafe_code)]
fn mark_all() -> bool {
    // SAFETY: only numbers go in; a flag of descriptors changes, and no descriptor is closed.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 }
}

#[allow(unsafe_code)]
fn mark(number: RawFd) -> io::Result<()> {
    // SAFETY: the kernel has just listed `number` as open in this process, and the borrow ends with
    // this call. If another thread closes it meanwhile, there is nothing to mark, or its successor
    // is marked: neither touches memory.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_setfd(descriptor, FdFlags::CLOEXEC)?)
}

/// Gives bwrap each content under its number, and more descriptors under theirs.
pub(crate) fn pass(bwrap: &mut Command, data: &[Data], more: Vec<(OwnedFd, RawFd)>) -> io::Result<()> {
    let open = |data: &Data| Ok(FdMapping { parent_fd: holding(&data.content)?, child_fd: data.descriptor });
    let mut mappings = data.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    mappings.extend(more.into_iter().map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }));
    bwrap.fd_mappings(mappings).map_err(io::Error::other)?;
    Ok(())
}

const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// A file in memory that nobody can change any more.
pub(crate) fn holding(content: &[u8]) -> io::Result<OwnedFd> {
    if content.is_empty() {
        return Ok(fs::File::open("/dev/null")?.into());
    }
    let memory = memfd_create("agent-sandbox", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = fs::File::from(memory);
    file.write_all(content)?;
    file.rewind()?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

/// Reads the sealed file in memory that the caller passed under this number. `None` if there is
/// none. Anything else with this number belongs to somebody else, and is closed.
pub(crate) fn sealed_content(number: RawFd) -> io::Result<Option<Vec<u8>>> {
    let Ok(passed) = inherited(number) else { return Ok(None) };
    if !fcntl_get_seals(&passed).is_ok_and(|seals| seals.contains(SEALS)) {
        return Ok(None);
    }
    let mut content = Vec::new();
    fs::File::from(passed).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Takes over a descriptor that the caller passed by its number, and passes it to nobody.
#[allow(unsafe_code)]
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    mark(number)?;
    // SAFETY: for the guard, which has opened nothing under a number that it was given.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::io::fcntl_getfd;

    use super::*;

    /// The second is for kernels that lack the call of the first.
    #[test]
    fn each_descriptor_past_the_standard_ones_is_marked() {
        let all = || mark_all().then_some(()).ok_or(io::ErrorKind::Unsupported.into());
        for marked in [all as fn() -> io::Result<()>, mark_each] {
            // Unlike what Rust opens, a duplicate is inherited.
            let file = fs::File::open("/").unwrap();
            let inherited = rustix::io::dup(&file).unwrap();
            let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
            let before = standard.map(fcntl_getfd);
            assert!(fcntl_getfd(&inherited).unwrap().is_empty());
            marked().unwrap();
            assert_eq!(fcntl_getfd(&inherited).unwrap(), FdFlags::CLOEXEC);
            assert_eq!(standard.map(fcntl_getfd), before);
        }
    }
}
