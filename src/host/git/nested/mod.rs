//! Repositories in the project that git on the host enters by itself, or that a user enters as part
//! of the project: everything that an index names as a submodule, other worktrees, and the
//! repositories in the project's folders if the project itself is no repository.
//!
//! `git status` starts another git in every folder that has a `.git` and that the index names as a
//! submodule. That git obeys the settings in the folder. The command may have written the index and
//! those settings, so rules derived from them may only tighten.

mod families;
mod hidden;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use super::{Repository, core_worktree, index, read_path, read_pointer};
use crate::host::long_path::{LONGEST, LONGEST_SEARCHED};
use crate::host::{DirEntry, FileKind, Host, Resolved, is_absent};
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Mitigation};

pub(crate) use families::{Families, Family};
pub(crate) use hidden::HiddenFiles;

/// The largest number of git directories that are protected one by one. It applies to each folder
/// that holds git directories, and to the repositories that indexes name. Each one costs a start
/// some milliseconds and descriptors, and a command can create any number.
pub(crate) const MOST_PROTECTED: usize = 500;

/// The largest number of submodules that all indexes together may name. Examining one takes some
/// microseconds.
const MOST_NAMED: usize = 100_000;

/// The form of the `.git` in the folder of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DotGit {
    Directory,
    /// A file that names the git directory.
    Pointer,
    /// A symlink to a directory or to such a file.
    Link,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// An index names the repository, and git enters it by itself.
    Index,
    /// The repository is a linked worktree of the project's repository: only a few of its settings
    /// are its own.
    Worktrees,
    /// The repository lies in a project that is no repository.
    Folder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nested {
    /// Its work tree. Holds no symlinks.
    pub folder: AbsPath,
    pub form: DotGit,
    /// Holds no symlinks.
    pub git_dir: AbsPath,
    /// The directory with its settings. Holds no symlinks.
    pub common_dir: AbsPath,
    pub found_by: FoundBy,
}

impl Nested {
    /// Whether both are the same repository, however each was found.
    pub(crate) fn is_same(&self, other: &Nested) -> bool {
        *self == Nested { found_by: self.found_by, ..other.clone() }
    }

    pub(crate) fn repository(&self) -> Repository {
        let Self { folder: work_tree, git_dir, common_dir, .. } = self.clone();
        Repository { work_tree, git_dir, common_dir, current_branch: None }
    }

    /// The work tree that the repository's settings name, if it is not `folder`. git looks there
    /// for the paths in the index, even when it is started in `folder`.
    pub(crate) fn other_work_tree(&self, host: &Host) -> Option<AbsPath> {
        let settings = self.git_dir.child("config");
        let value = host.noting_closed(settings.as_path(), core_worktree(host, &self.git_dir)).ok().flatten()?;
        let there = host.resolve_from(&self.git_dir, Path::new(OsStr::from_bytes(&value)));
        // A path that cannot be followed does not lead to the folder.
        let there = there.map_or_else(|_| self.git_dir.clone(), |found| found.path);
        (there != self.folder).then_some(there)
    }

    /// The repository, once for each of its work trees.
    pub(crate) fn repositories(&self, host: &Host) -> impl Iterator<Item = Repository> {
        let other = self.other_work_tree(host).map(|work_tree| Repository { work_tree, ..self.repository() });
        [self.repository()].into_iter().chain(other)
    }
}

/// An index whose submodules cannot all be determined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnclearIndex {
    pub git_dir: AbsPath,
    /// The name that cannot be examined; `None` if the index itself is not understood.
    pub name: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NestedRepositories {
    /// Sorted by folder.
    pub found: Vec<Nested>,
    pub unclear: BTreeSet<UnclearIndex>,
    /// Git directories whose indexes name too many submodules to examine. The indexes count as
    /// unclear.
    pub overfull: BTreeSet<AbsPath>,
    /// Folders in the project's git directory that hold too many git directories to protect one by
    /// one, with the number of folders found. Each is protected as a whole.
    pub crowded: BTreeMap<AbsPath, usize>,
    /// Files whose changes git does not show.
    pub hidden: HiddenFiles,
    /// The git directories of other worktrees and of submodules below the project's git directory,
    /// wherever their work trees are. Sorted.
    pub kept_within: Vec<AbsPath>,
}

/// Finds the repositories in the project besides its own `repository`. If the project is none,
/// finds those in the folders of `root`.
pub(crate) fn nested(host: &Host, root: &AbsPath, repository: Option<&Repository>) -> NestedRepositories {
    NestedSearch::new(host).whole(root, repository)
}

/// Finds the repositories in the project again after a run. `before` is the result at the start of
/// the run. Folders that were not crowded at the start are searched completely, because the
/// command could write there.
pub(crate) fn nested_again(
    host: &Host,
    root: &AbsPath,
    repository: Option<&Repository>,
    before: &NestedRepositories,
) -> NestedRepositories {
    let mut search = NestedSearch { before: Some(before), ..NestedSearch::new(host) };
    search.all.hidden = before.hidden.to_compare();
    search.whole(root, repository)
}

/// A work tree of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkTree {
    pub git_dir: AbsPath,
    /// `None` if git's list does not say where it is.
    pub folder: Option<AbsPath>,
}

/// All work trees of `repository`: the main one, and those in git's list, the folder `worktrees`.
pub(crate) fn work_trees(host: &Host, repository: &Repository) -> Vec<WorkTree> {
    let common_dir = &repository.common_dir;
    let main = WorkTree { git_dir: common_dir.clone(), folder: common_dir.parent() };
    [main].into_iter().chain(worktrees(host, common_dir)).collect()
}

/// The repository whose work tree is `folder`, if the `.git` in it leads to a directory.
pub(crate) fn repository_in(host: &Host, folder: &AbsPath) -> io::Result<Option<Nested>> {
    NestedSearch::new(host).at(folder, FoundBy::Folder)
}

/// All linked worktrees. git does not check the types of the entries in `worktrees/`, so a symlink
/// counts as well.
fn worktrees(host: &Host, common_dir: &AbsPath) -> Vec<WorkTree> {
    let list = common_dir.child("worktrees");
    let folder_of = |git_dir: &AbsPath| {
        let pointer = git_dir.child("gitdir");
        let pointer = host.noting_closed(pointer.as_path(), read_path(host, &pointer)).ok().flatten()?;
        host.resolve(&git_dir.as_path().join(OsStr::from_bytes(&pointer))).ok()?.path.parent()
    };
    let entries = host.noting_closed(list.as_path(), host.read_dir(&list)).unwrap_or_default();
    let git_dirs = entries.into_iter().map(|entry| list.child(&entry.name));
    git_dirs.map(|git_dir| WorkTree { folder: folder_of(&git_dir), git_dir }).collect()
}

/// Git directories below one folder of the project's git directory.
#[derive(Default)]
struct Kept {
    git_dirs: Vec<AbsPath>,
    /// Number of folders that the search visited, git directories or not.
    folders: usize,
}

struct NestedSearch<'a> {
    host: &'a Host,
    /// The repositories at the start of the run that has ended.
    before: Option<&'a NestedRepositories>,
    seen: BTreeSet<AbsPath>,
    /// Number of submodules that indexes may still name.
    names_left: usize,
    all: NestedRepositories,
}

impl<'a> NestedSearch<'a> {
    fn new(host: &'a Host) -> Self {
        let (seen, all) = Default::default();
        Self { host, before: None, seen, names_left: MOST_NAMED, all }
    }

    fn whole(mut self, root: &AbsPath, repository: Option<&Repository>) -> NestedRepositories {
        match repository {
            Some(repository) => {
                self.index(repository.clone());
                self.worktrees(root, repository);
                let own: BTreeSet<_> = [&repository.common_dir, &repository.git_dir].into();
                for folder in own.into_iter().map(|git_dir| git_dir.child("modules")) {
                    let mut kept = Kept::default();
                    self.modules(&folder, self.most_in(&folder), &mut kept);
                    self.keep(folder, kept);
                }
            }
            None => self.folders(root),
        }
        self.all.found.sort_by(|a, b| a.folder.cmp(&b.folder));
        self.all.kept_within.sort();
        self.all
    }

    /// The largest number of git directories in `folder` that are protected one by one.
    fn most_in(&self, folder: &AbsPath) -> usize {
        let is_bounded = match self.before {
            None => !ablate::is_off(Mitigation::CrowdedFolders),
            Some(before) => before.crowded.contains_key(folder),
        };
        if is_bounded { MOST_PROTECTED } else { usize::MAX }
    }

    /// Adds the git directories that `folder` holds, or the folder itself if there are too many.
    fn keep(&mut self, folder: AbsPath, kept: Kept) {
        if kept.folders > self.most_in(&folder) {
            self.all.crowded.insert(folder, kept.folders);
        } else {
            self.all.kept_within.extend(kept.git_dirs);
        }
    }

    /// Adds the repositories that the index of `repository` names, and the repositories that their
    /// indexes name.
    fn index(&mut self, repository: Repository) {
        let mut waiting = vec![repository];
        while let Some(Repository { work_tree, git_dir, common_dir, .. }) = waiting.pop() {
            let mut on_hidden = |name: &[u8]| self.all.hidden.add(&work_tree, name);
            let Ok(Some(indexed)) = index::submodules(self.host, &git_dir, &common_dir, &mut on_hidden) else {
                self.unclear(&git_dir, None);
                continue;
            };
            let named = indexed.names.len() + indexed.folders.len();
            let Some(left) = self.names_left.checked_sub(named) else {
                self.all.overfull.insert(git_dir);
                continue;
            };
            self.names_left = left;
            // If the folder of a sparse entry exists, git adds the folder's content to the index
            // again, submodules included.
            for folder in indexed.folders {
                if !matches!(self.named(&work_tree, &folder), Ok(found) if found.kind.is_none()) {
                    self.unclear(&git_dir, Some(folder));
                }
            }
            for name in indexed.names {
                match self.submodule(&work_tree, &name) {
                    Ok(None) => {}
                    Ok(Some(nested)) => {
                        waiting.extend(nested.repositories(self.host));
                        self.all.found.push(nested);
                    }
                    Err(_) => self.unclear(&git_dir, Some(name)),
                }
            }
        }
    }

    /// The repository that the index of `work_tree` names.
    fn submodule(&mut self, work_tree: &AbsPath, name: &[u8]) -> io::Result<Option<Nested>> {
        let found = self.named(work_tree, name)?;
        // git does not follow a symlink in its work tree.
        if !found.links.is_empty() || found.kind.is_none() {
            return Ok(None);
        }
        self.at(&found.path, FoundBy::Index)
    }

    /// Resolves the `name` of an entry. git never writes `./a`, `../a` or `/a` into an index, but
    /// reads such names.
    fn named(&self, work_tree: &AbsPath, name: &[u8]) -> io::Result<Resolved> {
        if name.len() > LONGEST {
            return Err(Errno::NAMETOOLONG.into());
        }
        self.host.resolve_from(work_tree, Path::new(OsStr::from_bytes(name)))
    }

    /// The names in `folder`; none if it does not exist. After any other error, `git_dir` is
    /// unclear.
    fn list(&mut self, folder: &AbsPath, git_dir: &AbsPath) -> Vec<DirEntry> {
        match self.host.noting_closed(folder.as_path(), self.host.read_dir(folder)) {
            Ok(entries) => entries,
            Err(e) if is_absent(&e) => Vec::new(),
            Err(_) => {
                self.unclear(git_dir, None);
                Vec::new()
            }
        }
    }

    fn unclear(&mut self, git_dir: &AbsPath, name: Option<Vec<u8>>) {
        self.all.unclear.insert(UnclearIndex { git_dir: git_dir.clone(), name });
    }

    /// The repository whose work tree is `folder`, if the `.git` in it leads to a directory and
    /// the search has not found the repository before.
    fn at(&mut self, folder: &AbsPath, found_by: FoundBy) -> io::Result<Option<Nested>> {
        let Some((git_dir, form)) = git_dir_in(self.host, folder)? else { return Ok(None) };
        // A git directory that git would refuse counts too, because the command can repair it.
        if self.host.kind(&git_dir)? != Some(FileKind::Directory) || !self.seen.insert(folder.clone()) {
            return Ok(None);
        }
        let common_dir = common_dir_of(self.host, &git_dir).unwrap_or_else(|_| git_dir.clone());
        Ok(Some(Nested { folder: folder.clone(), form, git_dir, common_dir, found_by }))
    }

    /// Adds the linked worktrees, wherever they are, except the one that is the project.
    fn worktrees(&mut self, root: &AbsPath, project: &Repository) {
        let Repository { git_dir: own, common_dir, .. } = project;
        let folder = common_dir.child("worktrees");
        let most = self.most_in(&folder);
        let listed = self.list(&folder, common_dir).into_iter();
        let listed = listed.filter(|entry| entry.kind == FileKind::Directory).map(|entry| folder.child(&entry.name));
        let mut kept = Kept::default();
        kept.git_dirs.extend(listed.filter(|git_dir| git_dir != own));
        kept.folders = kept.git_dirs.len();
        for git_dir in kept.git_dirs.clone() {
            self.modules(&git_dir.child("modules"), most, &mut kept);
        }
        self.keep(folder, kept);
        for WorkTree { git_dir, folder } in worktrees(self.host, common_dir) {
            // A worktree around the root is no part of the project.
            let Some(folder) = folder.filter(|folder| git_dir != *own && !root.is_within(folder)) else { continue };
            let leads_back = |nested: &Nested| nested.git_dir == git_dir && nested.form == DotGit::Pointer;
            if let Some(nested) = self.at(&folder, FoundBy::Worktrees).ok().flatten().filter(leads_back) {
                self.index(Repository { common_dir: common_dir.clone(), ..nested.repository() });
                self.all.found.push(nested);
            }
        }
    }

    /// Adds the git directories of submodules below `folder`, at any depth, because the name of a
    /// submodule may have slashes. Stops after more than `most` folders.
    fn modules(&mut self, folder: &AbsPath, most: usize, kept: &mut Kept) {
        let mut waiting = vec![folder.clone()];
        while kept.folders <= most
            && let Some(folder) = waiting.pop()
        {
            if folder.as_os_str().len() > LONGEST_SEARCHED {
                kept.folders = most + 1;
                break;
            }
            let entries = self.list(&folder, &folder);
            if entries.iter().any(|entry| entry.name == "HEAD") {
                waiting.push(folder.child("modules"));
                kept.git_dirs.push(folder);
            } else {
                let folders = entries.iter().filter(|entry| entry.kind == FileKind::Directory);
                let before = waiting.len();
                waiting.extend(folders.map(|entry| folder.child(&entry.name)));
                kept.folders += waiting.len() - before;
            }
        }
    }

    fn folders(&mut self, root: &AbsPath) {
        for entry in self.list(root, root) {
            if entry.kind == FileKind::Directory
                && let Ok(Some(nested)) = self.at(&root.child(&entry.name), FoundBy::Folder)
            {
                self.index(nested.repository());
                self.all.found.push(nested);
            }
        }
    }
}

/// Room for the longest name of a protected file below a git directory.
const ROOM_FOR_PARTS: usize = 64;

/// Whether mounts can protect the files in the git directory `path`. `mount` refuses longer paths.
pub(crate) fn can_be_mounted(path: &AbsPath) -> bool {
    path.as_os_str().len() + ROOM_FOR_PARTS <= LONGEST
}

/// The git directory that the `.git` in `folder` leads to, as git follows it.
pub(crate) fn git_dir_in(host: &Host, folder: &AbsPath) -> io::Result<Option<(AbsPath, DotGit)>> {
    let path = folder.child(".git");
    let dot_git = host.noting_closed(path.as_path(), host.resolve(path.as_path()))?;
    let form = |plain| if dot_git.links.is_empty() { plain } else { DotGit::Link };
    Ok(match dot_git.kind {
        Some(FileKind::Directory) => Some((dot_git.path.clone(), form(DotGit::Directory))),
        // A relative path starts at `folder`, even if `.git` is a link to a file elsewhere.
        Some(FileKind::File) => read_pointer(host, folder, &dot_git.path)?.map(|path| (path, form(DotGit::Pointer))),
        Some(FileKind::Device) | None => None,
    })
}

/// The directory that the `commondir` in `git_dir` names, or else `git_dir` itself.
pub(crate) fn common_dir_of(host: &Host, git_dir: &AbsPath) -> io::Result<AbsPath> {
    match read_path(host, &git_dir.child("commondir"))? {
        Some(text) => Ok(host.resolve(&git_dir.as_path().join(OsStr::from_bytes(&text)))?.path),
        None => Ok(git_dir.clone()),
    }
}

#[cfg(test)]
mod tests;
