//! The identity of a file, independent of its name.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Stat, Statx, StatxFlags, makedev};
use serde::{Deserialize, Serialize};

/// Device and inode number. After a file is removed, its inode number may be given to another
/// file.
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

    pub fn of_statx(found: &Statx) -> Self {
        Self { device: makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino }
    }
}

/// The identity of a file and its creation time, if the file system records it. The identity alone
/// is not enough: ext4 gives the inode number of a removed file to the next new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBirth {
    pub identity: Identity,
    created: Option<(i64, u32)>,
}

impl FileBirth {
    /// The fields that [`FileBirth::of`] needs.
    pub const WANTED: StatxFlags = StatxFlags::INO.union(StatxFlags::BTIME);

    pub fn of(found: &Statx) -> Self {
        let has_time = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let created = has_time.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        Self { identity: Identity::of_statx(found), created }
    }
}
