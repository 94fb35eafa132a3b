//! Finds bwrap and the protections of the kernel. Everything depends on bwrap, so a bwrap that a
//! sandboxed command can have planted is refused.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::compile::Compiled;
use crate::compile::limits::unavailable;
use crate::compile::lower::{DISABLE_USERNS, Kernel, Machine, PERMS, SIZE};
use crate::compile::planted::may_be_planted;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::{Host, Resolved, Session};
use crate::policy::{AbsPath, LimitKind, places};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::process::output_within;
use crate::sys::{landlock, seccomp};

use super::{availability, limits, mount_files};

/// The time that bwrap may take to answer, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of an answer that are read. The help of bwrap is shorter.
pub(super) const LARGEST_ANSWER: usize = 1 << 16;

/// The largest bwrap that is searched for the name of a flag.
const LARGEST_BWRAP: u64 = 16 << 20;

pub(super) fn first_on_path(host: &Host, session: &Session, name: &str) -> Option<Resolved> {
    session.path_folders().find_map(|folder| host.program(&folder.join(name)))
}

/// The first `bwrap` on PATH, unless a sandboxed command can have planted it.
pub fn find(host: &Host, session: &Session, compiled: &Compiled) -> Result<AbsPath, Diagnostic> {
    let Some(resolved) = first_on_path(host, session, "bwrap") else {
        return Err(Diagnostic::new(Code::BwrapMissing, "there is no `bwrap` on PATH")
            .help("install bubblewrap: `apt install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`"));
    };
    refuse_planted(compiled, "bwrap", &resolved)?;
    Ok(resolved.path)
}

/// Refuses `found`, the first `name` on PATH, if a sandboxed command can have planted it.
pub(super) fn refuse_planted(compiled: &Compiled, name: &str, found: &Resolved) -> Result<(), Diagnostic> {
    let is_planted = |at: &&AbsPath| may_be_planted(&compiled.plan, &compiled.layers.project, at);
    if let Some(at) = found.links.iter().chain([&found.path]).find(is_planted)
        && !ablate::is_off(Mitigation::BwrapPath)
    {
        let message = format!("the first `{name}` on PATH is `{at}`, which a sandboxed command can write");
        let help = format!("take that folder out of PATH, or put it after the one that holds the system's `{name}`");
        return Err(Diagnostic::new(Code::BwrapUntrusted, message).help(help));
    }
    Ok(())
}

/// The flags that the help of `bwrap` names. Refuses a bwrap without [`PERMS`], which every policy
/// needs. If the policy limits `/tmp` (`with_tmp`), also refuses a bwrap without [`SIZE`].
pub(super) fn sufficient_flags(bwrap: &AbsPath, with_tmp: bool) -> Result<BTreeSet<String>, Diagnostic> {
    let flags = flags(bwrap)?;
    // A program whose help names no flag is not bubblewrap. It fails by itself and says why.
    if flags.is_empty() || (flags.contains(PERMS) && (flags.contains(SIZE) || !with_tmp)) {
        return Ok(flags);
    }
    if flags.contains(PERMS) {
        let why = format!("`{bwrap}` does not have `{SIZE}`");
        return Err(unavailable(LimitKind::Tmp, &why).help("install bubblewrap 0.7 or newer, or remove the limit"));
    }
    let message = format!("`{bwrap}` does not have `{PERMS}`, which this policy needs");
    Err(Diagnostic::new(Code::BwrapTooOld, message).help("install bubblewrap 0.5 or newer"))
}

/// The flags that the help of `bwrap` names. A version number does not tell them, because
/// distributions patch bwrap and wrappers replace it.
pub(crate) fn flags(bwrap: &AbsPath) -> Result<BTreeSet<String>, Diagnostic> {
    let help = asked(bwrap, "--help")?;
    Ok(help.split_whitespace().filter(|word| word.starts_with("--")).map(str::to_owned).collect())
}

/// Whether the executable contains the text [`SIZE`]. To run it with `--help` would cost time.
fn has_size(host: &Host, bwrap: &AbsPath) -> bool {
    let text = host.read_regular(bwrap, LARGEST_BWRAP).ok().flatten();
    text.is_some_and(|text| text.windows(SIZE.len()).any(|part| part == SIZE.as_bytes()))
}

/// The name and release of `bwrap`: `bubblewrap 0.8.0`.
pub(crate) fn version(bwrap: &AbsPath) -> Result<String, Diagnostic> {
    Ok(asked(bwrap, "--version")?.lines().next().unwrap_or_default().trim().to_owned())
}

fn asked(bwrap: &AbsPath, flag: &str) -> Result<String, Diagnostic> {
    let said = output_within(Command::new(bwrap.as_path()).arg(flag), PATIENCE, LARGEST_ANSWER);
    let said = said.map_err(|e| super::exec::cannot_execute(bwrap, &e))?;
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

/// Whether this process runs in a sandbox of ours.
pub fn is_inside(host: &Host) -> bool {
    fs::symlink_metadata(host.real(&places::at(places::MARKER))).is_ok()
}

/// Finds bwrap and everything else on this machine that enforces the policy.
pub fn machine(host: &Host, session: &Session, compiled: &Compiled) -> Result<Machine, Diagnostic> {
    let bwrap = find(host, session, compiled)?;
    // With the guard, bwrap needs no `--disable-userns`, so its flags are not read. If it fails,
    // the supervisor explains why.
    let with_tmp = compiled.policy.written_tmp().is_some();
    let flags = || sufficient_flags(&bwrap, with_tmp);
    let disables_userns = !compiled.guard && flags()?.contains(DISABLE_USERNS);
    let own_mounts = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    let mount_files = mount_files::place(host, compiled);
    // A setuid bwrap refuses `--size`.
    let takes_size = session.is_root() || !availability::is_setuid(host, &bwrap);
    if let Some(limit) = compiled.policy.limits.get(&LimitKind::Tmp).filter(|_| !takes_size && with_tmp) {
        let why = format!("`{bwrap}` is setuid, and takes no `{SIZE}`");
        let help = "use a bwrap that is not setuid, or remove the limit";
        return Err(unavailable(LimitKind::Tmp, &why).at(&limit.origin).help(help));
    }
    let takes_size = takes_size && has_size(host, &bwrap);
    let cgroup = limits::cgroup_source(host, session, compiled)?;
    Ok(Machine { bwrap, kernel: kernel(), disables_userns, own_mounts, mount_files, takes_size, cgroup })
}

/// The protections beyond mounts that this kernel has.
pub fn kernel() -> Kernel {
    Kernel {
        landlock: landlock::is_available(),
        landlock_changes: landlock::can_restrict_changes(),
        seccomp: has_seccomp(),
    }
}

/// Whether the kernel has seccomp and the filter knows the numbers of this architecture.
pub(crate) fn has_seccomp() -> bool {
    rustix::thread::secure_computing_mode().is_ok() && seccomp::architecture().is_ok()
}
