//! Attacks that make git on the host enter a repository of the attacker in the project: git enters
//! each repository that the index names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::git::{identify, repository, with_submodule};
use crate::outcome::Verdict;
use crate::scene::{DEFAULTS, Scene, run};
use crate::support::binary;

macro_rules! attacks {
    ($prepare:ident, $judge:ident: $($attack:ident = $way:literal),+ $(,)?) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            $prepare(scene);
            $judge(scene, $way)
        }
    )+ };
}

// Mounts protect a repository that exists at the start. Without them, the run would move the
// repository aside at its end, so the control needs both.
for_everybody!("git-preset,nested-repositories":
    // SPEC A11
    leading_the_pointer_of_a_submodule_elsewhere,
    replacing_the_pointer_of_a_submodule,
    // SPEC P11
    replacing_the_folder_of_a_submodule,
    leading_the_repository_of_a_submodule_elsewhere,
    replacing_the_repositories_of_submodules,
    // SPEC P5
    changing_a_submodule_that_is_called_logs,
    changing_a_submodule_in_a_folder_of_objects,
    leading_a_submodule_of_a_submodule_elsewhere,
    // SPEC A11
    changing_the_settings_of_an_embedded_repository,
    planting_a_hook_of_an_embedded_repository,
    // SPEC P11
    leading_an_embedded_repository_elsewhere,
    making_the_settings_of_an_embedded_worktree,
    replacing_an_embedded_repository,
    making_an_embedded_repository_anew,
    planting_a_hook_where_an_embedded_repository_says,
    leading_another_worktree_elsewhere,
    making_the_settings_of_another_worktree,
    changing_a_repository_in_a_folder_of_several,
    planting_a_hook_in_a_folder_of_several,
    changing_a_program_that_the_settings_name,
    replacing_a_program_that_the_settings_name,
    replacing_the_folder_of_a_program_that_the_settings_name,
    // SPEC P8
    changing_a_filter_that_the_settings_name,
    // SPEC P8
    changing_a_file_that_an_option_in_the_settings_names,
);

// These attacks have more worktrees than the run protects one by one.
for_everybody!("git-preset,nested-repositories":
    // SPEC P11
    leading_a_worktree_among_many_elsewhere,
    // SPEC P11
    making_the_settings_of_a_worktree_among_many,
);
for_everybody!("crowded-folders": making_the_next_start_impossible);

for_everybody!("nested-repositories":
    // SPEC A11
    planting_a_repository_that_the_index_names,
    planting_a_repository_deep_in_the_tree,
    // SPEC R5
    planting_a_repository_in_a_harmless_one,
    planting_a_repository_in_a_submodule,
    // SPEC R5
    planting_a_repository_in_a_folder_that_is_closed,
    // SPEC R5
    planting_a_repository_where_all_names_are_taken,
    planting_a_repository_with_a_hook,
    planting_a_repository_that_includes_settings,
    planting_a_repository_with_settings_of_a_worktree,
    planting_a_repository_that_is_led_elsewhere,
    planting_a_pointer,
    planting_a_link,
    planting_a_repository_in_a_split_index,
    planting_a_repository_by_a_replaced_entry,
    // SPEC R5
    planting_a_repository_in_a_huge_index,
    // SPEC R5
    populating_a_submodule_that_was_empty,
    planting_a_repository_in_another_worktree,
);

attacks!(with_submodule, kept:
    leading_the_pointer_of_a_submodule_elsewhere = "pointer",
    replacing_the_pointer_of_a_submodule = "pointer-replaced",
    replacing_the_folder_of_a_submodule = "folder",
    leading_the_repository_of_a_submodule_elsewhere = "module-commondir",
    replacing_the_repositories_of_submodules = "module-moved",
);
attacks!(with_a_submodule_called_logs, kept: changing_a_submodule_that_is_called_logs = "named-logs");
attacks!(with_a_submodule_called_objects, kept: changing_a_submodule_in_a_folder_of_objects = "named-objects");
attacks!(with_two_levels, kept: leading_a_submodule_of_a_submodule_elsewhere = "deeper");
attacks!(with_an_embedded_repository, kept:
    changing_the_settings_of_an_embedded_repository = "embedded",
    planting_a_hook_of_an_embedded_repository = "embedded-hook",
    leading_an_embedded_repository_elsewhere = "embedded-commondir",
    making_the_settings_of_an_embedded_worktree = "embedded-worktree",
    replacing_an_embedded_repository = "embedded-moved",
    making_an_embedded_repository_anew = "embedded-removed",
    planting_a_hook_where_an_embedded_repository_says = "embedded-hooks-in-the-tree",
);
attacks!(with_another_worktree, kept:
    leading_another_worktree_elsewhere = "worktree-pointer",
    making_the_settings_of_another_worktree = "worktree-settings",
);
attacks!(among_many_worktrees, kept: making_the_settings_of_a_worktree_among_many = "worktree-settings");
attacks!(among_many_worktrees, then_use_git: leading_a_worktree_among_many_elsewhere = "worktree-pointer");
attacks!(several_repositories, kept:
    changing_a_repository_in_a_folder_of_several = "embedded",
    planting_a_hook_in_a_folder_of_several = "embedded-hook",
);
attacks!(with_a_monitor_in_the_tree, kept:
    changing_a_program_that_the_settings_name = "program",
    replacing_a_program_that_the_settings_name = "program-replaced",
    replacing_the_folder_of_a_program_that_the_settings_name = "program-moved",
);
attacks!(with_a_filter_in_the_tree, kept: changing_a_filter_that_the_settings_name = "program");
attacks!(with_an_option_in_the_settings, kept: changing_a_file_that_an_option_in_the_settings_names = "program");

attacks!(repository, then_use_git:
    planting_a_repository_that_the_index_names = "planted",
    planting_a_repository_deep_in_the_tree = "planted-deep",
    planting_a_repository_in_a_harmless_one = "planted-in-a-planted-one",
    planting_a_repository_in_a_folder_that_is_closed = "planted-and-closed",
    planting_a_repository_where_all_names_are_taken = "planted-among-names",
    planting_a_repository_with_a_hook = "planted-hook",
    planting_a_repository_that_includes_settings = "planted-include",
    planting_a_repository_with_settings_of_a_worktree = "planted-worktree-settings",
    planting_a_repository_that_is_led_elsewhere = "planted-commondir",
    planting_a_pointer = "planted-pointer",
    planting_a_link = "planted-link",
    planting_a_repository_in_a_split_index = "planted-in-a-split-index",
    planting_a_repository_by_a_replaced_entry = "planted-as-a-replaced-entry",
    planting_a_repository_in_a_huge_index = "planted-in-a-huge-index",
);
attacks!(with_submodule, then_use_git: planting_a_repository_in_a_submodule = "planted-in-a-submodule");
attacks!(with_an_empty_submodule, then_use_git: populating_a_submodule_that_was_empty = "populated");
attacks!(with_another_worktree, then_use_git: planting_a_repository_in_another_worktree = "in-another-worktree");

fn project(scene: &Scene, path: &str) -> String {
    scene.project().join(path).to_str().unwrap().to_owned()
}

/// Adds a submodule at `path` to the repository in the folder `of`.
fn add_submodule(scene: &Scene, of: &str, path: &str) {
    let library = scene.home().join("library").to_str().unwrap().to_owned();
    if !Path::new(&library).exists() {
        scene.host(&["git", "init", "-q", &library]);
        scene.host(&["git", "-C", &library, "commit", "--allow-empty", "-qm", "first"]);
    }
    let add = ["submodule", "--quiet", "add", &library, path];
    scene.host(&[&["git", "-C", &project(scene, of), "-c", "protocol.file.allow=always"], &add[..]].concat());
}

fn with_a_submodule_called_logs(scene: &Scene) {
    repository(scene);
    add_submodule(scene, ".", "logs");
}

fn with_a_submodule_called_objects(scene: &Scene) {
    repository(scene);
    add_submodule(scene, ".", "a/objects");
}

fn with_two_levels(scene: &Scene) {
    with_submodule(scene);
    add_submodule(scene, "sub", "deeper");
}

/// The index names `sub`, which is a repository of its own. Its hooks are in its work tree, not in
/// its git directory.
pub fn with_an_embedded_repository(scene: &Scene) {
    repository(scene);
    embed(scene);
    scene.host(&["git", "-c", "advice.addEmbeddedRepo=false", "add", "sub"]);
}

fn embed(scene: &Scene) {
    scene.host(&["git", "init", "-q", "--template=", "sub"]);
    scene.host(&["git", "-C", "sub", "commit", "--allow-empty", "-qm", "first"]);
    scene.host(&["git", "-C", "sub", "config", "extensions.worktreeConfig", "true"]);
    let hooks = project(scene, "sub/tools");
    scene.write("sub/tools/pre-commit", "#!/bin/sh\n");
    scene.write("sub/tools/post-index-change", "#!/bin/sh\n");
    scene.host(&["chmod", "755", "sub/tools/pre-commit", "sub/tools/post-index-change"]);
    scene.host(&["git", "-C", "sub", "config", "core.hooksPath", &hooks]);
}

/// Makes the project a folder with several repositories that is itself no repository.
fn several_repositories(scene: &Scene) {
    scene.policy(DEFAULTS, "");
    identify(scene);
    scene.host(&["git", "init", "-q", "--template=", "sub"]);
    scene.host(&["git", "-C", "sub", "commit", "--allow-empty", "-qm", "first"]);
}

fn with_another_worktree(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "config", "extensions.worktreeConfig", "true"]);
    scene.host(&["git", "worktree", "add", "-q", "-b", "work", "sub"]);
}

fn with_an_empty_submodule(scene: &Scene) {
    with_submodule(scene);
    scene.host(&["git", "commit", "-qm", "submodule"]);
    scene.host(&["git", "submodule", "--quiet", "deinit", "sub"]);
}

fn with_a_program_in_the_tree(scene: &Scene) {
    repository(scene);
    scene.write("tools/program", "#!/bin/sh\ncat\n");
    scene.host(&["chmod", "755", "tools/program"]);
}

fn with_a_monitor_in_the_tree(scene: &Scene) {
    with_a_program_in_the_tree(scene);
    scene.host(&["git", "config", "core.fsmonitor", "tools/program"]);
}

fn with_a_filter_in_the_tree(scene: &Scene) {
    with_a_program_in_the_tree(scene);
    scene.write(".git/info/attributes", "* filter=own\n");
    scene.host(&["git", "config", "filter.own.clean", "sh ./tools/program"]);
    scene.write("file", "other\n");
}

/// `ssh` runs the programs that this file names.
fn with_an_option_in_the_settings(scene: &Scene) {
    with_a_program_in_the_tree(scene);
    scene.host(&["git", "config", "core.sshCommand", "ssh -vFtools/program"]);
}

/// Files that no process inside may change, if they exist.
const KEPT: [&str; 15] = [
    "sub/.git",
    "sub/.git/config",
    "sub/.git/config.worktree",
    "sub/.git/commondir",
    "sub/.git/hooks/pre-commit",
    "sub/tools/pre-commit",
    "sub/deeper/.git",
    ".git/modules/sub/config",
    ".git/modules/sub/commondir",
    ".git/modules/logs/config",
    ".git/modules/a/objects/config",
    ".git/worktrees/sub/config.worktree",
    "tools/program",
    "logs/.git",
    "a/objects/.git",
];

fn kept(scene: &Scene, way: &str) -> Verdict {
    let contents = || KEPT.map(|path| fs::read(scene.project().join(path)).ok());
    let before = contents();
    let verdict = then_use_git(scene, way);
    match verdict {
        Verdict::Held(how) => {
            let after = contents();
            let changed = KEPT.iter().zip(before.iter().zip(&after)).find(|(_, (before, after))| before != after);
            Verdict::broken_if(changed.is_some(), format!("{:?} changed: {how}", changed.map(|(path, _)| path)))
        }
        broken @ Verdict::Broken(_) => broken,
    }
}

/// An earlier run has made worktrees in the project whose names come before the user's.
fn among_many_worktrees(scene: &Scene) {
    with_another_worktree(scene);
    scene.attack("nested.sh", &["many-worktrees"]).completed();
}

/// Each placeholder needs descriptors, and most users have a limit of some thousand.
// SPEC P11
fn making_the_next_start_impossible(scene: &Scene) -> Verdict {
    repository(scene);
    scene.attack("nested.sh", &["many-folders"]).completed();
    let mut command = scene.outside("prlimit");
    command.arg("--nofile=1024:1024").arg(binary());
    scene.prepare(&mut command);
    command.args(["--", "echo", "done"]);
    let ran = run(command);
    assert!(ran.code != Some(0) || ran.err.contains("many-repositories"), "{ran:#?}");
    Verdict::broken_if(ran.out != "done\n", ran.err)
}

/// Runs the attack, and then the user's ordinary git commands.
fn then_use_git(scene: &Scene, way: &str) -> Verdict {
    let pwned: PathBuf = scene.home().join("pwned");
    assert!(!pwned.exists());
    let ran = scene.attack("nested.sh", &[way]).completed();
    let mut said = ran.err;
    for words in [
        &["git", "status"][..],
        &["git", "diff"],
        &["git", "add", "file"],
        &["git", "commit", "--allow-empty", "-qm", "second"],
        &["git", "-C", "sub", "status"],
        &["git", "-C", "sub", "commit", "--allow-empty", "-qm", "second"],
    ] {
        // If the project is no repository, git would search its parents, and commit to a
        // repository that is not the test's.
        let folder = if words[1] == "-C" { scene.project().join(words[2]) } else { scene.project() };
        if folder.join(".git").symlink_metadata().is_ok() {
            said += &scene.try_host(words).err;
        }
    }
    Verdict::broken_if(pwned.exists(), said)
}
