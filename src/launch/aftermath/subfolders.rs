//! Repositories that the run made in folders of the project, in folders to which symlinks in the
//! project's root lead, and in worktrees. Editors and users enter them. So does git itself, as soon
//! as the index names the folder: the command can leave that name in a branch or a stash.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::compile::layers::Project;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::git::Nested;
use crate::host::git::nested::{self, Families};
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about, doubts_about_settings, listed_doubts};
use super::folders::Folders;
use super::held::{Held, HeldReport, REMOVE_IT};
use super::nested::{Changeable, protected_parts};
use super::overlap::{Facts, keep_doubts};
use super::planted::{has_head, is_bare};
use super::remotes::Reach;

const BARE_BESIDE: &str = "a bare repository beside its `.git`";
/// The number of folders that a report names because they cannot be searched.
const MOST_UNCLEAR: usize = 5;

pub(super) struct SubfoldersWatch {
    root: AbsPath,
    /// The common directory of the project's repository.
    own: Option<AbsPath>,
    /// The folders that were repositories at the start, and the doubts about each.
    known: BTreeMap<AbsPath, Vec<String>>,
    /// The folders of the project at the start.
    pub(super) folders: Folders,
}

/// A repository in a folder.
struct SubfolderRepository {
    doubts: Vec<String>,
    /// The files that make git run something, or lead git to such files.
    parts: Vec<AbsPath>,
}

impl SubfoldersWatch {
    pub(super) fn start(host: &Host, project: &Project, families: &Families, can_be_written: Changeable) -> Self {
        let own = project.repository.as_ref().map(|own| own.common_dir.clone());
        let folders = Folders::of(host, &project.root);
        let mut watch = Self { root: project.root.clone(), own, known: BTreeMap::new(), folders };
        let trusted = families.iter().map(|family| family.repository.common_dir.clone()).collect();
        let folders = subfolders(host, &watch.root).unwrap_or_default().into_iter().map(|(_, folder)| folder);
        let deeper = watch.folders.repositories.iter().cloned();
        for folder in folders.chain(watch.listed(families)).chain(deeper).collect::<BTreeSet<AbsPath>>() {
            let reach = Reach { root: &project.root, could_be_changed: can_be_written };
            if let Some(found) = found(host, &folder, &trusted, reach) {
                watch.known.insert(folder, found.doubts);
            }
        }
        watch
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        self.known.retain(|folder, _| facts.keep("subfolder", folder, ""));
        keep_doubts("doubt about a subfolder", &mut self.known, facts);
    }

    /// Moves aside the `.git` of each worktree that leads git, since this run, to settings that are
    /// not the project's own.
    pub(super) fn check_worktrees(
        &self,
        now: &Families,
        trusted: &BTreeSet<AbsPath>,
        could_be_changed: Changeable,
        held: &mut Held,
    ) {
        for folder in self.listed(now) {
            let doubts = self.new_doubts(held.host, &folder, trusted, could_be_changed);
            let dot_git = folder.child(".git");
            if doubts.is_empty() || !could_be_changed(&dot_git) {
                continue;
            }
            let (name, doubts) = (super::name_in(&self.root, &folder), listed_doubts(doubts));
            let report = HeldReport {
                finding: format!("git lists the worktree `{name}`, and since this run it has {doubts}"),
                subject: format!("`{dot_git}`"),
                help_if_moved: "look at it, and move it back if it is right",
                help_if_not: REMOVE_IT,
            };
            held.hold(&dot_git, report);
        }
    }

    /// Reports each folder of `now` whose repository has new doubts since this run, once. If git
    /// could enter a new repository by itself, its `.git` is moved aside.
    pub(super) fn check(
        &self,
        now: &Folders,
        trusted: &BTreeSet<AbsPath>,
        could_be_changed: Changeable,
        held: &mut Held,
    ) {
        let host = &held.host.with_cache();
        let is_entered = self.own.is_some() || !matches!(host.kind(&self.root.child(".git")), Ok(None));
        let deeper = now.repositories.iter().map(|folder| (folder.clone(), folder.clone()));
        let entries: BTreeSet<_> = subfolders(host, &self.root).unwrap_or_default().into_iter().chain(deeper).collect();
        for (entry, folder) in entries {
            let mut doubts = self.new_doubts(host, &folder, trusted, could_be_changed);
            // `PlantedWatch` may have reported the bare repository.
            doubts.retain(|doubt| doubt != BARE_BESIDE || !held.paths.contains(&folder.child("HEAD")));
            let dot_git = folder.child(".git");
            let is_said = [&entry, &folder, &dot_git].iter().any(|path| held.paths.contains(path));
            if doubts.is_empty() || is_said {
                continue;
            }
            let (name, doubts) = (super::name_in(&self.root, &entry), listed_doubts(doubts));
            let finding = match self.known.get(&folder) {
                None if entry == folder => format!("`{name}` is a repository since this run, and has {doubts}"),
                None => format!("`{name}` leads to a repository since this run, which has {doubts}"),
                Some(_) => format!("the repository `{name}` has, since this run, {doubts}"),
            };
            let is_new = !self.known.contains_key(&folder) && entry == folder;
            // git cannot enter a folder in which this user may not look.
            if is_new && is_entered && matches!(host.kind(&dot_git), Ok(Some(_))) {
                let report = HeldReport {
                    finding,
                    subject: format!("`{dot_git}`"),
                    help_if_moved: "look at its settings and hooks, and move it back if it is right",
                    help_if_not: REMOVE_IT,
                };
                held.hold(&dot_git, report);
            } else {
                held.paths.insert(entry.clone());
                let look = "look at its settings and hooks before you enter it, open it in an editor or add it";
                let help = match self.known.contains_key(&folder) {
                    true => format!("you or the command did this: {look}"),
                    false => look.to_owned(),
                };
                held.said.push(Diagnostic::new(Code::PlantedRepository, finding).paths([entry]).help(help));
            }
        }
    }

    /// Reports the folders that were searched at the start, and cannot be searched now.
    pub(super) fn finish(&self, now: &Folders, held: &mut Held) {
        let mut say = |message: String, path: &AbsPath| {
            let help = "make the folder readable again, and look for new repositories before you enter it";
            held.said.push(Diagnostic::new(Code::PlantedRepository, message).paths([path.clone()]).help(help));
        };
        let unclear = now.unclear.iter().filter(|(folder, _)| !self.folders.unclear.contains_key(*folder));
        for (folder, why) in unclear.take(MOST_UNCLEAR) {
            say(format!("repositories that this run made in `{folder}` are not known: {why}"), folder);
        }
        if now.has_more && !self.folders.has_more {
            let message =
                format!("since this run `{}` has more folders or repositories than can be examined", self.root);
            let help = "look for new repositories before you use git in this project";
            held.said.push(Diagnostic::new(Code::PlantedRepository, message).paths([self.root.clone()]).help(help));
        }
    }

    /// The worktrees that git lists, except those around the project. The main work tree counts
    /// only if it is the project's own and lies in the project.
    fn listed(&self, families: &Families) -> Vec<AbsPath> {
        let listed = families.iter().flat_map(|family| {
            let common_dir = &family.repository.common_dir;
            let is_own = self.own.as_ref() == Some(common_dir);
            let is_inside = |folder: &Option<AbsPath>| folder.as_ref().is_some_and(|it| it.is_below(&self.root));
            family
                .work_trees
                .iter()
                .filter(move |tree| tree.git_dir != *common_dir || is_own && is_inside(&tree.folder))
        });
        let folders = listed.filter_map(|tree| tree.folder.as_ref());
        folders.filter(|folder| !self.root.is_within(folder)).cloned().collect()
    }

    /// The doubts about the repository in `folder` that did not exist at the start. The list is
    /// empty if the command could not write the settings of the repository.
    fn new_doubts(
        &self,
        host: &Host,
        folder: &AbsPath,
        trusted: &BTreeSet<AbsPath>,
        could_be_changed: Changeable,
    ) -> Vec<String> {
        let found = found(host, folder, trusted, Reach { root: &self.root, could_be_changed });
        let is_suspect = |found: &SubfolderRepository| found.parts.iter().any(could_be_changed);
        let mut doubts = found.filter(is_suspect).map(|found| found.doubts).unwrap_or_default();
        let before = self.known.get(folder);
        doubts.retain(|doubt| !before.is_some_and(|before| before.contains(doubt)));
        doubts
    }
}

/// The repository in `folder`. A worktree of a repository in `trusted` has no doubts here, because
/// `WorktreesWatch` examines its git directory.
fn found(host: &Host, folder: &AbsPath, trusted: &BTreeSet<AbsPath>, reach: Reach) -> Option<SubfolderRepository> {
    match nested::repository_in(host, folder) {
        Ok(Some(found)) => {
            let is_worktree = trusted.contains(&found.common_dir)
                && found.git_dir.parent() == Some(found.common_dir.child("worktrees"));
            // Build tools clone from one folder of the project to another, so remotes of deeper
            // repositories are not examined.
            let is_direct = folder.parent().as_ref() == Some(reach.root);
            let reach = is_direct.then_some(reach);
            let mut doubts = if is_worktree { Vec::new() } else { doubts_about(host, &found, reach) };
            // git obeys a bare repository in the folder as soon as it no longer accepts the
            // `.git`.
            if is_bare(host, folder).unwrap_or(false) {
                doubts.push(BARE_BESIDE.to_owned());
            }
            let parts = protected_parts(&found).into_iter().chain([".git", "HEAD"].map(|name| folder.child(name)));
            Some(SubfolderRepository { doubts, parts: parts.collect() })
        }
        Ok(None) if has_head(host, folder).unwrap_or(true) => {
            let doubts = doubts_about_settings(host, folder, folder);
            Some(SubfolderRepository { doubts, parts: vec![folder.child("config"), folder.child("hooks")] })
        }
        Ok(None) => None,
        Err(_) => {
            let doubts = vec!["a `.git` that cannot be examined".to_owned()];
            Some(SubfolderRepository { doubts, parts: vec![folder.child(".git")] })
        }
    }
}

/// The repositories in the direct subfolders of `root`, and in folders of the project to which
/// symlinks in `root` lead.
pub(super) fn repositories(host: &Host, root: &AbsPath) -> Vec<Nested> {
    let folders = subfolders(host, root).unwrap_or_default().into_iter().map(|(_, folder)| folder);
    let folders: BTreeSet<AbsPath> = folders.filter(|folder| folder.is_below(root)).collect();
    folders.into_iter().filter_map(|folder| nested::repository_in(host, &folder).ok().flatten()).collect()
}

/// The entries of `root` that are folders or symlinks to folders, each with the folder's path.
fn subfolders(host: &Host, root: &AbsPath) -> io::Result<Vec<(AbsPath, AbsPath)>> {
    let mut folders = Vec::new();
    for entry in host.read_dir(root)? {
        let path = root.child(&entry.name);
        if entry.kind == FileKind::Directory {
            folders.push((path.clone(), path));
        } else if entry.is_symlink
            && let Ok(found) = host.resolve(path.as_path())
            && found.kind == Some(FileKind::Directory)
        {
            folders.push((path, found.path));
        }
    }
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subfolders_are_in_the_order_of_their_names() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut names: Vec<String> = (0..64).map(|number| format!("{}", number * 37 % 64)).collect();
        names.iter().try_for_each(|name| std::fs::create_dir(folder.path().join(name)))?;
        let found = subfolders(&Host::at(folder.path()), &AbsPath::root())?;
        let found: Vec<String> = found.into_iter().map(|(entry, _)| entry.to_string()).collect();
        names.sort();
        assert_eq!(found, names.iter().map(|name| format!("/{name}")).collect::<Vec<_>>());
        Ok(())
    }
}
