//! Expansion: `@names` become rules, and the layers become one policy.
//!
//! The contents of the built-in presets are data (`data/*.toml`). This module decides which presets
//! are on (SPEC P1–P4) and expands the few names that depend on the repository.

mod builtin;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::config::{Entry, Filesystem, PresetDefinition, RelativeTo, Tmp};
use crate::compile::layers::{Layer, Layers, Project, is_unsafe_root};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, nearest};
use crate::host::session::Session;
use crate::policy::origin::{Origin, Sourced};
use crate::policy::path::AbsPath;
use crate::policy::places;
use crate::policy::rule::{Access, AlsoAt, CreateFor, HardLinks, IfMissing, LayerKind, Protection, Refinements, Rule};
use crate::sys::ablate::{self, Mitigation};

pub use builtin::Library;

/// The whole policy, before the host is read: the rules of all layers, and the settings that won.
#[derive(Clone, Debug)]
pub struct Policy {
    pub rules: Vec<Arc<Rule>>,
    pub network: Setting<bool>,
    pub docker: Setting<bool>,
    /// The entries of `sockets`, as rules that show a socket.
    pub sockets: Vec<Rule>,
    pub tmp: Setting<Tmp>,
    pub nested: Setting<bool>,
    /// Protections that the policy requires, each with its origin. No later file can remove a
    /// requirement.
    pub require: BTreeMap<Protection, Origin>,
    /// Whether variables of the caller that nothing names pass.
    pub inherit: Setting<bool>,
    /// The presets in force and the layer that named each, for `--debug`.
    pub presets: BTreeMap<String, LayerKind>,
}

impl Policy {
    /// The policy of `layers`, which lack one of this policy's files. `is_left_out` names the rules
    /// of that file, which must name and define no preset and leave `tmp` alone.
    pub(crate) fn without_rules(&self, layers: &Layers, is_left_out: impl Fn(&Rule) -> bool) -> Self {
        let rules = self.rules.iter().filter(|rule| !is_left_out(rule)).cloned().collect();
        Self { rules, presets: self.presets.clone(), ..settings(layers) }
    }

    /// A rule that would block a missing path does nothing there, and no file has a second place.
    pub(crate) fn put_nothing_up(&mut self) {
        for rule in &mut self.rules {
            if rule.if_missing == IfMissing::Block {
                Arc::make_mut(rule).if_missing = IfMissing::Skip;
            }
            if rule.refinements.also_at.is_some() {
                Arc::make_mut(&mut Arc::make_mut(rule).refinements).also_at = None;
            }
        }
    }
}

/// A setting and the layer that decided it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Setting_of_{T}", description = "A setting, and who decided it.")]
pub struct Setting<T> {
    pub value: T,
    pub layer: LayerKind,
    #[serde(rename = "whence")]
    pub origin: Origin,
}

pub fn expand(layers: &Layers, session: &Session, diagnostics: &mut Diagnostics) -> Policy {
    let library = Library::default();
    let mut selection = Selection::new(&library, diagnostics);
    for layer in &layers.layers {
        selection.apply(layer, diagnostics);
    }
    let mut rules = selection.rules(&layers.project);
    for layer in &layers.layers {
        rules.extend(written_rules(layer).map(Arc::new));
    }
    if session.is_root() {
        rules.extend(password_hashes().map(Arc::new));
    }
    refuse_unsafe_root(&rules, &layers.project, diagnostics);
    let settings = settings(layers);
    if settings.tmp.value == Tmp::Host {
        let origin = settings.tmp.origin.clone();
        rules.push(Arc::new(Rule::exact(Access::Rw, places::at(places::TMP), LayerKind::Base, origin)));
    }
    let presets = selection.layers();
    library.mistakes().iter().for_each(|mistake| diagnostics.push(mistake.clone()));
    Policy { rules, presets, ..settings }
}

/// A policy without rules and presets.
fn settings(layers: &Layers) -> Policy {
    Policy {
        rules: Vec::new(),
        network: setting(layers, true, false, "the network is on by default", |l| l.config.network.as_ref()),
        docker: setting(layers, false, false, "docker is off by default", |l| l.config.docker.as_ref()),
        sockets: layers.layers.iter().flat_map(socket_rules).collect(),
        tmp: setting(layers, Tmp::Private, Tmp::Private, "`/tmp` is private by default", |l| {
            l.config.filesystem.tmp.as_ref()
        }),
        nested: setting(layers, false, false, "no user namespaces by default", |l| l.config.nested.as_ref()),
        require: required(layers),
        inherit: setting(layers, true, false, "the environment passes by default", |l| l.config.env.inherit.as_ref()),
        presets: BTreeMap::new(),
    }
}

/// For a scalar the later layer wins (SPEC L2). A file above the root can only forbid (SPEC L4).
fn setting<T: Copy + PartialEq>(
    layers: &Layers,
    default: T,
    strict: T,
    why: &'static str,
    of: impl Fn(&Layer) -> Option<&Sourced<T>>,
) -> Setting<T> {
    let counts = |layer: &Layer, value: T| !layer.protective_only || value == strict;
    let decided = layers.layers.iter().rev().find_map(|layer| {
        let Sourced { value, origin } = of(layer).filter(|written| counts(layer, written.value))?;
        Some(Setting { value: *value, layer: layer.kind, origin: origin.clone() })
    });
    decided.unwrap_or(Setting { value: default, layer: LayerKind::Preset, origin: Origin::BuiltIn(why) })
}

fn required(layers: &Layers) -> BTreeMap<Protection, Origin> {
    let named = layers.layers.iter().flat_map(|layer| &layer.config.require);
    named.map(|Sourced { value, origin }| (*value, origin.clone())).collect()
}

/// The entries of one layer, as rules on that layer.
fn written_rules(layer: &Layer) -> impl Iterator<Item = Rule> {
    let Filesystem { ro, rw, exclude, .. } = &layer.config.filesystem;
    let by_access = [(Access::Ro, ro), (Access::Exclude, exclude), (Access::Rw, rw)];
    let rules = by_access.into_iter().flat_map(|(access, entries)| rules_of(access, entries, layer.kind, &layer.base));
    rules.filter_map(|rule| if layer.protective_only { forbidding(rule) } else { Some(rule) })
}

/// Keeps a rule of a file above the root only if it forbids (SPEC L4).
fn forbidding(rule: Rule) -> Option<Rule> {
    rule.access.is_protective().then_some(Rule { hard_links: HardLinks::Refuse, ..rule })
}

fn rules_of(access: Access, entries: &[Entry], layer: LayerKind, base: &AbsPath) -> impl Iterator<Item = Rule> {
    entries.iter().map(move |entry| Rule {
        if_missing: entry.if_missing,
        hard_links: entry.hard_links,
        ..Rule::written(access, entry.path.clone(), base.clone(), layer, entry.origin.clone())
    })
}

/// Sockets that a layer allows. A file above the root allows nothing (SPEC L4).
fn socket_rules(layer: &Layer) -> impl Iterator<Item = Rule> {
    let allowed = layer.config.sockets.iter().filter(|_| !layer.protective_only);
    allowed.map(|written| Rule {
        text: written.value.clone().into(),
        // A socket that somebody wants to be reached is none the worse for a second name.
        hard_links: HardLinks::Allow,
        shows_socket: true,
        // Connecting works through a read-only mount, and changing the socket's mode does not.
        ..Rule::exact(Access::Ro, layer.base.clone(), layer.kind, written.origin.clone())
    })
}

/// Root reads what no user can, and none of its work needs these.
fn password_hashes() -> [Rule; 2] {
    let origin = Origin::BuiltIn("password hashes are hidden from root");
    ["etc/shadow*", "etc/gshadow*"].map(|text| Rule {
        text: text.into(),
        ..Rule::exact(Access::Exclude, AbsPath::root(), LayerKind::Preset, origin.clone())
    })
}

/// SPEC L6. What a user writes is done as written; a preset must not open a home by accident.
fn refuse_unsafe_root(rules: &[Arc<Rule>], project: &Project, diagnostics: &mut Diagnostics) {
    if let Some(rule) = rules.iter().find(|rule| opens_unsafe_root(rule, project)) {
        diagnostics.push(
            Diagnostic::new(
                Code::UnsafeRoot,
                format!("`{}` is too broad a project: {} would make all of it writable", project.root, rule.origin),
            )
            .help("start in the folder of one project, or take `@base` out with `--preset '!base'`"),
        );
    }
}

/// Whether `rule` is that of a preset which makes a root writable that is too broad for it.
pub(crate) fn opens_unsafe_root(rule: &Rule, project: &Project) -> bool {
    let opens_root =
        rule.access == Access::Rw && rule.layer == LayerKind::Preset && rule.base == project.root && rule.text == ".";
    opens_root && is_unsafe_root(&project.root, &project.home)
}

/// Which presets are on.
struct Selection<'a> {
    library: &'a Library,
    /// Definitions of users so far, with the folder that their relative paths start from.
    defined: BTreeMap<String, Vec<(PresetDefinition, AbsPath)>>,
    /// How each preset is on. More than one way, where files above the root name it, too.
    on: BTreeMap<String, Vec<On>>,
}

struct On {
    layer: LayerKind,
    /// A user's definitions as they were when the preset was named; empty for a built-in one.
    definitions: Vec<(PresetDefinition, AbsPath)>,
    /// Named by a file above the root: only its `ro` and `exclude` rules count.
    protective_only: bool,
}

impl<'a> Selection<'a> {
    fn new(library: &'a Library, diagnostics: &mut Diagnostics) -> Self {
        let mut selection = Self { library, defined: BTreeMap::new(), on: BTreeMap::new() };
        for name in selection.closure("all", diagnostics, &Origin::BuiltIn("@all is on by default")) {
            selection.turn_on(name, LayerKind::Preset, false);
        }
        selection
    }

    fn apply(&mut self, layer: &Layer, diagnostics: &mut Diagnostics) {
        for (name, definition) in &layer.config.presets {
            if self.library.contains(name) {
                diagnostics.push(
                    Diagnostic::new(Code::InvalidPresetName, format!("`@{name}` is a built-in preset"))
                        .at(&definition.origin)
                        .help("choose another name; to change a built-in one, remove it with `!` and write rules of your own"),
                );
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
                diagnostics.push(
                    Diagnostic::new(Code::ContradictoryPreset, format!("`@{name}` is both named and removed here"))
                        .at(origin)
                        .help("keep one of the two: the order within a list means nothing"),
                );
            }
            // Taking a preset away may open something, so a file above the root cannot.
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

    /// The name behind `@`, if there is such a preset.
    fn known(&self, reference: &str, origin: &Origin, diagnostics: &mut Diagnostics) -> Option<String> {
        // The parser has refused every other spelling, and flags are brought into this one.
        let name = reference.strip_prefix('@').unwrap_or(reference);
        if self.library.contains(name) || self.defined.contains_key(name) {
            return Some(name.to_owned());
        }
        let names = || self.library.names().chain(self.defined.keys().map(String::as_str));
        let help = match nearest(name, names()) {
            Some(nearest) => format!("did you mean `@{nearest}`?"),
            None => format!("the presets are {}", listed(names().map(|name| format!("`@{name}`")), "and")),
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
            diagnostics.push(
                Diagnostic::new(
                    Code::PresetCycle,
                    format!("`@{name}` includes itself: @{} → @{name}", above.join(" → @")),
                )
                .at(origin)
                .help("take one of these out of an `include` list"),
            );
            return;
        }
        if !found.insert(name.to_owned()) {
            return;
        }
        above.push(name.to_owned());
        for reference in self.includes(name) {
            if let Some(name) = self.known(&reference.value, &reference.origin, diagnostics) {
                self.include(&name, above, found, diagnostics, &reference.origin);
            }
        }
        above.pop();
    }

    fn includes(&self, name: &str) -> Vec<&Sourced<String>> {
        match self.library.get(name) {
            Some(preset) => preset.definition.include.iter().collect(),
            None => self.defined.get(name).into_iter().flatten().flat_map(|(d, _)| &d.include).collect(),
        }
    }

    fn turn_on(&mut self, name: String, layer: LayerKind, protective_only: bool) {
        let definitions = self.defined.get(&name).cloned().unwrap_or_default();
        let ways = self.on.entry(name).or_default();
        if !protective_only {
            ways.clear();
        }
        ways.push(On { layer, definitions, protective_only });
    }

    /// The highest layer that names each preset.
    fn layers(&self) -> BTreeMap<String, LayerKind> {
        let highest = |ways: &[On]| ways.iter().map(|on| on.layer).max();
        self.on.iter().filter_map(|(name, ways)| Some((name.clone(), highest(ways)?))).collect()
    }

    /// The rules of all presets that are on.
    fn rules(&self, project: &Project) -> Vec<Arc<Rule>> {
        let mut all = Vec::new();
        for (name, on) in self.on.iter().flat_map(|(name, ways)| ways.iter().map(move |on| (name, on))) {
            let mut rules = Vec::new();
            match self.library.get(name) {
                Some(preset) => {
                    let base = match preset.relative_to {
                        RelativeTo::Project => &project.root,
                        RelativeTo::OutermostRepository => &project.outermost,
                    };
                    let of_all = Arc::new(Refinements {
                        skip_directories: preset.skip_directories.clone(),
                        skip_beside: preset.skip_beside.clone(),
                        leave_tracked: preset.leave_tracked,
                        ..Refinements::default()
                    });
                    for (access, entries) in by_access(&preset.definition) {
                        for entry in entries {
                            let refinements = refined(&of_all, entry);
                            variables::add_rules(access, entry, base, &refinements, project, &mut rules);
                        }
                    }
                }
                None => {
                    for (definition, base) in &on.definitions {
                        for (access, entries) in by_access(definition) {
                            rules.extend(rules_of(access, entries, on.layer, base));
                        }
                    }
                }
            }
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

fn is_switched_off(preset: &str) -> bool {
    match preset {
        "git" => ablate::is_off(Mitigation::GitPreset),
        "autorun" => ablate::is_off(Mitigation::AutorunPreset),
        _ => false,
    }
}

/// The refinements of one entry, added to those of its preset.
fn refined(of_all: &Arc<Refinements>, entry: &Entry) -> Arc<Refinements> {
    let Some(own) = &entry.only_built_in else { return Arc::clone(of_all) };
    Arc::new(Refinements {
        except: own.except.iter().map(Into::into).collect(),
        mask: own.mask,
        needs_parent: own.needs_parent,
        in_use: own.in_use.clone(),
        report_keys: own.report_keys.clone(),
        create_for: own.create_for.as_deref().map(create_for),
        content: own.content.clone(),
        also_at: own.also_at.clone().map(|path| AlsoAt { path, told_by: own.told_by.clone() }),
        ..Refinements::clone(of_all)
    })
}

fn create_for(program: &str) -> CreateFor {
    if program == "*" { CreateFor::Everybody } else { CreateFor::Program(program.to_owned()) }
}

fn by_access(definition: &PresetDefinition) -> [(Access, &[Entry]); 3] {
    [(Access::Rw, &definition.rw), (Access::Ro, &definition.ro), (Access::Exclude, &definition.exclude)]
}
