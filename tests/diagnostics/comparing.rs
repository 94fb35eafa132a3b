//! The reasons why two policies are not compared.

use std::ffi::OsStr;

use agent_sandbox::audit::revision::source_at;
use agent_sandbox::diagnostic::Code;
use agent_sandbox::host::session::Session;

use crate::support::{Place, Tree, session, stderr};
use crate::{one, plain, tree};

cases! {
    NoComparison an_operand_like_a_flag_is_no_revision at(&tree([]), &session("/home/u/proj"), "--exec=x");
    NoComparison without_git_there_are_no_revisions at(&tree([]), &session("/home/u/proj"), "HEAD");
    NoComparison without_a_repository_there_are_no_revisions in_place(&[], "HEAD");
    NoComparison a_revision_that_is_not_there_is_named in_place(&["git init -q"], "main~3");
    // SPEC F3
    NoComparison a_fifo_in_a_repository_does_not_block_a_comparison in_place(
        &["git init -q", "mkfifo .git/packed-refs"], "main");
    NoComparison a_folder_is_no_policy in_place(
        &["git init -q", "mkdir .agent-sandbox.toml", "touch .agent-sandbox.toml/x", "git add .", COMMIT], "HEAD");
    NoComparison a_revision_whose_file_is_a_link_is_refused in_place(
        &["git init -q", "ln -s x .agent-sandbox.toml", "git add .", COMMIT], "HEAD");
    NoComparison a_file_that_is_no_text_at_a_revision_is_refused in_place(
        &["git init -q", "printf '\\377' >.agent-sandbox.toml", "git add .", COMMIT], "HEAD");
}

const COMMIT: &str = "git -c user.name=a -c user.email=a@b commit -qm x";

fn at(tree: &Tree, session: &Session, revision: &str) -> String {
    let layers = plain(tree).layers;
    one(source_at(&tree.host(), session, &layers.project, OsStr::new(revision)).unwrap_err())
}

/// Runs in a [`Place`], because a [`Tree`] has no git.
fn in_place(scripts: &[&str], revision: &str) -> String {
    let place = Place::in_tmp();
    for script in scripts {
        let output = place.command("/bin/sh").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    }
    let file = format!("git:{revision}");
    let output = place.agent_sandbox().args(["diff", &file, "/dev/null"]).output().unwrap();
    stderr(&output)
}
