//! The ways in which a subcommand can end, and the exit code of each.

use std::process::ExitCode;

use crate::diagnostic::{Diagnostic, exit_code};
use crate::launch::Refusal;

use super::output::Output;

/// Whether the answer is yes (exit code 0) or no (1).
pub(super) type Answered = Result<bool, CliError>;

/// The reason for which a subcommand gives no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error("the errors have been printed")]
    Reported,
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A mistake on the command line, or a request for help, which clap reports as an error.
    #[error(transparent)]
    Usage(#[from] clap::Error),
}

impl From<Diagnostic> for CliError {
    fn from(diagnostic: Diagnostic) -> Self {
        Refusal::from(diagnostic).into()
    }
}

impl CliError {
    /// Prints the error, unless it has been printed.
    pub(super) fn report(self, output: &Output) -> ExitCode {
        ExitCode::from(match self {
            Self::Reported => exit_code::OWN_FAILURE,
            Self::Refused(Refusal(diagnostics)) => {
                output.report(&diagnostics);
                exit_code::of_all(&diagnostics)
            }
            Self::Usage(error) => return usage(&error),
        })
    }
}

pub(super) fn usage(error: &clap::Error) -> ExitCode {
    // If the stream is closed, the exit code is all that the caller gets.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { exit_code::USAGE } else { 0 })
}

pub(super) fn exit_code(is_yes: bool) -> ExitCode {
    if is_yes { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
