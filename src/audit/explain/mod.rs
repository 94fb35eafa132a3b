//! `agent-sandbox explain`: what a command may do at one path, by which rule, and why the others have no say.

mod durability;
mod losers;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::guard_plan::Tightening;
use crate::compile::lower::{self, MountFiles};
use crate::compile::plan::{Mount, PlannedMount, Purpose};
use crate::compile::resolve::FutureGlobs;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{FileKind, Host, Resolved};
use crate::launch;
use crate::policy::path::{AbsPath, escape_for_display};
use crate::policy::path_json::Word;

use super::effective_access::{Effective, Inside};
use super::rule_json::{Ruling, decided};

pub use durability::{Durability, WhenReplaced};
pub use losers::{Loser, Why};

/// The answer to `agent-sandbox explain PATH…`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Explained {
    /// One for each PATH, in their order.
    pub paths: Vec<Explanation>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Explanation {
    /// As it was asked for.
    pub asked: Word,
    /// Where that leads on this host, symlinks followed. All that follows is about this path.
    pub path: AbsPath,
    /// The symlinks on the way, in order.
    pub links: Vec<AbsPath>,
    /// What the host has there now; absent if nothing. A symlink only where it is not seen inside, so that it leads nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Other places where the same thing is found: it is mounted there, too.
    pub same_as: Vec<AbsPath>,
    /// What a command may do.
    pub access: Effective,
    /// What decides that.
    pub rule: Ruling,
    /// Rules that have no say here, nearest first, each with the reason.
    pub losers: Vec<Loser>,
    /// The mounts that give `access`, in order.
    pub mounts: Vec<Step>,
    /// The mounts that keep directories on the way in their places.
    pub pins: Vec<Step>,
    /// What differs below, counted: each path at which another access begins than around it.
    pub below: Vec<Below>,
    /// How far the answer can be relied on while the command runs.
    pub durability: Vec<Durability>,
}

/// How many paths below have this access, where that around them is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Below {
    pub access: Effective,
    pub count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Directory,
    /// Also a socket or a FIFO.
    File,
    Device,
    Symlink,
}

impl From<FileKind> for Kind {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::Directory => Kind::Directory,
            FileKind::File => Kind::File,
            FileKind::Device => Kind::Device,
        }
    }
}

/// One step of the set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Arguments of bwrap.
    Bwrap(Vec<Word>),
    /// A mount that the guard makes, because bwrap's arguments have no room for it.
    Guard(Tightening),
}

/// Answers questions about one policy.
pub struct Explainer<'a> {
    host: &'a Host,
    compiled: &'a Compiled,
    inside: Inside<'a>,
    steps: Vec<(&'a PlannedMount, Step)>,
    patterns: FutureGlobs<'a>,
    /// What is told after the run if it was made (SPEC R1).
    reported: Vec<AbsPath>,
}

impl<'a> Explainer<'a> {
    pub fn new(host: &'a Host, compiled: &'a Compiled) -> Self {
        let plan = &compiled.plan;
        let guard = compiled.guard_plan(launch::kernel());
        let files = MountFiles::In(compiled.layers.mount_files());
        let by_bwrap = lower::mounts(plan, guard.as_ref(), &files).into_iter();
        let by_bwrap = by_bwrap
            .map(|(planned, operation)| (planned, Step::Bwrap(operation.words.into_iter().map(Word).collect())));
        let by_guard = plan.split(compiled.guard).guard.into_iter();
        let by_guard = by_guard.map(|(step, planned)| (planned, Step::Guard(step)));
        let steps = by_bwrap.chain(by_guard).collect();
        let reported = launch::reported_if_created(compiled).into_iter().map(|(path, _)| path).collect();
        let patterns = FutureGlobs::of(host, &compiled.layers.project, &compiled.policy.rules);
        Self { host, compiled, inside: Inside::of(&compiled.plan), steps, patterns, reported }
    }

    /// `asked` is relative to the working directory, and may start with `~/`, as in a rule.
    pub fn explain(&self, asked: &OsStr) -> Result<Explanation, Diagnostic> {
        let resolved = self.resolve(asked)?;
        // Where a link is not seen, it leads nowhere inside.
        let hidden = resolved.links.iter().position(|link| !self.inside.at(link).shows_host());
        let (path, links, kind) = match hidden {
            // A link counts as a file.
            Some(at) => (resolved.links[at].clone(), resolved.links[..at].to_vec(), Some(FileKind::File)),
            None => (resolved.path, resolved.links, resolved.kind),
        };
        let access = self.inside.at(&path);
        let mount = self.inside.mount(&path);
        let won = decided(self.compiled, &self.inside, &path);
        let rule = Ruling::governing(self.compiled, &self.inside, &path);
        let looked = Looked { path: &path, links: &links, kind, access, mount, won };
        Ok(Explanation {
            asked: Word(asked.to_owned()),
            same_as: self.same_as(&path, &rule.at),
            losers: self.losers(&looked),
            mounts: self.mounts(&looked),
            pins: self.pins(&path),
            below: self.below(&path),
            durability: self.durability(&looked),
            kind: hidden.map_or(kind.map(Kind::from), |_| Some(Kind::Symlink)),
            rule,
            access,
            links,
            path,
        })
    }

    fn resolve(&self, asked: &OsStr) -> Result<Resolved, Diagnostic> {
        let project = &self.compiled.layers.project;
        let absolute: PathBuf = match asked.as_bytes() {
            b"" => {
                return Err(Diagnostic::new(Code::InvalidPath, "the path is empty").help("write `.` for this folder"));
            }
            b"~" => project.home.as_path().to_owned(),
            // As a path of its own `/x` would replace the home.
            [b'~', b'/', rest @ ..] => {
                let rest = rest.iter().position(|byte| *byte != b'/').map_or(&b""[..], |start| &rest[start..]);
                project.home.as_path().join(OsStr::from_bytes(rest))
            }
            _ => project.cwd.as_path().join(asked),
        };
        let resolved = self.host.resolve(&absolute).map_err(|error| unreadable(asked, &error))?;
        match self.file_around(&resolved) {
            Some(file) => Err(Diagnostic::new(
                Code::InvalidPath,
                format!("nothing can be at `{}`: `{file}` is no directory", escape_for_display(asked)),
            )
            .help("ask for the file itself")),
            None => Ok(resolved),
        }
    }

    /// What is no directory and stands where one would have to be.
    fn file_around(&self, resolved: &Resolved) -> Option<AbsPath> {
        let missing = resolved.kind.is_none().then_some(&resolved.path)?;
        let nearest = missing.ancestors().skip(1).find_map(|at| Some((self.host.kind(&at).ok()??, at)))?;
        (nearest.0 != FileKind::Directory).then_some(nearest.1)
    }

    /// Other names that the same thing has by mounts: of the host, or of a second place (SPEC W3, P10).
    fn same_as(&self, path: &AbsPath, at: &AbsPath) -> Vec<AbsPath> {
        let mut same = Vec::new();
        for found in &self.compiled.resolution.matches {
            let Some(of) = &found.alias_of else { continue };
            for (one, other) in [(&found.path, &of.path), (&of.path, &found.path)] {
                let below = path.relative_to(at).filter(|_| one == at);
                same.extend(below.map(|below| other.join(below)));
            }
        }
        for planned in &self.compiled.plan.mounts {
            if let Mount::SecondMount { path: second, source } = &planned.mount {
                same.extend((second == path).then(|| source.clone()));
                same.extend((source == path).then(|| second.clone()));
            }
        }
        same.sort();
        same.dedup();
        same
    }

    fn mounts(&self, looked: &Looked) -> Vec<Step> {
        let Some(shows) = looked.mount else { return Vec::new() };
        let point = shows.mount.path();
        let is_part = |planned: &PlannedMount| match &planned.mount {
            Mount::RemountReadOnly { path } => path == point,
            Mount::Directory { path, .. } => looked.path.is_within(path) && path.is_below(point),
            _ => ptr::eq(planned, shows),
        };
        self.steps.iter().filter(|(planned, _)| is_part(planned)).map(|(_, step)| step.clone()).collect()
    }

    /// By what `show` lists.
    fn below(&self, path: &AbsPath) -> Vec<Below> {
        let decided = self.compiled.decisions.iter().map(|(at, _)| at);
        let paths: BTreeSet<&AbsPath> = self.inside.seen().chain(decided).filter(|at| at.is_below(path)).collect();
        let mut counts = BTreeMap::new();
        for at in paths {
            let access = self.inside.at(at);
            if at.parent().is_some_and(|parent| self.inside.at(&parent) != access) {
                *counts.entry(access).or_insert(0) += 1;
            }
        }
        counts.into_iter().map(|(access, count)| Below { access, count }).collect()
    }

    fn pins(&self, path: &AbsPath) -> Vec<Step> {
        let is_pin = |planned: &PlannedMount| matches!(planned.purpose, Purpose::Pin { .. });
        let on_the_way = self.steps.iter().filter(|(p, _)| is_pin(p) && path.is_within(p.mount.path()));
        on_the_way.map(|(_, step)| step.clone()).collect()
    }
}

/// What was found out about a path before its answer is put together.
struct Looked<'l> {
    path: &'l AbsPath,
    links: &'l [AbsPath],
    kind: Option<FileKind>,
    access: Effective,
    mount: Option<&'l PlannedMount>,
    won: Option<(&'l AbsPath, &'l Decision)>,
}

fn unreadable(asked: &OsStr, error: &io::Error) -> Diagnostic {
    let asked = escape_for_display(Path::new(asked).as_os_str());
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        Diagnostic::new(Code::SymlinkLoop, format!("the symlinks at `{asked}` lead in a circle"))
            .help("repair or remove the links")
    } else {
        Diagnostic::new(Code::UnreadablePath, format!("cannot look at `{asked}`: {}", reason(error)))
            .help("ask for the folder that you cannot look into: what governs it governs what is in it, unless a rule names that")
    }
}
