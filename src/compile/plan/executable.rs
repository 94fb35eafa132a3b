//! Our own executable in a folder that the command can write.

use crate::compile::decide::Decisions;
use crate::compile::layers::OwnFile;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::policy::{AbsPath, Origin};

/// SPEC W5: `decide` makes the file read-only, but the command can write its folder.
pub fn check_executable(decisions: &Decisions, executable: Option<&AbsPath>, diagnostics: &mut Diagnostics) {
    let is_protected =
        |path: &&AbsPath| decisions.get(path).is_some_and(|it| it.origin == Origin::BuiltIn(OwnFile::EXECUTABLE));
    let Some(path) = executable.filter(is_protected) else { return };
    let message =
        format!("agent-sandbox itself, `{path}`, lies where the command can write; only the file is read-only inside");
    diagnostics.push(Diagnostic::new(Code::WritableExecutable, message).help(
        "install it where no rule opens anything: `cargo install --locked --path .` puts it into `~/.cargo/bin`",
    ));
}
