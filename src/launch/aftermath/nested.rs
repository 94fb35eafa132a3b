//! Repositories that git on the host would enter by itself, and that did not exist at the start. No
//! mount can keep a command from planting them. A repository that names programs is moved aside,
//! because the next prompt of a shell may run `git status` before the user has read a warning.

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::Compiled;
use crate::compile::plan::{Plan, View};
use crate::diagnostic::{Code, Diagnostic};
use crate::host::Host;
use crate::host::git::nested::{self, Families, FoundBy, HiddenFiles, UnclearIndex};
use crate::host::git::{Nested, NestedRepositories, Repository};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about, doubts_about_settings, listed_doubts};
use super::folders::Folders;
use super::git_dir_links::{Closed, GitDirLinks};
use super::held::{self, Held, HeldReport, REMOVE_IT};
use super::history::HistoryWatch;
use super::ignore_files::IgnoreFilesWatch;
use super::links::LinksWatch;
use super::modules::ModulesWatch;
use super::overlap::Facts;
use super::planted::PlantedWatch;
use super::remotes::Reach;
use super::subfolders::{self, SubfoldersWatch};
use super::worktrees::WorktreesWatch;

/// The number of files in one sentence.
const MOST_NAMED: usize = 5;
/// The number of missing files in one report.
const MOST_LISTED: usize = 100;

pub(super) struct NestedWatch {
    root: AbsPath,
    repository: Option<Repository>,
    /// The repositories at the start.
    known: NestedRepositories,
    /// The repositories that mounts do not protect completely, and the doubts about each at the
    /// start.
    open: BTreeMap<AbsPath, (Nested, Vec<String>)>,
    /// Worktrees whose `.git` is protected by no mount, each with its git directory.
    pointers: Vec<(AbsPath, AbsPath)>,
    /// The repositories at the start, with their work trees.
    families: Families,
    /// The git directories in `families` that another run of the project did not know.
    newer: BTreeSet<AbsPath>,
    modules: ModulesWatch,
    worktrees: WorktreesWatch,
    links: LinksWatch,
    git_dir_links: GitDirLinks,
    subfolders: SubfoldersWatch,
    history: HistoryWatch,
    ignore_files: IgnoreFilesWatch,
    planted: Vec<PlantedWatch>,
}

impl NestedWatch {
    /// `can_be_written` tells whether the command can write a path that exists, `can_be_replaced`
    /// whether it can replace one.
    pub(super) fn start(
        host: &Host,
        compiled: &Compiled,
        can_be_written: Changeable,
        can_be_replaced: impl Fn(&AbsPath) -> bool,
    ) -> Self {
        let host = &host.with_cache();
        let project = &compiled.layers.project;
        let repository = project.repository.clone();
        let mut known = project.git_nested.clone();
        let mut families = Families::default();
        let in_subfolders = subfolders::repositories(host, &project.root);
        families.follow(host, repository.as_ref(), &in_subfolders, &Families::default(), &mut known);
        let parts = |found: &Nested| protected_parts(found);
        let open = known.found.iter().filter(|found| parts(found).iter().any(can_be_written));
        let reach = Reach { root: &project.root, could_be_changed: can_be_written };
        let open =
            open.map(|found| (found.folder.clone(), (found.clone(), doubts_about(host, found, reach)))).collect();
        let worktrees = known.found.iter().filter(|found| found.found_by == FoundBy::Worktrees);
        let pointers = worktrees.filter(|found| can_be_written(&found.folder.child(".git")));
        let pointers = pointers.map(|found| (found.folder.clone(), found.git_dir.clone())).collect();
        let modules = ModulesWatch::start(host, &families);
        let worktrees = WorktreesWatch::start(host, &project.root, &families);
        let links = LinksWatch::start(host, compiled, can_be_replaced);
        let git_dir_links = GitDirLinks::start(host, project);
        let subfolders = SubfoldersWatch::start(host, project, &families, can_be_written);
        let folders = project.cwd.ancestors().take_while(|folder| folder.is_within(&project.root));
        let nested = known.found.iter().filter(|found| found.found_by != FoundBy::Worktrees);
        let folders: BTreeSet<AbsPath> = folders.chain(nested.map(|found| found.folder.clone())).collect();
        let planted = folders.into_iter().map(|folder| PlantedWatch::start(host, folder)).collect();
        let root = project.root.clone();
        Self {
            root,
            repository,
            known,
            open,
            pointers,
            modules,
            worktrees,
            links,
            git_dir_links,
            ignore_files: IgnoreFilesWatch::start(host, &project.root, &subfolders.folders),
            subfolders,
            history: HistoryWatch::start(host, &families),
            planted,
            families,
            newer: BTreeSet::new(),
        }
    }

    pub(super) fn facts(&mut self, host: &Host, can_be_written: Changeable, facts: &mut Facts<'_>) {
        let Self { root, known, open, .. } = self;
        let reach = Reach { root, could_be_changed: can_be_written };
        known.found.retain(|found| {
            let identity = format!("{found:?}");
            let is_known = facts.keep("repository", &found.folder, &identity);
            // A run in which mounts protected the repository did not look for doubts. It recorded
            // the fact "closed" instead.
            let closed = Some(("closed", identity.as_bytes()));
            match open.get_mut(&found.folder) {
                Some((_, doubts)) => {
                    doubts.retain(|doubt| facts.keep_or("doubt", &found.folder, doubt.as_bytes(), closed));
                }
                None if !facts.keep("closed", &found.folder, &identity) => {
                    let mut doubts = doubts_about(host, found, reach);
                    doubts.retain(|doubt| facts.keep_or("doubt", &found.folder, doubt.as_bytes(), closed));
                    open.insert(found.folder.clone(), (found.clone(), doubts));
                }
                None => {}
            }
            if !is_known {
                open.remove(&found.folder);
            }
            is_known
        });
        let name = |index: &UnclearIndex| index.name.clone().unwrap_or_default();
        known.unclear.retain(|index| facts.keep("unclear", &index.git_dir, name(index)));
        known.hidden.retain_known(&mut |hash| facts.keep("hidden", &self.root, hash));
        // A worktree that another run did not know is checked as a subfolder.
        self.pointers.retain(|(folder, git_dir)| facts.keep("pointer", folder, git_dir.bytes()));
        self.modules.facts(facts);
        self.worktrees.facts(facts);
        let common_dirs = self.families.iter().map(|family| &family.repository.common_dir);
        self.newer.extend(common_dirs.filter(|common_dir| !facts.keep("family", common_dir, "")).cloned());
        self.git_dir_links.facts(facts);
        self.subfolders.facts(facts);
        self.history.facts(facts);
        self.ignore_files.facts(facts);
        self.planted.iter_mut().for_each(|planted| planted.facts(facts));
    }

    /// A path that could not be examined at the start, with the reason.
    pub(super) fn unclear(&self) -> Option<&String> {
        self.links.unclear.as_ref().or(self.git_dir_links.unclear.as_ref())
    }

    pub(super) fn move_links_aside(&self, plan: &Plan, closed: Closed, held: &mut Held) {
        self.git_dir_links.check(&|path| could_be_made(plan, path), closed, held);
    }

    /// The repositories at the start, with their work trees.
    pub(super) fn families(&self) -> &Families {
        &self.families
    }

    /// The git directories of all work trees at the start, wherever these are.
    pub(super) fn git_dirs(&self) -> BTreeSet<AbsPath> {
        self.families.git_dirs().into_iter().cloned().collect()
    }

    /// Checks all repositories after the run. Returns the repositories, their git directories, and
    /// the new git directories of submodules. `could_be_changed` tells whether the command could
    /// write a file.
    pub(super) fn finish(
        &self,
        plan: &Plan,
        could_be_changed: Changeable,
        held: &mut Held,
    ) -> (Families, BTreeSet<AbsPath>) {
        let folders = Folders::of(held.host, &self.root);
        // A `.git` may lead to the new path of one that was just moved aside, so the check is
        // repeated until nothing new is found.
        let (hidden, families, mut git_dirs) = loop {
            let before = held.paths.len();
            let found = self.check(plan, could_be_changed, held);
            self.subfolders.check(&folders, &self.trusted(held.host, &found.1), could_be_changed, held);
            if held.paths.len() == before {
                break found;
            }
        };
        self.subfolders.finish(&folders, held);
        self.report_hidden(&hidden, held);
        self.history.finish(&families, &|path| could_be_made(plan, path), held);
        self.history.finish_excluded(&families, could_be_changed, held);
        if self.repository.is_some() || super::is_there(held.host, &self.root.child(".git")) {
            self.ignore_files.finish(&folders, could_be_changed, held);
        }
        git_dirs.extend(families.git_dirs().into_iter().cloned());
        (families, git_dirs)
    }

    /// The common directories of repositories that existed at the start, and of new repositories
    /// without doubts. A worktree may share the settings in them.
    fn trusted(&self, host: &Host, now: &Families) -> BTreeSet<AbsPath> {
        let common_dirs = now.iter().map(|family| &family.repository.common_dir);
        let is_trusted = |common_dir: &&AbsPath| {
            let is_known = self.families.has(common_dir) && !self.newer.contains(*common_dir);
            is_known || doubts_about_settings(host, common_dir, common_dir).is_empty()
        };
        common_dirs.filter(is_trusted).cloned().collect()
    }

    /// Reports files whose changes `git status` does not show since this run. A sparse checkout
    /// marks thousands of files that do not exist.
    fn report_hidden(&self, now: &HiddenFiles, held: &mut Held) {
        let is_there = |path: &AbsPath| !matches!(held.host.kind(path), Ok(None));
        let (new, missing): (Vec<AbsPath>, Vec<AbsPath>) = now.new.iter().cloned().partition(is_there);
        let name = |path: &AbsPath| format!("`{}`", super::name_in(&self.root, path));
        if !missing.is_empty() {
            let names = held::shortened(missing.iter().map(name).collect(), MOST_NAMED);
            let message = format!("since this run git does not show that files are missing: {names}");
            let help = "look at `git show HEAD:FILE` first unless you used `git sparse-checkout`, because `git \
                        checkout` of another branch and back would write the file";
            let paths = missing.into_iter().take(MOST_LISTED);
            held.said.push(Diagnostic::new(Code::HiddenFromGit, message).paths(paths).help(help));
        }
        if new.is_empty() && !now.has_more {
            return;
        }
        let names = new.iter().map(name).collect();
        let names = match (now.has_more, new.is_empty()) {
            (true, true) => "more files than can be examined".to_owned(),
            (true, false) => format!("{}, and of more files than can be examined", held::shortened(names, MOST_NAMED)),
            (false, _) => held::shortened(names, MOST_NAMED),
        };
        let message = format!("since this run git shows no changes of {names}");
        let help = "look at them, and run `git update-index --no-assume-unchanged --no-skip-worktree FILE`; \
                    `git ls-files -v` marks such files";
        held.said.push(Diagnostic::new(Code::HiddenFromGit, message).paths(new).help(help));
    }

    /// Returns the files whose changes git does not show, the repositories, and the new git
    /// directories of submodules.
    fn check(
        &self,
        plan: &Plan,
        could_be_changed: Changeable,
        held: &mut Held,
    ) -> (HiddenFiles, Families, BTreeSet<AbsPath>) {
        let can_be_written = |path: &AbsPath| could_be_made(plan, path);
        let reach = Reach { root: &self.root, could_be_changed };
        let host = held.host;
        let repository = self.repository.as_ref();
        // With this cache, both searches below see the same state. Nothing is moved aside before
        // both are done.
        let seen = &host.with_cache();
        let mut now = nested::nested_again(seen, &self.root, repository, &self.known);
        let mut others: Vec<Nested> =
            self.planted.iter().filter_map(|planted| planted.new_repository(seen).ok().flatten()).collect();
        others.extend(subfolders::repositories(seen, &self.root));
        let mut families = Families::default();
        families.follow(seen, repository, &others, &self.families, &mut now);
        // If an index no longer names a repository, or can no longer be read, the search does not
        // reach the repository. So the indexes of the repositories that were known at the start are
        // still read.
        let folders: BTreeSet<&AbsPath> = now.found.iter().map(|found| &found.folder).collect();
        let lost = self.known.found.iter().filter(|known| !folders.contains(&known.folder));
        let lost: Vec<Nested> = lost.cloned().collect();
        if !lost.is_empty() {
            families.follow(seen, repository, &lost, &self.families, &mut now);
        }
        for planted in &self.planted {
            planted.check(seen, reach, held);
        }
        let unclear = now.unclear.difference(&self.known.unclear).map(|index| &index.git_dir);
        // The names in these indexes were examined neither at the start nor now.
        let unclear: BTreeSet<&AbsPath> = unclear.chain(&now.overfull).collect();
        let by_index: Vec<&Nested> = now.found.iter().filter(|found| found.found_by == FoundBy::Index).collect();
        let of_these: BTreeSet<&AbsPath> = by_index.iter().map(|found| &found.git_dir).collect();
        // The remaining indexes are those of the project's repository and of worktrees. For
        // submodules, the `.git` is moved aside instead.
        for git_dir in unclear.difference(&of_these) {
            let index = git_dir.child("index");
            if can_be_written(&index) {
                let report = HeldReport {
                    finding: format!("since this run it is unclear which submodules `{index}` names"),
                    subject: "it".to_owned(),
                    help_if_moved: "run `git reset`, which makes it anew from the last commit",
                    help_if_not: "remove it before you use git in this project, and run `git reset`",
                };
                held.hold(&index, report);
            }
        }
        for found in by_index {
            let mut doubts = self.new_doubts(host, found, reach);
            if unclear.contains(&found.git_dir) {
                doubts.push("an index that cannot be understood".to_owned());
            }
            let dot_git = found.folder.child(".git");
            if !doubts.is_empty() && can_be_written(&dot_git) {
                held.hold(&dot_git, self.report(&found.folder, &dot_git, doubts));
            }
        }
        self.check_pointers(seen, held);
        let modules = self.modules.check(&families, &can_be_written, held);
        self.worktrees.check(&families, &can_be_written, held);
        self.subfolders.check_worktrees(&families, &self.trusted(seen, &families), could_be_changed, held);
        self.links.check(held);
        (now.hidden, families, modules)
    }

    /// Moves aside the `.git` of each worktree that leads elsewhere since this run.
    fn check_pointers(&self, seen: &Host, held: &mut Held) {
        for (folder, git_dir) in &self.pointers {
            let now = nested::git_dir_in(seen, folder);
            if matches!(&now, Ok(None)) || now.is_ok_and(|now| now.is_some_and(|(now, _)| now == *git_dir)) {
                continue;
            }
            let dot_git = folder.child(".git");
            let doubts = vec!["another git directory than at the start".to_owned()];
            held.hold(&dot_git, self.report(folder, &dot_git, doubts));
        }
    }

    fn new_doubts(&self, host: &Host, found: &Nested, reach: Reach) -> Vec<String> {
        let before = self.open.get(&found.folder).filter(|(open, _)| open.is_same(found)).map(|(_, before)| before);
        // `found` is sorted by folder.
        let known = self.known.found.binary_search_by(|known| known.folder.cmp(&found.folder));
        let is_known = known.is_ok_and(|index| self.known.found.get(index).is_some_and(|known| known.is_same(found)));
        if before.is_none() && is_known {
            // Mounts protect this repository.
            return Vec::new();
        }
        let is_new = |doubt: &String| !before.is_some_and(|before| before.contains(doubt));
        doubts_about(host, found, reach).into_iter().filter(is_new).collect()
    }

    fn report(&self, folder: &AbsPath, dot_git: &AbsPath, doubts: Vec<String>) -> HeldReport {
        let name = super::name_in(&self.root, folder);
        let doubts = listed_doubts(doubts);
        HeldReport {
            finding: format!("git would enter `{name}`, which is a repository since this run, and has {doubts}"),
            subject: format!("`{dot_git}`"),
            help_if_moved: "look at it, and move it back if it is right; `git update-index --force-remove` removes the folder from the index",
            help_if_not: REMOVE_IT,
        }
    }
}

/// Whether the command could change a path, because it is writable inside or the host replaced it.
pub(super) type Changeable<'a> = &'a dyn Fn(&AbsPath) -> bool;

/// Whether the command could create or replace `path`. If not, the command has not planted it.
fn could_be_made(plan: &Plan, path: &AbsPath) -> bool {
    plan.view_around(path) == View::HostRw
}

/// The files of a repository that mounts protect.
pub(super) fn protected_parts(found: &Nested) -> [AbsPath; 4] {
    let [config, hooks] = ["config", "hooks"].map(|name| found.common_dir.child(name));
    [config, hooks, found.git_dir.child("commondir"), found.git_dir.child("config.worktree")]
}
