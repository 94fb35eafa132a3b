//! Operations on single files of the host, in directories that a command may have changed. They
//! follow no symlink, and touch only files that a run has made.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::diagnostic::reason;
use crate::host::journal::PlaceholderRecord;
use crate::host::{Host, Identity, OpenDir};
use crate::policy::path::AbsPath;

/// Makes a new directory, or a new file with `content`. The descriptor gives no access to it.
pub(crate) fn make(host: &Host, path: &AbsPath, content: Option<&[u8]>) -> io::Result<(Identity, OwnedFd)> {
    let (folder, name) = OpenDir::parent_of(host, path)?;
    let made = match content {
        None => folder.make_dir(name, Mode::from_raw_mode(0o755))?.status()?,
        Some(content) => {
            let mut file = folder.make_file(name, OFlags::WRONLY, Mode::from_raw_mode(0o644))?;
            file.write_all(content)?;
            fstat(&file)?
        }
    };
    let held = folder.open_itself(name)?;
    let identity = Identity::of_stat(&fstat(&held)?);
    // A command of another run may have replaced it in the meantime.
    if Identity::of_stat(&made) != identity {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok((identity, held))
}

/// Renames `from` to `to`, which is in the same directory.
pub(crate) fn rename_without_replacing(host: &Host, from: &AbsPath, to: &AbsPath) -> io::Result<()> {
    let (folder, name) = OpenDir::parent_of(host, from)?;
    folder.rename_new(name, &folder, to.file_name().unwrap_or_default())
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
        let (folder, name) = OpenDir::parent_of(host, path)?;
        let Some(content) = content else { return folder.remove_dir(name) };
        let Some(found) = folder.stat(name)? else { return Ok(()) };
        // A killed run may have written only a part.
        let is_ours = found.st_nlink == 1 && begins(&folder, name, &found, content)?;
        if is_ours { folder.remove_file(name) } else { Ok(()) }
    };
    match remove() {
        Ok(()) => true,
        Err(e) => matches!(e.kind(), NotFound | DirectoryNotEmpty | AlreadyExists | IsADirectory) || is_elsewhere(&e),
    }
}

/// Whether the file holds the whole content of a placeholder, or a part from its beginning.
fn begins(folder: &OpenDir, name: &OsStr, found: &Stat, content: &[u8]) -> io::Result<bool> {
    let written = usize::try_from(found.st_size).ok().and_then(|size| content.get(..size));
    written.map_or(Ok(false), |written| folder.holds(name, found, written))
}

/// Whether a directory on the way has become a symlink or a file, so that the path no longer leads
/// to the placeholder of the run.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTDIR | Errno::LOOP))
}

/// The result of removing a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalOutcome {
    Removed,
    /// Nothing exists at the path.
    Gone,
    /// Another run relies on the placeholder.
    InUse,
    /// A directory on the way to a placeholder, which is not empty any more.
    Filled,
    /// The file or directory is not ours any more, for this reason.
    Left(String),
    /// The file or directory could not be removed, for this reason, and stays in the journal.
    Stuck(String),
}

/// Removes the placeholder of `record`, if it is the same file and unchanged.
pub(crate) fn remove(host: &Host, record: &PlaceholderRecord) -> RemovalOutcome {
    match try_remove(host, record) {
        Ok(outcome) => outcome,
        Err(e) if e.kind() == io::ErrorKind::NotFound => RemovalOutcome::Gone,
        Err(e) if is_elsewhere(&e) => RemovalOutcome::Left("a folder on the way is no longer a folder".to_owned()),
        Err(e) => RemovalOutcome::Stuck(reason(&e)),
    }
}

fn try_remove(host: &Host, record: &PlaceholderRecord) -> io::Result<RemovalOutcome> {
    let left = |why: &str| Ok(RemovalOutcome::Left(why.to_owned()));
    let (folder, name) = OpenDir::parent_of(host, &record.path)?;
    let Some(found) = folder.stat(name)? else { return Ok(RemovalOutcome::Gone) };
    if Identity::of_stat(&found) != record.identity {
        return left("something else is there now");
    }
    let removed = match record.content() {
        None => folder.remove_dir(name),
        Some(content) if folder.holds(name, &found, content)? => folder.remove_file(name),
        Some(_) => return left("its content has changed"),
    };
    let is_filled = |error: &io::Error| matches!(Errno::from_io_error(error), Some(Errno::NOTEMPTY | Errno::EXIST));
    match removed {
        Ok(()) => Ok(RemovalOutcome::Removed),
        Err(e) if is_filled(&e) && record.is_parent => Ok(RemovalOutcome::Filled),
        Err(e) if is_filled(&e) => left("it is not empty any more"),
        Err(e) => Err(e),
    }
}
