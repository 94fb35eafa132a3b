//! File descriptors. Through an open directory a process can leave every sandbox, so the command
//! gets no descriptors of the caller except the standard streams.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::{Errno, FdFlags, fcntl_setfd, retry_on_intr, write};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::sys::ablate::{self, Mitigation};

/// The number of a descriptor, and the content that is read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub descriptor: i32,
    pub content: Vec<u8>,
}

/// Marks every descriptor past standard error as close-on-exec.
pub(crate) fn close_on_exec() -> io::Result<()> {
    if ablate::is_off(Mitigation::Descriptors) || mark_all() {
        return Ok(());
    }
    mark_each()
}

/// Marks all descriptors in one call. Returns `false` before Linux 5.11, which lacks the flag.
#[allow(unsafe_code)]
fn mark_all() -> bool {
    // SAFETY: only numbers go in; a flag of descriptors changes, and no descriptor is closed.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 }
}

fn mark_each() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        match number.filter(|number| *number > 2).map(mark) {
            // The descriptor of this listing, or one that another thread has closed.
            None | Some(Err(Errno::BADF)) => {}
            Some(marked) => marked?,
        }
    }
    Ok(())
}

#[allow(unsafe_code)]
fn mark(number: RawFd) -> Result<(), Errno> {
    // SAFETY: the borrow ends with this call. If another thread closes the descriptor meanwhile,
    // the call fails or marks its successor; neither touches memory.
    fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC)
}

/// Makes bwrap inherit a descriptor for each content in `data`, and the descriptors in `more`,
/// each under its number.
pub(crate) fn pass(bwrap: &mut Command, data: &[Data], more: Vec<(OwnedFd, RawFd)>) -> io::Result<()> {
    let open = |data: &Data| Ok(FdMapping { parent_fd: holding(&data.content)?, child_fd: data.descriptor });
    let mut mappings = data.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    mappings.extend(more.into_iter().map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }));
    bwrap.fd_mappings(mappings).map_err(io::Error::other)?;
    Ok(())
}

/// The caller's limit of open files. It is set when this process raises the limit.
static CALLERS_LIMIT: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process open as many files as the kernel allows. A run holds a descriptor for each
/// placeholder, and the guard one for each mount that it makes; a command can cause more of them
/// than the usual 1,024. Returns the new limit.
pub(crate) fn raise_file_limit() -> usize {
    let before = CALLERS_LIMIT.get_or_init(|| getrlimit(Resource::Nofile));
    // If this fails, opening a file fails later, and that error is reported.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    before.maximum.and_then(|maximum| maximum.try_into().ok()).unwrap_or(usize::MAX)
}

/// Restores the caller's limit of open files. A program that uses `select` relies on a low limit.
pub(crate) fn restore_file_limit() -> io::Result<()> {
    CALLERS_LIMIT.get().map_or(Ok(()), |before| Ok(setrlimit(Resource::Nofile, *before)?))
}

/// Starts `bwrap` with the caller's limit of open files.
#[allow(unsafe_code)]
pub(crate) fn keep_file_limit(bwrap: &mut Command) {
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { bwrap.pre_exec(restore_file_limit) };
}

/// Writes all of `bytes`, even to a stream that somebody has made non-blocking.
pub(crate) fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry_on_intr(|| write(&to, bytes)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::AGAIN) => {
                retry_on_intr(|| poll(&mut [PollFd::new(&to, PollFlags::OUT)], None::<&Timespec>))?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// `/dev/null`, for a stream that no process reads or writes.
pub(crate) fn null() -> io::Result<OwnedFd> {
    Ok(fs::File::options().read(true).write(true).open("/dev/null")?.into())
}

/// A descriptor from which `content` can be read. For an empty content it is `/dev/null`.
pub(crate) fn holding(content: &[u8]) -> io::Result<OwnedFd> {
    if content.is_empty() { Ok(fs::File::open("/dev/null")?.into()) } else { sealed(content) }
}

/// A file in memory that no process can change any more.
pub(super) fn sealed(content: &[u8]) -> io::Result<OwnedFd> {
    let memory = memfd_create("agent-sandbox", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = fs::File::from(memory);
    file.write_all(content)?;
    file.rewind()?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

/// Reads the sealed file in memory that the caller passed under this number. `None` if there is no
/// such file. Any other descriptor with this number is closed.
pub(crate) fn sealed_content(number: RawFd) -> io::Result<Option<Vec<u8>>> {
    let Ok(passed) = inherited(number) else { return Ok(None) };
    if !fcntl_get_seals(&passed).is_ok_and(|seals| seals.contains(SEALS)) {
        return Ok(None);
    }
    let mut content = Vec::new();
    fs::File::from(passed).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Takes over a descriptor that the caller passed by its number, and marks it as close-on-exec.
#[allow(unsafe_code)]
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    mark(number)?;
    // SAFETY: only the guard calls this, which has opened nothing under a number that it was given.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::io::fcntl_getfd;

    use super::*;

    /// `mark_each` is for kernels that lack the system call of `mark_all`.
    #[test]
    fn each_descriptor_past_the_standard_ones_is_marked() {
        let all = || mark_all().then_some(()).ok_or(io::ErrorKind::Unsupported.into());
        for marked in [all as fn() -> io::Result<()>, mark_each] {
            // Unlike a file that Rust opens, a duplicate is inherited.
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
