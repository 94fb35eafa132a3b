//! Landlock: keeps signals and abstract sockets within the sandbox, and restricts the places in
//! which the command opens files for writing and changes names.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    Scope, make_bitflags,
};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::stdio::{stderr, stdin, stdout};
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

/// Lets the command open files for writing, and change names, only in and below `places`, through
/// any mount. With `scopes`, also applies the restrictions of [`restrict_scopes`]. A process with
/// this ruleset can no longer mount.
///
/// Read-only mounts alone do not suffice. A command can write to a FIFO on a read-only mount, and
/// the host may have a service that reads it. A command in another sandbox can send a directory
/// over a socket. There the receiver could rename a mount point of the other sandbox, because the
/// kernel prevents this only for processes that see the mount.
///
/// Truncating is not restricted, because a FIFO has nothing to truncate and a read-only mount
/// refuses it. Device requests (ioctl) are not restricted either, because a device outside of
/// `places` cannot be opened.
pub(crate) fn restrict_changes(
    places: impl Iterator<Item = OwnedFd>,
    handled: Changes,
    scopes: bool,
) -> Result<(), RulesetError> {
    let ruleset = if scopes { with_scopes(ruleset())? } else { ruleset() };
    let handled = handled.rights();
    let rules = places.map(|place| Ok::<_, RulesetError>(rule(place, handled)));
    let ruleset = ruleset.handle_access(handled)?.create()?.add_rules(rules)?;
    if handled.contains(AccessFs::WriteFile) {
        // A script that writes to `/dev/stderr` opens the file or terminal of that stream again.
        for stream in [stdin(), stdout(), stderr()].into_iter().filter(is_writable) {
            // The kernel accepts no rule for a pipe or socket without a name, and does not restrict
            // them. The clone refers to the same ruleset.
            let _ = ruleset.try_clone().map(|ruleset| ruleset.add_rule(rule(stream, AccessFs::WriteFile.into())));
        }
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// The changes that [`restrict_changes`] restricts.
#[derive(Clone, Copy)]
pub(crate) struct Changes {
    pub(crate) of_names: bool,
    pub(crate) of_content: bool,
}

impl Changes {
    const ALL: Self = Self { of_names: true, of_content: true };

    fn rights(self) -> BitFlags<AccessFs> {
        let names = if self.of_names { name_changes() } else { BitFlags::EMPTY };
        if self.of_content { names | AccessFs::WriteFile } else { names }
    }
}

/// The rule for `place`. The kernel refuses rights on names for a file.
fn rule<F: AsFd>(place: F, rights: BitFlags<AccessFs>) -> PathBeneath<F> {
    let is_directory = fstat(&place).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
    PathBeneath::new(place, if is_directory { rights } else { rights & AccessFs::WriteFile })
}

fn is_writable(stream: &BorrowedFd) -> bool {
    fcntl_getfl(stream).is_ok_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR))
}

/// Whether this kernel can keep signals and abstract sockets inside (Linux 6.12).
pub(crate) fn is_available() -> bool {
    with_scopes(ruleset()).and_then(Ruleset::create).is_ok()
}

/// Whether this kernel can restrict changes and still lets files move from one directory to another
/// (Linux 5.19).
pub(crate) fn can_restrict_changes() -> bool {
    ruleset().handle_access(Changes::ALL.rights()).and_then(Ruleset::create).is_ok()
}

fn ruleset() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

fn with_scopes(ruleset: Ruleset) -> Result<Ruleset, RulesetError> {
    ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal)
}
