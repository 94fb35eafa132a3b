//! Exit codes as `env`, `timeout` and `docker run` use them.

use crate::diagnostic::Code;

pub(crate) const OWN_FAILURE: u8 = 125;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;
pub(crate) const USAGE: u8 = 2;

/// That of a run which ended with this.
pub(crate) fn of(code: Code) -> u8 {
    match code {
        Code::CommandNotFound => NOT_FOUND,
        Code::CommandNotExecutable => NOT_EXECUTABLE,
        _ => OWN_FAILURE,
    }
}
