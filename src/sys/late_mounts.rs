//! Mounts that the supervisor makes in a sandbox while the command runs.
//!
//! A child process enters the command's namespaces and works there with descriptors alone: those of
//! directories that were opened before the command started. So no name that the command can change
//! is on the way. The child executes nothing, is in no process namespace of the sandbox, and cannot
//! be traced.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, fstat, openat, openat2, statx,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, move_mount, open_tree,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::namespaces::{Namespaces, set_mount_flags};
use super::process::in_child;
use crate::policy::places;

/// The number of descriptors that a child sends before its parent reads them: their messages must
/// fit into the buffer of a socket.
const AT_A_TIME: usize = 64;

const CLOSED: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// An entry of the sandbox that the supervisor holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SandboxEntry<'p> {
    Directory(&'p CStr),
    /// A copy of the symlink that is mounted at this path.
    MountedLink(&'p CStr),
}

/// The mount that covers a file again.
#[derive(Debug)]
pub(crate) enum Cover<'m> {
    /// A file that cannot be opened.
    Mask,
    /// The file itself, read-only.
    ReadOnly,
    /// A mount that is attached nowhere.
    Mount(BorrowedFd<'m>),
}

/// The result of [`Namespaces::cover`].
#[derive(Debug)]
pub(crate) enum Covered {
    /// A mount covers the file already.
    Before,
    /// As asked. For [`Cover::Mount`], with another copy of the mount, if one could be made.
    AsAsked(Option<OwnedFd>),
    /// The entry is no regular file, so it is hidden.
    Hidden,
}

impl Namespaces {
    /// Opens entries as the command sees them. A symlink on the way is an error.
    #[allow(unsafe_code)]
    pub(crate) fn hold(&self, entries: &[SandboxEntry]) -> io::Result<Vec<io::Result<OwnedFd>>> {
        let mut all = Vec::with_capacity(entries.len());
        for entries in entries.chunks(AT_A_TIME) {
            let (ours, theirs) = messages()?;
            let work = || {
                self.enter_from_outside()?;
                entries.iter().try_for_each(|entry| match open_entry(*entry) {
                    Ok(opened) => send(theirs.as_fd(), 0, Some(opened.as_fd())),
                    Err(e) => send(theirs.as_fd(), errno_byte(e), None),
                })
            };
            // SAFETY: the closure makes system calls alone, on values that exist already.
            unsafe { in_child(work) }?;
            for _ in entries {
                let (errno, opened) = receive(&ours)?;
                all.push(opened.ok_or_else(|| io::Error::from_raw_os_error(errno.into())));
            }
        }
        Ok(all)
    }

    /// Covers the entry `name` of `directory`, which [`Namespaces::hold`] has opened, unless a
    /// mount covers it already.
    #[allow(unsafe_code)]
    pub(crate) fn cover(&self, directory: BorrowedFd, name: &CStr, cover: &Cover) -> io::Result<Covered> {
        const BEFORE: u8 = 0;
        const AS_ASKED: u8 = 1;
        const HIDDEN: u8 = 2;
        let (ours, theirs) = messages()?;
        let work = || {
            self.enter_from_outside()?;
            let file = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            let found = statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
            if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
                return send(theirs.as_fd(), BEFORE, None);
            }
            match (FileType::from_raw_mode(found.stx_mode.into()), cover) {
                (FileType::Directory, _) => attach(empty_directory()?.as_fd(), &file)?,
                (_, Cover::Mask) => {
                    attach(mask()?.as_fd(), &file)?;
                    return send(theirs.as_fd(), AS_ASKED, None);
                }
                (_, Cover::Mount(mount)) => {
                    attach(*mount, &file)?;
                    // A mount that is attached nowhere cannot be copied before Linux 6.15.
                    let copy = clone_mount(mount.as_fd());
                    return send(theirs.as_fd(), AS_ASKED, copy.as_ref().ok().map(AsFd::as_fd));
                }
                (FileType::RegularFile, Cover::ReadOnly) => {
                    let copy = clone_mount(file.as_fd())?;
                    set_mount_flags(copy.as_fd(), libc::MOUNT_ATTR_RDONLY)?;
                    attach(copy.as_fd(), &file)?;
                    return send(theirs.as_fd(), AS_ASKED, None);
                }
                // A read-only mount stops no write through a symlink or into a FIFO.
                (_, Cover::ReadOnly) => attach(mask()?.as_fd(), &file)?,
            }
            send(theirs.as_fd(), HIDDEN, None)
        };
        // SAFETY: the closure makes system calls alone, on values that exist already.
        unsafe { in_child(work) }?;
        match receive(&ours)? {
            (BEFORE, _) => Ok(Covered::Before),
            (AS_ASKED, copy) => Ok(Covered::AsAsked(copy)),
            _ => Ok(Covered::Hidden),
        }
    }
}

fn open_entry(entry: SandboxEntry) -> io::Result<OwnedFd> {
    match entry {
        SandboxEntry::Directory(path) => open_path(path, OFlags::DIRECTORY),
        SandboxEntry::MountedLink(path) => {
            let link = open_path(path, OFlags::NOFOLLOW)?;
            if kind(&link)? != FileType::Symlink {
                return Err(Errno::INVAL.into());
            }
            clone_mount(link.as_fd())
        }
    }
}

fn open_path(path: impl rustix::path::Arg, more: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | more;
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

fn kind(file: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

/// A mount that shows this entry and nothing else, with the flags of the mount that it is on.
fn clone_mount(entry: BorrowedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(entry, c"", flags)?)
}

/// A copy of the sandbox's mask. Where the policy masks no file there is none, and a device on a
/// mount without devices refuses to be opened as well.
fn mask() -> io::Result<OwnedFd> {
    let masked = open_path(places::MASKED, OFlags::NOFOLLOW);
    let source = match masked.and_then(|masked| Ok((kind(&masked)?, masked))) {
        Ok((FileType::Socket, masked)) => masked,
        // A caller takes ENOENT for a file that is gone.
        _ => open_path(c"/dev/null", OFlags::NOFOLLOW).map_err(|_| Errno::NODEV)?,
    };
    if !matches!(kind(&source)?, FileType::Socket | FileType::CharacterDevice) {
        return Err(Errno::INVAL.into());
    }
    let copy = clone_mount(source.as_fd())?;
    set_mount_flags(copy.as_fd(), CLOSED)?;
    Ok(copy)
}

/// A directory that shows nothing.
fn empty_directory() -> io::Result<OwnedFd> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"mode", c"0000")?;
    fsconfig_set_string(context.as_fd(), c"size", c"4k")?;
    fsconfig_create(context.as_fd())?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

fn attach(mount: BorrowedFd, at: &OwnedFd) -> io::Result<()> {
    let by_descriptors = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", at, c"", by_descriptors)?)
}

fn errno_byte(error: io::Error) -> u8 {
    error.raw_os_error().and_then(|errno| u8::try_from(errno).ok()).unwrap_or(u8::MAX)
}

/// The parent's end and the child's.
fn messages() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Sends a byte, and a descriptor with it. Allocates nothing.
fn send(to: BorrowedFd, byte: u8, descriptor: Option<BorrowedFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if descriptor.is_some() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptor.as_slice()));
    }
    sendmsg(to, &[IoSlice::new(&[byte])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(from: &OwnedFd) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    if recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((byte[0], descriptor))
}
