//! Compares two policies: lists everything that one opens beyond the other, at every path and in
//! every setting. Pure.
//!
//! The comparison goes one way. A policy narrows exactly those things that the other opens beyond
//! it. `trust` asks what a project's file opens beyond the policy without that file, and `diff`
//! asks both ways round.

mod presets;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::environment::Environment;
use crate::compile::plan::{BindKind, Mount, Plan, View};
use crate::compile::policy::Setting;
use crate::compile::resolve::Match;
use crate::host::FileKind;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::policy::rule::{Access, HardLinks, LayerKind, Protection};

pub(crate) use presets::{is_of_preset, reference};
pub(crate) use rules::{governing, origin_of};

/// How much of the host a command gets at a path, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Openness {
    /// Nothing, whether a mask or a place of the sandbox's own stands there.
    Hidden,
    ReadOnly,
    Writable,
}

impl From<View> for Openness {
    fn from(view: View) -> Self {
        match view {
            View::HostRw => Openness::Writable,
            View::HostRo => Openness::ReadOnly,
            View::Masked | View::Fresh | View::Dev | View::Proc => Openness::Hidden,
        }
    }
}

impl fmt::Display for Openness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Openness::Hidden => "hidden",
            Openness::ReadOnly => "read-only",
            Openness::Writable => "writable",
        })
    }
}

/// One thing that a policy opens beyond another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    Network,
    Docker,
    Nested,
    /// Variables of the caller that nothing names pass.
    Inherit,
    /// A protection that is no longer insisted on.
    Requirement(Protection),
    /// A variable that the command would not have, or, if it `had_another`, with another value.
    Variable {
        name: Word,
        had_another: bool,
    },
    /// A protected file that has other names, by which it is not protected.
    OtherNames(AbsPath),
    /// A preset is off whose rules kept closed a path that is open now.
    PresetOff(String),
    /// A preset is on whose rules open a path that was closed.
    PresetOn(String),
    /// A directory is made outside of what was writable anyway.
    Create(AbsPath),
    /// Device nodes at this path and below it work.
    Device(AbsPath),
    /// A socket that was hidden shows, and can be used, whatever the mount says about writing.
    Socket(AbsPath),
    /// The host's content at this path and below it that was `from` is now `to`.
    Path {
        path: AbsPath,
        from: Openness,
        to: Openness,
    },
}

/// One thing that is opened, with the rules that decide it on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub opened: Opened,
    pub before: Option<Origin>,
    pub after: Option<Origin>,
}

/// All that `after` opens beyond `before`: settings first, then paths, parents before children.
pub fn openings(before: &Compiled, after: &Compiled) -> Vec<Opening> {
    let comparison = Comparison { before, after };
    let devices = comparison.devices();
    let paths = comparison.paths(&devices);
    let mut openings = comparison.settings();
    openings.extend(comparison.variables());
    openings.extend(comparison.presets(&paths));
    openings.extend(comparison.other_names());
    openings.extend(comparison.created());
    let devices = devices.into_iter().map(|path| (path, Opened::Device(path.clone())));
    openings.extend(devices.map(|(path, opened)| comparison.at(path, opened)));
    openings.extend(paths.into_iter().map(|(path, opened)| comparison.at(path, opened)));
    openings
}

struct Comparison<'a> {
    before: &'a Compiled,
    after: &'a Compiled,
}

impl<'a> Comparison<'a> {
    fn at(&self, path: &AbsPath, opened: Opened) -> Opening {
        Opening { opened, before: Some(governing(self.before, path)), after: Some(governing(self.after, path)) }
    }

    /// `tmp = "host"` is a rule on `/tmp`, so it is among the paths.
    fn settings(&self) -> Vec<Opening> {
        let (before, after) = (&self.before.policy, &self.after.policy);
        let switches: [(Opened, &Setting<bool>, &Setting<bool>); 4] = [
            (Opened::Network, &before.network, &after.network),
            (Opened::Docker, &before.docker, &after.docker),
            (Opened::Nested, &before.nested, &after.nested),
            (Opened::Inherit, &before.inherit, &after.inherit),
        ];
        let on = switches.into_iter().filter(|(_, before, after)| !before.value && after.value);
        let on = on.map(|(opened, before, after)| Opening {
            opened,
            before: Some(before.origin.clone()),
            after: Some(after.origin.clone()),
        });
        let dropped = before.require.iter().filter(|(protection, _)| !after.require.contains_key(protection));
        let dropped = dropped.map(|(protection, origin)| Opening {
            opened: Opened::Requirement(*protection),
            before: Some(origin.clone()),
            after: None,
        });
        on.chain(dropped).collect()
    }

    fn variables(&self) -> impl Iterator<Item = Opening> {
        let (before, after) = (&self.before.environment, &self.after.environment);
        let changed = after.variables.iter().filter(|(name, value)| before.variables.get(*name) != Some(value));
        changed.map(|(name, _)| {
            let because = |side: &Environment| side.outcomes.get(name).map(|outcome| outcome.because.clone());
            let had_another = before.variables.contains_key(name);
            let opened = Opened::Variable { name: Word(name.clone()), had_another };
            Opening { opened, before: because(before), after: because(after) }
        })
    }

    /// Protected files with other names that `after` accepts, unless it is stricter about this
    /// name.
    fn other_names(&self) -> impl Iterator<Item = Opening> {
        let accepted = self.after.decisions.iter().filter(|(path, decision)| {
            let accepts = decision.access.is_protective() && decision.names > 1;
            let was_accepted =
                || self.before.decisions.get(path).is_some_and(|known| known.hard_links == HardLinks::Allow);
            accepts
                && decision.hard_links == HardLinks::Allow
                && !was_accepted()
                && openness(&self.before.plan, path) <= openness(&self.after.plan, path)
        });
        accepted.map(|(path, decision)| Opening {
            after: Some(decision.origin.clone()),
            ..self.at(path, Opened::OtherNames(path.clone()))
        })
    }

    /// The paths that are more open. A path is left out if the next border above it opens in the
    /// same way.
    ///
    /// The view of a plan changes only at its borders, so the borders of both plans cover every
    /// difference. A socket is always listed, even where a folder around it opens in the same way:
    /// a command that sees a socket can do more than read.
    fn paths(&self, devices: &[&AbsPath]) -> BTreeMap<&'a AbsPath, Opened> {
        let borders = self.before.plan.borders().chain(self.after.plan.borders());
        let sockets = self.after.decisions.iter().filter(|(path, decision)| self.shows_socket(path, decision));
        let borders: BTreeSet<&AbsPath> = borders.chain(sockets.map(|(path, _)| path)).collect();
        let mut around: Vec<(&AbsPath, (View, View))> = Vec::new();
        let mut opened = BTreeMap::new();
        for path in borders {
            let here = (self.before.plan.view(path), self.after.plan.view(path));
            while around.pop_if(|(at, _)| !path.is_within(at)).is_some() {}
            let is_said = around.last().is_some_and(|(_, around)| *around == here);
            around.push((path, here));
            let (from, to) = (Openness::from(here.0), Openness::from(here.1));
            if to <= from || self.is_by_the_way(path) || devices.iter().any(|device| path.is_within(device)) {
                continue;
            }
            if from == Openness::Hidden && self.is_socket(path) {
                opened.insert(path, Opened::Socket(path.clone()));
            } else if !is_said {
                opened.insert(path, Opened::Path { path: path.clone(), from, to });
            }
        }
        opened
    }

    /// The socket of a service that ended between two looks: no rule took the mask away.
    fn is_by_the_way(&self, path: &AbsPath) -> bool {
        self.before.decisions.get(path).is_some_and(hides_service) && self.after.decisions.get(path).is_none()
    }

    fn is_socket(&self, path: &AbsPath) -> bool {
        self.after.decisions.get(path).is_some_and(|decision| self.shows_socket(path, decision))
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

    /// Paths where device nodes work in `after` and not in `before`.
    fn devices(&self) -> Vec<&'a AbsPath> {
        let before: Vec<&AbsPath> = with_devices(&self.before.plan).collect();
        let is_new = |path: &&AbsPath| !before.iter().any(|known| path.is_within(known));
        with_devices(&self.after.plan).filter(is_new).collect()
    }

    /// Directories that are created where the command could not create them itself. Our own
    /// directories come from no rule.
    fn created(&self) -> impl Iterator<Item = Opening> {
        let is_ours = |path: &AbsPath| self.after.layers.own_files.iter().any(|own| own.path == *path);
        let is_new = move |path: &&AbsPath| {
            !self.before.resolution.create.contains(path)
                && !is_ours(path)
                && openness(&self.before.plan, path) != Openness::Writable
        };
        let created = self.after.resolution.create.iter().filter(is_new);
        created.map(|path| self.at(path, Opened::Create(path.clone())))
    }
}

pub(crate) fn openness(plan: &Plan, path: &AbsPath) -> Openness {
    Openness::from(plan.view(path))
}

fn hides_service(decision: &Decision) -> bool {
    decision.layer == LayerKind::Base && decision.access == Access::Exclude
}

fn with_devices(plan: &Plan) -> impl Iterator<Item = &AbsPath> {
    plan.mounts.iter().filter_map(|planned| match &planned.mount {
        Mount::Bind { path, kind: BindKind::WithDevices, .. } => Some(path),
        _ => None,
    })
}
