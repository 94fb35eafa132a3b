//! Attacks on the mounts: from a namespace of the attacker, or by leaving the mount namespace.

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, ORIGINAL, Scene};

everywhere!("no-user-namespaces": making_a_user_namespace);
// A process with Landlock rules for names can no longer mount.
everywhere!("no-user-namespaces,own-names,own-writes": moving_a_folder_from_a_namespace_without_mounts);
everywhere!("mount-lock": passing_a_folder_to_another_sandbox);

// The attack fails even with user namespaces: the mounts are locked, and process 1 cannot be
// traced.
#[cfg(target_arch = "x86_64")]
everywhere!("the guard": making_other_processes_leave_the_mount_namespace);

// SPEC A7
fn moving_a_folder_from_a_namespace_without_mounts(scene: &Scene) -> Verdict {
    scene.write(".git/hooks/pre-commit", ORIGINAL);
    scene.policy(BASE_ONLY, "ro = ['.git/hooks']");
    let ran = scene.attack("namespace.py", &[".git", ".git/hooks/pre-commit"]).completed();
    Verdict::broken_if(scene.changed(".git/hooks/pre-commit"), ran.out)
}

// SPEC A7
fn making_a_user_namespace(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let script =
        "unshare --user --map-root-user --mount true && echo made; unshare --user true && echo made; echo done";
    let ran = scene.attack("sh", &["-c", script]).completed();
    Verdict::broken_if(ran.says("made"), ran.err)
}

fn hide_two(scene: &Scene) {
    scene.write("secret/key", CANARY);
    scene.write("file.key", CANARY);
    scene.policy(BASE_ONLY, "exclude = ['secret', 'file.key']");
}

// SPEC A6
fn passing_a_folder_to_another_sandbox(scene: &Scene) -> Verdict {
    hide_two(scene);
    let tries = if scene.is_control() { "20000" } else { "200" };
    let mut receiver = scene.start("receive.py", &[tries]);
    receiver.until("listening", || scene.project().join("pass").exists());
    let sent = scene.attack::<&str>("send.py", &[]).completed();
    scene.write("other-has-ended", "");
    let ran = receiver.wait().completed();
    Verdict::broken_if(ran.shows_canary(), format!("{}{}", sent.out, ran.out))
}

// SPEC A7
#[cfg(target_arch = "x86_64")]
fn making_other_processes_leave_the_mount_namespace(scene: &Scene) -> Verdict {
    hide_two(scene);
    scene.write("nested.toml", "nested = true\n");
    let program = scene.compile("leave.c");
    let flags = ["--config", "nested.toml", "--no-guard"];
    let flags = if scene.is_control() { &flags[..] } else { &flags[..2] };
    let tries = if scene.is_control() { "10000" } else { "100" };
    let ran = scene.attack_with(flags, program.to_str().unwrap(), &[tries]).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}
