//! Attacks through worktrees outside of the project, in folders that presets make writable: those
//! of the project's own repository, and those that agents keep for other projects.

use std::path::PathBuf;

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::Scene;

// Mounts protect these worktrees. Without them, the run would move the `.git` aside at its end.
for_everybody!("git-preset,nested-repositories":
    // SPEC P11, A11
    leading_a_worktree_in_a_cache_elsewhere,
    // SPEC P11
    replacing_the_pointer_of_a_worktree_in_a_cache,
    // SPEC P11
    leading_a_worktree_in_a_folder_of_an_agent_elsewhere,
);
for_everybody!("git-preset":
    // SPEC P8
    changing_a_hook_in_a_worktree_in_a_cache,
);
for_everybody!("nested-repositories":
    // SPEC R18, A13
    leading_a_worktree_of_another_project_elsewhere,
    // SPEC R18
    replacing_the_pointer_of_a_worktree_of_another_project,
    // SPEC R18
    leading_a_worktree_to_where_another_one_is_moved,
    // SPEC R15
    leading_a_new_worktree_in_a_cache_elsewhere,
);

const CODEX: &str = ".codex/worktrees/x/work";
const CACHE: &str = ".cache/work/tree";

/// Makes a worktree of the repository in the folder `of` in the home, in its folder `place`.
fn add(scene: &Scene, of: &str, place: &str) {
    scene.host(&["git", "-C", of, "worktree", "add", "-q", "-b", "work", at(scene, place).to_str().unwrap()]);
}

fn at(scene: &Scene, place: &str) -> PathBuf {
    scene.home().join(place)
}

/// Runs the attack, and then the user's `git status` in the folders of the home.
fn judged(scene: &Scene, way: &str, place: &str) -> Verdict {
    // The product moves `.git` aside to `.git.held`. The control does not.
    let git_dir = if scene.is_control() { ".git" } else { ".git.held" };
    let folder = at(scene, place);
    let mut said = scene.attack("worktree_elsewhere.sh", &[way, folder.to_str().unwrap(), git_dir]).completed().err;
    for folder in [folder.clone(), folder.with_file_name("a")] {
        if folder.exists() {
            said += &scene.try_host(&["git", "-C", folder.to_str().unwrap(), "status"]).err;
        }
    }
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

fn own(scene: &Scene, way: &str, place: &str) -> Verdict {
    repository(scene);
    add(scene, ".", place);
    judged(scene, way, place)
}

fn leading_a_worktree_in_a_cache_elsewhere(scene: &Scene) -> Verdict {
    own(scene, "pointer", CACHE)
}

fn replacing_the_pointer_of_a_worktree_in_a_cache(scene: &Scene) -> Verdict {
    own(scene, "replaced", CACHE)
}

fn leading_a_worktree_in_a_folder_of_an_agent_elsewhere(scene: &Scene) -> Verdict {
    own(scene, "pointer", CODEX)
}

fn leading_a_new_worktree_in_a_cache_elsewhere(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write_home(".cache/kept", "");
    judged(scene, "new", CACHE)
}

/// The user's settings name a folder of hooks in each work tree.
fn changing_a_hook_in_a_worktree_in_a_cache(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write(".githooks/pre-commit", "#!/bin/sh\n");
    scene.host(&["sh", "-c", "chmod 755 .githooks/pre-commit; git add .; git commit -qm hooks"]);
    scene.host(&["git", "config", "core.hooksPath", ".githooks"]);
    add(scene, ".", CACHE);
    let folder = at(scene, CACHE).to_str().unwrap().to_owned();
    let mut said = scene.attack("worktree_elsewhere.sh", &["hook", &folder]).completed().err;
    said += &scene.try_host(&["git", "-C", &folder, "commit", "--allow-empty", "-qm", "next"]).err;
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

fn of_another_project(scene: &Scene, way: &str) -> Verdict {
    repository(scene);
    let other = at(scene, "code/other").to_str().unwrap().to_owned();
    scene.host(&["git", "init", "-q", &other]);
    scene.host(&["git", "-C", &other, "commit", "--allow-empty", "-qm", "first"]);
    add(scene, &other, CODEX);
    judged(scene, way, CODEX)
}

fn leading_a_worktree_of_another_project_elsewhere(scene: &Scene) -> Verdict {
    of_another_project(scene, "pointer")
}

fn replacing_the_pointer_of_a_worktree_of_another_project(scene: &Scene) -> Verdict {
    of_another_project(scene, "replaced")
}

fn leading_a_worktree_to_where_another_one_is_moved(scene: &Scene) -> Verdict {
    of_another_project(scene, "moved")
}
