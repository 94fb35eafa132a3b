//! `agent-sandbox explain PATH…`, `--env NAME` and `--limits`.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use crate::audit::effective_access::EffectiveAccess;
use crate::audit::explain::{
    Below, Durability, Explained, Explainer, Explanation, HostKind, LimitExplanation, Loser, MountStep,
    VariableExplanation, WhenReplaced, limits, variable,
};
use crate::audit::rule_json::RuleJson;
use crate::cli::print::{display_args, display_link, display_step};
use crate::compile::environment::Fate;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed};
use crate::host::Host;
use crate::launch::is_inside;
use crate::policy::{Exactness, escape_for_display};

use super::answer::{Answered, CliError};
use super::args::{MountArgs, Options, PolicyArgs};
use super::explain_inside;
use super::output::Output;
use super::style::Paint;

/// Show the access of a command at a path, its rule, and why other rules lost
///
/// PATH is relative to the working directory. Symlinks are followed as rules follow them. If PATH
/// does not exist, `explain` names the rule that would apply to it, and says whether the command
/// can create it. Flags of a policy (`--rw`, `--preset`, …) count as in a run, before the
/// subcommand or after it. With `--env`, says whether the command gets a variable, and why; values
/// are not shown. With `--limits`, lists the limits in force. Nothing is started, and nothing on
/// the host is changed. Inside a sandbox, the answer is about the policy in force.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ExplainArgs {
    /// The path to explain
    #[arg(value_name = "PATH", required_unless_present_any = ["env", "show_limits"])]
    paths: Vec<OsString>,
    /// A variable of the environment to look at; may be repeated
    #[arg(long, value_name = "NAME")]
    env: Vec<OsString>,
    /// List the limits in force, and how each is enforced
    #[arg(id = "show_limits", long = "limits")]
    limits: bool,
    /// Print one JSON object: see `agent-sandbox schema explain`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    mounts: MountArgs,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox explain .git/hooks/pre-commit        why can the agent not write this?
  agent-sandbox explain ~/.ssh .env /tmp
  agent-sandbox --exclude secrets explain secrets/a  what would this flag change?
  agent-sandbox explain --json .env | jq -r '.paths[0].access'
  agent-sandbox explain --env GITHUB_TOKEN           does the agent get it?
  agent-sandbox explain --limits                     how much can it use?

Exit codes: 0 whatever the access is; 125 if a PATH cannot be examined, or the policy has mistakes.";

pub(super) fn run(host: &Host, options: &Options, arguments: &ExplainArgs, output: &Output) -> Answered {
    let session = super::session(options.cwd.as_deref())?;
    if is_inside(host) {
        if arguments.json || options.has_rules() {
            let message = "inside a sandbox, `explain` answers from `/run/agent-sandbox/README`, as text";
            let help = "run it outside for other rules and for JSON, which has more facts than that file";
            return Err(Diagnostic::new(Code::AlreadyInside, message).help(help).into());
        }
        return explain_inside::run(host, &session.cwd, (&arguments.paths, &arguments.env, arguments.limits), output);
    }
    let compiled = super::compile(host, options, output)?;
    let mut diagnostics = Diagnostics::default();
    let explainer = Explainer::new(host, &compiled);
    let mut paths = Vec::new();
    for asked in &arguments.paths {
        match explainer.explain(asked) {
            Ok(explanation) => paths.push(explanation),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    let mut variables = Vec::new();
    for name in &arguments.env {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            let message = format!("`{}` cannot be the name of a variable", escape_for_display(name));
            diagnostics.push(Diagnostic::new(Code::InvalidValue, message).help("write the name alone"));
        } else {
            variables.push(variable(&session, &compiled, name));
        }
    }
    let limits = if arguments.limits { limits(&compiled) } else { Vec::new() };
    output.report(&diagnostics);
    output.print_value(&Explained { paths, variables, limits }, arguments.json, text)?;
    if diagnostics.has_errors() { Err(CliError::Reported) } else { Ok(true) }
}

pub fn text(explained: &Explained, paint: Paint) -> String {
    let paths = explained.paths.iter().map(|explanation| one(explanation, paint));
    let variables = explained.variables.iter().map(|variable| one_variable(variable, paint));
    let limits = explained.limits.iter().map(|limit| one_limit(limit, paint));
    paths.chain(variables).chain(limits).collect::<Vec<String>>().join("\n")
}

fn one_limit(explained: &LimitExplanation, paint: Paint) -> String {
    let limit = explained.limit;
    let mut out = format!("{}: at most {}\n", paint.heading(limit.kind()), limit.value());
    let over = explained.over.iter().map(|other| ("over", format!("{}  [{}]", other.limit.value(), other.origin)));
    let lines =
        [("rule", explained.origin.to_string())].into_iter().chain(over).chain([("held", explained.held.into())]);
    out.extend(lines.map(|(title, text)| format!("  {} {text}\n", paint.aside(format!("{title:<7}")))));
    out
}

fn one_variable(variable: &VariableExplanation, paint: Paint) -> String {
    let name = escape_for_display(&variable.name.0);
    let fate = match variable.fate {
        Fate::Passed => paint.good("passed (the command gets your value)"),
        Fate::Dropped => paint.bad("unset (the command does not get it)"),
        Fate::Set => paint.good("set (the command gets a value of the policy)"),
    };
    let mut out = format!("{}: {fate}\n", paint.heading(&name));
    let mut line = |title: &str, text: String| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "  {} {text}", paint.aside(format!("{title:<7}")));
    };
    if !variable.caller_has_it && variable.fate != Fate::Set {
        line("now", "you do not have this variable: the answer says whether the command would get it".to_owned());
    }
    match &variable.preset {
        Some(by) => {
            line("rule", format!("{}  [@{}]", by.pattern, by.preset));
            let is_named = by.tool == "all" || by.source.starts_with(by.tool);
            let tool = if is_named { String::new() } else { format!("{}: ", by.tool) };
            line("source", format!("{tool}{}", by.source));
        }
        None => line("rule", variable.origin.to_string()),
    }
    if variable.fate == Fate::Dropped {
        line("open", format!("`pass = [\"{name}\"]` in `[env]`; in a project's file this needs consent"));
    }
    out
}

fn one(explanation: &Explanation, paint: Paint) -> String {
    let access = explanation.access;
    let mut out = format!(
        "{}: {} ({})\n",
        paint.heading(escape_for_display(&explanation.asked.0)),
        paint.access(access, access),
        access.meaning()
    );
    let state = match explanation.kind {
        None if access.shows_host() || access == EffectiveAccess::Exclude => ", where nothing exists",
        Some(HostKind::Symlink) => ", where the host has a symlink, which is not visible inside",
        _ => "",
    };
    // Only the first line has the title.
    let mut lines = |title: &str, lines: Vec<String>| {
        let titles = std::iter::once(title).chain(std::iter::repeat(""));
        let line = |(title, text)| format!("  {} {text}\n", paint.aside(format!("{title:<7}")));
        out.extend(titles.zip(lines).map(line));
    };
    lines("path", vec![format!("{}{state}", explanation.path)]);
    lines("through", explanation.links.iter().map(|link| format!("{link}, a symlink")).collect());
    lines("same as", explanation.same_as.iter().map(|other| format!("{other}, by another mount")).collect());
    lines("rule", vec![ruling(&explanation.rule)]);
    lines("over", losers(&explanation.losers));
    lines("mount", explanation.mounts.iter().map(step).collect());
    lines("pins", explanation.pins.iter().map(step).collect());
    if !explanation.below.is_empty() {
        let counts = explanation.below.iter().map(|Below { access, count }| format!("{count} {access}"));
        let them = if let [Below { count: 1, .. }] = explanation.below.as_slice() { "it" } else { "them" };
        let counts = counts.collect::<Vec<_>>().join(", ");
        lines("below", vec![format!("{counts}: `agent-sandbox show` has {them}")]);
    }
    let is_uniform = explanation.below.is_empty();
    lines("holds", explanation.durability.iter().map(|one| durability(one, is_uniform, paint)).collect());
    lines("open", explanation.open.iter().cloned().collect());
    out
}

/// The rule as written, the path that it applies to, and its origin.
fn ruling(rule: &RuleJson) -> String {
    let at = rule.at.to_string();
    let written = rule.text.as_ref().map(|text| escape_for_display(&text.0)).filter(|text| *text != at);
    let written = written.map_or_else(|| at.clone(), |text| format!("{text} → {at}"));
    let links: String = rule.links.iter().map(|link| format!(", through {link}")).collect();
    let by = if rule.by == Exactness::Glob { ", a pattern" } else { "" };
    format!("{} {written}  [{}{by}{links}]", rule.access, rule.origin)
}

/// One line for each rule that lost. Reasons are aligned, except behind very long rules.
fn losers(losers: &[Loser]) -> Vec<String> {
    const WIDEST: usize = 96;
    let rules: Vec<(String, &Loser)> = losers.iter().map(|loser| (ruling(&loser.rule), loser)).collect();
    let widths = rules.iter().map(|(rule, _)| rule.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
    rules.into_iter().map(|(rule, loser)| format!("{rule:<width$}  {}", loser.reason())).collect()
}

fn step(step: &MountStep) -> String {
    match step {
        MountStep::Bwrap(args) => display_args(&args.iter().map(|arg| arg.0.clone()).collect::<Vec<_>>()),
        MountStep::Guard(mount) => display_step(mount),
        MountStep::Link(link) => display_link(link),
    }
}

/// `is_uniform`: all paths below have the same access. Green means that the command cannot end the
/// protection, yellow that it may end it, red that the protection is incomplete.
fn durability(one: &Durability, is_uniform: bool, paint: Paint) -> String {
    let (good, bad) = (|text: String| paint.good(text).to_string(), |text: String| paint.bad(text).to_string());
    let warning = |text: String| paint.warning(text).to_string();
    match one {
        Durability::Directory { path } => {
            let all = if is_uniform { "all" } else { "all else" };
            good(format!("for {all} of {path}, and files created there later"))
        }
        Durability::File { when_replaced, .. } => {
            let then = match when_replaced {
                WhenReplaced::Exposed => "is not covered",
                WhenReplaced::ExposedAndReported => "is not covered (reported after the run)",
                WhenReplaced::CoveredAgain => "is open until the supervisor covers it again (reported after the run)",
                WhenReplaced::Closed => "can be read, not changed",
                WhenReplaced::Stale => "is not seen",
                WhenReplaced::Same => "is seen in the same way",
            };
            warning(format!("for the file that exists at the start: a file that replaces it on the host {then}"))
        }
        Durability::Pattern => {
            warning("by a pattern, which is expanded at the start: files that match later are not covered".to_owned())
        }
        Durability::HardLinked { names } => {
            bad(format!("the file has {names} names (hard links), and only this one is covered"))
        }
        Durability::Injected { from, placeholder } => {
            let from = from.as_ref().map_or("a text of the policy".to_owned(), ToString::to_string);
            let stands = if *placeholder { "; during the run there is a placeholder on the host" } else { "" };
            good(format!("in this run alone, where {from} is read{stands}"))
        }
        Durability::Placeholder { path } => good(format!("a placeholder at {path} keeps it from being created")),
        Durability::Created { path } => format!("{path} is created before the start"),
        Durability::Creatable { reported } => {
            let after = if *reported { "; reported after the run" } else { "" };
            warning(format!("nothing stops the command from creating it{after}"))
        }
        Durability::NotCreatable => good("the command cannot create it".to_owned()),
        Durability::Movable { directories } => {
            let directories = listed(directories.iter().map(ToString::to_string), "and");
            warning(format!(
                "the command can rename {directories}: the rule moves along, and the old path is not covered"
            ))
        }
        Durability::Pinned { keeps } => good(format!(
            "the directory stays where it is: it cannot be renamed or removed, because {keeps} lies in it"
        )),
        Durability::Generated => "a copy of the host's file with added lines, made for this sandbox at the \
                                  start"
            .to_owned(),
        Durability::Private => "until the sandbox ends".to_owned(),
    }
}
