//! Opens single files of the host without following a symlink, in directories that a command may
//! have changed.
#![expect(clippy::disallowed_methods, reason = "nothing is changed, and no symlink is followed")]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;

use crate::host::Host;
use crate::host::long_path::Reached;
use crate::policy::AbsPath;

/// Opens the file at `path`, which may itself be a symlink, without access to its content.
pub(crate) fn open_itself(host: &Host, path: &AbsPath) -> io::Result<OwnedFd> {
    open(host, path, OFlags::PATH | OFlags::NOFOLLOW)
}

/// Opens the file at `path` for reading, and does not wait for the writer of a FIFO.
pub(crate) fn open_to_read(host: &Host, path: &AbsPath) -> io::Result<File> {
    open(host, path, OFlags::RDONLY | OFlags::NONBLOCK).map(File::from)
}

/// A symlink on the way is the error ENOTDIR.
fn open(host: &Host, path: &AbsPath, flags: OFlags) -> io::Result<OwnedFd> {
    let reached = Reached::open(host.reached(path.as_path()));
    let open = |reached: Reached| {
        openat2(reached.folder(), &*reached.rest, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
    };
    match reached.and_then(open) {
        Err(Errno::LOOP) => Err(Errno::NOTDIR.into()),
        opened => Ok(opened?),
    }
}

/// The status of the file at `path`, which may be a symlink; `None` if there is none.
pub(crate) fn look(host: &Host, path: &AbsPath) -> io::Result<Option<Stat>> {
    match open_itself(host, path) {
        Ok(opened) => Ok(Some(fstat(&opened)?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
