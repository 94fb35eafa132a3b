//! Access to the host that follows no symlink, for directories where a command may have been.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;

use crate::host::Host;
use crate::host::long_path::Reached;
use crate::policy::AbsPath;

/// Opens a directory.
pub(crate) fn open_folder(host: &Host, folder: &AbsPath) -> io::Result<OwnedFd> {
    Ok(open(host, folder, OFlags::DIRECTORY)?)
}

/// Opens the directory that holds `path`, and returns it with the name of `path` in it.
pub(crate) fn open_parent<'p>(host: &Host, path: &'p AbsPath) -> io::Result<(OwnedFd, &'p OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((open_folder(host, &parent)?, name))
}

/// Opens the file at `path`, which may itself be a symlink, without access to its content.
pub(crate) fn open_itself(host: &Host, path: &AbsPath) -> io::Result<OwnedFd> {
    Ok(open(host, path, OFlags::NOFOLLOW)?)
}

/// A symlink on the way means that the directory is no longer there.
fn open(host: &Host, path: &AbsPath, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | more;
    Reached::open(host.reached(path.as_path()))
        .and_then(|reached| openat2(reached.folder(), &*reached.rest, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS))
        .map_err(|e| if e == Errno::LOOP { Errno::NOTDIR } else { e })
}

/// The status of the file at `path`, which may be a symlink; `None` if there is none.
pub(crate) fn look(host: &Host, path: &AbsPath) -> io::Result<Option<Stat>> {
    match open_itself(host, path) {
        Ok(opened) => Ok(Some(fstat(&opened)?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the file with the status `found` is a regular file with this content.
pub(crate) fn holds(folder: impl AsFd, name: &OsStr, found: &Stat, content: &[u8]) -> io::Result<bool> {
    if !FileType::from_raw_mode(found.st_mode).is_file() || usize::try_from(found.st_size) != Ok(content.len()) {
        return Ok(false);
    }
    if content.is_empty() {
        return Ok(true);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(openat(folder, name, flags, Mode::empty())?);
    let mut read = Vec::new();
    file.take(content.len() as u64 + 1).read_to_end(&mut read)?;
    Ok(read == content)
}

/// Whether the directory `name` in `folder` has no entries.
pub(crate) fn is_empty(folder: impl AsFd, name: &OsStr) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for entry in Dir::new(openat(folder, name, flags, Mode::empty())?)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}
