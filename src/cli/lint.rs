//! `agent-sandbox lint`: what is suspicious about a policy.

use std::fmt::Write;
use std::process::ExitCode;

use clap::ValueEnum;

use crate::audit::lint::{Lint, sarif};
use crate::diagnostic::{Code, Diagnostics, Format, Severity, nearest, render};
use crate::exit_code;
use crate::host::Host;
use crate::pipeline;

use super::args;
use super::debug;
use super::output::Output;
use super::style::Paint;

/// Look for rules that do nothing, and for secrets that no rule covers
///
/// Compiles the policy that a run here would use, looks at the project and at well-known places of the home, and lists what
/// somebody should look at: rules that match nothing or always lose, protected paths that the command could create,
/// protections that hang on a link, files that look like secrets and stay readable, writable folders on PATH. The contents
/// of files are never shown.
///
/// Exit code 1 when something has to be mended (warnings, errors), 0 when there are notes at most.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// How to show the findings
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: FindingsFormat,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Leave out findings with this code, such as `unused-rule`; repeatable
    #[arg(long, value_name = "CODE", value_parser = code)]
    allow: Vec<Code>,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox lint
  agent-sandbox lint --allow redundant-rule --allow unused-rule
  agent-sandbox lint --format sarif > lint.sarif      for code hosts and editors
  agent-sandbox --config draft.toml lint              before it becomes the project's file";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FindingsFormat {
    /// For people
    Text,
    /// One object; `agent-sandbox schema lint` describes it
    Json,
    /// SARIF 2.1.0
    Sarif,
}

/// Nobody reads more than this.
const MOST_SHOWN: usize = 100;

fn code(written: &str) -> Result<Code, String> {
    let known = Code::ALL.iter().find(|code| code.name() == written);
    known.copied().ok_or_else(|| match nearest(written, Code::ALL.iter().map(|code| code.name())) {
        Some(nearest) => format!("there is no such code; did you mean `{nearest}`?"),
        None => "there is no such code: each finding begins with its own, in brackets".to_owned(),
    })
}

pub(super) fn run(host: &Host, options: &args::Options, arguments: &Arguments, output: &Output) -> ExitCode {
    let session = match super::session(options.cwd.as_deref()) {
        Ok(session) => session,
        Err(diagnostic) => {
            output.report_one(diagnostic);
            return ExitCode::from(exit_code::OWN_FAILURE);
        }
    };
    let mut diagnostics = Diagnostics::default();
    let compiled = pipeline::compile(host, &session, &options.request(), &mut diagnostics);
    let mut lint = Lint::of_stages(&diagnostics);
    output.report(&about_the_machine(&diagnostics, &lint));
    if let Some(compiled) = compiled.as_ref().filter(|_| !diagnostics.has_errors()) {
        if options.debug {
            output.debug(&debug::stages(compiled));
        }
        lint.look(host, compiled);
    }
    lint.allow(&arguments.allow);
    let format = if arguments.json { FindingsFormat::Json } else { arguments.format };
    let text = match format {
        FindingsFormat::Text => text(&lint, output.paint()),
        FindingsFormat::Json => format!("{}\n", serde_json::to_string_pretty(&lint.report()).unwrap_or_default()),
        FindingsFormat::Sarif => {
            format!("{:#}\n", sarif::sarif(&lint, compiled.as_ref().map(|compiled| &compiled.layers)))
        }
    };
    let printed = output.print(text.as_bytes());
    if printed != ExitCode::SUCCESS || lint.is_clean() { printed } else { ExitCode::FAILURE }
}

/// What was said and is no finding.
fn about_the_machine(diagnostics: &Diagnostics, lint: &Lint) -> Diagnostics {
    let mut others = Diagnostics::default();
    for diagnostic in diagnostics.iter().filter(|said| !lint.findings.iter().any(|found| found.diagnostic == **said)) {
        others.push(diagnostic.clone());
    }
    others
}

fn text(lint: &Lint, paint: Paint) -> String {
    let mut shown = Diagnostics::default();
    for found in lint.findings.iter().take(MOST_SHOWN) {
        shown.push(found.diagnostic.clone());
    }
    let mut text = render(&shown, Format::Text { color: paint.0 });
    if !text.is_empty() {
        text.push('\n');
    }
    // Writing to a `String` cannot fail.
    let more = lint.findings.len().saturating_sub(MOST_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "… and {more} more; `--format json` shows all\n");
    }
    if lint.is_partial {
        let _ = writeln!(
            text,
            "{}",
            paint.aside("the project is too large to be looked at as a whole: some files were not seen")
        );
    }
    let _ = writeln!(text, "{}", summary(lint, paint));
    text
}

fn summary(lint: &Lint, paint: Paint) -> String {
    let counted = |severity: Severity| match lint.count(severity) {
        0 => None,
        1 => Some(format!("1 {}", severity.name())),
        many => Some(format!("{many} {}s", severity.name())),
    };
    let counts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(counted).collect();
    if counts.is_empty() {
        return paint.good("nothing found").to_string();
    }
    let counts = counts.join(", ");
    if lint.is_clean() { paint.good(counts).to_string() } else { paint.warning(counts).to_string() }
}
