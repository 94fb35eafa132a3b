//! Our own program, where the command could replace it for the next run.

use crate::decide::Decisions;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::layers::{OwnFile, Project};
use crate::origin::Origin;
use crate::path::AbsPath;

use super::{Plan, View};

/// SPEC W5: `decide` makes it read-only, but a folder that the command can write is no place for it.
pub fn check_executable(
    plan: &Plan,
    decisions: &Decisions,
    project: &Project,
    executable: Option<&AbsPath>,
    diagnostics: &mut Diagnostics,
) {
    let Some(path) = executable else { return };
    let is_protected = decisions.get(path).is_some_and(|it| it.origin == Origin::BuiltIn(OwnFile::EXECUTABLE));
    let message = if is_protected {
        format!("agent-sandbox itself, `{path}`, lies where the command can write; only the file is read-only inside")
    } else if plan.view(path) == View::HostRw && path.is_within(&project.root) {
        format!("agent-sandbox itself, `{path}`, lies in the project, where the command can replace it")
    } else {
        return;
    };
    diagnostics.push(Diagnostic::new(Code::WritableExecutable, message).help(
        "install it where no rule opens anything: `cargo install --locked --path .` puts it into `~/.cargo/bin`",
    ));
}
