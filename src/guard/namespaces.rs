//! One more user and mount namespace around what was set up so far.

use std::fs;
use std::io;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::UnshareFlags;

/// A user and a group.
#[derive(Clone, Copy)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    pub(crate) fn current() -> Self {
        Self { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
    }

    /// Who this process is to the namespace around its own. bwrap makes the guard root in a namespace in which there is nobody else.
    pub(super) fn outside() -> io::Result<Self> {
        Ok(Self { uid: outside("/proc/self/uid_map")?, gid: outside("/proc/self/gid_map")? })
    }
}

/// The second number of `0 1000 1`.
fn outside(map: &str) -> io::Result<u32> {
    // Three numbers, for each of which the kernel takes eleven places.
    let mut line = [0; 64];
    let length = rustix::io::read(openat(CWD, map, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, &mut line)?;
    let text = std::str::from_utf8(&line[..length]).unwrap_or_default();
    let number = text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("`{map}` has another form")))
}

/// Enters a new user namespace, in which we are `user`, and a mount namespace that belongs to it. Every mount that exists by then
/// is locked: nobody inside can unmount it, or make it writable.
pub(crate) fn enter(user: User) -> io::Result<()> {
    let current = User::current();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    fs::write("/proc/self/uid_map", format!("{} {} 1", user.uid, current.uid))?;
    let groups = || fs::write("/proc/self/gid_map", format!("{} {} 1", user.gid, current.gid));
    match groups() {
        // A process without privileges may write that only where groups cannot be set. bwrap has seen to that for all namespaces below its own; it
        // took as long to say it again as to write both maps.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            fs::write("/proc/self/setgroups", "deny")?;
            groups()
        }
        written => written,
    }
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
