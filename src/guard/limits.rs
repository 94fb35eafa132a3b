//! The limits that the guard sets for the command (SPEC section 24).

use crate::diagnostic::reason;
use crate::policy::{Limit, LimitKind};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::rlimits;

use super::report::Report;

/// Sets the limits that the arguments name. The kernel counts processes in the user namespace that
/// the guard entered last, so this comes after [`super::finish_mounts`].
pub(super) fn set(limits: &[Limit]) -> Result<(), Report> {
    for limit in limits.iter().filter(|_| !ablate::is_off(Mitigation::Limits)) {
        let held = match limit.kind() {
            LimitKind::Processes => rlimits::limit_processes(limit.amount()),
            LimitKind::FileSize => rlimits::limit_file_size(limit.amount()).map(|()| true),
            _ => Err(std::io::Error::other(format!("the guard cannot enforce `{limit}`"))),
        };
        if !held.map_err(|e| Report::refused(&format!("the limit `{limit}`"), reason(&e)))? {
            return Err(Report::LimitRefused(limit.kind(), rlimits::why_not_processes().to_owned()));
        }
    }
    Ok(())
}
