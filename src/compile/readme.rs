//! The text of `/run/agent-sandbox/README`. It tells a command that it is in a sandbox, and which
//! rule governs a path (SPEC B16). Inside, `explain` answers from this text.

use crate::compile::Compiled;
use crate::compile::environment::Fate;
use crate::compile::plan::View;
use crate::policy::{AbsPath, Origin, escape_for_display, places};

/// The line before the names of the variables.
pub const NOT_PASSED: &str = "Variables that were not passed:";
/// The beginning of the line with the limits.
pub const LIMITS: &str = "Limits:";
/// The line before the table of paths, to the end of the file.
pub const PATHS: &str = "Paths. For each path, the longest entry that contains it decides.";

const INTRODUCTION: &str = "\
This is a sandbox that agent-sandbox made. A command here sees the files of the host and can change
few of them. The user chose this. Do not try to get around it: tell the user what you need.

EROFS, \"Read-only file system\": the path is read-only here.
EACCES, \"Permission denied\": the path is hidden here, or closed on the host as well.
EBUSY, \"Device or resource busy\": the path must stay where it is; it cannot be renamed or removed.
A variable that is missing: it was not passed.

The user can change the rules outside, for the next run: in `.agent-sandbox.toml`, or with flags
such as `--rw PATH` and `--network`. This says which rule governs a path:
";

pub fn text(compiled: &Compiled) -> String {
    let program = if compiled.guard { places::GUARD } else { "agent-sandbox" };
    let network = if compiled.policy.network.value { "on" } else { "off" };
    let dropped = compiled.environment.with(Fate::Dropped).map(|(name, _)| escape_for_display(name));
    let mut dropped = dropped.collect::<Vec<_>>().join(" ");
    if dropped.is_empty() {
        dropped = "none".to_owned();
    }
    let limits: Vec<String> = compiled.policy.limits.values().map(|limit| limit.value.to_string()).collect();
    let limits = limits.join(" ");
    let mut text = format!(
        "{INTRODUCTION}\n    {program} explain PATH\n\nNetwork: {network}\n{LIMITS} {limits}\n\
         {NOT_PASSED} {dropped}\n\n{PATHS}\n"
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

/// A line of the table. No name has a tab in it, because escaping takes it away.
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
