//! What is done on the host around a run, at the moments that the supervisor knows.

use std::io;

/// Who has something to do around a run.
pub trait Attendant {
    /// While the second stage makes its mounts: before the command starts. Not called without a second stage: do it before [`super::Supervisor::begin`].
    fn meanwhile(&mut self) {}

    /// When all mounts are made and the command is next: if it says why not, nothing runs. Without a second stage nobody tells when that is, and it is not asked.
    fn confirm(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// When nothing inside lives any more, whatever has become of it. `close` makes all mounts of the sandbox read-only, for whoever holds something of it open elsewhere.
    fn afterwards(&mut self, close: &dyn Fn() -> io::Result<()>) {
        let _ = close;
    }
}

/// Nobody has anything to do.
impl Attendant for () {}
