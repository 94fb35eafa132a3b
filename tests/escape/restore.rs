//! Files that the user saves again while a sandbox runs. When a file is replaced, the kernel
//! detaches its mounts.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, symlink};

use crate::git::repository;
use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, ORIGINAL, PLANTED, Running, Scene};

everywhere!("restore":
    reading_a_file_that_the_user_saved_again,
    writing_settings_of_git_that_the_user_changed,
    writing_a_file_that_the_user_saved_again,
    swapping_the_folder_for_a_link_while_the_file_is_covered_again,
);

for_everybody!("restore":
    writing_through_a_link_that_the_user_put_in_place_of_the_file,
    writing_into_a_pipe_that_the_user_put_in_place_of_the_file,
    reading_a_folder_that_the_user_put_in_place_of_the_file,
    reading_a_link_that_the_user_put_in_place_of_the_file,
    causing_more_events_than_the_kernel_keeps,
);

/// The supervisor says this when the file is covered again.
const COVERED: &str = "until the supervisor covered it again";

/// Saves a file as an editor does.
fn save(scene: &Scene, path: &str, content: &str) {
    scene.write("new", content);
    fs::rename(scene.project().join("new"), scene.project().join(path)).unwrap();
}

/// Starts the attack, lets the user `replace` the file, and lets the attack continue when the
/// supervisor has covered the file, or, in the control, at once.
fn attack(scene: &Scene, words: &[&str], replace: impl FnOnce()) -> crate::scene::Ran {
    let mut running = scene.start("restore.py", words);
    running.until("started", || scene.project().join("started").exists());
    replace();
    covered(scene, &mut running);
    scene.write("replaced", "");
    running.wait().completed()
}

fn covered(scene: &Scene, running: &mut Running) {
    if !scene.is_control() {
        running.until_said(COVERED);
    }
}

// SPEC A21, Y1
fn reading_a_file_that_the_user_saved_again(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['.env']");
    scene.write(".env", "harmless");
    let ran = attack(scene, &[".env", "read"], || save(scene, ".env", CANARY));
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

// SPEC A21
fn writing_a_file_that_the_user_saved_again(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = ['deep/hook']");
    scene.write("deep/hook", "old");
    let ran = attack(scene, &["deep/hook", PLANTED], || save(scene, "deep/hook", ORIGINAL));
    Verdict::broken_if(scene.changed("deep/hook"), ran.out)
}

/// With the default policy the file is private, and the command writes to its copy.
// SPEC A21
fn writing_settings_of_git_that_the_user_changed(scene: &Scene) -> Verdict {
    repository(scene);
    let setting = "[core]\n\tfsmonitor = evil\n";
    let ran = attack(scene, &[".git/config", setting], || _ = scene.host(&["git", "config", "a.b", "c"]));
    assert_eq!(scene.host(&["git", "config", "a.b"]), "c\n");
    Verdict::broken_if(scene.try_host(&["git", "config", "core.fsmonitor"]).code == Some(0), ran.out)
}

/// While the supervisor is held before it covers the file, the command replaces the folder by a
/// link to another folder. The file of that name in the other folder must stay visible.
// SPEC A21, Y3
fn swapping_the_folder_for_a_link_while_the_file_is_covered_again(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['**/.env']");
    scene.write("sub/.env", "harmless");
    scene.mkdir("decoy");
    let at = |name: &str| scene.project().join(name);
    let mut held = scene.hold(&["cover-again"], &[], "restore.py", &["moved/.env", "read", "sub", "decoy"]);
    held.running.until("started", || at("started").exists());
    scene.write("decoy/.env", "decoy");
    save(scene, "sub/.env", CANARY);
    if !scene.is_control() {
        held.stopped();
    }
    scene.write("swap", "");
    held.running.until("swapped", || at("swapped").exists());
    if !scene.is_control() {
        held.go_on("cover-again");
    }
    covered(scene, &mut held.running);
    scene.write("replaced", "");
    let ran = held.running.wait().completed();
    assert!(ran.says("move ok") && ran.says("link ok"), "{ran:#?}");
    assert!(ran.says("read sub/.env b'decoy'"), "the link was followed: {ran:#?}");
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

// SPEC Y2
fn writing_through_a_link_that_the_user_put_in_place_of_the_file(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = ['hook']");
    scene.write("hook", ORIGINAL);
    scene.write("target", ORIGINAL);
    let ran = attack(scene, &["hook", PLANTED], || {
        fs::remove_file(scene.project().join("hook")).unwrap();
        symlink("target", scene.project().join("hook")).unwrap();
    });
    Verdict::broken_if(scene.changed("target"), ran.out)
}

// SPEC Y2
fn writing_into_a_pipe_that_the_user_put_in_place_of_the_file(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = ['hook']");
    scene.write("hook", ORIGINAL);
    let mut reader = None;
    let ran = attack(scene, &["hook", PLANTED], || {
        fs::remove_file(scene.project().join("hook")).unwrap();
        scene.host(&["mkfifo", "hook"]);
        let opened = fs::OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(scene.project().join("hook"));
        reader = Some(opened.unwrap());
    });
    let mut received = Vec::new();
    // Without a writer, the FIFO ends at once.
    let _ = reader.unwrap().read_to_end(&mut received);
    Verdict::broken_if(received == PLANTED.as_bytes(), ran.out)
}

// SPEC Y2
fn reading_a_folder_that_the_user_put_in_place_of_the_file(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['secret']");
    scene.write("secret", "harmless");
    let ran = attack(scene, &["secret/key", "read"], || {
        fs::remove_file(scene.project().join("secret")).unwrap();
        scene.mkdir("made");
        scene.write("made/key", CANARY);
        fs::rename(scene.project().join("made"), scene.project().join("secret")).unwrap();
    });
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

// SPEC A21
fn reading_a_link_that_the_user_put_in_place_of_the_file(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['secret']");
    scene.write("secret", "harmless");
    scene.write("elsewhere", CANARY);
    let ran = attack(scene, &["secret", "read"], || {
        fs::remove_file(scene.project().join("secret")).unwrap();
        symlink("elsewhere", scene.project().join("secret")).unwrap();
    });
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// While the supervisor is held at another file, the kernel drops the event of this file.
// SPEC Y1
fn causing_more_events_than_the_kernel_keeps(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['.env', 'first']");
    scene.write("first", "harmless");
    scene.write(".env", "harmless");
    let at = |name: &str| scene.project().join(name);
    let how = if scene.is_control() { "flood" } else { "flood-until-closed" };
    let mut held = scene.hold(&["cover-again"], &[], "restore.py", &[".env", how]);
    held.running.until("started", || at("started").exists());
    save(scene, "first", "harmless");
    if !scene.is_control() {
        held.stopped();
    }
    scene.write("flood", "");
    held.running.until("flooded", || at("flooded").exists());
    save(scene, ".env", CANARY);
    if !scene.is_control() {
        held.go_on("cover-again");
    }
    scene.write("replaced", "");
    let ran = held.running.wait().completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}
