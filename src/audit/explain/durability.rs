//! The extent to which an answer holds while the command runs (SPEC B12, M4, R1, R4, W4).

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::plan::{Mount, PlannedMount, Purpose};
use crate::host::FileKind;
use crate::policy::{AbsPath, Access, Exactness, Injected};

use super::super::effective_access::EffectiveAccess;
use super::{AskedPath, Explainer};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Durability {
    /// The rule covers a directory and everything in it, now and later.
    Directory { path: AbsPath },
    /// The rule covers the one file that exists at the start. A program on the host can replace it.
    File { path: AbsPath, when_replaced: WhenReplaced },
    /// A pattern covers the path. A file that is created later is covered only from the next start.
    Pattern,
    /// The file has `names` hard links, and the rule covers only this path.
    HardLinked { names: u64 },
    /// The host's file is untouched. The command reads an injected content at its path, in this run
    /// alone. `placeholder`: the path does not exist on the host, and has a placeholder during the
    /// run.
    Injected {
        /// The file or folder that is read; absent for a text.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<AbsPath>,
        placeholder: bool,
    },
    /// The path does not exist. A placeholder keeps the command from creating it during the run.
    Placeholder { path: AbsPath },
    /// The path does not exist. The run creates `path` before the start.
    Created { path: AbsPath },
    /// The path does not exist, and the command can create it. `reported`: the run then reports it
    /// at the end.
    Creatable { reported: bool },
    /// The path does not exist, and the command cannot create it.
    NotCreatable,
    /// The command can rename these directories on the way, and create others in their places.
    Movable { directories: Vec<AbsPath> },
    /// The directory cannot be renamed or removed, because the path `keeps` lies in it.
    Pinned { keeps: AbsPath },
    /// The file is a copy of the host's file with added lines, made for this sandbox.
    Generated,
    /// The file or folder is gone after the run.
    Private,
}

/// The file that the command sees after a program on the host has replaced the covered file. The
/// kernel then removes the mount from the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenReplaced {
    /// The new file, which no rule protects any more.
    Exposed,
    /// The new file, which no rule protects any more; the run reports it at the end.
    ExposedAndReported,
    /// The new file, until the supervisor covers it again; the run reports it. With `--exec` there
    /// is no supervisor.
    CoveredAgain,
    /// The new file, which no rule opens any more.
    Closed,
    /// The old file, because it is mounted in a private place.
    Stale,
    /// The new file, with the same access.
    Same,
}

impl Explainer<'_> {
    pub(super) fn durability(&self, about: &AskedPath) -> Vec<Durability> {
        if matches!(about.access, EffectiveAccess::Private | EffectiveAccess::Dev | EffectiveAccess::Proc) {
            return vec![Durability::Private];
        }
        let mut all = Vec::new();
        if let Some((at, decision)) = about.won {
            if let Some(injected) = decision.injected.as_deref() {
                let from = match injected {
                    Injected::Source { path: from, .. } => about.path.relative_to(at).map(|below| from.join(below)),
                    Injected::Text(_) => None,
                };
                all.push(Durability::Injected { from, placeholder: decision.placeholder.is_some() });
            } else if let Some(placeholder) = &decision.placeholder {
                all.push(Durability::Placeholder { path: placeholder.path.clone() });
            } else if decision.kind == FileKind::Directory {
                all.push(Durability::Directory { path: at.clone() });
            } else if about.access == EffectiveAccess::PrivateFile
                || about.mount.is_some_and(|planned| planned.path == *at)
            {
                let when_replaced = self.when_replaced(at, decision.access);
                all.push(Durability::File { path: at.clone(), when_replaced });
            }
            if decision.exactness == Exactness::Glob {
                all.push(Durability::Pattern);
            }
            if decision.names > 1 && decision.kind == FileKind::File && decision.access.is_protective() {
                all.push(Durability::HardLinked { names: decision.names });
            }
        } else {
            let is_file = |planned: &PlannedMount| {
                matches!(planned.mount, Mount::OwnBinary { .. } | Mount::SecondMount { .. } | Mount::DataFile { .. })
            };
            let shown_by = about.mount.filter(|planned| !is_file(planned));
            all.extend(shown_by.map(|planned| Durability::Directory { path: planned.path.clone() }));
        }
        let own_mount = about.mount.filter(|planned| planned.path == *about.path);
        let is_generated = |planned: &&PlannedMount| {
            matches!(planned.mount, Mount::DataFile { .. }) && planned.purpose == Purpose::Base
        };
        all.extend(own_mount.filter(is_generated).map(|_| Durability::Generated));
        let mut here = self.compiled.plan.mounts.iter().filter(|planned| planned.path == *about.path);
        all.extend(here.find_map(|planned| match &planned.purpose {
            Purpose::Pin { keeps } => Some(Durability::Pinned { keeps: keeps.clone() }),
            Purpose::Base | Purpose::Own | Purpose::Rule(_) | Purpose::Injection => None,
        }));
        let has_placeholder = all.iter().any(|one| matches!(one, Durability::Placeholder { .. }));
        if about.kind.is_none() && !has_placeholder && about.access != EffectiveAccess::Injected {
            let missing = self.missing(about);
            // A mounted path exists inside, whether the host has it or not.
            if own_mount.is_none() || matches!(missing, Durability::Created { .. }) {
                all.push(missing);
            }
        }
        let directories = self.visible.movable(about.won.map_or(about.path, |(at, _)| at));
        if !directories.is_empty() && about.won.is_some_and(|(_, decision)| decision.access.is_protective()) {
            all.push(Durability::Movable { directories });
        }
        all
    }

    fn when_replaced(&self, at: &AbsPath, access: Access) -> WhenReplaced {
        let around = at.parent().map_or(EffectiveAccess::Ro, |folder| self.visible.access(&folder));
        match (access, around) {
            (Access::Ro, EffectiveAccess::Ro) | (Access::Rw, EffectiveAccess::Rw) => WhenReplaced::Same,
            (Access::Rw, EffectiveAccess::Ro) => WhenReplaced::Closed,
            (Access::Ro | Access::Exclude, EffectiveAccess::Rw) | (Access::Exclude, EffectiveAccess::Ro)
                if self.compiled.guard =>
            {
                WhenReplaced::CoveredAgain
            }
            (Access::Ro | Access::Exclude, EffectiveAccess::Rw) => WhenReplaced::ExposedAndReported,
            (Access::Exclude, EffectiveAccess::Ro) => WhenReplaced::Exposed,
            _ => WhenReplaced::Stale,
        }
    }

    fn missing(&self, about: &AskedPath) -> Durability {
        let files = self.compiled.resolution.new_files.iter().map(|file| file.path.clone());
        let mut created = self.compiled.created().into_iter().chain(files);
        match created.find(|created| created.is_within(about.path)) {
            Some(path) => Durability::Created { path },
            None if about.access == EffectiveAccess::Rw => {
                Durability::Creatable { reported: self.reported.iter().any(|path| about.path.is_within(path)) }
            }
            None => Durability::NotCreatable,
        }
    }
}
