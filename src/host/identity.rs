//! The identity of a file, independent of its name.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::policy::path::AbsPath;

/// Device and inode number. Once a file is gone, the kernel may give its number to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

impl Identity {
    pub fn of(found: &fs::Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }

    // The types of these fields differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    pub fn of_stat(found: &Stat) -> Self {
        Self { device: found.st_dev as u64, inode: found.st_ino as u64 }
    }
}

/// A file at one moment. A change of its content changes one of the fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub path: AbsPath,
    #[serde(flatten)]
    pub identity: Identity,
    size: u64,
    mode: u32,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Seconds and nanoseconds. No program can set it.
    changed: (i64, i64),
}

impl Snapshot {
    /// The file at `path`, after symlinks.
    pub fn at(host: &Host, path: &AbsPath) -> io::Result<Self> {
        let found = fs::metadata(host.real(path))?;
        Ok(Self {
            path: path.clone(),
            identity: Identity::of(&found),
            size: found.size(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}
