//! The grants of the project's file, each with the entry behind it. [`crate::trust::openings`]
//! finds the differences.

use std::sync::Arc;

use crate::compile::Compiled;
use crate::compile::identity::{GitIdentity, OF_HOST};
use crate::compile::layers::Layer;
use crate::compile::plan::{Mount, PlannedMount};
use crate::compile::policy::Policy;
use crate::policy::{AbsPath, LayerKind, Origin, Place};
use crate::trust::openings::{
    self, DiffState, PolicyChange, Subject, hides_service, is_of_preset, openings, openness, origin_of,
};

use super::grant::{Grant, Granted};

/// Everything that `full` opens beyond `base`, which lacks `layer`: settings first, then paths,
/// parents before children.
pub(super) fn grants(base: &Compiled, full: &Compiled, layer: &Layer) -> Vec<Granted> {
    let of = Author { base, full, layer };
    openings(base, full).into_iter().filter_map(|opening| of.grant(opening)).collect()
}

/// Finds the entry of the project's file behind each opening. `base` is the policy without the
/// file, `full` the policy with it.
struct Author<'a> {
    base: &'a Compiled,
    full: &'a Compiled,
    layer: &'a Layer,
}

impl Author<'_> {
    /// `None` for openings that need no consent of their own.
    fn grant(&self, PolicyChange { what, new, .. }: PolicyChange) -> Option<Granted> {
        let is_identity = new.rule.as_ref().is_some_and(|origin| self.is_identity(origin));
        let written = || new.rule.unwrap_or_else(|| self.start());
        let (grant, origin) = match what {
            Subject::Network => (Grant::Network, written()),
            Subject::Docker => (Grant::Docker, written()),
            Subject::Nested => (Grant::Nested, written()),
            Subject::Limit { .. } => match new.is {
                DiffState::AtMost(limit) => (Grant::Limit { limit }, written()),
                // A file can raise a limit, and cannot remove one.
                _ => return None,
            },
            Subject::Variable { .. } if is_identity => return None,
            Subject::Variable { name } => (Grant::Variable { name }, written()),
            Subject::OtherNames { path } => (Grant::OtherNames { path }, written()),
            // Each variable, and each path that a preset opens, is a grant of its own. No file can
            // remove a requirement.
            Subject::Inherit | Subject::Requirement { .. } => return None,
            Subject::Preset { .. } if new.is == DiffState::On => return None,
            Subject::Preset { name } => {
                let origin = self.reference("!", &name);
                (Grant::Preset { name }, origin)
            }
            Subject::Created { path } => self.at(path, |path| Grant::Create { path }),
            Subject::Injection { path } if self.is_injected_freely(&path) => return None,
            Subject::Injection { path } => self.at(path, |path| Grant::Inject { path }),
            Subject::Device { path } => self.at(path, |path| Grant::Device { path }),
            Subject::Socket { path } | Subject::Path { path } if self.is_by_the_way(&path) => return None,
            Subject::Socket { path } => self.at(path, |path| Grant::Socket { path }),
            Subject::Path { path } => {
                let (from, to) = (openness(&self.base.plan, &path), openness(&self.full.plan, &path));
                self.at(path, |path| Grant::Path { path, from, to })
            }
        };
        Some(Granted { grant, origin })
    }

    /// Whether a variable with this origin is an identity that needs no consent: an identity that
    /// the file gives, or the user's identity, which the policy without the file passes, too.
    fn is_identity(&self, origin: &Origin) -> bool {
        let (before, now) = (&self.base.policy.identity, &self.full.policy.identity);
        match &now.value {
            GitIdentity::Own { .. } => *origin == now.origin,
            GitIdentity::Host => *origin == OF_HOST && before.value == GitIdentity::Host,
            GitIdentity::None => false,
        }
    }

    fn at(&self, path: AbsPath, grant: impl FnOnce(AbsPath) -> Grant) -> (Grant, Origin) {
        let origin = self.origin(&path);
        (grant(path), origin)
    }

    /// Whether no rule opens `path`: it is the socket of a service that started or ended between
    /// the two compilations, or the copy of git's `info/exclude`.
    fn is_by_the_way(&self, path: &AbsPath) -> bool {
        let base = self.base.decisions.get(path);
        let is_socket = base.is_some_and(hides_service);
        let shows_copy =
            |planned: &PlannedMount| planned.path == *path && matches!(planned.mount, Mount::DataFile { .. });
        let is_copy = base.is_none() && self.base.plan.mounts.iter().any(shows_copy);
        (is_socket || is_copy) && !origin_of(self.full, path).is_some_and(|origin| self.is_written_here(origin))
    }

    /// Whether an injection needs no consent: the project could hold such a file itself, or a
    /// built-in preset puts the user's own file there.
    fn is_injected_freely(&self, path: &AbsPath) -> bool {
        let is_of_preset = self.full.decisions.get(path).is_some_and(|decision| decision.layer == LayerKind::Preset);
        is_of_preset || path.is_within(&self.full.layers.project.root)
    }

    /// The entry of the project's file that opens `path`: the rule that governs it, or else the
    /// preset that the file turns on or off.
    fn origin(&self, path: &AbsPath) -> Origin {
        let (before, now) = (origin_of(self.base, path), origin_of(self.full, path));
        if let Some(now) = now
            && self.is_written_here(now)
        {
            return now.clone();
        }
        let on = |compiled: &Compiled, origin: &Origin| {
            compiled.policy.presets.keys().find(|name| is_of_preset(compiled, origin, name)).cloned()
        };
        let taken_away = before.and_then(|before| on(self.base, before));
        if let Some(name) = taken_away.filter(|name| !self.full.policy.presets.contains_key(name)) {
            return self.reference("!", &name);
        }
        let added = now.and_then(|now| on(self.full, now));
        if let Some(name) = added.filter(|name| !self.base.policy.presets.contains_key(name)) {
            return self.reference("", &name);
        }
        // The file may have chosen the host's home or base instead of a private one.
        let own = self.base.decisions.governing(path).filter(|(_, decision)| decision.is_own_place());
        let Policy { home, base, network, .. } = &self.full.policy;
        let setting = own.map(|(at, _)| if at.is_root() { &base.origin } else { &home.origin });
        if let Some(origin) = setting.filter(|origin| self.is_written_here(origin)) {
            return origin.clone();
        }
        // If no rule governs the path, only the network setting can have opened it, for name
        // resolution.
        if now.is_none() && before.is_none() && self.is_written_here(&network.origin) {
            return network.origin.clone();
        }
        self.start()
    }

    /// The place at which the project's file names (or removes) the preset `name`.
    fn reference(&self, sign: &str, name: &str) -> Origin {
        openings::reference(&self.full.layers, self.layer, sign, name).unwrap_or_else(|| self.start())
    }

    fn is_written_here(&self, origin: &Origin) -> bool {
        matches!(origin, Origin::File(_)) && self.layer.source.as_ref().is_some_and(|own| origin.is_in(own))
    }

    /// The start of the file: the origin of a grant for which no entry is found.
    fn start(&self) -> Origin {
        match &self.layer.source {
            Some(source) => Origin::File(Place { source: Arc::clone(source), span: 0..0 }),
            None => Origin::BuiltIn("the project's file"),
        }
    }
}
