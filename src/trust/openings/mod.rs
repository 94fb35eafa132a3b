//! Compares two policies: lists everything that one opens beyond the other, at every path and in
//! every setting. The comparison reads nothing from the host.
//!
//! The comparison goes one way. A policy narrows exactly those things that the other opens beyond
//! it. `trust` compares the policy without the project's file with the full policy, and `diff`
//! compares in both directions.

mod presets;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::environment::Environment;
use crate::compile::plan::{BindKind, Mount, Plan, PlannedMount, Purpose, View};
use crate::compile::policy::Setting;
use crate::compile::resolve::Match;
use crate::host::FileKind;
use crate::policy::rule::display_as_in_json;
use crate::policy::{AbsPath, Access, HardLinks, LayerKind, Limit, LimitKind, Origin, Word};

pub(crate) use presets::{is_of_preset, reference};

/// The degree to which a path of the host is open to a command, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Openness {
    /// Nothing: a mask or a private place covers it.
    Hidden,
    /// A copy of the file without its credentials.
    Redacted,
    ReadOnly,
    Writable,
}

impl From<View> for Openness {
    fn from(view: View) -> Self {
        match view {
            View::HostRw => Openness::Writable,
            View::HostRo => Openness::ReadOnly,
            View::Redacted => Openness::Redacted,
            View::Masked | View::Injected | View::Fresh | View::Dev | View::Proc => Openness::Hidden,
        }
    }
}

display_as_in_json!(Openness);

/// A difference between two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Change")]
pub struct PolicyChange {
    pub what: Subject,
    pub old: Side,
    pub new: Side,
}

/// The subject of a difference. The two policies differ in this way at the `path` itself. A folder
/// includes all paths below it that differ in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Subject {
    /// The host's network.
    Network,
    /// The container engine's socket, which is as good as root.
    Docker,
    /// User namespaces inside.
    Nested,
    /// Whether variables that no entry names pass.
    Inherit,
    /// A limit of the command's resources.
    Limit { limit: LimitKind },
    /// A protection that the policy insists on: `guard`, `seccomp` or `landlock`.
    Requirement { protection: String },
    /// A variable of the environment.
    Variable { name: Word },
    /// A preset that is on in only one of the two policies, and whose rules decide about a path at
    /// which the policies differ.
    Preset { name: String },
    /// A protected file that has other names (hard links), by which it is not protected.
    OtherNames { path: AbsPath },
    /// A directory that is made on the host before the start.
    Created { path: AbsPath },
    /// Device nodes at this path and below it.
    Device { path: AbsPath },
    /// Another content that the command reads at this path.
    Injection { path: AbsPath },
    /// A socket of the host.
    Socket { path: AbsPath },
    /// The host's files at this path and below it.
    Path { path: AbsPath },
}

/// The state of the subject under one of the two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Side {
    pub is: DiffState,
    /// The origin of the rule or setting that decides it, if there is one.
    pub rule: Option<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "State", rename_all = "kebab-case")]
pub enum DiffState {
    Off,
    On,
    /// The command may use this much.
    AtMost(Limit),
    /// The command may use any amount.
    Unlimited,
    Required,
    NotRequired,
    /// The command does not have the variable.
    Absent,
    /// The command has the variable. If both sides are `given`, the values differ.
    Given,
    /// Other names of the file are not accepted.
    NotAccepted,
    Accepted,
    Missing,
    Created,
    /// Nothing of the host is visible.
    Hidden,
    /// A private place is there instead of the host's folder.
    Private,
    /// Nothing is there, and nothing can be created there.
    Blocked,
    /// A copy of the file without its credentials can be read.
    Redacted,
    /// Another content can be read instead of the host's.
    Injected,
    ReadOnly,
    Writable,
    /// The device or the socket can be used.
    Usable,
}

impl fmt::Display for DiffState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiffState::AtMost(limit) => f.write_str(&limit.value()),
            DiffState::NotRequired => f.write_str("not required"),
            DiffState::NotAccepted => f.write_str("not accepted"),
            DiffState::Usable => f.write_str("can be used"),
            // The other names in JSON are words.
            _ => self.serialize(f),
        }
    }
}

/// All that `after` opens beyond `before`: settings first, then paths, parents before children.
pub fn openings(before: &Compiled, after: &Compiled) -> Vec<PolicyChange> {
    use DiffState::{Hidden, Usable};
    let sides = [Compared::of(before), Compared::of(after)];
    let comparison = Comparison { before, after, sides };
    let devices = comparison.devices();
    let paths = comparison.paths(&devices);
    let mut openings = comparison.settings();
    openings.extend(comparison.variables());
    openings.extend(comparison.presets(&paths));
    openings.extend(comparison.other_names());
    openings.extend(comparison.created());
    openings.extend(comparison.injections());
    let device = |path: &AbsPath| Subject::Device { path: path.clone() };
    openings.extend(devices.into_iter().map(|path| comparison.at(path, device(path), [Hidden, Usable])));
    openings.extend(paths.into_iter().map(|(path, (what, states))| comparison.at(path, what, states)));
    openings
}

/// The paths that are more open, each with its states on both sides.
type OpenedPaths<'a> = BTreeMap<&'a AbsPath, (Subject, [DiffState; 2])>;

struct Comparison<'a> {
    before: &'a Compiled,
    after: &'a Compiled,
    /// The two policies, each with an index of its mounts and placeholders.
    sides: [Compared<'a>; 2],
}

impl<'a> Comparison<'a> {
    fn at(&self, path: &AbsPath, what: Subject, states: [DiffState; 2]) -> PolicyChange {
        change(what, states, self.sides.each_ref().map(|side| Some(side.governing(path))))
    }

    /// `tmp = "host"` is a rule on `/tmp`, so it is among the paths.
    fn settings(&self) -> Vec<PolicyChange> {
        use DiffState::{AtMost, NotRequired, Off, On, Required, Unlimited};
        let (before, after) = (&self.before.policy, &self.after.policy);
        let switches: [(Subject, &Setting<bool>, &Setting<bool>); 4] = [
            (Subject::Network, &before.network, &after.network),
            (Subject::Docker, &before.docker, &after.docker),
            (Subject::Nested, &before.nested, &after.nested),
            (Subject::Inherit, &before.inherit, &after.inherit),
        ];
        let on = switches.into_iter().filter(|(_, before, after)| !before.value && after.value);
        let on = on.map(|(what, before, after)| {
            change(what, [Off, On], [before, after].map(|setting| Some(setting.origin.clone())))
        });
        let raised = before.limits.iter().filter_map(|(kind, before)| {
            let after = after.limits.get(kind);
            let is_raised = after.is_none_or(|after| after.value > before.value);
            let states = [AtMost(before.value), after.map_or(Unlimited, |after| AtMost(after.value))];
            let origins = [Some(before.origin.clone()), after.map(|after| after.origin.clone())];
            is_raised.then(|| change(Subject::Limit { limit: *kind }, states, origins))
        });
        let dropped = before.require.iter().filter(|(protection, _)| !after.require.contains_key(protection));
        let dropped = dropped.map(|(protection, origin)| {
            let what = Subject::Requirement { protection: protection.to_string() };
            change(what, [Required, NotRequired], [Some(origin.clone()), None])
        });
        on.chain(raised).chain(dropped).collect()
    }

    fn variables(&self) -> impl Iterator<Item = PolicyChange> {
        let (before, after) = (&self.before.environment, &self.after.environment);
        let changed = after.variables.iter().filter(|(name, value)| before.variables.get(*name) != Some(value));
        changed.map(|(name, _)| {
            let because = |side: &Environment| side.outcomes.get(name).map(|outcome| outcome.because.clone());
            let was = if before.variables.contains_key(name) { DiffState::Given } else { DiffState::Absent };
            let what = Subject::Variable { name: Word(name.clone()) };
            change(what, [was, DiffState::Given], [because(before), because(after)])
        })
    }

    /// Protected files with other names that `after` accepts, unless it is stricter about this
    /// name.
    fn other_names(&self) -> impl Iterator<Item = PolicyChange> {
        let accepted = self.after.decisions.iter().filter(|(path, decision)| {
            let accepts = decision.access.is_protective() && decision.names > 1;
            let was_accepted =
                || self.before.decisions.get(path).is_some_and(|known| known.hard_links == HardLinks::Allow);
            accepts
                && decision.hard_links == HardLinks::Allow
                && !was_accepted()
                && openness(&self.before.plan, path) <= openness(&self.after.plan, path)
        });
        accepted.map(|(path, decision)| {
            let what = Subject::OtherNames { path: path.clone() };
            let rules = [self.sides[0].governing(path), decision.origin.clone()].map(Some);
            change(what, [DiffState::NotAccepted, DiffState::Accepted], rules)
        })
    }

    /// The paths that are more open. The view of a plan changes only at its borders, so the
    /// borders of both plans cover every difference. A path is left out if the nearest border
    /// above it opens in the same way.
    ///
    /// A socket is always listed, even where a folder around it opens in the same way:
    /// a command that sees a socket can do more than read.
    fn paths(&self, devices: &[&AbsPath]) -> OpenedPaths<'a> {
        let borders = self.before.plan.borders().chain(self.after.plan.borders());
        let sockets = self.after.decisions.iter().filter(|(path, decision)| self.shows_socket(path, decision));
        let borders: BTreeSet<&AbsPath> = borders.chain(sockets.map(|(path, _)| path)).collect();
        // Our own folder of private copies, while it does not exist. Once it exists, every policy
        // hides it.
        let ours = self.before.missing_private_folder();
        let mut around: Vec<(&AbsPath, (View, View))> = Vec::new();
        let mut opened = BTreeMap::new();
        for path in borders {
            let here = (self.before.plan.view(path), self.after.plan.view(path));
            while around.pop_if(|(at, _)| !path.is_within(at)).is_some() {}
            let is_said = around.last().is_some_and(|(_, around)| *around == here);
            around.push((path, here));
            let from = Openness::from(here.0);
            if Openness::from(here.1) <= from
                || self.is_by_the_way(path)
                || ours.as_ref() == Some(path)
                || devices.iter().any(|device| path.is_within(device))
            {
                continue;
            }
            let at = path.clone();
            let decided = self.after.decisions.get(path);
            let is_socket = || decided.is_some_and(|decision| self.shows_socket(path, decision));
            if from == Openness::Hidden && is_socket() {
                opened.insert(path, (Subject::Socket { path: at }, [DiffState::Hidden, DiffState::Usable]));
            } else if !is_said {
                let states = self.sides.each_ref().map(|side| side.state(path));
                opened.insert(path, (Subject::Path { path: at }, states));
            }
        }
        opened
    }

    /// Whether this is the socket of a service that ended between the two compilations, so that no
    /// rule removed its mask.
    fn is_by_the_way(&self, path: &AbsPath) -> bool {
        self.before.decisions.get(path).is_some_and(hides_service) && self.after.decisions.get(path).is_none()
    }

    /// Whether `decision`, of `after`, shows a socket. A command that sees a socket can use it:
    /// `ro` or `rw` makes no difference.
    fn shows_socket(&self, path: &AbsPath, decision: &Decision) -> bool {
        let is_open = decision.access != Access::Exclude && decision.kind == FileKind::File;
        let is_engine = || decision.origin == self.after.policy.docker.origin;
        let was_hidden = || self.before.decisions.get(path).is_some_and(hides_service);
        let is_service = || decision.losers.iter().any(Match::is_of_a_service) || was_hidden();
        is_open && (decision.shows_socket || is_engine() || is_service())
    }

    /// The paths at which `after` injects something else than `before`.
    fn injections(&self) -> impl Iterator<Item = PolicyChange> {
        let at = |compiled: &'a Compiled, path| compiled.decisions.get(path).and_then(|it| it.injected.as_ref());
        let injected = self.after.decisions.iter().map(|(path, _)| path).filter(move |path| {
            let now = at(self.after, path);
            now.is_some() && now != at(self.before, path)
        });
        injected.map(|path| {
            let states = [self.sides[0].state(path), DiffState::Injected];
            self.at(path, Subject::Injection { path: path.clone() }, states)
        })
    }

    fn devices(&self) -> Vec<&'a AbsPath> {
        let before: Vec<&AbsPath> = with_devices(&self.before.plan).collect();
        let is_new = |path: &&AbsPath| !before.iter().any(|known| path.is_within(known));
        with_devices(&self.after.plan).filter(is_new).collect()
    }

    /// Directories that are created where the command could not create them itself. Our own
    /// directories come from no rule.
    fn created(&self) -> impl Iterator<Item = PolicyChange> {
        let is_ours = |path: &AbsPath| self.after.layers.own_files.iter().any(|own| own.path == *path);
        let is_new = move |path: &&AbsPath| {
            !self.sides[0].created.contains(path)
                && !is_ours(path)
                && openness(&self.before.plan, path) != Openness::Writable
        };
        let created = self.after.resolution.create.iter().filter(is_new);
        let states = [DiffState::Missing, DiffState::Created];
        created.map(move |path| self.at(path, Subject::Created { path: path.clone() }, states))
    }
}

fn change(what: Subject, [was, is]: [DiffState; 2], [before, after]: [Option<Origin>; 2]) -> PolicyChange {
    PolicyChange { what, old: Side { is: was, rule: before }, new: Side { is, rule: after } }
}

pub(crate) fn openness(plan: &Plan, path: &AbsPath) -> Openness {
    Openness::from(plan.view(path))
}

pub(crate) fn hides_service(decision: &Decision) -> bool {
    decision.layer == LayerKind::Base && decision.access == Access::Exclude && !decision.is_own_place()
}

fn with_devices(plan: &Plan) -> impl Iterator<Item = &AbsPath> {
    let shows = |planned: &&PlannedMount| matches!(planned.mount, Mount::Bind { kind: BindKind::WithDevices, .. });
    plan.mounts.iter().filter(shows).map(|planned| &planned.path)
}

pub(crate) fn origin_of<'c>(compiled: &'c Compiled, path: &AbsPath) -> Option<&'c Origin> {
    compiled.decisions.governing(path).map(|(_, decision)| &decision.origin)
}

/// A policy, with an index of its mounts and placeholders, because it can have tens of thousands.
struct Compared<'a> {
    compiled: &'a Compiled,
    /// The last mount at each path, by its index.
    mounts: HashMap<&'a AbsPath, usize>,
    placeholders: HashSet<&'a AbsPath>,
    created: HashSet<&'a AbsPath>,
}

impl<'a> Compared<'a> {
    fn of(compiled: &'a Compiled) -> Self {
        let is_seen = |planned: &PlannedMount| {
            !matches!(planned.purpose, Purpose::Pin { .. })
                && !matches!(planned.mount, Mount::RemountReadOnly | Mount::Directory { .. })
        };
        let mounts = compiled.plan.mounts.iter().enumerate().filter(|(_, planned)| is_seen(planned));
        Self {
            compiled,
            mounts: mounts.map(|(index, planned)| (&planned.path, index)).collect(),
            placeholders: compiled.plan.placeholders.iter().map(|placeholder| &placeholder.path).collect(),
            created: compiled.resolution.create.iter().collect(),
        }
    }

    /// The origin of the rule that governs `path`, or of the base mount that shows it.
    fn governing(&self, path: &AbsPath) -> Origin {
        // The last mount that contains a path is the visible one.
        let last = path.ancestors().filter_map(|at| self.mounts.get(&at)).max();
        let mount = last.and_then(|index| self.compiled.plan.mounts.get(*index));
        let decided = self.compiled.decisions.governing(path);
        match (mount, decided) {
            (None, None) => Origin::BuiltIn("the host is read-only"),
            (None, Some((_, decision))) => decision.origin.clone(),
            (Some(mount), None) => mount.because.clone(),
            (Some(mount), Some((at, decision))) => {
                // A decision that changes nothing has no mount, but still decides.
                let is_part_of_all = mount.purpose == Purpose::Base && !matches!(mount.mount, Mount::DataFile { .. });
                let is_nearer = at.is_below(&mount.path) || (is_part_of_all && *at == mount.path);
                if is_nearer { decision.origin.clone() } else { mount.because.clone() }
            }
        }
    }

    fn state(&self, path: &AbsPath) -> DiffState {
        let view = self.compiled.plan.view(path);
        match Openness::from(view) {
            _ if view == View::Injected => DiffState::Injected,
            Openness::Writable => DiffState::Writable,
            _ if self.placeholders.contains(path) => DiffState::Blocked,
            Openness::ReadOnly => DiffState::ReadOnly,
            Openness::Redacted => DiffState::Redacted,
            Openness::Hidden if view == View::Masked => DiffState::Hidden,
            Openness::Hidden => DiffState::Private,
        }
    }
}
