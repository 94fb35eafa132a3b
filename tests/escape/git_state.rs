//! Files in a git directory that git does not check make git on the host write, delete, copy or
//! commit files that the command cannot reach.

use std::fs;

use crate::git::{repository, with_submodule};
use crate::outcome::Verdict;
use crate::scene::{CANARY, ORIGINAL, PLANTED, Scene};

for_everybody!("git-state":
    // SPEC R16, A11
    planting_a_hook_by_an_index,
    // SPEC R16
    planting_a_hook_by_an_index_under_another_name,
    // SPEC R16
    writing_a_file_of_the_user_by_an_index,
    // SPEC R16
    writing_a_file_at_an_absolute_path_by_an_index,
    // SPEC R16
    replacing_the_settings_by_an_index,
    // SPEC R16
    writing_a_file_by_an_index_of_version_4,
    // SPEC R16
    writing_a_file_by_a_split_index,
    // SPEC R16
    writing_a_file_by_the_index_of_a_worktree,
    // SPEC R16
    writing_a_file_by_the_index_of_a_submodule,
    // SPEC R16
    forging_the_index_of_a_submodule_that_is_not_checked_out_without_a_report,
    // SPEC R16
    deleting_a_file_by_an_index,
    // SPEC R16
    storing_a_secret_by_an_index,
    // SPEC R16
    naming_the_repository_in_itself,
    // SPEC R16, A11
    storing_a_secret_as_a_resolution,
    // SPEC R16
    storing_a_secret_at_an_absolute_path_as_a_resolution,
    // SPEC R16
    storing_a_hidden_file_as_a_resolution,
    // SPEC R16
    storing_a_secret_as_a_resolution_in_a_worktree,
    // SPEC R16
    storing_a_secret_as_a_resolution_in_a_submodule,
    // SPEC R16
    making_a_blocked_file_by_a_stash,
    // SPEC R16, A11
    committing_a_hidden_file,
    // SPEC R16
    committing_a_hidden_file_in_a_folder,
    // SPEC R16
    committing_a_hidden_file_of_a_moved_folder,
    // SPEC R16
    committing_a_folder_that_no_difference_shows,
    // SPEC R16
    leading_git_to_other_objects_without_a_report,
    // SPEC R16
    naming_a_table_of_refs_elsewhere_without_a_report,
);
for_everybody!("nested-repositories":
    // SPEC R11
    hiding_a_missing_file_without_a_report,
    // SPEC R11
    hiding_a_missing_file_as_unchanged_without_a_report,
    // SPEC R15
    writing_a_pointer_elsewhere,
    // SPEC R15
    writing_a_relative_pointer_elsewhere,
);

const GITS: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// Runs one attack for each git of this machine, with which the user then works. In the control,
/// the attack must succeed with all of them.
fn with_each_git(scene: &Scene, prepare: fn(&Scene), way: &str, work: &str, is_broken: &dyn Fn() -> bool) -> Verdict {
    let gits: Vec<&str> = GITS.into_iter().filter(|folder| fs::exists(format!("{folder}/git")).unwrap()).collect();
    let mut broken = Vec::new();
    let mut said = String::new();
    for git in &gits {
        scene.host(&["sh", "-c", "rm -rf ..?* .[!.]* * ../../library ../../pwned"]);
        scene.write_home(".bashrc", ORIGINAL);
        prepare(scene);
        said += &scene.attack("git_state.sh", &[way]).completed().err;
        let path = format!("PATH={git}:/usr/bin:/bin");
        said += &scene.try_host(&["env", &path, "sh", "-c", work]).err;
        broken.push(is_broken());
    }
    let is_broken = if scene.is_control() { broken.iter().all(|is| *is) } else { broken.contains(&true) };
    Verdict::broken_if(is_broken, said)
}

const WRITES: &str = "git status; git checkout -q .; git restore .; git checkout-index -a -f; echo x >>file; \
                      git checkout -q -b other; git commit -qam x; \
                      git submodule --quiet update --init; cd sub && { git checkout -q .; git restore .; }";
const DELETES: &str = "git status; git restore -SW .; git reset -q --hard; git rm -rfq .";
const COMMITS: &str = "echo x >>file; git status; git add -u; git commit -qam work; \
                       cd sub && { git add -u; git commit --allow-empty -qam work; }";

fn writes(scene: &Scene, prepare: fn(&Scene), way: &str) -> Verdict {
    let is_changed = || {
        let is_same = fs::read_to_string(scene.home().join(".bashrc")).is_ok_and(|text| text == ORIGINAL);
        !is_same || scene.home().join("pwned").exists()
    };
    with_each_git(scene, prepare, way, WRITES, &is_changed)
}

/// Whether git has stored the content of a secret where a command can read it.
fn stores(scene: &Scene, prepare: fn(&Scene), way: &str) -> Verdict {
    let is_stored = || {
        let words = "git cat-file --batch-all-objects --batch; cat .git/rr-cache/*/* .git/modules/sub/rr-cache/*/*; \
                     cd sub && git cat-file --batch-all-objects --batch";
        scene.try_host(&["sh", "-c", words]).shows_canary()
    };
    with_each_git(scene, prepare, way, COMMITS, &is_stored)
}

macro_rules! attacks {
    ($judge:ident, $prepare:ident: $($attack:ident = $way:literal),+ $(,)?) => { $(
        fn $attack(scene: &Scene) -> Verdict {
            $judge(scene, $prepare, $way)
        }
    )+ };
}

attacks!(writes, repository:
    planting_a_hook_by_an_index = "hook",
    planting_a_hook_by_an_index_under_another_name = "hook-by-another-name",
    writing_a_file_of_the_user_by_an_index = "home",
    writing_a_file_at_an_absolute_path_by_an_index = "absolute",
    replacing_the_settings_by_an_index = "settings",
    writing_a_file_by_an_index_of_version_4 = "four",
    writing_a_file_by_a_split_index = "split",
);
attacks!(writes, with_a_worktree: writing_a_file_by_the_index_of_a_worktree = "worktree");
attacks!(writes, with_submodule: writing_a_file_by_the_index_of_a_submodule = "module");
attacks!(stores, repository:
    storing_a_secret_by_an_index = "secret",
    storing_a_secret_as_a_resolution = "rerere",
    storing_a_secret_at_an_absolute_path_as_a_resolution = "rerere-absolute",
);
attacks!(stores, with_a_worktree: storing_a_secret_as_a_resolution_in_a_worktree = "rerere-worktree");
attacks!(stores, with_submodule: storing_a_secret_as_a_resolution_in_a_submodule = "rerere-module");
attacks!(stores, with_secrets:
    storing_a_hidden_file_as_a_resolution = "rerere-hidden",
    committing_a_hidden_file = "entry",
    committing_a_hidden_file_in_a_folder = "entry-in-a-folder",
    committing_a_hidden_file_of_a_moved_folder = "entry-in-a-moved-folder",
);

fn with_a_worktree(scene: &Scene) {
    repository(scene);
    scene.host(&["git", "worktree", "add", "-q", "-b", "work", "sub"]);
}

fn with_a_submodule_that_is_not_checked_out(scene: &Scene) {
    with_submodule(scene);
    scene.host(&["git", "commit", "-qm", "submodule"]);
    scene.host(&["git", "submodule", "--quiet", "deinit", "sub"]);
}

/// Makes a file that the defaults hide, and a folder that the user's rule hides.
fn with_secrets(scene: &Scene) {
    repository(scene);
    scene.write(".gitignore", ".env\ndeploy\n");
    scene.host(&["git", "add", ".gitignore"]);
    scene.host(&["git", "commit", "-qm", "ignored"]);
    scene.write(".env", format!("TOKEN={CANARY}\n"));
    scene.write("conf/.env", format!("TOKEN={CANARY}\n"));
    scene.write("deploy/keys/one", format!("{CANARY}\n"));
    scene.policy(crate::scene::DEFAULTS, "exclude = [\"deploy/keys\"]");
}

fn deleting_a_file_by_an_index(scene: &Scene) -> Verdict {
    let is_deleted = || !scene.home().join(".bashrc").exists();
    with_each_git(scene, repository, "home", DELETES, &is_deleted)
}

/// `git status` would start git recursively without end.
fn naming_the_repository_in_itself(scene: &Scene) -> Verdict {
    let is_named = || scene.try_host(&["git", "ls-files", "-s"]).out.contains("\t.\n");
    with_each_git(scene, repository, "itself", "true", &is_named)
}

fn making_a_blocked_file_by_a_stash(scene: &Scene) -> Verdict {
    let is_made = || scene.project().join(".envrc").exists();
    with_each_git(scene, repository, "autostash", COMMITS, &is_made)
}

fn with_a_folder(scene: &Scene) {
    repository(scene);
    scene.write("src/main.c", "good\n");
    scene.host(&["git", "add", "."]);
    scene.host(&["git", "commit", "-qm", "second"]);
}

fn committing_a_folder_that_no_difference_shows(scene: &Scene) -> Verdict {
    let work = "echo x >>file; git add file; git commit -qm file";
    let is_committed = || scene.try_host(&["git", "show", "HEAD:src/main.c"]).out.contains("EVIL");
    with_each_git(scene, with_a_folder, "trees", work, &is_committed)
}

fn writing_a_pointer_elsewhere(scene: &Scene) -> Verdict {
    writing_a_pointer(scene, "repaired")
}

/// Until version 2.48, git resolved a relative pointer from its working directory.
fn writing_a_relative_pointer_elsewhere(scene: &Scene) -> Verdict {
    writing_a_pointer(scene, "repaired-relative")
}

fn writing_a_pointer(scene: &Scene, way: &str) -> Verdict {
    let prepare = |scene: &Scene| {
        repository(scene);
        scene.write_home("other/file", PLANTED);
        scene.host(&["rm", "-f", "../../other/.git"]);
    };
    let is_written = || scene.home().join("other/.git").exists();
    with_each_git(scene, prepare, way, "git worktree repair", &is_written)
}

/// Runs an attack whose report must contain `word`.
fn told(scene: &Scene, way: &str, word: &str) -> Verdict {
    let said = scene.attack("git_state.sh", &[way]).completed().err;
    Verdict::broken_if(!said.contains(word), said)
}

fn hiding_a_missing_file_without_a_report(scene: &Scene) -> Verdict {
    repository(scene);
    told(scene, "skipped", "git does not show that files are missing: `.envrc`")
}

fn hiding_a_missing_file_as_unchanged_without_a_report(scene: &Scene) -> Verdict {
    repository(scene);
    told(scene, "assumed", "git does not show that files are missing: `.envrc`")
}

fn forging_the_index_of_a_submodule_that_is_not_checked_out_without_a_report(scene: &Scene) -> Verdict {
    with_a_submodule_that_is_not_checked_out(scene);
    told(scene, "module-alone", "/.git/modules/sub/index` names `../../../.bashrc`")
}

fn leading_git_to_other_objects_without_a_report(scene: &Scene) -> Verdict {
    repository(scene);
    told(scene, "alternates", "since this run git takes objects from")
}

/// Git 2.39 has no reftables, so this is not tested with each git.
fn naming_a_table_of_refs_elsewhere_without_a_report(scene: &Scene) -> Verdict {
    scene.policy(crate::scene::DEFAULTS, "");
    scene.host(&["git", "init", "-q", "--ref-format=reftable"]);
    told(scene, "tables", "names tables outside of its folder")
}
