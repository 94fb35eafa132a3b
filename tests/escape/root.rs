//! Attacks that only root could make, and actions of the host's root during a run.

use std::fs;
use std::process::Command;

use crate::outcome::{Verdict, is_real_root, judge};
use crate::scene::{BASE_ONLY, CANARY, DEFAULTS, ORIGINAL, Ran, Scene, run, words};
use crate::support::{Place, binary};

// With Landlock rules for names, a process cannot mount or unmount, so the control needs them off.
for_root!("root-capabilities,own-names,own-writes,mount-lock": taking_masks_off_as_root);

// SPEC A8
#[test]
fn writing_the_kernels_settings_as_root() {
    if is_real_root() {
        judge(Place::root_outside_tmp, "proc-sys", writing_the_kernels_settings);
    }
}

with_mounts!("password-home": reading_the_keys_of_the_home_in_the_password_file);
with_mounts!("private-propagation": using_a_file_system_that_the_host_mounts_later);
with_mounts!("bind-aliases": reading_an_excluded_folder_through_another_mount, reading_an_excluded_file_through_another_mount);

// SPEC A8
fn taking_masks_off_as_root(scene: &Scene) -> Verdict {
    scene.write("secret/key", CANARY);
    scene.write(".git/hooks/pre-commit", ORIGINAL);
    scene.write_home("outside", ORIGINAL);
    scene.policy(BASE_ONLY, "exclude = ['secret']\nro = ['.git/hooks']");
    let outside = scene.home().join("outside");
    let ran = scene.attack("root.py", &["secret", ".git/hooks", outside.to_str().unwrap()]).completed();
    let changed = scene.changed(".git/hooks/pre-commit") || scene.changed(outside);
    Verdict::broken_if(ran.shows_canary() || changed, ran.out)
}

fn writing_the_kernels_settings(scene: &Scene) -> Verdict {
    const PATTERN: &str = "/proc/sys/kernel/core_pattern";
    scene.policy(BASE_ONLY, "");
    let before = fs::read(PATTERN).unwrap();
    let ran = scene.attack::<&str>("kernel_settings.py", &[]).completed();
    if fs::read(PATTERN).unwrap() != before {
        fs::write(PATTERN, before).unwrap();
        panic!("the attack changed the kernel's settings");
    }
    Verdict::broken_if(ran.says(&format!("write {PATTERN} ok")), ran.out)
}

/// Root runs `helper` in a new mount namespace. Its arguments are `arguments` and the command that
/// starts the product as its user with the attack.
pub fn in_a_mount_namespace(
    scene: &Scene,
    helper: &str,
    arguments: &[&str],
    attack: &str,
    attack_arguments: &[&str],
) -> Ran {
    in_a_mount_namespace_with(scene, helper, arguments, &[], &[], attack, attack_arguments)
}

/// As [`in_a_mount_namespace`], with variables and flags for the product.
pub fn in_a_mount_namespace_with(
    scene: &Scene,
    helper: &str,
    arguments: &[&str],
    variables: &[(&str, String)],
    flags: &[&str],
    attack: &str,
    attack_arguments: &[&str],
) -> Ran {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", if helper == "host_late_mount.sh" { "shared" } else { "private" }]);
    words(&mut command, helper, arguments);
    if scene.place.uid != 0 {
        let id = scene.place.uid.to_string();
        command.args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
    }
    command.arg(binary());
    scene.prepare(&mut command);
    command.args(flags).arg("--");
    words(&mut command, attack, attack_arguments);
    // The helper has root's id, and the environment and working directory of the user.
    let user = scene.outside("true");
    command.env_clear().env("CANARY", CANARY).current_dir(scene.project()).stdin(std::process::Stdio::null());
    command.envs(user.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    scene.switch_off(&mut command);
    run(command)
}

/// `$HOME` is another folder, as in a wrapper that keeps an agent's state apart.
// SPEC P15, A19
fn reading_the_keys_of_the_home_in_the_password_file(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let at = |path: &str| scene.place.path().join(path).to_str().unwrap().to_owned();
    let (home, passwd) = (at("of-the-password-file"), at("passwd"));
    scene.place.write(format!("{home}/.ssh/id_ed25519"), CANARY);
    scene.place.write(&passwd, format!("u:x:{uid}:{uid}::{home}:/bin/sh\n", uid = scene.place.uid));
    let ran = in_a_mount_namespace(scene, "host_alias.sh", &[&passwd, "/etc/passwd"], "look.py", &[&home]).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

// SPEC A8
fn using_a_file_system_that_the_host_mounts_later(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    scene.write_home("disk/empty", "");
    let (disk, project) = (scene.home().join("disk"), scene.project());
    let (disk, project) = (disk.to_str().unwrap(), project.to_str().unwrap());
    let ran = in_a_mount_namespace(scene, "host_late_mount.sh", &[disk, project], "late_mount.py", &[disk]);
    assert!(ran.says("done"), "{ran:#?}");
    Verdict::broken_if(ran.says("the mount was written") || ran.out.contains(CANARY), ran.out)
}

// SPEC A20
fn reading_an_excluded_folder_through_another_mount(scene: &Scene) -> Verdict {
    scene.write_home("data/secret/key", CANARY);
    scene.write_home("alias/empty", "");
    scene.policy(BASE_ONLY, "exclude = ['~/data/secret']");
    alias(scene)
}

fn reading_an_excluded_file_through_another_mount(scene: &Scene) -> Verdict {
    scene.write_home("data/deep/secret.key", CANARY);
    scene.write_home("alias/empty", "");
    scene.policy(BASE_ONLY, "exclude = ['~/data/deep/secret.key']");
    alias(scene)
}

fn alias(scene: &Scene) -> Verdict {
    let (data, alias) = (scene.home().join("data"), scene.home().join("alias"));
    let (data, alias) = (data.to_str().unwrap(), alias.to_str().unwrap());
    let ran = in_a_mount_namespace(scene, "host_alias.sh", &[data, alias], "look.py", &[data, alias]).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}
