//! Why the other rules do not decide.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::decide::{Decision, IgnoreReason, IgnoredMatch};
use crate::compile::plan::{Mount, Purpose};
use crate::compile::resolve::{FutureMatch, Match};
use crate::policy::path::{AbsPath, escape_for_display};
use crate::policy::rule::{Access, Exactness, IfMissing, LayerKind, Precedence, Rule};

use super::super::rule_json::{Ruling, is_winner};
use super::{Explainer, Looked};

/// A rule that does not decide, and why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Loser {
    pub rule: Ruling,
    pub why: Why,
    /// The directory that it does not look into, where that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<AbsPath>,
}

impl Loser {
    fn new(rule: Ruling, why: Why) -> Self {
        Self { rule, why, directory: None }
    }

    /// The reason, for people.
    pub fn told(&self) -> String {
        let name = self.directory.as_ref().and_then(|directory| directory.file_name());
        match name {
            Some(name) => format!("does not look into `{}`", escape_for_display(name)),
            None => self.why.told().to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It is about a folder farther away. It would govern if the winner were not there.
    NextInLine,
    /// It is about a folder still farther away.
    LessSpecific,
    /// It is a pattern, and the winner names the path.
    Glob,
    /// Its layer comes before that of the winner.
    EarlierLayer,
    /// In the same layer the more restrictive rule wins.
    LessStrict,
    /// Both are equally strong and say the same. The spelling decides which one is the winner.
    Equal,
    /// It came through a symlink or another mount, so it only tightens, and it is no stricter than
    /// the winner.
    DoesNotTighten,
    /// It is a `ro` of a built-in preset. That keeps a path from being changed, and never shows one
    /// that other rules exclude.
    PresetOnlyTightens,
    /// A pattern does not reach into an excluded directory.
    OutOfReach,
    /// A stronger pattern does not reach into the excluded directory, and no weaker rule opens the
    /// path instead.
    BehindOneOutOfReach,
    /// Our own files stay at least read-only.
    OwnFile,
    /// Git has this very content, so the preset leaves the file alone.
    LeftAlone,
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
    /// Patterns are expanded at the start: what is made during a run is matched in the next one.
    ExpandedAtStart,
    /// The pattern does not look into a directory on the way: others' code, and too much of it.
    NotLookedInto,
}

impl Why {
    /// For people.
    pub fn told(self) -> &'static str {
        match self {
            Why::NextInLine => "less specific; governs if that rule goes",
            Why::LessSpecific => "less specific",
            Why::Glob => "a pattern; the other names the path",
            Why::EarlierLayer => "its layer comes earlier",
            Why::LessStrict => "less strict, in the same layer",
            Why::Equal => "equal, and later by spelling",
            Why::DoesNotTighten => "came by a link or another mount, and only tightens",
            Why::PresetOnlyTightens => "a preset's `ro` only tightens",
            Why::OutOfReach => "a pattern does not reach into what is excluded",
            Why::BehindOneOutOfReach => "weaker than a pattern that is out of reach",
            Why::OwnFile => "our own files stay read-only",
            Why::LeftAlone => "left alone: git has this content",
            Why::Missing => "nothing was there to apply to",
            Why::NothingToBlock => "nothing was there to apply to, and nothing to block",
            Why::CannotBlock => "cannot be blocked: the state folder cannot be written",
            Why::LinkNotFollowed => "a `rw` pattern does not follow a symlink",
            Why::DanglingLink => "the symlink leads to nothing",
            Why::NotLookedInto => "does not look there",
            Why::ExpandedAtStart => "would match, but patterns are expanded at the start",
        }
    }
}

impl Explainer<'_> {
    /// From the path itself upwards.
    pub(super) fn losers(&self, looked: &Looked) -> Vec<Loser> {
        let mut losers = self.at_links(looked);
        let mut unmatched = self.unmatched(looked.path);
        unmatched.extend(self.stopped_before(looked.path));
        let winner_at = looked.won.map(|(at, _)| at);
        // Without the winner, the best of these would win first.
        let has_rivals = looked.won.is_some_and(|(at, winner)| {
            !winner.losers.is_empty() || (winner.access == Access::Exclude && self.silences_preset(looked.path, at))
        });
        let mut next = if has_rivals { Why::LessSpecific } else { Why::NextInLine };
        for at in looked.path.ancestors() {
            losers.extend(unmatched.iter().filter(|loser| loser.rule.at == at).cloned());
            losers.extend(self.without_effect(&at));
            let Some(decision) = self.compiled.decisions.get(&at) else { continue };
            if winner_at == Some(&at) {
                losers.extend(decision.losers.iter().map(|found| self.outranked(found, decision)));
            } else {
                losers.push(Loser::new(Ruling::of_decision(self.compiled, &at, decision), next));
                next = Why::LessSpecific;
            }
        }
        losers.extend(self.base(looked).map(|rule| Loser::new(rule, next)));
        losers
    }

    /// Whether an `exclude` at `at` leaves a preset's `ro` no say (SPEC P12) that would govern
    /// `path` without it.
    fn silences_preset(&self, path: &AbsPath, at: &AbsPath) -> bool {
        let mut set_aside = path
            .ancestors()
            .take_while(|around| around.is_within(at))
            .flat_map(|around| self.compiled.decisions.ignored_at(&around).map(|aside| aside.why).collect::<Vec<_>>());
        set_aside.any(|why| why == IgnoreReason::PresetOnlyTightens)
    }

    /// Patterns that met a symlink on the way and did not follow it.
    fn at_links(&self, looked: &Looked) -> Vec<Loser> {
        let met = self.compiled.resolution.missing.iter().filter(|(_, path)| looked.links.contains(path));
        let why = |rule: &Rule| if rule.access == Access::Rw { Why::LinkNotFollowed } else { Why::DanglingLink };
        met.map(|(rule, path)| Loser::new(by_glob(rule, path), why(rule))).collect()
    }

    /// Rules about `at` that came to nothing.
    fn without_effect(&self, at: &AbsPath) -> Vec<Loser> {
        let resolution = &self.compiled.resolution;
        let decision = self.compiled.decisions.get(at);
        let lost: &[Match] = decision.map_or(&[], |decision| &decision.losers);
        let mut losers = Vec::new();
        let left = resolution.left_alone.iter().filter(|(_, path)| path == at);
        losers.extend(left.map(|(rule, path)| Loser::new(by_glob(rule, path), Why::LeftAlone)));
        let aside: Vec<&IgnoredMatch> = self.compiled.decisions.ignored_at(at).collect();
        let is_ranked = |found: &Match| lost.iter().any(|lost| is_same(lost, found));
        for IgnoredMatch { found, why, .. } in aside.iter().copied().filter(|aside| !is_ranked(&aside.found)) {
            losers.push(Loser::new(Ruling::of_match(found), set_aside(*why)));
        }
        // What was decided and then taken back.
        let is_counted = |found: &Match| {
            is_ranked(found)
                || decision.is_some_and(|decision| is_winner(found, decision))
                || aside.iter().any(|aside| is_same(&aside.found, found))
        };
        let taken_back: Vec<&Match> =
            resolution.matches.iter().filter(|found| found.path == *at && !is_counted(found)).collect();
        let is_blocked = resolution.placeholders.iter().any(|placeholder| placeholder.path == *at);
        let why = |rule: &Rule| match rule.if_missing {
            _ if !is_blocked => Why::OwnFile,
            IfMissing::Block if !resolution.can_journal => Why::CannotBlock,
            IfMissing::Block => Why::NothingToBlock,
            _ => Why::Missing,
        };
        losers.extend(taken_back.iter().map(|found| Loser::new(Ruling::of_match(found), why(&found.rule))));
        let is_match = |rule: &Arc<Rule>| {
            resolution.matches.iter().any(|found| found.path == *at && Arc::ptr_eq(&found.rule, rule))
        };
        let absent = resolution.absent.iter().filter(|(rule, path)| path == at && !is_match(rule));
        losers.extend(absent.map(|(rule, path)| Loser::new(Ruling::of_rule(rule, path), Why::Missing)));
        losers
    }

    /// Patterns that match here, although the walk did not: it enters no directory that is excluded
    /// as a whole, and finds no path that is created later.
    fn unmatched(&self, path: &AbsPath) -> Vec<Loser> {
        let resolution = &self.compiled.resolution;
        let is_known = |rule: &Rule, at: &AbsPath| {
            let mut found = resolution.matches.iter().map(|found| (&found.rule, &found.matched));
            let mut left = resolution.left_alone.iter().map(|(rule, path)| (rule, path));
            let is_this = |(by, matched): (&Arc<Rule>, &AbsPath)| matched == at && by.origin == rule.origin;
            found.any(is_this) || left.any(is_this)
        };
        let is_there = |at: &AbsPath| !matches!(self.host.kind(at), Ok(None));
        let matching = self.patterns.matching(path).into_iter().filter(|one| !is_known(one.rule, &one.at));
        let loser = |FutureMatch { rule, at, fixed_prefix }: FutureMatch| {
            let why = match self.compiled.decisions.reaches(fixed_prefix, &at) {
                false => Why::OutOfReach,
                true if is_there(&at) => return None,
                true => Why::ExpandedAtStart,
            };
            Some(Loser::new(by_glob(rule, &at), why))
        };
        matching.filter_map(loser).collect()
    }

    /// Patterns that do not look into a directory on the way.
    fn stopped_before(&self, path: &AbsPath) -> impl Iterator<Item = Loser> {
        let stopped = self.patterns.stopped_before(path).into_iter();
        stopped.map(|(FutureMatch { rule, at, .. }, directory)| Loser {
            directory: Some(directory),
            ..Loser::new(by_glob(rule, &at), Why::NotLookedInto)
        })
    }

    /// A rule at the path of the winner.
    fn outranked(&self, found: &Match, winner: &Decision) -> Loser {
        let own = found.rule.precedence(found.exactness);
        let best = Precedence { exactness: winner.exactness, layer: winner.layer, access: winner.access };
        let is_out = || self.compiled.decisions.ignored_at(&found.path).any(|aside| is_same(&aside.found, found));
        let why = if own.exactness < best.exactness {
            Why::Glob
        } else if own.layer < best.layer {
            Why::EarlierLayer
        } else if own.access < best.access {
            Why::LessStrict
        } else if is_out() {
            Why::OutOfReach
        } else {
            Why::Equal
        };
        Loser::new(Ruling::of_match(found), why)
    }

    /// What every sandbox has there, where a rule decides.
    fn base(&self, looked: &Looked) -> Option<Ruling> {
        looked.won?;
        let is_base = |mount: &Mount| !matches!(mount, Mount::RemountReadOnly { .. } | Mount::Directory { .. });
        let planned = self.compiled.plan.mounts.iter().rfind(|planned| {
            let is_around = looked.path.is_within(planned.mount.path());
            planned.purpose == Purpose::Base && is_base(&planned.mount) && is_around
        })?;
        // A rule on `/` says what is so anyway.
        let is_decided = self.compiled.decisions.get(planned.mount.path()).is_some();
        (!is_decided).then(|| Ruling::of_base(&self.inside, planned))
    }
}

fn by_glob(rule: &Rule, at: &AbsPath) -> Ruling {
    let by = if rule.layer == LayerKind::Base { Exactness::Base } else { Exactness::Glob };
    Ruling { by, ..Ruling::of_rule(rule, at) }
}

fn is_same(one: &Match, other: &Match) -> bool {
    Arc::ptr_eq(&one.rule, &other.rule) && one.matched == other.matched && one.alias_of == other.alias_of
}

fn set_aside(why: IgnoreReason) -> Why {
    match why {
        IgnoreReason::DoesNotTighten => Why::DoesNotTighten,
        IgnoreReason::PresetOnlyTightens => Why::PresetOnlyTightens,
        IgnoreReason::OutOfReach => Why::OutOfReach,
        IgnoreReason::BehindOneOutOfReach => Why::BehindOneOutOfReach,
    }
}
