//! Rules in JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::plan::{PlannedMount, Purpose};
use crate::compile::resolve::Match;
use crate::policy::{AbsPath, Exactness, LayerKind, Origin, Rule, Word};

use super::effective_access::{EffectiveAccess, VisibleMounts};

const NOTHING: Origin = Origin::BuiltIn("the host is read-only");

/// A rule, or a part of every sandbox, at the path that it reached.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Ruling")]
pub struct RuleJson {
    /// The access that the rule gives. Mounts of every sandbox also have kinds of access that no
    /// rule can give.
    pub access: EffectiveAccess,
    /// The path on this host that the rule is about. The rule applies to it and to everything
    /// below.
    pub at: AbsPath,
    /// The rule as written: a path or a pattern. Absent for a rule that no user wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Word>,
    /// Whether the rule named the path, or a pattern matched it.
    pub by: Exactness,
    pub layer: LayerKind,
    #[serde(rename = "whence")]
    pub origin: Origin,
    /// The symlinks that led from the written path to `at`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<AbsPath>,
}

/// The decision that governs `path`, unless a mount that every sandbox has lies nearer. `path`
/// contains no symlinks.
pub(super) fn decided<'c>(
    compiled: &'c Compiled,
    mounts: &VisibleMounts,
    path: &AbsPath,
) -> Option<(&'c AbsPath, &'c Decision)> {
    let (at, decision) = compiled.decisions.governing(path)?;
    let Some(planned) = mounts.showing(path) else { return Some((at, decision)) };
    let point = &planned.path;
    let says_so = mounts.access_by(planned) == EffectiveAccess::of_decision(at, decision);
    let is_covered = at == point && planned.purpose == Purpose::Base && !says_so;
    (at.is_within(point) && !is_covered).then_some((at, decision))
}

impl RuleJson {
    /// The rule that decides at `path`, which holds no symlinks.
    pub(super) fn governing(compiled: &Compiled, mounts: &VisibleMounts, path: &AbsPath) -> Self {
        match (decided(compiled, mounts, path), mounts.showing(path)) {
            (Some((at, decision)), _) => Self::of_decision(compiled, at, decision),
            (None, Some(planned)) => Self::of_base(mounts, planned),
            // Every plan mounts `/` first.
            (None, None) => Self::unwritten(EffectiveAccess::Ro, path, &NOTHING),
        }
    }

    pub(super) fn of_decision(compiled: &Compiled, at: &AbsPath, decision: &Decision) -> Self {
        let is_private = compiled.plan.links.iter().any(|link| link.path == *at);
        let access = match decision {
            Decision { injected: Some(_), .. } => EffectiveAccess::Injected,
            _ if is_private => EffectiveAccess::PrivateFile,
            _ => EffectiveAccess::of_decision(at, decision),
        };
        Self {
            text: written(&decision.rule),
            by: decision.exactness,
            layer: decision.layer,
            links: decision.links.clone(),
            ..Self::unwritten(access, at, &decision.origin)
        }
    }

    pub(super) fn of_match(found: &Match) -> Self {
        Self { links: found.links.clone(), ..Self::of_rule(&found.rule, &found.path, found.exactness) }
    }

    pub(super) fn of_rule(rule: &Rule, at: &AbsPath, by: Exactness) -> Self {
        let access = match rule {
            Rule { injected: Some(_), .. } => EffectiveAccess::Injected,
            Rule { private: Some(_), .. } => EffectiveAccess::PrivateFile,
            _ => rule.access.into(),
        };
        let unwritten = Self::unwritten(access, at, &rule.origin);
        Self { text: written(rule), by, layer: rule.layer, ..unwritten }
    }

    /// A mount that no rule asked for.
    pub(super) fn of_base(mounts: &VisibleMounts, planned: &PlannedMount) -> Self {
        Self::unwritten(mounts.access_by(planned), &planned.path, &planned.because)
    }

    fn unwritten(access: EffectiveAccess, at: &AbsPath, origin: &Origin) -> Self {
        let (by, layer, origin) = (Exactness::Base, LayerKind::Base, origin.clone());
        Self { access, at: at.clone(), text: None, by, layer, origin, links: Vec::new() }
    }
}

pub(super) fn is_winner(found: &Match, decision: &Decision) -> bool {
    let origin = match (&decision.origin, &found.alias_of) {
        (Origin::Alias { of, origin }, Some(alias_of)) if *of == alias_of.path => origin,
        (Origin::Alias { .. }, _) | (_, Some(_)) => return false,
        (origin, None) => origin,
    };
    found.rule.access == decision.access && found.exactness == decision.exactness && found.rule.origin == *origin
}

/// The text of a rule that a user or a preset wrote. `None` for agent-sandbox's own rules.
fn written(rule: &Rule) -> Option<Word> {
    let is_written = !matches!(rule.origin, Origin::BuiltIn(_)) && rule.layer != LayerKind::Base;
    is_written.then(|| Word(rule.text.clone()))
}
