//! The git directories of linked worktrees. The command may make new ones, and the `commondir` in
//! each says where its settings are. Tools enter all worktrees that git lists.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::host::Host;
use crate::host::git::config::{self, ConfigEntry};
use crate::host::git::nested::{self, Families, Family, WorkTree};
use crate::host::git::read_small;
use crate::policy::path::{AbsPath, escape_for_display};

use super::doubts::{SETTINGS_ELSEWHERE, listed_doubts, named};
use super::held::{Held, HeldReport};
use super::overlap::{Facts, keep_doubts};

pub(super) struct WorktreesWatch {
    /// The root of the project.
    root: AbsPath,
    /// The git directories at the start, and the doubts about each.
    known: BTreeMap<AbsPath, Vec<String>>,
}

impl WorktreesWatch {
    pub(super) fn start(host: &Host, root: &AbsPath, families: &Families) -> Self {
        Self { root: root.clone(), known: families.iter().flat_map(|family| search(host, root, family)).collect() }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        keep_doubts("worktree", &mut self.known, facts);
    }

    /// Moves aside the git directories about which there are new doubts.
    pub(super) fn check(&self, now: &Families, can_be_written: &impl Fn(&AbsPath) -> bool, held: &mut Held) {
        for family in now.iter() {
            self.check_family(family, can_be_written, held);
        }
    }

    fn check_family(&self, family: &Family, can_be_written: &impl Fn(&AbsPath) -> bool, held: &mut Held) {
        let common_dir = &family.repository.common_dir;
        for (git_dir, mut doubts) in search(held.host, &self.root, family) {
            let before = self.known.get(&git_dir);
            doubts.retain(|doubt| !before.is_some_and(|before| before.contains(doubt)));
            if doubts.is_empty() || !can_be_written(&git_dir) {
                continue;
            }
            let doubts = listed_doubts(doubts);
            let report = HeldReport {
                finding: format!("`{git_dir}` is the git directory of a worktree, and since this run it has {doubts}"),
                subject: "it".to_owned(),
                help_if_moved: "look at it, and move it back if it is right; `git worktree add` makes a new one",
                help_if_not: "remove it before you enter that worktree",
            };
            held.hold_in(&git_dir, common_dir, "worktrees", report);
        }
    }
}

/// The git directories of all linked worktrees except the repository's own, and the doubts about
/// each.
fn search(host: &Host, root: &AbsPath, Family { repository, work_trees }: &Family) -> Vec<(AbsPath, Vec<String>)> {
    let own = [&repository.git_dir, &repository.common_dir];
    // git does not accept a git directory without a `HEAD`.
    let is_one = |git_dir: &AbsPath| !matches!(host.kind(&git_dir.child("HEAD")), Ok(None));
    let others = work_trees.iter().filter(|tree| !own.contains(&&tree.git_dir) && is_one(&tree.git_dir));
    let copied = LazyCell::new(|| copied(host, &repository.common_dir));
    let with_doubts = |WorkTree { git_dir, folder }: &WorkTree| {
        let mut doubts = doubts_about(host, git_dir, &repository.common_dir, &copied);
        // The `.git` of a worktree names its git directory. The command cannot write a `.git`
        // outside of the project.
        let leads_back =
            |folder: &AbsPath| nested::git_dir_in(host, folder).is_ok_and(|f| f.is_some_and(|(to, _)| to == *git_dir));
        if folder.as_ref().is_some_and(|folder| !folder.is_within(root) && !leads_back(folder)) {
            doubts.push("a place elsewhere that does not lead back to it".to_owned());
        }
        // Before 2.48, git resolved a relative `gitdir` from its working directory.
        let pointer = read_small(host, &git_dir.child("gitdir")).ok().flatten().unwrap_or_default();
        if *git_dir != repository.common_dir && !pointer.is_empty() && !pointer.starts_with(b"/") {
            let pointer = escape_for_display(OsStr::from_bytes(pointer.trim_ascii()));
            doubts.push(format!("the relative `gitdir` `{pointer}`"));
        }
        (git_dir.clone(), doubts)
    };
    others.map(with_doubts).collect()
}

/// The settings that `git worktree add` copies.
pub(super) fn copied(host: &Host, common_dir: &AbsPath) -> Vec<ConfigEntry> {
    settings_in(host, common_dir).unwrap_or_default()
}

pub(super) fn doubts_about(
    host: &Host,
    git_dir: &AbsPath,
    common_dir: &AbsPath,
    copied: &[ConfigEntry],
) -> Vec<String> {
    let mut doubts = Vec::new();
    if !nested::common_dir_of(host, git_dir).is_ok_and(|there| there == *common_dir) {
        doubts.push(SETTINGS_ELSEWHERE.to_owned());
    }
    match settings_in(host, git_dir) {
        Some(settings) => {
            let is_new = |entry: &&ConfigEntry| !entry.is_of_a_new_repository() && !copied.contains(entry);
            doubts.extend(named(settings.iter().filter(is_new)));
        }
        None => doubts.push("settings that cannot be read".to_owned()),
    }
    doubts
}

/// The settings of one worktree alone; `None` if they cannot be read.
fn settings_in(host: &Host, git_dir: &AbsPath) -> Option<Vec<ConfigEntry>> {
    let text = read_small(host, &git_dir.child("config.worktree")).ok()?;
    config::entries(&text.unwrap_or_default()).ok()
}
