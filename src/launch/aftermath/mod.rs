//! Reports the changes of a run that its user should know of (SPEC section 12), and undoes the
//! changes that would make git on the host run a program.

mod agent_repositories;
mod doubts;
mod folders;
mod git_dir_links;
mod git_state;
mod held;
mod history;
mod ignore_files;
mod keys;
mod links;
mod modules;
mod nested;
mod new_worktrees;
mod overlap;
mod planted;
mod remotes;
mod replaced;
mod repository;
mod stale;
mod subfolders;
mod unfinished;
mod worktrees;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;

use rustix::fs::{Mode, lstat};
use rustix::io::Errno;

use crate::compile::Compiled;
use crate::compile::layers::PROJECT_FILE;
use crate::compile::plan::View;
use crate::compile::presets::data::{AgentFile, FileUse, PRESETS};
use crate::compile::resolve::TrackedFiles;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, by_turns, reason};
use crate::host::identity::FileBirth;
use crate::host::last_parent::LastParent;
use crate::host::{Host, OpenDir, is_transient};
use crate::placeholders::ActivePlaceholders;
use crate::policy::path::{AbsPath, escape_for_display};
use crate::policy::rule::{Access, Exactness, LayerKind, Rule};
use crate::sys::ablate::{self, Mitigation};
use crate::trust;

use agent_repositories::AgentRepositories;
use git_dir_links::Closed;
use git_state::GitStateWatch;
use held::Held;
use keys::KeyWatch;
use nested::NestedWatch;
use overlap::{Facts, Overlap};
pub use replaced::Gap;
pub(super) use replaced::during_run;
use repository::RepositoryWatch;
use stale::StaleWatch;
use unfinished::UnfinishedWatch;

/// A missing path that a rule would protect.
pub(crate) struct AbsentPath {
    pub path: AbsPath,
    /// The origin of the rule.
    pub origin: String,
    pub is_moved_aside: bool,
}

/// The state of the host before the run, to compare with it afterwards.
pub struct RunWatch {
    root: AbsPath,
    /// The permissions of the root, if this user could change its entries.
    root_mode: Option<Mode>,
    /// Missing paths that a rule names, in places that the command can write.
    absent: Vec<AbsentPath>,
    /// Paths that a mount covers, in places that the command can write.
    covered: Vec<(AbsPath, FileBirth)>,
    /// The files that were replaced while the supervisor watched them.
    pub gaps: BTreeMap<AbsPath, Gap>,
    /// A path that could not be examined for a temporary reason, and the reason. If there is one,
    /// the command must not start.
    pub(super) unclear: Option<String>,
    keys: Vec<KeyWatch>,
    repository: RepositoryWatch,
    nested: Option<NestedWatch>,
    agent_repositories: AgentRepositories,
    git_state: Option<GitStateWatch>,
    stale: StaleWatch,
    unfinished: UnfinishedWatch,
    overlap: Overlap,
}

impl RunWatch {
    /// Records everything that the reports compare with. Leaves out paths that this user cannot
    /// access, and placeholders, which runs remove and create again.
    pub fn start(host: &Host, compiled: &Compiled, placeholders: Option<&ActivePlaceholders>) -> Self {
        let (plan, project) = (&compiled.plan, &compiled.layers.project);
        let is_open = |path: &AbsPath| plan.view_around(path) == View::HostRw;
        let can_be_written = |path: &AbsPath| plan.view(path) == View::HostRw;
        let mut absent = absent(compiled);
        // The parent folder of a placeholder is removed when the run ends, unless the command
        // fills it.
        let is_on_the_way =
            |path: &AbsPath| plan.placeholders.iter().any(|placeholder| placeholder.path.is_below(path));
        // Another run may have created a path since the policy was compiled.
        absent.retain(|absent| is_on_the_way(&absent.path) || !is_there(host, &absent.path));
        let is_placeholder = |path: &AbsPath| placeholders.is_some_and(|active| active.includes(path));
        let covered = compiled
            .decisions
            .iter()
            .filter(|(path, decision)| !is_placeholder(path) && decision.access.is_protective() && is_open(path));
        let mut parent = LastParent::default();
        let mut unclear = None;
        let covered = covered.filter_map(|(path, _)| match parent.statx(&host.real(path), FileBirth::WANTED) {
            Ok(found) => Some((path.clone(), FileBirth::of(&found))),
            Err(e) => {
                let e = io::Error::from(e);
                unclear = unclear.take().or_else(|| is_transient(&e).then(|| format!("`{path}`: {}", reason(&e))));
                None
            }
        });
        let covered: Vec<(AbsPath, FileBirth)> = covered.collect();
        let stale = StaleWatch::start(host, project, plan, covered.iter().map(|(path, _)| path));
        let mut keys = Vec::new();
        for (path, file, origin) in agent_files(host, compiled).into_iter().filter(|(path, ..)| can_be_written(path)) {
            match file.used {
                _ if file.is_preferred && !is_there(host, &path) => {
                    absent.push(AbsentPath { path, origin, is_moved_aside: true });
                }
                FileUse::Mixed { keys: obeyed, harmless } => keys.push(KeyWatch::start(host, path, obeyed, harmless)),
                FileUse::ReadOnly { .. } => {}
            }
        }
        let repository = RepositoryWatch::start(host, project, is_open);
        let watches_nested = compiled.policy.presets.contains_key("git");
        let nested = watches_nested.then(|| NestedWatch::start(host, compiled, &can_be_written, is_open));
        let git_dirs = nested.as_ref().map(NestedWatch::git_dirs).unwrap_or_default();
        let git_state = watches_nested.then(|| {
            let hidden = compiled.decisions.iter().filter(|(_, decision)| decision.access == Access::Exclude);
            let hidden = hidden.filter(|(path, _)| !is_placeholder(path) && is_there(host, path));
            let hidden: Vec<AbsPath> = hidden.map(|(path, _)| path.clone()).collect();
            GitStateWatch::start(host, project, git_dirs.clone(), &hidden)
        });
        let unclear = unclear.or_else(|| nested.as_ref().and_then(NestedWatch::unclear).cloned());
        let mut watch = Self {
            root: project.root.clone(),
            root_mode: writable_mode(host, &project.root),
            absent,
            covered,
            gaps: BTreeMap::new(),
            unclear,
            keys,
            repository,
            nested,
            agent_repositories: AgentRepositories::start(host, compiled),
            git_state,
            stale,
            unfinished: UnfinishedWatch::start(host, project, git_dirs),
            overlap: Overlap::default(),
        };
        let mut known = HashSet::new();
        watch.facts(host, &can_be_written, &mut Facts::Note(&mut known));
        watch.overlap = Overlap::start(host, compiled, known);
        watch
    }

    /// Passes each fact that was known at the start to `facts`, and forgets those that do not stay
    /// known.
    fn facts(&mut self, host: &Host, can_be_written: nested::Changeable, facts: &mut Facts<'_>) {
        self.nested.iter_mut().for_each(|nested| nested.facts(host, can_be_written, facts));
        self.git_state.iter_mut().for_each(|git_state| git_state.facts(facts));
        self.unfinished.facts(facts);
        self.agent_repositories.facts(facts);
    }

    /// Restores the permissions of the project's folder. Without them, no placeholder could be
    /// removed, and no planted repository moved aside. Called before both.
    pub fn open_root(&self, host: &Host, said: &mut Diagnostics) {
        let Some(mode) = self.root_mode.filter(|_| !ablate::is_off(Mitigation::HeadRestore)) else { return };
        let opened = match OpenDir::open(host, &self.root) {
            Ok(root) if root.is_writable() => return,
            Ok(root) => root.set_mode(mode),
            Err(e) => Err(e),
        };
        let (outcome, help) = match opened {
            Ok(()) => ("restored".to_owned(), "look at the files that the run put into the project"),
            Err(e) => (
                format!("they cannot be restored: {}", reason(&e)),
                "run `chmod u+rwx` on it, then `agent-sandbox sweep`",
            ),
        };
        let message = format!("the run took away permissions of `{}`; {outcome}", self.root);
        said.push(Diagnostic::new(Code::RepositoryRepaired, message).paths([self.root.clone()]).help(help));
    }

    /// Reports the changes of the run, and undoes those that would make git run a program.
    pub fn finish(&mut self, host: &Host, compiled: &Compiled, said: &mut Diagnostics) {
        let ended = self.overlap.end();
        if !ended.is_empty() {
            let can_be_written = |path: &AbsPath| compiled.plan.view(path) == View::HostRw;
            self.facts(host, &can_be_written, &mut Facts::Keep(&ended));
        }
        self.end_consent(host, compiled, said);
        if !ablate::is_off(Mitigation::Reports) {
            self.report_created(host, compiled, said);
            replaced::report(self, host, said);
            report_hidden_next(host, compiled, said);
            self.stale.finish(host, &compiled.plan, said);
            for keys in &self.keys {
                keys.finish(host, said);
            }
        }
        let mut held = Held { host, said, paths: BTreeSet::new() };
        let nested = self.nested.as_ref().filter(|_| !ablate::is_off(Mitigation::NestedRepositories));
        // A `.git` in the project may lead to the new path of a repository that is moved aside
        // here, and the other way around, so this check is repeated at the end.
        if !ablate::is_off(Mitigation::NestedRepositories) {
            self.agent_repositories.check(&compiled.plan, &mut held);
        }
        // A link may make a broken repository seem valid, and a repair may make a folder with
        // links readable. So links are moved aside before and after the repair.
        for closed in [Closed::IfSearchable, Closed::All] {
            let before = held.paths.len();
            if let Some(nested) = nested {
                nested.move_links_aside(&compiled.plan, closed, &mut held);
            }
            let is_due = closed != Closed::All || held.paths.len() > before;
            if is_due && !ablate::is_off(Mitigation::HeadRestore) {
                self.repository.finish(host, held.said);
            }
        }
        let git_state = self.git_state.as_ref().filter(|_| !ablate::is_off(Mitigation::GitState));
        if let Some(git_state) = git_state {
            git_state.finish(&compiled.plan, &mut held);
        }
        let (mut families, mut git_dirs) = Default::default();
        // This check comes after the repair, because only a valid repository has an index.
        if let Some(nested) = nested {
            let plan = &compiled.plan;
            let replaced = LazyCell::new(|| replaced::all(self, host));
            let could_be_changed = |path: &AbsPath| plan.view(path) == View::HostRw || replaced.contains(path);
            (families, git_dirs) = nested.finish(plan, &could_be_changed, &mut held);
        }
        if let Some(git_state) = git_state {
            git_state.finish_new(&families, &git_dirs, &compiled.plan, &mut held);
        }
        if !ablate::is_off(Mitigation::NestedRepositories) {
            self.agent_repositories.finish(&compiled.plan, &mut held);
        }
        // The code above has made a repository readable that the command had made unreadable.
        if !ablate::is_off(Mitigation::Reports) {
            self.unfinished.finish(host, &compiled.plan, &git_dirs, said);
        }
    }

    /// Ends the consent to a project file that was removed or replaced during the run: the command
    /// may have written the present one.
    fn end_consent(&self, host: &Host, compiled: &Compiled, said: &mut Diagnostics) {
        let file = self.root.child(PROJECT_FILE);
        let Some((_, before)) = self.covered.iter().find(|(path, _)| *path == file) else { return };
        let now = LastParent::default().statx(&host.real(&file), FileBirth::WANTED);
        if !now.is_ok_and(|now| FileBirth::of(&now) == *before) {
            said.extend(trust::end_consent(host, &compiled.layers, &file).err());
        }
    }

    /// The paths that a preset's glob did not find at the start, and would protect if a run started
    /// now.
    fn created_by_globs(&self, host: &Host, compiled: &Compiled) -> Vec<AbsentPath> {
        let mut created: Vec<(OsString, AbsentPath)> = Vec::new();
        for (rule, path) in compiled.resolution.new_matches(host) {
            let found = created.iter().map(|(_, found)| found);
            let is_known = self.absent.iter().chain(found).any(|known| known.path == path);
            if !is_known && compiled.plan.view_around(&path) == View::HostRw {
                let found = AbsentPath { path, origin: rule.origin.to_string(), is_moved_aside: false };
                created.push((rule.text.clone(), found));
            }
        }
        by_turns(created, |(pattern, _)| pattern.clone()).into_iter().map(|(_, found)| found).collect()
    }

    fn report_created(&self, host: &Host, compiled: &Compiled, said: &mut Diagnostics) {
        let mut found = self.created_by_globs(host, compiled);
        if let Some(nested) = &self.nested {
            found.extend(new_worktrees::created(host, &compiled.layers.project, &compiled.plan, nested.families()));
        }
        let created = self.absent.iter().filter(|absent| is_there(host, &absent.path)).chain(&found);
        let (aside, created): (Vec<_>, Vec<_>) = created.partition(|absent| absent.is_moved_aside);
        for AbsentPath { path, origin, .. } in aside {
            let (outcome, help) = match held::move_aside_in_place(host, path) {
                Ok(held) => (format!("moved aside to `{held}`"), "look at it, and move it back if it is yours"),
                Err(e) => (format!("it cannot be moved aside: {}", reason(&e)), "look at it, and remove it"),
            };
            let message = format!("created during the run: `{path}` ({origin}); {outcome}");
            said.push(Diagnostic::new(Code::CreatedDuringRun, message).paths([path.clone()]).help(help));
        }
        if created.is_empty() {
            return;
        }
        let name = |absent: &&AbsentPath| format!("`{}` ({})", name_in(&self.root, &absent.path), absent.origin);
        let names = created.iter().map(name);
        let (subject, notes) = one_or_many(names.collect());
        let (it, program) = if created.len() == 1 {
            ("it", "the program that reads it")
        } else {
            ("them", "the programs that read them")
        };
        // Programs read files of the home wherever they are started.
        let is_in_project = created.iter().any(|absent| absent.path.is_within(&self.root));
        let before = match is_in_project {
            true => "before you open the project, enter it or commit".to_owned(),
            false => format!("before you start {program}"),
        };
        let help = format!("look at {it} {before}: tools on this machine may obey {it}");
        let paths: Vec<AbsPath> = created.iter().map(|absent| absent.path.clone()).collect();
        let created = Diagnostic::new(Code::CreatedDuringRun, format!("created during the run: {subject}"));
        said.push(created.notes(notes).paths(paths).help(help));
    }
}

/// The files of agents that the presets list, with their presets. Paths are resolved, and each
/// occurs once.
fn agent_files(host: &Host, compiled: &Compiled) -> Vec<(AbsPath, &'static AgentFile, String)> {
    let mut files: Vec<(AbsPath, &AgentFile, String)> = Vec::new();
    for preset in PRESETS.iter().filter(|preset| compiled.policy.presets.contains_key(preset.name)) {
        for file in preset.agent_files {
            let Ok(found) = host.resolve(compiled.layers.project.in_home(file.path).as_path()) else { continue };
            if !files.iter().any(|(path, ..)| *path == found.path) {
                files.push((found.path, file, format!("@{}", preset.name)));
            }
        }
    }
    files
}

/// Reports files that the command could see because git held the same content, and that the next
/// run hides, because git no longer holds that content (SPEC P6).
fn report_hidden_next(host: &Host, compiled: &Compiled, said: &mut Diagnostics) {
    let mut tracked = TrackedFiles::new(host);
    let left_alone: BTreeSet<&AbsPath> = compiled.resolution.left_alone.iter().map(|(_, path)| path).collect();
    for path in left_alone.into_iter().filter(|path| is_there(host, path)) {
        if !tracked.holds(path) {
            let name = name_in(&compiled.layers.project.root, path);
            let message = format!("`{name}` no longer has the content that git holds, so the next run hides it");
            let help = "commit or `git add` it if it holds no secrets, or name it with `rw` in your policy";
            said.push(Diagnostic::new(Code::HiddenNextTime, message).paths([path.clone()]).help(help));
        }
    }
}

/// The subject of a sentence, and the notes: for one path the path itself and no notes, otherwise
/// the number of paths and the paths as notes.
fn one_or_many(mut names: Vec<String>) -> (String, Vec<String>) {
    if names.len() == 1 { (names.swap_remove(0), names) } else { (format!("{} paths", names.len()), names) }
}

/// `path` relative to the root of the project, or absolute if it lies outside.
fn name_in(root: &AbsPath, path: &AbsPath) -> String {
    path.relative_to(root).map_or_else(|| path.to_string(), |relative| escape_for_display(relative.as_os_str()))
}

/// The missing paths that rules would protect if they existed, in places where the command can
/// create them.
pub(crate) fn absent(compiled: &Compiled) -> Vec<AbsentPath> {
    let precedence = |rule: &Rule| rule.precedence(Exactness::Exact);
    let mut strongest: BTreeMap<&AbsPath, &Rule> = BTreeMap::new();
    // A preset that hides secrets reports no secret that the command creates. It also must not keep
    // another preset from reporting the same path, so its rules are left out here.
    let hides_secrets = |rule: &Rule| rule.layer == LayerKind::Preset && rule.access == Access::Exclude;
    for (rule, path) in compiled.resolution.absent.iter().filter(|(rule, _)| !hides_secrets(rule)) {
        let known = strongest.entry(path).or_insert(rule);
        if precedence(rule) > precedence(known) {
            *known = rule;
        }
    }
    let of_rules = strongest.into_iter().filter(|(_, rule)| precedence(rule).access.is_protective());
    let of_rules = of_rules.map(|(path, rule)| {
        let (origin, is_moved_aside) = (rule.origin.to_string(), rule.refinements.moved_aside);
        AbsentPath { path: path.clone(), origin, is_moved_aside }
    });
    let ours = compiled.layers.absent.iter().map(|path| {
        let origin = "our own configuration".to_owned();
        AbsentPath { path: path.clone(), origin, is_moved_aside: false }
    });
    let can_be_made = |path: &AbsPath| {
        // Placeholders are sorted by path.
        let is_blocked = compiled.plan.placeholders.binary_search_by(|placeholder| placeholder.path.cmp(path)).is_ok();
        !is_blocked && compiled.plan.view_around(path) == View::HostRw
    };
    of_rules.chain(ours).filter(|absent| can_be_made(&absent.path)).collect()
}

/// The permissions of `folder`, if this user can change its entries.
fn writable_mode(host: &Host, folder: &AbsPath) -> Option<Mode> {
    let folder = OpenDir::open(host, folder).ok().filter(OpenDir::is_writable)?;
    Some(Mode::from_raw_mode(folder.status().ok()?.st_mode))
}

/// Whether anything is at `path`. A dangling symlink counts, because tools that obey the file
/// follow it. A path that cannot be examined counts as well.
fn is_there(host: &Host, path: &AbsPath) -> bool {
    !matches!(lstat(host.real(path)), Err(Errno::NOENT | Errno::NOTDIR))
}

/// Makes a folder of this user writable. The command may have made it read-only so that its
/// changes cannot be undone.
fn make_writable(folder: &OpenDir) -> io::Result<()> {
    if folder.is_writable() { Ok(()) } else { folder.grant(Mode::RWXU) }
}

/// A suffix that the command cannot predict, so that it cannot create the name beforehand.
fn unpredictable_suffix() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}-{:x}", std::process::id(), now.map_or(0, |now| now.as_nanos()))
}
