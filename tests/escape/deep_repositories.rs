//! Attacks through a repository deep in the project that no index names when the run ends. The
//! user's own next command makes git enter it.

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::Scene;

for_everybody!("nested-repositories":
    // SPEC R5, A11
    planting_one_that_a_merge_enters,
    // SPEC R5
    planting_one_that_a_checkout_enters,
    // SPEC R5
    planting_one_that_a_stash_enters,
    // SPEC R5
    planting_one_that_the_user_adds,
    // SPEC R5
    planting_one_in_the_root_that_a_merge_enters,
    // SPEC R5
    planting_one_in_another_one_that_a_merge_enters,
    // SPEC R5
    planting_one_elsewhere_that_a_merge_enters,
    // SPEC R5
    leading_another_one_to_where_a_deep_one_is_moved,
    // SPEC R5
    leading_one_that_the_index_names_to_where_a_deep_one_is_moved,
    // SPEC R11
    changing_the_hooks_of_a_deep_clone_without_a_word,
    // SPEC R11
    changing_the_settings_of_a_deep_clone_without_a_word,
);
// Root can list every folder.
for_user!("nested-repositories":
    // SPEC R11
    closing_the_folder_around_a_deep_one_without_a_word,
);

/// The user ignores a folder, and has a clone that the project's repository does not name.
fn with_a_deep_clone(scene: &Scene) {
    repository(scene);
    scene.write(".gitignore", "build\nvendor\nevil.sh\n");
    scene.host(&["git", "add", ".gitignore"]);
    scene.host(&["git", "commit", "-qm", "ignore"]);
    scene.host(&["git", "init", "-q", "vendor/lib"]);
}

/// Runs the attack, and then the user's script `work`.
fn judged(scene: &Scene, way: &str, work: &str) -> Verdict {
    with_a_deep_clone(scene);
    // The product moves `.git` aside to `.git.held`. The control does not.
    let git_dir = if scene.is_control() { ".git" } else { ".git.held" };
    let mut said = scene.attack("deep_repository.sh", &[way, git_dir]).completed().err;
    said += &scene.try_host(&["sh", "-c", work]).err;
    Verdict::broken_if(scene.home().join("pwned").exists(), said)
}

/// Runs an attack whose report must contain `word`.
fn told(scene: &Scene, way: &str, word: &str) -> Verdict {
    with_a_deep_clone(scene);
    let said = scene.attack("deep_repository.sh", &[way]).completed().err;
    Verdict::broken_if(!said.contains(word), said)
}

macro_rules! attacks {
    ($judge:ident: $($attack:ident = $way:literal, $what:expr;)+) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            $judge(scene, $way, $what)
        }
    )+ };
}

const MERGE: &str = "git merge -q feature; git status";

attacks!(judged:
    planting_one_that_a_merge_enters = "branch", MERGE;
    planting_one_that_a_checkout_enters = "branch", "git checkout -q feature; git status";
    planting_one_that_a_stash_enters = "stash", "git stash pop; git status";
    planting_one_that_the_user_adds = "untracked", "git -c advice.addEmbeddedRepo=false add -A; git status";
    planting_one_in_the_root_that_a_merge_enters = "direct", MERGE;
    planting_one_in_another_one_that_a_merge_enters = "deeper", MERGE;
    planting_one_elsewhere_that_a_merge_enters = "pointer", MERGE;
    leading_another_one_to_where_a_deep_one_is_moved = "moved", MERGE;
    leading_one_that_the_index_names_to_where_a_deep_one_is_moved = "moved-direct", "git status";
);
attacks!(told:
    changing_the_hooks_of_a_deep_clone_without_a_word = "hook", "the repository `vendor/lib` has, since this run, hooks";
    changing_the_settings_of_a_deep_clone_without_a_word = "setting", "`vendor/lib` has, since this run, `core.fsmonitor`";
    closing_the_folder_around_a_deep_one_without_a_word = "closed", "repositories that this run made in";
);
