//! Keeps the directory of the last path open, because successive paths are often in one directory.
#![expect(clippy::disallowed_methods, reason = "nothing is changed, and no symlink is followed")]

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2, statx};
use rustix::io::Errno;

#[derive(Default)]
pub(crate) struct LastParent(Option<(PathBuf, OwnedFd)>);

impl LastParent {
    /// Calls statx for `path` without following a symlink.
    pub(crate) fn statx(&mut self, path: &Path, wanted: StatxFlags) -> Result<Statx, Errno> {
        let (dir, name) = self.of(path)?;
        statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, wanted)
    }

    /// Returns the directory of `path` and the name of `path` in it. A symlink on the way to the
    /// directory is an error. The directory may have been moved since it was opened for an earlier
    /// path. For `/`, returns `/` and `.`.
    pub(crate) fn of<'p>(&mut self, path: &'p Path) -> Result<(BorrowedFd<'_>, &'p OsStr), Errno> {
        let parent = path.parent().unwrap_or(path);
        let opened = match self.0.take() {
            Some(last) if last.0 == parent => last,
            _ => {
                let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
                (parent.to_owned(), openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
            }
        };
        Ok((self.0.insert(opened).1.as_fd(), path.file_name().unwrap_or(OsStr::new("."))))
    }
}
