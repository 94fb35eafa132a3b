//! Repositories with all of their work trees, and the repositories that their indexes name.

use std::collections::{BTreeMap, BTreeSet};

use super::{FoundBy, NestedRepositories, NestedSearch, WorkTree, index, work_trees};
use crate::host::Host;
use crate::host::git::{Nested, Repository};
use crate::policy::path::AbsPath;

/// The repositories that a search has found, by their common directory. Linked worktrees share a
/// common directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Families {
    families: BTreeMap<AbsPath, Family>,
    /// The git directories whose indexes were read, each with a work tree.
    indexed: BTreeSet<(AbsPath, AbsPath)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub repository: Repository,
    /// All work trees of the repository, from [`super::work_trees`].
    pub work_trees: Vec<WorkTree>,
}

impl Families {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Family> {
        self.families.values()
    }

    pub(crate) fn has(&self, common_dir: &AbsPath) -> bool {
        self.families.contains_key(common_dir)
    }

    /// Each repository, once for each work tree whose folder is known from git's list.
    pub(crate) fn repositories(&self) -> impl Iterator<Item = Repository> {
        self.iter().flat_map(|Family { repository, work_trees }| {
            let others = work_trees.iter().filter(|tree| tree.git_dir != repository.git_dir);
            let others = others.filter_map(|tree| Some((tree.folder.clone()?, tree.git_dir.clone())));
            let others = others.map(|(work_tree, git_dir)| Repository { work_tree, git_dir, ..repository.clone() });
            others.chain([repository.clone()])
        })
    }

    /// The git directories of all work trees, and their common directories.
    pub(crate) fn git_dirs(&self) -> BTreeSet<&AbsPath> {
        let all = self.families.values().flat_map(|Family { repository, work_trees }| {
            work_trees.iter().map(|tree| &tree.git_dir).chain([&repository.git_dir, &repository.common_dir])
        });
        all.collect()
    }

    /// Adds the project's `own` repository, `others` and those in `all`, with the linked worktrees
    /// of each, wherever these are. Adds the repositories that their indexes name to `all`. The
    /// command can write such an index and plant a repository in the project. The index can name
    /// that repository by an absolute path or by one with `..`. The command can also change the
    /// folder of a work tree in git's list, so the folders in `before` count as well.
    pub(crate) fn follow(
        &mut self,
        host: &Host,
        own: Option<&Repository>,
        others: &[Nested],
        before: &Families,
        all: &mut NestedRepositories,
    ) {
        let mut search = NestedSearch { all: std::mem::take(all), ..NestedSearch::new(host) };
        // Repositories that were found in folders do not count as seen: an index may name them.
        let seen = search.all.found.iter().filter(|nested| nested.found_by != FoundBy::Folder);
        search.seen.extend(seen.map(|nested| nested.folder.clone()));
        self.indexed.extend(search.all.found.iter().map(|nested| (nested.git_dir.clone(), nested.folder.clone())));
        for repository in others.iter().flat_map(|nested| nested.repositories(host)) {
            if self.indexed.insert((repository.git_dir.clone(), repository.work_tree.clone())) {
                search.index(repository);
            }
        }
        let mut waiting: Vec<Repository> =
            own.cloned().into_iter().chain(others.iter().map(Nested::repository)).collect();
        let mut done = 0;
        while !waiting.is_empty() || done < search.all.found.len() {
            let found = search.all.found.get(done..).unwrap_or_default();
            waiting.extend(found.iter().map(Nested::repository));
            done = search.all.found.len();
            for repository in waiting.drain(..) {
                self.add(repository, before, &mut search);
            }
        }
        search.all.found.sort_by(|a, b| a.folder.cmp(&b.folder));
        *all = search.all;
    }

    fn add(&mut self, repository: Repository, before: &Families, search: &mut NestedSearch) {
        let Repository { work_tree, git_dir: own, common_dir, .. } = &repository;
        self.indexed.insert((own.clone(), work_tree.clone()));
        if self.has(common_dir) {
            return;
        }
        let work_trees = work_trees(search.host, &repository);
        let earlier = before.families.get(common_dir).into_iter().flat_map(|family| &family.work_trees);
        let places: BTreeSet<&WorkTree> =
            work_trees.iter().chain(earlier).filter(|tree| tree.git_dir != *own).collect();
        for WorkTree { git_dir, folder } in places {
            match folder.clone() {
                Some(work_tree) => {
                    if self.indexed.insert((git_dir.clone(), work_tree.clone())) {
                        search.index(Repository { work_tree, git_dir: git_dir.clone(), ..repository.clone() });
                    }
                }
                // A git that is started in the work tree finds this git directory without the list.
                None => {
                    let indexed = index::submodules(search.host, git_dir, common_dir, &mut |_| {}).ok().flatten();
                    if indexed.is_none_or(|indexed| !indexed.names.is_empty() || !indexed.folders.is_empty()) {
                        search.unclear(git_dir, None);
                    }
                }
            }
        }
        self.families.insert(common_dir.clone(), Family { repository, work_trees });
    }
}
