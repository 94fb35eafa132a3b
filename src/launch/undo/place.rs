//! Making and removing single files on the host, where a command may have been: never through a symlink, and nothing
//! that is not ours.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, mkdirat, openat, openat2,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::host::Host;
use crate::journal::{Identity, Record};
use crate::path::AbsPath;

/// An open folder that no symlink led to.
pub(in crate::launch) fn open_folder(host: &Host, folder: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat2(CWD, host.real(folder), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// The folder that `path` lies in, and its name there.
pub(in crate::launch) fn open_parent<'p>(host: &Host, path: &'p AbsPath) -> io::Result<(OwnedFd, &'p OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((open_folder(host, &parent)?, name))
}

/// What is at `path`, itself; `None` when nothing is.
pub(in crate::launch) fn look(host: &Host, path: &AbsPath) -> io::Result<Option<Stat>> {
    let found =
        open_parent(host, path).and_then(|(folder, name)| Ok(statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?));
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// What is at `path`, kept from being forgotten by the kernel.
pub(super) fn hold(host: &Host, path: &AbsPath) -> io::Result<OwnedFd> {
    let (folder, name) = open_parent(host, path)?;
    Ok(openat(&folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

// The types of these fields differ between architectures.
#[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
pub(in crate::launch) fn identity(found: &Stat) -> Identity {
    Identity { device: found.st_dev as u64, inode: found.st_ino as u64 }
}

/// Makes a new directory, or a new file with `content`.
pub(super) fn make(host: &Host, path: &AbsPath, content: Option<&[u8]>) -> io::Result<Identity> {
    let (folder, name) = open_parent(host, path)?;
    match content {
        None => mkdirat(&folder, name, Mode::from_raw_mode(0o755))?,
        Some(content) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&folder, name, flags, Mode::from_raw_mode(0o644))?;
            std::fs::File::from(file).write_all(content)?;
        }
    }
    Ok(identity(&statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// Moves `from` to `to`, in the same folder, unless something is there.
pub(super) fn put_in_place(host: &Host, from: &AbsPath, to: &AbsPath) -> io::Result<()> {
    let (folder, name) = open_parent(host, from)?;
    let target = to.file_name().unwrap_or_default();
    Ok(renameat_with(&folder, name, &folder, target, RenameFlags::NOREPLACE)?)
}

/// Whether the file system does not know how to move without replacing.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP))
}

/// Removes what has a name that only we use.
pub(super) fn remove_named(host: &Host, path: &AbsPath, is_directory: bool) {
    // Whatever keeps it from going keeps it for the next sweep, or was put there by somebody who wants it.
    if let Ok((folder, name)) = open_parent(host, path) {
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _ = unlinkat(&folder, name, flags);
    }
}

/// What became of something that a run had made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Removed,
    /// Nothing is there any more.
    Gone,
    /// Another run relies on it.
    InUse,
    /// A directory that was made on the way, and that now holds something.
    Filled,
    /// It is not ours any more, and why.
    Left(String),
}

/// Removes what `record` names, if it is still that, and as it was.
pub(super) fn remove(host: &Host, record: &Record) -> Outcome {
    match try_remove(host, record) {
        Ok(outcome) => outcome,
        Err(e) if e.kind() == io::ErrorKind::NotFound => Outcome::Gone,
        Err(e) => Outcome::Left(format!("it cannot be removed: {}", crate::diagnostic::reason(&e))),
    }
}

fn try_remove(host: &Host, record: &Record) -> io::Result<Outcome> {
    let Some(path) = record.path() else { return Ok(Outcome::Left("its name is not a path".to_owned())) };
    let (folder, name) = open_parent(host, &path)?;
    let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if identity(&found) != record.identity {
        return Ok(Outcome::Left("something else stands there now".to_owned()));
    }
    match record.content() {
        None => match unlinkat(&folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if record.is_parent => Ok(Outcome::Filled),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Outcome::Left("it is not empty any more".to_owned())),
            Err(e) => Err(e.into()),
            Ok(()) => Ok(Outcome::Removed),
        },
        Some(content) if holds(&folder, name, &found, content)? => {
            unlinkat(&folder, name, AtFlags::empty())?;
            Ok(Outcome::Removed)
        }
        Some(_) => Ok(Outcome::Left("its content has changed".to_owned())),
    }
}

/// Whether the regular file `found` has this content.
fn holds(folder: &OwnedFd, name: &OsStr, found: &Stat, content: &[u8]) -> io::Result<bool> {
    if !FileType::from_raw_mode(found.st_mode).is_file() || usize::try_from(found.st_size) != Ok(content.len()) {
        return Ok(false);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(openat(folder, name, flags, Mode::empty())?);
    let mut read = Vec::new();
    file.take(content.len() as u64 + 1).read_to_end(&mut read)?;
    Ok(read == content)
}

/// Whether what `record` names is still that and as it was made.
pub(super) fn is_unchanged(host: &Host, record: &Record) -> bool {
    let unchanged = || -> io::Result<bool> {
        let Some(path) = record.path() else { return Ok(false) };
        let (folder, name) = open_parent(host, &path)?;
        let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(identity(&found) == record.identity
            && match record.content() {
                None => record.is_parent || is_empty(&folder, name)?,
                Some(content) => holds(&folder, name, &found, content)?,
            })
    };
    unchanged().unwrap_or(false)
}

fn is_empty(folder: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(folder, name, flags, Mode::empty())?;
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}
