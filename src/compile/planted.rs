//! Programs that our own process starts outside of the sandbox: a sandboxed command must not
//! choose them.

use crate::compile::layers::Project;
use crate::compile::plan::{Plan, View};
use crate::policy::AbsPath;

/// Whether a sandboxed command can have put a program at `at`, in this run or an earlier one.
pub(crate) fn may_be_planted(plan: &Plan, project: &Project, at: &AbsPath) -> bool {
    // The folder around `at` counts, too: a file that a rule protects now may have been missing in
    // an earlier run, and then a command could create it.
    let is_writable = |at: AbsPath| project.names(&at).any(|name| plan.view(&name) == View::HostRw);
    may_be_of_project(project, at) || at.ancestors().take(2).any(is_writable)
}

/// Whether `at` lies in the project or in its outermost folder. A `.git` that a command planted in
/// an earlier run may have made a subfolder the root.
pub(crate) fn may_be_of_project(project: &Project, at: &AbsPath) -> bool {
    project.names(at).any(|name| name.is_within(&project.root) || name.is_within(&project.outermost))
}
