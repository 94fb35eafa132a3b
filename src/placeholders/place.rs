//! Operations on single files of the host, in directories where a command may have been. They
//! follow no symlink, and touch only files that a run has made.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat, fstat, mkdirat, openat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use crate::diagnostic::reason;
use crate::host::Host;
use crate::host::identity::Identity;
use crate::host::journal::PlaceholderRecord;
use crate::host::nofollow::{holds, open_parent};
use crate::policy::path::AbsPath;

/// Makes a new directory, or a new file with `content`. The descriptor gives no access to it.
pub(crate) fn make(host: &Host, path: &AbsPath, content: Option<&[u8]>) -> io::Result<(Identity, OwnedFd)> {
    let (folder, name) = open_parent(host, path)?;
    let made = match content {
        None => {
            mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
            None
        }
        Some(content) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(openat(&folder, name, flags, Mode::from_raw_mode(0o644))?);
            file.write_all(content)?;
            Some(Identity::of_stat(&fstat(&file)?))
        }
    };
    let held = openat(&folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let identity = Identity::of_stat(&fstat(&held)?);
    // A command of another run may have replaced it meanwhile.
    if made.is_some_and(|made| made != identity) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok((identity, held))
}

/// Renames `from` to `to`, which is in the same directory.
pub(crate) fn rename_without_replacing(host: &Host, from: &AbsPath, to: &AbsPath) -> io::Result<()> {
    let (folder, name) = open_parent(host, from)?;
    let target = to.file_name().unwrap_or_default();
    Ok(renameat_with(&folder, name, &folder, target, RenameFlags::NOREPLACE)?)
}

/// Whether the file system lacks RENAME_NOREPLACE.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP))
}

/// Removes a directory with a temporary name, if it is empty, or a file with the content that a run
/// has given it. A command can move its own directory to such a name.
///
/// Returns `false` if the next attempt may succeed. A file that another process has put there
/// stays.
pub(crate) fn remove_named(host: &Host, path: &AbsPath, content: Option<&[u8]>) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotFound};
    let remove = || -> io::Result<()> {
        let (folder, name) = open_parent(host, path)?;
        match content {
            None => Ok(unlinkat(&folder, name, AtFlags::REMOVEDIR)?),
            Some(content) => {
                let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                // A killed run may have written only a part.
                let is_ours = found.st_nlink == 1 && begins(&folder, name, &found, content)?;
                if is_ours { Ok(unlinkat(&folder, name, AtFlags::empty())?) } else { Ok(()) }
            }
        }
    };
    match remove() {
        Ok(()) => true,
        Err(e) => matches!(e.kind(), NotFound | DirectoryNotEmpty | AlreadyExists | IsADirectory) || is_elsewhere(&e),
    }
}

/// Whether the file holds the whole content of a placeholder, or a part from its beginning.
fn begins(folder: &OwnedFd, name: &OsStr, found: &Stat, content: &[u8]) -> io::Result<bool> {
    let written = usize::try_from(found.st_size).ok().and_then(|size| content.get(..size));
    written.map_or(Ok(false), |written| holds(folder, name, found, written))
}

/// Whether a directory on the way has become a symlink or a file, so that the path no longer leads
/// to what the run has made.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP))
}

/// The result of removing a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalOutcome {
    Removed,
    /// Nothing is at the path.
    Gone,
    /// Another run relies on it.
    InUse,
    /// A directory on the way to a placeholder, which is not empty any more.
    Filled,
    /// It is not ours any more, for this reason.
    Left(String),
    /// It could not be removed, for this reason, and stays in the journal.
    Stuck(String),
}

/// Removes the placeholder of `record`, if it is the same file and unchanged.
pub(crate) fn remove(host: &Host, record: &PlaceholderRecord) -> RemovalOutcome {
    match try_remove(host, record) {
        Ok(outcome) => outcome,
        Err(e) if e.kind() == io::ErrorKind::NotFound => RemovalOutcome::Gone,
        Err(e) if is_elsewhere(&e) => RemovalOutcome::Left("a folder on the way is none any more".to_owned()),
        Err(e) => RemovalOutcome::Stuck(reason(&e)),
    }
}

fn try_remove(host: &Host, record: &PlaceholderRecord) -> io::Result<RemovalOutcome> {
    let left = |why: &str| Ok(RemovalOutcome::Left(why.to_owned()));
    let (folder, name) = open_parent(host, &record.path)?;
    let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if Identity::of_stat(&found) != record.identity {
        return left("something else stands there now");
    }
    let flags = match record.content() {
        None => AtFlags::REMOVEDIR,
        Some(content) if holds(&folder, name, &found, content)? => AtFlags::empty(),
        Some(_) => return left("its content has changed"),
    };
    match unlinkat(&folder, name, flags) {
        Ok(()) => Ok(RemovalOutcome::Removed),
        Err(Errno::NOTEMPTY | Errno::EXIST) if record.is_parent => Ok(RemovalOutcome::Filled),
        Err(Errno::NOTEMPTY | Errno::EXIST) => left("it is not empty any more"),
        Err(e) => Err(e.into()),
    }
}
