//! Git directories of submodules that are not checked out. git does not enter them by itself, but
//! `git submodule update` uses an existing one, with its hooks and settings, instead of cloning.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use crate::host::git::nested::{Families, Family};
use crate::host::long_path::LONGEST_SEARCHED;
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about_settings, listed_doubts};
use super::held::{Held, HeldReport};
use super::overlap::{Facts, keep_doubts};
use super::worktrees;

/// The largest number of folders that are searched. No real repository has so many.
const MOST_FOLDERS: usize = 10_000;

/// Folders of a git directory that hold no other git directories.
pub(super) const NOT_ENTERED: [&str; 6] = ["objects", "refs", "logs", "hooks", "info", "lfs"];

/// The doubt about a folder that cannot be listed. git can use such a folder if it may search it.
const CLOSED: &str = "content that cannot be examined";

pub(super) struct ModulesWatch {
    /// The git directories at the start, and the doubts about each.
    known: BTreeMap<AbsPath, Vec<String>>,
}

impl ModulesWatch {
    pub(super) fn start(host: &Host, families: &Families) -> Self {
        Self { known: search(host, &module_folders(host, families)) }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        keep_doubts("module", &mut self.known, facts);
    }

    /// Moves aside the git directories about which there are new doubts. Returns the new git
    /// directories.
    pub(super) fn check(
        &self,
        now: &Families,
        can_be_written: &impl Fn(&AbsPath) -> bool,
        held: &mut Held,
    ) -> BTreeSet<AbsPath> {
        let folders = module_folders(held.host, now);
        let found = search(held.host, &folders);
        let new = found.keys().filter(|git_dir| !self.known.contains_key(*git_dir)).cloned().collect();
        for (git_dir, mut doubts) in found {
            if let Some(before) = self.known.get(&git_dir) {
                doubts.retain(|doubt| !before.contains(doubt));
            }
            if doubts.is_empty() || !can_be_written(&git_dir) {
                continue;
            }
            let doubts = listed_doubts(doubts);
            let report = HeldReport {
                finding: format!(
                    "git would use `{git_dir}` as the repository of a submodule, and since this run it has {doubts}"
                ),
                subject: "it".to_owned(),
                help_if_moved: "look at it, and move it back if it is right; `git submodule update --init` clones it anew",
                help_if_not: "remove it before you use `git submodule`",
            };
            // In `modules` git would still use it, for a submodule with another name.
            let around = folders.iter().find(|folder| git_dir.is_within(folder)).and_then(AbsPath::parent);
            held.hold_in(&git_dir, &around.unwrap_or_else(AbsPath::root), "modules", report);
        }
        new
    }
}

/// The folders in which git looks for the git directories of submodules. Each worktree has its own.
fn module_folders(host: &Host, families: &Families) -> Vec<AbsPath> {
    let mut folders: BTreeSet<AbsPath> = BTreeSet::new();
    for Family { repository, work_trees } in families.iter() {
        let trees = work_trees.iter().map(|tree| &tree.git_dir);
        folders.extend(trees.chain([&repository.git_dir]).map(|git_dir| git_dir.child("modules")));
        // If the folder exists but cannot be listed, the search returns a doubt about it.
        let worktrees = repository.common_dir.child("worktrees");
        folders.extend(host.read_dir(&worktrees).is_err().then_some(worktrees));
    }
    // The search of a folder covers the folders in it. An outer folder comes first, because the
    // paths are sorted by components.
    let mut outer: Vec<AbsPath> = Vec::new();
    for folder in folders {
        if !outer.last().is_some_and(|last| folder.is_within(last)) {
            outer.push(folder);
        }
    }
    outer
}

/// The git directories below `tops`, and the doubts about each.
fn search(host: &Host, tops: &[AbsPath]) -> BTreeMap<AbsPath, Vec<String>> {
    let host = &host.with_cache();
    let mut found = BTreeMap::new();
    let mut waiting = tops.to_vec();
    let mut visited = 0;
    while let Some(folder) = waiting.pop() {
        let resolved = host.resolve(folder.as_path());
        if resolved.as_ref().is_ok_and(|resolved| resolved.kind.is_none()) {
            continue;
        }
        visited += 1;
        if visited > MOST_FOLDERS || folder.as_os_str().len() > LONGEST_SEARCHED {
            let tops = tops.iter().filter(|top| host.exists(top).unwrap_or(true));
            found.extend(tops.map(|top| (top.clone(), vec!["more folders than can be searched".to_owned()])));
            break;
        }
        let entries = match resolved {
            Ok(resolved) if resolved.kind != Some(FileKind::Directory) => continue,
            Ok(resolved) if resolved.path != folder => Err("a symlink in its place"),
            Ok(_) => host.read_dir(&folder).map_err(|_| CLOSED),
            Err(_) => Err(CLOSED),
        };
        let entries = match entries {
            Ok(entries) => entries,
            Err(doubt) => {
                found.insert(folder, vec![doubt.to_owned()]);
                continue;
            }
        };
        let is_git_dir = entries.iter().any(|entry| entry.name == "HEAD");
        if is_git_dir {
            let list = folder.parent().filter(|list| list.file_name() == Some("worktrees".as_ref()));
            let around = list.and_then(|list| list.parent()).filter(|around| found.contains_key(around));
            let doubts = match around {
                // This worktree shares the settings of the submodule `around`.
                Some(around) => worktrees::doubts_about(host, &folder, &around, &worktrees::copied(host, &around)),
                None => doubts_about_settings(host, &folder, &folder),
            };
            found.insert(folder.clone(), doubts);
        }
        let is_entered = |name: &OsStr| !is_git_dir || !NOT_ENTERED.iter().any(|known| name == *known);
        let folders = entries.iter().filter(|entry| entry.kind == FileKind::Directory || entry.is_symlink);
        waiting.extend(folders.filter(|entry| is_entered(&entry.name)).map(|entry| folder.child(&entry.name)));
    }
    found
}
