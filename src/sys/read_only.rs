//! Opens a file a second time so that no process can use the new descriptor to write the file.
//!
//! A process that opens `/proc/self/fd/0` opens the file again, with all rights that the user has
//! on it, on the mount of the first descriptor: the host's. So this module opens the file again on
//! a separate read-only mount that belongs to no namespace. On this mount, opening for writing,
//! `fchmod` and similar calls fail with EROFS. No process can change the mount (measured on Linux
//! 6.18).

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, SeekFrom, Stat, fstat, open, openat, openat2, seek};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::path::DecInt;
use rustix::thread::UnshareFlags;

use super::process::in_child;
use super::{fd, namespaces};

/// The largest file that is copied. The copy stays in memory while the command runs.
const LARGEST_COPY: usize = 64 << 20;

/// Opens a stream's file again at the same offset, only for reading. Fails with `FileTooLarge` if
/// only a copy is possible and the file is too large for a copy.
pub(crate) fn reopen(file: BorrowedFd) -> io::Result<OwnedFd> {
    // Root can make the mount without a namespace and without the path of the file. Other users
    // need both.
    let again = on_own_mount(file).or_else(|_| by_child(file)).or_else(|_| copy(file))?;
    // Some files have no offset.
    if let Ok(place) = seek(file, SeekFrom::Current(0)) {
        seek(&again, SeekFrom::Start(place))?;
    }
    Ok(again)
}

/// Opens `file` on a read-only mount that shows nothing else and has no mount point. Allocates
/// nothing.
fn on_own_mount(file: BorrowedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(file, c"", flags)?;
    namespaces::remount_all_ro(mount.as_fd())?;
    let descriptors = open(c"/proc/self/fd", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = DecInt::from_fd(&mount);
    Ok(openat(descriptors, name.as_c_str(), OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens `file` on a mount that a child makes in a namespace of its own, as an ordinary user may.
/// The child opens the file by its path, because it cannot clone the mount of a descriptor from
/// outside (EINVAL).
#[allow(unsafe_code)]
fn by_child(file: BorrowedFd) -> io::Result<OwnedFd> {
    let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let name = CString::new(name.into_os_string().into_vec())?;
    let meant = fstat(file)?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the closure makes only system calls, on values that exist already.
    let _ = unsafe { in_child(|| send_from_own_namespace(&name, &meant, theirs.as_fd())) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(&ours, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, flags)?;
    let opened = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    opened.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn send_from_own_namespace(name: &CStr, meant: &Stat, to: BorrowedFd) -> io::Result<()> {
    namespaces::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let named = openat2(CWD, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let found = fstat(&named)?;
    if (found.st_dev, found.st_ino) != (meant.st_dev, meant.st_ino) {
        return Err(Errno::STALE.into());
    }
    let opened = on_own_mount(named.as_fd())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let opened = [opened.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&opened));
    sendmsg(to, &[IoSlice::new(b"f")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Copies the content into memory. This is for a file without a path (a here-document, a removed
/// file), and for a machine that does not allow namespaces.
fn copy(file: BorrowedFd) -> io::Result<OwnedFd> {
    let source = File::from(file.try_clone_to_owned()?);
    let mut content = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while content.len() <= LARGEST_COPY {
        // Reads at an offset, because the caller shares the position in the file.
        match source.read_at(&mut buffer, content.len() as u64) {
            Ok(0) => return fd::sealed(&content),
            Ok(length) => content.extend_from_slice(&buffer[..length]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, content).unwrap();
        file
    }

    fn cannot_be_written(descriptor: &OwnedFd) -> bool {
        let again = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        let writes = |mut file: File| file.write_all(b"planted");
        ["w", "rw"].iter().all(|how| {
            let opened = fs::OpenOptions::new().read(how.contains('r')).write(true).open(&again);
            opened.and_then(writes).is_err()
        })
    }

    // SPEC S13
    #[test]
    fn each_way_gives_the_rest_of_the_file_and_no_way_to_write_it() {
        let file = file("first second");
        let ways: [fn(BorrowedFd) -> io::Result<OwnedFd>; 3] = [by_child, copy, reopen];
        for (number, way) in ways.into_iter().enumerate() {
            let mut opened = File::open(&file).unwrap();
            opened.seek(std::io::SeekFrom::Start(6)).unwrap();
            let again = way(opened.as_fd()).unwrap_or_else(|e| panic!("way {number}: {e}"));
            assert!(cannot_be_written(&again), "way {number}");
            // Only `reopen` keeps the file offset.
            let expected = if number < 2 { "first second" } else { "second" };
            assert_eq!(io::read_to_string(File::from(again)).unwrap(), expected, "way {number}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "first second");
    }

    #[test]
    fn an_unlinked_file_can_be_reopened_and_read() {
        let named = file("content");
        let opened = File::open(&named).unwrap();
        drop(named);
        let again = reopen(opened.as_fd()).unwrap();
        assert!(cannot_be_written(&again));
        assert_eq!(io::read_to_string(File::from(again)).unwrap(), "content");
    }

    // SPEC S13
    #[test]
    fn a_file_that_replaced_the_opened_one_is_not_reopened() {
        let named = file("meant");
        let opened = File::open(&named).unwrap();
        let other = file("other");
        fs::rename(other.path(), named.path()).unwrap();
        // The kernel's path of the opened file does not end in `(deleted)`.
        assert!(by_child(opened.as_fd()).is_err());
    }

    // SPEC S13
    #[test]
    fn a_file_beyond_the_limit_is_not_copied() {
        let large = tempfile::tempfile().unwrap();
        large.set_len(LARGEST_COPY as u64 + 1).unwrap();
        assert_eq!(copy(large.as_fd()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
