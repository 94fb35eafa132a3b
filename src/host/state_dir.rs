//! Files in the state folder, which no rule makes writable inside (SPEC D6). Their content is
//! trusted, so a file is read only where no other user can write, and is replaced as a whole.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::host::Host;
use crate::policy::AbsPath;

/// Files of one kind, in a folder of their own in the state folder.
pub(crate) struct StateFiles {
    pub(crate) folder: &'static str,
    pub(crate) max_bytes: u64,
}

impl StateFiles {
    /// The path of the file with this name.
    pub(crate) fn path(&self, state: &AbsPath, name: impl AsRef<OsStr>) -> AbsPath {
        state.child(self.folder).child(name)
    }

    pub(crate) fn read(&self, host: &Host, state: &AbsPath, name: &str) -> io::Result<Vec<u8>> {
        self.content(&self.open_folder(host, state)?, OsStr::new(name))
    }

    /// The contents of all files, sorted by name. Without a folder there are none; a folder that
    /// cannot be trusted is an error.
    pub(crate) fn read_all(&self, host: &Host, state: &AbsPath) -> io::Result<Vec<(OsString, io::Result<Vec<u8>>)>> {
        let with_content = |name: OsString| {
            let content = self.open_folder(host, state).and_then(|folder| self.content(&folder, &name));
            (name, content)
        };
        Ok(self.names(host, state)?.into_iter().map(with_content).collect())
    }

    /// The names of all files, sorted. Without a folder there are none.
    pub(crate) fn names(&self, host: &Host, state: &AbsPath) -> io::Result<Vec<OsString>> {
        let folder = match self.open_folder(host, state) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folder => folder?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            // The name of an unfinished file begins with a dot.
            if name.ends_with(b".json") && !name.starts_with(b".") {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Renames a file, in place of another one.
    pub(crate) fn rename(&self, host: &Host, state: &AbsPath, from: &str, to: &str) -> io::Result<()> {
        let folder = self.open_folder(host, state)?;
        Ok(renameat(&folder, from, &folder, to)?)
    }

    /// Removes a file. If it is a symlink, its target stays.
    pub(crate) fn remove(&self, host: &Host, state: &AbsPath, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.open_folder(host, state)?, name, AtFlags::empty())?)
    }

    fn content(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<Vec<u8>> {
        // Opening a FIFO would block without NONBLOCK.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(folder, name, flags, Mode::empty())?);
        must_be_ours(&file)?;
        if !file.metadata()?.is_file() {
            return Err(unfit("it is not a regular file"));
        }
        let mut content = Vec::new();
        file.take(self.max_bytes + 1).read_to_end(&mut content)?;
        if content.len() as u64 > self.max_bytes { Err(unfit("it is too large")) } else { Ok(content) }
    }

    /// Replaces a file by a new one with this content.
    pub(crate) fn write(&self, host: &Host, state: &AbsPath, name: &str, content: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(host.real(&state.child(self.folder)))?;
        let folder = self.open_folder(host, state)?;
        let new = format!(".{name}.{}", std::process::id());
        // A killed process with the same id may have left it.
        match unlinkat(&folder, &new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let moved = written.and_then(|()| Ok(renameat(&folder, &new, &folder, name)?));
        if moved.is_err() {
            let _ = unlinkat(&folder, &new, AtFlags::empty());
        }
        moved
    }

    /// Opens the state folder and this folder in it. A symlink of another user, or a folder that
    /// another user can write, would let that user speak for ours.
    pub(crate) fn open_folder(&self, host: &Host, state: &AbsPath) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let state = rustix::fs::open(host.real(state), flags, Mode::empty())?;
        must_be_ours(&state)?;
        let folder = openat(&state, self.folder, flags, Mode::empty())?;
        must_be_ours(&folder)?;
        Ok(folder)
    }
}

/// A file in the project came with the repository, or a command made it.
pub(crate) fn must_be_elsewhere(state: &AbsPath, project: &AbsPath) -> io::Result<()> {
    if state.is_within(project) { Err(unfit("it lies in the project itself")) } else { Ok(()) }
}

pub(crate) fn unfit(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn must_be_ours(file: impl AsFd) -> io::Result<()> {
    let found = fstat(file)?;
    if found.st_uid != rustix::process::geteuid().as_raw() && found.st_uid != 0 {
        Err(unfit("it belongs to somebody else"))
    } else if Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        Err(unfit("others can write there"))
    } else {
        Ok(())
    }
}
