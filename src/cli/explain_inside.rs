//! `agent-sandbox explain` inside a sandbox: it answers for the policy in force, from
//! `/run/agent-sandbox/README` (SPEC B16).

use std::ffi::{OsStr, OsString};
use std::io;

use crate::audit::entry::{absolute_entry, creating};
use crate::compile::readme::{LIMITS, NOT_PASSED, PATHS, STAYS};
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{Host, Resolved};
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
    let dropped = text.lines().skip_while(|line| *line != NOT_PASSED).skip(1).take_while(|line| !line.is_empty());
    let dropped: Vec<(&str, &str)> = dropped.filter_map(|line| line.split_once('\t')).collect();
    answers.extend(names.iter().map(|name| about_variable(name, &dropped, output.paint)));
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
    let failed = |e| Diagnostic::new(Code::UnreadablePath, format!("cannot examine `{written}`: {}", reason(&e)));
    let Followed { path, links, refusal } = follow(host, cwd, asked).map_err(failed)?;
    let governing = path.ancestors().find_map(|at| {
        let at = at.to_string();
        rows.iter().find(|row| row.path == at && row.access != STAYS)
    });
    let (access, at, because) = match governing {
        Some(row) => (row.access, row.path, row.because),
        None => ("read-only", "/", READ_ONLY_HOST),
    };
    // The host closes a folder that is not hidden.
    if let Some(e) = refusal.filter(|_| access != "hidden") {
        return Err(failed(e));
    }
    let meaning = match access {
        "writable" => "can be read and changed",
        "read-only" => "can be read",
        "hidden" => "can be neither read nor changed",
        "redacted" => "a copy without its credentials can be read",
        "injected" => "injected content can be read, but not the host's file",
        "private" => "a copy, which can be changed; only a few of its keys reach the host",
        _ => "private to the sandbox: no file of the host is in it",
    };
    let mut out = format!("{}: {access} ({meaning})\n", paint.heading(written));
    let mut line = |title: &str, text: String| out += &format!("  {} {text}\n", paint.aside(format!("{title:<7}")));
    let name = path.to_string();
    line("path", name.clone());
    links.iter().for_each(|link| line("through", format!("{link}, a symlink")));
    line("rule", format!("{at}  [{because}]"));
    if let Some(row) = rows.iter().find(|row| row.path == name && row.access == STAYS) {
        line("stays", format!("it cannot be moved or removed  [{}]", row.because));
    }
    if let Some(open) = opening(host, &path, access, because, name == at) {
        line("open", open);
    }
    Ok(out)
}

/// The path to which the user's path leads.
struct Followed {
    path: AbsPath,
    /// The symlinks on the way.
    links: Vec<AbsPath>,
    /// The error if `path` is, or lies in, a folder that cannot be searched.
    refusal: Option<io::Error>,
}

fn follow(host: &Host, cwd: &AbsPath, asked: &OsStr) -> io::Result<Followed> {
    let whole = cwd.as_path().join(asked);
    let error = match host.resolve(&whole) {
        Ok(Resolved { path, mut links, .. }) => {
            // The guard mounts a link to the copy over a private file.
            let file = if path.is_below(&places::at(places::PRIVATE)) { links.pop() } else { None };
            return Ok(Followed { path: file.unwrap_or(path), links, refusal: None });
        }
        Err(e) => e,
    };
    let (Some(closed), Some(whole)) = (host.refused_by(&whole), AbsPath::normalize(&whole)) else { return Err(error) };
    if whole.is_within(&closed) {
        return Ok(Followed { path: whole, links: Vec::new(), refusal: Some(error) });
    }
    let mut links: Vec<AbsPath> = whole.ancestors().filter(|at| host.link_target(at).is_ok()).collect();
    links.reverse();
    Ok(Followed { path: closed, links, refusal: Some(error) })
}

/// The change of the policy that gives a command more access. `None` for agent-sandbox's own
/// rules, whose names are sentences with spaces.
fn opening(host: &Host, path: &AbsPath, access: &str, because: &str, is_exact: bool) -> Option<String> {
    let name = absolute_entry(path)?;
    let is_of_preset = because.starts_with('@') || because == READ_ONLY_HOST;
    if !is_of_preset && because.contains(' ') {
        return (access == "own" && path.is_within(&places::at(places::TMP)))
            .then(|| "outside, for the next run: `tmp = \"host\"` in `[filesystem]`".to_owned());
    }
    let rule = match access {
        "read-only" if matches!(host.kind(path), Ok(None)) => creating(host, path, absolute_entry)?,
        "read-only" | "private" => format!("`rw = [{name}]` in `[filesystem]`"),
        "hidden" | "redacted" | "own" => format!("`ro = [{name}]` in `[filesystem]`"),
        _ => return None,
    };
    Some(match is_exact && !is_of_preset {
        true => format!("outside, for the next run: change or remove the rule of {because}"),
        false => format!("outside, for the next run: {rule}"),
    })
}

fn about_variable(name: &OsStr, dropped: &[(&str, &str)], paint: Paint) -> String {
    let written = escape_for_display(name);
    let rule = dropped.iter().find(|(dropped, _)| *dropped == written);
    let fate = match (std::env::var_os(name), rule) {
        (Some(_), _) => "this process has it".to_owned(),
        (None, Some((_, because))) => format!(
            "not passed (the caller has it)\n  {} {because}\n  {} outside, for the next run: `pass = [\"{written}\"]` in `[env]`",
            paint.aside("rule   "),
            paint.aside("open   ")
        ),
        (None, None) => "neither this process nor the caller has it".to_owned(),
    };
    format!("{}: {fate}\n", paint.heading(written))
}
