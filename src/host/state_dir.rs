//! Files in the folder of our state, which no rule makes writable inside (SPEC D6). What is read from there is believed, so it is read only where
//! nobody else could have written it, and written all at once.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};

use crate::host::Host;
use crate::policy::path::AbsPath;

/// A kind of files: a folder of their own in the folder of our state, and how large one of them can be.
pub(crate) struct Kind {
    pub(crate) folder: &'static str,
    pub(crate) max_bytes: u64,
}

impl Kind {
    /// Where the file of this name is.
    pub(crate) fn place(&self, state: &AbsPath, name: impl AsRef<OsStr>) -> AbsPath {
        state.child(self.folder).child(name)
    }

    pub(crate) fn read(&self, host: &Host, state: &AbsPath, name: &str) -> io::Result<Vec<u8>> {
        self.content(&self.open_folder(host, state)?, OsStr::new(name))
    }

    /// All files of this kind, by their names. None where the folder is missing; an error where it cannot be believed.
    pub(crate) fn read_all(&self, host: &Host, state: &AbsPath) -> io::Result<Vec<(OsString, io::Result<Vec<u8>>)>> {
        let folder = match self.open_folder(host, state) {
            Ok(folder) => folder,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // What a writer has not finished begins with a dot.
            if name.as_bytes().ends_with(b".json") && !name.as_bytes().starts_with(b".") {
                found.push((name.to_owned(), self.content(&folder, name)));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// A symlink in the place of the file goes, and what it leads to stays.
    pub(crate) fn remove(&self, host: &Host, state: &AbsPath, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.open_folder(host, state)?, name, AtFlags::empty())?)
    }

    fn content(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<Vec<u8>> {
        // A FIFO would block a plain open for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        must_be_ours(&file)?;
        let file = std::fs::File::from(file);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(unfit("it is not a regular file"));
        }
        // Else it would be read in small pieces.
        let mut content = Vec::with_capacity(usize::try_from(found.len().min(self.max_bytes)).unwrap_or_default() + 1);
        let taken = file.take(self.max_bytes + 1).read_to_end(&mut content)?;
        if taken as u64 > self.max_bytes { Err(unfit("it is too large")) } else { Ok(content) }
    }

    /// All of it or nothing: a new file takes the place of the old one.
    pub(crate) fn write(&self, host: &Host, state: &AbsPath, name: &str, content: &[u8]) -> io::Result<()> {
        let real = host.real(state);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(real.join(self.folder))?;
        let folder = self.open_folder(host, state)?;
        let new = format!(".{name}.{}", std::process::id());
        // Left by a process of the same number that was killed.
        match rustix::fs::unlinkat(&folder, &new, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = std::fs::File::from(rustix::fs::openat(&folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let moved = written.and_then(|()| Ok(rustix::fs::renameat(&folder, &new, &folder, name)?));
        if moved.is_err() {
            // The first failure is the one to tell.
            let _ = rustix::fs::unlinkat(&folder, &new, AtFlags::empty());
        }
        moved
    }

    /// Opened step by step, and each must be ours: a symlink that somebody else made, or a folder that somebody else can write, would let
    /// them speak in the user's place.
    pub(crate) fn open_folder(&self, host: &Host, state: &AbsPath) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let state = rustix::fs::open(host.real(state), flags, Mode::empty())?;
        must_be_ours(&state)?;
        let folder = rustix::fs::openat(&state, self.folder, flags, Mode::empty())?;
        must_be_ours(&folder)?;
        Ok(folder)
    }
}

/// What lies in the project came with the repository, or a command made it.
pub(crate) fn must_be_elsewhere(state: &AbsPath, project: &AbsPath) -> io::Result<()> {
    if state.is_within(project) { Err(unfit("it lies in the project itself")) } else { Ok(()) }
}

pub(crate) fn unfit(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn must_be_ours(file: impl AsFd) -> io::Result<()> {
    const OTHERS_WRITE: u32 = 0o022;
    let found = rustix::fs::fstat(file)?;
    let (owner, user) = (found.st_uid, rustix::process::geteuid().as_raw());
    if owner != user && owner != 0 {
        Err(unfit("it belongs to somebody else"))
    } else if found.st_mode & OTHERS_WRITE != 0 {
        Err(unfit("others can write there"))
    } else {
        Ok(())
    }
}
