//! What the policy promises at each path, and what the model of the argv says of it.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::plan::{BindKind, Mount, Purpose, View};
use crate::host::mountinfo;
use crate::host::{FileKind, Host};
use crate::model::{self, Model};
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::rule::Access;

use super::Effect;
use super::probe::{Operation, Question};

/// One question, and what the answer must be.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: AbsPath,
    /// What of the host is to be found there, or kept from being found.
    pub source: AbsPath,
    pub operation: Operation,
    pub expected: Effect,
    /// How the kernel refuses, where it must.
    pub(super) refusals: &'static [Errno],
    pub model: Effect,
    pub because: Origin,
    /// Of the rule, if it is one.
    pub access: Option<Access>,
    pub(super) control: Control,
    /// What nobody asked for is not worth a line where it cannot be tested.
    pub(super) optional: bool,
}

impl Asked {
    pub fn inside(&self) -> Question {
        Question { path: self.path.clone(), operation: self.operation }
    }

    pub fn on_host(&self) -> Question {
        Question { path: self.source.clone(), operation: self.operation }
    }
}

/// What shows that the answer is the sandbox's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// The same on the host has another answer.
    Host,
    /// It is no place of the host: the same works in another place of the sandbox's own.
    Workshop,
}

const READ_ONLY: &[Errno] = &[Errno::ROFS];
const HIDDEN: &[Errno] = &[Errno::ACCESS, Errno::NOENT, Errno::ROFS, Errno::NOTDIR];
const STAYS: &[Errno] = &[Errno::BUSY];

/// Every rule in force, with or without a mount of its own, every pin, and every part of the base.
pub(super) fn asked(host: &Host, compiled: &Compiled, model: &Model) -> Vec<Asked> {
    let mut list = List { compiled, model, asked: BTreeMap::new() };
    let data: BTreeSet<&AbsPath> =
        mounts(compiled).filter(|m| matches!(m, Mount::DataFile { .. })).map(Mount::path).collect();
    for (path, decision) in compiled.decisions.iter() {
        list.decision(host, path, decision, data.contains(path));
    }
    list.second_places();
    list.pins();
    list.base();
    list.mounts_of_host(host);
    list.asked.into_values().collect()
}

/// Where something is mounted that is to stay.
pub(super) fn locked(compiled: &Compiled) -> Vec<AbsPath> {
    let rules = compiled.plan.mounts.iter().filter(|planned| matches!(planned.purpose, Purpose::Rule(_)));
    let points = rules.filter(|planned| !matches!(planned.mount, Mount::Directory { .. } | Mount::Seal { .. }));
    let points: BTreeSet<AbsPath> = points.map(|planned| planned.mount.path().clone()).collect();
    points.into_iter().chain([AbsPath::root()]).collect()
}

fn mounts(compiled: &Compiled) -> impl Iterator<Item = &Mount> {
    compiled.plan.mounts.iter().map(|planned| &planned.mount)
}

struct List<'a> {
    compiled: &'a Compiled,
    model: &'a Model,
    asked: BTreeMap<(AbsPath, Operation), Asked>,
}

/// Who wants it.
#[derive(Clone, Copy)]
struct Why<'a> {
    because: &'a Origin,
    access: Option<Access>,
}

impl List<'_> {
    fn ask(&mut self, path: &AbsPath, operation: Operation, expected: Effect, refusals: &'static [Errno], why: Why) {
        self.ask_of(path, path, operation, expected, refusals, why);
    }

    /// The first to ask is the one with the best reason.
    fn ask_of(
        &mut self,
        path: &AbsPath,
        source: &AbsPath,
        operation: Operation,
        expected: Effect,
        refusals: &'static [Errno],
        Why { because, access }: Why,
    ) {
        let Some(model) = by_model(self.model, path, source, operation) else { return };
        self.asked.entry((path.clone(), operation)).or_insert_with(|| Asked {
            path: path.clone(),
            source: source.clone(),
            operation,
            expected,
            refusals,
            model,
            because: because.clone(),
            access,
            control: Control::Host,
            optional: false,
        });
    }

    fn is_optional(&mut self, path: &AbsPath, operation: Operation) {
        if let Some(asked) = self.asked.get_mut(&(path.clone(), operation)) {
            asked.optional = true;
        }
    }

    fn is_own(&mut self, path: &AbsPath) {
        for operation in [Operation::Read, Operation::Write] {
            if let Some(asked) = self.asked.get_mut(&(path.clone(), operation)) {
                asked.control = Control::Workshop;
            }
        }
    }

    fn decision(&mut self, host: &Host, path: &AbsPath, decision: &Decision, is_data: bool) {
        use Effect::{Allowed, Private, Refused};
        let why = Why { because: &decision.origin, access: Some(decision.access) };
        let view = self.compiled.plan.view(path);
        match decision.access {
            Access::Rw => {
                self.ask(path, Operation::Read, Allowed, &[], why);
                self.ask(path, Operation::Write, Allowed, &[], why);
            }
            Access::Ro => {
                self.ask(path, Operation::Read, if is_data { Private } else { Allowed }, &[], why);
                self.ask(path, Operation::Write, Refused, READ_ONLY, why);
            }
            Access::Exclude => {
                self.ask(path, Operation::Read, if is_data { Private } else { Refused }, HIDDEN, why);
                // In a private place the command may make what it likes.
                if view == View::Masked {
                    self.ask(path, Operation::Write, Refused, HIDDEN, why);
                    if let Some(child) = self.something_in(host, path, decision) {
                        self.ask(&child, Operation::Read, Refused, HIDDEN, why);
                    }
                }
            }
        }
        let is_mounted = || mounts(self.compiled).any(|mount| mount.path() == path);
        let around = self.compiled.plan.view_around(path);
        let is_protected = decision.access.is_protective() && decision.kind == FileKind::Directory;
        if is_protected && around == View::HostRw && is_mounted() {
            self.ask(path, Operation::Move, Refused, STAYS, why);
            self.is_optional(path, Operation::Move);
        }
    }

    /// The first thing in a hidden directory that no other rule speaks of.
    fn something_in(&self, host: &Host, path: &AbsPath, decision: &Decision) -> Option<AbsPath> {
        if decision.kind != FileKind::Directory {
            return None;
        }
        // What we cannot list ourselves, nobody can tell us the names of.
        let mut children: Vec<AbsPath> = host
            .read_dir(path)
            .ok()?
            .into_iter()
            .filter(|entry| !entry.is_symlink)
            .map(|entry| path.child(entry.name))
            .collect();
        children.sort();
        children.into_iter().find(|child| self.compiled.decisions.governing(child).is_some_and(|(at, _)| at == path))
    }

    fn second_places(&mut self) {
        for planned in &self.compiled.plan.mounts {
            if let Mount::Elsewhere { path, source } = &planned.mount {
                let why = Why { because: &planned.because, access: Some(Access::Rw) };
                self.ask_of(path, source, Operation::Read, Effect::Allowed, &[], why);
                self.ask_of(path, source, Operation::Write, Effect::Allowed, &[], why);
            }
        }
    }

    fn pins(&mut self) {
        for planned in &self.compiled.plan.mounts {
            if let Purpose::Pin { .. } = planned.purpose {
                let why = Why { because: &planned.because, access: None };
                self.ask(planned.mount.path(), Operation::Move, Effect::Refused, STAYS, why);
            }
        }
    }

    fn base(&mut self) {
        use Effect::{Allowed, Private, Refused};
        let sealed =
            |path: &AbsPath| mounts(self.compiled).any(|mount| matches!(mount, Mount::Seal { path: at } if at == path));
        for planned in self.compiled.plan.mounts.iter().filter(|planned| planned.purpose == Purpose::Base) {
            let why = Why { because: &planned.because, access: None };
            let path = planned.mount.path();
            match &planned.mount {
                Mount::Bind { kind: BindKind::ReadOnly, .. } => {
                    self.ask(path, Operation::Read, Allowed, &[], why);
                    self.ask(path, Operation::Write, Refused, READ_ONLY, why);
                }
                Mount::Tmpfs { .. } => {
                    let write = if sealed(path) { Refused } else { Private };
                    self.ask(path, Operation::Read, Private, &[], why);
                    self.ask(path, Operation::Write, write, READ_ONLY, why);
                    self.is_own(path);
                }
                Mount::DataFile { .. } => {
                    // As `show` and `explain` have it.
                    let why = Why { access: Some(Access::Ro), ..why };
                    self.ask(path, Operation::Read, Private, &[], why);
                    self.ask(path, Operation::Write, Refused, READ_ONLY, why);
                    self.is_own(path);
                }
                Mount::Dev { .. } | Mount::Proc { .. } => self.ask(path, Operation::Read, Private, &[], why),
                _ => {}
            }
        }
    }

    /// A read-only bind takes what is mounted below along, and must make each of these read-only, too.
    fn mounts_of_host(&mut self, host: &Host) {
        const BECAUSE: Origin = Origin::BuiltIn("mounted on the host");
        let table = host.mount_table().ok().flatten().unwrap_or_default();
        for entry in mountinfo::parse(&table) {
            let key = (entry.point.clone(), Operation::Write);
            if self.compiled.plan.view(&entry.point) == View::HostRo && !self.asked.contains_key(&key) {
                let why = Why { because: &BECAUSE, access: None };
                self.ask(&entry.point, Operation::Write, Effect::Refused, READ_ONLY, why);
                self.is_optional(&entry.point, Operation::Write);
            }
        }
    }
}

/// `None` where the model has no answer to give: a link of the sandbox's own.
fn by_model(model: &Model, path: &AbsPath, source: &AbsPath, operation: Operation) -> Option<Effect> {
    use model::ModelView as View;
    let shown = |shown: &AbsPath| if shown == source { Effect::Allowed } else { Effect::Private };
    let own = |is_possible: bool| if is_possible { Effect::Private } else { Effect::Refused };
    Some(match (operation, model.view(path)) {
        (_, View::Symlink { .. }) => return None,
        (Operation::Move, _) if model.can_rename(path) => Effect::Allowed,
        (Operation::Move, _) => Effect::Refused,
        (Operation::Read, View::Host { source: at, .. }) => shown(&at),
        (Operation::Write, View::Host { source: at, writable: true, .. }) => shown(&at),
        (Operation::Read, View::Fresh { mode, .. }) => own(mode & 0o400 != 0),
        (Operation::Write, View::Fresh { mode, writable }) => own(writable && mode & 0o200 != 0),
        (Operation::Read, View::Data | View::Dev | View::Proc) => Effect::Private,
        (
            _,
            View::Host { .. }
            | View::MaskedFile
            | View::Data
            | View::Absent { .. }
            | View::Unreachable { .. }
            | View::Dev
            | View::Proc,
        ) => Effect::Refused,
    })
}
