//! The size of the private `/tmp`.

use std::os::fd::OwnedFd;

use rustix::fs::{StatVfs, fstatvfs};
use rustix::process::Pid;

use crate::compile::limits::DEFAULT_TMP;
use crate::compile::lower::SIZE;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::Host;
use crate::policy::{AbsPath, Limit};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::namespaces;

/// No bwrap is this large.
const LARGEST_BWRAP: u64 = 16 << 20;

/// The size of `/tmp` where the policy gives none: never more than half of the memory, which a
/// tmpfs without a size may take. `None` for a bwrap that cannot set it.
///
/// Starting bwrap to ask for its flags would cost each start a process. Its text names the flag.
pub(crate) fn default_tmp(host: &Host, bwrap: &AbsPath) -> Option<u64> {
    let text = host.read_regular(bwrap, LARGEST_BWRAP).ok()??;
    let has_size = text.windows(SIZE.len()).any(|part| part == SIZE.as_bytes());
    if !has_size || ablate::is_off(Mitigation::Limits) {
        return None;
    }
    let machine = rustix::system::sysinfo();
    let memory = machine.totalram.saturating_mul(machine.mem_unit.into());
    Some(DEFAULT_TMP.min(memory / 2))
}

/// The private `/tmp` of a run, which stays reachable when its processes have ended.
pub(super) struct TmpFolder(OwnedFd);

impl TmpFolder {
    /// The `/tmp` that the guard sees. `None` where it cannot be looked at.
    pub(super) fn of(guard: Pid) -> Option<Self> {
        namespaces::open_tmp_of(guard).ok().map(Self)
    }

    /// Says that `/tmp` is full. Less than a hundredth of `size` counts as nothing.
    pub(super) fn warning(&self, size: u64) -> Option<Diagnostic> {
        let StatVfs { f_bavail, f_frsize, .. } = fstatvfs(&self.0).ok()?;
        if f_bavail.saturating_mul(f_frsize) > size / 100 {
            return None;
        }
        let size = Limit::Tmp(size).value();
        Some(
            Diagnostic::new(Code::TmpFull, format!("`/tmp` was full when the command ended: it has {size}"))
                .help("give it more with `tmp` in `[limits]`, or use the host's with `tmp = \"host\"`"),
        )
    }
}
