//! Merges the layers into one policy: the rules of the presets, the rules that users wrote, and
//! for each setting the value of the layer that decides it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::config::{BaseTree, Entry, Filesystem, Home, RuleKind, Tmp};
use crate::compile::identity::GitIdentity;
use crate::compile::layers::{Layer, Layers, Project};
use crate::compile::limits;
use crate::compile::own_places;
use crate::compile::presets::{self, Expanded};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Session;
use crate::policy::{
    AbsPath, Access, HardLinks, IfMissing, LayerKind, Limit, LimitKind, Origin, Protection, Rule, Sourced, places,
    private,
};
use crate::sys::ablate::{self, Mitigation};

/// The whole policy, before the host is read: the rules of all layers, and the settings that won.
#[derive(Clone, Debug)]
pub struct Policy {
    pub rules: Vec<Arc<Rule>>,
    pub network: Setting<bool>,
    pub docker: Setting<bool>,
    pub sockets: Vec<Rule>,
    pub injections: Vec<Injection>,
    pub tmp: Setting<Tmp>,
    pub home: Setting<Home>,
    pub base: Setting<BaseTree>,
    pub identity: Setting<GitIdentity>,
    pub nested: Setting<bool>,
    /// Protections that the policy requires, each with its origin. No later file can remove a
    /// requirement.
    pub require: BTreeMap<Protection, Origin>,
    /// The limits in force. A private `/tmp` always has one.
    pub limits: BTreeMap<LimitKind, Setting<Limit>>,
    /// The size of each writable file system of the sandbox's own: that of `/tmp`, or its default.
    pub own_size: u64,
    /// Whether variables of the caller that no entry names pass.
    pub inherit: Setting<bool>,
    /// The presets in force and the layer that named each, for `--debug`.
    pub presets: BTreeMap<String, LayerKind>,
    /// The `presets` that open nothing, because only files above the root name them.
    pub protective_presets: BTreeSet<String>,
}

/// An injection as it was written, before the host is read (SPEC section 27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    pub content: InjectedContent,
    /// The target as written.
    pub to: OsString,
    /// The folder that a relative path starts from.
    pub base: AbsPath,
    /// Nothing is injected if one of these paths exists.
    pub unless: &'static [&'static str],
    pub layer: LayerKind,
    /// The place where the content was written.
    pub from_origin: Origin,
    pub origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InjectedContent {
    /// The file or folder at this path, as written.
    From(OsString),
    Text(Arc<[u8]>),
}

/// A setting and the layer that decided it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Setting_of_{T}", description = "A setting, and the layer that decided it.")]
pub struct Setting<T> {
    pub value: T,
    pub layer: LayerKind,
    #[serde(rename = "whence")]
    pub origin: Origin,
}

impl Policy {
    pub fn of(layers: &Layers, session: &Session, diagnostics: &mut Diagnostics) -> Self {
        let Expanded { mut rules, layers: presets, protective_only } = presets::expand(layers, diagnostics);
        if let Some(home) = layers.project.password_home.as_ref().filter(|_| !ablate::is_off(Mitigation::PasswordHome))
        {
            let hidden: Vec<_> = rules.iter().filter_map(|rule| hidden_there_too(rule, home)).map(Arc::new).collect();
            rules.extend(hidden);
        }
        rules.extend(layers.layers.iter().flat_map(written_rules).map(Arc::new));
        if session.is_root() {
            rules.extend(password_hashes().map(Arc::new));
        }
        refuse_unsafe_root(&rules, &layers.project, diagnostics);
        let settings = Self::settings(layers, session);
        if settings.tmp.value == Tmp::Host {
            let origin = settings.tmp.origin.clone();
            rules.push(Arc::new(Rule::exact(Access::Rw, places::at(places::TMP), LayerKind::Base, origin)));
        }
        let own = own_places::rules(&settings.home, &settings.base, &layers.project, session, diagnostics);
        rules.extend(own.into_iter().map(Arc::new));
        let mut policy = Self { rules, presets, protective_presets: protective_only, ..settings };
        policy.inject_for_presets(&layers.project);
        policy
    }

    /// A policy without rules and presets.
    fn settings(layers: &Layers, session: &Session) -> Self {
        let required = layers.layers.iter().flat_map(|layer| &layer.config.require);
        let tmp = setting(layers, Tmp::Private, Tmp::Private, "`/tmp` is private by default", |l| {
            l.config.filesystem.tmp.as_ref()
        });
        let why = "all folders of the host are visible by default";
        let base = setting(layers, BaseTree::Host, BaseTree::Minimal, why, |l| l.config.filesystem.base.as_ref());
        let (home, why) = match base.value {
            BaseTree::Host => (Home::Host, "the host's home is visible by default"),
            BaseTree::Minimal => (Home::Private, "the home is private in a minimal base"),
        };
        let limits = limits::of(layers, session, tmp.value);
        let of_tmp = limits.get(&LimitKind::Tmp).map(|limit| limit.value.amount());
        Self {
            rules: Vec::new(),
            own_size: of_tmp.unwrap_or_else(|| limits::default_tmp(session)),
            home: setting(layers, home, Home::Private, why, |l| l.config.filesystem.home.as_ref()),
            base,
            network: setting(layers, true, false, "the network is on by default", |l| l.config.network.as_ref()),
            docker: setting(layers, false, false, "docker is off by default", |l| l.config.docker.as_ref()),
            sockets: layers.layers.iter().flat_map(socket_rules).collect(),
            injections: layers.layers.iter().flat_map(written_injections).collect(),
            limits,
            tmp,
            nested: setting(layers, false, false, "no user namespaces by default", |l| l.config.nested.as_ref()),
            identity: setting(
                layers,
                GitIdentity::Host,
                GitIdentity::None,
                "git has the user's identity by default",
                |l| l.config.git.identity.as_ref(),
            ),
            require: required.map(|Sourced { value, origin }| (*value, origin.clone())).collect(),
            inherit: setting(layers, true, false, "the environment passes by default", |l| {
                l.config.env.inherit.as_ref()
            }),
            presets: BTreeMap::new(),
            protective_presets: BTreeSet::new(),
        }
    }

    /// The policy without one of its files. `layers` are the layers without that file, and
    /// `is_left_out` tells which rules come from it. The file must not name or define presets, and
    /// must not set `tmp`, `home` or `base`.
    pub(crate) fn without_rules(
        &self,
        layers: &Layers,
        session: &Session,
        is_left_out: impl Fn(&Rule) -> bool,
    ) -> Self {
        let rules = self.rules.iter().filter(|rule| !is_left_out(rule)).cloned().collect();
        let (presets, protective_presets) = (self.presets.clone(), self.protective_presets.clone());
        let mut policy = Self { rules, presets, protective_presets, ..Self::settings(layers, session) };
        policy.inject_for_presets(&layers.project);
        policy
    }

    /// Adds the injections of built-in presets. Files above the root inject nothing (SPEC L4).
    fn inject_for_presets(&mut self, project: &Project) {
        let names = self.presets.keys().filter(|name| !self.protective_presets.contains(*name));
        self.injections.extend(names.flat_map(|name| presets::injections(name, project)));
    }

    /// Drops everything that needs a placeholder: blocks of missing paths, and second places.
    pub(crate) fn put_nothing_up(&mut self) {
        for rule in &mut self.rules {
            if rule.if_missing == IfMissing::Block {
                Arc::make_mut(rule).if_missing = IfMissing::Skip;
            }
            if rule.refinements.second_place.is_some() {
                Arc::make_mut(rule).refinements.second_place = None;
            }
        }
    }
}

/// For a scalar the later layer wins (SPEC L2). A file above the root can only forbid (SPEC L4).
fn setting<T: Clone + PartialEq>(
    layers: &Layers,
    default: T,
    strict: T,
    why: &'static str,
    of: impl Fn(&Layer) -> Option<&Sourced<T>>,
) -> Setting<T> {
    let counts = |layer: &Layer, value: &T| !layer.protective_only || *value == strict;
    let decided = layers.layers.iter().rev().find_map(|layer| {
        let Sourced { value, origin } = of(layer).filter(|written| counts(layer, &written.value))?;
        Some(Setting { value: value.clone(), layer: layer.kind, origin: origin.clone() })
    });
    decided.unwrap_or(Setting { value: default, layer: LayerKind::Preset, origin: Origin::BuiltIn(why) })
}

fn written_rules(layer: &Layer) -> impl Iterator<Item = Rule> {
    let Filesystem { ro, rw, exclude, private, .. } = &layer.config.filesystem;
    let by_access = [(Access::Ro, ro), (Access::Exclude, exclude), (Access::Rw, rw)];
    let by_access = by_access.map(|(access, entries)| (RuleKind::Plain(access), entries));
    let all = by_access.into_iter().chain([(RuleKind::Private, private)]);
    let rules = all.flat_map(|(kind, entries)| rules_of(kind, entries, layer.kind, &layer.base));
    rules.filter_map(|rule| if layer.protective_only { forbidding(rule) } else { Some(rule) })
}

/// Keeps a rule of a file above the root only if it forbids (SPEC L4).
pub(super) fn forbidding(rule: Rule) -> Option<Rule> {
    rule.access.is_protective().then_some(Rule { hard_links: HardLinks::Refuse, ..rule })
}

/// The rules of `entries`, whose relative paths start at `base`.
pub(super) fn rules_of(
    kind: RuleKind,
    entries: &[Entry],
    layer: LayerKind,
    base: &AbsPath,
) -> impl Iterator<Item = Rule> {
    let (access, private) = match kind {
        RuleKind::Plain(access) => (access, None),
        // The host's file is read-only.
        RuleKind::Private => (Access::Ro, Some(&private::OF_USER)),
    };
    entries.iter().map(move |entry| Rule {
        private,
        if_missing: entry.if_missing,
        hard_links: entry.hard_links,
        ..Rule::written(access, entry.path.clone(), base.clone(), layer, entry.origin.clone())
    })
}

/// The injections that a layer names. A file above the root injects nothing (SPEC L4).
fn written_injections(layer: &Layer) -> impl Iterator<Item = Injection> {
    let written = layer.config.inject.iter().filter(|_| !layer.protective_only);
    written.filter_map(|entry| {
        let content = match (&entry.from, &entry.text) {
            (Some(from), _) => InjectedContent::From(from.clone()),
            (None, Some(text)) => InjectedContent::Text(text.as_bytes().into()),
            (None, None) => return None,
        };
        let (to, base, layer) = (entry.to.clone(), layer.base.clone(), layer.kind);
        let (from_origin, origin) = (entry.from_origin.clone(), entry.origin.clone());
        Some(Injection { content, to, base, unless: &[], layer, from_origin, origin })
    })
}

/// Sockets that a layer allows. A file above the root allows none (SPEC L4).
fn socket_rules(layer: &Layer) -> impl Iterator<Item = Rule> {
    let allowed = layer.config.sockets.iter().filter(|_| !layer.protective_only);
    allowed.map(|written| Rule {
        text: written.value.clone().into(),
        // A socket that the command may use needs no protection of its other names.
        hard_links: HardLinks::Allow,
        shows_socket: true,
        // Connecting works through a read-only mount, and changing the socket's mode does not.
        ..Rule::exact(Access::Ro, layer.base.clone(), layer.kind, written.origin.clone())
    })
}

/// The rule that hides the same path in the home `home`, if `rule` belongs to a built-in preset and
/// hides a path of the home.
fn hidden_there_too(rule: &Rule, home: &AbsPath) -> Option<Rule> {
    let below_home = rule.text.as_bytes().strip_prefix(b"~/")?;
    let hides = rule.layer == LayerKind::Preset && rule.access == Access::Exclude;
    let text = OsStr::from_bytes(below_home).to_owned();
    hides.then(|| Rule { text, base: home.clone(), ..rule.clone() })
}

/// Hides from root the password hashes, which no user can read.
fn password_hashes() -> [Rule; 2] {
    let origin = Origin::BuiltIn("password hashes are hidden from root");
    ["etc/shadow*", "etc/gshadow*"].map(|text| Rule {
        text: text.into(),
        ..Rule::exact(Access::Exclude, AbsPath::root(), LayerKind::Preset, origin.clone())
    })
}

/// SPEC L6: a preset must not open a whole home by accident. A rule of the user may.
fn refuse_unsafe_root(rules: &[Arc<Rule>], project: &Project, diagnostics: &mut Diagnostics) {
    if let Some(rule) = rules.iter().find(|rule| opens_unsafe_root(rule, project)) {
        let message =
            format!("`{}` is too broad a project: {} would make all of it writable", project.root, rule.origin);
        let help = "start in the folder of one project, or take `@base` out with `--preset '!base'`";
        diagnostics.push(Diagnostic::new(Code::UnsafeRoot, message).help(help));
    }
}

/// Whether `rule` belongs to a preset and makes an unsafe root writable (SPEC L6).
pub(crate) fn opens_unsafe_root(rule: &Rule, project: &Project) -> bool {
    let opens_root =
        rule.access == Access::Rw && rule.layer == LayerKind::Preset && rule.base == project.root && rule.text == ".";
    opens_root && project.has_unsafe_root()
}
