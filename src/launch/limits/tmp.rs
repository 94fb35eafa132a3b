//! The size of the private `/tmp`.

use std::os::fd::OwnedFd;

use rustix::fs::{StatVfs, fstatvfs};
use rustix::process::Pid;

use crate::diagnostic::{Code, Diagnostic};
use crate::policy::Limit;
use crate::sys::namespaces;

/// The private `/tmp` of a run, which stays reachable when its processes have ended.
pub(super) struct TmpFolder(OwnedFd);

impl TmpFolder {
    /// The `/tmp` that the guard sees. `None` if it cannot be opened.
    pub(super) fn of(guard: Pid) -> Option<Self> {
        namespaces::open_tmp_of(guard).ok().map(Self)
    }

    /// The warning that `/tmp` is full: at most a hundredth of `size` is free.
    pub(super) fn warning(&self, size: u64) -> Option<Diagnostic> {
        let StatVfs { f_bavail, f_frsize, .. } = fstatvfs(&self.0).ok()?;
        if f_bavail.saturating_mul(f_frsize) > size / 100 {
            return None;
        }
        let size = Limit::tmp(size).value();
        Some(
            Diagnostic::new(Code::TmpFull, format!("`/tmp` was full when the command ended: it has {size}"))
                .help("give it more with `tmp` in `[limits]`, or use the host's with `tmp = \"host\"`"),
        )
    }
}
