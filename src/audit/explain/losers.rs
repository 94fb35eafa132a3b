//! The rules that do not decide, each with the reason.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::decide::{Decision, IgnoreReason, IgnoredMatch};
use crate::compile::plan::{Mount, Purpose};
use crate::compile::resolve::{FutureMatch, Match};
use crate::policy::{AbsPath, Access, Exactness, IfMissing, LayerKind, Precedence, Rule, escape_for_display};

use super::super::rule_json::{RuleJson, is_winner};
use super::{AskedPath, Explainer};

/// A rule that does not decide, with the reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Loser {
    pub rule: RuleJson,
    pub why: LoserReason,
    /// The directory that the pattern does not enter, if `why` is `not-looked-into`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<AbsPath>,
}

impl Loser {
    fn new(rule: RuleJson, why: LoserReason) -> Self {
        Self { rule, why, directory: None }
    }

    pub fn reason(&self) -> String {
        match self.directory.as_ref().and_then(|directory| directory.file_name()) {
            Some(name) => format!("does not search `{}`", escape_for_display(name)),
            None => self.why.text().to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Why", rename_all = "kebab-case")]
pub enum LoserReason {
    /// The rule is about a folder farther up. It would govern without the winner.
    NextInLine,
    /// The rule is about a folder still farther up.
    LessSpecific,
    /// The rule is a pattern, and the winner names the path.
    Glob,
    /// An injection replaces the content at the path. Rules are about the host's file, so none
    /// applies to the injected content.
    Injection,
    /// Its layer comes before that of the winner.
    EarlierLayer,
    /// In the same layer the more restrictive rule wins.
    LessStrict,
    /// Both rules are equally strong and give the same access. Their spelling decides which one
    /// wins.
    Equal,
    /// The rule reached the path through a symlink or another mount, so it can only restrict
    /// access. It is no stricter than the winner.
    DoesNotTighten,
    /// The rule is a `ro` of a built-in preset. Such a rule keeps a path from being changed, and
    /// never shows a path that other rules exclude.
    PresetOnlyTightens,
    /// A pattern does not reach into an excluded directory.
    OutOfReach,
    /// A stronger pattern does not reach into the excluded directory, and also keeps this weaker
    /// rule from opening the path.
    BehindOneOutOfReach,
    /// Our own files stay at least read-only.
    OwnFile,
    /// git has exactly this content, so the preset leaves the file alone.
    LeftAlone,
    /// The rule would show the file without its credentials, but the file holds none.
    NoCredentials,
    /// Nothing is there.
    Missing,
    /// Nothing is there, and no placeholder is needed: the command cannot create the path, or a
    /// stronger rule opens it.
    NothingToBlock,
    /// Nothing is there, and the state folder cannot be written, so there is no placeholder and the
    /// command can create the path.
    CannotBlock,
    /// `rw` patterns do not follow symlinks.
    LinkNotFollowed,
    /// The pattern matches a symlink that leads to nothing.
    DanglingLink,
    /// Patterns are expanded at the start: a file that is created during a run is matched in the
    /// next one.
    ExpandedAtStart,
    /// The pattern does not enter a directory on the way, because it holds large amounts of
    /// third-party code.
    NotLookedInto,
}

impl LoserReason {
    pub fn text(self) -> &'static str {
        match self {
            LoserReason::NextInLine => "less specific; decides without that rule",
            LoserReason::LessSpecific => "less specific",
            LoserReason::Glob => "a pattern; the other names the path",
            LoserReason::Injection => "other content is injected there",
            LoserReason::EarlierLayer => "its layer comes earlier",
            LoserReason::LessStrict => "less strict, in the same layer",
            LoserReason::Equal => "equally strong, but later by its spelling",
            LoserReason::DoesNotTighten => "reached through a link or another mount, so it can only restrict",
            LoserReason::PresetOnlyTightens => "a preset's `ro` can only restrict",
            LoserReason::OutOfReach => "a pattern does not reach into excluded folders",
            LoserReason::BehindOneOutOfReach => "weaker than a pattern that is out of reach",
            LoserReason::OwnFile => "our own files stay read-only",
            LoserReason::LeftAlone => "left alone: git has this content",
            LoserReason::NoCredentials => "left alone: it holds no credentials",
            LoserReason::Missing => "nothing exists at its path",
            LoserReason::NothingToBlock => "nothing exists at its path, and nothing has to be blocked",
            LoserReason::CannotBlock => "cannot be blocked: the state folder cannot be written",
            LoserReason::LinkNotFollowed => "a `rw` pattern does not follow a symlink",
            LoserReason::DanglingLink => "the symlink leads to nothing",
            LoserReason::NotLookedInto => "the pattern does not search there",
            LoserReason::ExpandedAtStart => "would match, but patterns are expanded at the start",
        }
    }
}

impl Explainer<'_> {
    /// The rules that do not decide, from the path itself upwards.
    pub(super) fn losers(&self, about: &AskedPath) -> Vec<Loser> {
        let mut losers = self.at_links(about);
        let mut unmatched = self.unmatched(about.path);
        let stopped = self.patterns.stopped_before(about.path).into_iter();
        unmatched.extend(stopped.map(|(FutureMatch { rule, at, .. }, directory)| Loser {
            directory: Some(directory),
            ..Loser::new(by_glob(rule, &at), LoserReason::NotLookedInto)
        }));
        let winner_at = about.won.map(|(at, _)| at);
        // If other rules lost at the winner's own path, the strongest of them is next in line.
        let has_rivals = about.won.is_some_and(|(at, winner)| {
            !winner.losers.is_empty() || (winner.access == Access::Exclude && self.silences_preset(about.path, at))
        });
        let mut next = if has_rivals { LoserReason::LessSpecific } else { LoserReason::NextInLine };
        for at in about.path.ancestors() {
            losers.extend(unmatched.iter().filter(|loser| loser.rule.at == at).cloned());
            losers.extend(self.without_effect(&at));
            let Some(decision) = self.compiled.decisions.get(&at) else { continue };
            if winner_at == Some(&at) {
                losers.extend(decision.losers.iter().map(|found| self.outranked(found, decision)));
            } else {
                losers.push(Loser::new(RuleJson::of_decision(self.compiled, &at, decision), next));
                next = LoserReason::LessSpecific;
            }
        }
        losers.extend(self.base(about).map(|rule| Loser::new(rule, next)));
        losers
    }

    /// Whether the `exclude` at `at` makes a preset's `ro` ineffective (SPEC P12). Without the
    /// `exclude`, that `ro` would govern `path`.
    fn silences_preset(&self, path: &AbsPath, at: &AbsPath) -> bool {
        let only_tightens = |aside: &IgnoredMatch| aside.why == IgnoreReason::PresetOnlyTightens;
        let mut between = path.ancestors().take_while(|around| around.is_within(at));
        between.any(|around| self.compiled.decisions.ignored_at(&around).any(only_tightens))
    }

    /// Patterns that met a symlink on the way and did not follow it.
    fn at_links(&self, about: &AskedPath) -> Vec<Loser> {
        let met = self.compiled.resolution.missing.iter().filter(|(_, path)| about.links.contains(path));
        let loser = |(rule, path): &(Arc<Rule>, AbsPath)| {
            let opens = rule.access == Access::Rw;
            let why = if opens { LoserReason::LinkNotFollowed } else { LoserReason::DanglingLink };
            Loser::new(by_glob(rule, path), why)
        };
        met.map(loser).collect()
    }

    /// Rules about `at` that have no effect.
    fn without_effect(&self, at: &AbsPath) -> Vec<Loser> {
        let resolution = &self.compiled.resolution;
        let decision = self.compiled.decisions.get(at);
        let lost: &[Match] = decision.map_or(&[], |decision| &decision.losers);
        let mut losers = Vec::new();
        let left = resolution.left_alone.iter().filter(|(_, path)| path == at);
        losers.extend(left.map(|(rule, path)| Loser::new(by_glob(rule, path), LoserReason::LeftAlone)));
        let harmless = resolution.without_credentials.iter().filter(|found| found.path == *at);
        losers.extend(harmless.map(|found| Loser::new(RuleJson::of_match(found), LoserReason::NoCredentials)));
        let aside: Vec<&IgnoredMatch> = self.compiled.decisions.ignored_at(at).collect();
        let is_ranked = |found: &Match| lost.iter().any(|lost| is_same(lost, found));
        for IgnoredMatch { found, why, .. } in aside.iter().copied().filter(|aside| !is_ranked(&aside.found)) {
            let why = match why {
                IgnoreReason::DoesNotTighten => LoserReason::DoesNotTighten,
                IgnoreReason::PresetOnlyTightens => LoserReason::PresetOnlyTightens,
                IgnoreReason::OutOfReach => LoserReason::OutOfReach,
                IgnoreReason::BehindOneOutOfReach => LoserReason::BehindOneOutOfReach,
            };
            losers.push(Loser::new(RuleJson::of_match(found), why));
        }
        let is_counted = |found: &Match| {
            is_ranked(found)
                || decision.is_some_and(|decision| is_winner(found, decision))
                || aside.iter().any(|aside| is_same(&aside.found, found))
        };
        let here = || resolution.matches.iter().filter(|found| found.path == *at);
        let is_blocked = resolution.placeholders.iter().any(|placeholder| placeholder.path == *at);
        let why = |rule: &Rule| match rule.if_missing {
            _ if !is_blocked => LoserReason::OwnFile,
            IfMissing::Block if !resolution.can_journal => LoserReason::CannotBlock,
            IfMissing::Block => LoserReason::NothingToBlock,
            _ => LoserReason::Missing,
        };
        // Matches whose decision a later stage removed.
        let taken_back = here().filter(|found| !is_counted(found));
        losers.extend(taken_back.map(|found| Loser::new(RuleJson::of_match(found), why(&found.rule))));
        let is_match = |rule: &Arc<Rule>| here().any(|found| Arc::ptr_eq(&found.rule, rule));
        let absent = resolution.absent.iter().filter(|(rule, path)| path == at && !is_match(rule));
        let absent = absent.map(|(rule, path)| RuleJson::of_rule(rule, path, Exactness::Exact));
        losers.extend(absent.map(|rule| Loser::new(rule, LoserReason::Missing)));
        losers
    }

    /// Patterns that match `path`, although the walk found no match. The walk enters no directory
    /// that is excluded as a whole, and finds no path that is created later.
    fn unmatched(&self, path: &AbsPath) -> Vec<Loser> {
        let resolution = &self.compiled.resolution;
        let is_known = |rule: &Rule, at: &AbsPath| {
            let found = resolution.matches.iter().chain(&resolution.without_credentials);
            let mut found = found.map(|found| (&found.rule, &found.matched));
            let mut left = resolution.left_alone.iter().map(|(rule, path)| (rule, path));
            let is_this = |(by, matched): (&Arc<Rule>, &AbsPath)| matched == at && by.origin == rule.origin;
            found.any(is_this) || left.any(is_this)
        };
        let is_there = |at: &AbsPath| !matches!(self.host.kind(at), Ok(None));
        let matching = self.patterns.matching(path).into_iter().filter(|one| !is_known(one.rule, &one.at));
        let loser = |FutureMatch { rule, at, fixed_prefix }: FutureMatch| {
            let why = match self.compiled.decisions.reaches(fixed_prefix, &at) {
                false => LoserReason::OutOfReach,
                true if is_there(&at) => return None,
                true => LoserReason::ExpandedAtStart,
            };
            Some(Loser::new(by_glob(rule, &at), why))
        };
        matching.filter_map(loser).collect()
    }

    fn outranked(&self, found: &Match, winner: &Decision) -> Loser {
        let own = found.rule.precedence(found.exactness);
        let best = Precedence { exactness: winner.exactness, layer: winner.layer, access: winner.access };
        let is_out = || self.compiled.decisions.ignored_at(&found.path).any(|aside| is_same(&aside.found, found));
        let why = if winner.injected.is_some() {
            LoserReason::Injection
        } else if own.exactness < best.exactness {
            LoserReason::Glob
        } else if own.layer < best.layer {
            LoserReason::EarlierLayer
        } else if own.access < best.access {
            LoserReason::LessStrict
        } else if is_out() {
            LoserReason::OutOfReach
        } else {
            LoserReason::Equal
        };
        Loser::new(RuleJson::of_match(found), why)
    }

    /// The base mount around the path, which loses to the rule that decides. `None` if no rule
    /// decides.
    fn base(&self, about: &AskedPath) -> Option<RuleJson> {
        about.won?;
        let is_base = |mount: &Mount| !matches!(mount, Mount::RemountReadOnly | Mount::Directory { .. });
        let planned = self.compiled.plan.mounts.iter().rfind(|planned| {
            let is_around = about.path.is_within(&planned.path);
            planned.purpose == Purpose::Base && is_base(&planned.mount) && is_around
        })?;
        // A rule on `/` replaces the base.
        let is_decided = self.compiled.decisions.get(&planned.path).is_some();
        (!is_decided).then(|| RuleJson::of_base(&self.visible, planned))
    }
}

fn by_glob(rule: &Rule, at: &AbsPath) -> RuleJson {
    let by = if rule.layer == LayerKind::Base { Exactness::Base } else { Exactness::Glob };
    RuleJson::of_rule(rule, at, by)
}

fn is_same(one: &Match, other: &Match) -> bool {
    Arc::ptr_eq(&one.rule, &other.rule) && one.matched == other.matched && one.alias_of == other.alias_of
}
