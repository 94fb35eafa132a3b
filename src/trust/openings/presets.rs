//! Presets that are on in one policy and off in the other, where that opens something.

use std::collections::{BTreeSet, HashSet};

use crate::compile::Compiled;
use crate::compile::config::PresetDefinition;
use crate::compile::layers::{Layer, Layers};
use crate::compile::presets::builtin;
use crate::policy::{AbsPath, Origin, Sourced};

use super::{Comparison, DiffState, OpenedPaths, PolicyChange, Subject, change, origin_of};

impl Comparison<'_> {
    /// Two kinds of presets. One is newly off: a rule of it decided about a path in `opened`
    /// before, and no new rule opens that path now. The other is newly on: a rule of it decides
    /// about a path in `opened` now.
    pub(super) fn presets(&self, opened: &OpenedPaths) -> Vec<PolicyChange> {
        use DiffState::{Off, On};
        let (before, after) = (self.before, self.after);
        let known: HashSet<&Origin> = before.policy.rules.iter().map(|rule| &rule.origin).collect();
        let is_new = |origin: &Origin| !known.contains(origin);
        let by_new_rule = |path: &&&AbsPath| origin_of(after, path).is_some_and(is_new);
        let left = opened.keys().filter(|path| !by_new_rule(path));
        let closing: Vec<&Origin> = left.filter_map(|path| origin_of(before, path)).collect();
        let off = lacking(before, after).filter(|name| closing.iter().any(|rule| is_of_preset(before, rule, name)));
        let opening: Vec<&Origin> = opened.keys().filter_map(|path| origin_of(after, path)).collect();
        let on = lacking(after, before).filter(|name| opening.iter().any(|rule| is_of_preset(after, rule, name)));
        let preset = |name: &String| Subject::Preset { name: name.clone() };
        let off = off.map(|name| change(preset(name), [On, Off], [named(before, "", name), named(after, "!", name)]));
        let on = on.map(|name| change(preset(name), [Off, On], [named(before, "!", name), named(after, "", name)]));
        off.chain(on).collect()
    }
}

fn lacking<'s>(one: &'s Compiled, other: &'s Compiled) -> impl Iterator<Item = &'s String> + use<'s> {
    let other = &other.policy;
    one.policy.presets.keys().filter(move |name| !other.presets.contains_key(*name))
}

pub(crate) fn is_of_preset(compiled: &Compiled, origin: &Origin, name: &str) -> bool {
    let is_in = |definition: &PresetDefinition| {
        let PresetDefinition { ro, rw, exclude, .. } = definition;
        [ro, rw, exclude].into_iter().flatten().any(|entry| entry.origin == *origin)
    };
    match origin {
        Origin::Preset { name: of, .. } => *of == name,
        Origin::Alias { origin, .. } => is_of_preset(compiled, origin, name),
        _ => compiled.layers.layers.iter().filter_map(|layer| layer.config.presets.get(name)).any(is_in),
    }
}

/// The origin of the entry by which the last layer names a preset or, if `sign` is `!`, removes it.
/// `@all` is on by default.
fn named(compiled: &Compiled, sign: &str, name: &str) -> Option<Origin> {
    let written = compiled.layers.layers.iter().rev().find_map(|layer| reference(&compiled.layers, layer, sign, name));
    let by_default = || sign.is_empty() && includes(&compiled.layers, "all", name, &mut BTreeSet::new());
    written.or_else(|| by_default().then_some(Origin::BuiltIn("`@all` is on by default")))
}

/// The place at which `layer` names (or removes) the preset `name`, itself or by a preset that
/// includes it.
pub(crate) fn reference(layers: &Layers, layer: &Layer, sign: &str, name: &str) -> Option<Origin> {
    let stands_for = |reference: &&Sourced<String>| {
        let named = reference.value.strip_prefix(sign).and_then(|rest| rest.strip_prefix('@'));
        named.is_some_and(|named| includes(layers, named, name, &mut BTreeSet::new()))
    };
    layer.config.filesystem.presets.iter().find(stands_for).map(|reference| reference.origin.clone())
}

fn includes(layers: &Layers, outer: &str, inner: &str, seen: &mut BTreeSet<String>) -> bool {
    if outer == inner {
        return true;
    }
    if !seen.insert(outer.to_owned()) {
        return false;
    }
    let own = layers.layers.iter().filter_map(|layer| layer.config.presets.get(outer));
    let own = own.flat_map(|definition| &definition.include).map(|next| next.value.trim_start_matches('@'));
    let built_in = builtin::get(outer).map_or(&[][..], |preset| preset.include).iter().copied();
    built_in.chain(own).any(|next| includes(layers, next, inner, seen))
}
