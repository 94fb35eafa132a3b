//! Attacks that plant a repository where git on the host is not expected to look: by names that git
//! does not write, in work trees and indexes outside of the project, in two steps, in a project
//! without a repository, and for a submodule that is not checked out.

use crate::git::{identify, repository, with_submodule};
use crate::outcome::Verdict;
use crate::scene::{DEFAULTS, Scene};

for_everybody!("nested-repositories":
    // SPEC R5
    planting_a_repository_whose_work_tree_is_elsewhere,
    planting_a_repository_whose_work_tree_is_elsewhere_for_git_alone,
    planting_a_pointer_that_ends_early,
    // SPEC R5
    planting_a_repository_in_a_folder_of_a_sparse_index,
    // SPEC R5
    leading_a_second_repository_to_the_place_of_a_moved_one,
    linking_another_one_to_where_it_is_moved,
    // SPEC R5
    giving_a_planted_repository_settings_in_the_next_run,
    // SPEC R5
    replacing_the_link_to_its_settings_in_the_next_run,
    // SPEC R5, A11
    planting_a_repository_in_a_project_that_has_none,
    // SPEC R5
    planting_a_bare_repository_in_a_project_that_has_none,
    // SPEC R5
    planting_a_repository_where_the_user_is,
    // SPEC R5
    planting_a_bare_repository_where_the_user_is,
    // SPEC R5
    planting_a_repository_for_a_submodule_that_is_not_there,
    // SPEC R5
    planting_a_repository_for_a_submodule_of_another_worktree,
    // SPEC R5, A11
    planting_a_repository_deeper_than_a_path_can_name,
    // SPEC R5
    planting_a_repository_by_a_name_that_threads_alone_read,
    // SPEC R5
    planting_a_repository_in_tables_that_threads_alone_read,
    // SPEC R5, A11
    planting_a_bare_repository_with_files_for_folders,
    // SPEC R5
    planting_a_bare_repository_that_is_led_elsewhere,
);

// A run also moves an index with such names aside for this reason alone (`git-state`).
for_everybody!("nested-repositories,git-state":
    // SPEC R5
    naming_a_repository_in_the_index_of_a_worktree_elsewhere,
    // SPEC R5
    planting_a_repository_under_a_name_that_climbs,
    planting_a_repository_under_a_name_with_a_dot,
    // SPEC A11
    planting_a_repository_under_an_absolute_name,
);

for_everybody!("nested-repositories":
    hiding_a_new_file_by_an_ignore_file_that_hides_itself,
    hiding_a_new_folder_by_an_ignore_file_in_it,
    hiding_a_new_file_by_an_ignore_file_with_brackets,
    hiding_a_new_file_by_a_changed_ignore_file,
    hiding_a_new_file_by_a_large_ignore_file,
    hiding_a_new_file_behind_many_ignore_files,
    hiding_a_changed_file_that_git_assumes_unchanged,
    hiding_a_changed_file_that_git_does_not_look_for,
    // SPEC R11
    hiding_a_changed_file_in_a_split_index,
    planting_a_repository_in_a_subfolder_without_a_report,
    replacing_the_link_to_the_hooks,
    // SPEC R5
    removing_the_link_to_the_repository,
    replacing_the_link_to_a_program,
    replacing_the_folder_of_the_link_to_the_hooks,
    planting_a_repository_behind_a_link_into_proc,
    changing_a_repository_that_an_earlier_run_made,
);
for_user!("nested-repositories": planting_a_repository_in_a_project_that_cannot_be_listed);
for_everybody!("git-preset,nested-repositories": replacing_a_link_to_hooks_that_are_not_there);

macro_rules! attacks {
    ($prepare:ident, $flags:ident, $after:ident: $($attack:ident = $ways:expr),+ $(,)?) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            $prepare(scene);
            judged(scene, &$flags, &$ways, &$after)
        }
    )+ };
}

/// Runs the attacks `ways`, each in a run of its own, and then the user's commands `after`.
fn judged(scene: &Scene, flags: &[&str], ways: &[&str], after: &[&[&str]]) -> Verdict {
    let pwned = scene.home().join("pwned");
    let mut said = String::new();
    for way in ways {
        said += &scene.attack_with(flags, "planted.sh", &[way]).completed().err;
    }
    assert!(!pwned.exists());
    for words in after {
        said += &scene.try_host(words).err;
    }
    Verdict::broken_if(pwned.exists(), said)
}

const AT_THE_ROOT: [&str; 0] = [];
const IN_A_FOLDER: [&str; 2] = ["--cwd", "folder"];

/// Commands that people and the prompts of shells run all the time.
const DAILY: [&[&str]; 2] = [&["git", "status"], &["git", "diff"]];
const IN_IT: [&[&str]; 1] = [&["git", "-C", "folder", "status"]];
const ELSEWHERE: [&[&str]; 1] = [&["git", "-C", "../elsewhere", "status"]];
const UPDATE: [&[&str]; 1] = [&["git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]];

const UPDATE_ELSEWHERE: [&[&str]; 1] =
    [&["git", "-C", "../elsewhere", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]];

attacks!(repository, AT_THE_ROOT, DAILY:
    planting_a_repository_under_a_name_with_a_dot = ["dot"],
    planting_a_repository_under_a_name_that_climbs = ["climbs"],
    planting_a_repository_under_an_absolute_name = ["absolute"],
    planting_a_repository_whose_work_tree_is_elsewhere = ["work-tree"],
    planting_a_repository_whose_work_tree_is_elsewhere_for_git_alone = ["work-tree-nul"],
    planting_a_pointer_that_ends_early = ["pointer-nul"],
    planting_a_repository_in_a_folder_of_a_sparse_index = ["sparse"],
    leading_a_second_repository_to_the_place_of_a_moved_one = ["foreseen"],
    linking_another_one_to_where_it_is_moved = ["foreseen-link"],
    giving_a_planted_repository_settings_in_the_next_run = ["no-settings", "settings"],
    replacing_the_link_to_its_settings_in_the_next_run = ["linked-settings", "settings"],
    planting_a_repository_deeper_than_a_path_can_name = ["long"],
);
attacks!(read_by_threads, AT_THE_ROOT, DAILY:
    planting_a_repository_by_a_name_that_threads_alone_read = ["threads-names"],
    planting_a_repository_in_tables_that_threads_alone_read = ["threads-tables"],
);
attacks!(with_a_worktree_elsewhere, AT_THE_ROOT, ELSEWHERE: naming_a_repository_in_the_index_of_a_worktree_elsewhere = ["worktree"]);
attacks!(no_repository, AT_THE_ROOT, DAILY:
    planting_a_repository_in_a_project_that_has_none = ["root"],
    planting_a_bare_repository_in_a_project_that_has_none = ["bare-root"],
    planting_a_bare_repository_with_files_for_folders = ["bare-files"],
    planting_a_bare_repository_that_is_led_elsewhere = ["bare-commondir"],
);
attacks!(with_a_folder, IN_A_FOLDER, IN_IT:
    planting_a_repository_where_the_user_is = ["root"],
    planting_a_bare_repository_where_the_user_is = ["bare-root"],
);
attacks!(with_a_submodule_that_was_never_there, AT_THE_ROOT, UPDATE: planting_a_repository_for_a_submodule_that_is_not_there = ["module"]);
attacks!(with_a_submodule_and_a_worktree, AT_THE_ROOT, UPDATE_ELSEWHERE: planting_a_repository_for_a_submodule_of_another_worktree = ["worktree-module"]);

/// Makes git read an index of any size by several threads.
fn read_by_threads(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "config", "--global", "index.threads", "4"]);
}

fn with_a_worktree_elsewhere(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "worktree", "add", "-q", "-b", "work", "../elsewhere"]);
}

fn with_a_folder(scene: &Scene) {
    repository(scene);
    scene.mkdir("folder/deeper");
}

fn no_repository(scene: &Scene) {
    scene.policy(DEFAULTS, "");
    identify(scene);
    scene.write("file", "content\n");
}

fn with_a_submodule_that_was_never_there(scene: &Scene) {
    with_submodule(scene);
    scene.host(&["git", "commit", "-qm", "submodule"]);
    scene.host(&["git", "submodule", "--quiet", "deinit", "sub"]);
    scene.host(&["rm", "-r", ".git/modules"]);
}

fn with_a_submodule_and_a_worktree(scene: &Scene) {
    with_a_submodule_that_was_never_there(scene);
    scene.host(&["git", "worktree", "add", "-q", "-b", "work", "../elsewhere"]);
}

/// Runs an attack that no run undoes. Its report must contain `word`.
fn told(scene: &Scene, way: &str, word: &str) -> Verdict {
    repository(scene);
    let said = scene.attack("planted.sh", &[way]).completed().err;
    Verdict::broken_if(!said.contains(word), said)
}

// SPEC R11, A11
fn hiding_a_changed_file_that_git_assumes_unchanged(scene: &Scene) -> Verdict {
    let verdict = told(scene, "assumed", "git shows no changes of `file`");
    assert!(!scene.host(&["git", "status", "--porcelain"]).contains(" file"), "the change is hidden");
    verdict
}

// SPEC R11
fn hiding_a_changed_file_that_git_does_not_look_for(scene: &Scene) -> Verdict {
    let verdict = told(scene, "skipped", "git shows no changes of `file`");
    assert!(!scene.host(&["git", "status", "--porcelain"]).contains(" file"), "the change is hidden");
    verdict
}

fn hiding_a_new_file(scene: &Scene, way: &str) -> Verdict {
    repository(scene);
    if way == "changed" {
        scene.write(".gitignore", ".gitignore\n");
    }
    let said = scene.attack("ignore_file.sh", &[way]).completed().err;
    Verdict::broken_if(!said.contains("since this run git shows neither `"), said)
}

// SPEC R11
fn hiding_a_new_file_by_an_ignore_file_that_hides_itself(scene: &Scene) -> Verdict {
    hiding_a_new_file(scene, "root")
}

// SPEC R11
fn hiding_a_new_folder_by_an_ignore_file_in_it(scene: &Scene) -> Verdict {
    hiding_a_new_file(scene, "deep")
}

fn hiding_a_new_file_by_an_ignore_file_with_brackets(scene: &Scene) -> Verdict {
    hiding_a_new_file(scene, "bracket")
}

// SPEC R11
fn hiding_a_new_file_by_a_changed_ignore_file(scene: &Scene) -> Verdict {
    hiding_a_new_file(scene, "changed")
}

fn hiding_a_new_file_by_a_large_ignore_file(scene: &Scene) -> Verdict {
    hiding_a_new_file(scene, "large")
}

// SPEC R11
fn hiding_a_new_file_behind_many_ignore_files(scene: &Scene) -> Verdict {
    repository(scene);
    let said = scene.attack("ignore_file.sh", &["many"]).completed().err;
    Verdict::broken_if(!said.contains("has more files `.gitignore` than can be examined"), said)
}

/// The user has also marked a file. In the index, the attacked entry has its name in the shared
/// file.
fn hiding_a_changed_file_in_a_split_index(scene: &Scene) -> Verdict {
    repository(scene);
    scene.host(&["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i >f$i; done; git add .; git commit -qm more"]);
    scene.host(&["git", "config", "splitIndex.maxPercentChange", "100"]);
    scene.host(&["git", "update-index", "--split-index"]);
    scene.host(&["git", "update-index", "--skip-worktree", "f1"]);
    let said = scene.attack("planted.sh", &["skipped"]).completed().err;
    assert!(!scene.host(&["git", "status", "--porcelain"]).contains(" file"), "the change is hidden");
    Verdict::broken_if(!said.contains("git shows no changes of `file`\n"), said)
}

// SPEC R11
fn planting_a_repository_in_a_subfolder_without_a_report(scene: &Scene) -> Verdict {
    told(scene, "beside", "`new` is a repository since this run, and has `core.fsmonitor`")
}

/// Modes do not keep root from listing a folder.
// SPEC R11
fn planting_a_repository_in_a_project_that_cannot_be_listed(scene: &Scene) -> Verdict {
    let verdict = told(scene, "beside-closed", "repositories that this run made in");
    scene.host(&["chmod", "755", "."]);
    verdict
}

const COMMIT: [&[&str]; 2] = [&["git", "commit", "--allow-empty", "-qm", "second"], &["git", "status"]];

// SPEC R5, A11
fn replacing_the_link_to_the_hooks(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write("tools/hooks/pre-commit", "#!/bin/sh\n");
    scene.host(&["sh", "-c", "chmod 755 tools/hooks/pre-commit; rm -r .git/hooks; ln -s ../tools/hooks .git/hooks"]);
    judged(scene, &[], &["hooks-link"], &COMMIT)
}

/// Without the link, the next run would not know that the folder holds hooks.
fn removing_the_link_to_the_repository(scene: &Scene) -> Verdict {
    repository(scene);
    scene.host(&["sh", "-c", "mkdir .store; mv .git .store/git; ln -s .store/git .git"]);
    let link_back: &[&str] = &["sh", "-c", "test -L .git || ln -s .store/git .git"];
    judged(scene, &[], &["link-removed", "hook-in-store"], &[link_back, COMMIT[0]])
}

// SPEC R5
fn replacing_the_link_to_a_program(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write("tools/program", "#!/bin/sh\n");
    scene.host(&["sh", "-c", "chmod 755 tools/program; ln -s tools/program tool"]);
    scene.host(&["git", "config", "core.fsmonitor", "./tool"]);
    judged(scene, &[], &["program-link"], &COMMIT)
}

// SPEC R5
fn planting_a_repository_behind_a_link_into_proc(scene: &Scene) -> Verdict {
    repository(scene);
    judged(scene, &[], &["by-proc"], &COMMIT)
}

// SPEC R11
fn changing_a_repository_that_an_earlier_run_made(scene: &Scene) -> Verdict {
    repository(scene);
    scene.attack("planted.sh", &["clean-beside"]).completed();
    let said = scene.attack("planted.sh", &["evil-beside"]).completed().err;
    let is_named = said.contains("the repository `new` has, since this run, `core.fsmonitor`");
    Verdict::broken_if(!is_named || !said.contains("you or the command did this"), said)
}

// SPEC R5
fn replacing_the_folder_of_the_link_to_the_hooks(scene: &Scene) -> Verdict {
    repository(scene);
    scene.write("githooks/pre-commit", "#!/bin/sh\n");
    scene.host(&["sh", "-c", "chmod 755 githooks/pre-commit; mkdir tools; ln -s ../githooks tools/hooks"]);
    scene.host(&["git", "config", "core.hooksPath", "tools/hooks"]);
    judged(scene, &[], &["folder-of-hooks-link"], &COMMIT)
}

/// The start is refused: no placeholder is created through a symlink.
// SPEC M4
fn replacing_a_link_to_hooks_that_are_not_there(scene: &Scene) -> Verdict {
    repository(scene);
    scene.host(&["sh", "-c", "rm -r .git/hooks; ln -s ../tools/hooks .git/hooks"]);
    let ran = scene.attack("planted.sh", &["hooks-link"]);
    ran.refused_or_completed("leads through the symlink");
    for words in COMMIT {
        scene.try_host(words);
    }
    Verdict::broken_if(scene.home().join("pwned").exists(), ran.err)
}
