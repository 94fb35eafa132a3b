//! A second opening of a file that nobody can turn into one for writing.
//!
//! `/proc/self/fd/0` opens a file anew, with all rights that the user has on it, on the mount by
//! which it was first opened: the host's. So the file is opened once more, on a mount of its own
//! that is read-only and belongs to no namespace any more: there, opening for writing, `fchmod` and
//! the like give EROFS, and nobody can change the mount (measured on Linux 6.18).

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

use rustix::fs::{
    AtFlags, CWD, MemfdFlags, Mode, OFlags, ResolveFlags, SealFlags, SeekFrom, Stat, fcntl_add_seals, fstat,
    memfd_create, open, openat, openat2, seek, statat,
};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::path::DecInt;
use rustix::thread::UnshareFlags;

use crate::host::identity::Identity;
use crate::sys::mount::make_read_only;

/// What is copied where no mount can be had. It stays in memory while the command runs.
pub(super) const LARGEST_COPY: u64 = 64 << 20;

/// Opens a stream's file again at the same offset, for reading alone. `None` where it would have to be copied, and
/// is too large for that.
pub(super) fn reopened(file: BorrowedFd) -> io::Result<Option<OwnedFd>> {
    // Root needs no namespace for it, and gets by without a name. Everybody else needs both.
    let again = match on_own_mount(file) {
        Ok(again) => Some(again),
        Err(_) => by_helper(file).unwrap_or_default(),
    };
    let Some(again) = (match again {
        Some(again) => Some(again),
        None => copied(file)?,
    }) else {
        return Ok(None);
    };
    // What has no place has none to keep.
    if let Ok(place) = seek(file, SeekFrom::Current(0)) {
        seek(&again, SeekFrom::Start(place))?;
    }
    Ok(Some(again))
}

/// Opens `file` on a read-only mount that shows nothing else and hangs nowhere. Allocates nothing.
fn on_own_mount(file: BorrowedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(file, c"", flags)?;
    make_read_only(mount.as_fd())?;
    let descriptors = open(c"/proc/self/fd", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = DecInt::from_fd(&mount);
    Ok(openat(descriptors, name.as_c_str(), OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}

/// An ordinary user may mount only in a namespace of his own, and there only by a path: a
/// descriptor from outside is on a foreign mount (EINVAL). So a child goes there, and sends back
/// what it opened.
#[allow(unsafe_code)]
fn by_helper(file: BorrowedFd) -> io::Result<Option<OwnedFd>> {
    let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let name = std::ffi::CString::new(name.into_os_string().into_vec())?;
    let meant = fstat(file)?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the child makes system calls alone, on values that were made before, and ends without
    // running anything of its parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let sent = send_from_own_namespace(&name, &meant, theirs.as_fd());
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(sent.is_err())) };
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(theirs);
    let received = receive(ours.as_fd());
    if let Some(child) = rustix::process::Pid::from_raw(child) {
        let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    }
    received
}

#[allow(unsafe_code)]
fn send_from_own_namespace(name: &std::ffi::CStr, meant: &Stat, to: BorrowedFd) -> io::Result<()> {
    // SAFETY: what makes `unshare` unsafe is a descriptor table that threads no longer share; these
    // flags leave it alone.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let named = openat2(CWD, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let found = statat(&named, c"", AtFlags::EMPTY_PATH)?;
    if Identity::of_stat(&found) != Identity::of_stat(meant) {
        return Err(rustix::io::Errno::STALE.into());
    }
    let opened = on_own_mount(named.as_fd())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let opened = [opened.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&opened));
    sendmsg(to, &[IoSlice::new(b"f")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// `None` if the child ended without a word.
fn receive(from: BorrowedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    loop {
        match recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
            Ok(_) => break,
        }
    }
    Ok(ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

/// For a file without a name (a here-document, one that was removed), or where this machine grants
/// no namespace: what it holds now, in memory. `None` if that is too much.
fn copied(file: BorrowedFd) -> io::Result<Option<OwnedFd>> {
    let source = File::from(file.try_clone_to_owned()?);
    let memory = memfd_create("agent-sandbox", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut copy = File::from(memory);
    let mut buffer = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        let read = match source.read_at(&mut buffer, length) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        length += read as u64;
        if length > LARGEST_COPY {
            return Ok(None);
        }
        copy.write_all(&buffer[..read])?;
    }
    fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(Some(copy.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

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

    #[test]
    fn each_way_gives_the_rest_of_the_file_and_no_way_to_write_it() {
        let file = file("first second");
        type Way = fn(BorrowedFd) -> io::Result<Option<OwnedFd>>;
        let ways: [Way; 3] = [by_helper, copied, reopened];
        for (number, way) in ways.into_iter().enumerate() {
            let mut opened = File::open(&file).unwrap();
            opened.seek(std::io::SeekFrom::Start(6)).unwrap();
            let again = way(opened.as_fd()).unwrap().unwrap_or_else(|| panic!("way {number}"));
            assert!(cannot_be_written(&again), "way {number}");
            let mut read = String::new();
            let mut again = File::from(again);
            if number < 2 {
                again.seek(std::io::SeekFrom::Start(6)).unwrap();
            }
            again.read_to_string(&mut read).unwrap();
            assert_eq!(read, "second", "way {number}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "first second");
    }

    #[test]
    fn a_file_without_a_name_is_read_all_the_same() {
        let named = file("content");
        let opened = File::open(&named).unwrap();
        drop(named);
        let again = reopened(opened.as_fd()).unwrap().unwrap();
        assert!(cannot_be_written(&again));
        let mut read = String::new();
        File::from(again).read_to_string(&mut read).unwrap();
        assert_eq!(read, "content");
    }

    #[test]
    fn what_took_the_name_of_the_file_is_not_opened() {
        let named = file("meant");
        let opened = File::open(&named).unwrap();
        let other = file("other");
        fs::rename(other.path(), named.path()).unwrap();
        // Its name has no `(deleted)` any more for who does not compare.
        assert!(by_helper(opened.as_fd()).unwrap().is_none());
    }

    #[test]
    fn too_much_is_not_copied() {
        let large = tempfile::tempfile().unwrap();
        large.set_len(LARGEST_COPY + 1).unwrap();
        assert!(copied(large.as_fd()).unwrap().is_none());
    }
}
