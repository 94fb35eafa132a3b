//! Protected files of which git expects another version since the run. `git checkout` of another
//! branch in the sandbox cannot change such a file, so git then shows the file as changed.

use std::collections::BTreeMap;

use crate::compile::layers::Project;
use crate::compile::plan::{Plan, View};
use crate::compile::resolve::TrackedFiles;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::policy::path::AbsPath;

use super::{is_there, name_in, one_or_many};

/// The largest number of protected files that are looked up in the index. A protected folder may
/// hold any number.
const MOST_FILES: usize = 10_000;

/// The largest number of files whose content is compared when the run ends. Each is read as a
/// whole.
const MOST_COMPARED: usize = 1_000;

pub(super) struct StaleWatch {
    root: AbsPath,
    /// The protected paths of the work tree.
    protected: Vec<AbsPath>,
    /// The blobs that the index had for these paths and for files below them.
    indexed: BTreeMap<AbsPath, Vec<u8>>,
}

impl StaleWatch {
    pub(super) fn start<'p>(
        host: &Host,
        project: &Project,
        plan: &Plan,
        protected: impl Iterator<Item = &'p AbsPath>,
    ) -> Self {
        let git_dirs = project.repository.iter().flat_map(|own| [&own.git_dir, &own.common_dir]);
        let git_dirs: Vec<&AbsPath> = git_dirs.collect();
        let in_work_tree =
            |path: &&AbsPath| path.is_within(&project.root) && !git_dirs.iter().any(|git_dir| path.is_within(git_dir));
        let protected: Vec<AbsPath> = protected.filter(in_work_tree).cloned().collect();
        let indexed = indexed(&mut TrackedFiles::new(host), plan, &protected);
        Self { root: project.root.clone(), protected, indexed }
    }

    /// Reports the files whose version is not the one that git expects. The command could not
    /// change protected files, so their present content is the content at the start.
    pub(super) fn finish(&self, host: &Host, plan: &Plan, said: &mut Diagnostics) {
        let mut tracked = TrackedFiles::new(host);
        let now = indexed(&mut tracked, plan, &self.protected);
        let changed = now.iter().filter(|(path, blob)| self.indexed.get(*path) != Some(*blob));
        let is_stale = |path: &&AbsPath| match self.indexed.get(*path) {
            Some(before) => tracked.has_content(path, before),
            // The other version has the file, and git could not create it.
            None => !is_there(host, path),
        };
        let other: Vec<AbsPath> = changed.map(|(path, _)| path).take(MOST_COMPARED).filter(is_stale).cloned().collect();
        let gone = self.indexed.iter().filter(|(path, _)| !now.contains_key(*path)).take(MOST_COMPARED);
        let gone: Vec<AbsPath> =
            gone.filter(|(path, before)| tracked.has_content(path, before)).map(|(path, _)| path.clone()).collect();
        let (gone, unmerged): (Vec<_>, Vec<_>) = gone.into_iter().partition(|path| tracked.lacks(path));
        let mut report = |files: Vec<AbsPath>, message: &dyn Fn(&str, &str) -> String, help: &str| {
            if files.is_empty() {
                return;
            }
            let it = if files.len() == 1 { "it" } else { "them" };
            let names = files.iter().map(|path| format!("`{}`", name_in(&self.root, path))).collect();
            let (subject, notes) = one_or_many(names);
            said.push(Diagnostic::new(Code::NotCheckedOut, message(&subject, it)).notes(notes).paths(files).help(help));
        };
        report(
            [other, unmerged].concat(),
            &|files, it| {
                format!("git expects another version of {files} since this run, and could not write {it} inside")
            },
            "look at `git diff` outside first, because the command may have made that version; then run `git checkout \
             -- FILE`, because a `git commit -a` before it would commit the old version again",
        );
        report(
            gone,
            &|files, it| format!("git no longer tracks {files} since this run, and could not remove {it} inside"),
            "remove it outside, or keep it with `git add FILE`: the version that git has now is without the file",
        );
    }
}

/// The protected files that the index names, and their blobs.
fn indexed(tracked: &mut TrackedFiles, plan: &Plan, protected: &[AbsPath]) -> BTreeMap<AbsPath, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in protected {
        let within = tracked.blobs_within(path, MOST_FILES.saturating_sub(found.len()));
        // A deeper rule may make a part of a protected folder writable.
        found.extend(within.into_iter().filter(|(path, _)| plan.view(path) != View::HostRw));
    }
    found
}
