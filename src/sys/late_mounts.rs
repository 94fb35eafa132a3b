//! Mounts that the supervisor makes in a sandbox while the command runs.
//!
//! A child process enters the command's namespaces and works there only with descriptors of
//! directories that were opened before the command started. So the command cannot replace a
//! directory on the way. The child executes no program, does not join the sandbox's process
//! namespace, and cannot be traced.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, fstat, openat, openat2, statx,
};
use rustix::io::{Errno, read, write};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, move_mount, open_tree,
};

use super::namespaces::{Namespaces, set_mount_flags};
use super::process::in_child;
use crate::policy::places;

const CLOSED: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// The mount that covers a file again.
#[derive(Debug)]
pub(crate) enum Cover {
    /// A file that cannot be opened.
    Mask,
    /// The file itself, read-only.
    ReadOnly,
    /// The symlink that the guard has made at this path.
    Link(CString),
}

/// The result of [`Namespaces::cover`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Covered {
    /// A mount covers the file already.
    Before = 1,
    AsAsked,
    /// The link cannot be mounted, so the file is read-only.
    ReadOnly,
    /// The entry is no regular file, so it is hidden.
    Hidden,
}

impl Namespaces {
    /// Covers the entry `name` of `directory`, which [`Namespaces::open_directory`] has opened,
    /// unless a mount covers it already.
    #[allow(unsafe_code)]
    pub(crate) fn cover(&self, directory: BorrowedFd, name: &CStr, cover: &Cover) -> io::Result<Covered> {
        let (answer, told) = io::pipe()?;
        let work = || {
            self.enter_from_outside()?;
            write(&told, &[cover_inside(directory, name, cover)? as u8])?;
            Ok(())
        };
        // SAFETY: the closure makes only system calls, on values that exist already.
        unsafe { in_child(work) }?;
        let mut byte = [0];
        drop(told);
        read(&answer, &mut byte)?;
        let all = [Covered::Before, Covered::AsAsked, Covered::ReadOnly, Covered::Hidden];
        let is_told = |covered: &Covered| *covered as u8 == byte[0];
        all.into_iter().find(is_told).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Covers an entry in the sandbox that this process has entered. Allocates nothing.
fn cover_inside(directory: BorrowedFd, name: &CStr, cover: &Cover) -> io::Result<Covered> {
    let file = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
    if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(Covered::Before);
    }
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    if kind == FileType::Directory {
        attach(empty_directory()?.as_fd(), &file)?;
        return Ok(Covered::Hidden);
    }
    let is_link = match cover {
        Cover::Mask => {
            attach(mask()?.as_fd(), &file)?;
            return Ok(Covered::AsAsked);
        }
        Cover::Link(path) => {
            if let Ok(link) = link(path) {
                attach(link.as_fd(), &file)?;
                return Ok(Covered::AsAsked);
            }
            true
        }
        Cover::ReadOnly => false,
    };
    // A read-only mount stops no write through a symlink or into a FIFO.
    if kind != FileType::RegularFile {
        attach(mask()?.as_fd(), &file)?;
        return Ok(Covered::Hidden);
    }
    let copy = clone_mount(file.as_fd())?;
    set_mount_flags(copy.as_fd(), libc::MOUNT_ATTR_RDONLY)?;
    attach(copy.as_fd(), &file)?;
    Ok(if is_link { Covered::ReadOnly } else { Covered::AsAsked })
}

/// A mount of the link at `path`. The guard has made the link where no command can change it.
fn link(path: &CStr) -> io::Result<OwnedFd> {
    let link = open_path(path, OFlags::NOFOLLOW)?;
    if kind(&link)? == FileType::Symlink { clone_mount(link.as_fd()) } else { Err(Errno::INVAL.into()) }
}

fn open_path(path: impl rustix::path::Arg, more: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | more;
    Ok(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

fn kind(file: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

/// A mount that shows this entry and nothing else, with the flags of the entry's present mount.
fn clone_mount(entry: BorrowedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(entry, c"", flags)?)
}

/// A mount of the sandbox's mask. If the policy masks no file, there is no mask. In that case the
/// mount shows `/dev/null` with `nodev`, which cannot be opened either.
fn mask() -> io::Result<OwnedFd> {
    let masked = open_path(places::MASKED, OFlags::NOFOLLOW);
    let source = match masked.and_then(|masked| Ok((kind(&masked)?, masked))) {
        Ok((FileType::Socket, masked)) => masked,
        // This error must not be ENOENT, which tells the caller that the file is gone.
        _ => open_path(c"/dev/null", OFlags::NOFOLLOW).map_err(|_| Errno::NODEV)?,
    };
    if !matches!(kind(&source)?, FileType::Socket | FileType::CharacterDevice) {
        return Err(Errno::INVAL.into());
    }
    let copy = clone_mount(source.as_fd())?;
    set_mount_flags(copy.as_fd(), CLOSED)?;
    Ok(copy)
}

/// A mount that shows an empty directory.
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
