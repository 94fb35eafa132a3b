//! Attacks on the product's own changes of files: after the product has examined a path and before
//! it changes the path, the command of another sandbox puts a symlink there.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, Held, Running, Scene};

// Modes do not keep root from searching a directory.
for_user!("no-follow": opening_a_private_folder_in_the_place_of_the_objects);

everywhere!("no-follow": making_the_product_create_a_folder_among_the_keys);

/// The supervisor restores the mode of `.git/objects`, so that git accepts the repository.
// SPEC S16, A23
fn opening_a_private_folder_in_the_place_of_the_objects(scene: &Scene) -> Verdict {
    repository(scene);
    let keys = scene.home().join(".ssh");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).unwrap();
    let swapper = start_swapping(scene, ".git/objects");
    let attack = ["-c", "chmod 000 .git/objects; echo done"];
    let held = scene.hold(&["put-back:objects"], &[], "sh", &attack);
    let said = swap_at(scene, swapper, held, "put-back:objects", ".git");
    Verdict::broken_if(fs::metadata(&keys).unwrap().permissions().mode() & 0o077 != 0, said)
}

/// A rule makes the product create a directory before the start.
// SPEC S16, A23
fn making_the_product_create_a_folder_among_the_keys(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    scene.mkdir("work/out");
    let swapper = start_swapping(scene, "work/out");
    scene.policy(BASE_ONLY, "rw = [{ path = 'work/out/cache', if-missing = 'create' }]");
    let held = scene.hold(&["before-create"], &[], "sh", &["-c", "echo done"]);
    let said = swap_at(scene, swapper, held, "before-create", "work");
    Verdict::broken_if(scene.home().join(".ssh/cache").exists(), said)
}

/// Starts a sandbox whose command will replace `folder` by a link to the keys.
fn start_swapping(scene: &Scene, folder: &str) -> Running {
    let place = |path: &str| scene.project().join(path).to_str().unwrap().to_owned();
    let keys = scene.home().join(".ssh").to_str().unwrap().to_owned();
    let mut swapper = scene.start("swap.py", &[place(folder), keys]);
    let ready = scene.project().join(folder).with_file_name("ready");
    swapper.until("ready", || ready.exists());
    swapper
}

/// Lets the other sandbox replace the folder while the product is held at `point`.
fn swap_at(scene: &Scene, mut swapper: Running, mut held: Held, point: &str, work: &str) -> String {
    let work = scene.project().join(work);
    held.stopped();
    scene.write(work.join("swap"), "");
    swapper.until("swapped", || work.join("swapped").exists());
    held.go_on(point);
    let ran = held.running.wait();
    scene.write(work.join("stop"), "");
    swapper.wait().completed();
    format!("{}{}", ran.out, ran.err)
}
