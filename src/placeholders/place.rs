//! Making and removing single files on the host, where a command may have been: never through a symlink, and nothing
//! that is not ours.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags, fstat, mkdirat, openat, openat2, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::diagnostic::reason;
use crate::host::Host;
use crate::host::identity::Identity;
use crate::host::journal::Record;
use crate::host::nofollow::{Folders, holds, open_parent};
use crate::policy::path::AbsPath;

/// What is at `path`, kept from being forgotten by the kernel. No symlink leads there.
pub(crate) fn hold(host: &Host, path: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(CWD, host.real(path), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// Makes a new directory, or a new file with `content`.
pub(crate) fn make(host: &Host, path: &AbsPath, content: Option<&[u8]>, folders: &mut Folders) -> io::Result<Identity> {
    let (folder, name) = folders.parent(host, path)?;
    let found = match content {
        None => {
            mkdirat(folder, name, Mode::from_raw_mode(0o755))?;
            statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?
        }
        Some(content) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(openat(folder, name, flags, Mode::from_raw_mode(0o644))?);
            file.write_all(content)?;
            fstat(&file)?
        }
    };
    Ok(Identity::of_stat(&found))
}

/// Moves `from` to `to`, in the same folder, unless something is there.
pub(crate) fn put_in_place(host: &Host, from: &AbsPath, to: &AbsPath, folders: &mut Folders) -> io::Result<()> {
    let (folder, name) = folders.parent(host, from)?;
    let target = to.file_name().unwrap_or_default();
    Ok(renameat_with(folder, name, folder, target, RenameFlags::NOREPLACE)?)
}

/// Whether the file system does not know how to move without replacing.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP))
}

/// Removes what has a name that only we use.
///
/// `false` where it may go at the next attempt. What was put there by somebody who wants it stays for good.
pub(crate) fn remove_named(host: &Host, path: &AbsPath, is_directory: bool) -> bool {
    let removed = open_parent(host, path).and_then(|(folder, name)| {
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(unlinkat(&folder, name, flags)?)
    });
    match removed {
        Ok(()) => true,
        Err(e) => {
            use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotFound};
            matches!(e.kind(), NotFound | DirectoryNotEmpty | AlreadyExists | IsADirectory) || is_elsewhere(&e)
        }
    }
}

/// A folder on the way has become a link or a file: what was made is not to be found under its name any more.
fn is_elsewhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotADirectory || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// What became of something that a run had made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalOutcome {
    Removed,
    /// Nothing is there any more.
    Gone,
    /// Another run relies on it.
    InUse,
    /// A directory that was made on the way, and that now holds something.
    Filled,
    /// It is not ours any more, and why.
    Left(String),
    /// It is ours, and could not be removed now, and why: it stays in the journal.
    Stuck(String),
}

/// Removes what `record` names, if it is still that, and as it was.
pub(crate) fn remove(host: &Host, record: &Record, folders: &mut Folders) -> RemovalOutcome {
    match try_remove(host, record, folders) {
        Ok(outcome) => outcome,
        Err(e) if e.kind() == io::ErrorKind::NotFound => RemovalOutcome::Gone,
        Err(e) if is_elsewhere(&e) => RemovalOutcome::Left("a folder on the way is none any more".to_owned()),
        Err(e) => RemovalOutcome::Stuck(reason(&e)),
    }
}

fn try_remove(host: &Host, record: &Record, folders: &mut Folders) -> io::Result<RemovalOutcome> {
    let Some(path) = record.path() else { return Ok(RemovalOutcome::Left("its name is not a path".to_owned())) };
    let (folder, name) = folders.parent(host, &path)?;
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if Identity::of_stat(&found) != record.identity {
        return Ok(RemovalOutcome::Left("something else stands there now".to_owned()));
    }
    match record.content() {
        None => match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if record.is_parent => Ok(RemovalOutcome::Filled),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(RemovalOutcome::Left("it is not empty any more".to_owned())),
            Err(e) => Err(e.into()),
            Ok(()) => Ok(RemovalOutcome::Removed),
        },
        Some(content) if holds(folder, name, &found, content)? => {
            unlinkat(folder, name, AtFlags::empty())?;
            Ok(RemovalOutcome::Removed)
        }
        Some(_) => Ok(RemovalOutcome::Left("its content has changed".to_owned())),
    }
}
