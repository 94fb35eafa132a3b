//! Rules without the intended effect. Rules of built-in presets are not examined, because few
//! hosts have all the paths that they name.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::audit::entry::{entry, toml_string};
use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::plan::View;
use crate::compile::resolve::{self, Match};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::policy::{AbsPath, Access, Exactness, IfMissing, LayerKind, Origin, Rule, escape_for_display};

use super::LintFinding;
use super::rule_index::{self, RuleIndex};
use super::spelling::Spelling;
use super::visible;

/// Number of paths that a finding names.
const MOST_NAMED: usize = 3;

/// The rules in files, in presets that files define, and in flags.
pub(super) fn written(compiled: &Compiled) -> impl Iterator<Item = &Rule> {
    let policy = &compiled.policy;
    policy.rules.iter().map(Arc::as_ref).chain(&policy.sockets).filter(|rule| rule_index::is_written(rule))
}

pub(super) fn findings(host: &Host, compiled: &Compiled, findings: &mut Vec<LintFinding>) {
    let unused = findings.iter().filter(|found| found.diagnostic.code == Code::UnusedRule);
    let mut known: HashSet<Origin> = unused.filter_map(|found| found.diagnostic.origin.clone()).collect();
    let mut rules = Rules { host, index: RuleIndex::of(compiled), spelling: Spelling::new(host) };
    for rule in written(compiled) {
        if known.contains(&rule.origin) {
            continue;
        }
        for said in rules.findings(rule) {
            known.extend(said.origin.clone().filter(|_| said.code == Code::UnusedRule));
            findings.push(LintFinding::of(said));
        }
    }
}

/// Counts the rules in files and flags that apply to nothing here.
pub fn idle_rules(compiled: &Compiled) -> usize {
    let index = RuleIndex::of(compiled);
    written(compiled).filter(|rule| index.is_idle(rule)).count()
}

/// Reports flags that protect or open nothing, paths of the project's file that look misspelled,
/// and hidden tracked files, at which git commands fail. Skips a rule that `said` already mentions.
pub fn report_idle(host: &Host, compiled: &Compiled, said: &mut Diagnostics) {
    let mut known: HashSet<Origin> = said.iter().filter_map(|said| said.origin.clone()).collect();
    let mut rules = Rules { host, index: RuleIndex::of(compiled), spelling: Spelling::new(host) };
    for rule in written(compiled) {
        if !rules.index.is_idle(rule) || known.contains(&rule.origin) {
            continue;
        }
        let found = match (&rule.origin, rule.layer) {
            (Origin::Flag { .. }, _) => rules.idle_flag(rule),
            (_, LayerKind::Project) => rules.misspelled(rule),
            _ => None,
        };
        known.extend(found.is_some().then(|| rule.origin.clone()));
        said.extend(found);
    }
    visible::report_tracked(compiled, said);
}

/// A user's or machine's file serves many projects, so not every rule in it applies in each.
fn is_for_many(layer: LayerKind) -> bool {
    matches!(layer, LayerKind::System | LayerKind::User)
}

fn unused(host: &Host, index: &RuleIndex, rule: &Rule) -> Diagnostic {
    let written = escape_for_display(&rule.text);
    let is_pattern = resolve::looks_like_pattern(&rule.text);
    let (message, help) = if rule.shows_socket {
        (format!("no socket is at `{written}`"), "correct the path, or start the service before the sandbox")
    } else if is_pattern && only_links(host, index, rule) {
        (
            format!("`{written}` matches only symlinks, which `{}` does not follow", rule.access),
            "name their targets: a process that can write the folder of a link chooses its target",
        )
    } else if is_pattern {
        (
            format!("`{written}` matches nothing here"),
            "correct the pattern, or keep it for later: it applies when a sandbox starts and something matches",
        )
    } else if rule.access.is_protective() && !opens(index, rule) {
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
    let is_mistake = rule.access.is_protective() && !is_pattern && !rule.shows_socket && !opens(index, rule);
    Diagnostic::new(Code::UnusedRule, message)
        .at(&rule.origin)
        .help(help)
        .as_note(is_for_many(rule.layer) || !is_mistake)
}

/// Whether a `ro` for a missing path would open the path, because another rule hides the folder
/// around it.
fn opens(index: &RuleIndex, rule: &Rule) -> bool {
    let is_hidden = |path: &AbsPath| matches!(index.compiled.plan.view(path), View::Masked | View::Fresh);
    rule.access == Access::Ro && index.absent(rule).is_some_and(is_hidden)
}

struct Rules<'c> {
    host: &'c Host,
    index: RuleIndex<'c>,
    spelling: Spelling<'c>,
}

impl Rules<'_> {
    fn findings(&mut self, rule: &Rule) -> Vec<Diagnostic> {
        let mut said: Vec<Diagnostic> = glob_as_name(self.host, &self.index, rule).into_iter().collect();
        if self.index.is_idle(rule) {
            // `glob-as-name` has already said why a name with brackets matches nothing.
            if said.is_empty() {
                let found = self.misspelled(rule).or_else(|| unblocked(&self.index, rule));
                said.push(found.unwrap_or_else(|| unused(self.host, &self.index, rule)));
            }
        } else if let Some(found) = shadowed(&self.index, rule).or_else(|| redundant(&self.index, rule)) {
            said.push(found);
        }
        said
    }

    /// Reports a flag that applies to nothing. A flag that opens something is reported only if it
    /// names one path and the path is not writable anyway.
    fn idle_flag(&self, rule: &Rule) -> Option<Diagnostic> {
        let found = unused(self.host, &self.index, rule);
        if rule.access.is_protective() {
            let help = "correct it; to keep the command from creating it, use `if-missing = \"block\"`";
            return Some(found.help(help));
        }
        let path = self.index.absent(rule)?;
        (self.index.compiled.plan.view(path) != View::HostRw)
            .then(|| found.as_note(false).help("correct the path, or make it before the start"))
    }

    /// Reports an exact rule that protects nothing although a similar name exists.
    fn misspelled(&mut self, rule: &Rule) -> Option<Diagnostic> {
        let protects = rule.access.is_protective() && !opens(&self.index, rule);
        let path = self.index.absent(rule).filter(|_| protects)?;
        let meant = self.spelling.meant(path)?;
        let root = &self.index.compiled.layers.project.root;
        let in_project = meant.relative_to(root).map(|path| escape_for_display(path.as_os_str()));
        let shown = in_project.unwrap_or_else(|| meant.to_string());
        Some(unused(self.host, &self.index, rule).help(format!("did you mean `{shown}`?")))
    }
}

/// Whether the rule is a pattern that opens paths, and matched symlinks (SPEC G5).
fn only_links(host: &Host, index: &RuleIndex, rule: &Rule) -> bool {
    let is_link = |path: &&AbsPath| host.resolve(path.as_path()).is_ok_and(|found| found.links.contains(path));
    !rule.access.is_protective() && index.missing(rule).iter().any(is_link)
}

/// An exact rule for a missing path that the command can create.
fn unblocked(index: &RuleIndex, rule: &Rule) -> Option<Diagnostic> {
    let can_be_made = index.compiled.plan.view(index.absent(rule)?) == View::HostRw;
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

/// `None` if the rule won at the path of the match. Otherwise the decision there, if one exists.
fn lost<'c>(compiled: &'c Compiled, found: &Match) -> Option<Option<&'c Decision>> {
    match compiled.decisions.get(&found.path) {
        Some(decision)
            if *rule_index::written(&decision.origin) == found.rule.origin && decision.access == found.rule.access =>
        {
            None
        }
        // The rule is about the host's file, which an injection covers in this run.
        Some(decision) if decision.injected.is_some() => None,
        decision => Some(decision),
    }
}

fn shadowed(index: &RuleIndex, rule: &Rule) -> Option<Diagnostic> {
    let compiled = index.compiled;
    let mut notes = Vec::new();
    let (mut count, mut says_the_same) = (0, true);
    for found in index.matches(rule) {
        let winner = lost(compiled, found)?;
        count += 1;
        let governing = winner.or_else(|| compiled.decisions.governing(&found.path).map(|(_, decision)| decision));
        says_the_same &= governing.is_some_and(|decision| decision.access == rule.access);
        if notes.len() < MOST_NAMED {
            notes.push(match governing {
                Some(decision) => format!("`{}` is `{}` by {}", found.path, decision.access, decision.origin),
                None => format!("no rule decides about `{}`: it is `{}`", found.path, compiled.plan.view(&found.path)),
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
        (format!("`{written}` repeats other rules"), "remove it, or keep it in case the other rules are removed")
    } else {
        (
            format!("`{written}` decides nothing: other rules are stronger at every path that it names"),
            "remove it, or make it stronger: an exact path beats a glob, a later layer an earlier one, and within a layer the stricter access wins",
        )
    };
    let is_note = is_for_many(rule.layer) || says_the_same;
    Some(Diagnostic::new(Code::ShadowedRule, message).at(&rule.origin).notes(notes).help(help).as_note(is_note))
}

fn redundant(index: &RuleIndex, rule: &Rule) -> Option<Diagnostic> {
    let compiled = index.compiled;
    // Without the rule, another one would apply there.
    let beats = |found: &&Match| {
        let decision = compiled.decisions.get(&found.path);
        decision.is_some_and(|decision| decision.losers.iter().any(|loser| loser.rule.access != rule.access))
    };
    // A rule that creates, blocks or requires a path has this effect whatever the rules around it
    // are.
    let acts = rule.if_missing != IfMissing::Skip;
    if index.has_pin(rule) || rule.shows_socket || acts || index.matches(rule).iter().any(beats) {
        return None;
    }
    let won = index.matches(rule).iter().filter(|found| lost(compiled, found).is_none());
    let dropped = won.map(|found| index.redundant(&found.path));
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
fn glob_as_name(host: &Host, index: &RuleIndex, rule: &Rule) -> Option<Diagnostic> {
    let project = &index.compiled.layers.project;
    let (path, end) = resolve::named_like_pattern(host, &project.home, rule)?;
    let is_whole = end == rule.text.len();
    let others = index.matches(rule).iter().any(|found| found.path != path && found.exactness == Exactness::Glob);
    // `ambiguous-pattern` reports it.
    if is_whole && others {
        return None;
    }
    let escaped = entry(&path, project).map(|entry| format!(": {entry}")).unwrap_or_default();
    let written = escape_for_display(&rule.text);
    let (message, help) = if is_whole {
        (
            format!("`{written}` is used as the name of `{path}`, although it looks like a pattern"),
            format!("put `\\` before each of `* ? [ ] {{ }}` to mean that name and nothing else{escaped}"),
        )
    } else {
        (
            format!("`{written}` is a pattern that does not match the content of `{path}`"),
            format!("put `\\` before each of `* ? [ ] {{ }}` in its name if you mean that folder{escaped}"),
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
            Diagnostic::new(Code::UnusedPreset, format!("the preset `@{name}` is defined, but no layer names it"))
                .at(&definition.origin)
                .help(format!("turn it on with `presets = [\"@{name}\"]` in `[filesystem]`, or remove it"))
                .as_note(is_for_many(layer.kind)),
        ));
    }
}
