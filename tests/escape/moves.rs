//! Attacks that move a folder above a protected path together with its mounts, so that the path is
//! free.

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, ORIGINAL, Scene};

everywhere!("pins":
    renaming_the_folder_of_a_read_only_one,
    exchanging_the_folder_of_a_read_only_one,
    moving_any_folder_further_up,
    removing_the_folders_that_a_move_emptied,
    moving_the_project_itself,
    renaming_the_folder_of_an_excluded_one_for_the_next_run,
    exchanging_the_folder_of_an_excluded_file_for_the_next_run,
    moving_files_of_an_open_home,
);

fn plant_a_hook(scene: &Scene, how: &str) -> Verdict {
    scene.write(".git/hooks/pre-commit", ORIGINAL);
    scene.policy(BASE_ONLY, "ro = ['.git/hooks']");
    let ran = scene.attack("move.py", &[how, ".git", ".git/hooks/pre-commit"]).completed();
    Verdict::broken_if(scene.changed(".git/hooks/pre-commit"), ran.out)
}

// SPEC A1
fn renaming_the_folder_of_a_read_only_one(scene: &Scene) -> Verdict {
    plant_a_hook(scene, "rename")
}

// SPEC A1
fn exchanging_the_folder_of_a_read_only_one(scene: &Scene) -> Verdict {
    plant_a_hook(scene, "exchange")
}

fn moving_any_folder_further_up(scene: &Scene) -> Verdict {
    let protected = "a/b/c/d/settings";
    scene.write(protected, ORIGINAL);
    scene.policy(BASE_ONLY, &format!("ro = ['{protected}']"));
    let mut said = String::new();
    for (how, ancestor) in [("rename", "a/b/c/d"), ("exchange", "a/b/c"), ("rename", "a/b"), ("exchange", "a")] {
        said += &scene.attack("move.py", &[how, ancestor, protected]).completed().out;
    }
    Verdict::broken_if(scene.changed(protected), said)
}

fn removing_the_folders_that_a_move_emptied(scene: &Scene) -> Verdict {
    let protected = "a/b/c/settings";
    scene.write(protected, ORIGINAL);
    scene.policy(BASE_ONLY, &format!("ro = ['{protected}']"));
    // move.py leaves the moved folder in its parent. This script moves it to the root of the
    // project.
    let script = "mv a/b/c taken; rmdir a/b && rmdir a && mkdir -p a/b/c && echo planted >a/b/c/settings; echo done";
    let ran = scene.attack("sh", &["-c", script]).completed();
    Verdict::broken_if(scene.changed(protected), ran.err)
}

// SPEC A1
fn moving_the_project_itself(scene: &Scene) -> Verdict {
    scene.write(".git/hooks/pre-commit", ORIGINAL);
    scene.policy(BASE_ONLY, "ro = ['.git/hooks']\nrw = ['~/code']");
    let project = scene.project().to_str().unwrap().to_owned();
    let hook = format!("{project}/.git/hooks/pre-commit");
    let ran = scene.attack("move.py", &["rename", &project, &hook]).completed();
    Verdict::broken_if(scene.changed(".git/hooks/pre-commit"), ran.out)
}

fn renaming_the_folder_of_an_excluded_one_for_the_next_run(scene: &Scene) -> Verdict {
    scene.write("conf/secret/key", CANARY);
    scene.policy(BASE_ONLY, "exclude = ['conf/secret']");
    let first = scene.attack("move.py", &["rename", "conf", "conf/secret/key"]).completed();
    let second = scene.attack("look.py", &["."]).completed();
    Verdict::broken_if(second.shows_canary(), first.out)
}

fn exchanging_the_folder_of_an_excluded_file_for_the_next_run(scene: &Scene) -> Verdict {
    scene.write("a/b/secret.key", CANARY);
    scene.policy(BASE_ONLY, "exclude = ['a/b/secret.key']");
    let first = scene.attack("move.py", &["exchange", "a", "a/b/secret.key"]).completed();
    let second = scene.attack("look.py", &["."]).completed();
    Verdict::broken_if(second.shows_canary(), first.out)
}

fn moving_files_of_an_open_home(scene: &Scene) -> Verdict {
    scene.write_home(".config/systemd/user/job.service", ORIGINAL);
    scene.policy(BASE_ONLY, "rw = ['~']\nro = ['~/.config/systemd']");
    let home = scene.home().to_str().unwrap().to_owned();
    let (folder, unit) = (format!("{home}/.config"), format!("{home}/.config/systemd/user/job.service"));
    let ran = scene.attack("move.py", &["rename", &folder, &unit]).completed();
    Verdict::broken_if(scene.changed(unit), ran.out)
}
