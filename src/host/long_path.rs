//! Paths that are longer than a system call accepts. A command can create them step by step, and
//! git follows them, because it uses paths relative to its work tree.
#![expect(clippy::disallowed_methods, reason = "nothing is changed, and no symlink is followed")]

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// The longest path that a system call accepts: `PATH_MAX` without the NUL.
pub(crate) const LONGEST: usize = 4095;

/// The longest path of a directory that is searched. A command could nest thousands, and the time
/// to reach one grows with its depth.
pub(crate) const LONGEST_SEARCHED: usize = 1 << 16;

/// A path in a form that system calls accept: an open directory, and the rest of the path.
pub(crate) struct Reached<'p> {
    folder: Option<OwnedFd>,
    pub(crate) rest: Cow<'p, Path>,
}

impl<'p> Reached<'p> {
    /// Opens directories on the way while `path` is too long. A symlink on that part of the way is
    /// the error `ELOOP`.
    pub(crate) fn open(path: Cow<'p, Path>) -> Result<Self, Errno> {
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self { folder: None, rest: path });
        }
        let mut folder: Option<OwnedFd> = None;
        let mut rest = path.as_os_str().as_bytes();
        while rest.len() > LONGEST {
            let end = rest[..LONGEST].iter().rposition(|byte| *byte == b'/').filter(|end| *end > 0);
            let (part, after) = rest.split_at(end.ok_or(Errno::NAMETOOLONG)?);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let around = folder.as_ref().map_or(CWD, AsFd::as_fd);
            folder = Some(openat2(around, part, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?);
            rest = after.strip_prefix(b"/").unwrap_or(after);
        }
        let rest = Cow::Owned(Path::new(OsStr::from_bytes(rest)).to_owned());
        Ok(Self { folder, rest })
    }

    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, AsFd::as_fd)
    }
}
