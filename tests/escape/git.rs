//! Attacks that make git on the host run a program the next time the user calls it.

use std::fs;

use crate::outcome::Verdict;
use crate::scene::{DEFAULTS, ORIGINAL, Scene};

for_everybody!("git-preset":
    planting_a_hook,
    naming_a_program_in_the_settings,
    naming_a_program_in_the_settings_of_a_worktree,
    planting_a_hook_where_the_settings_say,
    replacing_the_folder_where_the_settings_say,
    naming_a_program_in_an_included_file,
    replacing_an_included_file,
    planting_a_hook_from_a_linked_worktree,
    naming_a_program_from_a_linked_worktree,
);

// Without the mounts, the check at the end of a run would move the files aside.
for_everybody!("git-preset,nested-repositories":
    naming_a_program_in_the_settings_of_a_submodule,
    planting_a_hook_of_a_submodule,
    leading_a_linked_worktree_elsewhere,
    leading_the_pointer_of_a_linked_worktree_elsewhere,
);
for_everybody!("placeholders,nested-repositories": leading_the_repository_elsewhere);

// These attacks try to create missing paths.
for_everybody!("placeholders,nested-repositories": making_the_settings_of_a_worktree_outside);
for_everybody!("placeholders":
    making_the_settings_of_a_worktree,
    making_the_settings_of_a_submodule_of_a_worktree_outside,
);

/// Makes a repository with one commit, and chooses the default policy.
pub fn repository(scene: &Scene) {
    scene.policy(DEFAULTS, "");
    scene.host(&["git", "init", "-q", "-b", "main"]);
    identify(scene);
    scene.write("file", "content\n");
    scene.host(&["git", "add", "file"]);
    scene.host(&["git", "commit", "-qm", "first"]);
}

pub fn identify(scene: &Scene) {
    scene.write_home(".gitconfig", "[user]\n\tname = U\n\temail = u@example.org\n[init]\n\tdefaultBranch = main\n");
}

/// Runs one attack, and then the user's ordinary git commands.
fn then_use_git(scene: &Scene, door: &str) -> Verdict {
    let pwned = scene.home().join("pwned");
    assert!(!pwned.exists());
    let ran = scene.attack("git.sh", &[door]).completed();
    let mut said = ran.err;
    for words in [
        &["git", "status"][..],
        &["git", "add", "file"],
        &["git", "commit", "--allow-empty", "-qm", "second"],
        &["git", "-C", "sub", "status"],
        &["git", "-C", "sub", "commit", "--allow-empty", "-qm", "second"],
        &["git", "-C", "../beside", "status"],
        &["git", "-C", "../beside/sub", "status"],
    ] {
        said += &scene.try_host(words).err;
    }
    Verdict::broken_if(pwned.exists(), said)
}

// SPEC A11
fn planting_a_hook(scene: &Scene) -> Verdict {
    repository(scene);
    then_use_git(scene, "hook")
}

fn naming_a_program_in_the_settings(scene: &Scene) -> Verdict {
    repository(scene);
    then_use_git(scene, "config")
}

// SPEC A11
fn leading_the_repository_elsewhere(scene: &Scene) -> Verdict {
    repository(scene);
    let verdict = then_use_git(scene, "commondir");
    if let Verdict::Held(_) = verdict {
        assert!(!scene.project().join(".git/commondir").exists(), "something was left behind");
    }
    verdict
}

fn making_the_settings_of_a_worktree(scene: &Scene) -> Verdict {
    repository(scene);
    scene.host(&["git", "config", "extensions.worktreeConfig", "true"]);
    then_use_git(scene, "config.worktree")
}

fn naming_a_program_in_the_settings_of_a_worktree(scene: &Scene) -> Verdict {
    repository(scene);
    scene.host(&["git", "config", "extensions.worktreeConfig", "true"]);
    scene.write(".git/config.worktree", "[user]\n\tname = Other\n");
    then_use_git(scene, "config.worktree")
}

/// Makes another worktree of the project's repository outside of the project. The command can write
/// only the worktree's files in the repository.
fn with_worktree_beside(scene: &Scene) {
    with_submodule(scene);
    scene.host(&["git", "commit", "-qm", "with a submodule"]);
    scene.host(&["git", "config", "extensions.worktreeConfig", "true"]);
    scene.host(&["git", "worktree", "add", "-q", "../beside"]);
    let update =
        ["git", "-C", "../beside", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"];
    scene.host(&update);
    scene.host(&["git", "-C", "../beside/sub", "config", "extensions.worktreeConfig", "true"]);
}

// SPEC P11
fn making_the_settings_of_a_worktree_outside(scene: &Scene) -> Verdict {
    with_worktree_beside(scene);
    then_use_git(scene, "beside")
}

// SPEC P11
fn making_the_settings_of_a_submodule_of_a_worktree_outside(scene: &Scene) -> Verdict {
    with_worktree_beside(scene);
    then_use_git(scene, "beside-module")
}

pub fn with_submodule(scene: &Scene) {
    with_submodule_named(scene, "sub");
}

pub fn with_submodule_named(scene: &Scene, name: &str) {
    repository(scene);
    let library = scene.home().join("library").to_str().unwrap().to_owned();
    scene.host(&["git", "init", "-q", &library]);
    scene.host(&["git", "-C", &library, "commit", "--allow-empty", "-qm", "first"]);
    let add = ["git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--name", name];
    scene.host(&[&add[..], &[&library, "sub"]].concat());
}

// SPEC A11
fn naming_a_program_in_the_settings_of_a_submodule(scene: &Scene) -> Verdict {
    with_submodule(scene);
    then_use_git(scene, "module")
}

fn planting_a_hook_of_a_submodule(scene: &Scene) -> Verdict {
    with_submodule(scene);
    then_use_git(scene, "module-hook")
}

fn with_hooks_in_the_tree(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "config", "core.hooksPath", "tools/hooks"]);
    scene.write("tools/hooks/pre-commit", "#!/bin/sh\n");
    scene.host(&["chmod", "755", "tools/hooks/pre-commit"]);
}

// SPEC P8, A11
fn planting_a_hook_where_the_settings_say(scene: &Scene) -> Verdict {
    with_hooks_in_the_tree(scene);
    then_use_git(scene, "hookspath")
}

fn replacing_the_folder_where_the_settings_say(scene: &Scene) -> Verdict {
    with_hooks_in_the_tree(scene);
    then_use_git(scene, "hookspath-moved")
}

fn with_an_include(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "config", "include.path", "../team.gitconfig"]);
    scene.write("team.gitconfig", "[alias]\n\tst = status\n");
}

// SPEC P8
fn naming_a_program_in_an_included_file(scene: &Scene) -> Verdict {
    with_an_include(scene);
    then_use_git(scene, "include")
}

fn replacing_an_included_file(scene: &Scene) -> Verdict {
    with_an_include(scene);
    then_use_git(scene, "include-moved")
}

/// Makes the project a worktree of a repository beside it.
fn with_linked_worktree(scene: &Scene) {
    scene.policy(DEFAULTS, "");
    identify(scene);
    let main = scene.home().join("code/main").to_str().unwrap().to_owned();
    let project = scene.project().to_str().unwrap().to_owned();
    scene.host(&["git", "init", "-q", &main]);
    scene.host(&["git", "-C", &main, "commit", "--allow-empty", "-qm", "first"]);
    scene.host(&["git", "-C", &main, "config", "extensions.worktreeConfig", "true"]);
    scene.host(&["git", "-C", &main, "worktree", "add", "-q", "-b", "work", &project]);
    scene.host(&["git", "config", "--worktree", "user.name", "Other"]);
    assert!(fs::metadata(scene.project().join(".git")).unwrap().is_file());
}

fn planting_a_hook_from_a_linked_worktree(scene: &Scene) -> Verdict {
    with_linked_worktree(scene);
    then_use_git(scene, "worktree-hook")
}

fn naming_a_program_from_a_linked_worktree(scene: &Scene) -> Verdict {
    with_linked_worktree(scene);
    then_use_git(scene, "worktree-config")
}

fn leading_a_linked_worktree_elsewhere(scene: &Scene) -> Verdict {
    with_linked_worktree(scene);
    then_use_git(scene, "worktree-commondir")
}

fn leading_the_pointer_of_a_linked_worktree_elsewhere(scene: &Scene) -> Verdict {
    with_linked_worktree(scene);
    then_use_git(scene, "worktree-pointer")
}

for_everybody!("links-in-folders":
    changing_the_target_of_a_hook,
    changing_the_target_of_a_hook_that_the_settings_name,
    replacing_a_link_behind_a_hook,
    making_the_target_of_a_hook_without_a_report,
);

/// Makes a script in the project, and a link to it in a folder of hooks.
fn with_linked_hook(scene: &Scene, folder: &str, target: &str) {
    repository(scene);
    scene.write("scripts/check", ORIGINAL);
    scene.mkdir(folder);
    std::os::unix::fs::symlink(target, scene.project().join(folder).join("pre-commit")).unwrap();
    scene.place.give_away();
}

fn changing(scene: &Scene, path: &str) -> Verdict {
    let ran = scene.attack("write.py", &[path]).completed();
    Verdict::broken_if(scene.changed(path), ran.out)
}

// SPEC P19, A11
fn changing_the_target_of_a_hook(scene: &Scene) -> Verdict {
    with_linked_hook(scene, ".git/hooks", "../../scripts/check");
    changing(scene, "scripts/check")
}

// SPEC P19, A11
fn changing_the_target_of_a_hook_that_the_settings_name(scene: &Scene) -> Verdict {
    with_linked_hook(scene, "my-hooks", "../scripts/check");
    scene.host(&["git", "config", "core.hooksPath", "my-hooks"]);
    changing(scene, "scripts/check")
}

// SPEC P19, R5
fn replacing_a_link_behind_a_hook(scene: &Scene) -> Verdict {
    with_linked_hook(scene, ".git/hooks", "../../scripts/link");
    std::os::unix::fs::symlink("check", scene.project().join("scripts/link")).unwrap();
    scene.place.give_away();
    let ran = scene.attack("write.py", &["scripts/link"]).completed();
    let target = fs::read_link(scene.project().join("scripts/link"));
    Verdict::broken_if(!target.is_ok_and(|target| target.as_os_str() == "check"), ran.err)
}

// SPEC P19, R1
fn making_the_target_of_a_hook_without_a_report(scene: &Scene) -> Verdict {
    with_linked_hook(scene, ".git/hooks", "../../scripts/missing");
    let ran = scene.attack("write.py", &["scripts/missing"]).completed();
    assert!(scene.project().join("scripts/missing").exists(), "the attack created the file");
    Verdict::broken_if(!ran.err.contains("created during the run: `scripts/missing` (@git)"), ran.err)
}
