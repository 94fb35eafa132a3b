//! The supervised run: we stay, because there may be something to remove and to report afterwards,
//! and to the shell everything looks as without us.
//!
//! - Supervisor, bwrap and command share the caller's process group, so what the terminal sends
//!   reaches the command directly. What a process sends to us is passed on to the command, which
//!   the guard has named to us, and never to bwrap.
//! - When the command stops, so do we; when we are continued, so is the command.
//! - When the command dies by a signal, so do we.
//!
//! One loop waits for all of it: no thread, no handler.

mod channel;
mod ending;
mod jobs;
mod run;
mod sealing;
mod start;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::compile::guard_plan::RunSheet;
use crate::compile::lower::Argv;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::launch::RunHooks;

use crate::sys::signals::{self, Signals};

pub use ending::Ending;

/// How a supervised start ended.
#[derive(Debug)]
pub(crate) enum Conclusion {
    /// The command ran.
    Ended(Ending),
    /// It did not, or bwrap was lost under it.
    Failed(Diagnostic),
    /// A path that the rules name has changed since the policy was compiled. Nothing ran; another
    /// start may succeed.
    Changed(Diagnostic),
    /// The guard cannot do its work on this machine, for this reason. Nothing ran.
    Unavailable(String),
}

/// What the command gets instead of the caller's standard streams.
#[derive(Debug, Default)]
pub(crate) struct GivenStreams {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
}

/// From its making on, signals wait until the run, or its drop, deals with them: what is prepared
/// before a run and cleaned up after it is not interrupted. To be made and used by the main thread,
/// with no other running.
pub(crate) struct Supervisor {
    signals: Signals,
}

impl Supervisor {
    pub(crate) fn new() -> Result<Self, Diagnostic> {
        let signals = Signals::block().map_err(|e| cannot("wait for signals", &e))?;
        Ok(Self { signals })
    }

    /// Runs the command and returns when no process inside lives any more. Call
    /// [`super::Sandbox::run`] first. `sheet` has the identities that the guard compares.
    /// `given` replaces the caller's streams; nobody may have to read one while the command runs.
    pub(crate) fn run(
        &self,
        host: &Host,
        argv: &Argv,
        sheet: RunSheet,
        given: GivenStreams,
        hooks: &mut RunHooks,
    ) -> Conclusion {
        match start::start(&self.signals, argv, sheet, given) {
            Err(diagnostic) => Conclusion::Failed(diagnostic),
            Ok(started) => run::run(&self.signals, started, host, &argv.program, hooks),
        }
    }

    /// To be the last of this process: the exit code, or, if the command was killed, the same
    /// death, and then this does not return. There is no core dump of us.
    pub(crate) fn conclude(self, ending: Ending) -> ExitCode {
        // What still waits was for the command, and must not end us otherwise than it ended.
        std::mem::forget(self);
        match ending {
            Ending::Exited(code) => ExitCode::from(code),
            Ending::Killed(number) => {
                let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
                if let Some(signal) = signals::named(number) {
                    signals::act_by_default(signal);
                }
                ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))
            }
        }
    }
}

fn cannot(what: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot {what}: {}", reason(error)))
        .help("`--exec` starts the command without supervision")
}
