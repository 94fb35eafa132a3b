//! Rules without the intended effect. Rules of built-in presets do not count: few hosts have all
//! the paths that they name.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::audit::entry::{entry, toml_string};
use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::plan::{Purpose, View};
use crate::compile::resolve::{self, Match};
use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::host::Host;
use crate::policy::{AbsPath, Access, Exactness, IfMissing, LayerKind, Origin, Rule, escape_for_display};

use super::LintFinding;

/// Any two shorter names differ by few letters.
const SHORTEST_MISSPELLED: usize = 3;

/// Number of paths that a finding names.
const MOST_NAMED: usize = 3;

/// The rules in files, in presets that files define, and in flags.
pub(super) fn written(compiled: &Compiled) -> impl Iterator<Item = &Rule> {
    let policy = &compiled.policy;
    policy.rules.iter().map(Arc::as_ref).chain(&policy.sockets).filter(|rule| rule.layer > LayerKind::Preset)
}

pub(super) fn findings(host: &Host, compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    for rule in written(compiled) {
        let is_known = |LintFinding { diagnostic, .. }: &LintFinding| {
            diagnostic.code == Code::UnusedRule && diagnostic.origin.as_ref() == Some(&rule.origin)
        };
        if !findings.iter().any(is_known) {
            findings.extend(of_rule(host, compiled, rule).into_iter().map(LintFinding::of));
        }
    }
}

/// Whether a rule applies to nothing here, and nothing is created or blocked for it either.
pub(super) fn is_idle(compiled: &Compiled, rule: &Rule) -> bool {
    let resolution = &compiled.resolution;
    let is_missing = resolution.missing.iter().any(|(missing, _)| is_same(missing, rule));
    let acts = matches!(rule.if_missing, IfMissing::Create | IfMissing::Block);
    is_missing && !acts && matches(compiled, rule).next().is_none()
}

/// A rule of a preset that two layers turn on exists twice, with one origin.
fn is_same(one: &Rule, other: &Rule) -> bool {
    one.access == other.access && one.origin == other.origin
}

fn matches<'c>(compiled: &'c Compiled, rule: &'c Rule) -> impl Iterator<Item = &'c Match> {
    let all = compiled.resolution.matches.iter();
    all.filter(move |found| found.alias_of.is_none() && is_same(&found.rule, rule))
}

fn of_rule(host: &Host, compiled: &Compiled, rule: &Rule) -> Vec<Diagnostic> {
    let mut said: Vec<Diagnostic> = glob_as_name(host, compiled, rule).into_iter().collect();
    if is_idle(compiled, rule) {
        // `glob-as-name` has already said why a name with brackets matches nothing.
        if said.is_empty() {
            let found = misspelled(host, compiled, rule).or_else(|| unblocked(compiled, rule));
            said.push(found.unwrap_or_else(|| unused(host, compiled, rule)));
        }
    } else if let Some(found) = shadowed(compiled, rule).or_else(|| redundant(compiled, rule)) {
        said.push(found);
    }
    said
}

/// A file of a user or a machine is for many projects, and need not apply as a whole in each.
fn is_for_many(layer: LayerKind) -> bool {
    matches!(layer, LayerKind::System | LayerKind::User)
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
    } else if rule.access.is_protective() && !opens(compiled, rule) {
        (format!("`{written}` does not exist, so nothing is protected"), "correct the path, or remove the rule")
    } else if rule.access.is_protective() {
        (format!("`{written}` does not exist, so nothing is shown"), "correct the path, or remove the rule")
    } else {
        (
            format!("`{written}` does not exist, so nothing is opened"),
            "correct the path, or add `if-missing = \"create\"` to have it made before the start",
        )
    };
    // Only a missing path that the rule should protect is a mistake.
    let is_mistake = rule.access.is_protective() && !is_pattern && !rule.shows_socket && !opens(compiled, rule);
    Diagnostic::new(Code::UnusedRule, message)
        .at(&rule.origin)
        .help(help)
        .as_note(is_for_many(rule.layer) || !is_mistake)
}

/// Whether a `ro` for a missing path would show it: in a folder that another rule hides.
fn opens(compiled: &Compiled, rule: &Rule) -> bool {
    let is_hidden = |path: &AbsPath| matches!(compiled.plan.view(path), View::Masked | View::Fresh);
    rule.access == Access::Ro && absent(compiled, rule).is_some_and(is_hidden)
}

/// A flag that applies to nothing. One that opens a path counts only where the path is not writable
/// anyway, and a pattern need not match.
pub(super) fn idle_flag(host: &Host, compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let found = unused(host, compiled, rule);
    if rule.access.is_protective() {
        let help = "correct it; to keep the command from creating it, use `if-missing = \"block\"`";
        return Some(found.help(help));
    }
    let path = absent(compiled, rule)?;
    (compiled.plan.view(path) != View::HostRw)
        .then(|| found.as_note(false).help("correct the path, or make it before the start"))
}

/// An exact rule that protects nothing, where a name that is nearly the same exists.
pub(super) fn misspelled(host: &Host, compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let protects = rule.access.is_protective() && !opens(compiled, rule);
    let meant = meant(host, absent(compiled, rule).filter(|_| protects)?)?;
    let root = &compiled.layers.project.root;
    let shown = meant.relative_to(root).map_or_else(|| meant.to_string(), |path| escape_for_display(path.as_os_str()));
    Some(unused(host, compiled, rule).help(format!("did you mean `{shown}`?")))
}

/// The path that exists and is spelled like `path`, which is missing.
fn meant(host: &Host, path: &AbsPath) -> Option<AbsPath> {
    let parent = path.parent()?;
    let folder = if host.kind(&parent).ok()?.is_some() { parent } else { meant(host, &parent)? };
    let name = path.file_name()?.to_str()?;
    // In a longer path only one of the folders need be misspelled.
    let child = folder.child(name);
    if host.kind(&child).ok()?.is_some() {
        return Some(child);
    }
    let entries = host.read_dir(&folder).ok()?;
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    let found = nearest(name, names).filter(|_| name.chars().count() >= SHORTEST_MISSPELLED)?;
    Some(folder.child(found))
}

/// The missing path that an exact rule names.
fn absent<'c>(compiled: &'c Compiled, rule: &Rule) -> Option<&'c AbsPath> {
    let mut absent = compiled.resolution.absent.iter();
    absent.find(|(absent, _)| is_same(absent, rule)).map(|(_, path)| path)
}

/// Whether a pattern that opens matched symlinks (SPEC G5).
fn only_links(host: &Host, compiled: &Compiled, rule: &Rule) -> bool {
    let missing = compiled.resolution.missing.iter().filter(|(missing, _)| is_same(missing, rule));
    let is_link = |path: &AbsPath| host.resolve(path.as_path()).is_ok_and(|found| found.links.contains(path));
    !rule.access.is_protective() && missing.map(|(_, path)| path).any(is_link)
}

/// An exact rule for a missing path that the command can create.
fn unblocked(compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let can_be_made = compiled.plan.view(absent(compiled, rule)?) == View::HostRw;
    if !rule.access.is_protective() || rule.shows_socket || !can_be_made {
        return None;
    }
    let written = escape_for_display(&rule.text);
    let message = format!("`{written}` does not exist, and nothing stops the command from creating it");
    let entry = toml_string(rule.text.to_str().unwrap_or(&written));
    let help = format!(
        "correct the path, or keep it from being created: {} = [{{ path = {entry}, if-missing = \"block\" }}]",
        rule.access
    );
    Some(Diagnostic::new(Code::UnblockedPath, message).at(&rule.origin).help(help).as_note(is_for_many(rule.layer)))
}

/// The decision at the path of a match, if the rule lost there.
fn lost<'c>(compiled: &'c Compiled, found: &Match) -> Option<Option<&'c Decision>> {
    match compiled.decisions.get(&found.path) {
        Some(decision) if is_by(&decision.origin, &found.rule) && decision.access == found.rule.access => None,
        // The rule is about the host's file, which an injection covers in this run.
        Some(decision) if decision.injected.is_some() => None,
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
    let is_note = is_for_many(rule.layer) || says_the_same;
    Some(Diagnostic::new(Code::ShadowedRule, message).at(&rule.origin).notes(notes).help(help).as_note(is_note))
}

fn redundant(compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let plan = &compiled.plan;
    // A pin keeps folders in their place for the rule, with or without a mount (SPEC B12).
    let is_pin = |purpose: &Purpose| matches!(purpose, Purpose::Pin { .. });
    let has_pin = plan.mounts.iter().any(|planned| is_pin(&planned.purpose) && is_by(&planned.because, rule));
    // Without the rule, another one would apply there.
    let beats = |found: &Match| {
        let decision = compiled.decisions.get(&found.path);
        decision.is_some_and(|decision| decision.losers.iter().any(|loser| loser.rule.access != rule.access))
    };
    // A rule that creates, blocks or demands a path has this effect with any rules around it.
    let acts = rule.if_missing != IfMissing::Skip;
    if has_pin || rule.shows_socket || acts || matches(compiled, rule).any(beats) {
        return None;
    }
    let won = matches(compiled, rule).filter(|found| lost(compiled, found).is_none());
    let dropped = won.map(|found| plan.redundant.iter().find(|dropped| dropped.path == found.path));
    let dropped: Vec<_> = dropped.collect::<Option<_>>()?;
    let first = dropped.first()?;
    let inherited = match first.inherited {
        View::HostRw => "writable",
        View::HostRo => "read-only",
        View::Masked | View::Redacted => "hidden",
        View::Injected => "injected",
        View::Fresh | View::Dev | View::Proc => "not shown",
    };
    let written = escape_for_display(&rule.text);
    let message = format!("`{written}` changes nothing: `{}` is {inherited} without it", first.path);
    let help = "remove it; it only matters if a surrounding rule changes";
    Some(Diagnostic::new(Code::RedundantRule, message).at(&rule.origin).help(help))
}

/// `app/[id]/**` does not match the content of a folder named `app/[id]`.
fn glob_as_name(host: &Host, compiled: &Compiled, rule: &Rule) -> Option<Diagnostic> {
    let (path, end) = resolve::named_like_pattern(host, &compiled.layers.project.home, rule)?;
    let is_whole = end == rule.text.len();
    let others = matches(compiled, rule).any(|found| found.path != path && found.exactness == Exactness::Glob);
    // `ambiguous-pattern` reports it.
    if is_whole && others {
        return None;
    }
    let escaped = entry(&path, &compiled.layers.project).map(|entry| format!(": {entry}")).unwrap_or_default();
    let written = escape_for_display(&rule.text);
    let (message, help) = if is_whole {
        (
            format!("`{written}` is taken as the name of `{path}`, though it reads as a pattern"),
            format!("to mean that name and nothing else, put `\\` before each of `* ? [ ] {{ }}`{escaped}"),
        )
    } else {
        (
            format!("`{written}` is a pattern, which does not mean what is in `{path}`"),
            format!("if you mean that folder, put `\\` before each of `* ? [ ] {{ }}` in its name{escaped}"),
        )
    };
    Some(Diagnostic::new(Code::GlobAsName, message).at(&rule.origin).help(help).as_note(is_whole))
}

/// Defined presets that neither a layer nor another preset names. `!@name` counts as a name.
pub(super) fn unused_presets(compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    let layers = &compiled.layers.layers;
    let definitions = || layers.iter().flat_map(|layer| layer.config.presets.iter().map(move |found| (layer, found)));
    let by_layers = layers.iter().flat_map(|layer| &layer.config.filesystem.presets);
    let by_presets = definitions().flat_map(|(_, (_, definition))| &definition.include);
    let named: BTreeSet<&str> =
        by_layers.chain(by_presets).map(|reference| reference.value.trim_start_matches(['!', '@'])).collect();
    for (layer, (name, definition)) in definitions().filter(|(_, (name, _))| !named.contains(name.as_str())) {
        findings.push(LintFinding::of(
            Diagnostic::new(Code::UnusedPreset, format!("the preset `@{name}` is defined, and nothing names it"))
                .at(&definition.origin)
                .help(format!("turn it on with `presets = [\"@{name}\"]` in `[filesystem]`, or remove it"))
                .as_note(is_for_many(layer.kind)),
        ));
    }
}
