//! The answer of `agent-sandbox show`: the whole effective policy.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::config::{BaseTree, Home, Tmp};
use crate::compile::environment::Fate;
use crate::compile::identity::GitIdentity;
use crate::compile::plan::Purpose;
use crate::compile::policy::Setting;
use crate::policy::{AbsPath, LayerKind, Limit, Origin, Protection, Word};

use super::effective_access::{EffectiveAccess, VisibleMounts};
use super::rule_json::RuleJson;

/// The answer to `agent-sandbox show`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Shown {
    pub project: ShownProject,
    /// The configuration files that were read, lowest layer first.
    pub files: Vec<ShownFile>,
    pub presets: Vec<ShownPreset>,
    /// Whether the command has the host's network.
    pub network: Setting<bool>,
    /// Whether the command can use the container engine.
    pub docker: Setting<bool>,
    /// Whether the command can make user namespaces.
    pub nested: Setting<bool>,
    pub tmp: Setting<Tmp>,
    /// The limits in force.
    pub limits: Vec<Setting<Limit>>,
    pub home: Setting<Home>,
    pub base: Setting<BaseTree>,
    pub identity: Setting<GitIdentity>,
    /// Whether the guard compares and locks the mounts.
    pub guard: bool,
    /// Protections without which nothing starts.
    pub require: Vec<RequiredProtection>,
    pub environment: ShownEnvironment,
    /// Paths that the run creates before the start and does not remove.
    pub created: Vec<AbsPath>,
    /// Each path at which another rule begins to decide, parents first. Any other path has the
    /// access of the nearest listed path above it.
    pub paths: Vec<ShownPath>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Project", rename_all = "kebab-case")]
pub struct ShownProject {
    pub root: AbsPath,
    pub working_directory: AbsPath,
    pub home: AbsPath,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "File", rename_all = "kebab-case")]
pub struct ShownFile {
    pub path: AbsPath,
    pub layer: LayerKind,
    /// The file lies above the project's root, so only its prohibitions count.
    pub forbids_only: bool,
}

/// A preset that is on, and the layer that turned it on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Preset")]
pub struct ShownPreset {
    pub name: String,
    pub layer: LayerKind,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Required")]
pub struct RequiredProtection {
    pub protection: Protection,
    #[serde(rename = "whence")]
    pub origin: Origin,
}

/// The variables that the command gets: their names, and no values.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Variables")]
pub struct ShownEnvironment {
    /// Whether the command gets variables that no entry names.
    pub inherit: Setting<bool>,
    /// The variables that keep the caller's value.
    pub passed: Vec<Word>,
    /// The variables of the caller that the command does not get.
    pub unset: Vec<Variable>,
    /// The variables that the policy sets.
    pub set: Vec<Variable>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Variable {
    pub name: Word,
    #[serde(rename = "whence")]
    pub origin: Origin,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename = "Node", rename_all = "kebab-case")]
pub struct ShownPath {
    pub path: AbsPath,
    /// The access of a command there.
    pub access: EffectiveAccess,
    /// The rule that decides the access.
    pub rule: RuleJson,
    /// The directory cannot be renamed, because this path lies in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_for: Option<AbsPath>,
    /// The path does not exist. A placeholder keeps the command from creating it during the run.
    pub placeholder: bool,
}

pub fn show(compiled: &Compiled) -> Shown {
    let project = &compiled.layers.project;
    let policy = &compiled.policy;
    let files = compiled.layers.layers.iter().filter_map(|layer| {
        let path = layer.file.clone()?;
        Some(ShownFile { path, layer: layer.kind, forbids_only: layer.protective_only })
    });
    let presets = policy.presets.iter().map(|(name, layer)| ShownPreset { name: name.clone(), layer: *layer });
    let require = policy.require.iter();
    let require =
        require.map(|(protection, origin)| RequiredProtection { protection: *protection, origin: origin.clone() });
    let new_files = compiled.resolution.new_files.iter().map(|file| file.path.clone());
    let (root, working_directory, home) = (project.root.clone(), project.cwd.clone(), project.home.clone());
    let with = |fate: Fate| compiled.environment.with(fate).map(|(name, origin)| (Word(name.to_owned()), origin));
    let variables = |fate| with(fate).map(|(name, origin)| Variable { name, origin: origin.clone() }).collect();
    let environment = ShownEnvironment {
        inherit: policy.inherit.clone(),
        passed: with(Fate::Passed).map(|(name, _)| name).collect(),
        unset: variables(Fate::Dropped),
        set: variables(Fate::Set),
    };
    Shown {
        project: ShownProject { root, working_directory, home },
        files: files.collect(),
        presets: presets.collect(),
        network: policy.network.clone(),
        docker: policy.docker.clone(),
        nested: policy.nested.clone(),
        tmp: policy.tmp.clone(),
        limits: policy.limits.values().cloned().collect(),
        home: policy.home.clone(),
        base: policy.base.clone(),
        identity: policy.identity.clone(),
        guard: compiled.guard,
        require: require.collect(),
        environment,
        created: compiled.created().into_iter().chain(new_files).collect(),
        paths: paths(compiled),
    }
}

/// All visible mounts, decisions, pins and placeholders.
fn paths(compiled: &Compiled) -> Vec<ShownPath> {
    let mounts = VisibleMounts::of(&compiled.plan);
    let pins = compiled.plan.mounts.iter().filter_map(|planned| match &planned.purpose {
        Purpose::Pin { keeps } => Some((&planned.path, keeps)),
        Purpose::Base | Purpose::Own | Purpose::Rule(_) | Purpose::Injection => None,
    });
    let pins: BTreeMap<&AbsPath, &AbsPath> = pins.collect();
    let placeholders: BTreeSet<&AbsPath> = compiled.plan.placeholders.iter().map(|one| &one.path).collect();
    let decided = compiled.decisions.iter().map(|(path, _)| path);
    let paths: BTreeSet<&AbsPath> =
        mounts.points().chain(decided).chain(pins.keys().copied()).chain(placeholders.iter().copied()).collect();
    let shown = |path: &AbsPath| ShownPath {
        path: path.clone(),
        access: mounts.access(path),
        rule: RuleJson::governing(compiled, &mounts, path),
        pinned_for: pins.get(path).map(|keeps| (*keeps).clone()),
        placeholder: placeholders.contains(path),
    };
    paths.into_iter().map(shown).collect()
}
