//! Attacks through a repository that the command makes in the root, as a submodule or in a
//! subfolder, and through a repository of the user that the project's own repository does not name.

use crate::bare::{embedded, several_repositories};
use crate::git::{identify, repository, with_submodule};
use crate::outcome::Verdict;
use crate::scene::{CANARY, DEFAULTS, Scene};

for_everybody!("nested-repositories":
    // SPEC R15
    leading_a_worktree_of_a_new_repository_elsewhere,
    // SPEC R15
    replacing_the_pointer_of_a_worktree_of_a_new_repository,
    // SPEC R5
    planting_a_hook_of_a_submodule_of_a_new_repository,
    // SPEC R5
    planting_a_submodule_of_a_new_repository_in_a_direct_subfolder,
    // SPEC R15
    leading_a_worktree_of_a_new_submodule_elsewhere,
    // SPEC R15
    leading_a_worktree_of_one_of_several_elsewhere,
    // SPEC R5
    planting_a_submodule_of_a_new_clone,
    // SPEC R5
    planting_a_submodule_of_a_clone,
    // SPEC R5
    planting_a_hook_of_a_module_of_a_new_submodule_without_a_report,
    // SPEC R11
    hiding_a_change_without_a_report,
    // SPEC R11
    showing_another_history_without_a_report,
    // SPEC R11
    hiding_a_change_in_a_new_submodule_without_a_report,
    // SPEC R11
    showing_another_history_of_a_new_submodule_without_a_report,
);
for_everybody!("nested-repositories":
    // SPEC R5
    naming_a_remote_in_a_file_of_its_own,
    // SPEC R5
    naming_a_remote_as_a_branch,
    // SPEC R5
    naming_a_remote_by_its_path,
    naming_a_remote_by_the_url_of_a_file,
    naming_a_remote_to_push_to,
    naming_a_remote_for_a_branch_alone,
    // SPEC R5
    naming_a_remote_in_the_home,
    naming_a_remote_of_a_new_submodule,
    // SPEC R11
    excluding_a_new_file_of_a_submodule_without_a_report,
    // SPEC R11
    naming_a_remote_of_a_clone_without_a_report,
    // SPEC R11
    naming_a_remote_of_a_clone_by_its_path_without_a_report,
);
for_everybody!("git-state":
    // SPEC R16
    leading_a_new_repository_to_other_objects_without_a_report,
    // SPEC R16
    committing_a_hidden_file_without_a_report,
    // SPEC R16
    leading_a_new_submodule_to_other_objects_without_a_report,
);
for_everybody!("reports":
    // SPEC P8
    changing_a_filter_in_a_new_worktree_without_a_report,
    // SPEC P8
    changing_a_hook_in_a_new_worktree_without_a_report,
    // SPEC R17
    leaving_a_rebase_without_a_report,
    // SPEC R17
    leaving_a_rebase_in_a_new_submodule_without_a_report,
);

fn no_repository(scene: &Scene) {
    scene.policy(DEFAULTS, "");
    identify(scene);
}

fn with_a_clone(scene: &Scene) {
    repository(scene);
    embedded(scene);
}

/// Runs the attack, and then the user's script `work`.
fn judged(scene: &Scene, prepare: fn(&Scene), way: &str, work: &str) -> Verdict {
    prepare(scene);
    let mut said = scene.attack("new_repository.sh", &[way]).completed().err;
    said += &scene.try_host(&["sh", "-c", work]).err;
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

/// Runs an attack whose report must contain `word`.
fn told(scene: &Scene, prepare: fn(&Scene), way: &str, word: &str) -> Verdict {
    prepare(scene);
    let said = scene.attack("new_repository.sh", &[way]).completed().err;
    Verdict::broken_if(!said.contains(word), said)
}

macro_rules! attacks {
    ($judge:ident, $prepare:ident: $($attack:ident = $way:literal, $what:expr;)+) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            $judge(scene, $prepare, $way, $what)
        }
    )+ };
}

const IN_THE_WORKTREE: &str = "git -C deep/wt status";
const UPDATE: &str = "git -c protocol.file.allow=always submodule --quiet update --init";
const NO_CHANGES: &str = "git shows no changes of ";
const HISTORY: &str = "git shows another history, because of `info/grafts` and `refs/replace/";
const OBJECTS: &str = "since this run git takes objects from ";
const REBASE: &str = "the run left a rebase of git unfinished";

attacks!(judged, no_repository:
    leading_a_worktree_of_a_new_repository_elsewhere = "root-worktree", IN_THE_WORKTREE;
    replacing_the_pointer_of_a_worktree_of_a_new_repository = "root-worktree-pointer", IN_THE_WORKTREE;
    planting_a_hook_of_a_submodule_of_a_new_repository = "root-module", UPDATE;
    planting_a_submodule_of_a_new_repository_in_a_direct_subfolder = "root-submodule", "git status";
);
fn with_a_secret(scene: &Scene) {
    no_repository(scene);
    scene.write(".env", format!("TOKEN={CANARY}\n"));
}

attacks!(told, with_a_secret:
    committing_a_hidden_file_without_a_report = "root-entry", "names `.env`, hidden from the run";
);

const PUSH: &str = "git push; git push origin HEAD";

attacks!(judged, no_repository:
    naming_a_remote_in_a_file_of_its_own = "root-remotes", PUSH;
    naming_a_remote_as_a_branch = "root-branches", PUSH;
    naming_a_remote_by_its_path = "root-url", PUSH;
    naming_a_remote_by_the_url_of_a_file = "root-file-url", PUSH;
    naming_a_remote_to_push_to = "root-push-url", PUSH;
    naming_a_remote_for_a_branch_alone = "root-branch", PUSH;
    naming_a_remote_in_the_home = "home-url", PUSH;
);
attacks!(judged, repository:
    naming_a_remote_of_a_new_submodule = "submodule-remotes", "cd deep/sub && git push origin HEAD";
);
attacks!(told, with_a_clone:
    naming_a_remote_of_a_clone_without_a_report = "sub-remotes", "has, since this run, remotes in `remotes`";
    naming_a_remote_of_a_clone_by_its_path_without_a_report = "sub-url", "since this run, the remote `../deep/ours.git`";
);
/// The settings of the user name a filter and a folder of hooks in the work tree.
fn with_programs_in_the_tree(scene: &Scene) {
    repository(scene);
    scene.write("tools/clean", "#!/bin/sh\ncat\n");
    scene.write("githooks/pre-commit", "#!/bin/sh\n");
    scene.write(".gitattributes", "*.x filter=own\n");
    scene.host(&["sh", "-c", "chmod 755 tools/clean githooks/pre-commit; git add .; git commit -qm tools"]);
    scene.host(&["git", "config", "filter.own.clean", "./tools/clean %f"]);
    scene.host(&["git", "config", "core.hooksPath", "githooks"]);
}

attacks!(told, with_programs_in_the_tree:
    changing_a_filter_in_a_new_worktree_without_a_report = "worktree-filter", "created during the run: `deep/wt/tools/clean` (@git)";
    changing_a_hook_in_a_new_worktree_without_a_report = "worktree-hook", "created during the run: `deep/wt/githooks/pre-commit` (@git)";
);
attacks!(told, with_submodule:
    excluding_a_new_file_of_a_submodule_without_a_report = "excluded", "git does not show new files by `*` in `";
);
attacks!(judged, repository:
    leading_a_worktree_of_a_new_submodule_elsewhere = "submodule-worktree", IN_THE_WORKTREE;
    planting_a_submodule_of_a_new_clone = "clone-submodule", "git -C sub status";
);
attacks!(judged, with_a_clone: planting_a_submodule_of_a_clone = "clone-submodule", "git -C sub status";);
attacks!(judged, several_repositories:
    leading_a_worktree_of_one_of_several_elsewhere = "sub-worktree", IN_THE_WORKTREE;
);
attacks!(told, no_repository:
    hiding_a_change_without_a_report = "root-hidden", NO_CHANGES;
    showing_another_history_without_a_report = "root-hidden", HISTORY;
    leading_a_new_repository_to_other_objects_without_a_report = "root-hidden", OBJECTS;
    leaving_a_rebase_without_a_report = "root-rebase", REBASE;
);
attacks!(told, repository:
    hiding_a_change_in_a_new_submodule_without_a_report = "submodule-hidden", NO_CHANGES;
    showing_another_history_of_a_new_submodule_without_a_report = "submodule-hidden", HISTORY;
    leading_a_new_submodule_to_other_objects_without_a_report = "submodule-hidden", OBJECTS;
    leaving_a_rebase_in_a_new_submodule_without_a_report = "submodule-rebase", REBASE;
    planting_a_hook_of_a_module_of_a_new_submodule_without_a_report = "submodule-module", "/.git/modules/m` as the repository";
);
