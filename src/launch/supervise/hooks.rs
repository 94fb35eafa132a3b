//! Work on the host around a run, at moments that the supervisor knows.

use std::io;

use crate::guard::report::{Answer, Report};

/// Every method has a default: a run without hooks.
pub trait RunHooks {
    /// While bwrap mounts, before the command starts. Not called without a guard.
    fn while_mounting(&mut self) {}

    /// After the guard has compared its mounts, before the command starts. With an error nothing
    /// runs. Not called without a guard.
    fn before_exec(&mut self) -> Result<Answer, Report> {
        Ok(Answer::Go)
    }

    /// After bwrap has failed before the guard started: says what has changed on the host, if
    /// another start may succeed.
    fn difference(&mut self) -> Option<String> {
        None
    }

    /// When no process lives inside any more. `close` makes all mounts of the sandbox read-only for
    /// processes elsewhere that hold a directory of it open.
    fn after_exit(&mut self, close: &dyn Fn() -> io::Result<()>) {
        let _ = close;
    }
}

impl RunHooks for () {}
