//! What is done to the process between fork and exec of bwrap (see [`Before`]).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use crate::compile::lower::Before;
use crate::sys::landlock;

#[allow(unsafe_code)]
pub(super) fn prepare(bwrap: &mut Command, before: Before) {
    if before == Before::default() {
        return;
    }
    // SAFETY: the closure runs after fork in a process that had one thread, so no lock is held by another one, and allocating is
    // as safe as before.
    unsafe { bwrap.pre_exec(move || apply(before)) };
}

fn apply(before: Before) -> io::Result<()> {
    if before.private_mounts {
        own_mounts()?;
    }
    if before.scope {
        landlock::apply().map_err(io::Error::other)?;
    }
    Ok(())
}

/// A mount namespace in which nothing appears that the host mounts later.
#[allow(unsafe_code)]
fn own_mounts() -> io::Result<()> {
    // SAFETY: a new mount namespace leaves the descriptors alone, which is what could make `unshare` unsafe.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}
