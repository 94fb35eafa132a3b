//! Looking at the host where a command may have been: never through a symlink.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Stat, fstat, openat, openat2, seek};
use rustix::io::Errno;

use crate::host::Host;
use crate::policy::path::AbsPath;

/// An open folder that no symlink led to.
pub(crate) fn open_folder(host: &Host, folder: &AbsPath) -> io::Result<OwnedFd> {
    Ok(open(host, folder, OFlags::DIRECTORY)?)
}

/// One call, which fails at a symlink on the way. Then what is there is not the directory that was meant.
fn open(host: &Host, path: &AbsPath, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | more;
    openat2(CWD, host.real(path), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|e| if e == Errno::LOOP { Errno::NOTDIR } else { e })
}

/// Folders that stay open, for who looks at many files in a few of them. What becomes of a folder meanwhile is not seen: it is the one
/// that had the name.
#[derive(Default)]
pub(crate) struct Folders {
    open: Vec<(AbsPath, OwnedFd)>,
}

impl Folders {
    /// Others may need descriptors, too.
    const MOST: usize = 16;

    /// The folder that `path` lies in, and its name there. Fails at a symlink on the way. `/` lies in itself.
    pub(crate) fn parent<'p>(&mut self, host: &Host, path: &'p AbsPath) -> Result<(BorrowedFd<'_>, &'p OsStr), Errno> {
        let folder = path.parent().unwrap_or_else(AbsPath::root);
        let known = self.open.iter().position(|(at, _)| *at == folder);
        let at = match known {
            Some(at) => at,
            None => {
                if self.open.len() == Self::MOST {
                    self.open.clear();
                }
                let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
                let opened = openat2(CWD, host.real(&folder), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
                self.open.push((folder, opened));
                self.open.len() - 1
            }
        };
        Ok((self.open[at].1.as_fd(), path.file_name().unwrap_or(OsStr::new("."))))
    }
}

/// The folder that `path` lies in, and its name there.
pub(crate) fn open_parent<'p>(host: &Host, path: &'p AbsPath) -> io::Result<(OwnedFd, &'p OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((open_folder(host, &parent)?, name))
}

/// What is at `path`, itself; `None` when nothing is.
pub(crate) fn look(host: &Host, path: &AbsPath) -> io::Result<Option<Stat>> {
    // The last component may be a symlink, which is then what is opened. Most of what is asked for is not there: one call.
    match open(host, path, OFlags::NOFOLLOW) {
        Ok(opened) => Ok(Some(fstat(&opened)?)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Whether the regular file `found` has this content.
pub(crate) fn holds(folder: impl AsFd, name: &OsStr, found: &Stat, content: &[u8]) -> io::Result<bool> {
    if !FileType::from_raw_mode(found.st_mode).is_file() || usize::try_from(found.st_size) != Ok(content.len()) {
        return Ok(false);
    }
    if content.is_empty() {
        return Ok(true);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(openat(folder, name, flags, Mode::empty())?);
    let mut read = Vec::new();
    file.take(content.len() as u64 + 1).read_to_end(&mut read)?;
    Ok(read == content)
}

/// Whether nothing is in this directory.
pub(crate) fn is_empty(folder: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(names(openat(folder, name, flags, Mode::empty())?, 1)?.is_empty())
}

/// The names in a directory that is open for reading, in no order: all of them, or as many as are `enough`.
pub(crate) fn names(directory: impl AsFd, enough: usize) -> io::Result<Vec<OsString>> {
    // It may have been read before.
    seek(&directory, SeekFrom::Start(0))?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while names.len() < enough {
        let Some(entry) = entries.next() else { break };
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(OsStr::from_bytes(name).to_owned()),
        }
    }
    Ok(names)
}
