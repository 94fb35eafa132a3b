//! How far an answer can be relied on while the command runs (SPEC B12, M4, R1, R4, W4).

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::plan::{Mount, Purpose};
use crate::host::FileKind;
use crate::policy::path::AbsPath;
use crate::policy::rule::{Access, Exactness};

use super::super::effective_access::Effective;
use super::{Explainer, Looked};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Durability {
    /// What decides is about a directory: it holds for all that is in it, and for what comes to be there.
    Directory { path: AbsPath },
    /// What decides is about the one file that is there at the start, which something on the host can replace.
    File {
        path: AbsPath,
        #[serde(rename = "when-replaced")]
        when_replaced: WhenReplaced,
    },
    /// A pattern has matched: what is made later is not covered before the next start.
    Pattern,
    /// The file has this many names, and only this one is covered.
    HardLinked { names: u64 },
    /// Nothing is there, and a placeholder keeps it so during the run.
    Placeholder { path: AbsPath },
    /// Nothing is there, and it is made before the start.
    Created { path: AbsPath },
    /// Nothing is there, and nothing stops the command from making it. `reported`: it is told of after the run.
    Creatable { reported: bool },
    /// Nothing is there, and the command cannot make it.
    NotCreatable,
    /// Directories on the way that the command can rename, and put others in their places.
    Movable { directories: Vec<AbsPath> },
    /// It cannot be renamed or removed, because this lies in it.
    Pinned { keeps: AbsPath },
    /// It is a copy of what the host has, with more in it, made for this sandbox.
    Generated,
    /// It goes with the sandbox.
    Private,
}

/// What a command sees once the file has been replaced on the host. There its mount is gone, as from any name that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenReplaced {
    /// The new file, which no rule protects any more.
    Exposed,
    /// The same; it is told of after the run.
    ExposedAndReported,
    /// The new file, which no rule opens any more.
    Closed,
    /// The old file: it is mounted in a place of the sandbox's own.
    Stale,
    /// The new file, with the same access.
    Same,
}

impl Explainer<'_> {
    pub(super) fn durability(&self, looked: &Looked) -> Vec<Durability> {
        let mut all = Vec::new();
        if matches!(looked.access, Effective::Private | Effective::Dev | Effective::Proc) {
            all.push(Durability::Private);
            return all;
        }
        match looked.won {
            Some((at, decision)) => {
                if let Some(placeholder) = &decision.placeholder {
                    all.push(Durability::Placeholder { path: placeholder.path.clone() });
                } else if decision.kind == FileKind::Directory {
                    all.push(Durability::Directory { path: at.clone() });
                } else if looked.mount.is_some_and(|planned| planned.mount.path() == at) {
                    all.push(Durability::File {
                        path: at.clone(),
                        when_replaced: self.when_replaced(at, decision.access),
                    });
                }
                if decision.exactness == Exactness::Glob {
                    all.push(Durability::Pattern);
                }
                if decision.names > 1 && decision.kind == FileKind::File && decision.access.is_protective() {
                    all.push(Durability::HardLinked { names: decision.names });
                }
            }
            None => {
                let is_file = |mount: &Mount| {
                    matches!(mount, Mount::OwnBinary { .. } | Mount::SecondMount { .. } | Mount::DataFile { .. })
                };
                let shown_by = looked.mount.filter(|planned| !is_file(&planned.mount));
                all.extend(shown_by.map(|planned| Durability::Directory { path: planned.mount.path().clone() }));
            }
        }
        if let Some(planned) = looked.mount
            && matches!(planned.mount, Mount::DataFile { .. })
            && planned.purpose == Purpose::Base
            && looked.path == planned.mount.path()
        {
            all.push(Durability::Generated);
        }
        let mut pinned = self.compiled.plan.mounts.iter().filter(|planned| planned.mount.path() == looked.path);
        all.extend(pinned.find_map(|planned| match &planned.purpose {
            Purpose::Pin { keeps } => Some(Durability::Pinned { keeps: keeps.clone() }),
            Purpose::Base | Purpose::Rule(_) => None,
        }));
        let is_mounted = looked.mount.is_some_and(|planned| planned.mount.path() == looked.path);
        let has_placeholder = all.iter().any(|one| matches!(one, Durability::Placeholder { .. }));
        if looked.kind.is_none() && !has_placeholder {
            let missing = self.missing(looked);
            // What is mounted is there, whatever the host has.
            all.extend(Some(missing).filter(|missing| !is_mounted || matches!(missing, Durability::Created { .. })));
        }
        let directories = self.inside.movable(looked.won.map_or(looked.path, |(at, _)| at));
        if !directories.is_empty() && looked.won.is_some_and(|(_, decision)| decision.access.is_protective()) {
            all.push(Durability::Movable { directories });
        }
        all
    }

    fn when_replaced(&self, at: &AbsPath, access: Access) -> WhenReplaced {
        let around = at.parent().map_or(Effective::Ro, |folder| self.inside.at(&folder));
        match (access, around) {
            (Access::Ro, Effective::Ro) | (Access::Rw, Effective::Rw) => WhenReplaced::Same,
            (Access::Rw, Effective::Ro) => WhenReplaced::Closed,
            (Access::Ro | Access::Exclude, Effective::Rw) => WhenReplaced::ExposedAndReported,
            (Access::Exclude, Effective::Ro) => WhenReplaced::Exposed,
            _ => WhenReplaced::Stale,
        }
    }

    fn missing(&self, looked: &Looked) -> Durability {
        let files = self.compiled.resolution.new_files.iter().map(|file| file.path.clone());
        let mut made = self.compiled.created().into_iter().chain(files);
        if let Some(path) = made.find(|made| made.is_within(looked.path)) {
            return Durability::Created { path };
        }
        match looked.access {
            Effective::Rw => {
                let is_told = |path: &AbsPath| looked.path.is_within(path);
                Durability::Creatable { reported: self.reported.iter().any(is_told) }
            }
            _ => Durability::NotCreatable,
        }
    }
}
