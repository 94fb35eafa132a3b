//! `agent-sandbox explain` inside a sandbox: it answers for the policy in force, from
//! `/run/agent-sandbox/README` (SPEC B16).

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::audit::entry::absolute_entry;
use crate::compile::readme::{LIMITS, NOT_PASSED, PATHS};
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::policy::{AbsPath, escape_for_display, places};

use super::answer::Answered;
use super::output::Output;
use super::style::Paint;

/// The largest text that is read, in bytes. A text about ten thousand rules has a tenth of this
/// size.
const LARGEST: u64 = 1 << 24;

/// The reason given for a path that no row covers.
const READ_ONLY_HOST: &str = "the host is read-only";

/// The paths and the names of variables to explain, and whether to explain the limits.
type Asked<'a> = (&'a [OsString], &'a [OsString], bool);

pub(super) fn run(host: &Host, cwd: &AbsPath, (paths, names, limits): Asked, output: &Output) -> Answered {
    let text = read(host)?;
    let rows: Vec<Row> = text.lines().skip_while(|line| *line != PATHS).skip(1).filter_map(Row::of).collect();
    let mut answers = Vec::new();
    for asked in paths {
        answers.push(about_path(host, cwd, asked, &rows, output.paint)?);
    }
    let dropped = text.lines().find_map(|line| line.strip_prefix(NOT_PASSED)).unwrap_or_default();
    answers.extend(names.iter().map(|name| about_variable(name, dropped, output.paint)));
    let in_force = text.lines().find_map(|line| line.strip_prefix(LIMITS)).unwrap_or_default();
    answers.extend(limits.then(|| format!("{}:{in_force}\n", output.paint.heading("limits"))));
    output.print(answers.join("\n").as_bytes())
}

/// A line of the table.
struct Row<'t> {
    access: &'t str,
    path: &'t str,
    because: &'t str,
}

impl<'t> Row<'t> {
    fn of(line: &'t str) -> Option<Self> {
        let mut parts = line.split('\t');
        Some(Self { access: parts.next()?, path: parts.next()?, because: parts.next()? })
    }
}

fn read(host: &Host) -> Result<String, Diagnostic> {
    let place = places::at(places::README);
    let failed = |why: String| {
        let help = "ask outside: the sandbox was made by another version of agent-sandbox";
        Diagnostic::new(Code::UnreadablePath, format!("cannot read `{place}`: {why}")).help(help)
    };
    let content = host.read_regular(&place, LARGEST).map_err(|e| failed(reason(&e)))?;
    let content = content.ok_or_else(|| failed("it does not exist".to_owned()))?;
    String::from_utf8(content).map_err(|e| failed(e.to_string()))
}

fn about_path(host: &Host, cwd: &AbsPath, asked: &OsStr, rows: &[Row], paint: Paint) -> Result<String, Diagnostic> {
    let written = escape_for_display(asked);
    let failed = |why: &str| Diagnostic::new(Code::UnreadablePath, format!("cannot look at `{written}`: {why}"));
    let resolved = |path: &Path| host.resolve(path).map(|found| found.path).map_err(|e| failed(&reason(&e)));
    let whole = cwd.as_path().join(asked);
    let path = match (whole.parent(), whole.file_name()) {
        // The guard mounts a link to the copy over a private file, so do not follow the last name.
        (Some(folder), Some(name)) => resolved(folder)?.child(name),
        _ => resolved(&whole)?,
    };
    let governing = path.ancestors().find_map(|at| {
        let at = at.to_string();
        rows.iter().find(|row| row.path == at)
    });
    let (access, at, because) = match governing {
        Some(row) => (row.access, row.path, row.because),
        None => ("read-only", "/", READ_ONLY_HOST),
    };
    let meaning = match access {
        "writable" => "can be read and changed",
        "read-only" => "can be read",
        "hidden" => "can be neither read nor changed",
        "redacted" => "a copy without its credentials can be read",
        "injected" => "another content can be read, and not the host's",
        "private" => "a copy, which can be changed; few keys of it reach the host",
        _ => "the sandbox's own: nothing of the host is in it",
    };
    let mut out = format!(
        "{}: {access} ({meaning})\n  {} {path}\n  {} {at}  [{because}]\n",
        paint.heading(written),
        paint.aside("path   "),
        paint.aside("rule   ")
    );
    let is_missing = matches!(host.kind(&path), Ok(None));
    if let Some(open) = opening(&path, access, because, path.to_string() == at, is_missing) {
        out += &format!("  {} {open}\n", paint.aside("open   "));
    }
    Ok(out)
}

/// The change of the policy that gives a command more access. `None` for agent-sandbox's own
/// rules, whose names are sentences with spaces.
fn opening(path: &AbsPath, access: &str, because: &str, is_exact: bool, is_missing: bool) -> Option<String> {
    let name = absolute_entry(path)?;
    let is_of_preset = because.starts_with('@') || because == READ_ONLY_HOST;
    if !is_of_preset && because.contains(' ') {
        return (access == "own" && path.is_within(&places::at(places::TMP)))
            .then(|| "outside, for the next run: `tmp = \"host\"` in `[filesystem]`".to_owned());
    }
    let rule = match access {
        "read-only" if is_missing => format!("rw = [{{ path = {name}, if-missing = \"create\" }}]"),
        "read-only" | "private" => format!("rw = [{name}]"),
        "hidden" | "redacted" | "own" => format!("ro = [{name}]"),
        _ => return None,
    };
    Some(match is_exact && !is_of_preset {
        true => format!("outside, for the next run: change or remove the rule of {because}"),
        false => format!("outside, for the next run: `{rule}` in `[filesystem]`"),
    })
}

fn about_variable(name: &OsStr, dropped: &str, paint: Paint) -> String {
    let written = escape_for_display(name);
    let fate = match std::env::var_os(name) {
        Some(_) => "this process has it",
        None if dropped.split(' ').any(|dropped| dropped == written) => "not passed (the caller has it)",
        None => "neither this process nor the caller has it",
    };
    format!("{}: {fate}\n", paint.heading(written))
}
