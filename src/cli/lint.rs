//! `agent-sandbox lint`.

use clap::ValueEnum;

use crate::audit::lint::{CODES, Lint, sarif};
use crate::diagnostic::{Code, Diagnostics, Format, Severity, listed, nearest, render};
use crate::host::Host;
use crate::trust;

use super::answer::Answered;
use super::args::{Options, PolicyArgs};
use super::debug;
use super::output::Output;
use super::style::Paint;

/// Look for rules that do nothing, and for secrets that no rule covers
///
/// Compiles the policy that a run here would use, looks at the project and at well-known places of
/// the home, and lists suspicious parts: rules that match nothing or always lose, protected paths
/// that the command could create, protections that depend on a link, files that look like secrets
/// and stay readable, writable folders on PATH. The contents of files are never shown.
///
/// The exit code is 1 if there are warnings or errors, and 0 if there are only notes or no
/// findings.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct LintArgs {
    /// The format of the findings
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: FindingsFormat,
    /// Short for `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Leave out findings with this code, such as `unused-rule`; repeatable
    #[arg(long, value_name = "CODE", value_parser = code)]
    allow: Vec<Code>,
    #[command(flatten)]
    policy: PolicyArgs,
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

/// The most findings that the text shows.
const MOST_SHOWN: usize = 100;

#[derive(Debug, thiserror::Error)]
enum UnknownCode {
    #[error("there is no such code; did you mean `{0}`?")]
    Similar(&'static str),
    #[error("there is no such code; those of `lint` are {}", lint_codes())]
    Other,
}

fn lint_codes() -> String {
    listed(CODES.map(|code| format!("`{}`", code.name())).into_iter(), "and")
}

fn code(written: &str) -> Result<Code, UnknownCode> {
    let known = Code::ALL.iter().find(|code| code.name() == written);
    let nearest = || nearest(written, Code::ALL.iter().map(|code| code.name()));
    known.copied().ok_or_else(|| nearest().map_or(UnknownCode::Other, UnknownCode::Similar))
}

pub(super) fn run(host: &Host, options: &Options, arguments: &LintArgs, output: &Output) -> Answered {
    let session = super::session(options.cwd.as_deref())?;
    let mut diagnostics = Diagnostics::default();
    let judged = trust::compile(host, &session, &options.request(), &mut diagnostics);
    let mut lint = Lint::of_stages(&diagnostics);
    let others = diagnostics.iter().filter(|diagnostic| !Lint::is_finding(diagnostic)).cloned();
    output.report(&others.chain(judged.iter().filter_map(|judged| judged.warning(host))).collect());
    if let Some(judged) = judged.as_ref().filter(|_| !diagnostics.has_errors()) {
        if options.debug {
            output.debug(&debug::stages(&judged.compiled, judged.widening.as_ref()));
        }
        lint.look(host, &judged.compiled);
    }
    lint.allow(&arguments.allow);
    let format = if arguments.json { FindingsFormat::Json } else { arguments.format };
    match format {
        FindingsFormat::Text => output.print(text(&lint, output.paint).as_bytes()),
        FindingsFormat::Json => output.print_json(&lint.report()),
        FindingsFormat::Sarif => {
            output.print_json(&sarif::sarif(&lint, judged.as_ref().map(|judged| &judged.compiled.layers)))
        }
    }?;
    Ok(lint.is_clean())
}

fn text(lint: &Lint, paint: Paint) -> String {
    let first = lint.findings.iter().take(MOST_SHOWN).map(|found| found.diagnostic.clone());
    let mut text = render(&first.collect(), Format::Text { color: paint.0 });
    if !text.is_empty() {
        text.push('\n');
    }
    let more = lint.findings.len().saturating_sub(MOST_SHOWN);
    if more > 0 {
        text += &format!("… and {more} more; `--format json` shows all\n\n");
    }
    if lint.is_partial {
        let partial = "the project is too large to be searched completely: some files were not examined";
        text += &format!("{}\n", paint.aside(partial));
    }
    let counted = |severity: Severity| match lint.count(severity) {
        0 => None,
        1 => Some(format!("1 {severity}")),
        many => Some(format!("{many} {severity}s")),
    };
    let counts = [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(counted);
    let counts = counts.collect::<Vec<_>>().join(", ");
    let total = match lint.is_clean() {
        _ if counts.is_empty() => paint.good("nothing found".to_owned()),
        true => paint.good(counts),
        false => paint.warning(counts),
    };
    text + &format!("{total}\n")
}
