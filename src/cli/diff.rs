//! `agent-sandbox diff OLD [NEW]`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use clap::error::ErrorKind;

use crate::audit::diff::{Diff, PolicyChange, Subject, diff};
use crate::audit::revision;
use crate::compile::layers::{self, MAX_CONFIG_BYTES, PROJECT_FILE, Project};
use crate::compile::{self, Request};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{Host, Session};
use crate::policy::{Origin, Source, escape_for_display};

use super::answer::{Answered, CliError};
use super::args::{Options, RuleArgs, mistake};
use super::debug;
use super::output::Output;
use super::style::Paint;

/// Compare two policies on this host: list wider and narrower access, with the rules
///
/// OLD and NEW stand for the project's `.agent-sandbox.toml`. Both are compiled here, with your own
/// files and the flags of this command line, and the two effective policies are compared at every
/// path. At each path in the list, a command's access differs as shown. A folder stands for all
/// paths below it that differ in the same way.
///
/// Each line ends with the rule that decides by OLD and the one that decides by NEW.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DiffArgs {
    /// A file, `git:REV` (the project's file at that revision), `-` (standard input), or
    /// `/dev/null` (no project file)
    old: OsString,
    /// A second operand of these kinds; without it, the project's file as it is now
    new: Option<OsString>,
    /// Exit with 1 if NEW is wider than OLD anywhere, and with 0 if it is only narrower
    #[arg(long)]
    exit_code: bool,
    /// If a revision has no such file, compare the policy without a project file
    #[arg(long)]
    allow_missing: bool,
    /// Print one JSON object: see `agent-sandbox schema diff`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    rules: RuleArgs,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox diff git:HEAD                      the effect of an edit that is not committed
  agent-sandbox diff --exit-code git:origin/main   in CI: fail if a change opens something
  agent-sandbox diff /dev/null                     the effect of the whole file
  agent-sandbox diff old.toml new.toml --json

Exit codes: 0; 1 with --exit-code if something is wider; 125 if the two could not be compared.";

pub(super) fn run(host: &Host, options: &Options, arguments: &DiffArgs, output: &Output) -> Answered {
    let found = compare(host, options, arguments, output)?;
    output.print_value(&found, arguments.json, text)?;
    Ok(!arguments.exit_code || found.widened.is_empty())
}

fn compare(host: &Host, options: &Options, arguments: &DiffArgs, output: &Output) -> Result<Diff, CliError> {
    if arguments.old == "-" && arguments.new.as_ref().is_some_and(|new| new == "-") {
        let message = "standard input can be read once: name a file for OLD or NEW";
        return Err(mistake(ErrorKind::ValueValidation, message).into());
    }
    let session = super::session(options.cwd.as_deref())?;
    let request = options.request();
    let project = super::project(host, &session, &request)?;
    let named = |operand: &OsStr| match operand.as_bytes() {
        b"-" => read("standard input", io::stdin().lock()),
        b"/dev/null" => Ok(nothing("/dev/null".to_owned(), None)),
        [b'g', b'i', b't', b':', revision @ ..] => {
            at_revision(host, &session, &project, OsStr::from_bytes(revision), arguments.allow_missing)
        }
        _ => file(Path::new(operand)),
    };
    let (old, old_note) = named(&arguments.old)?;
    let (new, new_note) = arguments.new.as_deref().map_or_else(|| current(host, &project), named)?;
    let (old, new) = (Arc::new(old), Arc::new(new));
    let compiled = |which: &str, source: &Arc<Source>| {
        let request = Request { supposed: Some(Arc::clone(source)), ..request.clone() };
        let mut diagnostics = Diagnostics::default();
        let compiled = compile::compile(host, &session, &request, &mut diagnostics);
        let compiled = compiled.filter(|_| !diagnostics.has_errors());
        if compiled.is_none() {
            let message = format!("{which}, `{}`, cannot be compiled here: nothing was compared", source.name);
            let help = "correct the errors above, or compare another file";
            diagnostics.push(Diagnostic::new(Code::NoComparison, message).help(help));
        }
        // A run will use NEW, so warnings about OLD do not matter.
        if which == "NEW" || compiled.is_none() {
            output.report(&diagnostics);
        }
        if let Some(compiled) = compiled.as_ref().filter(|_| options.debug) {
            output.debug(&format!("{which}:\n{}", debug::stages(compiled, None)));
        }
        compiled
    };
    // Both are compiled even if the first has mistakes: one run shows all of them.
    let (before, after) = (compiled("OLD", &old), compiled("NEW", &new));
    let (Some(before), Some(after)) = (before, after) else { return Err(CliError::Reported) };
    let mut found = diff((&old.name, &before), (&new.name, &after));
    found.notes.extend([old_note, new_note].into_iter().flatten());
    Ok(found)
}

fn text(found: &Diff, paint: Paint) -> String {
    let rows = |changes: &[PolicyChange]| changes.iter().map(row).collect::<Vec<_>>();
    let (widened, narrowed) = (rows(&found.widened), rows(&found.narrowed));
    // Longer cells do not move the columns of all other rows.
    let width = |column: usize, most: usize| {
        let widths = widened.iter().chain(&narrowed).map(|row| row[column].chars().count());
        widths.filter(|width| *width <= most).max().unwrap_or(0)
    };
    let widths = (width(0, 60), width(1, 40));
    let mut out = String::new();
    for (rows, heading) in [(&widened, paint.bad("widened")), (&narrowed, paint.good("narrowed"))] {
        if rows.is_empty() {
            continue;
        }
        out += &format!("{heading}\n");
        for [subject, change, rules] in rows {
            out += &format!("  {subject:0$}  {change:1$}  {2}\n", widths.0, widths.1, paint.aside(rules));
        }
        out.push('\n');
    }
    out.extend(found.notes.iter().map(|note| format!("note: {note}\n")));
    out + &format!("{} widened, {} narrowed\n", widened.len(), narrowed.len())
}

/// The subject, the change, and the rules that decide.
fn row(PolicyChange { what, old, new }: &PolicyChange) -> [String; 3] {
    // Both policies set the variable, to different values.
    let change = if old.is == new.is { "another value".to_owned() } else { format!("{} → {}", old.is, new.is) };
    let rule = |origin: &Option<Origin>| origin.as_ref().map_or_else(|| "no rule".to_owned(), ToString::to_string);
    [subject(what), change, format!("{} → {}", rule(&old.rule), rule(&new.rule))]
}

fn subject(what: &Subject) -> String {
    match what {
        Subject::Network => "network".to_owned(),
        Subject::Docker => "docker".to_owned(),
        Subject::Nested => "user namespaces inside".to_owned(),
        Subject::Inherit => "variables that no entry names".to_owned(),
        Subject::Limit { limit } => format!("limit `{limit}`"),
        Subject::Requirement { protection } => format!("protection `{protection}`"),
        Subject::Variable { name } => format!("variable `{}`", escape_for_display(&name.0)),
        Subject::Preset { name } => format!("preset `@{name}`"),
        Subject::OtherNames { path } => format!("other names of {path}"),
        Subject::Created { path } => format!("folder {path}"),
        Subject::Injection { path } => format!("injection at {path}"),
        Subject::Device { path } => format!("device {path}"),
        Subject::Socket { path } => format!("socket {path}"),
        Subject::Path { path } => path.to_string(),
    }
}

/// A text to compile instead of the project's file, and a note for the reader.
type Operand = (Source, Option<String>);

/// An empty file and no file give the same policy.
fn nothing(name: String, note: Option<String>) -> Operand {
    (Source::new(name, String::new()), note)
}

fn current(host: &Host, project: &Project) -> Result<Operand, Diagnostic> {
    if let Some(source) = layers::project_source(host, project)? {
        return Ok((source, None));
    }
    let note = format!("there is no `{PROJECT_FILE}` here now: NEW is the policy without one");
    Ok(nothing(PROJECT_FILE.to_owned(), Some(note)))
}

/// The operand at a git revision. With `allow_missing`, a revision without the file means that
/// there is no project file.
fn at_revision(
    host: &Host,
    session: &Session,
    project: &Project,
    revision: &OsStr,
    allow_missing: bool,
) -> Result<Operand, Diagnostic> {
    if let Some(source) = revision::source_at(host, session, project, revision)? {
        return Ok((source, None));
    }
    let name = format!("git:{}", escape_for_display(revision));
    if allow_missing {
        let note = format!("there is no `{PROJECT_FILE}` at `{name}`: the policy without one is compared");
        return Ok(nothing(format!("{name}:{PROJECT_FILE}"), Some(note)));
    }
    let message = format!("`{name}` has no `{PROJECT_FILE}` in `{}`", project.root);
    let help = "use `--allow-missing` to compare with the policy without a project file";
    Err(Diagnostic::new(Code::NoComparison, message).help(help))
}

/// Reads any file that the caller names, also the pipe of `<(command)`.
#[expect(clippy::disallowed_methods, reason = "the caller names the file, and a pipe has to be waited for")]
fn file(path: &Path) -> Result<Operand, Diagnostic> {
    let name = escape_for_display(path.as_os_str());
    match std::fs::File::open(path) {
        Ok(file) => read(&name, file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Diagnostic::new(Code::MissingConfig, format!("`{name}` does not exist"))
                .help("name an existing file, `git:REV`, or `/dev/null` for the policy without a project file"))
        }
        Err(e) => Err(layers::unreadable(&name, &reason(&e))),
    }
}

fn read(name: &str, from: impl Read) -> Result<Operand, Diagnostic> {
    let mut content = Vec::new();
    let taken = from.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut content);
    let problem = match taken.map(|taken| taken as u64 > MAX_CONFIG_BYTES) {
        Err(e) => reason(&e),
        Ok(true) => "too large".to_owned(),
        Ok(false) => match String::from_utf8(content) {
            Ok(text) => return Ok((Source::new(name.to_owned(), text), None)),
            Err(_) => "it is not UTF-8".to_owned(),
        },
    };
    Err(layers::unreadable(name, &problem))
}
