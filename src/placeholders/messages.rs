//! Diagnostics about placeholders.

use std::io;

use crate::compile::Compiled;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::PathError;

use super::place::RemovalOutcome;
use super::removal::Outcomes;

pub(crate) fn cannot_create_placeholder(compiled: &Compiled, PathError { path, error }: &PathError) -> Diagnostic {
    let why = reason(error);
    let mut placeholders = compiled.plan.placeholders.iter();
    match placeholders.find(|placeholder| placeholder.path == *path || placeholder.parents.contains(path)) {
        Some(placeholder) => {
            Diagnostic::new(Code::PlaceholderFailed, format!("cannot put a placeholder at `{path}`: {why}"))
                .at(&placeholder.origin)
                .help("make sure that the folder can be written, or take `if-missing = \"block\"` out of the rule")
        }
        None => {
            let message = format!("cannot note the placeholders of the run in `{path}`: {why}");
            Diagnostic::new(Code::PlaceholderFailed, message)
                .help("make the folder writable, or name another with XDG_STATE_HOME")
        }
    }
}

/// Reports the paths that are not as they were before the run.
pub(crate) fn report_left(outcomes: &Outcomes, said: &mut Diagnostics) {
    for (path, outcome) in outcomes {
        let (message, help) = match outcome {
            RemovalOutcome::Left(why) => (
                format!("`{path}`, where a placeholder was during a run, is left as it is: {why}"),
                "look at it, and remove it if it is not yours",
            ),
            RemovalOutcome::Stuck(why) => (
                format!("the placeholder at `{path}` could not be removed after the run: {why}"),
                "remove the cause: the next start or `agent-sandbox sweep` then removes the placeholder",
            ),
            RemovalOutcome::Removed | RemovalOutcome::Gone | RemovalOutcome::InUse | RemovalOutcome::Filled => continue,
        };
        said.push(Diagnostic::new(Code::PlaceholderLeft, message).help(help));
    }
}

/// Reports placeholders that stay because the mounts could not be made read-only. `unnoted`: the
/// journal could not be written either.
pub(crate) fn held(error: &io::Error, unnoted: Option<&io::Error>) -> Diagnostic {
    let mut message = format!(
        "placeholders of this run stay: a process in another sandbox may still write to their folders ({})",
        reason(error)
    );
    if let Some(unnoted) = unnoted {
        message.push_str(&format!("; it could not be noted: {}", reason(unnoted)));
    }
    Diagnostic::new(Code::PlaceholderLeft, message)
        .help("end the other sandboxes; the next start or `agent-sandbox sweep` then removes the placeholders")
}
