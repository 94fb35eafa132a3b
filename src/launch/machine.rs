//! The means of this machine: bwrap, and the protections of its kernel.

use std::fs;

use crate::compile::Compiled;
use crate::compile::lower::{DISABLE_USERNS, Kernel, Machine};
use crate::diagnostic::Diagnostic;
use crate::host::{Host, Session};
use crate::policy::places;
use crate::sys::{landlock, seccomp};

use super::{bwrap, find_bwrap, mount_files};

/// Whether this process runs in a sandbox of ours.
pub fn is_inside(host: &Host) -> bool {
    fs::symlink_metadata(host.real(&places::at(places::MARKER))).is_ok()
}

/// Looks what this machine has to carry out the policy.
pub fn machine(host: &Host, session: &Session, compiled: &Compiled) -> Result<Machine, Diagnostic> {
    let bwrap = find_bwrap(host, session, compiled)?;
    // A start with the guard does not need this flag, and the supervisor explains a failure.
    let disables_userns = !compiled.guard && bwrap::sufficient_flags(&bwrap)?.contains(DISABLE_USERNS);
    let own_mounts = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    let mount_files = mount_files::place(host, compiled);
    Ok(Machine { bwrap, kernel: kernel(), disables_userns, own_mounts, mount_files })
}

/// The protections beyond mounts that this kernel has.
pub fn kernel() -> Kernel {
    Kernel {
        landlock: landlock::is_available(),
        landlock_dir_rights: landlock::can_restrict_name_changes(),
        seccomp: has_seccomp(),
    }
}

/// Whether the kernel has seccomp and the filter knows the numbers of this architecture.
pub(crate) fn has_seccomp() -> bool {
    rustix::thread::secure_computing_mode().is_ok() && seccomp::program(true).is_ok()
}
