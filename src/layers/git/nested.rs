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
use std::path::{Component, Path};

use super::{Repository, SMALL_FILE, index, pointer_path, read_path};
use crate::host::{FileKind, Host};
use crate::path::AbsPath;

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
            let Ok(Some(names)) = index::gitlinks(self.host, &git_dir, &common_dir) else {
                self.all.unclear.push(git_dir);
                continue;
            };
            for name in names {
                let name = Path::new(OsStr::from_bytes(&name));
                // git refuses every other name.
                let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
                let folder = is_plain.then(|| work_tree.join(name));
                if let Some(nested) = folder.and_then(|folder| self.at(&folder, FoundBy::Index)) {
                    waiting.push((nested.folder.clone(), nested.git_dir.clone(), nested.common_dir.clone()));
                    self.all.found.push(nested);
                }
            }
        }
    }

    /// The repository whose work tree is `folder`, if git takes it for one and it was not met before.
    fn at(&mut self, folder: &AbsPath, found_by: FoundBy) -> Option<Nested> {
        // git does not look behind a symlink in its work tree.
        let is_folder = |found: &crate::host::Resolved| found.links.is_empty() && found.kind.is_some();
        self.host.resolve(folder.as_path()).ok().filter(is_folder)?;
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
        for entry in self.host.read_dir(&folder).unwrap_or_default() {
            let git_dir = folder.child(&entry.name);
            if entry.kind == FileKind::Directory && git_dir != *own {
                self.modules(&git_dir.child("modules"));
                self.all.kept_within.push(git_dir.clone());
            }
            let Ok(Some(pointer)) = read_path(self.host, &git_dir.child("gitdir")) else { continue };
            let pointer = git_dir.as_path().join(OsStr::from_bytes(&pointer));
            let Some(folder) = self.host.resolve(&pointer).ok().and_then(|found| found.path.parent()) else { continue };
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
    let dot_git = host.resolve(folder.child(".git").as_path())?;
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
