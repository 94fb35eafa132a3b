//! Repositories and worktrees that agents keep in their own folders, such as snapshots of projects.
//! An agent outside runs git in them, so git would obey the settings and hooks that a command left
//! there. The worktrees may belong to any project of the user.

use std::collections::BTreeMap;
use std::io;

use crate::compile::Compiled;
use crate::compile::plan::{Plan, View};
use crate::compile::presets::data::PRESETS;
use crate::host::git::Nested;
use crate::host::git::config;
use crate::host::git::nested::{self, DotGit};
use crate::host::git::read_small;
use crate::host::{FileKind, Host, is_absent};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about_settings, listed_doubts, named};
use super::held::{Held, HeldReport};
use super::overlap::{Facts, keep_doubts};
use super::planted::has_head;

/// The largest number of folders that are searched.
const MOST_SEARCHED: usize = 2_000;

/// The doubts about each repository at the start. The key is the path that must be moved away so
/// that git ignores the repository.
pub(super) struct AgentRepositories {
    /// The folders, and the depth at which repositories lie in each.
    folders: Vec<(AbsPath, usize)>,
    before: BTreeMap<AbsPath, Vec<String>>,
}

impl AgentRepositories {
    pub(super) fn start(host: &Host, compiled: &Compiled) -> Self {
        let presets = PRESETS.iter().filter(|preset| compiled.policy.presets.contains_key(preset.name));
        let known = presets.flat_map(|preset| preset.repositories);
        let in_home = known.map(|known| (compiled.layers.project.in_home(known.folder), known.depth));
        // `finish` reports a folder that cannot be resolved, because it cannot search it either.
        let resolve = |folder: AbsPath| host.resolve(folder.as_path()).map_or(folder, |found| found.path);
        let folders = in_home.map(|(folder, depth)| (resolve(folder), depth));
        let plan = &compiled.plan;
        let folders: Vec<_> = folders.filter(|(folder, _)| plan.view(folder) == View::HostRw).collect();
        let before = folders.iter().flat_map(|(folder, depth)| Search::of(host, plan, folder, *depth).found).collect();
        Self { folders, before }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        keep_doubts("agent's repository", &mut self.before, facts);
    }

    /// Moves aside the repositories that have new doubts. A `.git` may lead to the new path of one
    /// that was just moved aside, so the check is repeated until nothing new is found.
    pub(super) fn check(&self, plan: &Plan, held: &mut Held) {
        loop {
            let before = held.paths.len();
            for (folder, depth) in &self.folders {
                self.check_all(Search::of(held.host, plan, folder, *depth).found, held);
            }
            if held.paths.len() == before {
                break;
            }
        }
    }

    fn check_all(&self, found: Vec<(AbsPath, Vec<String>)>, held: &mut Held) {
        for (place, doubts) in found {
            let before = self.before.get(&place);
            let is_new = |doubt: &String| !before.is_some_and(|before| before.contains(doubt));
            let doubts: Vec<String> = doubts.into_iter().filter(is_new).collect();
            if !doubts.is_empty() {
                let report = HeldReport {
                    finding: format!(
                        "an agent outside would use `{place}`, and since this run it has {}",
                        listed_doubts(doubts)
                    ),
                    subject: "it".to_owned(),
                    help_if_moved: "look at it, and move it back if it is right",
                    help_if_not: "remove it before you start the agent outside",
                };
                held.hold(&place, report);
            }
        }
    }

    /// Checks the repositories once more, and reports the folders that cannot be searched.
    pub(super) fn finish(&self, plan: &Plan, held: &mut Held) {
        self.check(plan, held);
        for (folder, depth) in &self.folders {
            if let Some(why) = Search::of(held.host, plan, folder, *depth).unclear {
                let message = format!("the repositories of an agent in `{folder}` cannot all be examined: {why}");
                held.say(folder, message, "look at their settings and hooks before you start the agent outside");
            }
        }
    }
}

/// A search for repositories in one folder.
struct Search<'a> {
    host: &'a Host,
    plan: &'a Plan,
    left: usize,
    found: Vec<(AbsPath, Vec<String>)>,
    unclear: Option<String>,
}

impl<'a> Search<'a> {
    fn of(host: &'a Host, plan: &'a Plan, folder: &AbsPath, depth: usize) -> Self {
        let mut search = Self { host, plan, left: MOST_SEARCHED, found: Vec::new(), unclear: None };
        if let Err(e) = search.at(folder, depth)
            && !is_absent(&e)
        {
            search.unclear = Some(crate::diagnostic::reason(&e));
        }
        search
    }

    /// Whether this is a linked worktree of a repository whose settings and hooks the command
    /// cannot change. The worktrees of the project's own repository are examined elsewhere (SPEC
    /// R15).
    fn is_trusted_worktree(&self, found: &Nested) -> bool {
        let can_be_changed = |name: &str| self.plan.view(&found.common_dir.child(name)) == View::HostRw;
        found.form == DotGit::Pointer
            && found.git_dir.parent() == Some(found.common_dir.child("worktrees"))
            && !["config", "hooks"].into_iter().any(can_be_changed)
    }

    fn at(&mut self, folder: &AbsPath, depth: usize) -> io::Result<()> {
        let entries = self.host.read_dir(folder)?;
        let has = |name: &str| entries.iter().any(|entry| entry.name == name);
        // Gemini CLI sets HOME to this folder for git.
        if has(".gitconfig") {
            let settings = folder.child(".gitconfig");
            let doubts = doubts_about_file(self.host, &settings);
            self.found.push((settings, doubts));
        }
        if has(".git") {
            let dot_git = folder.child(".git");
            let doubts = match nested::repository_in(self.host, folder) {
                Ok(Some(found)) if found.form == DotGit::Directory => {
                    doubts_about_settings(self.host, &found.git_dir, &found.common_dir)
                }
                Ok(Some(found)) if self.is_trusted_worktree(&found) => Vec::new(),
                Ok(Some(found)) => {
                    let mut doubts = doubts_about_settings(self.host, &found.git_dir, &found.common_dir);
                    doubts.push(format!("its git directory elsewhere, in `{}`", found.git_dir));
                    doubts
                }
                Ok(None) => Vec::new(),
                Err(_) => vec!["a git directory elsewhere".to_owned()],
            };
            self.found.push((dot_git, doubts));
        }
        if has_head(self.host, folder).unwrap_or(true) {
            self.found.push((folder.child("HEAD"), doubts_about_settings(self.host, folder, folder)));
            return Ok(());
        }
        if depth == 0 {
            return Ok(());
        }
        for entry in entries.iter().filter(|entry| entry.kind == FileKind::Directory && entry.name != ".git") {
            if self.left == 0 {
                self.unclear = Some(format!("there are more than {MOST_SEARCHED} folders"));
                return Ok(());
            }
            self.left -= 1;
            self.at(&folder.child(&entry.name), depth - 1)?;
        }
        Ok(())
    }
}

fn doubts_about_file(host: &Host, settings: &AbsPath) -> Vec<String> {
    match read_small(host, settings).and_then(|text| config::entries(&text.unwrap_or_default())) {
        Ok(entries) => named(entries.iter().filter(|entry| !entry.is_of_a_new_repository())),
        Err(_) => vec!["settings that cannot be read".to_owned()],
    }
}
