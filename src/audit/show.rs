//! `agent-sandbox show`: the whole effective policy.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::config::Tmp;
use crate::compile::environment::Fate;
use crate::compile::plan::Purpose;
use crate::compile::policy::Setting;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::policy::rule::{LayerKind, Protection};

use super::effective_access::{Effective, Inside};
use super::origin_json::Whence;
use super::rule_json::Ruling;

/// The answer to `agent-sandbox show`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Shown {
    pub project: Project,
    /// The configuration files that were read, lowest layer first.
    pub files: Vec<File>,
    pub presets: Vec<Preset>,
    /// Whether the command has the host's network.
    pub network: Value<bool>,
    /// Whether the command can use the container engine.
    pub docker: Value<bool>,
    /// Whether the command can make user namespaces.
    pub nested: Value<bool>,
    pub tmp: Value<Tmp>,
    /// Whether the guard compares and locks the mounts.
    pub guard: bool,
    /// Protections without which nothing starts.
    pub require: Vec<Required>,
    pub environment: Variables,
    /// What is created before the start, and stays.
    pub created: Vec<AbsPath>,
    /// Each path from which on something else is decided, parents first. What lies between has the access of the nearest
    /// path around it.
    pub paths: Vec<Node>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Project {
    pub root: AbsPath,
    pub working_directory: AbsPath,
    pub home: AbsPath,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct File {
    pub path: AbsPath,
    pub layer: LayerKind,
    /// It lies above the project's root, and only what it forbids counts.
    pub forbids_only: bool,
}

/// A preset that is on, and the layer that turned it on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Preset {
    pub name: String,
    pub layer: LayerKind,
}

/// A setting, and who decided it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Setting_of_{T}")]
#[serde(rename_all = "kebab-case")]
pub struct Value<T> {
    pub value: T,
    pub layer: LayerKind,
    pub whence: Whence,
    #[serde(skip)]
    pub origin: Origin,
}

impl<T: Copy> From<&Setting<T>> for Value<T> {
    fn from(setting: &Setting<T>) -> Self {
        let whence = Whence::from(&setting.origin);
        Self { value: setting.value, layer: setting.layer, whence, origin: setting.origin.clone() }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Required {
    pub protection: Protection,
    pub whence: Whence,
    #[serde(skip)]
    pub origin: Origin,
}

/// Which variables the command gets. Names, and no values.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Variables {
    /// Whether variables that nothing names pass.
    pub inherit: Value<bool>,
    /// With the caller's value.
    pub passed: Vec<Word>,
    /// The caller has them, and the command does not.
    pub unset: Vec<Variable>,
    /// With a value of the policy's.
    pub set: Vec<Variable>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Variable {
    pub name: Word,
    pub whence: Whence,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    pub path: AbsPath,
    /// What a command may do there.
    pub access: Effective,
    /// What decides that.
    pub rule: Ruling,
    /// It is kept from being renamed, because this lies in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_for: Option<AbsPath>,
    /// Nothing is there, and a placeholder keeps it so during the run.
    pub placeholder: bool,
}

pub fn show(compiled: &Compiled) -> Shown {
    let project = &compiled.layers.project;
    let policy = &compiled.policy;
    let files = compiled.layers.layers.iter().filter_map(|layer| {
        let path = layer.file.clone()?;
        Some(File { path, layer: layer.kind, forbids_only: layer.protective_only })
    });
    let presets = policy.presets.iter().map(|(name, layer)| Preset { name: name.clone(), layer: *layer });
    let require = policy.require.iter().map(|(protection, origin)| Required {
        protection: *protection,
        whence: Whence::from(origin),
        origin: origin.clone(),
    });
    let files_made = compiled.resolution.new_files.iter().map(|file| &file.path);
    Shown {
        project: Project {
            root: project.root.clone(),
            working_directory: project.cwd.clone(),
            home: project.home.clone(),
        },
        files: files.collect(),
        presets: presets.collect(),
        network: Value::from(&policy.network),
        docker: Value::from(&policy.docker),
        nested: Value::from(&policy.nested),
        tmp: Value::from(&policy.tmp),
        guard: compiled.guard,
        require: require.collect(),
        environment: variables(compiled),
        created: compiled.created().into_iter().chain(files_made.cloned()).collect(),
        paths: nodes(compiled),
    }
}

fn variables(compiled: &Compiled) -> Variables {
    let environment = &compiled.environment;
    let with = |fate: Fate| {
        let of_it = environment.with(fate);
        of_it.map(|(name, because)| Variable { name: Word(name.to_owned()), whence: Whence::from(because) }).collect()
    };
    Variables {
        inherit: Value::from(&compiled.policy.inherit),
        passed: environment.with(Fate::Passed).map(|(name, _)| Word(name.to_owned())).collect(),
        unset: with(Fate::Dropped),
        set: with(Fate::Set),
    }
}

/// All mounts that are seen, all decisions, and all pins.
fn nodes(compiled: &Compiled) -> Vec<Node> {
    let inside = Inside::of(&compiled.plan);
    let pins: BTreeMap<&AbsPath, &AbsPath> = compiled
        .plan
        .mounts
        .iter()
        .filter_map(|planned| match &planned.purpose {
            Purpose::Pin { keeps } => Some((planned.mount.path(), keeps)),
            Purpose::Base | Purpose::Rule(_) => None,
        })
        .collect();
    let placeholders: BTreeSet<&AbsPath> = compiled.plan.placeholders.iter().map(|one| &one.path).collect();
    let decided = compiled.decisions.iter().map(|(path, _)| path);
    let paths: BTreeSet<&AbsPath> =
        inside.seen().chain(decided).chain(pins.keys().copied()).chain(placeholders.iter().copied()).collect();
    let node = |path: &AbsPath| Node {
        path: path.clone(),
        access: inside.at(path),
        rule: Ruling::governing(compiled, &inside, path),
        pinned_for: pins.get(path).map(|keeps| (*keeps).clone()),
        placeholder: placeholders.contains(path),
    };
    paths.into_iter().map(node).collect()
}
