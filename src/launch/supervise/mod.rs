//! The supervised run. The supervisor stays alive to remove placeholders and to report afterwards.
//! To the shell it behaves like the command:
//!
//! - Supervisor, bwrap and command share the caller's process group, so a signal of the terminal
//!   reaches the command directly. The supervisor passes a signal of another process on to the
//!   command, never to bwrap.
//! - When the command stops, the supervisor stops; when the supervisor is continued, it continues
//!   the command.
//! - When the command dies by a signal, so does the supervisor.
//!
//! One loop waits for all events, without threads or signal handlers.

mod bwrap;
mod ending;
mod jobs;
mod run;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};

use crate::compile::guard_plan::RunSheet;
use crate::compile::lower::Argv;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::launch::RunHooks;
use crate::launch::limits::Meter;
use crate::sys::signals::{self, Signals};

pub use ending::Ending;
use run::Run;

/// The result of a supervised start.
#[derive(Debug)]
pub(crate) enum Conclusion {
    Ended(Ending),
    /// The command did not run, or bwrap was killed while it ran.
    Failed(Diagnostic),
    /// A path that the rules name has changed since the policy was compiled. Nothing ran; another
    /// start may succeed.
    Changed(Diagnostic),
    /// The guard cannot do its work on this machine, for this reason. Nothing ran.
    Unavailable(String),
    /// This machine refuses the mounts of private files, for this reason. Nothing ran.
    PrivateRefused(String),
}

impl Conclusion {
    /// The ending of the command, or the reason why it did not run to its end.
    pub(crate) fn ending(self) -> Result<Ending, Diagnostic> {
        match self {
            Self::Ended(ending) => Ok(ending),
            Self::Failed(diagnostic) | Self::Changed(diagnostic) => Err(diagnostic),
            Self::Unavailable(why) | Self::PrivateRefused(why) => Err(Diagnostic::new(Code::StartFailed, why)),
        }
    }
}

/// Streams that replace the caller's standard streams for the command: standard input, standard
/// output, standard error.
pub(crate) type GivenStreams = [Option<OwnedFd>; 3];

/// Blocks signals while it exists, so that no signal interrupts the work before and after a run.
/// Signals stay pending until the run reads them or this value is dropped. It blocks them in one
/// thread only, so other threads of the process must block them as well.
pub(crate) struct Supervisor {
    signals: Signals,
}

impl Supervisor {
    pub(crate) fn new() -> Result<Self, Diagnostic> {
        let signals = Signals::block().map_err(|e| cannot("wait for signals", &e))?;
        Ok(Self { signals })
    }

    /// Returns an error if a signal is pending that ends this process. The signal takes effect
    /// when the caller drops this value, after all placeholders are gone.
    pub(crate) fn refuse_if_asked_to_end(&self) -> Result<(), Diagnostic> {
        match asked_to_end() {
            false => Ok(()),
            true => Err(Diagnostic::new(Code::StartFailed, "a signal has ended the start").help("start again")),
        }
    }

    /// Runs the command and returns when no process inside is alive any more. `sheet` has the
    /// identities that the guard compares. Another thread must read the pipes of `given`. `meter`
    /// counts the output.
    pub(crate) fn run(
        &self,
        host: &Host,
        argv: &Argv,
        sheet: RunSheet,
        given: GivenStreams,
        meter: Option<Meter>,
        hooks: &mut RunHooks,
    ) -> Conclusion {
        match Run::start(&self.signals, argv, sheet, given, meter) {
            Err(diagnostic) => Conclusion::Failed(diagnostic),
            Ok(run) => run.supervise(host, argv, hooks),
        }
    }

    /// Ends this process as the command ended: returns its exit code, or dies by its signal without
    /// a core dump.
    pub(crate) fn conclude(mut self, ending: Ending) -> ExitCode {
        // A signal that is still pending was for the command and must not end this process.
        self.signals.stay_blocked();
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

/// Whether a signal is pending that ends this process.
fn asked_to_end() -> bool {
    let ends = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
    let ends = ends.into_iter().filter(|signal| !signals::is_ignored(*signal));
    signals::is_pending(&ends.collect::<Vec<_>>())
}

fn cannot(what: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot {what}: {}", reason(error)))
        .help("start the command without supervision with `--exec`")
}
