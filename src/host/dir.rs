//! The entries of a directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, RawDir, statat};
use rustix::io::Errno;

use super::FileKind;

/// An entry of a directory, as `readdir` returns it, usually without a system call for the file.
#[derive(Debug)]
pub struct DirEntry {
    pub name: OsString,
    /// The kind of the entry itself; a symlink counts as a file.
    pub kind: FileKind,
    pub is_symlink: bool,
    pub is_socket: bool,
}

/// An open directory and its entries.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    pub entries: Vec<DirEntry>,
}

impl Directory {
    pub(crate) fn read(handle: OwnedFd) -> io::Result<Self> {
        // This buffer is on the stack. The standard library allocates one of this size for each
        // directory, and calls stat.
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 32 * 1024];
        let mut names = RawDir::new(&handle, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = names.next() {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let file_type = match entry.file_type() {
                // Some file systems do not fill in the type.
                FileType::Unknown => match statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    // Only this entry is gone. Callers would take the error to mean that the
                    // directory is gone.
                    Err(Errno::NOENT) => continue,
                    Err(e) => return Err(e.into()),
                },
                file_type => file_type,
            };
            entries.push(DirEntry {
                name: OsStr::from_bytes(name.to_bytes()).to_owned(),
                kind: FileKind::of(file_type),
                is_symlink: file_type.is_symlink(),
                is_socket: file_type.is_socket(),
            });
        }
        Ok(Self { handle, entries })
    }

    /// Number of names (hard links) of the file `name`; 1 if it has gone.
    // The type of this field differs between architectures.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    pub fn names(&self, name: &OsStr) -> io::Result<u64> {
        match statat(self.handle.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(found.st_nlink as u64),
            Err(Errno::NOENT) => Ok(1),
            Err(e) => Err(e.into()),
        }
    }
}
