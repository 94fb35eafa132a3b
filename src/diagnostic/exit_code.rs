//! Exit codes as `env`, `timeout` and `docker run` use them.

use crate::diagnostic::{Code, Diagnostics};

pub(crate) const OWN_FAILURE: u8 = 125;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;
pub(crate) const USAGE: u8 = 2;

/// The exit code of a run that this error stopped.
pub(crate) fn of(code: Code) -> u8 {
    match code {
        Code::CommandNotFound => NOT_FOUND,
        Code::CommandNotExecutable => NOT_EXECUTABLE,
        _ => OWN_FAILURE,
    }
}

/// The exit code of a run that these diagnostics stopped: the first error gives the code.
pub(crate) fn of_all(diagnostics: &Diagnostics) -> u8 {
    diagnostics.first_error().map_or(OWN_FAILURE, |error| of(error.code))
}
