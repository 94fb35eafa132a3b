//! The sandbox's own directories, where bwrap (before 0.5) cannot give them a mode.

use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{AtFlags, Mode, StatxAttributes, StatxFlags, chmod, fstatfs, statx};
use rustix::mount::MountFlags;

use super::mounts;
use crate::guard_plan::OwnDirectory;
use crate::path::AbsPath;

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: i128 = 0x0102_1994;

/// Sets all modes, then makes read-only what is sealed: a mode on a sealed file system could not be set any more.
pub(super) fn prepare(own: &[OwnDirectory]) -> Result<(), (&AbsPath, io::Error)> {
    let mut ours = Vec::new();
    for directory in own {
        set_mode(directory, &mut ours).map_err(|e| (&directory.path, e))?;
    }
    for directory in own.iter().filter(|directory| directory.sealed) {
        let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
        mounts::remount(&directory.path, flags).map_err(|e| (&directory.path, e))?;
    }
    Ok(())
}

/// `ours`: the devices of the file systems that were found to be the sandbox's own.
fn set_mode(directory: &OwnDirectory, ours: &mut Vec<(u32, u32)>) -> io::Result<()> {
    let point = mounts::open(&directory.path)?;
    let found = statx(&point, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let device = (found.stx_dev_major, found.stx_dev_minor);
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    let kind = fstatfs(&point)?.f_type as i128;
    // Had bwrap not mounted it, this would be a directory of the host, whose mode must stay as it is.
    if kind == TMPFS && found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        ours.push(device);
    } else if !ours.contains(&device) {
        return Err(io::Error::other("it is not mounted"));
    }
    let mode = Mode::from_raw_mode(directory.mode);
    Ok(chmod(format!("/proc/self/fd/{}", point.as_raw_fd()), mode)?)
}
