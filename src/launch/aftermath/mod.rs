//! What a run left behind that its user should know of (SPEC section 12). Nothing here stops anything: what could be stopped
//! was.

mod keys;
mod modules;
mod nested;
mod planted;
mod repository;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, StatxFlags, accessat, chmodat, lstat, makedev, statat, statx};
use rustix::io::Errno;

use crate::compile::Compiled;
use crate::compile::plan::{Plan, View};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed};
use crate::host::Host;
use crate::host::identity::Identity;
use crate::policy::path::AbsPath;
use crate::policy::rule::{Access, Exactness, LayerKind, Precedence};
use crate::sys::ablate::{self, Mitigation};

use crate::host::nofollow::open_itself;
use keys::Keys;
use nested::NestedWatch;
use repository::Repository;

/// No more than this many paths in one sentence.
const MOST_NAMED: usize = 12;

/// What is looked at before and after.
pub struct Watch {
    root: AbsPath,
    /// Where a rule applies to nothing, in a place that the command can write; and whose rule it is.
    absent: Vec<(AbsPath, String)>,
    /// What a mount covers, in a place that can be written.
    covered: Vec<(AbsPath, Option<Seen>)>,
    keys: Vec<Keys>,
    repository: Option<Repository>,
    nested: Option<NestedWatch>,
    plan: Plan,
}

impl Watch {
    /// Looks at everything that the reports will compare with, before the command starts.
    pub fn start(host: &Host, compiled: &Compiled) -> Self {
        let mut watch = Self::of(compiled);
        watch.look(host);
        watch
    }

    fn of(compiled: &Compiled) -> Self {
        let plan = &compiled.plan;
        let is_open = |path: &AbsPath| plan.view_around(path) == View::HostRw;
        let covered = compiled.decisions.iter().filter(|(path, decision)| {
            decision.placeholder.is_none() && decision.access.is_protective() && is_open(path)
        });
        let keys =
            compiled.resolution.matches.iter().filter(|found| {
                !found.rule.refinements.report_keys.is_empty() && plan.view(&found.path) == View::HostRw
            });
        let project = &compiled.layers.project;
        let repository = project.repository.as_ref();
        Self {
            root: compiled.layers.project.root.clone(),
            absent: absent(compiled),
            covered: covered.map(|(path, _)| (path.clone(), None)).collect(),
            keys: keys.map(|found| Keys::new(&found.path, &found.rule.refinements.report_keys)).collect(),
            repository: repository
                .filter(|repository| is_open(&repository.git_dir.child("HEAD")))
                .map(|repository| Repository::new(&repository.git_dir, &repository.common_dir)),
            nested: compiled.policy.presets.contains_key("git").then(|| NestedWatch::new(project)),
            plan: plan.clone(),
        }
    }

    /// Looks before the start. What cannot be looked at cannot be compared, and is left out.
    fn look(&mut self, host: &Host) {
        // Another run may have made it since the policy was compiled; then it is not news.
        let mut presence = Presence::default();
        self.absent.retain(|(path, _)| !presence.of(host, path));
        for (path, seen) in &mut self.covered {
            *seen = seen_at(host, path);
        }
        for keys in &mut self.keys {
            keys.start(host);
        }
        if let Some(repository) = &mut self.repository {
            repository.start(host);
        }
        if let Some(nested) = &mut self.nested {
            nested.start(host, |path| self.plan.view(path) == View::HostRw);
        }
    }

    /// Reports what the command left behind.
    pub fn finish(&self, host: &Host, said: &mut Diagnostics) {
        if !ablate::is_off(Mitigation::Reports) {
            self.report_created(host, said);
            self.report_replaced(host, said);
        }
        for keys in &self.keys {
            keys.finish(host, said);
        }
        if let Some(repository) = self.repository.as_ref().filter(|_| !ablate::is_off(Mitigation::HeadRestore)) {
            repository.finish(host, said);
        }
        // After that: only in a repository there is an index.
        if let Some(nested) = self.nested.as_ref().filter(|_| !ablate::is_off(Mitigation::NestedRepositories)) {
            nested.finish(host, |path| self.plan.view_around(path) == View::HostRw, said);
        }
    }

    fn report_created(&self, host: &Host, said: &mut Diagnostics) {
        let mut presence = Presence::default();
        let created: Vec<&(AbsPath, String)> = self.absent.iter().filter(|(path, _)| presence.of(host, path)).collect();
        if created.is_empty() {
            return;
        }
        let mut by_rule: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (path, origin) in created.iter().take(MOST_NAMED) {
            by_rule.entry(origin).or_default().push(format!("`{}`", self.named(path)));
        }
        let mut parts: Vec<String> = by_rule
            .into_iter()
            .map(|(origin, paths)| format!("{} ({origin})", listed(paths.into_iter(), "and")))
            .collect();
        if created.len() > MOST_NAMED {
            parts.push(format!("{} more", created.len() - MOST_NAMED));
        }
        let it = if created.len() == 1 { "it" } else { "them" };
        let help = format!(
            "tools on this machine may obey {it}: look at {it} before you open the project, enter it or commit"
        );
        let message = format!("created during the run: {}", parts.join("; "));
        said.push(Diagnostic::new(Code::CreatedDuringRun, message).help(help));
    }

    fn report_replaced(&self, host: &Host, said: &mut Diagnostics) {
        let is_another = |path: &AbsPath, seen: &Seen| seen_at(host, path).is_some_and(|now| now != *seen);
        let replaced = self.covered.iter().filter_map(|(path, seen)| Some((path, seen.as_ref()?)));
        let replaced: Vec<String> = replaced
            .filter(|(path, seen)| is_another(path, seen))
            .map(|(path, _)| format!("`{}`", self.named(path)))
            .collect();
        if !replaced.is_empty() {
            let verb = if replaced.len() == 1 { "was" } else { "were" };
            let message = format!(
                "{} {verb} replaced on the host during the run, and open to the command from then on",
                listed(replaced.into_iter(), "and")
            );
            let help = "a rule covers what is there at the start; in a folder that stays everything can be replaced, and the rule holds";
            said.push(Diagnostic::new(Code::ReplacedDuringRun, message).help(help));
        }
    }

    /// As people know it: relative to the project where it lies there.
    fn named(&self, path: &AbsPath) -> String {
        match path.relative_to(&self.root) {
            Some(relative) => crate::policy::path::escape_for_display(relative.as_os_str()),
            None => path.to_string(),
        }
    }
}

/// What rules would protect if it existed, where the command can make it exist.
pub(crate) fn absent(compiled: &Compiled) -> Vec<(AbsPath, String)> {
    let mut strongest: BTreeMap<&AbsPath, (Precedence, String)> = BTreeMap::new();
    for (rule, path) in &compiled.resolution.absent {
        let candidate = (rule.precedence(Exactness::Exact), rule.origin.to_string());
        let known = strongest.entry(path).or_insert_with(|| candidate.clone());
        if candidate.0 > known.0 {
            *known = candidate;
        }
    }
    let ours = compiled.layers.absent.iter().map(|path| (path.clone(), "our own configuration".to_owned()));
    let is_told = |precedence: &Precedence| match precedence.layer {
        // A preset that hides secrets says nothing about a command that makes one.
        LayerKind::Preset => precedence.access == Access::Ro,
        _ => precedence.access.is_protective(),
    };
    let of_rules = strongest
        .into_iter()
        .filter(|(_, (precedence, _))| is_told(precedence))
        .map(|(path, (_, origin))| (path.clone(), origin));
    let can_be_made = |path: &AbsPath| {
        // They are sorted.
        let is_blocked = compiled.plan.placeholders.binary_search_by(|placeholder| placeholder.path.cmp(path)).is_ok();
        !is_blocked && compiled.plan.view_around(path) == View::HostRw
    };
    of_rules.chain(ours).filter(|(path, _)| can_be_made(path)).collect()
}

/// Looks whether something is at paths of which most are missing, and often with the folder that they would be in.
#[derive(Default)]
struct Presence {
    folders: BTreeMap<AbsPath, bool>,
}

impl Presence {
    /// A link to nothing is something: what obeys the file follows it. So is what cannot be looked at.
    fn of(&mut self, host: &Host, path: &AbsPath) -> bool {
        let folder = path.parent().unwrap_or_else(AbsPath::root);
        *self.folders.entry(folder).or_insert_with_key(|folder| is_there(host, folder)) && is_there(host, path)
    }
}

fn is_there(host: &Host, path: &AbsPath) -> bool {
    !matches!(lstat(host.real(path)), Err(Errno::NOENT | Errno::NOTDIR))
}

/// Which file or folder was there. ext4 gives the number of one that is removed to the next that is made, so when it was made counts, too, where the file system tells.
#[derive(PartialEq, Eq)]
struct Seen {
    identity: Identity,
    born: Option<(i64, u32)>,
}

fn seen_at(host: &Host, path: &AbsPath) -> Option<Seen> {
    let opened = open_itself(host, path).ok()?;
    let found = statx(&opened, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME).ok()?;
    let identity = Identity { device: makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino };
    let tells = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    Some(Seen { identity, born: tells.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)) })
}

/// Makes a folder writable for us, which the run may have closed to keep what it did from being undone. It belongs to the same user.
fn open_up(folder: &OwnedFd) -> io::Result<()> {
    if accessat(folder, ".", rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK, AtFlags::empty()).is_ok() {
        return Ok(());
    }
    let closed = Mode::from_raw_mode(statat(folder, ".", AtFlags::empty())?.st_mode);
    Ok(chmodat(folder, ".", closed | Mode::RWXU, AtFlags::empty())?)
}

/// A part of a name that the run could not have taken beforehand.
fn unforeseen() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{:x}", std::process::id(), now.map_or(0, |now| now.as_nanos()))
}
