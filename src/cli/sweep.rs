//! `agent-sandbox sweep`.

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
        text += &match outcome {
            RemovalOutcome::Removed => format!("removed {path}\n"),
            RemovalOutcome::Left(why) => format!("left {path}: {why}\n"),
            RemovalOutcome::Stuck(why) => format!("could not remove {path}: {why}\n"),
            RemovalOutcome::InUse => format!("left {path}: another run relies on it\n"),
            RemovalOutcome::Filled => format!("left {path}: it was made for a placeholder, and is not empty now\n"),
            RemovalOutcome::Gone => continue,
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
