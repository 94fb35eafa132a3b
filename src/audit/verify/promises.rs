//! The promises of the policy at each path, and the model's answers about them.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use crate::compile::Compiled;
use crate::compile::decide::Decision;
use crate::compile::plan::{BindKind, Mount, PlannedMount, Purpose, View};
use crate::host::{FileKind, Host, mountinfo};
use crate::model::{Model, ModelView};
use crate::policy::private::copy_inside;
use crate::policy::{AbsPath, Access, Injected, Mask, Origin};

use super::Effect;
use super::probe::ProbeOperation;

/// One question, and the answer that the policy promises.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub claim: Claim,
    pub operation: ProbeOperation,
    pub expected: Effect,
    /// The errors by which the kernel may refuse.
    pub refusals: &'static [Errno],
    pub model: Effect,
}

/// The part of a promise that all operations at one path share.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub path: AbsPath,
    /// The path of a file on the host. At `path`, the probe must find this file, or must not find
    /// it.
    pub source: AbsPath,
    pub because: Origin,
    /// The access of the rule, if a rule makes the promise.
    pub access: Option<Access>,
    /// The path does not lead to the host, so the host's answer proves nothing.
    pub is_own: bool,
    /// The answer leaves the promise out if it cannot be tested.
    pub optional: bool,
}

impl Claim {
    pub(super) fn of(path: &AbsPath, because: &Origin, access: Option<Access>) -> Self {
        let (path, because) = (path.clone(), because.clone());
        Self { source: path.clone(), path, because, access, is_own: false, optional: false }
    }
}

const READ_ONLY: &[Errno] = &[Errno::ROFS];
const HIDDEN: &[Errno] = &[Errno::ACCESS, Errno::NOENT, Errno::ROFS, Errno::NOTDIR];
const STAYS: &[Errno] = &[Errno::BUSY];

/// The promises of every rule in force, every pin, and every part of the base.
pub(super) fn promises(host: &Host, compiled: &Compiled, model: &Model) -> Vec<Promise> {
    let mut list = PromiseList { compiled, model, all: BTreeMap::new() };
    let data = compiled.plan.mounts.iter().filter(|planned| matches!(planned.mount, Mount::DataFile { .. }));
    let data: BTreeSet<&AbsPath> = data.map(|planned| &planned.path).collect();
    for (path, decision) in compiled.decisions.iter() {
        list.decision(host, path, decision, data.contains(path));
    }
    list.plan();
    list.mounts_of_host(host);
    list.all.into_values().collect()
}

/// The mount points that the command must not be able to unmount.
pub(super) fn locked(compiled: &Compiled) -> Vec<AbsPath> {
    let rules =
        compiled.plan.mounts.iter().filter(|planned| matches!(planned.purpose, Purpose::Rule(_) | Purpose::Injection));
    let points = rules.filter(|planned| !matches!(planned.mount, Mount::Directory { .. } | Mount::RemountReadOnly));
    let points: BTreeSet<AbsPath> = points.map(|planned| planned.path.clone()).collect();
    let links = compiled.plan.links.iter().map(|link| link.path.clone());
    points.into_iter().chain(links).chain([AbsPath::root()]).collect()
}

struct PromiseList<'a> {
    compiled: &'a Compiled,
    model: &'a Model,
    all: BTreeMap<(AbsPath, ProbeOperation), Promise>,
}

impl PromiseList<'_> {
    fn read(&mut self, claim: &Claim, expected: Effect) {
        self.promise(claim, ProbeOperation::Read, expected, HIDDEN);
    }

    fn write(&mut self, claim: &Claim, expected: Effect) {
        self.promise(claim, ProbeOperation::Write, expected, READ_ONLY);
    }

    /// Only the first promise about an operation counts. A later promise can still add that the
    /// path does not lead to the host.
    fn promise(&mut self, claim: &Claim, operation: ProbeOperation, expected: Effect, refusals: &'static [Errno]) {
        let Some(model) = by_model(self.model, &claim.path, &claim.source, operation) else { return };
        let first = self.all.entry((claim.path.clone(), operation));
        let first = first.or_insert_with(|| Promise { claim: claim.clone(), operation, expected, refusals, model });
        first.claim.is_own |= claim.is_own;
    }

    fn decision(&mut self, host: &Host, path: &AbsPath, decision: &Decision, is_data: bool) {
        use Effect::{Allowed, Private, Refused};
        let claim = &Claim::of(path, &decision.origin, Some(decision.access));
        if self.compiled.plan.links.iter().any(|link| link.path == *path) {
            // The probe follows no link, so the question is about the copy, which must not be the
            // host's file.
            let copy = &Claim { path: copy_inside(path), ..claim.clone() };
            self.read(copy, Private);
            return self.write(copy, Private);
        }
        match decision.injected.as_deref() {
            Some(Injected::Source { path: source, .. }) => {
                let claim = &Claim { source: source.clone(), ..claim.clone() };
                self.read(claim, Allowed);
                return self.write(claim, Refused);
            }
            Some(Injected::Text(_)) => {
                let own = &Claim { is_own: true, ..claim.clone() };
                self.read(own, Private);
                return self.write(own, Refused);
            }
            None => {}
        }
        match decision.access {
            // `plan` adds the promises about the folder itself. Nothing of the host may be visible
            // in it.
            Access::Exclude if decision.is_own_place() => {
                if let Some(child) = self.something_in(host, path, decision) {
                    self.read(&Claim { source: child.clone(), path: child, ..claim.clone() }, Refused);
                }
            }
            Access::Rw => {
                self.read(claim, Allowed);
                self.write(claim, Allowed);
            }
            Access::Ro => {
                self.read(claim, if is_data { Private } else { Allowed });
                self.write(claim, Refused);
            }
            Access::Exclude if decision.mask == Mask::Fresh && self.compiled.plan.view(path) == View::Fresh => {
                self.read(claim, Private);
                self.write(claim, Private);
            }
            Access::Exclude => {
                self.read(claim, if is_data { Private } else { Refused });
                // A private place may be writable.
                if matches!(self.compiled.plan.view(path), View::Masked | View::Redacted) {
                    self.promise(claim, ProbeOperation::Write, Refused, HIDDEN);
                    if let Some(child) = self.something_in(host, path, decision) {
                        self.read(&Claim { source: child.clone(), path: child, ..claim.clone() }, Refused);
                    }
                }
            }
        }
        let is_protected = decision.access.is_protective() && decision.kind == FileKind::Directory;
        let is_mounted = || self.compiled.plan.mounts.iter().any(|planned| planned.path == *path);
        if is_protected && self.compiled.plan.view_around(path) == View::HostRw && is_mounted() {
            self.promise(&Claim { optional: true, ..claim.clone() }, ProbeOperation::Move, Refused, STAYS);
        }
    }

    /// The first entry of a hidden directory that no other rule governs.
    fn something_in(&self, host: &Host, path: &AbsPath, decision: &Decision) -> Option<AbsPath> {
        if decision.kind != FileKind::Directory {
            return None;
        }
        let entries = host.read_dir(path).ok()?.into_iter().filter(|entry| !entry.is_symlink);
        let children = entries.map(|entry| path.child(entry.name));
        let is_governed = |child: &AbsPath| self.compiled.decisions.governing(child).is_some_and(|(at, _)| at == path);
        children.filter(is_governed).min()
    }

    fn plan(&mut self) {
        use Effect::{Allowed, Private, Refused};
        let compiled = self.compiled;
        for planned in &compiled.plan.mounts {
            let claim = &Claim::of(&planned.path, &planned.because, None);
            if let Mount::SecondMount { source } = &planned.mount {
                let claim = &Claim { source: source.clone(), access: Some(Access::Rw), ..claim.clone() };
                self.read(claim, Allowed);
                self.write(claim, Allowed);
            }
            if let Purpose::Pin { .. } = planned.purpose {
                self.promise(claim, ProbeOperation::Move, Refused, STAYS);
            }
        }
        let is_of_sandbox = |planned: &&PlannedMount| matches!(planned.purpose, Purpose::Base | Purpose::Own);
        for planned in compiled.plan.mounts.iter().filter(is_of_sandbox) {
            let claim = &Claim::of(&planned.path, &planned.because, None);
            let own = &Claim { is_own: true, ..claim.clone() };
            match &planned.mount {
                Mount::Bind { kind: BindKind::ReadOnly, .. } => {
                    self.read(claim, Allowed);
                    self.write(claim, Refused);
                }
                Mount::Tmpfs { .. } => {
                    let is_seal = |it: &PlannedMount| it.mount == Mount::RemountReadOnly && it.path == planned.path;
                    let is_read_only = compiled.plan.mounts.iter().any(is_seal);
                    self.read(own, Private);
                    self.write(own, if is_read_only { Refused } else { Private });
                }
                Mount::DataFile { .. } => {
                    // `show` and `explain` say `ro` for our own files, so `verify` does, too.
                    let own = &Claim { access: Some(Access::Ro), ..own.clone() };
                    self.read(own, Private);
                    self.write(own, Refused);
                }
                Mount::Dev | Mount::Proc => self.read(claim, Private),
                _ => {}
            }
        }
    }

    /// A read-only bind includes the mounts below it, and must make each of them read-only, too.
    fn mounts_of_host(&mut self, host: &Host) {
        const BECAUSE: Origin = Origin::BuiltIn("mounted on the host");
        let table = host.mount_table().ok().flatten().unwrap_or_default();
        for entry in mountinfo::parse(&table).flatten() {
            if self.compiled.plan.view(&entry.point) == View::HostRo {
                self.write(&Claim { optional: true, ..Claim::of(&entry.point, &BECAUSE, None) }, Effect::Refused);
            }
        }
    }
}

/// `None` where the model has no answer: a link of the sandbox's own.
fn by_model(model: &Model, path: &AbsPath, source: &AbsPath, operation: ProbeOperation) -> Option<Effect> {
    use ProbeOperation::{Move, Read, Write};
    let shown = |shown: &AbsPath| if shown == source { Effect::Allowed } else { Effect::Private };
    let own = |is_possible: bool| if is_possible { Effect::Private } else { Effect::Refused };
    Some(match (operation, model.view(path)) {
        (_, ModelView::Symlink { .. }) => return None,
        (Move, _) if model.can_rename(path) => Effect::Allowed,
        (Read, ModelView::Host { source: at, .. }) => shown(&at),
        (Write, ModelView::Host { source: at, writable: true, .. }) => shown(&at),
        (Read, ModelView::Fresh { mode, .. }) => own(mode & 0o400 != 0),
        (Write, ModelView::Fresh { mode, writable }) => own(writable && mode & 0o200 != 0),
        (Read, ModelView::Data | ModelView::Dev | ModelView::Proc) => Effect::Private,
        _ => Effect::Refused,
    })
}
