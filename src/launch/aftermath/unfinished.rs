//! A merge, a rebase or the like that the run began and did not finish: git on the host would go on
//! with it, and a rebase runs the `exec` lines of its list.

use crate::compile::layers::Project;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed};
use crate::host::Host;
use crate::policy::path::AbsPath;

use super::is_there;

/// What git keeps in the git directory of the work tree while it is at work (git-status(1), the
/// state that `wt-status.c` looks for).
const OPERATIONS: [(&str, &str); 6] = [
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase or `git am`"),
    ("BISECT_START", "bisect"),
];

pub(super) struct UnfinishedWatch {
    /// Those that were not under way at the start.
    absent: Vec<(AbsPath, &'static str)>,
}

impl UnfinishedWatch {
    pub(super) fn start(host: &Host, project: &Project) -> Self {
        let git_dirs = project.repository.iter().map(|repository| &repository.git_dir);
        let all = git_dirs.flat_map(|git_dir| OPERATIONS.map(|(name, operation)| (git_dir.child(name), operation)));
        Self { absent: all.filter(|(path, _)| !is_there(host, path)).collect() }
    }

    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        let left: Vec<_> = self.absent.iter().filter(|(path, _)| is_there(host, path)).collect();
        if left.is_empty() {
            return;
        }
        let operations = listed(left.iter().map(|(_, operation)| format!("a {operation}")), "and");
        let message = format!("the run left {operations} of git unfinished");
        let help =
            "outside, `git status` says how to go on or to abort; git inside may have stopped at a protected file";
        let is_rebase = left.iter().any(|(path, _)| path.file_name().is_some_and(|name| name == "rebase-merge"));
        let todo = if is_rebase { "; `git rebase --edit-todo` shows the commands that it would run" } else { "" };
        let help = format!("{help}{todo}");
        let paths = left.into_iter().map(|(path, _)| path.clone()).collect::<Vec<AbsPath>>();
        said.push(Diagnostic::new(Code::LeftUnfinished, message).paths(paths).help(help));
    }
}
