//! Rules that do not do what somebody wrote them for. Only those of people: what a built-in preset names, few hosts have all of.

use std::sync::Arc;

use crate::audit::entry::{entry, toml_string};
use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::plan::{Purpose, View};
use crate::compile::resolve::{self, Match};
use crate::diagnostic::{Code, Diagnostic};
use crate::host::Host;
use crate::policy::origin::Origin;
use crate::policy::path::{AbsPath, escape_for_display};
use crate::policy::rule::{Exactness, IfMissing, LayerKind, Rule};

use super::Finding;

/// How many paths a finding names.
const MOST_NAMED: usize = 3;

/// The rules that people wrote: in a file, in a preset of their own, as a flag.
pub(super) fn written(compiled: &Compiled) -> impl Iterator<Item = &Rule> {
    let policy = &compiled.policy;
    policy.rules.iter().map(Arc::as_ref).chain(&policy.sockets).filter(|rule| rule.layer > LayerKind::Preset)
}

pub(super) fn findings(host: &Host, compiled: &Compiled, findings: &mut Vec<Finding>) {
    for rule in written(compiled) {
        let is_said = |found: &Finding| {
            found.diagnostic.code == Code::UnusedRule && found.diagnostic.origin.as_ref() == Some(&rule.origin)
        };
        if findings.iter().any(is_said) {
            continue;
        }
        let found = of_rule(host, compiled, rule);
        findings.extend(found.into_iter().map(Finding::of));
    }
}

/// Whether a rule applies to nothing here although it should: nothing is created or blocked for it either.
pub(super) fn is_idle(compiled: &Compiled, rule: &Rule) -> bool {
    let resolution = &compiled.resolution;
    let is_missing = resolution.missing.iter().any(|(missing, _)| is_same(missing, rule));
    let acts = matches!(rule.if_missing, IfMissing::Create | IfMissing::Block);
    is_missing && !acts && matches(compiled, rule).next().is_none()
}

/// A rule of a preset that is on in two ways is there twice, with one origin.
fn is_same(one: &Rule, other: &Rule) -> bool {
    one.access == other.access && one.origin == other.origin
}

/// What it applies to, by the names that were written.
fn matches<'c>(compiled: &'c Compiled, rule: &'c Rule) -> impl Iterator<Item = &'c Match> {
    let all = compiled.resolution.matches.iter();
    all.filter(move |found| found.alias_of.is_none() && is_same(&found.rule, rule))
}

fn of_rule(host: &Host, compiled: &Compiled, rule: &Rule) -> Vec<Diagnostic> {
    let mut said: Vec<Diagnostic> = glob_as_name(host, compiled, rule).into_iter().collect();
    if is_idle(compiled, rule) {
        // Who wrote a name with brackets knows now why it matches nothing.
        if said.is_empty() {
            said.push(unblocked(compiled, rule).unwrap_or_else(|| unused(host, compiled, rule)));
        }
    } else if let Some(found) = shadowed(compiled, rule).or_else(|| redundant(compiled, rule)) {
        said.push(found);
    }
    said
}

/// Files of a user or a machine are for many projects, and not every rule can count in each.
fn is_for_many(rule: &Rule) -> bool {
    matches!(rule.layer, LayerKind::System | LayerKind::User)
}

fn unused(host: &Host, compiled: &Compiled, rule: &Rule) -> Diagnostic {
    let written = escape_for_display(&rule.text);
    let is_pattern = resolve::looks_like_pattern(&rule.text);
    let (message, help) = if rule.shows_socket {
        (format!("no socket is at `{written}`"), "correct the path, or start the service before the sandbox")
    } else if is_pattern && only_links(host, compiled, rule) {
        (
            format!("`{written}` matches symlinks alone, which `{}` does not follow", rule.access),
            "name what they lead to: whoever can write the folder of a link chooses its target",
        )
    } else if is_pattern {
        (
            format!("`{written}` matches nothing here"),
            "correct the pattern, or keep it for later: it counts as soon as something matches when a sandbox starts",
        )
    } else if rule.access.is_protective() {
        (format!("`{written}` does not exist, so nothing is protected"), "correct the path, or remove the rule")
    } else {
        (
            format!("`{written}` does not exist, so nothing is opened"),
            "correct the path, or add `if-missing = \"create\"` to have it made before the start",
        )
    };
    // Only a name that is not there, and that somebody counts on, has to be mended.
    let counts_on_it = rule.access.is_protective() && !is_pattern && !rule.shows_socket;
    Diagnostic::new(Code::UnusedRule, message).at(&rule.origin).help(help).as_note(is_for_many(rule) || !counts_on_it)
}

/// A flag that applies to nothing. One that opens is missed only where what the command makes there would not reach the host, and a pattern need not match.
pub(super) fn idle_flag(host: &Host, compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let found = unused(host, compiled, rule);
    if rule.access.is_protective() {
        let help =
            "correct it; what comes to be there during the run is blocked by a rule with `if-missing = \"block\"`";
        return Some(found.help(help));
    }
    let path = absent(compiled, rule)?;
    (compiled.plan.view(path) != View::HostRw)
        .then(|| found.as_note(false).help("correct the path, or make it before the start"))
}

/// Where the thing would be that an exact rule names.
fn absent<'c>(compiled: &'c Compiled, rule: &Rule) -> Option<&'c AbsPath> {
    let mut absent = compiled.resolution.absent.iter();
    absent.find(|(absent, _)| is_same(absent, rule)).map(|(_, path)| path)
}

/// Whether a pattern that opens came upon symlinks (SPEC G5).
fn only_links(host: &Host, compiled: &Compiled, rule: &Rule) -> bool {
    let missing = compiled.resolution.missing.iter().filter(|(missing, _)| is_same(missing, rule));
    let is_link = |path: &AbsPath| host.resolve(path.as_path()).is_ok_and(|found| found.links.contains(path));
    !rule.access.is_protective() && missing.into_iter().any(|(_, path)| is_link(path))
}

/// An exact rule for something that the command can make itself.
fn unblocked(compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let can_be_made = compiled.plan.view(absent(compiled, rule)?) == View::HostRw;
    if !rule.access.is_protective() || rule.shows_socket || !can_be_made {
        return None;
    }
    let written = escape_for_display(&rule.text);
    let entry = toml_string(rule.text.to_str().unwrap_or(&written));
    Some(
        Diagnostic::new(
            Code::UnblockedPath,
            format!("`{written}` does not exist, and nothing stops the command from creating it"),
        )
        .at(&rule.origin)
        .help(format!(
            "correct the path, or keep it from being created: {} = [{{ path = {entry}, if-missing = \"block\" }}]",
            rule.access
        ))
        .as_note(is_for_many(rule)),
    )
}

/// The decision at what a rule matched, if the rule lost there.
fn lost<'c>(compiled: &'c Compiled, found: &Match) -> Option<Option<&'c Decision>> {
    match compiled.decisions.get(&found.path) {
        Some(decision) if is_by(&decision.origin, &found.rule) && decision.access == found.rule.access => None,
        decision => Some(decision),
    }
}

fn is_by(origin: &Origin, rule: &Rule) -> bool {
    match origin {
        Origin::Alias { origin, .. } => is_by(origin, rule),
        origin => *origin == rule.origin,
    }
}

fn shadowed(compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let mut notes = Vec::new();
    let (mut count, mut says_the_same) = (0, true);
    for found in matches(compiled, rule) {
        let winner = lost(compiled, found)?;
        count += 1;
        let governing = winner.or_else(|| compiled.decisions.governing(&found.path).map(|(_, decision)| decision));
        says_the_same &= governing.is_some_and(|decision| decision.access == rule.access);
        if notes.len() < MOST_NAMED {
            notes.push(match governing {
                Some(decision) => format!("`{}` is `{}` by {}", found.path, decision.access, decision.origin),
                None => format!("`{}` is `{}` by no rule", found.path, compiled.plan.view(&found.path)),
            });
        }
    }
    if count == 0 {
        return None;
    }
    if count > notes.len() {
        notes.push(format!("… and {} more", count - notes.len()));
    }
    let written = escape_for_display(&rule.text);
    let (message, help) = if says_the_same {
        (format!("`{written}` says what other rules say already"), "remove it, unless it is to stay when the others go")
    } else {
        (
            format!("`{written}` decides nothing: other rules are stronger at every path that it names"),
            "remove it, or make it stronger: an exact path beats a glob, a later layer an earlier one, and within a layer the stricter access wins",
        )
    };
    Some(
        Diagnostic::new(Code::ShadowedRule, message)
            .at(&rule.origin)
            .notes(notes)
            .help(help)
            .as_note(is_for_many(rule) || says_the_same),
    )
}

fn redundant(compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let plan = &compiled.plan;
    // A pin keeps folders in their place for the rule's sake, whether there is a mount for it or not (SPEC B12).
    let is_pin = |purpose: &Purpose| matches!(purpose, Purpose::Pin { .. });
    if plan.mounts.iter().any(|planned| is_pin(&planned.purpose) && is_by(&planned.because, rule)) {
        return None;
    }
    // Without it another rule would count there, or the socket would be hidden.
    let beats = |found: &Match| {
        let decision = compiled.decisions.get(&found.path);
        decision.is_some_and(|decision| decision.losers.iter().any(|loser| loser.rule.access != rule.access))
    };
    // One that creates, blocks or demands does so whatever its surroundings are.
    let acts = rule.if_missing != IfMissing::Skip;
    if rule.shows_socket || acts || matches(compiled, rule).any(beats) {
        return None;
    }
    let is_dropped = |path: &AbsPath| plan.redundant.iter().find(|dropped| dropped.path == *path);
    let mut already = None;
    for found in matches(compiled, rule).filter(|found| lost(compiled, found).is_none()) {
        already = already.or(Some(is_dropped(&found.path)?));
        is_dropped(&found.path)?;
    }
    let dropped = already?;
    let message = format!(
        "`{}` changes nothing: `{}` is {} without it",
        escape_for_display(&rule.text),
        dropped.path,
        match dropped.inherited {
            View::HostRw => "writable",
            View::HostRo => "read-only",
            View::Masked => "hidden",
            View::Fresh | View::Dev | View::Proc => "not shown",
        }
    );
    Some(
        Diagnostic::new(Code::RedundantRule, message)
            .at(&rule.origin)
            .help("remove it, or keep it for the day when something around it is opened or closed"),
    )
}

/// `app/[id]/**` does not mean what is in the folder `app/[id]`.
fn glob_as_name(host: &Host, compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let (path, end) = resolve::named_like_pattern(host, &compiled.layers.project.home, rule)?;
    let is_whole = end == rule.text.len();
    let others = matches(compiled, rule).any(|found| found.path != path && found.exactness == Exactness::Glob);
    if is_whole && others {
        // `ambiguous-pattern` says so.
        return None;
    }
    let entry = entry(&path, &compiled.layers.project);
    let escaped = entry.map(|entry| format!(": {entry}")).unwrap_or_default();
    let (message, help) = if is_whole {
        (
            format!(
                "`{}` is taken as the name of `{path}`, though it reads as a pattern",
                escape_for_display(&rule.text)
            ),
            format!("to mean that name and nothing else, put `\\` before each of `* ? [ ] {{ }}`{escaped}"),
        )
    } else {
        (
            format!("`{}` is a pattern, which does not mean what is in `{path}`", escape_for_display(&rule.text)),
            format!("if you mean that folder, put `\\` before each of `* ? [ ] {{ }}` in its name{escaped}"),
        )
    };
    Some(Diagnostic::new(Code::GlobAsName, message).at(&rule.origin).help(help).as_note(is_whole))
}
