//! A warning for Codex, which runs each command in a sandbox of its own. Without user namespaces
//! every command fails, and Codex reports that only to the model.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::compile::Compiled;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::Host;

/// The largest settings file that is read, in bytes.
const LARGEST: u64 = 1 << 20;
const FULL_ACCESS: &str = "danger-full-access";
const TURN_OFF: [&str; 2] = ["--dangerously-bypass-approvals-and-sandbox", "--yolo"];
/// Subcommands and flags with which Codex runs no commands.
const HARMLESS: [&str; 8] = ["--help", "--version", "-V", "-h", "completion", "login", "logout", "mcp"];

/// The warning for a Codex that could not run any command.
pub fn own_sandbox(host: &Host, compiled: &Compiled, command: &[OsString]) -> Option<Diagnostic> {
    let settings = compiled.layers.project.home.join(".codex/config.toml");
    let in_settings = || {
        let text = host.read_regular(&settings, LARGEST).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&text).contains(FULL_ACCESS)
    };
    if compiled.policy.nested.value || !wants_one(command) || in_settings() {
        return None;
    }
    let message = "codex cannot run commands in its own sandbox here: there are no user namespaces inside";
    let help = "add `--sandbox danger-full-access`, because agent-sandbox is the sandbox here, or set `nested = true`";
    Some(Diagnostic::new(Code::OwnSandbox, message).help(help))
}

fn wants_one(command: &[OsString]) -> bool {
    let Some((program, args)) = command.split_first() else { return false };
    let is_codex = Path::new(program).file_name() == Some(OsStr::new("codex"));
    let is = |known: &[&str], arg: &OsString| known.iter().any(|known| arg == known);
    let is_off = |arg: &OsString| is(&TURN_OFF, arg) || arg.to_string_lossy().contains(FULL_ACCESS);
    is_codex && !args.first().is_some_and(|arg| is(&HARMLESS, arg)) && !args.iter().any(is_off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_commands_that_use_their_own_sandbox_are_detected() {
        for (command, expected) in [
            ("codex", true),
            ("/opt/bin/codex exec work", true),
            ("codex --sandbox workspace-write", true),
            ("codex --sandbox danger-full-access", false),
            ("codex exec -c sandbox_mode=\"danger-full-access\" work", false),
            ("codex --dangerously-bypass-approvals-and-sandbox", false),
            ("codex --version", false),
            ("codex login", false),
            ("sh codex", false),
            ("", false),
        ] {
            let args: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
            assert_eq!(wants_one(&args), expected, "{command}");
        }
    }
}
