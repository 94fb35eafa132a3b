//! `agent-sandbox sweep`: removes the leftovers of killed runs at blocked paths.

use std::fmt::Write;
use std::process::ExitCode;

use crate::compile::layers;
use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::placeholders::{self, RemovalOutcome};

use super::args::Options;
use super::output::Output;

pub(super) fn run(host: &Host, options: &Options, output: &Output) -> ExitCode {
    let swept = super::session(options.cwd.as_deref()).and_then(|session| {
        let state = layers::state_folder(host, &session)?;
        placeholders::sweep(host, &state).map_err(|e| {
            Diagnostic::new(Code::PlaceholderFailed, format!("cannot sweep `{state}`: {}", reason(&e)))
                .help("make the folder writable for you")
        })
    });
    match swept {
        Ok(outcomes) => {
            let is_stuck = outcomes.iter().any(|(_, outcome)| matches!(outcome, RemovalOutcome::Stuck(_)));
            let mut text = String::new();
            for (path, outcome) in outcomes {
                // Writing to a `String` cannot fail.
                let _ = match outcome {
                    RemovalOutcome::Removed => writeln!(text, "removed {path}"),
                    RemovalOutcome::Left(why) => writeln!(text, "left {path}: {why}"),
                    RemovalOutcome::Stuck(why) => writeln!(text, "could not remove {path}: {why}"),
                    RemovalOutcome::InUse => writeln!(text, "left {path}: another run relies on it"),
                    RemovalOutcome::Filled => {
                        writeln!(text, "left {path}: it was made on the way, and holds something now")
                    }
                    RemovalOutcome::Gone => Ok(()),
                };
            }
            if text.is_empty() {
                text.push_str("nothing to remove\n");
            }
            let printed = if options.quiet { ExitCode::SUCCESS } else { output.print(text.as_bytes()) };
            if is_stuck { ExitCode::FAILURE } else { printed }
        }
        Err(diagnostic) => {
            output.report_one(diagnostic);
            ExitCode::from(exit_code::OWN_FAILURE)
        }
    }
}
