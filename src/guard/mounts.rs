//! The mounts that the guard makes itself. `mount(2)` costs microseconds, where bwrap reads the whole mount table again for each.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};

use crate::guard_plan::Tightening;
use crate::identity::Identity;
use crate::path::AbsPath;

/// Nothing that is mounted on the host from now on appears here.
pub(super) fn detach_from_host() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// `covered`: what must be there before it is hidden. Another sandbox may have put something else there, for us to hide in its place.
pub(super) fn tighten(tightening: &Tightening, covered: Option<Identity>) -> io::Result<()> {
    let made = tighten_once(tightening, covered);
    // What comes and goes by itself (a socket, a temporary file) may go, or be replaced, between any two steps: then there is nothing to hide
    // any more, or something else.
    match (made, tightening) {
        (Err(e), Tightening::MaskIfThere(_)) if is_gone(&e) => match tighten_once(tightening, None) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            made => made,
        },
        (made, _) => made,
    }
}

/// By its path, no such file; or, to a remount by its path, nothing that is a mount.
pub(super) fn is_gone(error: &io::Error) -> bool {
    let stale = [Errno::NOENT, Errno::INVAL, Errno::STALE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| stale.contains(&number))
}

fn tighten_once(tightening: &Tightening, covered: Option<Identity>) -> io::Result<()> {
    let point = open(tightening.path())?;
    if let Some(covered) = covered {
        let found = rustix::fs::statat(&point, c"", AtFlags::EMPTY_PATH)?;
        if (Identity { device: found.st_dev, inode: found.st_ino }) != covered {
            return Err(Errno::STALE.into());
        }
    }
    match tightening {
        Tightening::Mask(path) | Tightening::MaskIfThere(path) => {
            mount_bind("/dev/null", by_descriptor(&point))?;
            // Without devices, opening it gives EACCES.
            let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
            remount(path, flags)
        }
        Tightening::Hide(_) => {
            let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
            Ok(mount("tmpfs", by_descriptor(&point), "tmpfs", flags, c"mode=0000,size=4k")?)
        }
        // The check that follows makes each mount within read-only; here it is only cut off from its surroundings.
        Tightening::ReadOnly(_) => Ok(mount_bind_recursive(by_descriptor(&point), by_descriptor(&point))?),
    }
}

/// Binds a part of `/proc` over itself, read-only.
pub(super) fn read_only(path: &AbsPath) -> io::Result<()> {
    let point = open(path)?;
    mount_bind(by_descriptor(&point), by_descriptor(&point))?;
    remount(path, MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC)
}

/// Changes the flags of the topmost mount at `path`. All flags that it has must be among `flags`: those are locked.
pub(super) fn remount(path: &AbsPath, flags: MountFlags) -> io::Result<()> {
    let point = open(path)?;
    Ok(mount_remount(by_descriptor(&point), flags | MountFlags::BIND, c"")?)
}

/// Another sandbox may share the project and change it this very moment, so no symlink is followed, and what was opened is
/// what is mounted on.
pub(super) fn open(path: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat2(CWD, path.as_path(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

fn by_descriptor(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
