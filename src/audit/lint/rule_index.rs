//! The results of the stages by rule, for the rules in files and flags. A policy can have a
//! hundred thousand rules, so a question about one rule must not search through all the others.

use std::collections::{HashMap, HashSet};

use crate::compile::Compiled;
use crate::compile::plan::{Purpose, RedundantRule};
use crate::compile::resolve::Match;
use crate::policy::{AbsPath, Access, IfMissing, LayerKind, Origin, Rule};

/// A rule of a preset that two layers turn on exists twice, with one origin.
type RuleKey<'c> = (Access, &'c Origin);

pub(super) struct RuleIndex<'c> {
    pub(super) compiled: &'c Compiled,
    missing: HashMap<RuleKey<'c>, Vec<&'c AbsPath>>,
    absent: HashMap<RuleKey<'c>, &'c AbsPath>,
    matches: HashMap<RuleKey<'c>, Vec<&'c Match>>,
    pinned: HashSet<&'c Origin>,
    redundant: HashMap<&'c AbsPath, &'c RedundantRule>,
}

impl<'c> RuleIndex<'c> {
    pub(super) fn of(compiled: &'c Compiled) -> Self {
        let resolution = &compiled.resolution;
        let mut missing: HashMap<_, Vec<_>> = HashMap::new();
        for (rule, path) in resolution.missing.iter().filter(|(rule, _)| is_written(rule)) {
            missing.entry(key(rule)).or_default().push(path);
        }
        let mut matches: HashMap<_, Vec<_>> = HashMap::new();
        let written_matches = resolution.matches.iter().filter(|found| is_written(&found.rule));
        for found in written_matches.filter(|found| found.alias_of.is_none()) {
            matches.entry(key(&found.rule)).or_default().push(found);
        }
        // The first entry of a rule counts, so it is inserted last.
        let absent = resolution.absent.iter().rev().filter(|(rule, _)| is_written(rule));
        let absent = absent.map(|(rule, path)| (key(rule), path)).collect();
        let pins = compiled.plan.mounts.iter().filter(|planned| matches!(planned.purpose, Purpose::Pin { .. }));
        let pinned = pins.map(|planned| written(&planned.because)).collect();
        let redundant = compiled.plan.redundant.iter().rev().map(|dropped| (&dropped.path, dropped)).collect();
        Self { compiled, missing, absent, matches, pinned, redundant }
    }

    /// Whether a rule applies to nothing here, and nothing is created or blocked for it either.
    pub(super) fn is_idle(&self, rule: &Rule) -> bool {
        let acts = matches!(rule.if_missing, IfMissing::Create | IfMissing::Block);
        !acts && !self.missing(rule).is_empty() && self.matches(rule).is_empty()
    }

    /// The paths at which a rule found nothing.
    pub(super) fn missing<'s>(&'s self, rule: &'s Rule) -> &'s [&'c AbsPath] {
        self.missing.get(&key(rule)).map_or(&[], Vec::as_slice)
    }

    /// The missing path that an exact rule names.
    pub(super) fn absent(&self, rule: &Rule) -> Option<&'c AbsPath> {
        self.absent.get(&key(rule)).copied()
    }

    pub(super) fn matches<'s>(&'s self, rule: &'s Rule) -> &'s [&'c Match] {
        self.matches.get(&key(rule)).map_or(&[], Vec::as_slice)
    }

    /// Whether a pin keeps folders from being renamed for this rule (SPEC B12). The rule itself
    /// may need no mount.
    pub(super) fn has_pin(&self, rule: &Rule) -> bool {
        self.pinned.contains(&rule.origin)
    }

    /// The decision at `path` that needs no mount.
    pub(super) fn redundant(&self, path: &AbsPath) -> Option<&'c RedundantRule> {
        self.redundant.get(path).copied()
    }
}

/// Whether the rule is from a file, from a preset that a file defines, or from a flag.
pub(super) fn is_written(rule: &Rule) -> bool {
    rule.layer > LayerKind::Preset
}

fn key(rule: &Rule) -> RuleKey<'_> {
    (rule.access, &rule.origin)
}

/// The place where the rule was written: the origin without its `Alias` parts, which are about
/// other names of the rule's path.
pub(super) fn written(origin: &Origin) -> &Origin {
    match origin {
        Origin::Alias { origin, .. } => written(origin),
        origin => origin,
    }
}
