//! The fate of one variable of the environment.

use std::ffi::{OsStr, OsString};

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::environment::{self, Environment, Fate, VariableOutcome};
use crate::compile::presets::builtin;
use crate::compile::presets::data::{VariableEffect, VariableGroup};
use crate::diagnostic::Diagnostics;
use crate::host::Session;
use crate::policy::{Origin, Word};

/// Whether a variable is passed, unset or set, and why. Its value is not shown.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct VariableExplanation {
    pub name: Word,
    pub fate: Fate,
    /// Whether the caller has it. If not, `fate` says whether the command would get it.
    pub caller_has_it: bool,
    /// The entry or default that decides the fate.
    #[serde(rename = "whence")]
    pub origin: Origin,
    /// The entry of a preset that names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<NamedByPreset>,
}

/// The entry of a built-in preset that names a variable, and the source that supports the entry.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamedByPreset {
    pub preset: &'static str,
    /// A name, or a pattern for names.
    pub pattern: &'static str,
    pub tool: &'static str,
    /// A document, or an observed behaviour.
    pub source: &'static str,
}

/// Explains the variable `name` for this session.
pub fn variable(session: &Session, compiled: &Compiled, name: &OsStr) -> VariableExplanation {
    let of = |environment: &Environment| environment.outcomes.get(name).cloned();
    let mark = VariableOutcome { fate: Fate::Set, because: Origin::BuiltIn("tells programs that they are inside") };
    let mark = (name == environment::MARK).then_some(mark);
    let outcome = mark.or_else(|| of(&compiled.environment)).or_else(|| of(&with_variable(session, compiled, name)));
    let inherit = &compiled.policy.inherit;
    let outcome = outcome.unwrap_or(VariableOutcome { fate: Fate::Dropped, because: inherit.origin.clone() });
    VariableExplanation {
        name: Word(name.to_owned()),
        fate: outcome.fate,
        caller_has_it: session.env.contains_key(name),
        preset: named_by_preset(compiled, name, &outcome),
        origin: outcome.because,
    }
}

/// The environment that the command would get if the caller had the variable.
fn with_variable(session: &Session, compiled: &Compiled, name: &OsStr) -> Environment {
    let mut session = session.clone();
    session.env.insert(name.to_owned(), OsString::new());
    let Compiled { layers, policy, plan, .. } = compiled;
    environment::filter(&session, layers, policy, plan, &mut Diagnostics::default())
}

/// The entry that dropped the variable, or that kept a preset from dropping it.
fn named_by_preset(compiled: &Compiled, name: &OsStr, outcome: &VariableOutcome) -> Option<NamedByPreset> {
    let presets = compiled.policy.presets.keys().filter_map(|name| builtin::get(name));
    let mut groups = presets.flat_map(|preset| preset.variables.iter().map(move |group| (preset.name, group)));
    let is_meant = |group: &VariableGroup, pattern: &str| match (&outcome.because, outcome.fate, group.effect) {
        (Origin::Preset { path, .. }, Fate::Dropped, VariableEffect::Drop | VariableEffect::DropWord) => {
            *path == pattern
        }
        (_, Fate::Passed, VariableEffect::Keep) => name == pattern,
        _ => false,
    };
    groups.find_map(|(preset, group)| {
        let pattern = group.names.iter().find(|pattern| is_meant(group, pattern))?;
        Some(NamedByPreset { preset, pattern, tool: group.tool, source: group.source })
    })
}
