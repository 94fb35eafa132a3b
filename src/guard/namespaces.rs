//! One more user and mount namespace around what was set up so far.

use std::fs;
use std::io;

use rustix::thread::UnshareFlags;

/// Enters a new user namespace, as the same user, and a mount namespace that belongs to it. Every mount that exists by then
/// is locked: nobody inside can unmount it, or make it writable.
pub(crate) fn enter() -> io::Result<()> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // Without this a process without privileges may not write the map of groups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

#[allow(unsafe_code)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: what makes `unshare` unsafe is a descriptor table that threads no longer share. These flags leave it alone, and the
    // guard has one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Lets one more user namespace be made from here, and none after that. The limit counts for all that lies below, so it must be set
/// in the namespace before the last.
pub(super) fn allow_one_more() -> io::Result<()> {
    fs::write("/proc/sys/user/max_user_namespaces", "1")
}
