//! The answer of `agent-sandbox explain`: the access at one path, the rule that decides, and the
//! reason why the others do not; or the fate of one variable.

mod durability;
mod limit;
mod losers;
mod open;
mod variable;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::ptr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::guard_plan::{PrivateLink, Tightening};
use crate::compile::lower::{self, MountFiles};
use crate::compile::plan::{Mount, PlannedLink, PlannedMount, Purpose};
use crate::compile::resolve::FutureGlobs;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{FileKind, Host, Resolved};
use crate::launch;
use crate::policy::{AbsPath, Word, escape_for_display};

use super::effective_access::{EffectiveAccess, VisibleMounts};
use super::rule_json::{RuleJson, decided};

pub use durability::{Durability, WhenReplaced};
pub use limit::{LimitExplanation, ReplacedLimit, limits};
pub use losers::{Loser, LoserReason};
pub use variable::{NamedByPreset, VariableExplanation, variable};

/// The answer to `agent-sandbox explain PATH…`, `--env NAME` and `--limits`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Explained {
    /// The answers for the PATHs, in their order.
    pub paths: Vec<Explanation>,
    /// The answers for the NAMEs, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub variables: Vec<VariableExplanation>,
    /// The limits in force, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub limits: Vec<LimitExplanation>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Explanation {
    /// The path as the user wrote it.
    pub asked: Word,
    /// The path on this host after symlinks. All following fields are about this path.
    pub path: AbsPath,
    /// The symlinks on the way, in order.
    pub links: Vec<AbsPath>,
    /// The kind of file that the host has there now; absent if there is none. The kind is `symlink`
    /// only if the symlink itself is not visible inside, so that the command cannot follow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<HostKind>,
    /// Other places where the same file or folder is mounted.
    pub same_as: Vec<AbsPath>,
    /// The access of a command.
    pub access: EffectiveAccess,
    /// The rule that decides the access.
    pub rule: RuleJson,
    /// Rules that do not decide here, nearest first, each with the reason.
    pub losers: Vec<Loser>,
    /// The mounts that give `access`, in order.
    pub mounts: Vec<MountStep>,
    /// The mounts that keep the command from renaming directories on the way.
    pub pins: Vec<MountStep>,
    /// For each access, the number of paths below that have it while their surroundings have
    /// another access.
    pub below: Vec<Below>,
    /// The extent to which the answer holds while the command runs.
    pub durability: Vec<Durability>,
    /// The way to give the command more access, if it has less than `rw`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
}

/// The number of paths below that have this access while the path around them has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Below {
    pub access: EffectiveAccess,
    pub count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Kind", rename_all = "kebab-case")]
pub enum HostKind {
    Directory,
    /// A file, a socket or a FIFO.
    File,
    Device,
    Symlink,
}

/// One step of the set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Step", rename_all = "kebab-case")]
pub enum MountStep {
    /// Arguments of bwrap.
    Bwrap(Vec<Word>),
    /// A mount that the guard makes, because bwrap's arguments have no room for it.
    Guard(Tightening),
    /// A link that the guard mounts over a private file. It leads to the copy.
    Link(PrivateLink),
}

/// Answers questions about one policy.
pub struct Explainer<'a> {
    host: &'a Host,
    compiled: &'a Compiled,
    visible: VisibleMounts<'a>,
    steps: Vec<(&'a PlannedMount, MountStep)>,
    patterns: FutureGlobs<'a>,
    /// Paths that the report after the run names if the command created them (SPEC R1).
    reported: Vec<AbsPath>,
}

/// A path that the user asked for, and the results of the compilation for it.
struct AskedPath<'l> {
    path: &'l AbsPath,
    links: &'l [AbsPath],
    kind: Option<FileKind>,
    access: EffectiveAccess,
    mount: Option<&'l PlannedMount>,
    won: Option<(&'l AbsPath, &'l Decision)>,
}

impl<'a> Explainer<'a> {
    pub fn new(host: &'a Host, compiled: &'a Compiled) -> Self {
        let plan = &compiled.plan;
        let split = plan.split(compiled.guard);
        let guard = lower::guard(compiled, &split, launch::kernel());
        let files = MountFiles::In(compiled.layers.mount_files());
        let by_bwrap = lower::mounts(compiled, &split, guard.as_ref(), &files).into_iter();
        let by_bwrap = by_bwrap
            .map(|(planned, operation)| (planned, MountStep::Bwrap(operation.words.into_iter().map(Word).collect())));
        let by_guard = split.guard.into_iter();
        let by_guard = by_guard.map(|(step, planned)| (planned, MountStep::Guard(step)));
        let steps = by_bwrap.chain(by_guard).collect();
        let reported = launch::reported_if_created(compiled).into_iter().map(|absent| absent.path).collect();
        let patterns = FutureGlobs::of(host, &compiled.layers.project, &compiled.policy.rules);
        Self { host, compiled, visible: VisibleMounts::of(plan), steps, patterns, reported }
    }

    /// Explains `asked`, which is relative to the working directory, or starts with `~/`.
    pub fn explain(&self, asked: &OsStr) -> Result<Explanation, Diagnostic> {
        let resolved = self.resolve(asked)?;
        // A link that is not visible leads nowhere inside. It counts as a file.
        let hidden = resolved.links.iter().position(|link| !self.visible.access(link).shows_host());
        let (path, links, kind) = match hidden {
            Some(at) => (resolved.links[at].clone(), resolved.links[..at].to_vec(), Some(FileKind::File)),
            None => (resolved.path, resolved.links, resolved.kind),
        };
        let access = self.visible.access(&path);
        let won = decided(self.compiled, &self.visible, &path);
        let rule = RuleJson::governing(self.compiled, &self.visible, &path);
        let mount = self.visible.showing(&path);
        let about = AskedPath { path: &path, links: &links, kind, access, mount, won };
        Ok(Explanation {
            asked: Word(asked.to_owned()),
            same_as: self.same_as(&path, &rule.at),
            losers: self.losers(&about),
            mounts: self.mounts(&about),
            pins: self.steps(|p| matches!(p.purpose, Purpose::Pin { .. }) && path.is_within(&p.path)),
            below: self.below(&path),
            durability: self.durability(&about),
            open: self.open(&about),
            kind: kind.map(|kind| match kind {
                _ if hidden.is_some() => HostKind::Symlink,
                FileKind::Directory => HostKind::Directory,
                FileKind::File => HostKind::File,
                FileKind::Device => HostKind::Device,
            }),
            rule,
            access,
            links,
            path,
        })
    }

    fn resolve(&self, asked: &OsStr) -> Result<Resolved, Diagnostic> {
        let invalid = |message: String, help| Err(Diagnostic::new(Code::InvalidPath, message).help(help));
        if asked.is_empty() {
            return invalid("the path is empty".to_owned(), "write `.` for this folder");
        }
        let project = &self.compiled.layers.project;
        let absolute = match Path::new(asked).strip_prefix("~") {
            Ok(in_home) => project.home.as_path().join(in_home),
            Err(_) => project.cwd.as_path().join(asked),
        };
        let asked = escape_for_display(asked);
        let resolved = self.host.resolve(&absolute).map_err(|error| {
            if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
                Diagnostic::new(Code::SymlinkLoop, format!("the symlinks at `{asked}` lead in a circle"))
                    .help("repair or remove the links")
            } else {
                Diagnostic::new(Code::UnreadablePath, format!("cannot examine `{asked}`: {}", reason(&error))).help(
                    "ask for the folder that you cannot search: its rule governs everything in it, unless another \
                           rule names a path there",
                )
            }
        })?;
        let nearest = || resolved.path.ancestors().skip(1).find_map(|at| Some((self.host.kind(&at).ok()??, at)));
        match resolved.kind.is_none().then(nearest).flatten() {
            Some((kind, file)) if kind != FileKind::Directory => {
                let message = format!("nothing can be at `{asked}`: `{file}` is no directory");
                invalid(message, "ask for the file itself")
            }
            _ => Ok(resolved),
        }
    }

    /// The other paths at which mounts show the same file or directory: mounts of the host, or a
    /// second mount by agent-sandbox (SPEC W3, P10).
    fn same_as(&self, path: &AbsPath, at: &AbsPath) -> Vec<AbsPath> {
        let mut same = BTreeSet::new();
        for found in &self.compiled.resolution.matches {
            let Some(of) = &found.alias_of else { continue };
            for (one, other) in [(&found.path, &of.path), (&of.path, &found.path)] {
                let below = path.relative_to(at).filter(|_| one == at);
                same.extend(below.map(|below| other.join(below)));
            }
        }
        for planned in &self.compiled.plan.mounts {
            if let Mount::SecondMount { source } = &planned.mount {
                same.extend((planned.path == *path).then(|| source.clone()));
                same.extend((source == path).then(|| planned.path.clone()));
            }
        }
        same.into_iter().collect()
    }

    fn mounts(&self, about: &AskedPath) -> Vec<MountStep> {
        let Some(shows) = about.mount else { return Vec::new() };
        let link = self.compiled.plan.links.iter().find(|link| link.path == *about.path).map(PlannedLink::step);
        let mut steps = self.steps(|planned| match &planned.mount {
            Mount::RemountReadOnly => planned.path == shows.path,
            Mount::Directory { .. } => about.path.is_within(&planned.path) && planned.path.is_below(&shows.path),
            Mount::PrivateCopies { .. } => link.is_some(),
            _ => ptr::eq(planned, shows),
        });
        steps.extend(link.map(MountStep::Link));
        steps
    }

    fn steps(&self, is_part: impl Fn(&PlannedMount) -> bool) -> Vec<MountStep> {
        self.steps.iter().filter(|(planned, _)| is_part(planned)).map(|(_, step)| step.clone()).collect()
    }

    /// Counts the paths that `show` lists.
    fn below(&self, path: &AbsPath) -> Vec<Below> {
        let decided = self.compiled.decisions.iter().map(|(at, _)| at);
        let paths: BTreeSet<&AbsPath> = self.visible.points().chain(decided).filter(|at| at.is_below(path)).collect();
        let mut counts = BTreeMap::new();
        for at in paths {
            let access = self.visible.access(at);
            if at.parent().is_some_and(|parent| self.visible.access(&parent) != access) {
                *counts.entry(access).or_insert(0) += 1;
            }
        }
        counts.into_iter().map(|(access, count)| Below { access, count }).collect()
    }
}
