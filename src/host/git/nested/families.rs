//! Repositories with all of their work trees, and the repositories that the indexes of these name.

use std::collections::{BTreeMap, BTreeSet};

use super::{FoundBy, NestedRepositories, NestedSearch, WorkTree, index, work_trees};
use crate::host::Host;
use crate::host::git::{Nested, Repository};
use crate::policy::path::AbsPath;

/// The repositories that a search has met, by the directory with their settings. Worktrees share
/// one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Families {
    families: BTreeMap<AbsPath, Family>,
    /// The git directories whose indexes were read, each with a work tree.
    indexed: BTreeSet<(AbsPath, AbsPath)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub repository: Repository,
    /// All of its work trees, as git's list has them.
    pub work_trees: Vec<WorkTree>,
}

impl Families {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Family> {
        self.families.values()
    }

    pub(crate) fn has(&self, common_dir: &AbsPath) -> bool {
        self.families.contains_key(common_dir)
    }

    /// Each repository, once for each of its work trees that git's list can place.
    pub(crate) fn repositories(&self) -> impl Iterator<Item = Repository> {
        self.iter().flat_map(|Family { repository, work_trees }| {
            let others = work_trees.iter().filter(|tree| tree.git_dir != repository.git_dir);
            let others = others.filter_map(|tree| Some((tree.folder.clone()?, tree.git_dir.clone())));
            let others = others.map(|(work_tree, git_dir)| Repository { work_tree, git_dir, ..repository.clone() });
            others.chain([repository.clone()])
        })
    }

    /// The git directories of all work trees, and those that they share.
    pub(crate) fn git_dirs(&self) -> BTreeSet<&AbsPath> {
        let all = self.families.values().flat_map(|Family { repository, work_trees }| {
            work_trees.iter().map(|tree| &tree.git_dir).chain([&repository.git_dir, &repository.common_dir])
        });
        all.collect()
    }

    /// Adds the project's `own` repository, `others` and those in `all`, with the linked worktrees
    /// of each, wherever these are. Adds what their indexes name to `all`. The command can write
    /// such an index, and name a repository that it has planted in the project by a path that is
    /// absolute or has `..`. It can also change where git's list says that a work tree is, so each
    /// place in `before` counts as well.
    pub(crate) fn follow(
        &mut self,
        host: &Host,
        own: Option<&Repository>,
        others: &[Nested],
        before: &Families,
        all: &mut NestedRepositories,
    ) {
        let mut search = NestedSearch { all: std::mem::take(all), ..NestedSearch::new(host) };
        // An index may name one that was found in a folder of several.
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
                // git finds it from the work tree, and needs no list.
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
