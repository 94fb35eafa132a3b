//! Operations of git, such as a merge or a rebase, that the run began and did not finish. git on
//! the host would continue them, and a rebase runs the `exec` lines of its list.

use std::collections::BTreeSet;

use crate::compile::layers::Project;
use crate::compile::plan::{Plan, View};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, reason};
use crate::host::Host;
use crate::host::git::{nested, read_small};
use crate::policy::path::AbsPath;

use super::overlap::Facts;
use super::{held, is_there};

/// The files that git keeps in the git directory of the work tree during an operation (see
/// `wt-status.c` in git).
const OPERATIONS: [(&str, &str); 7] = [
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    // After the next conflict, git continues with the list in this folder, and runs the merge
    // strategy that the folder names.
    ("sequencer", "list of cherry-picks or reverts"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase or `git am`"),
    ("BISECT_START", "bisect"),
];

/// The files of a rebase or `git am` that hold a number, which `git-sh-prompt` puts into the
/// prompt.
const NUMBERS: [&str; 4] = ["msgnum", "end", "next", "last"];

pub(super) struct UnfinishedWatch {
    git_dirs: BTreeSet<AbsPath>,
    /// The operations that were under way at the start.
    before: BTreeSet<AbsPath>,
}

impl UnfinishedWatch {
    pub(super) fn start(host: &Host, project: &Project, of_work_trees: BTreeSet<AbsPath>) -> Self {
        let own = project.repository.iter().map(|repository| repository.git_dir.clone());
        let trees = project.repository.iter().flat_map(|repository| nested::work_trees(host, repository));
        let known = &project.git_nested;
        let nested = known.found.iter().map(|found| &found.git_dir).chain(&known.kept_within).cloned();
        let trees = trees.map(|tree| tree.git_dir).chain(of_work_trees);
        let git_dirs: BTreeSet<AbsPath> = own.chain(trees).chain(nested).collect();
        let before = operations_in(git_dirs.iter()).map(|(path, _)| path).filter(|path| is_there(host, path)).collect();
        Self { git_dirs, before }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        self.before.retain(|path| facts.keep("unfinished", path, ""));
    }

    /// Reports the operations that the run began. `new` are further git directories, which may not
    /// have existed at the start.
    pub(super) fn finish(&self, host: &Host, plan: &Plan, new: &BTreeSet<AbsPath>, said: &mut Diagnostics) {
        // Repositories are readable again by now. `git_dir_links` reports those folders that are
        // not.
        let is_under_way = |path: &AbsPath| is_there(host, path) && matches!(host.kind(path), Ok(Some(_)));
        let can_be_written = |path: &AbsPath| plan.view_around(path) == View::HostRw;
        let new = operations_in(new.difference(&self.git_dirs)).filter(|(path, _)| can_be_written(path));
        let left = operations_in(self.git_dirs.iter()).filter(|(path, _)| !self.before.contains(path)).chain(new);
        let left = left.filter(|(path, _)| is_under_way(path));
        let (forged, left): (Vec<_>, Vec<_>) = left.partition(|(path, _)| has_forged_number(host, path));
        for (path, operation) in &forged {
            let outcome = match held::move_aside_in_place(host, path) {
                Ok(to) => format!("moved aside to `{to}`"),
                Err(e) => format!("it cannot be moved aside: {}", reason(&e)),
            };
            let message = format!("the run left a {operation} in `{path}` with text instead of a number; {outcome}");
            let help = "look at it, then remove it: a shell prompt that shows the progress would run that text";
            said.push(Diagnostic::new(Code::LeftUnfinished, message).paths([path.clone()]).help(help));
        }
        if left.is_empty() {
            return;
        }
        let operations: BTreeSet<&str> = left.iter().map(|(_, operation)| *operation).collect();
        let operations = listed(operations.into_iter().map(|operation| format!("a {operation}")), "and");
        let message = format!("the run left {operations} of git unfinished");
        let help = "run `git status` outside, which says how to go on or to abort; git inside may have stopped at a protected \
             file";
        let is_rebase = left.iter().any(|(path, _)| path.file_name().is_some_and(|name| name == "rebase-merge"));
        let todo = if is_rebase { "; `git rebase --edit-todo` shows the commands that it would run" } else { "" };
        let help = format!("{help}{todo}");
        let paths = left.into_iter().map(|(path, _)| path).collect::<Vec<AbsPath>>();
        said.push(Diagnostic::new(Code::LeftUnfinished, message).paths(paths).help(help));
    }
}

/// The files and folders of all operations, whether or not they exist.
fn operations_in<'d>(git_dirs: impl Iterator<Item = &'d AbsPath>) -> impl Iterator<Item = (AbsPath, &'static str)> {
    git_dirs.flat_map(|dir| OPERATIONS.map(|(name, operation)| (dir.child(name), operation)))
}

fn has_forged_number(host: &Host, operation: &AbsPath) -> bool {
    NUMBERS.iter().any(|name| {
        // If the caller cannot read a file, a prompt cannot read it either.
        let text = read_small(host, &operation.child(name)).ok().flatten();
        text.is_some_and(|text| !text.trim_ascii().iter().all(u8::is_ascii_digit))
    })
}
