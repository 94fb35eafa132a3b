//! The presets that are on (SPEC P1–P4), and their rules. The contents of the built-in presets are
//! data (`data/`).

pub mod builtin;
pub mod data;
pub(super) mod programs;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compile::config::PresetDefinition;
use crate::compile::layers::{Layer, Layers, Project};
use crate::compile::policy::{InjectedContent, Injection, forbidding, rules_of};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, nearest};
use crate::policy::{AbsPath, LayerKind, Origin, Rule};
use crate::sys::ablate::{self, Mitigation};

use data::{BuiltinPreset, RelativeTo};

/// The presets that are on.
pub(super) struct Expanded {
    pub rules: Vec<Arc<Rule>>,
    /// The highest layer that names each preset.
    pub layers: BTreeMap<String, LayerKind>,
    /// Presets that only files above the root name: they open nothing (SPEC L4).
    pub protective_only: BTreeSet<String>,
}

pub(super) fn expand(layers: &Layers, diagnostics: &mut Diagnostics) -> Expanded {
    let mut selection = Selection::new(diagnostics);
    for layer in &layers.layers {
        selection.apply(layer, diagnostics);
    }
    Expanded {
        rules: selection.rules(&layers.project),
        layers: selection.layers(),
        protective_only: selection.protective_only(),
    }
}

/// The presets that are on.
struct Selection {
    /// Definitions of users so far, with the folder that their relative paths start from.
    defined: BTreeMap<String, Vec<(PresetDefinition, AbsPath)>>,
    /// The presets that are on, each with its sources: several if files above the root name it,
    /// too.
    on: BTreeMap<String, Vec<On>>,
}

/// One source that turns a preset on.
struct On {
    layer: LayerKind,
    /// A user's definitions as they were when the preset was named; empty for a built-in one.
    definitions: Vec<(PresetDefinition, AbsPath)>,
    /// Named by a file above the root: only its `ro` and `exclude` rules count.
    protective_only: bool,
}

impl Selection {
    fn new(diagnostics: &mut Diagnostics) -> Self {
        let mut selection = Self { defined: BTreeMap::new(), on: BTreeMap::new() };
        for name in selection.closure("all", diagnostics, &Origin::BuiltIn("@all is on by default")) {
            selection.turn_on(name, LayerKind::Preset, false);
        }
        selection
    }

    fn apply(&mut self, layer: &Layer, diagnostics: &mut Diagnostics) {
        for (name, definition) in &layer.config.presets {
            if builtin::get(name).is_some() {
                let message = format!("`@{name}` is a built-in preset");
                let help =
                    "choose another name; to change a built-in one, remove it with `!` and write rules of your own";
                diagnostics.push(Diagnostic::new(Code::InvalidPresetName, message).at(&definition.origin).help(help));
                continue;
            }
            let definitions = self.defined.entry(name.clone()).or_default();
            definitions.push((definition.clone(), layer.base.clone()));
        }
        let mut added = BTreeMap::new();
        let mut removed = BTreeMap::new();
        for reference in &layer.config.filesystem.presets {
            let (target, name) = match reference.value.strip_prefix('!') {
                Some(name) => (&mut removed, name),
                None => (&mut added, reference.value.as_str()),
            };
            if let Some(name) = self.known(name, &reference.origin, diagnostics) {
                target.insert(name, &reference.origin);
            }
        }
        for (name, origin) in &removed {
            if added.contains_key(name) {
                let message = format!("`@{name}` is both named and removed here");
                let help = "keep one of the two: the order within a list means nothing";
                diagnostics.push(Diagnostic::new(Code::ContradictoryPreset, message).at(origin).help(help));
            }
            // Removing a preset may open something, so a file above the root cannot.
            for name in self.closure(name, diagnostics, origin) {
                if !layer.protective_only {
                    self.on.remove(&name);
                }
            }
        }
        for (name, origin) in &added {
            for name in self.closure(name, diagnostics, origin) {
                self.turn_on(name, layer.kind, layer.protective_only);
            }
        }
    }

    /// The name after `@`, if there is such a preset.
    fn known(&self, reference: &str, origin: &Origin, diagnostics: &mut Diagnostics) -> Option<String> {
        // The parser refuses every other spelling, and flags are converted to this one.
        let name = reference.strip_prefix('@').unwrap_or(reference);
        if builtin::get(name).is_some() || self.defined.contains_key(name) {
            return Some(name.to_owned());
        }
        let names = || builtin::names().chain(self.defined.keys().map(String::as_str));
        let help = match nearest(name, names()) {
            Some(nearest) => format!("did you mean `@{nearest}`?"),
            None => format!("name one of these presets: {}", listed(names().map(|name| format!("`@{name}`")), "and")),
        };
        diagnostics
            .push(Diagnostic::new(Code::UnknownPreset, format!("there is no preset `@{name}`")).at(origin).help(help));
        None
    }

    /// A preset and all that it includes.
    fn closure(&self, name: &str, diagnostics: &mut Diagnostics, origin: &Origin) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.include(name, &mut Vec::new(), &mut found, diagnostics, origin);
        found
    }

    fn include(
        &self,
        name: &str,
        above: &mut Vec<String>,
        found: &mut BTreeSet<String>,
        diagnostics: &mut Diagnostics,
        origin: &Origin,
    ) {
        if above.iter().any(|a| a == name) {
            let message = format!("`@{name}` includes itself: @{} → @{name}", above.join(" → @"));
            let help = "take one of these out of an `include` list";
            diagnostics.push(Diagnostic::new(Code::PresetCycle, message).at(origin).help(help));
            return;
        }
        if !found.insert(name.to_owned()) {
            return;
        }
        above.push(name.to_owned());
        for included in builtin::get(name).map_or(&[][..], |preset| preset.include) {
            self.include(included, above, found, diagnostics, origin);
        }
        for (definition, _) in self.defined.get(name).into_iter().flatten() {
            for reference in &definition.include {
                if let Some(name) = self.known(&reference.value, &reference.origin, diagnostics) {
                    self.include(&name, above, found, diagnostics, &reference.origin);
                }
            }
        }
        above.pop();
    }

    fn turn_on(&mut self, name: String, layer: LayerKind, protective_only: bool) {
        let definitions = self.defined.get(&name).cloned().unwrap_or_default();
        let ways = self.on.entry(name).or_default();
        if !protective_only {
            ways.clear();
        }
        ways.push(On { layer, definitions, protective_only });
    }

    fn layers(&self) -> BTreeMap<String, LayerKind> {
        let highest = |ways: &[On]| ways.iter().map(|on| on.layer).max();
        self.on.iter().filter_map(|(name, ways)| Some((name.clone(), highest(ways)?))).collect()
    }

    fn protective_only(&self) -> BTreeSet<String> {
        let of_files_above = self.on.iter().filter(|(_, ways)| ways.iter().all(|on| on.protective_only));
        of_files_above.map(|(name, _)| name.clone()).collect()
    }

    fn rules(&self, project: &Project) -> Vec<Arc<Rule>> {
        let mut all = Vec::new();
        for (name, on) in self.on.iter().flat_map(|(name, ways)| ways.iter().map(move |on| (name, on))) {
            let written = on.definitions.iter().flat_map(|(definition, base)| {
                let by_access = definition.by_access().into_iter();
                by_access.flat_map(|(access, entries)| rules_of(access, entries, on.layer, base))
            });
            let builtin = builtin::get(name).map(|preset| builtin_rules(preset, project));
            let mut rules = builtin.unwrap_or_else(|| written.collect());
            if on.protective_only {
                rules = rules.into_iter().filter_map(forbidding).collect();
            }
            if is_switched_off(name) {
                rules.retain(|rule| !rule.access.is_protective());
            }
            all.extend(rules.into_iter().map(Arc::new));
        }
        all
    }
}

/// The injections of the built-in preset `name`, if there is one.
pub(super) fn injections(name: &str, project: &Project) -> impl Iterator<Item = Injection> + use<> {
    let preset = builtin::get(name);
    let base = project.root.clone();
    let groups = preset.into_iter().flat_map(|preset| preset.injections.iter().map(move |group| (preset.name, group)));
    let entries = groups.flat_map(|(name, group)| group.entries.iter().map(move |entry| (name, entry)));
    entries.map(move |(name, entry)| Injection {
        content: InjectedContent::From(entry.from.into()),
        to: entry.to.into(),
        base: base.clone(),
        unless: entry.unless,
        layer: LayerKind::Preset,
        from_origin: Origin::Preset { name, path: entry.to },
        origin: Origin::Preset { name, path: entry.to },
    })
}

fn is_switched_off(preset: &str) -> bool {
    match preset {
        "git" => ablate::is_off(Mitigation::GitPreset),
        "autorun" => ablate::is_off(Mitigation::AutorunPreset),
        "secrets" => ablate::is_off(Mitigation::SecretsPreset),
        "agents" => ablate::is_off(Mitigation::AgentsPreset),
        "caches" => ablate::is_off(Mitigation::CachesPreset),
        "caches-apart" => ablate::is_off(Mitigation::CachesApartPreset),
        _ => false,
    }
}

fn builtin_rules(preset: &'static BuiltinPreset, project: &Project) -> Vec<Rule> {
    let base = match preset.relative_to {
        RelativeTo::Project => &project.root,
        RelativeTo::OutermostRepository => &project.outermost,
    };
    preset.entries().flat_map(|entry| variables::rules(preset, entry, base, project)).collect()
}
