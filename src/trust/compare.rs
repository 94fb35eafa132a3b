//! What one policy opens beyond another. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;
use std::sync::Arc;

use crate::bytes::Word;
use crate::config::PresetDefinition;
use crate::layers::Layer;
use crate::origin::{Origin, Place, Source, Sourced};
use crate::path::AbsPath;
use crate::plan::{BindKind, Mount, Plan};
use crate::presets::Library;
use crate::rule::{Access, HardLinks, LayerKind};

use super::Stages;
use super::grant::{Grant, Granted, Openness};

/// All that `full` opens beyond `base`, which lacks `layer`: settings first, then paths, parents before children.
pub(super) fn grants(base: &Stages, full: &Stages, layer: &Layer) -> Vec<Granted> {
    let comparison = Comparison { base, full, layer };
    let mut grants = comparison.settings();
    let devices = comparison.devices();
    let paths = comparison.paths(&devices);
    grants.extend(comparison.variables());
    grants.extend(comparison.presets(&paths));
    grants.extend(comparison.other_names());
    grants.extend(comparison.created());
    let at = |path: &AbsPath| comparison.origin(path);
    grants.extend(
        devices.iter().map(|path| Granted { origin: at(path), grant: Grant::Device { path: (*path).clone() } }),
    );
    grants.extend(
        paths
            .into_iter()
            .map(|(path, Opened { from, to })| Granted { origin: at(&path), grant: Grant::Path { path, from, to } }),
    );
    grants
}

struct Comparison<'a> {
    base: &'a Stages<'a>,
    full: &'a Stages<'a>,
    layer: &'a Layer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Opened {
    from: Openness,
    to: Openness,
}

impl<'a> Comparison<'a> {
    /// `tmp = "host"` is a rule on `/tmp`, so it is among the paths.
    fn settings(&self) -> Vec<Granted> {
        let (base, full) = (self.base.policy, self.full.policy);
        let network = (!base.network.value && full.network.value)
            .then(|| Granted { grant: Grant::Network, origin: full.network.origin.clone() });
        let docker = (!base.docker.value && full.docker.value)
            .then(|| Granted { grant: Grant::Docker, origin: full.docker.origin.clone() });
        let nested = (!base.nested.value && full.nested.value)
            .then(|| Granted { grant: Grant::Nested, origin: full.nested.origin.clone() });
        network.into_iter().chain(docker).chain(nested).collect()
    }

    /// Variables that the command would not have, or not with this value.
    fn variables(&self) -> impl Iterator<Item = Granted> {
        let (base, full) = (self.base.environment, self.full.environment);
        let changed = full.variables.iter().filter(|(name, value)| base.variables.get(*name) != Some(value));
        changed.map(|(name, _)| {
            let origin = full.outcomes.get(name).map_or_else(|| self.start(), |outcome| outcome.because.clone());
            Granted { grant: Grant::Variable { name: Word(name.clone()) }, origin }
        })
    }

    /// Protected files with other names, which the file accepts.
    fn other_names(&self) -> impl Iterator<Item = Granted> {
        let accepted = self.full.decisions.iter().filter(|(path, decision)| {
            let before = self.base.decisions.get(path).map(|decision| decision.hard_links);
            decision.names > 1 && decision.hard_links == HardLinks::Allow && before != Some(HardLinks::Allow)
        });
        accepted.map(|(path, decision)| Granted {
            grant: Grant::OtherNames { path: path.clone() },
            origin: decision.origin.clone(),
        })
    }

    /// The paths that are more open, without those below another that opens in the same way.
    ///
    /// The views of a plan change only at its borders, so what differs anywhere differs at a border of one of the two.
    fn paths(&self, devices: &[&AbsPath]) -> BTreeMap<AbsPath, Opened> {
        let borders: BTreeSet<&AbsPath> = self.base.plan.borders().chain(self.full.plan.borders()).collect();
        let mut opened: BTreeMap<AbsPath, Opened> = BTreeMap::new();
        for path in borders {
            let view = |plan: &Plan| Openness::from(plan.view(path));
            let here = Opened { from: view(self.base.plan), to: view(self.full.plan) };
            let is_said = || {
                let mut above = path.as_path().ancestors();
                above.any(|above| opened.get(above) == Some(&here))
                    || devices.iter().any(|device| path.is_within(device))
            };
            if here.to > here.from && !is_said() && !self.is_by_the_way(path) {
                opened.insert(path.clone(), here);
            }
        }
        opened
    }

    /// What no rule is about: the socket of a service that came or went between two looks, and git's copy of its list.
    fn is_by_the_way(&self, path: &AbsPath) -> bool {
        let base = self.base.decisions.get(path);
        let is_socket =
            base.is_some_and(|decision| decision.layer == LayerKind::Base && decision.access == Access::Exclude);
        let is_copy = base.is_none()
            && self
                .base
                .plan
                .mounts
                .iter()
                .any(|planned| matches!(&planned.mount, Mount::DataFile { path: at, .. } if at == path));
        (is_socket || is_copy) && !origin_of(self.full, path).is_some_and(|origin| self.is_written_here(origin))
    }

    /// Where device nodes work, and would not.
    fn devices(&self) -> Vec<&'a AbsPath> {
        let before: Vec<&AbsPath> = with_devices(self.base.plan).collect();
        let is_new = |path: &&AbsPath| !before.iter().any(|known| path.is_within(known));
        with_devices(self.full.plan).filter(is_new).collect()
    }

    /// Directories that are made where the command could not make them itself. Those of ours are no rule's doing.
    fn created(&self) -> impl Iterator<Item = Granted> {
        let created = self.full.resolution.create.iter();
        let is_ours = |path: &AbsPath| self.full.layers.own_files.iter().any(|own| own.path == *path);
        let is_new = move |path: &&AbsPath| {
            !self.base.resolution.create.contains(path)
                && !is_ours(path)
                && Openness::from(self.base.plan.view(path)) != Openness::Writable
        };
        created
            .filter(is_new)
            .map(|path| Granted { grant: Grant::Create { path: path.clone() }, origin: self.origin(path) })
    }

    /// Presets that are off and whose rules would keep closed what is `opened`, and what no rule of the file itself opens.
    /// One that only opens something is missed by nobody.
    fn presets(&self, opened: &BTreeMap<AbsPath, Opened>) -> Vec<Granted> {
        let off = self.base.policy.presets.keys().filter(|name| !self.full.policy.presets.contains_key(*name));
        let by_rule = |path: &&AbsPath| origin_of(self.full, path).is_some_and(|origin| self.is_written_here(origin));
        let paths = opened.keys().filter(|path| !by_rule(path));
        let closing: Vec<&Origin> = paths.filter_map(|path| origin_of(self.base, path)).collect();
        off.filter(|name| closing.iter().any(|origin| self.is_of_preset(origin, name)))
            .map(|name| Granted { grant: Grant::Preset { name: name.clone() }, origin: self.reference("!", name) })
            .collect()
    }

    /// Whether the base has the rule from the preset `name`.
    fn is_of_preset(&self, origin: &Origin, name: &str) -> bool {
        let is_in = |definition: &PresetDefinition| {
            let PresetDefinition { ro, rw, exclude, .. } = definition;
            [ro, rw, exclude].into_iter().flatten().any(|entry| entry.origin == *origin)
        };
        match origin {
            Origin::Preset { name: of, .. } => of == name,
            _ => self.base.layers.layers.iter().filter_map(|layer| layer.config.presets.get(name)).any(is_in),
        }
    }

    /// What in the project's file opens `path`: the rule that governs it, or else the preset that is on or off.
    fn origin(&self, path: &AbsPath) -> Origin {
        let (before, now) = (origin_of(self.base, path), origin_of(self.full, path));
        if let Some(now) = now
            && self.is_written_here(now)
        {
            return now.clone();
        }
        let on = |stages: &Stages, origin: &Origin| {
            stages.policy.presets.keys().find(|name| self.is_of_preset(origin, name)).cloned()
        };
        let taken_away = before.and_then(|before| on(self.base, before));
        if let Some(name) = taken_away.filter(|name| !self.full.policy.presets.contains_key(name)) {
            return self.reference("!", &name);
        }
        let added = now.and_then(|now| on(self.full, now));
        if let Some(name) = added.filter(|name| !self.base.policy.presets.contains_key(name)) {
            return self.reference("", &name);
        }
        // Without a rule only the way to name resolution is opened.
        if now.is_none() && before.is_none() && self.is_written_here(&self.full.policy.network.origin) {
            return self.full.policy.network.origin.clone();
        }
        self.start()
    }

    /// Where the project's file names (or removes) the preset `name`, itself or by one that includes it.
    fn reference(&self, sign: &str, name: &str) -> Origin {
        let library = Library::default();
        let stands_for = |reference: &&Sourced<String>| {
            let named = reference.value.strip_prefix(sign).and_then(|rest| rest.strip_prefix('@'));
            named.is_some_and(|named| self.includes(&library, named, name, &mut BTreeSet::new()))
        };
        let reference = self.layer.config.filesystem.presets.iter().find(stands_for);
        reference.map_or_else(|| self.start(), |reference| reference.origin.clone())
    }

    fn includes(&self, library: &Library, outer: &str, inner: &str, seen: &mut BTreeSet<String>) -> bool {
        if outer == inner {
            return true;
        }
        if !seen.insert(outer.to_owned()) {
            return false;
        }
        let own = self.full.layers.layers.iter().filter_map(|layer| layer.config.presets.get(outer));
        let definitions = library.get(outer).map(|preset| &preset.definition).into_iter().chain(own);
        let mut included = definitions.flat_map(|definition| &definition.include);
        included.any(|next| self.includes(library, next.value.trim_start_matches('@'), inner, seen))
    }

    fn is_written_here(&self, origin: &Origin) -> bool {
        let is_ours = |source: &Arc<Source>| self.layer.source.as_ref().is_some_and(|own| ptr::eq(&**own, &**source));
        matches!(origin, Origin::File(place) if is_ours(&place.source))
    }

    /// The file as a whole.
    fn start(&self) -> Origin {
        match &self.layer.source {
            Some(source) => Origin::File(Place { source: Arc::clone(source), span: 0..0 }),
            None => Origin::BuiltIn("the project's file"),
        }
    }
}

/// The rule that governs `path`.
fn origin_of<'s>(stages: &Stages<'s>, path: &AbsPath) -> Option<&'s Origin> {
    stages.decisions.governing(path).map(|(_, decision)| &decision.origin)
}

fn with_devices(plan: &Plan) -> impl Iterator<Item = &AbsPath> {
    plan.mounts.iter().filter_map(|planned| match &planned.mount {
        Mount::Bind { path, kind: BindKind::WithDevices, .. } => Some(path),
        _ => None,
    })
}
