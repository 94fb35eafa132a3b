//! Repositories in the project that git on the host enters by itself, or that a user enters as the project's own: submodules and
//! whatever else an index names as one, other worktrees, and, where the project is no repository, those of which it consists.
//!
//! `git status` starts another git in every folder that the index names as a submodule and that has a `.git`. That one obeys
//! the settings that it finds there. The index and those settings may have been written by the command, so what is
//! found here is only ever made stricter.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::index::{self, Links};
use super::{Repository, SMALL_FILE, core_worktree, pointer_path, read_path};
use crate::host::{FileKind, Host, Resolved};
use crate::policy::path::AbsPath;

/// What `.git` is in the folder of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Directory,
    /// A file that says where the git directory is.
    Pointer,
    /// A symlink to either of the two.
    Link,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// An index names it, and git enters it by itself.
    Index,
    /// It is a linked worktree of the project's repository: only a few of its settings are its own.
    Worktrees,
    /// It lies in a project that is no repository.
    Folder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nested {
    /// Where its work tree is. Holds no symlinks.
    pub folder: AbsPath,
    pub form: Form,
    /// Holds no symlinks.
    pub git_dir: AbsPath,
    /// Where its settings are. Holds no symlinks.
    pub common_dir: AbsPath,
    pub found_by: FoundBy,
}

impl Nested {
    /// As a repository like any other, and its work tree.
    pub(crate) fn repository(&self) -> (Repository, AbsPath) {
        let (git_dir, common_dir) = (self.git_dir.clone(), self.common_dir.clone());
        (Repository { git_dir, common_dir, current_branch: None }, self.folder.clone())
    }

    /// Where its settings say that its work tree is. git follows them from the folder, too, and looks there for what the index names.
    pub(crate) fn other_work_tree(&self, host: &Host) -> Option<AbsPath> {
        let value = core_worktree(host, &self.git_dir).ok().flatten()?;
        let there = host.resolve_from(&self.git_dir, Path::new(OsStr::from_bytes(&value)));
        // Wherever that is, it is not the folder.
        let there = there.map_or_else(|_| self.git_dir.clone(), |found| found.path);
        (there != self.folder).then_some(there)
    }

    fn work_trees(&self, host: &Host) -> impl Iterator<Item = AbsPath> {
        [self.folder.clone()].into_iter().chain(self.other_work_tree(host))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NestedRepositories {
    /// Sorted by folder.
    pub found: Vec<Nested>,
    /// Git directories whose index names nobody knows what.
    pub unclear: Vec<AbsPath>,
    /// Git directories in that of the project, wherever their work trees are: of other worktrees, and of submodules. Sorted.
    pub kept_within: Vec<AbsPath>,
}

/// `top` is the folder whose `.git` leads to `repository`. Without a repository, those in the folders of `root` count.
pub(crate) fn nested(host: &Host, root: &AbsPath, repository: Option<(&Repository, &AbsPath)>) -> NestedRepositories {
    let mut search = Search { host, seen: BTreeSet::new(), all: NestedRepositories::default() };
    match repository {
        Some((Repository { git_dir, common_dir, .. }, top)) => {
            search.index(top, git_dir, common_dir);
            search.worktrees(root, git_dir, common_dir);
            search.modules(&common_dir.child("modules"));
            search.modules(&git_dir.child("modules"));
        }
        None => search.folders(root),
    }
    let NestedRepositories { mut found, unclear, mut kept_within } = search.all;
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    kept_within.sort();
    kept_within.dedup();
    NestedRepositories { found, unclear, kept_within }
}

/// What the indexes of the other work trees of `repository` name, wherever these are. The command can write such an index, and name
/// in it, by a path that climbs or is absolute, what it has planted in the project.
pub(crate) fn elsewhere(host: &Host, repository: &Repository) -> NestedRepositories {
    let Repository { git_dir: own, common_dir, .. } = repository;
    let mut search = Search { host, seen: BTreeSet::new(), all: NestedRepositories::default() };
    if own != common_dir
        && let Some(main) = common_dir.parent()
    {
        search.index(&main, common_dir, common_dir);
    }
    for (git_dir, folder) in worktrees(host, common_dir) {
        if git_dir != *own {
            search.index(&folder, &git_dir, common_dir);
        }
    }
    search.all
}

/// The repository in `root`, which had none before, and what its index names.
pub(crate) fn planted(host: &Host, root: &AbsPath) -> Option<(Nested, NestedRepositories)> {
    let mut search = Search { host, seen: BTreeSet::new(), all: NestedRepositories::default() };
    let found = search.at(root, FoundBy::Folder)?;
    for work_tree in found.work_trees(host) {
        search.index(&work_tree, &found.git_dir, &found.common_dir);
    }
    Some((found, search.all))
}

/// The git directories of all linked worktrees, and where their work trees are.
fn worktrees(host: &Host, common_dir: &AbsPath) -> Vec<(AbsPath, AbsPath)> {
    let folder = common_dir.child("worktrees");
    let entries = host.read_dir(&folder).unwrap_or_default().into_iter();
    let of_one = entries.filter_map(|entry| {
        let git_dir = folder.child(&entry.name);
        let pointer = read_path(host, &git_dir.child("gitdir")).ok().flatten()?;
        let pointer = host.resolve(&git_dir.as_path().join(OsStr::from_bytes(&pointer))).ok()?;
        Some((git_dir, pointer.path.parent()?))
    });
    of_one.collect()
}

struct Search<'a> {
    host: &'a Host,
    seen: BTreeSet<AbsPath>,
    all: NestedRepositories,
}

impl Search<'_> {
    /// What the index in `git_dir` names, and what the indexes of these name.
    fn index(&mut self, work_tree: &AbsPath, git_dir: &AbsPath, common_dir: &AbsPath) {
        let mut waiting = vec![(work_tree.clone(), git_dir.clone(), common_dir.clone())];
        while let Some((work_tree, git_dir, common_dir)) = waiting.pop() {
            let Ok(Some(Links { names, folders })) = index::gitlinks(self.host, &git_dir, &common_dir) else {
                self.unclear(git_dir);
                continue;
            };
            // git puts what is in such a folder into the index again as soon as the folder is there, submodules included.
            let is_there =
                |folder: &Vec<u8>| !matches!(self.named(&work_tree, folder), Ok(found) if found.kind.is_none());
            if folders.iter().any(is_there) {
                self.unclear(git_dir);
            }
            for name in names {
                let Ok(found) = self.named(&work_tree, &name) else { continue };
                // git does not look behind a symlink in its work tree.
                let folder = Some(found.path).filter(|_| found.links.is_empty() && found.kind.is_some());
                if let Some(nested) = folder.and_then(|folder| self.at(&folder, FoundBy::Index)) {
                    for work_tree in nested.work_trees(self.host) {
                        waiting.push((work_tree, nested.git_dir.clone(), nested.common_dir.clone()));
                    }
                    self.all.found.push(nested);
                }
            }
        }
    }

    /// Where git looks for what an index calls `name`. It refuses to write `./a`, `../a` or `/a`, but not to read them.
    fn named(&self, work_tree: &AbsPath, name: &[u8]) -> io::Result<Resolved> {
        self.host.resolve_from(work_tree, Path::new(OsStr::from_bytes(name)))
    }

    fn unclear(&mut self, git_dir: AbsPath) {
        if !self.all.unclear.contains(&git_dir) {
            self.all.unclear.push(git_dir);
        }
    }

    /// The repository whose work tree is `folder`, if git takes it for one and it was not met before.
    fn at(&mut self, folder: &AbsPath, found_by: FoundBy) -> Option<Nested> {
        let (git_dir, form) = git_dir_in(self.host, folder).ok().flatten()?;
        // Whether git would accept what is there is not asked: the command can mend it.
        self.host.kind(&git_dir).ok().flatten().filter(|kind| *kind == FileKind::Directory)?;
        let common = read_path(self.host, &git_dir.child("commondir")).ok().flatten();
        let common = common.map(|text| git_dir.as_path().join(OsStr::from_bytes(&text)));
        let common = common.and_then(|path| self.host.resolve(&path).ok());
        let common_dir = common.map_or_else(|| git_dir.clone(), |found| found.path);
        let is_new = self.seen.insert(folder.clone());
        is_new.then(|| Nested { folder: folder.clone(), form, git_dir, common_dir, found_by })
    }

    /// The linked worktrees that lie in the project, but for the one that is the project.
    fn worktrees(&mut self, root: &AbsPath, own: &AbsPath, common_dir: &AbsPath) {
        let folder = common_dir.child("worktrees");
        let kept = self.host.read_dir(&folder).unwrap_or_default().into_iter();
        let kept = kept.filter(|entry| entry.kind == FileKind::Directory).map(|entry| folder.child(&entry.name));
        for git_dir in kept.filter(|git_dir| git_dir != own) {
            self.modules(&git_dir.child("modules"));
            self.all.kept_within.push(git_dir);
        }
        for (git_dir, folder) in worktrees(self.host, common_dir) {
            let leads_back = |nested: &Nested| nested.git_dir == git_dir && nested.form == Form::Pointer;
            if git_dir == *own || !folder.is_below(root) {
                continue;
            }
            if let Some(nested) = self.at(&folder, FoundBy::Worktrees).filter(leads_back) {
                self.index(&nested.folder, &nested.git_dir, common_dir);
                self.all.found.push(nested);
            }
        }
    }

    /// The git directories of submodules in a folder of them. The name of one may have slashes.
    fn modules(&mut self, folder: &AbsPath) {
        let mut waiting = vec![folder.clone()];
        while let Some(folder) = waiting.pop() {
            let entries = self.host.read_dir(&folder).unwrap_or_default();
            if entries.iter().any(|entry| entry.name == "HEAD") {
                waiting.push(folder.child("modules"));
                self.all.kept_within.push(folder);
            } else {
                let folders = entries.iter().filter(|entry| entry.kind == FileKind::Directory);
                waiting.extend(folders.map(|entry| folder.child(&entry.name)));
            }
        }
    }

    fn folders(&mut self, root: &AbsPath) {
        for entry in self.host.read_dir(root).unwrap_or_default() {
            if entry.kind == FileKind::Directory
                && let Some(nested) = self.at(&root.child(&entry.name), FoundBy::Folder)
            {
                self.index(&nested.folder, &nested.git_dir, &nested.common_dir);
                self.all.found.push(nested);
            }
        }
    }
}

/// Where the `.git` in `folder` leads, as git follows it.
pub(crate) fn git_dir_in(host: &Host, folder: &AbsPath) -> io::Result<Option<(AbsPath, Form)>> {
    let path = folder.child(".git");
    let dot_git = host.noting_closed(path.as_path(), host.resolve(path.as_path()))?;
    let form = |plain| if dot_git.links.is_empty() { plain } else { Form::Link };
    match dot_git.kind {
        Some(FileKind::Directory) => Ok(Some((dot_git.path.clone(), form(Form::Directory)))),
        Some(FileKind::File) => {
            let text = host.read_regular(&dot_git.path, SMALL_FILE)?.unwrap_or_default();
            let Some(path) = pointer_path(&text) else { return Ok(None) };
            // Relative to the folder, also where a link led to the file.
            Ok(Some((host.resolve(&folder.as_path().join(path))?.path, form(Form::Pointer))))
        }
        Some(FileKind::Device) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
