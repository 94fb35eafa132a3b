#![allow(clippy::unwrap_used)]

pub(crate) mod fixture;

use std::fs;
use std::process::Command;

use super::*;
use fixture::Fixture;

struct Answer {
    repository: Option<Repository>,
    messages: Vec<String>,
}

/// Discovery for the root `candidates[0]`.
fn discovered(fixture: &Fixture, candidates: &[&str]) -> Answer {
    let candidates: Vec<AbsPath> = candidates.iter().map(|path| fixture.abs(path)).collect();
    let mut diagnostics = Diagnostics::default();
    let repository = discover(&Host::system(), &candidates[0], &candidates, &mut diagnostics);
    assert!(diagnostics.iter().all(|d| d.code == Code::UnverifiedGitPointer && d.help.is_some()));
    Answer { repository, messages: diagnostics.iter().map(|d| fixture.shortened(&d.message)).collect() }
}

#[track_caller]
fn assert_accepted(fixture: &Fixture, candidates: &[&str], git_dir: &str, common_dir: &str, branch: Option<&str>) {
    let answer = discovered(fixture, candidates);
    let has_git = |path: &&&str| fixture.real(path).join(".git").symlink_metadata().is_ok();
    let work_tree = candidates.iter().find(has_git).unwrap();
    let expected = Repository {
        work_tree: AbsPath::normalize(fixture.real(work_tree).canonicalize().unwrap()).unwrap(),
        git_dir: fixture.abs(git_dir),
        common_dir: fixture.abs(common_dir),
        current_branch: branch.map(str::to_owned),
    };
    assert_eq!(answer.repository, Some(expected), "{:?}", answer.messages);
    assert_eq!(answer.messages, Vec::<String>::new());
}

#[track_caller]
fn assert_doubted(fixture: &Fixture, candidates: &[&str], message: &str) {
    let answer = discovered(fixture, candidates);
    assert_eq!(answer.repository, None);
    assert_eq!(answer.messages, [format!("{message}: `@git` opens nothing there")]);
}

fn with_worktree() -> Fixture {
    let fixture = Fixture::with_repository("repo");
    fixture.git("repo", &["worktree", "add", "-q", "-b", "feature/x", "../wt"]);
    fixture
}

fn with_submodule() -> Fixture {
    let fixture = Fixture::with_repository("library");
    fixture.init("super", &[]);
    fixture.git("super", &["submodule", "--quiet", "add", "../library", "sub"]);
    fixture
}

#[test]
fn a_plain_directory_is_found_from_the_root_and_from_below() {
    let fixture = Fixture::with_repository("repo");
    assert_accepted(&fixture, &["repo"], "repo/.git", "repo/.git", Some("main"));
    fs::create_dir_all(fixture.real("repo/a/b")).unwrap();
    assert_accepted(&fixture, &["repo/a/b", "repo/a", "repo"], "repo/.git", "repo/.git", Some("main"));
}

#[test]
fn without_any_git_there_is_no_repository_and_no_warning() {
    let fixture = Fixture::new();
    let answer = discovered(&fixture, &["a/b", "a"]);
    assert_eq!((answer.repository, answer.messages), (None, vec![]));
}

#[test]
fn a_branch_name_may_hold_slashes_and_a_detached_head_has_none() {
    let fixture = Fixture::with_repository("repo");
    fixture.git("repo", &["checkout", "-q", "-b", "feature/deep/x"]);
    assert_accepted(&fixture, &["repo"], "repo/.git", "repo/.git", Some("feature/deep/x"));
    fixture.git("repo", &["checkout", "-q", "--detach"]);
    assert_accepted(&fixture, &["repo"], "repo/.git", "repo/.git", None);
}

#[test]
fn a_hostile_branch_name_is_no_branch() {
    for head in [
        "ref: refs/heads/../../hooks",
        "ref: refs/heads/a//b",
        "ref: refs/heads/",
        "ref: refs/heads/a/../b",
        "ref: refs/heads/.",
        "ref: refs/heads/a\nb",
        "ref: refs/heads/a\x1b[2J",
        "ref: refs/heads/*",
        "ref: refs/heads/{a,b}",
        "ref: refs/heads/[a]",
        "ref: refs/heads/a\\b",
        "ref: refs/heads/a b",
        "ref: refs/heads/x.lock",
        "ref: refs/heads/.hidden",
        "ref: refs/heads/@",
        "ref: refs/heads/~",
        "ref: refs/tags/v1",
        "ref: /etc/passwd",
        "refs/heads/main",
        "",
    ] {
        assert_eq!(branch_of(head.as_bytes()), None, "{head:?}");
    }
    assert_eq!(branch_of(b"ref: refs/heads/\xff\n"), None);
    assert_eq!(branch_of("ref: refs/heads/größe/a-b_c.d@2,!\n".as_bytes()).as_deref(), Some("größe/a-b_c.d@2,!"));
}

#[test]
fn a_planted_commondir_in_a_plain_directory_is_not_followed() {
    let fixture = Fixture::with_repository("repo");
    fixture.init("other", &[]);
    fixture.write("repo/.git/commondir", "../../other/.git\n");
    assert_accepted(&fixture, &["repo"], "repo/.git", "repo/.git", Some("main"));
}

#[test]
fn a_broken_repository_stays_protected_in_the_project_and_opens_nothing_above_it() {
    let fixture = Fixture::with_repository("outer");
    fixture.init("outer/inner", &[]);
    fs::remove_file(fixture.real("outer/inner/.git/HEAD")).unwrap();
    let git_dir = "outer/inner/.git";
    assert_accepted(&fixture, &["outer/inner", "outer"], git_dir, git_dir, None);
    assert_doubted(
        &fixture,
        &["outer/inner/sub", "outer/inner", "outer"],
        "`/outer/inner/.git` is a directory without `HEAD` and `objects`",
    );
}

#[test]
fn a_linked_worktree_is_accepted_when_it_points_back() {
    let fixture = with_worktree();
    assert_accepted(&fixture, &["wt"], "repo/.git/worktrees/wt", "repo/.git", Some("feature/x"));
    // git 2.48 and later write this pointer with `worktree.useRelativePaths`.
    fixture.write("wt/.git", "gitdir: ../repo/.git/worktrees/wt\n");
    fixture.write("repo/.git/worktrees/wt/gitdir", "../../../../wt/.git\n");
    assert_accepted(&fixture, &["wt"], "repo/.git/worktrees/wt", "repo/.git", Some("feature/x"));
}

#[test]
fn a_worktree_reached_through_a_link_above_it_is_compared_resolved() {
    let fixture = with_worktree();
    fixture.symlink("alias", fixture.real("wt"));
    fixture.write("repo/.git/worktrees/wt/gitdir", format!("{}/.git\n", fixture.abs("alias")));
    assert_accepted(&fixture, &["alias"], "repo/.git/worktrees/wt", "repo/.git", Some("feature/x"));
}

#[test]
fn a_worktree_of_a_bare_repository_is_accepted() {
    let fixture = Fixture::with_repository("repo");
    fixture.git("", &["clone", "-q", "--bare", "repo", "bare.git"]);
    fixture.git("bare.git", &["worktree", "add", "-q", "-b", "x", "../wt"]);
    assert_accepted(&fixture, &["wt"], "bare.git/worktrees/wt", "bare.git", Some("x"));
}

#[test]
fn a_pointer_to_the_worktree_of_another_folder_is_doubted() {
    let fixture = with_worktree();
    fs::create_dir(fixture.real("evil")).unwrap();
    fs::copy(fixture.real("wt/.git"), fixture.real("evil/.git")).unwrap();
    let message = "`/evil/.git` points to `/repo/.git/worktrees/wt`, whose `gitdir` names `/wt/.git` instead";
    assert_doubted(&fixture, &["evil"], message);
}

#[test]
fn a_link_in_the_project_does_not_make_a_back_pointer_true() {
    let fixture = Fixture::with_repository("repo");
    fs::create_dir(fixture.real("evil")).unwrap();
    fixture.git("repo", &["worktree", "add", "-q", "../evil/wt"]);
    fs::copy(fixture.real("evil/wt/.git"), fixture.real("evil/.git")).unwrap();
    fs::remove_dir_all(fixture.real("evil/wt")).unwrap();
    fixture.symlink("evil/wt", ".");
    let message = "`/evil/.git` points to `/repo/.git/worktrees/wt`, whose `gitdir` names `/evil/wt/.git` instead";
    assert_doubted(&fixture, &["evil"], message);
}

#[test]
fn a_forged_worktree_cannot_name_a_repository_that_does_not_have_it() {
    let fixture = Fixture::with_repository("victim");
    fs::create_dir(fixture.real("evil")).unwrap();
    fixture.write("elsewhere/worktrees/x/HEAD", "ref: refs/heads/main\n");
    fixture.write("elsewhere/worktrees/x/gitdir", format!("{}\n", fixture.abs("evil/.git")));
    fixture.write("elsewhere/worktrees/x/commondir", "../../../victim/.git\n");
    fixture.write("evil/.git", "gitdir: ../elsewhere/worktrees/x\n");
    assert_doubted(
        &fixture,
        &["evil"],
        "`/evil/.git` points to `/elsewhere/worktrees/x`, which is no worktree of the repository `/victim/.git`",
    );
}

#[test]
fn a_submodule_is_accepted_when_it_points_back() {
    let fixture = with_submodule();
    let git_dir = "super/.git/modules/sub";
    assert_accepted(&fixture, &["super/sub", "super"], git_dir, git_dir, Some("main"));
    // This moves `core.worktree` into a file of its own.
    fixture.git("super/sub", &["sparse-checkout", "set", "--no-cone", "file"]);
    assert!(fixture.real("super/.git/modules/sub/config.worktree").exists());
    assert_accepted(&fixture, &["super/sub", "super"], git_dir, git_dir, Some("main"));
}

#[test]
fn a_pointer_to_the_submodule_of_another_folder_is_doubted() {
    let fixture = with_submodule();
    fixture.write("evil/.git", "gitdir: ../super/.git/modules/sub\n");
    let message =
        "`/evil/.git` points to `/super/.git/modules/sub`, whose `core.worktree` names `../../../sub` instead";
    assert_doubted(&fixture, &["evil"], message);
}

#[test]
fn a_pointer_to_an_ordinary_repository_is_doubted_as_file_and_as_link() {
    let fixture = Fixture::with_repository("victim");
    let message = "points to `/victim/.git`, whose `config` has no `core.worktree` that points back";
    fixture.write("evil/.git", format!("gitdir: {}\n", fixture.abs("victim/.git")));
    assert_doubted(&fixture, &["evil"], &format!("`/evil/.git` {message}"));
    fs::create_dir(fixture.real("linked")).unwrap();
    fixture.symlink("linked/.git", "../victim/.git");
    assert_doubted(&fixture, &["linked"], &format!("`/linked/.git` {message}"));
}

#[test]
fn a_separate_git_directory_is_accepted_once_the_help_was_followed() {
    let fixture = Fixture::new();
    fixture.init("site", &["--separate-git-dir=../store.git"]);
    let message = "points to `/store.git`, whose `config` has no `core.worktree` that points back";
    assert_doubted(&fixture, &["site"], &format!("`/site/.git` {message}"));
    let (git_dir, work) = (fixture.abs("store.git").to_string(), fixture.abs("site").to_string());
    fixture.git("", &[&format!("--git-dir={git_dir}"), "config", "core.worktree", &work]);
    assert_accepted(&fixture, &["site"], "store.git", "store.git", Some("main"));

    fs::remove_file(fixture.real("site/.git")).unwrap();
    fixture.symlink("site/.git", "../store.git");
    assert_accepted(&fixture, &["site"], "store.git", "store.git", Some("main"));
}

#[test]
fn a_git_directory_inside_the_project_needs_no_proof() {
    let fixture = Fixture::with_repository("repo");
    fixture.git("", &["clone", "-q", "--bare", "repo", "project/.bare"]);
    fixture.write("project/.git", "gitdir: ./.bare\n");
    assert_accepted(&fixture, &["project"], "project/.bare", "project/.bare", Some("main"));
    fs::remove_file(fixture.real("project/.git")).unwrap();
    fixture.symlink("project/.git", ".bare");
    assert_accepted(&fixture, &["project"], "project/.bare", "project/.bare", Some("main"));
    // For a project below this folder, the same git directory is outside of the project.
    fs::create_dir(fixture.real("project/sub")).unwrap();
    assert_eq!(discovered(&fixture, &["project/sub", "project"]).repository, None);
}

#[test]
fn a_pointer_that_leads_nowhere_is_doubted() {
    let fixture = with_worktree();
    fs::remove_dir_all(fixture.real("repo")).unwrap();
    let message = "`/wt/.git` points to `/repo/.git/worktrees/wt`, which is not a git directory";
    assert_doubted(&fixture, &["wt"], message);

    fs::create_dir(fixture.real("dangling")).unwrap();
    fixture.symlink("dangling/.git", "../nowhere");
    let message = "`/dangling/.git` leads to `/nowhere`, which is not a git directory";
    assert_doubted(&fixture, &["dangling"], message);
}

#[test]
fn a_git_file_that_is_no_valid_pointer_is_doubted() {
    let fixture = Fixture::with_repository("outer");
    let not_a_pointer = "`/outer/in/.git` is a file that does not say `gitdir: PATH`";
    let candidates = ["outer/in", "outer"];
    for text in [b"".as_slice(), b"gitdir: \n", b"gitdir:x\n", b"\xff\xfe\0"] {
        fixture.write("outer/in/.git", text);
        assert_doubted(&fixture, &candidates, not_a_pointer);
    }
    fixture.write("outer/in/.git", b"gitdir: a\0b\n");
    assert_eq!(discovered(&fixture, &candidates).repository, None);
    fixture.write("outer/in/.git", b"gitdir: \xff\n");
    let message = "`/outer/in/.git` points to `/outer/in/\\xff`, which is not a git directory";
    assert_doubted(&fixture, &candidates, message);

    fs::remove_file(fixture.real("outer/in/.git")).unwrap();
    fixture.symlink("outer/in/.git", ".git");
    assert_doubted(&fixture, &candidates, "`/outer/in/.git` cannot be followed (too many levels of symbolic links)");
}

#[test]
fn a_fifo_in_place_of_git_does_not_block() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.real("p")).unwrap();
    assert!(Command::new("mkfifo").arg(fixture.real("p/.git")).status().unwrap().success());
    assert_doubted(&fixture, &["p"], "`/p/.git` cannot be followed (not a regular file)");
}
