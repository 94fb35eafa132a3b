//! A user and mount namespace around the mounts that exist so far.

use std::fs;
use std::io;

use rustix::thread::UnshareFlags;

/// Enters a new user namespace as the same user, and a mount namespace that belongs to it. The
/// kernel locks every mount that exists by then: no process inside can unmount it or make it
/// writable.
pub(crate) fn enter() -> io::Result<()> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // A process without privileges may map its group only after this.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

#[allow(unsafe_code)]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: `unshare` is unsafe where threads stop sharing a file descriptor table. These flags
    // leave the table alone, and the guard has one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Lets one more user namespace be made from here, and none after that. The kernel counts all
/// namespaces below, so the limit must be set in the last namespace but one.
pub(crate) fn allow_one_more() -> io::Result<()> {
    fs::write("/proc/sys/user/max_user_namespaces", "1")
}
