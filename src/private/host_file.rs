//! The host's side of a private file: reading it, and replacing it with one that has a few more
//! keys.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, openat, renameat_with, statat, unlinkat,
};
use rustix::process::geteuid;

use super::store::MAX_BYTES;
use crate::host::{Host, Identity, nofollow};
use crate::policy::AbsPath;

/// The host's file when it was read.
pub(super) struct HostFile {
    pub text: Vec<u8>,
    identity: Identity,
    mode: Mode,
}

impl HostFile {
    /// Reads a regular file of this user, without following a symlink. `None` if there is none.
    pub(super) fn read(host: &Host, path: &AbsPath) -> io::Result<Option<Self>> {
        let (folder, name) = nofollow::open_parent(host, path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&folder, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let found = fstat(&file)?;
        let unfit = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return unfit("it is no regular file");
        }
        let mut text = Vec::new();
        let identity = Identity::of(&file.metadata()?);
        file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            return unfit("it is larger than 1 MiB");
        }
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
    let (folder, name) = nofollow::open_parent(host, path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let owner = Mode::RUSR | Mode::WUSR;
    let mut new = File::from(openat(&folder, lock, flags, owner)?);
    let mode = before.map_or(owner, |before| before.mode.intersection(Mode::RWXU | Mode::RWXG | Mode::RWXO));
    let written = new.write_all(text).and_then(|()| Ok(fchmod(&new, mode)?)).and_then(|()| new.sync_all());
    let moved = written.and_then(|()| {
        let Some(before) = before else {
            return Ok(renameat_with(&folder, lock, &folder, name, RenameFlags::NOREPLACE)?);
        };
        // Between this look and the rename, a program that ignores the lock could still write.
        let again = HostFile::read(host, path)?;
        let is_same = again.is_some_and(|now| now.identity == before.identity && now.text == before.text);
        let owner = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_uid;
        if !is_same || owner != geteuid().as_raw() {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        Ok(renameat_with(&folder, lock, &folder, name, RenameFlags::empty())?)
    });
    if moved.is_err() {
        let _ = unlinkat(&folder, lock, AtFlags::empty());
    }
    moved
}
