//! Selects the variables that the command gets. This stage alone decides which entry wins (SPEC
//! section 10). It reads nothing from the machine.
//!
//! agent-sandbox starts bwrap with these variables and no others (SPEC E1), because
//! `/proc/1/environ` inside shows the environment of bwrap. `--setenv` would show the values in
//! bwrap's command line, which every user of the machine can read.

mod defaults;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::layers::{Layer, Layers};
use crate::compile::plan::{Plan, View};
use crate::compile::policy::Policy;
use crate::compile::presets::builtin;
use crate::compile::presets::data::VariableEffect;
use crate::compile::resolve::{NamePattern, PresetVariable};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::session::Session;
use crate::policy::{AbsPath, LayerKind, Origin, Sourced, escape_for_display, places};
use crate::sys::ablate::{self, Mitigation};

use defaults::When;

/// The variable by which programs know that they are inside (SPEC B16). bwrap sets it to 1.
pub const MARK: &str = "AGENT_SANDBOX";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The environment of the command.
    pub variables: BTreeMap<OsString, OsString>,
    /// `inherit = false`: variables that no entry names do not pass.
    pub only_named: bool,
    /// The outcome for each variable of the caller, and for each variable that an entry sets.
    pub outcomes: BTreeMap<OsString, VariableOutcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableOutcome {
    pub fate: Fate,
    pub because: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "VariableFate", rename_all = "kebab-case")]
pub enum Fate {
    /// The command gets the caller's value.
    Passed,
    /// The command does not get it.
    #[serde(rename = "unset")]
    Dropped,
    /// The command gets a value of the policy.
    Set,
}

impl Environment {
    /// The value of a variable of the command. `None` if it is unset or empty.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The variables of one fate, sorted.
    pub fn with(&self, fate: Fate) -> impl Iterator<Item = (&OsStr, &Origin)> {
        let of_it = self.outcomes.iter().filter(move |(_, outcome)| outcome.fate == fate);
        of_it.map(|(name, outcome)| (name.as_os_str(), &outcome.because))
    }

    /// The variables to which the policy gives a value, sorted.
    pub fn set(&self) -> impl Iterator<Item = (&OsStr, &OsStr, &Origin)> {
        let value = |name: &OsStr| self.variables.get(name).map(OsString::as_os_str);
        self.with(Fate::Set).filter_map(move |(name, origin)| Some((name, value(name)?, origin)))
    }

    fn settle(&mut self, name: &OsStr, value: Option<&OsStr>, fate: Fate, because: &Origin) {
        match value {
            Some(value) => _ = self.variables.insert(name.to_owned(), value.to_owned()),
            None => _ = self.variables.remove(name),
        }
        self.outcomes.insert(name.to_owned(), VariableOutcome { fate, because: because.clone() });
    }

    /// Replaces the value of a variable that passes.
    fn adjust(&mut self, name: &str, value: &AbsPath, why: &'static str) {
        let name = OsStr::new(name);
        let passes = self.outcomes.get(name).is_some_and(|outcome| outcome.fate == Fate::Passed);
        if passes && self.variables.get(name).is_some_and(|own| own != value.as_os_str()) {
            self.settle(name, Some(value.as_os_str()), Fate::Set, &Origin::BuiltIn(why));
        }
    }
}

pub fn filter(
    session: &Session,
    layers: &Layers,
    policy: &Policy,
    plan: &Plan,
    diagnostics: &mut Diagnostics,
) -> Environment {
    let mut env_layers = vec![EnvLayer::of_presets(policy), EnvLayer::built_in(session, policy, plan)];
    for layer in &layers.layers {
        // Files above the root share the layer of the project's own file (SPEC L4), so their
        // `unset` entries still apply.
        match env_layers.last_mut() {
            Some(last) if last.kind == layer.kind => last.add(layer, diagnostics),
            _ => {
                let mut next = EnvLayer::empty(layer.kind);
                next.add(layer, diagnostics);
                env_layers.push(next);
            }
        }
    }
    let layers = env_layers;
    let mut environment = Environment { only_named: !policy.inherit.value, ..Environment::default() };
    let set = layers.iter().flat_map(|layer| layer.set.keys().copied());
    let names: BTreeSet<&OsStr> = session.env.keys().map(OsString::as_os_str).chain(set).collect();
    for name in names {
        let own = session.env.get(name).map(OsString::as_os_str);
        let unnamed = match policy.inherit.value {
            true => (Fate::Passed, own, &policy.inherit.origin),
            false => (Fate::Dropped, None, &policy.inherit.origin),
        };
        let (fate, value, because) = match own.filter(|_| ablate::is_off(Mitigation::EnvFilter)) {
            Some(value) => (Fate::Passed, Some(value), &policy.inherit.origin),
            // The latest layer that names the variable decides.
            None => layers.iter().rev().find_map(|layer| layer.fate(name, own)).unwrap_or(unnamed),
        };
        environment.settle(name, value, fate, because);
    }
    let runtime = places::at(places::RUN).join(format!("user/{}", session.uid));
    environment.adjust("XDG_RUNTIME_DIR", &runtime, "the runtime directory inside is a private one");
    let tmp = places::at(places::TMP);
    if session.path_var("TMPDIR").is_some_and(|path| !exists_writable(plan, &path)) && exists_writable(plan, &tmp) {
        environment.adjust("TMPDIR", &tmp, "TMPDIR is not writable inside");
    }
    environment
}

/// Whether [`filter`] has the same result for two plans, with the same session, files and policy.
pub(crate) fn is_same(session: &Session, one: &Plan, other: &Plan) -> bool {
    let is_same_at = |path: &AbsPath| exists_writable(one, path) == exists_writable(other, path);
    one.variables == other.variables
        && is_same_at(&places::at(places::TMP))
        && session.path_var("TMPDIR").is_none_or(|path| is_same_at(&path))
}

/// Whether `directory` exists inside and is writable. In a private `/tmp`, only `/tmp` itself
/// exists.
fn exists_writable(plan: &Plan, directory: &AbsPath) -> bool {
    match plan.view(directory) {
        View::HostRw => true,
        View::Fresh => directory.as_path() == places::TMP,
        _ => false,
    }
}

/// The entries of one layer.
struct EnvLayer<'a> {
    kind: LayerKind,
    /// Values, each with its origin.
    set: BTreeMap<&'a OsStr, (&'a OsStr, &'a Origin)>,
    unset: Vec<(NamePattern, Origin)>,
    /// Words of credentials (SPEC E11). A name that equals such a word, or ends in it, counts as
    /// unset.
    words: Vec<(&'static str, Origin)>,
    pass: Vec<(NamePattern, Origin)>,
    /// Names that `unset` matches but does not drop.
    kept: Vec<&'static str>,
}

impl<'a> EnvLayer<'a> {
    fn empty(kind: LayerKind) -> Self {
        Self { kind, set: BTreeMap::new(), unset: Vec::new(), words: Vec::new(), pass: Vec::new(), kept: Vec::new() }
    }

    /// The entries of built-in presets (SPEC E11): `@secrets` drops names that look like
    /// credentials, except the names that `@agents` keeps. A kept name passes like any other name:
    /// with `inherit = false` it needs a `pass`. A preset that only a file above the root names
    /// keeps nothing (SPEC L4).
    fn of_presets(policy: &Policy) -> Self {
        let mut layer = Self::empty(LayerKind::Preset);
        for preset in policy.presets.keys().filter_map(|name| builtin::get(name)) {
            let opens = !policy.protective_presets.contains(preset.name);
            for group in preset.variables {
                let origin = |name: &'static str| Origin::Preset { name: preset.name, path: name };
                match group.effect {
                    VariableEffect::Drop | VariableEffect::DropWord if ablate::is_off(Mitigation::SecretsPreset) => {}
                    VariableEffect::DropWord => layer
                        .words
                        .extend(group.names.iter().filter_map(|name| Some((name.strip_prefix("*_")?, origin(name))))),
                    // A test checks that all these names are valid patterns.
                    VariableEffect::Drop => layer
                        .unset
                        .extend(group.names.iter().filter_map(|name| Some((built_in_pattern(name)?, origin(name))))),
                    VariableEffect::Keep if opens => layer.kept.extend(group.names),
                    // `built_in` reads the variables that presets set from `plan.variables`.
                    VariableEffect::Keep | VariableEffect::Set { .. } => {}
                }
            }
        }
        layer
    }

    fn built_in(session: &Session, policy: &Policy, plan: &'a Plan) -> Self {
        let applies = |when: When| match when {
            When::Always => true,
            When::DockerIs(on) => policy.docker.value == on,
            When::Has(name) => session.env.contains_key(OsStr::new(name)),
        };
        let patterns = |defaults: &'static [defaults::Default]| -> Vec<(NamePattern, Origin)> {
            let in_force = defaults.iter().filter(|default| applies(default.when));
            let each = in_force.flat_map(|default| default.names.iter().map(|name| (*name, default.why)));
            // A test checks that all these names are valid patterns.
            each.filter_map(|(name, why)| Some((built_in_pattern(name)?, Origin::BuiltIn(why)))).collect()
        };
        let (unset, pass) = (patterns(defaults::UNSET), patterns(defaults::PASS));
        // A folder in the host's `/tmp` could be another user's.
        let is_private = plan.view(&places::at(places::TMP)) == View::Fresh;
        let is_safe = |value: &OsStr| is_private || !Path::new(value).starts_with(places::TMP);
        let counts = |variable: &&PresetVariable| {
            !session.env.contains_key(OsStr::new(&variable.name)) && is_safe(&variable.value)
        };
        let set = plan.variables.iter().filter(counts);
        let set = set.map(|PresetVariable { name, value, origin }| (OsStr::new(name), (value.as_os_str(), origin)));
        Self { set: set.collect(), unset, pass, ..Self::empty(LayerKind::Preset) }
    }

    /// Adds the entries of a file. A file above the root can only forbid.
    fn add(&mut self, layer: &'a Layer, diagnostics: &mut Diagnostics) {
        let env = &layer.config.env;
        self.unset.extend(patterns(&env.unset, diagnostics));
        let pass = patterns(&env.pass, diagnostics);
        let allowed = |(name, given): &(&String, &Sourced<String>)| match reserved(name) {
            None => true,
            Some(found) => {
                let message = format!("`{}` {}", escape_for_display(OsStr::new(name)), found.why);
                diagnostics.push(Diagnostic::new(Code::ReservedVariable, message).at(&given.origin).help(found.help));
                false
            }
        };
        let set: Vec<_> = env.set.iter().filter(allowed).collect();
        if !layer.protective_only {
            self.pass.extend(pass);
            let entry = |(name, given): (&'a String, &'a Sourced<String>)| {
                (OsStr::new(name), (OsStr::new(&given.value), &given.origin))
            };
            self.set.extend(set.into_iter().map(entry));
        }
    }

    /// The fate of a variable with its value and the reason, if this layer names it. `own` is the
    /// caller's value: a `pass` of a variable that the caller lacks does not count.
    fn fate<'v>(&'v self, name: &OsStr, own: Option<&'v OsStr>) -> Option<(Fate, Option<&'v OsStr>, &'v Origin)> {
        let set = self.set.get(name).map(|(value, because)| (Fate::Set, Some(*value), *because));
        let is_kept = || self.kept.iter().any(|kept| name == *kept);
        let unset = || naming(&self.unset, name).or_else(|| word_of(&self.words, name));
        let unset = || unset().map(|because| (Fate::Dropped, None, because));
        let unset = || unset().filter(|_| !is_kept());
        let pass = || naming(&self.pass, name).filter(|_| own.is_some()).map(|because| (Fate::Passed, own, because));
        set.or_else(unset).or_else(pass)
    }
}

/// The first entry that names the variable.
fn naming<'e>(entries: &'e [(NamePattern, Origin)], name: &OsStr) -> Option<&'e Origin> {
    entries.iter().find(|(pattern, _)| pattern.matches(name)).map(|(_, origin)| origin)
}

/// The first word that the name equals, or that ends the name after a `_`. Case does not matter.
fn word_of<'e>(words: &'e [(&'static str, Origin)], name: &OsStr) -> Option<&'e Origin> {
    let name = name.as_bytes();
    let is_it = |word: &str| {
        let Some((before, end)) = name.len().checked_sub(word.len()).map(|at| name.split_at(at)) else { return false };
        end.eq_ignore_ascii_case(word.as_bytes()) && before.last().is_none_or(|last| *last == b'_')
    };
    words.iter().find(|(word, _)| is_it(word)).map(|(_, origin)| origin)
}

fn patterns(names: &[Sourced<String>], diagnostics: &mut Diagnostics) -> Vec<(NamePattern, Origin)> {
    let mut patterns = Vec::new();
    for Sourced { value, origin } in names {
        match NamePattern::parse(OsStr::new(value)) {
            Ok(pattern) => patterns.push((pattern, origin.clone())),
            Err(problem) => {
                let message = format!("`{}` is not a valid pattern: {problem}", escape_for_display(OsStr::new(value)));
                let help =
                    "put `\\` before a character to take it as it is: `*`, `?`, `[…]` and `{a,b}` have a meaning";
                diagnostics.push(Diagnostic::new(Code::InvalidPattern, message).at(origin).help(help));
            }
        }
    }
    patterns
}

fn built_in_pattern(text: &'static str) -> Option<NamePattern> {
    NamePattern::built_in(text).ok()
}

/// The reason why `set` cannot take this name.
fn reserved(name: &str) -> Option<&'static defaults::Reserved> {
    let matches = |text: &&'static str| built_in_pattern(text).is_some_and(|pattern| pattern.matches(OsStr::new(name)));
    defaults::RESERVED.iter().find(|reserved| reserved.names.iter().any(matches))
}

#[cfg(test)]
mod tests;
