//! The limits that the guard sets for the command (SPEC section 24).

use crate::diagnostic::reason;
use crate::policy::Limit;
use crate::sys::ablate::{self, Mitigation};
use crate::sys::rlimits;

use super::report::Report;

/// Sets the limits of the arguments. Processes are counted in the namespace that the guard has
/// entered last, so this comes after [`super::finish_mounts`].
pub(super) fn set(limits: &[Limit]) -> Result<(), Report> {
    for limit in limits.iter().filter(|_| !ablate::is_off(Mitigation::Limits)) {
        let held = match *limit {
            Limit::Processes(count) => rlimits::limit_processes(count),
            Limit::FileSize(bytes) => rlimits::limit_file_size(bytes).map(|()| true),
            other => Err(std::io::Error::other(format!("the guard cannot enforce `{other}`"))),
        };
        if !held.map_err(|e| Report::refused(&format!("the limit `{limit}`"), reason(&e)))? {
            return Err(Report::LimitRefused(limit.kind(), rlimits::why_not_processes().to_owned()));
        }
    }
    Ok(())
}
