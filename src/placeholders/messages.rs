//! What is said of placeholders.

use std::io;

use crate::compile::Compiled;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::policy::path::AbsPath;

use super::place::RemovalOutcome;

pub(crate) fn cannot_put_up(compiled: &Compiled, path: &AbsPath, error: &io::Error) -> Diagnostic {
    let concerned =
        |path: &AbsPath| compiled.plan.placeholders.iter().find(|one| one.path == *path || one.parents.contains(path));
    let message = format!("cannot put a placeholder at `{path}`: {}", reason(error));
    match concerned(path) {
        Some(placeholder) => Diagnostic::new(Code::PlaceholderFailed, message)
            .at(&placeholder.origin)
            .help("see that the folder can be written, or take `if-missing = \"block\"` out of the rule"),
        None => {
            let message = format!("cannot note what is put up for the run in `{path}`: {}", reason(error));
            Diagnostic::new(Code::PlaceholderFailed, message)
                .help("make the folder writable, or name another with XDG_STATE_HOME")
        }
    }
}

/// What to say of something that is still there.
pub(crate) fn left(path: &AbsPath, outcome: &RemovalOutcome) -> Option<Diagnostic> {
    let (message, help) = match outcome {
        RemovalOutcome::Left(why) => (
            format!("`{path}`, where a placeholder stood during a run, is left as it is: {why}"),
            "look at it, and remove it if it is not yours",
        ),
        RemovalOutcome::Stuck(why) => (
            format!("the placeholder at `{path}` could not be removed after the run: {why}"),
            "see to the cause: the next start removes it, or `agent-sandbox sweep`",
        ),
        RemovalOutcome::Removed | RemovalOutcome::Gone | RemovalOutcome::InUse | RemovalOutcome::Filled => return None,
    };
    Some(Diagnostic::new(Code::PlaceholderLeft, message).help(help))
}

/// What to say of what stays for the sake of others. `unnoted`: why it could not be noted that it has to.
pub(crate) fn held(error: &io::Error, unnoted: Option<&io::Error>) -> Diagnostic {
    let mut message = format!(
        "placeholders of this run stay: somebody in another sandbox may write where they stand ({})",
        reason(error)
    );
    if let Some(unnoted) = unnoted {
        message.push_str(&format!("; it could not be noted: {}", reason(unnoted)));
    }
    Diagnostic::new(Code::PlaceholderLeft, message)
        .help("see what runs beside; when nothing does, the next start removes them, or `agent-sandbox sweep`")
}
