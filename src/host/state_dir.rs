//! Files in the state folder, which no rule makes writable inside (SPEC D6). Their content is
//! trusted, so a file is read only where no other user can write, and is replaced as a whole.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, Stat, fstat};

use crate::host::open_dir::read_regular;
use crate::host::{Host, OpenDir};
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

    /// The contents of all files, sorted by name. The list is empty if the folder does not exist;
    /// a folder that cannot be trusted is an error.
    pub(crate) fn read_all(&self, host: &Host, state: &AbsPath) -> io::Result<Vec<(OsString, io::Result<Vec<u8>>)>> {
        let with_content = |name: OsString| {
            let content = self.open_folder(host, state).and_then(|folder| self.content(&folder, &name));
            (name, content)
        };
        Ok(self.names(host, state)?.into_iter().map(with_content).collect())
    }

    /// The names of all files, sorted. The list is empty if the folder does not exist.
    pub(crate) fn names(&self, host: &Host, state: &AbsPath) -> io::Result<Vec<OsString>> {
        let folder = match self.open_folder(host, state) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folder => folder?,
        };
        let mut names = folder.names()?;
        // The name of an unfinished file begins with a dot.
        names.retain(|name| name.as_bytes().ends_with(b".json") && !name.as_bytes().starts_with(b"."));
        names.sort();
        Ok(names)
    }

    /// Renames the file `from`, and replaces the file `to` if it exists.
    pub(crate) fn rename(&self, host: &Host, state: &AbsPath, from: &str, to: &str) -> io::Result<()> {
        let folder = self.open_folder(host, state)?;
        folder.rename(from, &folder, to)
    }

    /// Removes a file. If it is a symlink, its target stays.
    pub(crate) fn remove(&self, host: &Host, state: &AbsPath, name: &str) -> io::Result<()> {
        self.open_folder(host, state)?.remove_file(name)
    }

    fn content(&self, folder: &OpenDir, name: &OsStr) -> io::Result<Vec<u8>> {
        let file = folder.open_file(name, OFlags::RDONLY)?;
        must_be_ours(&fstat(&file)?)?;
        read_regular(&file, self.max_bytes)
    }

    /// Replaces a file by a new one with this content.
    pub(crate) fn write(&self, host: &Host, state: &AbsPath, name: &str, content: &[u8]) -> io::Result<()> {
        let folder = self.create_folder(host, state)?;
        let new = format!(".{name}.{}", std::process::id());
        // A killed process with the same id may have left such a file.
        match folder.remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = folder.make_file(&new, OFlags::WRONLY, Mode::RUSR | Mode::WUSR)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let moved = written.and_then(|()| folder.rename(&new, &folder, name));
        if moved.is_err() {
            let _ = folder.remove_file(&new);
        }
        moved
    }

    /// Opens this folder. Makes it if it is missing.
    pub(crate) fn create_folder(&self, host: &Host, state: &AbsPath) -> io::Result<OpenDir> {
        match self.open_folder(host, state) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                OpenDir::create_all(host, &state.child(self.folder))?;
                self.open_folder(host, state)
            }
            opened => opened,
        }
    }

    /// Opens the state folder and this folder in it. Refuses a symlink, and a folder that another
    /// user can write: that user could forge the files.
    pub(crate) fn open_folder(&self, host: &Host, state: &AbsPath) -> io::Result<OpenDir> {
        let state = OpenDir::open(host, state)?;
        must_be_ours(&state.status()?)?;
        let folder = state.child(self.folder)?;
        must_be_ours(&folder.status()?)?;
        Ok(folder)
    }
}

/// Refuses a state folder in the project: its files may have come with the repository, or a command
/// may have made them.
pub(crate) fn must_be_elsewhere(state: &AbsPath, project: &AbsPath) -> io::Result<()> {
    if state.is_within(project) { Err(unfit("it lies in the project itself")) } else { Ok(()) }
}

pub(crate) fn unfit(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn must_be_ours(found: &Stat) -> io::Result<()> {
    if found.st_uid != rustix::process::geteuid().as_raw() && found.st_uid != 0 {
        Err(unfit("it belongs to another user"))
    } else if Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        Err(unfit("others can write there"))
    } else {
        Ok(())
    }
}
