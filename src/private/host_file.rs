//! The host's side of a private file: reading it, and replacing it with one that has a few more
//! keys.

use std::io::{self, Write};

use rustix::fs::{Mode, OFlags, fchmod, fstat};
use rustix::process::geteuid;

use crate::host::open_dir::read_regular;
use crate::host::{Host, Identity, OpenDir};
use crate::policy::AbsPath;
use crate::policy::private::MAX_BYTES;

/// The host's file when it was read.
pub(super) struct HostFile {
    pub text: Vec<u8>,
    identity: Identity,
    mode: Mode,
}

impl HostFile {
    /// Reads a regular file of this user, without following a symlink. `None` if there is none.
    pub(super) fn read(host: &Host, path: &AbsPath) -> io::Result<Option<Self>> {
        let (folder, name) = OpenDir::parent_of(host, path)?;
        let file = match folder.open_file(name, OFlags::RDONLY | OFlags::NOCTTY) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if file.metadata()?.len() > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
        }
        let text = read_regular(&file, MAX_BYTES)?;
        let found = fstat(&file)?;
        let identity = Identity::of(&file.metadata()?);
        Ok(Some(Self { text, identity, mode: Mode::from_raw_mode(found.st_mode) }))
    }
}

/// Puts `text` in the place of the host's file, or where there is none, by a rename. Fails if the
/// file is no longer `before`, belongs to another user, or if `lock` exists, the name under which
/// the new file is made.
pub(super) fn replace(
    host: &Host,
    path: &AbsPath,
    before: Option<&HostFile>,
    text: &[u8],
    lock: &std::ffi::OsStr,
) -> io::Result<()> {
    let (folder, name) = OpenDir::parent_of(host, path)?;
    let owner = Mode::RUSR | Mode::WUSR;
    let mut new = folder.make_file(lock, OFlags::WRONLY, owner)?;
    let mode = before.map_or(owner, |before| before.mode.intersection(Mode::RWXU | Mode::RWXG | Mode::RWXO));
    let written = new.write_all(text).and_then(|()| Ok(fchmod(&new, mode)?)).and_then(|()| new.sync_all());
    let moved = written.and_then(|()| {
        let Some(before) = before else { return folder.rename_new(lock, &folder, name) };
        // Between this look and the rename, a program that ignores the lock could still write.
        let again = HostFile::read(host, path)?;
        let is_same = again.is_some_and(|now| now.identity == before.identity && now.text == before.text);
        let is_ours = folder.stat(name)?.is_some_and(|found| found.st_uid == geteuid().as_raw());
        if !is_same || !is_ours {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        folder.rename(lock, &folder, name)
    });
    if moved.is_err() {
        let _ = folder.remove_file(lock);
    }
    moved
}
