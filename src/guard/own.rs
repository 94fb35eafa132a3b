//! The sandbox's own directories, where bwrap (before 0.5) cannot give them a mode.

use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{Mode, chmod, fstatfs};
use rustix::mount::MountFlags;

use super::mounts;
use crate::guard_plan::OwnDirectory;
use crate::path::AbsPath;

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: i128 = 0x0102_1994;

/// Sets all modes, then makes read-only what is sealed: a mode on a sealed file system could not be set any more.
pub(super) fn prepare(own: &[OwnDirectory]) -> Result<(), (&AbsPath, io::Error)> {
    for directory in own {
        set_mode(directory).map_err(|e| (&directory.path, e))?;
    }
    for directory in own.iter().filter(|directory| directory.sealed) {
        let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
        mounts::remount(&directory.path, flags).map_err(|e| (&directory.path, e))?;
    }
    Ok(())
}

fn set_mode(directory: &OwnDirectory) -> io::Result<()> {
    let point = mounts::open(&directory.path)?;
    // Whatever the plan says, no directory of a disk is changed from here.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    let kind = fstatfs(&point)?.f_type as i128;
    if kind != TMPFS {
        return Err(io::Error::other("it is not a place of the sandbox's own"));
    }
    let mode = Mode::from_raw_mode(directory.mode);
    Ok(chmod(format!("/proc/self/fd/{}", point.as_raw_fd()), mode)?)
}
