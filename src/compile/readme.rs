//! The text of `/run/agent-sandbox/README`. It tells a command that it is in a sandbox, and which
//! rule governs a path (SPEC B16). Inside, `explain` answers from this text.

use crate::compile::Compiled;
use crate::compile::environment::Fate;
use crate::compile::plan::{Purpose, View};
use crate::policy::{AbsPath, Origin, escape_for_display, places};

/// The line before the names of the variables, to an empty line.
pub const NOT_PASSED: &str = "Variables that were not passed, each with its rule:";
/// The beginning of the line with the limits.
pub const LIMITS: &str = "Limits:";
/// The line before the table of paths, to the end of the file.
pub const PATHS: &str = "Paths. For each path, the longest entry that contains it decides.";
/// The word in the table for a folder that cannot be moved or removed.
pub const STAYS: &str = "stays";

const INTRODUCTION: &str = "\
This is a sandbox that agent-sandbox made. A command here sees the files of the host and can change
few of them. The user chose this. Do not try to get around it: tell the user what you need.

EROFS, \"Read-only file system\": the path is read-only here. Instead of `pip install --user`, use a
virtual environment in the project.
EACCES, \"Permission denied\": the path is hidden here, or closed on the host as well.
EBUSY, \"Device or resource busy\": the path must stay where it is; it cannot be renamed or removed.
ENOSPC, \"No space left on device\": `/tmp` lies in memory, and has the size that `Limits` names.
A variable that is missing: it was not passed.

The user can change the rules outside, for the next run: in `.agent-sandbox.toml`, or with flags
such as `--rw PATH` and `--network`. This says which rule governs a path:
";

pub fn text(compiled: &Compiled) -> String {
    let program = if compiled.guard { places::GUARD } else { "agent-sandbox" };
    let network = if compiled.policy.network.value { "on" } else { "off" };
    let dropped = compiled.environment.with(Fate::Dropped);
    let dropped = dropped.map(|(name, origin)| format!("{}\t{}\n", escape_for_display(name), source(origin)));
    let mut dropped = dropped.collect::<String>();
    if dropped.is_empty() {
        dropped = "none\n".to_owned();
    }
    let limits: Vec<String> = compiled.policy.limits.values().map(|limit| limit.value.to_string()).collect();
    let limits = limits.join(" ");
    let mut text = format!(
        "{INTRODUCTION}\n    {program} explain PATH\n\nNetwork: {network}\n{LIMITS} {limits}\n\
         \n{NOT_PASSED}\n{dropped}\n{PATHS}\n`{STAYS}` means that a folder cannot be moved or removed.\n"
    );
    for (path, decision) in compiled.decisions.iter() {
        let is_private = compiled.plan.links.iter().any(|link| link.path == *path);
        let access = if is_private { "private" } else { access(compiled.plan.view(path)) };
        text += &row(access, path, &source(&decision.origin));
    }
    let own = [places::DEV, places::PROC, places::RUN, places::TMP].map(places::at);
    for path in own.iter().filter(|path| compiled.decisions.get(path).is_none()) {
        text += &row(access(compiled.plan.view(path)), path, "the sandbox has its own");
    }
    for pin in compiled.plan.mounts.iter().filter(|planned| matches!(planned.purpose, Purpose::Pin { .. })) {
        text += &row(STAYS, &pin.path, &source(&pin.because));
    }
    text
}

/// The source of the rule. The order of entries in a file changes no byte (SPEC B10), so a file is
/// named without a line.
fn source(origin: &Origin) -> String {
    match origin {
        Origin::File(place) => place.source.name.clone(),
        Origin::Alias { of, origin } => format!("{}, the same as {of}", source(origin)),
        other => other.to_string(),
    }
}

/// A line of the table. No name contains a tab, because tabs are escaped.
fn row(access: &str, path: &AbsPath, because: &str) -> String {
    format!("{access}\t{path}\t{because}\n")
}

/// The access in one word.
fn access(view: View) -> &'static str {
    match view {
        View::HostRw => "writable",
        View::HostRo => "read-only",
        View::Redacted => "redacted",
        View::Injected => "injected",
        View::Masked => "hidden",
        View::Fresh | View::Dev | View::Proc => "own",
    }
}
