//! `agent-sandbox sweep`.

use std::fmt::Write;

use crate::compile::layers;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::placeholders::{self, RemovalOutcome};

use super::answer::Answered;
use super::args::Options;
use super::output::Output;

pub(super) fn run(host: &Host, options: &Options, output: &Output) -> Answered {
    let state = layers::state_folder(host, &super::session(options.cwd.as_deref())?)?;
    let outcomes = placeholders::sweep(host, &state).map_err(|e| {
        Diagnostic::new(Code::PlaceholderFailed, format!("cannot sweep `{state}`: {}", reason(&e)))
            .help("make the folder writable for you")
    })?;
    let is_stuck = outcomes.iter().any(|(_, outcome)| matches!(outcome, RemovalOutcome::Stuck(_)));
    let mut text = String::new();
    for (path, outcome) in outcomes {
        // Writing to a `String` cannot fail.
        let _ = match outcome {
            RemovalOutcome::Removed => writeln!(text, "removed {path}"),
            RemovalOutcome::Left(why) => writeln!(text, "left {path}: {why}"),
            RemovalOutcome::Stuck(why) => writeln!(text, "could not remove {path}: {why}"),
            RemovalOutcome::InUse => writeln!(text, "left {path}: another run relies on it"),
            RemovalOutcome::Filled => writeln!(text, "left {path}: it was made on the way, and holds something now"),
            RemovalOutcome::Gone => Ok(()),
        };
    }
    if text.is_empty() {
        text.push_str("nothing to remove\n");
    }
    if !options.quiet {
        output.print(text.as_bytes())?;
    }
    Ok(!is_stuck)
}
