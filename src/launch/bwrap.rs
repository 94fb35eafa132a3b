//! Finds bwrap and the protections of the kernel. Everything depends on bwrap, so it must not be
//! one that a sandboxed command can have planted.

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
/// More bytes than its help has.
pub(super) const LARGEST_ANSWER: usize = 1 << 16;

/// No bwrap is this large.
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

/// Refuses the first program of a `name` on PATH if a sandboxed command can have planted it.
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

/// The flags that its help names. Refuses a bwrap without [`PERMS`], which every policy needs, and
/// one without [`SIZE`] for a policy `with_tmp`, which limits `/tmp`.
pub(super) fn sufficient_flags(bwrap: &AbsPath, with_tmp: bool) -> Result<BTreeSet<String>, Diagnostic> {
    let flags = flags(bwrap)?;
    // A program whose help names no flag is not bubblewrap. It fails by itself and says why.
    if flags.is_empty() || (flags.contains(PERMS) && (flags.contains(SIZE) || !with_tmp)) {
        return Ok(flags);
    }
    if flags.contains(PERMS) {
        let why = format!("`{bwrap}` does not have `{SIZE}`");
        return Err(unavailable(LimitKind::Tmp, &why).help("bubblewrap 0.7 and newer have it; or remove the limit"));
    }
    let message = format!("`{bwrap}` does not have `{PERMS}`, which this policy needs");
    Err(Diagnostic::new(Code::BwrapTooOld, message).help("bubblewrap 0.5 and newer have it"))
}

/// The flags that its help names. A version would not tell: distributions carry patches, and
/// wrappers replace bwrap.
pub(crate) fn flags(bwrap: &AbsPath) -> Result<BTreeSet<String>, Diagnostic> {
    let help = asked(bwrap, "--help")?;
    Ok(help.split_whitespace().filter(|word| word.starts_with("--")).map(str::to_owned).collect())
}

/// Whether its text names [`SIZE`]. Asking for its flags would cost each start a process.
fn has_size(host: &Host, bwrap: &AbsPath) -> bool {
    let text = host.read_regular(bwrap, LARGEST_BWRAP).ok().flatten();
    text.is_some_and(|text| text.windows(SIZE.len()).any(|part| part == SIZE.as_bytes()))
}

/// Its name and release: `bubblewrap 0.8.0`.
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

/// Finds bwrap and all that this machine has to carry out the policy.
pub fn machine(host: &Host, session: &Session, compiled: &Compiled) -> Result<Machine, Diagnostic> {
    let bwrap = find(host, session, compiled)?;
    // A start with the guard does not need this flag, and the supervisor explains a failure.
    let with_tmp = compiled.policy.written_tmp().is_some();
    let flags = || sufficient_flags(&bwrap, with_tmp);
    let disables_userns = !compiled.guard && flags()?.contains(DISABLE_USERNS);
    let own_mounts = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    let mount_files = mount_files::place(host, compiled);
    // A privileged bwrap takes no size.
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
