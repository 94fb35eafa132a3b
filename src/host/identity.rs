//! The identity of a file, independent of its name.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

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
