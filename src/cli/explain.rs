//! `agent-sandbox explain`: the text, and the exit code.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use crate::audit::effective_access::EffectiveAccess;
use crate::audit::explain::{
    Below, Durability, Explained, Explainer, Explanation, HostKind, Loser, MountStep, WhenReplaced,
};
use crate::audit::rule_json::RuleJson;
use crate::cli::print::{step_for_people, words_for_people};
use crate::diagnostic::exit_code;
use crate::diagnostic::{Diagnostics, listed};
use crate::host::Host;
use crate::policy::path::{AbsPath, shown};
use crate::policy::rule::Exactness;

use super::args;
use super::output::Output;
use super::style::Paint;

/// Say what a command may do at a path, by which rule, and why other rules lost
///
/// PATH is relative to the working directory. Symlinks are followed as rules follow them. It need not exist: then it is
/// said what would govern it, and whether the command can make it. Flags of a policy (`--rw`, `--preset`, …) stand before
/// the subcommand and count as in a run. Nothing is started, and nothing on the host is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// What to look at
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Print one JSON object: see `agent-sandbox schema explain`
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox explain .git/hooks/pre-commit        why can the agent not write this?
  agent-sandbox explain ~/.ssh .env /tmp
  agent-sandbox --exclude secrets explain secrets/a  what would this flag change?
  agent-sandbox explain --json .env | jq -r '.paths[0].access'

Exit codes: 0 whatever the access is; 125 where a PATH cannot be looked at, or the policy has mistakes.";

pub(super) fn run(host: &Host, options: &args::Options, arguments: &Arguments, output: &Output) -> ExitCode {
    let compiled = match super::compile(host, options, output) {
        Ok(compiled) => compiled,
        Err(code) => return code,
    };
    let mut diagnostics = Diagnostics::default();
    let explainer = Explainer::new(host, &compiled);
    let mut paths = Vec::new();
    for asked in &arguments.paths {
        match explainer.explain(asked) {
            Ok(explanation) => paths.push(explanation),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    output.report(&diagnostics);
    let explained = Explained { paths };
    let code = if arguments.json {
        output.print_json(&explained)
    } else {
        output.print(text(&explained, output.paint()).as_bytes())
    };
    if diagnostics.has_errors() { ExitCode::from(exit_code::OWN_FAILURE) } else { code }
}

/// For people, without colours.
pub fn plain(explained: &Explained) -> String {
    text(explained, Paint(false))
}

/// Writing to a `String` cannot fail, so the results of `writeln!` are not looked at.
fn text(explained: &Explained, paint: Paint) -> String {
    let parts: Vec<String> = explained.paths.iter().map(|explanation| one(explanation, paint)).collect();
    parts.join("\n")
}

fn one(explanation: &Explanation, paint: Paint) -> String {
    let access = explanation.access;
    let mut out = format!(
        "{}: {} ({})\n",
        paint.heading(shown(&explanation.asked.0)),
        paint.access(access.like(), access),
        access.meaning()
    );
    let mut line = |title: &str, text: &str| {
        let _ = writeln!(out, "  {} {text}", paint.aside(format!("{title:<7}")));
    };
    let state = match explanation.kind {
        None if access.shows_host() || access == EffectiveAccess::Exclude => ", where nothing is",
        Some(HostKind::Symlink) => ", where the host has a symlink, which is not seen inside",
        _ => "",
    };
    line("path", &format!("{}{state}", explanation.path));
    for (title, link) in titled("through", explanation.links.iter().map(|link| format!("{link}, a symlink")).collect())
    {
        line(title, &link);
    }
    let same = explanation.same_as.iter().map(|other| format!("{other}, by another mount")).collect();
    for (title, other) in titled("same as", same) {
        line(title, &other);
    }
    line("rule", &ruling(&explanation.rule));
    for (title, text) in titled("over", losers(&explanation.losers)) {
        line(title, &text);
    }
    for (title, text) in titled("mount", explanation.mounts.iter().map(step).collect()) {
        line(title, &text);
    }
    for (title, text) in titled("pins", explanation.pins.iter().map(step).collect()) {
        line(title, &text);
    }
    if !explanation.below.is_empty() {
        let counts = explanation.below.iter().map(|Below { access, count }| format!("{count} {access}"));
        let them = if let [Below { count: 1, .. }] = explanation.below.as_slice() { "it" } else { "them" };
        line("below", &format!("{}: `agent-sandbox show` has {them}", counts.collect::<Vec<_>>().join(", ")));
    }
    let painted = |one: &Durability| painted(one, explanation.below.is_empty(), paint);
    for (title, text) in titled("holds", explanation.durability.iter().map(painted).collect()) {
        line(title, &text);
    }
    out
}

/// The title once, before the first line.
fn titled(title: &'static str, lines: Vec<String>) -> impl Iterator<Item = (&'static str, String)> {
    lines.into_iter().enumerate().map(move |(at, line)| (if at == 0 { title } else { "" }, line))
}

/// What is written, what it came to, and who says so.
fn ruling(rule: &RuleJson) -> String {
    let at = rule.at.to_string();
    let written = rule.text.as_ref().map(|text| shown(&text.0)).filter(|text| *text != at);
    let written = written.map_or_else(|| at.clone(), |text| format!("{text} → {at}"));
    let links: String = rule.links.iter().map(|link| format!(", through {link}")).collect();
    let by = if rule.by == Exactness::Glob { ", a pattern" } else { "" };
    format!("{} {written}  [{}{by}{links}]", rule.access, rule.origin)
}

/// Aligned as far as that is readable.
fn losers(losers: &[Loser]) -> Vec<String> {
    const WIDEST: usize = 96;
    let rules: Vec<(String, &Loser)> = losers.iter().map(|loser| (ruling(&loser.rule), loser)).collect();
    let widths = rules.iter().map(|(rule, _)| rule.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
    rules.into_iter().map(|(rule, loser)| format!("{rule:<width$}  {}", loser.reason())).collect()
}

fn step(step: &MountStep) -> String {
    match step {
        MountStep::Bwrap(words) => words_for_people(&words.iter().map(|word| word.0.clone()).collect::<Vec<_>>()),
        MountStep::Guard(mount) => step_for_people(mount),
    }
}

/// The colour says how far it holds.
fn painted(one: &Durability, is_uniform: bool, paint: Paint) -> String {
    let text = durability(one, is_uniform);
    match one {
        Durability::Directory { .. }
        | Durability::Placeholder { .. }
        | Durability::Pinned { .. }
        | Durability::NotCreatable => paint.good(text).to_string(),
        Durability::HardLinked { .. } => paint.bad(text).to_string(),
        Durability::File { .. } | Durability::Pattern | Durability::Creatable { .. } | Durability::Movable { .. } => {
            paint.warning(text).to_string()
        }
        Durability::Created { .. } | Durability::Generated | Durability::Private => text,
    }
}

/// `is_uniform`: nothing differs below.
fn durability(one: &Durability, is_uniform: bool) -> String {
    let all = |paths: &[AbsPath]| listed(paths.iter().map(|path| path.to_string()), "and");
    match one {
        Durability::Directory { path } if is_uniform => format!("for all of {path}, and what comes to be there"),
        Durability::Directory { path } => format!("for all else of {path}, and what comes to be there"),
        Durability::File { when_replaced, .. } => {
            let then = match when_replaced {
                WhenReplaced::Exposed => "is not covered",
                WhenReplaced::ExposedAndReported => "is not covered (reported after the run)",
                WhenReplaced::Closed => "can be read, not changed",
                WhenReplaced::Stale => "is not seen",
                WhenReplaced::Same => "is seen in the same way",
            };
            format!("for the file that is there at the start: one that replaces it on the host {then}")
        }
        Durability::Pattern => {
            "by a pattern, which is expanded at the start: what would match later is not covered".to_owned()
        }
        Durability::HardLinked { names } => {
            format!("the file has {names} names (hard links), and only this one is covered")
        }
        Durability::Placeholder { path } => format!("a placeholder at {path} keeps it from being created"),
        Durability::Created { path } => format!("{path} is created before the start"),
        Durability::Creatable { reported: true } => {
            "nothing stops the command from creating it; reported after the run".to_owned()
        }
        Durability::Creatable { reported: false } => "nothing stops the command from creating it".to_owned(),
        Durability::NotCreatable => "the command cannot create it".to_owned(),
        Durability::Movable { directories } => {
            format!("the command can rename {}: the rule goes along, and the old place is free", all(directories))
        }
        Durability::Pinned { keeps } => {
            format!("the directory stays where it is: it cannot be renamed or removed, because {keeps} lies in it")
        }
        Durability::Generated => "a copy for this sandbox, made at the start, with lines of its own".to_owned(),
        Durability::Private => "until the sandbox ends".to_owned(),
    }
}
