//! A rule as an answer shows it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::plan::{PlannedMount, Purpose};
use crate::compile::resolve::Match;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::policy::rule::{Access, Exactness, LayerKind, Rule};

use super::effective_access::{Effective, Inside};
use super::origin_json::Whence;

const NOTHING: Origin = Origin::BuiltIn("the host is read-only");

/// A rule, or a part of every sandbox, at the path that it reached.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Ruling {
    /// What it says. Of what belongs to every sandbox, also what no rule can say.
    pub access: Effective,
    /// The path that it is about on this host: it holds from there on downwards.
    pub at: AbsPath,
    /// As written: a path or a pattern. Absent for what nobody wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Word>,
    /// Whether it named that path, or a pattern matched it.
    pub by: Exactness,
    pub layer: LayerKind,
    pub whence: Whence,
    /// The symlinks that led from what was written to `at`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<AbsPath>,
    #[serde(skip)]
    pub origin: Origin,
}

/// The decision that governs `path`, which holds no symlinks, unless something of every sandbox lies nearer.
pub(super) fn decided<'c>(
    compiled: &'c Compiled,
    inside: &Inside,
    path: &AbsPath,
) -> Option<(&'c AbsPath, &'c Decision)> {
    let (at, decision) = compiled.decisions.governing(path)?;
    let Some(planned) = inside.mount(path) else { return Some((at, decision)) };
    let point = planned.mount.path();
    let says_so = inside.gives(planned) == decision.access.into();
    let is_covered = at == point && planned.purpose == Purpose::Base && !says_so;
    (at.is_within(point) && !is_covered).then_some((at, decision))
}

impl Ruling {
    /// What decides at `path`, which holds no symlinks.
    pub fn governing(compiled: &Compiled, inside: &Inside, path: &AbsPath) -> Self {
        match (decided(compiled, inside, path), inside.mount(path)) {
            (Some((at, decision)), _) => Self::of_decision(compiled, at, decision),
            (None, Some(planned)) => Self::of_base(inside, planned),
            // Every plan mounts `/` first.
            (None, None) => Self::of_rule(&Rule::exact(Access::Ro, AbsPath::root(), LayerKind::Base, NOTHING), path),
        }
    }

    /// The rule that won at `at`.
    pub fn of_decision(compiled: &Compiled, at: &AbsPath, decision: &Decision) -> Self {
        let won = compiled.resolution.matches.iter().find(|found| found.path == *at && is_winner(found, decision));
        Self {
            access: decision.access.into(),
            at: at.clone(),
            text: won.and_then(|found| written(&found.rule)),
            by: decision.exactness,
            layer: decision.layer,
            whence: Whence::from(&decision.origin),
            links: decision.links.clone(),
            origin: decision.origin.clone(),
        }
    }

    pub fn of_match(found: &Match) -> Self {
        let links = found.links.clone();
        Self { by: found.exactness, links, ..Self::of_rule(&found.rule, &found.path) }
    }

    /// A rule that named `at` exactly.
    pub fn of_rule(rule: &Rule, at: &AbsPath) -> Self {
        Self {
            access: rule.access.into(),
            at: at.clone(),
            text: written(rule),
            by: Exactness::Exact,
            layer: rule.layer,
            whence: Whence::from(&rule.origin),
            links: Vec::new(),
            origin: rule.origin.clone(),
        }
    }

    /// A mount that no rule asked for.
    pub fn of_base(inside: &Inside, planned: &PlannedMount) -> Self {
        Self {
            access: inside.gives(planned),
            at: planned.mount.path().clone(),
            text: None,
            by: Exactness::Base,
            layer: LayerKind::Base,
            whence: Whence::from(&planned.because),
            links: Vec::new(),
            origin: planned.because.clone(),
        }
    }
}

/// Whether this is the match that the decision was made from.
pub(super) fn is_winner(found: &Match, decision: &Decision) -> bool {
    let origin = match (&decision.origin, &found.alias_of) {
        (Origin::Alias { of, origin }, Some(alias_of)) if *of == alias_of.path => origin,
        (Origin::Alias { .. }, _) | (_, Some(_)) => return false,
        (origin, None) => origin,
    };
    found.rule.access == decision.access && found.exactness == decision.exactness && found.rule.origin == *origin
}

/// Of a rule of our own the path is all there is.
fn written(rule: &Rule) -> Option<Word> {
    let is_written = !matches!(rule.origin, Origin::BuiltIn(_)) && rule.layer != LayerKind::Base;
    is_written.then(|| Word(rule.text.clone()))
}
