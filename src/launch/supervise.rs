//! The supervised run: we stay, because there may be something to remove and to report afterwards, and to the shell
//! everything looks as without us.
//!
//! - Supervisor, bwrap and command share the caller's process group, so what the terminal sends reaches the command directly. What
//!   a process sends to us is passed on to the command, which the guard has named to us, and never to bwrap.
//! - When the command stops, so do we; when we are continued, so is the command.
//! - When the command dies by a signal, so do we.
//!
//! One loop waits for all of it: no thread, no handler.

mod ahead;
mod attendant;
mod begun;
mod channel;
mod ending;
mod jobs;
mod plan;
mod processors;
mod run;
mod sealing;
mod started;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::lower::Argv;

use super::signals::{self, Signals};

pub use ahead::{Ahead, Loading};
pub use attendant::Attendant;
pub use begun::Begun;
pub use ending::Ending;

/// What came of a run.
#[derive(Debug)]
pub enum Outcome {
    /// The command ran.
    Ended(Ending),
    /// It did not, or bwrap was lost under it.
    Failed(Diagnostic),
    /// What the rules name has changed since it was looked at. Nothing ran, and a plan that is made anew may do.
    Changed(Diagnostic),
    /// The guard cannot do its work on this machine, for this reason. Nothing ran.
    Unavailable(String),
}

/// What the command gets instead of the caller's standard streams.
#[derive(Debug, Default)]
pub struct GivenStreams {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
}

/// From its making on, signals wait until the run, or its drop, deals with them: what is prepared before a run and
/// cleaned up after it is not interrupted. To be made and used by the main thread, with no other running.
pub struct Supervisor {
    signals: Signals,
}

impl Supervisor {
    pub fn new() -> Result<Self, Diagnostic> {
        let signals = Signals::block().map_err(|e| cannot("wait for signals", &e))?;
        Ok(Self { signals })
    }

    /// Runs the command and returns when nothing inside lives any more. See [`super::ready_to_supervise`] for what comes first.
    pub fn run(&self, host: &Host, argv: &Argv) -> Outcome {
        self.run_with(host, argv, GivenStreams::default(), &mut ())
    }

    /// The same with other streams than the caller's, none of which may be one that somebody has to read while the command runs.
    pub fn run_with(&self, host: &Host, argv: &Argv, given: GivenStreams, attendant: &mut dyn Attendant) -> Outcome {
        match self.begin(None, argv, given) {
            Err(diagnostic) => Outcome::Failed(diagnostic),
            Ok(begun) => begun.run(host, argv, attendant),
        }
    }

    /// Starts bwrap, or takes up one that has the words of `argv` already; its second stage waits until [`Begun::run`] tells it the plan: what the plan of `argv` lacks
    /// can be found out meanwhile, and what the second stage mounts can be put up. The words must be those of the run. Without a second
    /// stage nobody waits. A bwrap that was started ahead has the caller's streams.
    pub fn begin(&self, ahead: Option<Ahead>, argv: &Argv, given: GivenStreams) -> Result<Begun<'_>, Diagnostic> {
        Begun::new(&self.signals, ahead, argv, given)
    }

    /// To be the last of this process: the exit code, or, if the command was killed, the same death, and then this does not
    /// return. There is no core dump of us.
    pub fn conclude(self, ending: Ending) -> ExitCode {
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
