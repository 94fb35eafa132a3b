//! Programs and hooks in worktrees that the run made. The user's settings name them by a path in
//! the work tree. Rules protect that path only in the work trees that existed at the start.

use std::collections::BTreeSet;

use crate::compile::layers::Project;
use crate::compile::plan::{Plan, View};
use crate::host::Host;
use crate::host::git::nested::{self, Families, Family};
use crate::policy::path::AbsPath;

use super::AbsentPath;

/// The size of the largest program that is compared. A larger one counts as different.
const LARGEST: u64 = 16 << 20;

/// The files in new worktrees that git would run, and that differ from those in the work tree that
/// existed at the start.
pub(super) fn created(host: &Host, project: &Project, plan: &Plan, before: &Families) -> Vec<AbsentPath> {
    let mut created = Vec::new();
    for Family { repository, work_trees } in before.iter() {
        let old: BTreeSet<&AbsPath> = work_trees.iter().filter_map(|tree| tree.folder.as_ref()).collect();
        let new = nested::work_trees(host, repository).into_iter().filter_map(|tree| tree.folder);
        for folder in new.filter(|folder| !old.contains(folder)) {
            for file in named(host, project, &repository.work_tree, &folder) {
                let Some(name) = file.relative_to(&folder) else { continue };
                let is_open = plan.view_around(&file) == View::HostRw;
                if is_open && !is_same(host, &repository.work_tree.join(name.as_os_str()), &file) {
                    created.push(AbsentPath { path: file, origin: "@git".to_owned(), is_moved_aside: false });
                }
            }
        }
    }
    created
}

/// The files of the work tree `new` at the paths that the settings name in `old`.
fn named(host: &Host, project: &Project, old: &AbsPath, new: &AbsPath) -> Vec<AbsPath> {
    let place = |path: &AbsPath| path.relative_to(old).map(|name| new.join(name.as_os_str()));
    let programs = project.git_named.programs.iter().filter_map(place);
    let hooks = project.git_named.hooks.iter().filter_map(place).flat_map(|folder| {
        let entries = host.read_dir(&folder).unwrap_or_default();
        entries.into_iter().map(move |entry| folder.child(&entry.name))
    });
    programs.chain(hooks).filter(|path| super::is_there(host, path)).collect()
}

/// Whether both are regular files with the same content.
fn is_same(host: &Host, old: &AbsPath, new: &AbsPath) -> bool {
    let content = |path: &AbsPath| {
        let is_itself = host.resolve(path.as_path()).is_ok_and(|found| found.path == *path);
        is_itself.then(|| host.read_regular(path, LARGEST).ok().flatten()).flatten()
    };
    content(old).is_some_and(|old| content(new) == Some(old))
}
