//! The end of a command, as the kernel or bwrap reports it.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::sys::signals;

/// The way in which a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(u8),
    /// The signal of this number killed the command.
    Killed(i32),
}

impl Ending {
    pub(super) fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => Ending::Killed(signal.unwrap_or_default()),
        }
    }

    /// The ending that bwrap's exit code means. For a command that was killed, bwrap exits with 128
    /// plus the signal; a command may also exit with such a code by itself.
    pub(super) fn guessed(code: u8) -> Self {
        let signal = code.checked_sub(128).and_then(|number| signals::named(number.into()));
        match signal.filter(|signal| signals::ends_by_default(*signal)) {
            Some(signal) => Ending::Killed(signal.as_raw()),
            None => Ending::Exited(code),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Ending::Exited(code) => write!(f, "ended with the exit code {code}"),
            Ending::Killed(signal) => write!(f, "was killed by the signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC S10
    #[test]
    fn an_exit_code_for_a_deadly_signal_is_read_as_the_signal() {
        for (code, ending) in [
            (0, Ending::Exited(0)),
            (3, Ending::Exited(3)),
            (128, Ending::Exited(128)),
            (130, Ending::Killed(2)),
            (137, Ending::Killed(9)),
            (139, Ending::Killed(11)),
            (143, Ending::Killed(15)),
            (128 + 18, Ending::Exited(146)),
            (128 + 20, Ending::Exited(148)),
            (128 + 28, Ending::Exited(156)),
            (128 + 32, Ending::Exited(160)),
            (128 + 64, Ending::Killed(64)),
            (128 + 65, Ending::Exited(193)),
            (255, Ending::Exited(255)),
        ] {
            assert_eq!(Ending::guessed(code), ending, "{code}");
        }
    }
}
