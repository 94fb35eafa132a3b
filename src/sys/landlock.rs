//! Landlock: keeps signals and abstract sockets within the sandbox, and restricts the directories
//! in which names change.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, make_bitflags,
};
use rustix::thread::set_no_new_privs;

/// The rights to create, remove and rename anything.
fn name_changes() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{
        RemoveDir | RemoveFile | MakeChar | MakeDir | MakeReg | MakeSock | MakeFifo | MakeBlock | MakeSym | Refer
    })
}

/// Keeps signals and connections to abstract sockets within the sandbox. Handles no right on files,
/// so no mount and no path is affected.
pub(crate) fn restrict_scopes() -> Result<(), RulesetError> {
    with_scopes(ruleset())?.create()?.restrict_self()?;
    Ok(())
}

/// Starts `command` with the restriction of [`restrict_scopes`]. The ruleset is built here, because
/// nothing may be allocated between fork and exec. Call this before descriptors are mapped to fixed
/// numbers, because a mapping could replace the ruleset's descriptor.
#[allow(unsafe_code)]
pub(crate) fn restrict_scopes_of(command: &mut Command) -> io::Result<()> {
    let created = with_scopes(ruleset()).and_then(Ruleset::create).map_err(io::Error::other)?;
    let ruleset = Option::<OwnedFd>::from(created).ok_or(io::ErrorKind::Unsupported)?;
    let restrict = move || {
        set_no_new_privs(true)?;
        // SAFETY: only numbers go in.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(restrict) };
    Ok(())
}

/// Lets names change only in and below `writable_dirs`, on whichever mount a process reaches them.
/// With `scopes` it also does what [`restrict_scopes`] does. A process with this ruleset can no
/// longer mount.
///
/// Mounts do not suffice: another sandbox can hand over a directory by a descriptor, and the kernel
/// keeps a mount point in its place only for processes that see the mount.
pub(crate) fn restrict_name_changes(
    writable_dirs: impl Iterator<Item = OwnedFd>,
    scopes: bool,
) -> Result<(), RulesetError> {
    let ruleset = if scopes { with_scopes(ruleset())? } else { ruleset() };
    let rules = writable_dirs.map(|dir| Ok::<_, RulesetError>(PathBeneath::new(dir, name_changes())));
    ruleset.handle_access(name_changes())?.create()?.add_rules(rules)?.restrict_self()?;
    Ok(())
}

/// Whether this kernel can keep signals and abstract sockets inside (Linux 6.12).
pub(crate) fn is_available() -> bool {
    with_scopes(ruleset()).and_then(Ruleset::create).is_ok()
}

/// Whether this kernel can restrict where names change and still lets files move from one directory
/// to another (Linux 5.19).
pub(crate) fn can_restrict_name_changes() -> bool {
    ruleset().handle_access(name_changes()).and_then(Ruleset::create).is_ok()
}

fn ruleset() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

fn with_scopes(ruleset: Ruleset) -> Result<Ruleset, RulesetError> {
    ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)
}
