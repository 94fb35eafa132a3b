//! `agent-sandbox diff OLD [NEW]`: what a change of the project's file means on this host.

mod operand;

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;

use crate::audit::diff::{Diff, PolicyChange, Subject, diff};
use crate::compile::request::Request;
use crate::compile::{self, Compiled};
use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::host::session::Session;
use crate::policy::origin::Origin;
use crate::policy::path::shown;

use super::args::{self, Options};
use super::debug;
use super::output::Output;
use super::style::Paint;
use operand::{Operand, Place};

/// Compare two policies on this host: what is wider, what is narrower, by which rules
///
/// OLD and NEW stand for the project's `.agent-sandbox.toml`. Both are compiled here, with your own files and the flags of this command
/// line, and the two effective policies are compared at every path. A path in the list is a witness: what a command may do there
/// differs as said. A folder stands for all below it that differs in the same way.
///
/// Each line ends with the rule that decides by OLD and the one that decides by NEW.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// A file, `git:REV` (the project's file at that revision), `-` (standard input), or `/dev/null` (no project file)
    old: OsString,
    /// The same; the project's file as it is now, if left out
    new: Option<OsString>,
    /// Exit with 1 if NEW is wider than OLD anywhere; narrower alone is 0
    #[arg(long)]
    exit_code: bool,
    /// Let a revision without the file stand for no project file
    #[arg(long)]
    allow_missing: bool,
    /// Print one JSON object: see `agent-sandbox schema diff`
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox diff git:HEAD                      what an edit that is not committed changes
  agent-sandbox diff --exit-code git:origin/main   in CI: fail if a change opens something
  agent-sandbox diff /dev/null                     the file beside the policy without it
  agent-sandbox diff old.toml new.toml --json

Exit codes: 0; 1 with --exit-code if something is wider; 125 if the two could not be compared.";

pub(super) fn run(host: &Host, options: &Options, arguments: &Arguments, output: &Output) -> ExitCode {
    let found = match compared(host, options, arguments, output) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let printed =
        if arguments.json { output.print_json(&found) } else { output.print(text(&found, output.paint()).as_bytes()) };
    let is_wider = arguments.exit_code && !found.widened.is_empty();
    if printed == ExitCode::SUCCESS && is_wider { ExitCode::FAILURE } else { printed }
}

/// `Err` where everything has been said.
fn compared(host: &Host, options: &Options, arguments: &Arguments, output: &Output) -> Result<Diff, ExitCode> {
    if arguments.old == "-" && arguments.new.as_ref().is_some_and(|new| new == "-") {
        // Nothing can be done about a closed stream here.
        let _ =
            args::mistake(ErrorKind::ValueValidation, "standard input can be read once: name a file for OLD or NEW")
                .print();
        return Err(ExitCode::from(exit_code::USAGE));
    }
    let failed = |diagnostic| output.failed(diagnostic);
    let session = super::session_or_code(options, output)?;
    let request = options.request();
    // What is wrong with the other files is said when the two are compiled.
    let project = super::project(host, &session, &request).map_err(failed)?;
    let place = Place { host, session: &session, project: &project, allow_missing: arguments.allow_missing };
    let old = place.named(&arguments.old).map_err(failed)?;
    let new = arguments.new.as_deref().map_or_else(|| place.current(), |new| place.named(new)).map_err(failed)?;
    let compiler = Compiler { host, session: &session, request: &request, debug: options.debug, output };
    // Both are compiled even if the first has mistakes: one run shows all of them.
    let (before, after) = (compiler.compile("OLD", &old), compiler.compile("NEW", &new));
    let (Some(before), Some(after)) = (before, after) else {
        return Err(ExitCode::from(exit_code::OWN_FAILURE));
    };
    let mut found = diff((&old.source.name, &before), (&new.source.name, &after));
    found.notes.extend([old.note, new.note].into_iter().flatten());
    Ok(found)
}

struct Compiler<'a> {
    host: &'a Host,
    session: &'a Session,
    request: &'a Request,
    debug: bool,
    output: &'a Output,
}

impl Compiler<'_> {
    /// `None` where there are errors, which have been shown. Warnings are shown of NEW: that is the one that will be used.
    fn compile(&self, which: &str, operand: &Operand) -> Option<Compiled> {
        let request = Request { supposed: Some(Arc::clone(&operand.source)), ..self.request.clone() };
        let mut diagnostics = Diagnostics::default();
        let compiled = compile::compile(self.host, self.session, &request, &mut diagnostics);
        let compiled = compiled.filter(|_| !diagnostics.has_errors());
        if compiled.is_none() {
            let name = &operand.source.name;
            let message = format!("{which}, `{name}`, cannot be compiled here: nothing was compared");
            diagnostics.push(
                Diagnostic::new(Code::NoComparison, message)
                    .help("correct what is said above, or compare another file"),
            );
        }
        if which == "NEW" || compiled.is_none() {
            self.output.report(&diagnostics);
        }
        if let Some(compiled) = compiled.as_ref().filter(|_| self.debug) {
            self.output.debug(&format!("{which}:\n{}", debug::stages(compiled, None)));
        }
        compiled
    }
}

fn text(found: &Diff, paint: Paint) -> String {
    let rows = |changes: &[PolicyChange]| changes.iter().map(row).collect::<Vec<_>>();
    let (widened, narrowed) = (rows(&found.widened), rows(&found.narrowed));
    let width = |column: fn(&Row) -> usize, most: usize| {
        widened.iter().chain(&narrowed).map(column).filter(|width| *width <= most).max().unwrap_or(0)
    };
    let widths = (width(|row| row.what.chars().count(), 60), width(|row| row.how.chars().count(), 40));
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    for (rows, heading) in [(&widened, paint.bad("widened")), (&narrowed, paint.good("narrowed"))] {
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{heading}");
        for Row { what, how, rules } in rows {
            let _ = writeln!(out, "  {what:0$}  {how:1$}  {2}", widths.0, widths.1, paint.aside(rules));
        }
        out.push('\n');
    }
    for note in &found.notes {
        let _ = writeln!(out, "note: {note}");
    }
    let _ = writeln!(out, "{} widened, {} narrowed", widened.len(), narrowed.len());
    out
}

struct Row {
    what: String,
    how: String,
    rules: String,
}

fn row(PolicyChange { what, old, new }: &PolicyChange) -> Row {
    // A variable that is given on both sides.
    let how = if old.is == new.is { "another value".to_owned() } else { format!("{} → {}", old.is, new.is) };
    let rule = |origin: &Option<Origin>| origin.as_ref().map_or_else(|| "no rule".to_owned(), ToString::to_string);
    Row { what: subject(what), how, rules: format!("{} → {}", rule(&old.rule), rule(&new.rule)) }
}

fn subject(what: &Subject) -> String {
    match what {
        Subject::Network => "network".to_owned(),
        Subject::Docker => "docker".to_owned(),
        Subject::Nested => "user namespaces inside".to_owned(),
        Subject::Inherit => "variables that nothing names".to_owned(),
        Subject::Requirement { protection } => format!("protection `{protection}`"),
        Subject::Variable { name } => format!("variable `{}`", shown(&name.0)),
        Subject::Preset { name } => format!("preset `@{name}`"),
        Subject::OtherNames { path } => format!("other names of {path}"),
        Subject::Created { path } => format!("folder {path}"),
        Subject::Device { path } => format!("device {path}"),
        Subject::Socket { path } => format!("socket {path}"),
        Subject::Path { path } => path.to_string(),
    }
}
