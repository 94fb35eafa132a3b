//! Attacks on the next run: a command changes the policy or the paths that its rules name.

use std::fs;
use std::os::unix::fs::symlink;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, ORIGINAL, PLANTED, Scene, run, words};
use crate::support::{Place, require_bwrap};

everywhere!("own-files":
    editing_the_projects_policy,
    editing_the_users_policy_in_an_open_folder,
    creating_the_users_policy_in_an_open_folder,
    creating_the_users_policy_in_a_cache,
    writing_into_our_own_state,
);

everywhere!("consent-ends":
    writing_a_policy_again_that_the_user_deleted,
    writing_a_policy_again_that_the_user_deletes_meanwhile,
);

everywhere!("pins": moving_the_folder_of_the_users_policy);

everywhere!("trust":
    creating_a_policy_that_opens_the_keys,
    creating_a_policy_that_drops_the_presets,
    planting_a_policy_and_a_repository_in_a_subfolder,
);

everywhere!("link-checks":
    making_a_writable_folder_a_link_to_the_keys,
    making_a_writable_folder_a_link_to_a_folder_above_it,
);

// A folder becomes a link between compiling and mounting.
everywhere!("guard-check,look-again": swapping_a_folder_for_a_link_while_a_sandbox_starts);

everywhere!("what we do: bwrap follows the link": a_placeholder_through_a_link_to_nothing);

/// A policy that opens nothing.
const HARMLESS: &str = "[filesystem]\nexclude = ['secret']\n";

// SPEC A3
fn editing_the_projects_policy(scene: &Scene) -> Verdict {
    scene.write(".agent-sandbox.toml", HARMLESS);
    scene.policy(BASE_ONLY, "");
    let ran = scene.attack("write.py", &[".agent-sandbox.toml"]).completed();
    Verdict::broken_if(scene.bytes(".agent-sandbox.toml") != Some(HARMLESS.into()), ran.out)
}

fn editing_the_users_policy_in_an_open_folder(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/.config']");
    let file = scene.home().join(".config/agent-sandbox/config.toml");
    let before = fs::read(&file).unwrap();
    let ran = scene.attack("write.py", &[&file]).completed();
    Verdict::broken_if(fs::read(&file).ok() != Some(before), ran.out)
}

// SPEC D6, A3
fn creating_the_users_policy_in_an_open_folder(scene: &Scene) -> Verdict {
    create_the_users_policy(scene, ".config", &["--rw", "~/.config"])
}

// SPEC D6, A3
fn creating_the_users_policy_in_a_cache(scene: &Scene) -> Verdict {
    create_the_users_policy(scene, ".cache/config", &[])
}

fn create_the_users_policy(scene: &Scene, folder: &str, flags: &[&str]) -> Verdict {
    let folder = scene.home().join(folder);
    fs::create_dir_all(&folder).unwrap();
    scene.place.give_away();
    let file = folder.join("agent-sandbox/config.toml");
    let mut command = scene.product();
    command.env("XDG_CONFIG_HOME", &folder).args(flags).arg("--");
    words(&mut command, "write.py", &[&file]);
    let ran = run(command).completed();
    Verdict::broken_if(file.exists(), ran.out)
}

/// A policy that the user has agreed to.
const AGREED: &str = "[filesystem]\nrw = [\"~/.ssh\"]\n";

fn agree(scene: &Scene) {
    scene.policy(DEFAULTS, "");
    scene.write(".agent-sandbox.toml", AGREED);
    let mut command = scene.place.agent_sandbox();
    command.args(["trust", "--yes"]);
    let ran = run(command);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

fn then_look_at_the_keys(scene: &Scene) -> Verdict {
    assert_eq!(scene.bytes(".agent-sandbox.toml"), Some(AGREED.into()));
    let ran = scene.attack("look.py", &[scene.home().join(".ssh/id_ed25519")]);
    ran.refused_or_completed("trust");
    Verdict::broken_if(ran.shows_canary(), ran.err)
}

// SPEC T10, A3
fn writing_a_policy_again_that_the_user_deleted(scene: &Scene) -> Verdict {
    agree(scene);
    fs::remove_file(scene.project().join(".agent-sandbox.toml")).unwrap();
    let plant = "printf '[filesystem]\\nrw = [\"~/.ssh\"]\\n' >.agent-sandbox.toml; echo done";
    scene.attack("sh", &["-c", plant]).completed();
    then_look_at_the_keys(scene)
}

// SPEC T10
fn writing_a_policy_again_that_the_user_deletes_meanwhile(scene: &Scene) -> Verdict {
    agree(scene);
    let plant = "until [ -e deleted ]; do sleep 0.01; done
        printf '[filesystem]\\nrw = [\"~/.ssh\"]\\n' >.agent-sandbox.toml; echo done";
    let mut attack = scene.start("sh", &["-c", &format!("touch started; {plant}")]);
    attack.until("started", || scene.project().join("started").exists());
    fs::remove_file(scene.project().join(".agent-sandbox.toml")).unwrap();
    scene.write("deleted", "");
    attack.wait().completed();
    then_look_at_the_keys(scene)
}

// SPEC A3
fn writing_into_our_own_state(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/.local']");
    scene.write_home(".local/state/agent-sandbox/record", ORIGINAL);
    let file = scene.home().join(".local/state/agent-sandbox/record");
    let ran = scene.attack("write.py", &[&file]).completed();
    Verdict::broken_if(scene.changed(file), ran.out)
}

fn moving_the_folder_of_the_users_policy(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/.config']");
    let home = scene.home().to_str().unwrap().to_owned();
    let (folder, file) = (format!("{home}/.config/agent-sandbox"), format!("{home}/.config/agent-sandbox/config.toml"));
    let before = fs::read(&file).unwrap();
    let ran = scene.attack("move.py", &["rename", &folder, &file]).completed();
    Verdict::broken_if(fs::read(&file).ok() != Some(before), ran.out)
}

/// The first run leaves files behind. The second run starts in a folder of the project, and must
/// not show the keys.
fn the_next_run_shows_the_keys(scene: &Scene, plant: &str, cwd: &str) -> Verdict {
    scene.policy(DEFAULTS, "");
    scene.attack("sh", &["-c", &format!("{plant}\necho done")]).completed();
    let key = scene.home().join(".ssh/id_ed25519");
    let cwd = scene.project().join(cwd);
    let ran = scene.attack_with(&["--cwd", cwd.to_str().unwrap()], "look.py", &[key]);
    ran.refused_or_completed("trust");
    Verdict::broken_if(ran.shows_canary(), ran.err)
}

// SPEC A3
fn creating_a_policy_that_opens_the_keys(scene: &Scene) -> Verdict {
    let plant = "printf '[filesystem]\\nrw = [\"~/.ssh\"]\\n' >.agent-sandbox.toml";
    the_next_run_shows_the_keys(scene, plant, ".")
}

fn creating_a_policy_that_drops_the_presets(scene: &Scene) -> Verdict {
    let plant = "printf '[filesystem]\\npresets = [\"!@secrets\"]\\n' >.agent-sandbox.toml";
    the_next_run_shows_the_keys(scene, plant, ".")
}

// SPEC A3
fn planting_a_policy_and_a_repository_in_a_subfolder(scene: &Scene) -> Verdict {
    let plant = "mkdir -p sub/.git; printf '[filesystem]\\nro = [\"~/.ssh\"]\\n' >sub/.agent-sandbox.toml";
    the_next_run_shows_the_keys(scene, plant, "sub")
}

// SPEC A4
fn making_a_writable_folder_a_link_to_the_keys(scene: &Scene) -> Verdict {
    scene.mkdir("build");
    scene.policy(DEFAULTS, "rw = ['build']");
    scene.attack("sh", &["-c", "rmdir build && ln -s ../../.ssh build; echo done"]).completed();
    let ran = scene.attack("write.py", &["build/authorized_keys"]);
    ran.refused_or_completed("build");
    let keys = fs::read(scene.home().join(".ssh/authorized_keys"));
    Verdict::broken_if(keys.is_ok_and(|bytes| bytes == PLANTED.as_bytes()), ran.err)
}

fn making_a_writable_folder_a_link_to_a_folder_above_it(scene: &Scene) -> Verdict {
    scene.mkdir("build");
    scene.write_home(".profile", ORIGINAL);
    scene.policy(BASE_ONLY, "rw = ['build']");
    scene.attack("sh", &["-c", "rmdir build && ln -s ../.. build; echo done"]).completed();
    let ran = scene.attack("write.py", &["build/.profile"]);
    ran.refused_or_completed("build");
    Verdict::broken_if(scene.changed(scene.home().join(".profile")), ran.err)
}

/// The policy of a sandbox opens only `~/work/out`, and is compiled. Before bwrap mounts the
/// folder, the command of another sandbox replaces it by a link to the keys.
// SPEC G8, A4
fn swapping_a_folder_for_a_link_while_a_sandbox_starts(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    scene.write_home("work/out/harmless", "");
    let work = scene.home().join("work");
    let path = |name: &str| work.join(name).to_str().unwrap().to_owned();
    let mut swapper = {
        let mut command = scene.product();
        command.args(["--rw", &path(""), "--"]);
        crate::scene::words(&mut command, "swap.py", &[path("out"), "../.ssh".to_owned()]);
        crate::scene::Running::start(command)
    };
    swapper.until("ready", || work.join("ready").exists());
    let mut held = scene.hold(&["before-bwrap"], &["--rw", &path("out")], "look.py", &[path("out")]);
    held.stopped();
    scene.write(work.join("swap"), "");
    swapper.until("swapped", || work.join("swapped").exists());
    held.go_on("before-bwrap");
    let ran = held.running.wait();
    scene.write(work.join("stop"), "");
    swapper.wait().completed();
    ran.refused_or_completed("work/out");
    Verdict::broken_if(ran.shows_canary(), format!("{}{}", ran.out, ran.err))
}

/// Runs bwrap with the arguments that a naive program would choose.
fn bare_bwrap(scene: &Scene, words: &[&str]) -> crate::scene::Ran {
    let mut command = scene.outside("bwrap");
    command.args(["--unshare-user", "--bind", "/", "/", "--dev", "/dev"]).args(words);
    crate::scene::run(command)
}

/// During the setup of bwrap, the old root is beside the new one, and a link with enough `..` leads
/// there. There is no control, because a naive program also opens nothing.
#[test]
fn a_link_that_climbs_out_of_the_new_root_opens_nothing() {
    require_bwrap();
    for rule in ["rw = ['conf']", "ro = ['conf']", "exclude = ['conf']"] {
        let scene = Scene::new(Place::outside_tmp(), None);
        scene.policy(DEFAULTS, rule);
        let climbing = format!("../../../../../../../../../../../oldroot{}/.ssh", scene.home().display());
        symlink(climbing, scene.project().join("conf")).unwrap();
        scene.place.give_away();
        let key = scene.home().join(".ssh/id_ed25519");
        let ran = scene.attack("look.py", &["conf", "conf/id_ed25519", key.to_str().unwrap()]);
        ran.refused_or_completed("conf");
        assert!(!ran.shows_canary(), "{rule}: {ran:#?}");
    }
}

// SPEC A4
fn a_placeholder_through_a_link_to_nothing(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = [{ path = 'conf.json', if-missing = 'block' }]");
    symlink("../../.profile", scene.project().join("conf.json")).unwrap();
    scene.place.give_away();
    let ran = if scene.is_control() {
        let conf = scene.project().join("conf.json").to_str().unwrap().to_owned();
        bare_bwrap(scene, &["--ro-bind", "/dev/null", &conf, "--", "echo", "done"])
    } else {
        scene.attack("sh", &["-c", "echo done"])
    };
    ran.refused_or_completed("conf.json");
    let made = fs::symlink_metadata(scene.home().join(".profile")).is_ok();
    Verdict::broken_if(made, ran.err)
}
