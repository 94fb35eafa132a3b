//! The host's side of a private file: reading it, and replacing it with one that has a few more
//! keys.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{
    FileType, Gid, Mode, OFlags, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::host::open_dir::read_regular;
use crate::host::{Host, Identity, OpenDir, if_there};
use crate::policy::AbsPath;
use crate::policy::private::MAX_BYTES;

/// The host's file when it was read.
pub(super) struct HostFile {
    pub text: Vec<u8>,
    file: File,
    identity: Identity,
    mode: Mode,
    group: Gid,
}

impl HostFile {
    /// Reads a regular file, without following a symlink. `None` if there is none, or no folder
    /// around it.
    pub(super) fn read(host: &Host, path: &AbsPath) -> io::Result<Option<Self>> {
        match OpenDir::parent_of(host, path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.and_then(|(folder, name)| Self::read_in(&folder, name)),
        }
    }

    fn read_in(folder: &OpenDir, name: &OsStr) -> io::Result<Option<Self>> {
        let file = if_there(folder.open_file(name, OFlags::RDONLY | OFlags::NOCTTY))?;
        let Some(file) = file else { return Ok(None) };
        if file.metadata()?.len() > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
        }
        let text = read_regular(&file, MAX_BYTES)?;
        let found = fstat(&file)?;
        let (identity, group) = (Identity::of_stat(&found), Gid::from_raw(found.st_gid));
        Ok(Some(Self { text, file, identity, mode: Mode::from_raw_mode(found.st_mode), group }))
    }
}

/// The host's file was not replaced.
#[derive(Debug, thiserror::Error)]
pub(super) enum CannotReplace {
    /// A file has the name of the lock, under which the new file would be made.
    #[error("its lock exists")]
    Locked,
    #[error("another program changed it meanwhile")]
    Changed,
    #[error("it belongs to another user")]
    OfAnotherUser,
    #[error("its extended attributes cannot be kept: {}", crate::diagnostic::reason(.0))]
    Attributes(io::Error),
    #[error("{}", crate::diagnostic::reason(.0))]
    Io(#[from] io::Error),
}

/// Replaces the host's file by one with `text`, or creates it, by a rename. The new file is made
/// under the name `lock`. Fails if `lock` exists, if the host's file is no longer `before`, or if
/// it belongs to another user.
pub(super) fn replace(
    host: &Host,
    path: &AbsPath,
    before: Option<&HostFile>,
    text: &[u8],
    lock: &OsStr,
) -> Result<(), CannotReplace> {
    let (folder, name) = OpenDir::parent_of(host, path)?;
    let new = folder.make_file(lock, OFlags::WRONLY, Mode::RUSR | Mode::WUSR).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => CannotReplace::Locked,
        _ => e.into(),
    })?;
    let identity = Identity::of(&new.metadata()?);
    let is_new = |name: &OsStr| -> io::Result<bool> {
        Ok(folder.stat(name)?.is_some_and(|found| Identity::of_stat(&found) == identity))
    };
    let moved = write(new, before, text).and_then(|()| {
        if let Some(before) = before {
            // Between this check and the rename, a program that ignores the lock could still
            // write.
            let now = HostFile::read_in(&folder, name)?;
            if now.is_none_or(|now| now.identity != before.identity || now.text != before.text) {
                return Err(CannotReplace::Changed);
            }
            if folder.stat(name)?.is_none_or(|found| found.st_uid != geteuid().as_raw()) {
                return Err(CannotReplace::OfAnotherUser);
            }
        }
        // A command in another sandbox may write this folder, too.
        if !is_new(lock)? {
            return Err(CannotReplace::Changed);
        }
        match before {
            Some(_) => folder.rename(lock, &folder, name)?,
            None => folder.rename_new(lock, &folder, name).map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => CannotReplace::Changed,
                _ => e.into(),
            })?,
        }
        if is_new(name)? { Ok(()) } else { Err(CannotReplace::Changed) }
    });
    if moved.is_err() && is_new(lock)? {
        let _ = folder.remove_file(lock);
    }
    moved
}

/// Writes the new file, and gives it the mode, the group and the attributes of the old one.
fn write(mut new: File, before: Option<&HostFile>, text: &[u8]) -> Result<(), CannotReplace> {
    new.write_all(text)?;
    if let Some(before) = before {
        let rights = before.mode.intersection(Mode::RWXU | Mode::RWXG | Mode::RWXO);
        // If the new file cannot get the old group, it gives its group no rights: they were meant
        // for the old group.
        let has_group = fchown(&new, None, Some(before.group)).is_ok();
        copy_attributes(&before.file, &new).map_err(CannotReplace::Attributes)?;
        // The rights of a group limit those that an ACL gives, so the mode comes last.
        fchmod(&new, if has_group { rights } else { rights.difference(Mode::RWXG) }).map_err(io::Error::from)?;
    }
    Ok(new.sync_all()?)
}

/// Gives `to` the extended attributes of `from`, ACLs among them, and no others: a folder can have
/// an ACL that each new file gets.
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let (wanted, found) = (attributes(from)?, attributes(to)?);
    for (name, value) in wanted.iter().filter(|(name, value)| found.get(*name) != Some(value)) {
        fsetxattr(to, name.as_slice(), value, XattrFlags::empty())?;
    }
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        fremovexattr(to, name.as_slice())?;
    }
    Ok(())
}

fn attributes(file: &File) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    /// The largest list of names, and the largest value, in bytes (xattr(7)).
    const LARGEST: usize = 1 << 16;
    let mut buffer = vec![0; LARGEST];
    let names = match flistxattr(file, &mut buffer[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let names: Vec<Vec<u8>> = buffer[..names].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let mut found = BTreeMap::new();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        let length = fgetxattr(file, name.as_slice(), &mut buffer[..])?;
        found.insert(name, buffer[..length].to_vec());
    }
    Ok(found)
}

/// Removes the unfinished file of a killed run.
pub(super) fn remove_leftover(host: &Host, path: &AbsPath, lock: &OsStr) -> io::Result<()> {
    let (folder, _) = OpenDir::parent_of(host, path)?;
    let is_ours = |mode, uid| FileType::from_raw_mode(mode).is_file() && uid == geteuid().as_raw();
    match folder.stat(lock)? {
        Some(found) if is_ours(found.st_mode, found.st_uid) => folder.remove_file(lock),
        _ => Ok(()),
    }
}
