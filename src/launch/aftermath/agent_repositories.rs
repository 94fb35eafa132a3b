//! Repositories that agents keep in their own folders, such as snapshots of projects. An agent
//! outside runs git in them, so git would obey the settings and hooks that a command left there.

use std::collections::BTreeMap;
use std::io;

use crate::compile::Compiled;
use crate::compile::plan::View;
use crate::compile::presets::data::PRESETS;
use crate::host::git::config;
use crate::host::git::nested::{self, DotGit};
use crate::host::git::read_small;
use crate::host::{FileKind, Host, is_absent};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about_settings, listed_doubts, named};
use super::held::{Held, HeldReport};
use super::overlap::{Facts, keep_doubts};
use super::planted::has_head;

/// The largest depth of a repository in such a folder.
const DEPTH: usize = 3;
/// The largest number of folders that are searched.
const MOST_SEARCHED: usize = 2_000;

/// The doubts about each repository at the start. The key is the path that must be moved away so
/// that git ignores the repository.
pub(super) struct AgentRepositories {
    folders: Vec<AbsPath>,
    before: BTreeMap<AbsPath, Vec<String>>,
}

impl AgentRepositories {
    pub(super) fn start(host: &Host, compiled: &Compiled) -> Self {
        let presets = PRESETS.iter().filter(|preset| compiled.policy.presets.contains_key(preset.name));
        let known = presets.flat_map(|preset| preset.repositories);
        let in_home = known.map(|known| compiled.layers.project.in_home(known.folder));
        let folders = in_home.filter_map(|folder| Some(host.resolve(folder.as_path()).ok()?.path));
        let folders: Vec<AbsPath> = folders.filter(|folder| compiled.plan.view(folder) == View::HostRw).collect();
        let before = folders.iter().flat_map(|folder| Search::of(host, folder).found).collect();
        Self { folders, before }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        keep_doubts("agent's repository", &mut self.before, facts);
    }

    /// Moves aside the repositories that have new doubts.
    pub(super) fn finish(&self, held: &mut Held) {
        for folder in &self.folders {
            let Search { found, unclear, .. } = Search::of(held.host, folder);
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
            if let Some(why) = unclear {
                let message = format!("the repositories of an agent in `{folder}` cannot all be examined: {why}");
                held.say(folder, message, "look at their settings and hooks before you start the agent outside");
            }
        }
    }
}

/// A search for repositories in one folder.
struct Search<'a> {
    host: &'a Host,
    left: usize,
    found: Vec<(AbsPath, Vec<String>)>,
    unclear: Option<String>,
}

impl<'a> Search<'a> {
    fn of(host: &'a Host, folder: &AbsPath) -> Self {
        let mut search = Self { host, left: MOST_SEARCHED, found: Vec::new(), unclear: None };
        if let Err(e) = search.at(folder, DEPTH)
            && !is_absent(&e)
        {
            search.unclear = Some(crate::diagnostic::reason(&e));
        }
        search
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
                Ok(None) => Vec::new(),
                Ok(Some(_)) | Err(_) => vec!["a git directory elsewhere".to_owned()],
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
