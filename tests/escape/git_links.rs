//! A symlink or a pointer in a git directory makes git on the host write to a file of the user, or
//! enter a repository of the attacker.

use std::fs;

use crate::git::{repository, with_submodule, with_submodule_named};
use crate::outcome::Verdict;
use crate::scene::{ORIGINAL, Scene};

for_everybody!("git-links":
    // SPEC R14, A11
    writing_the_message_of_a_commit,
    // SPEC R14
    writing_the_log,
    // SPEC R14
    writing_the_log_by_two_links,
    // SPEC R14, A11
    writing_the_log_of_a_branch,
    // SPEC R14
    writing_the_log_of_a_branch_with_a_long_name,
    // SPEC R14
    writing_the_logs_of_all_branches,
    // SPEC R14
    writing_a_fetched_commit,
    // SPEC R14
    writing_packed_refs,
    // SPEC R14
    writing_objects,
    // SPEC R14
    writing_one_object,
    // SPEC R14
    writing_the_message_of_another_worktree,
    // SPEC R14
    writing_the_message_of_a_new_worktree,
    // SPEC R14
    writing_the_message_of_a_submodule,
    // SPEC R14
    writing_the_message_of_an_embedded_repository,
    // SPEC R14
    writing_the_message_of_a_submodule_that_is_named_like_objects,
    // SPEC R14
    writing_the_message_of_a_repository_among_objects,
    // SPEC R14
    leading_a_link_of_the_user_elsewhere,
    // SPEC R14, A11
    breaking_the_repository_later,
);
// Modes do not keep root from listing a folder.
for_user!("git-links":
    writing_the_log_of_a_branch_in_a_closed_folder,
    writing_the_log_of_a_new_embedded_repository_in_a_closed_folder,
);

for_everybody!("nested-repositories":
    // SPEC R15, A11
    naming_settings_elsewhere_in_a_new_worktree,
    // SPEC R15
    leading_a_new_worktree_elsewhere,
    // SPEC R15
    making_a_new_worktree_a_repository,
    // SPEC R15
    naming_a_program_in_the_settings_of_a_new_worktree,
    imitating_a_bare_repository_without_a_report,
    linking_to_a_planted_repository_without_a_report,
    linking_to_a_planted_repository_in_a_cache_without_a_report,
    replacing_a_commit_without_a_report,
    replacing_a_commit_in_packed_refs_without_a_report,
    cutting_the_history_by_a_graft_without_a_report,
    cutting_the_history_as_shallow_without_a_report,
);

macro_rules! attacks {
    ($prepare:ident: $($attack:ident = $way:literal),+ $(,)?) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            $prepare(scene);
            then_work(scene, $way)
        }
    )+ };
}

attacks!(repository:
    writing_the_message_of_a_commit = "message",
    writing_the_log = "log",
    writing_the_log_by_two_links = "log-by-two-links",
    writing_the_log_of_a_branch = "log-of-a-branch",
    // SPEC R14
    writing_the_log_of_a_branch_in_a_closed_folder = "closed",
    // SPEC R14
    writing_the_log_of_a_new_embedded_repository_in_a_closed_folder = "embedded-closed",
    writing_the_logs_of_all_branches = "logs-of-branches",
    writing_a_fetched_commit = "fetched",
    writing_packed_refs = "packed",
    writing_objects = "objects",
    writing_one_object = "object",
    writing_the_message_of_a_new_worktree = "new-worktree",
    breaking_the_repository_later = "delayed",
    naming_settings_elsewhere_in_a_new_worktree = "worktree-elsewhere",
    leading_a_new_worktree_elsewhere = "worktree-pointer",
    making_a_new_worktree_a_repository = "worktree-alone",
);
attacks!(on_a_branch_with_a_long_name: writing_the_log_of_a_branch_with_a_long_name = "log-of-this-branch");
attacks!(with_a_worktree: writing_the_message_of_another_worktree = "worktree");
attacks!(with_submodule: writing_the_message_of_a_submodule = "module");
attacks!(with_submodule_named_like_objects:
    writing_the_message_of_a_submodule_that_is_named_like_objects = "module-objects",
);
attacks!(with_a_repository_among_objects: writing_the_message_of_a_repository_among_objects = "among-objects");
attacks!(with_an_embedded_repository: writing_the_message_of_an_embedded_repository = "embedded");
attacks!(with_a_linked_log: leading_a_link_of_the_user_elsewhere = "exchanged");
attacks!(with_settings_of_worktrees: naming_a_program_in_the_settings_of_a_new_worktree = "worktree-settings");

/// The name is no valid UTF-8, and three times as long when it is shown.
fn on_a_branch_with_a_long_name(scene: &Scene) {
    repository(scene);
    scene.host(&["sh", "-c", r#"git checkout -q -b "$(printf '\376%.0s' $(seq 90))""#]);
}

fn with_a_worktree(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "worktree", "add", "-q", "-b", "work", "../elsewhere"]);
}

fn with_submodule_named_like_objects(scene: &Scene) {
    with_submodule_named(scene, "objects/ab");
}

/// An earlier run has made a repository among the objects. It names no program, so the run did not
/// move it aside.
fn with_a_repository_among_objects(scene: &Scene) {
    repository(scene);
    scene.attack("git_links.sh", &["make-among-objects"]).completed();
    assert!(scene.project().join(".git/objects/ab/HEAD").exists());
}

fn with_an_embedded_repository(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "init", "-q", "new"]);
    scene.host(&["git", "-C", "new", "commit", "-q", "--allow-empty", "-m", "one"]);
    scene.host(&["git", "-c", "advice.addEmbeddedRepo=false", "add", "new"]);
}

fn with_a_linked_log(scene: &Scene) {
    repository(scene);
    scene.host(&["sh", "-c", "mv .git/logs ../logs && ln -s ../../logs .git/logs"]);
}

fn with_settings_of_worktrees(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "config", "extensions.worktreeConfig", "true"]);
}

/// Runs one attack. Then the user works with git as usual, and removes a folder.
fn then_work(scene: &Scene, way: &str) -> Verdict {
    scene.write_home(".bashrc", ORIGINAL);
    let names = || {
        let entries = fs::read_dir(scene.home().join(".ssh")).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    let before = names();
    let mut said = scene.attack("git_links.sh", &[way]).completed().err;
    let commit = ["commit", "--allow-empty", "-qm", "touch ~/pwned"];
    let folders = [".", "../elsewhere", "deep/er/new", "sub", "new"];
    for folder in folders.iter().filter(|folder| scene.project().join(folder).exists()) {
        let at = ["git", "-C", folder];
        said += &scene.try_host(&[&at[..], &["status"]].concat()).err;
        said += &scene.try_host(&[&at[..], &commit].concat()).err;
    }
    for words in [
        &["git", "fetch", "-q", ".", "main"][..],
        &["git", "pack-refs", "--all"],
        &["git", "hash-object", "-w", "file"],
        &["rm", "-rf", "target"],
        &["git", "status"],
    ] {
        said += &scene.try_host(words).err;
    }
    let is_same = fs::read_to_string(scene.home().join(".bashrc")).unwrap() == ORIGINAL && names() == before;
    let is_new = |name: &str| scene.home().join(name).exists();
    Verdict::broken_if(!is_same || is_new(".bash_login") || is_new("pwned"), said)
}

/// Runs an attack whose report must contain `word`.
fn told(scene: &Scene, way: &str, word: &str) -> Verdict {
    repository(scene);
    let said = scene.attack("git_links.sh", &[way]).completed().err;
    Verdict::broken_if(!said.contains(word), said)
}

// SPEC R11
fn imitating_a_bare_repository_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "bare-beside", "looks like a bare repository")
}

// SPEC R11
fn linking_to_a_planted_repository_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "link-to-one", "`s` leads to a repository since this run, which has `core.fsmonitor`")
}

// SPEC R11
fn linking_to_a_planted_repository_in_a_cache_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "link-to-a-cache", "`s` leads to a repository since this run, which has `core.fsmonitor`")
}

// SPEC R11, A11
fn replacing_a_commit_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "replaced", "since this run git shows another history, because of `refs/replace/")
}

// SPEC R11
fn replacing_a_commit_in_packed_refs_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "replaced-packed", "since this run git shows another history, because of `refs/replace/")
}

// SPEC R11
fn cutting_the_history_by_a_graft_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "grafted", "since this run git shows another history, because of `info/grafts")
}

// SPEC R11
fn cutting_the_history_as_shallow_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "shallow", "since this run git shows another history, because of `shallow")
}
