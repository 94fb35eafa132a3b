//! Reads files and folders of the host, and records the ones that could not be read.
#![expect(clippy::disallowed_methods, reason = "nothing is changed; the files are the kernel's, or directories")]

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::PoisonError;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::policy::AbsPath;
use crate::sys::ablate::{self, Mitigation};

use super::long_path::Reached;
use super::nofollow::open_to_read;
use super::open_dir::read_regular;
use super::{DirEntry, Directory, Host, is_absent};

pub const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// Number of bytes of the mount table to read at once. The kernel blocks mounting during each read:
/// with reads of 4,096 bytes, a table of 1,000 mounts delays bwrap by 2 ms.
const PIECE_OF_MOUNTS: usize = 512;

impl Host {
    /// The content of a file below `/proc` or `/sys`; `None` if it does not exist. Only the kernel
    /// writes there, so links are followed.
    pub fn kernel_file(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        self.told_by_kernel(path, |file| {
            // The kernel does not report the length, and makes the content anew for each read.
            let mut content = Vec::with_capacity(4096);
            file.read_to_end(&mut content).map(|_| content)
        })
    }

    pub fn mount_table(&self) -> io::Result<Option<Vec<u8>>> {
        self.told_by_kernel(MOUNT_TABLE, |file| {
            let (mut content, mut piece) = (Vec::with_capacity(4096), [0; PIECE_OF_MOUNTS]);
            loop {
                match file.read(&mut piece) {
                    Ok(0) => return Ok(content),
                    Ok(length) => content.extend_from_slice(&piece[..length]),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        })
    }

    fn told_by_kernel(
        &self,
        path: &str,
        read: impl FnOnce(&mut fs::File) -> io::Result<Vec<u8>>,
    ) -> io::Result<Option<Vec<u8>>> {
        match fs::File::open(self.real(&AbsPath::root().join(path))).and_then(|mut file| read(&mut file)) {
            Err(e) if is_absent(&e) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// The content of a regular file of at most `limit` bytes, after symlinks; `None` when there is
    /// none.
    ///
    /// Use it for files that the sandboxed command may have written: a FIFO would block a plain
    /// read for ever.
    pub fn read_regular(&self, path: &AbsPath, limit: u64) -> io::Result<Option<Vec<u8>>> {
        self.noting(path, self.read_file(path, |_| Ok(limit)))
    }

    /// As [`Host::read_regular`], for a file of git that may be large. All such files together
    /// have a limit, because a command can create any number of sparse files without using disk
    /// space.
    pub(crate) fn read_git_file(&self, path: &AbsPath, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let affordable = |file: &fs::File| {
            let size = file.metadata()?.len();
            let mut budget = self.git_bytes.lock().unwrap_or_else(PoisonError::into_inner);
            match size <= limit && !budget.pay(path, size) && !ablate::is_off(Mitigation::ByteBudget) {
                true => Err(io::ErrorKind::FileTooLarge.into()),
                // git replaces such a file by a rename, so an open file does not grow.
                false => Ok(limit.min(size)),
            }
        };
        self.noting(path, self.read_file(path, affordable))
    }

    fn read_file(
        &self,
        path: &AbsPath,
        limit: impl FnOnce(&fs::File) -> io::Result<u64>,
    ) -> io::Result<Option<Vec<u8>>> {
        let resolved = self.resolve(path.as_path())?;
        if resolved.kind.is_none() {
            return Ok(None);
        }
        let file = open_to_read(self, &resolved.path)?;
        read_regular(&file, limit(&file)?).map(Some)
    }

    /// Callers treat an unreadable file as absent. This records transient errors, so that the start
    /// is refused.
    pub(super) fn noting<T>(&self, path: &AbsPath, read: io::Result<T>) -> io::Result<T> {
        if let (Some(seen), Err(error)) = (&self.seen, &read)
            && is_transient(error)
        {
            let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
            seen.lock().unwrap_or_else(PoisonError::into_inner).deferred_errors.push((path.clone(), error));
        }
        read
    }

    /// Takes the recorded errors: transient errors, and EACCES for files and folders that the
    /// caller owns.
    pub fn deferred_errors(&self) -> Vec<(AbsPath, io::Error)> {
        let seen = self.seen.as_ref().map(|seen| seen.lock().unwrap_or_else(PoisonError::into_inner));
        seen.map(|mut seen| std::mem::take(&mut seen.deferred_errors)).unwrap_or_default()
    }

    /// Records EACCES if this user owns the folder or file that refuses access. Searches for files
    /// that git obeys treat such a path as absent, but a command could make it accessible again.
    pub(crate) fn noting_closed<T>(&self, path: &Path, answer: io::Result<T>) -> io::Result<T> {
        if let (Some(seen), Err(error)) = (&self.seen, &answer)
            && error.raw_os_error() == Some(Errno::ACCESS.raw_os_error())
        {
            let closed =
                self.refused_by(path).map_or(Cow::Borrowed(path), |folder| Cow::Owned(folder.as_path().into()));
            if self.is_ours(&closed) {
                let closed = (AbsPath::from_normal(&*closed), Errno::ACCESS.into());
                seen.lock().unwrap_or_else(PoisonError::into_inner).deferred_errors.push(closed);
            }
        }
        answer
    }

    /// The names in a directory, in no particular order.
    pub fn read_dir(&self, path: &AbsPath) -> io::Result<Vec<DirEntry>> {
        self.open_dir(path).map(|directory| directory.entries)
    }

    pub fn open_dir(&self, path: &AbsPath) -> io::Result<Directory> {
        ablate::pause(format_args!("read-folder:{path}"));
        if let Some(listener) = &self.listener {
            listener(path);
        }
        self.noting(path, self.open(path.as_path()).and_then(Directory::read))
    }

    pub(crate) fn open(&self, directory: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let reached = Reached::open(self.reached(directory))?;
        Ok(openat(reached.folder(), &*reached.rest, flags, Mode::empty())?)
    }
}

/// Whether the error is transient: no room for one more open file, a failing disk, or a lease of
/// another process on the file.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    let now = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::AGAIN];
    now.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
