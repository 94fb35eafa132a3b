//! Attacks that create a missing protected path, or that remove or keep its placeholder.

use std::fs;

use rustix::process::Signal;

use crate::beside::start_beside;
use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, PLANTED, Running, Scene};

everywhere!("placeholders":
    creating_a_blocked_file,
    creating_a_blocked_folder,
    creating_a_path_that_another_run_has_stopped_protecting,
    creating_a_path_that_a_killed_run_protected,
);

everywhere!("git-preset": creating_the_missing_hooks_folder);

everywhere!("closed-mounts,own-names,own-writes":
    creating_a_path_that_an_ended_sandbox_blocked,
    creating_a_path_that_an_ended_sandbox_blocked_with_a_file_open_for_writing,
);

everywhere!("own-names,own-writes": creating_a_path_that_a_killed_sandbox_blocked);
// Either of the two mitigations alone stops the attack, so the control switches off both.
everywhere!("own-names,own-writes,closed-mounts": creating_a_blocked_path_from_a_sandbox_that_blocks_nothing);

fn planted(scene: &Scene, path: &str) -> bool {
    fs::read(scene.project().join(path)).is_ok_and(|bytes| bytes == PLANTED.as_bytes())
}

/// Asserts that the placeholder is gone.
#[track_caller]
fn nothing_is_left(scene: &Scene, path: &str) {
    assert!(fs::symlink_metadata(scene.project().join(path)).is_err(), "`{path}` was left behind");
}

// SPEC A2
fn creating_a_blocked_file(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = [{ path = 'tools/biome.json', if-missing = 'block' }]");
    scene.mkdir("tools");
    let mut said = scene.attack("write.py", &["tools/biome.json"]).completed().out;
    if !planted(scene, "tools/biome.json") {
        nothing_is_left(scene, "tools/biome.json");
        said += &scene.attack("move.py", &["rename", "tools", "tools/biome.json"]).completed().out;
    }
    Verdict::broken_if(planted(scene, "tools/biome.json"), said)
}

fn creating_a_blocked_folder(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = [{ path = '.vscode', if-missing = 'block' }]");
    let ran = scene.attack("write.py", &[".vscode/tasks.json"]).completed();
    let broken = planted(scene, ".vscode/tasks.json");
    if !broken {
        nothing_is_left(scene, ".vscode");
    }
    Verdict::broken_if(broken, ran.out)
}

// SPEC A2
fn creating_a_path_that_another_run_has_stopped_protecting(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = [{ path = 'biome.json', if-missing = 'block' }]");
    let script = "touch first; while [ ! -e go ]; do sleep 0.01; done; echo done";
    let mut first = scene.start("sh", &["-c", script]);
    first.until("started", || scene.project().join("first").exists());
    let late = "touch second; while [ ! -e go-on ]; do sleep 0.01; done; echo planted >biome.json; printf planted >biome.json; echo done";
    let mut second = scene.start("sh", &["-c", late]);
    second.until("started", || scene.project().join("second").exists());
    scene.write("go", "");
    first.wait().completed();
    scene.write("go-on", "");
    let ran = second.wait().completed();
    let broken = planted(scene, "biome.json");
    if !broken {
        nothing_is_left(scene, "biome.json");
    }
    Verdict::broken_if(broken, ran.err)
}

// SPEC A2
fn creating_a_path_that_a_killed_run_protected(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = [{ path = 'biome.json', if-missing = 'block' }]");
    let mut first = scene.start("sh", &["-c", "touch first; sleep 60"]);
    first.until("started", || scene.project().join("first").exists());
    first.signal(Signal::KILL);
    first.wait();
    let ran = scene.attack("write.py", &["biome.json"]).completed();
    let broken = planted(scene, "biome.json");
    if !broken {
        nothing_is_left(scene, "biome.json");
    }
    Verdict::broken_if(broken, ran.out)
}

// SPEC M10, A2
fn creating_a_path_that_an_ended_sandbox_blocked(scene: &Scene) -> Verdict {
    lending(scene, "alone")
}

// SPEC M10, A2
fn creating_a_path_that_an_ended_sandbox_blocked_with_a_file_open_for_writing(scene: &Scene) -> Verdict {
    lending(scene, "with-a-writer")
}

/// One sandbox passes a descriptor of its project to a sandbox in another project, and ends.
fn lending(scene: &Scene, how: &str) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/shared']\nro = [{ path = '.vscode/', if-missing = 'block' }]");
    let shared = scene.home().join("shared");
    let mut planter = planter_beside(scene);
    planter.until("started", || shared.join("started").exists());
    let lent = scene.attack("lend.py", &[how]).completed();
    scene.write(shared.join("other-has-ended"), "");
    planter.until("tried", || shared.join("tried").exists());
    let next = scene.attack("sh", &["-c", "echo done"]).completed();
    scene.write(shared.join("again"), "");
    let ran = planter.wait().completed();
    let broken = planted(scene, ".vscode/tasks.json");
    if !broken {
        // The report names a placeholder that had to stay until no other run is alive.
        let stays = how == "with-a-writer";
        assert_eq!(
            lent.err.contains("warning[placeholder-left]: placeholders of this run stay"),
            stays,
            "{}",
            lent.err
        );
        assert!(!next.err.contains("warning[placeholder-left]"), "{}", next.err);
        scene.attack("sh", &["-c", "echo done"]).completed();
        nothing_is_left(scene, ".vscode");
    }
    Verdict::broken_if(broken, format!("{}{}{}", lent.err, next.err, ran.out))
}

/// The sandbox that blocked the path was killed, so it did not make its mounts read-only.
// SPEC C13, A2
fn creating_a_path_that_a_killed_sandbox_blocked(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/shared']\nro = [{ path = '.vscode/', if-missing = 'block' }]");
    let shared = scene.home().join("shared");
    let mut planter = planter_beside(scene);
    planter.until("started", || shared.join("started").exists());
    let mut lender = scene.start("lend.py", &["while-it-runs"]);
    lender.until("lent", || shared.join("received").exists());
    lender.signal(Signal::KILL);
    lender.wait();
    // The next run in the project removes the placeholders of the killed run.
    let next = scene.attack("sh", &["-c", "echo done"]).completed();
    scene.write(shared.join("other-has-ended"), "");
    scene.write(shared.join("again"), "");
    let ran = planter.wait().completed();
    Verdict::broken_if(planted(scene, ".vscode/tasks.json"), format!("{}{}", next.err, ran.out))
}

/// The other sandbox has no placeholders of its own.
// SPEC C13, A2
fn creating_a_blocked_path_from_a_sandbox_that_blocks_nothing(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/shared']\nro = [{ path = '.vscode/', if-missing = 'block' }]");
    let shared = scene.home().join("shared");
    scene.write_home("code/other/.vscode/settings.json", "{}");
    let mut planter = planter_beside(scene);
    planter.until("started", || shared.join("started").exists());
    let lent = scene.attack("lend.py", &["alone"]).completed();
    scene.write(shared.join("other-has-ended"), "");
    scene.write(shared.join("again"), "");
    let ran = planter.wait().completed();
    Verdict::broken_if(planted(scene, ".vscode/tasks.json"), format!("{}{}", lent.err, ran.out))
}

fn planter_beside(scene: &Scene) -> Running {
    start_beside::<&str>(scene, "plant_later.py", &[])
}

fn creating_the_missing_hooks_folder(scene: &Scene) -> Verdict {
    scene.host(&["git", "init", "-q"]);
    fs::remove_dir_all(scene.project().join(".git/hooks")).unwrap();
    scene.policy(DEFAULTS, "");
    let ran = scene.attack("write.py", &[".git/hooks/pre-commit"]).completed();
    Verdict::broken_if(planted(scene, ".git/hooks/pre-commit"), ran.out)
}
