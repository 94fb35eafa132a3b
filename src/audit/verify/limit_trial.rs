//! Tests of the limits that the supervisor enforces. For each limit, a probe exceeds it in a
//! sandbox of its own. The tests set small limits, because those of the policy may be hours.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use crate::launch::{Ending, LIMIT_REACHED};
use crate::policy::{Limit, LimitKind};

use super::facts::Fact;

const TIME: Duration = Duration::from_millis(200);
const OUTPUT: u64 = 64 << 10;

/// The time that the probe waits for its end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The end of a probe that went beyond a limit.
pub struct TriedLimit {
    pub limit: Limit,
    pub ending: Ending,
    /// The bytes of its output that arrived.
    pub passed: u64,
}

/// The limit to try instead of a policy's limit of this kind. `None` if the supervisor does not
/// enforce this kind.
pub fn limit_to_try(kind: LimitKind) -> Option<Limit> {
    match kind {
        LimitKind::Time => Some(Limit::time(TIME)),
        LimitKind::Output => Some(Limit::output(OUTPUT)),
        _ => None,
    }
}

/// The probe: writes more than the limit of output allows, and waits longer than the limit of
/// time.
pub fn exceed() -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&vec![b'.'; OUTPUT as usize + 1])?;
    out.flush()?;
    thread::sleep(PATIENCE);
    Ok(())
}

impl TriedLimit {
    pub(super) fn fact(&self) -> Fact {
        let Self { limit, ending, passed } = self;
        let expected = format!("`{limit}` ends a probe");
        let is_counted = limit.kind() != LimitKind::Output || *passed == limit.amount();
        let kernel = match ending {
            Ending::Exited(LIMIT_REACHED) if is_counted => expected.clone(),
            Ending::Exited(LIMIT_REACHED) => format!("{expected} after {passed} bytes"),
            ending => format!("the probe {ending}"),
        };
        Fact::new(&format!("limit: {}", limit.kind()), expected, kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::verify::CheckResult;

    // SPEC Z9
    #[test]
    fn a_limit_that_did_not_end_the_probe_is_a_mismatch() {
        let limit = Limit::output(OUTPUT);
        for (ending, passed, kernel) in [
            (Ending::Exited(LIMIT_REACHED), OUTPUT, "`output=64K` ends a probe"),
            (Ending::Exited(LIMIT_REACHED), 0, "`output=64K` ends a probe after 0 bytes"),
            (Ending::Exited(0), OUTPUT + 1, "the probe ended with the exit code 0"),
        ] {
            let fact = TriedLimit { limit, ending, passed }.fact();
            let is_ok = kernel == "`output=64K` ends a probe";
            assert_eq!((fact.kernel.as_str(), fact.result == CheckResult::Ok), (kernel, is_ok));
        }
    }
}
