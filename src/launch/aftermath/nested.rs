//! Repositories that git on the host would enter by itself, and that did not exist at the start. No
//! mount can keep a command from planting them. One that names programs is moved aside, because the
//! next prompt of a shell may run `git status` before the user has read a warning.

use std::collections::BTreeSet;

use crate::compile::layers::Project;
use crate::diagnostic::Diagnostics;
use crate::host::Host;
use crate::host::git::nested::{self, FoundBy, WorkTree};
use crate::host::git::{Nested, NestedRepositories, Repository};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about, listed_doubts};
use super::held::{Held, HeldReport, REMOVE_IT};
use super::modules::ModulesWatch;
use super::planted::PlantedWatch;

pub(super) struct NestedWatch {
    root: AbsPath,
    repository: Option<Repository>,
    /// The repositories at the start.
    known: NestedRepositories,
    /// Those that mounts do not protect completely, and the doubts about each at the start.
    open: Vec<(Nested, Vec<String>)>,
    /// The work trees at the start, where the repository's list had them.
    work_trees: Vec<WorkTree>,
    modules: ModulesWatch,
    planted: Vec<PlantedWatch>,
}

impl NestedWatch {
    /// `can_be_written` tells whether the command can write a path that exists.
    pub(super) fn start(host: &Host, project: &Project, can_be_written: impl Fn(&AbsPath) -> bool) -> Self {
        let repository = project.repository.clone();
        let mut known = project.git_nested.clone();
        let open = known.found.iter().filter(|found| protected_parts(found).iter().any(&can_be_written));
        let open = open.map(|found| (found.clone(), doubts_about(host, found))).collect();
        let work_trees = repository.as_ref().map(|repository| nested::work_trees(host, repository)).unwrap_or_default();
        if let Some(repository) = &repository {
            known.unclear.extend(nested::elsewhere(host, repository, &work_trees).unclear);
        }
        let modules = ModulesWatch::start(host, repository.as_ref());
        let folders = project.cwd.ancestors().take_while(|folder| folder.is_within(&project.root));
        let planted = folders.map(|folder| PlantedWatch::start(host, folder)).collect();
        Self { root: project.root.clone(), repository, known, open, work_trees, modules, planted }
    }

    /// `can_be_written` tells whether the command could create or replace a path. If not, the
    /// command has not planted it.
    pub(super) fn finish(&self, host: &Host, can_be_written: impl Fn(&AbsPath) -> bool, said: &mut Diagnostics) {
        let mut held = Held { host, said, paths: BTreeSet::new() };
        // A `.git` may lead to where another one was just moved, so look until nothing new is
        // found.
        loop {
            let before = held.paths.len();
            self.check(&can_be_written, &mut held);
            if held.paths.len() == before {
                return;
            }
        }
    }

    fn check(&self, can_be_written: &impl Fn(&AbsPath) -> bool, held: &mut Held) {
        let host = held.host;
        let repository = self.repository.as_ref();
        // Both answers are of one moment: nothing is moved aside before both are known.
        let seen = &host.with_cache();
        let mut now = nested::nested(seen, &self.root, repository);
        let others = repository.map(|repository| nested::elsewhere(seen, repository, &self.work_trees));
        let planted: Vec<_> = self.planted.iter().filter_map(|planted| planted.check(held)).collect();
        for NestedRepositories { mut found, unclear, .. } in others.into_iter().chain(planted) {
            found.retain(|found| !now.found.contains(found));
            now.found.extend(found);
            now.unclear.extend(unclear);
        }
        let unclear: BTreeSet<&AbsPath> =
            now.unclear.difference(&self.known.unclear).map(|index| &index.git_dir).collect();
        let by_index: Vec<&Nested> = now.found.iter().filter(|found| found.found_by == FoundBy::Index).collect();
        // The index of the project's repository or of a worktree. For the others, `.git` is moved.
        for git_dir in unclear.iter().filter(|git_dir| !by_index.iter().any(|found| found.git_dir == ***git_dir)) {
            let index = git_dir.child("index");
            if can_be_written(&index) {
                let report = HeldReport {
                    finding: format!("since this run nobody can tell what submodules `{index}` names"),
                    subject: "it".to_owned(),
                    help_if_moved: "`git reset` makes it anew from the last commit",
                    help_if_not: "remove it before you use git in this project, and run `git reset`",
                };
                held.hold(&index, report);
            }
        }
        for found in by_index {
            let mut doubts = self.new_doubts(host, found);
            if unclear.contains(&found.git_dir) {
                doubts.push("an index that cannot be understood".to_owned());
            }
            let dot_git = found.folder.child(".git");
            if !doubts.is_empty() && can_be_written(&dot_git) {
                held.hold(&dot_git, self.report(&found.folder, &dot_git, doubts));
            }
        }
        self.modules.check(held);
    }

    fn new_doubts(&self, host: &Host, found: &Nested) -> Vec<String> {
        let before = self.open.iter().find(|(open, _)| open == found).map(|(_, before)| before);
        if before.is_none() && self.known.found.contains(found) {
            // Mounts protect it.
            return Vec::new();
        }
        let is_new = |doubt: &String| !before.is_some_and(|before| before.contains(doubt));
        doubts_about(host, found).into_iter().filter(is_new).collect()
    }

    fn report(&self, folder: &AbsPath, dot_git: &AbsPath, doubts: Vec<String>) -> HeldReport {
        let name = super::name_in(&self.root, folder);
        let doubts = listed_doubts(doubts);
        HeldReport {
            finding: format!("git would enter `{name}`, which is a repository since this run, and has {doubts}"),
            subject: format!("`{dot_git}`"),
            help_if_moved: "look at it, and move it back if it is right; `git update-index --force-remove` forgets that there is one",
            help_if_not: REMOVE_IT,
        }
    }
}

/// The files of a repository that mounts protect.
fn protected_parts(found: &Nested) -> [AbsPath; 4] {
    let [config, hooks] = ["config", "hooks"].map(|name| found.common_dir.child(name));
    [config, hooks, found.git_dir.child("commondir"), found.git_dir.child("config.worktree")]
}
