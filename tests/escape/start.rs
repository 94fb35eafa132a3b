//! Attacks on programs that run before there is a sandbox: bwrap, and agent-sandbox itself.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, Scene, run, words};
use crate::support::{Place, binary, require_bwrap, write_program};

everywhere!("bwrap-path": planting_a_bwrap_in_the_project, planting_a_bwrap_in_an_open_folder);
everywhere!("bwrap-path": examining_a_bwrap_in_an_open_folder);
everywhere!("git-path": comparing_by_a_git_in_an_open_folder);
everywhere!("own-executable": replacing_the_program_itself);

/// The signal ends the process, and neither the process nor bwrap prints anything. There is no
/// control, because this is no attack.
// SPEC S8
#[test]
fn a_signal_during_the_start_ends_it_without_output() {
    require_bwrap();
    for point in ["before-create", "placeholders:put-up", "before-bwrap", "before-go"] {
        let scene = Scene::new(Place::outside_tmp(), None);
        scene.policy(DEFAULTS, "");
        let mut held = scene.hold(&[point], &[], "sleep", &["1000"]);
        held.stopped();
        held.running.signal(Signal::TERM);
        // At the later points the signal stays pending until the process continues.
        held.go_on(point);
        let ran = held.running.wait();
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (None, "", ""), "{point}");
    }
}

/// Plants a `bwrap` first on PATH that leaves a mark if it runs.
fn with_planted_bwrap(scene: &Scene, folder: &str) -> Verdict {
    scene.policy(DEFAULTS, "");
    let folder = scene.home().join(folder);
    write_program(&folder.join("bwrap"), "#!/bin/sh\ntouch \"$HOME/pwned\"\n");
    scene.place.give_away();
    let mut command = scene.product();
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display()));
    command.args(["--", "echo", "done"]);
    let ran = run(command);
    let pwned = scene.home().join("pwned").exists();
    assert!(pwned || ran.refused("bwrap"), "{ran:#?}");
    Verdict::broken_if(pwned, ran.err)
}

// SPEC A26
fn planting_a_bwrap_in_the_project(scene: &Scene) -> Verdict {
    with_planted_bwrap(scene, "code/project/node_modules/.bin")
}

fn planting_a_bwrap_in_an_open_folder(scene: &Scene) -> Verdict {
    with_planted_bwrap(scene, ".cache/tools")
}

/// Runs a subcommand that needs `program`, which a command has planted in a cache first on PATH.
fn asked_by(scene: &Scene, program: &str, arguments: &[&str]) -> Verdict {
    scene.host(&["git", "init", "-q", "."]);
    scene.policy(DEFAULTS, "");
    let folder = scene.home().join(".cache/tools");
    write_program(&folder.join(program), "#!/bin/sh\ntouch \"$HOME/pwned\"\n");
    scene.place.give_away();
    // `diff` takes no `--allow-root`.
    let mut command = scene.place.agent_sandbox();
    scene.switch_off(&mut command);
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display()));
    command.args(arguments);
    let ran = run(command);
    Verdict::broken_if(scene.home().join("pwned").exists(), ran.err)
}

// SPEC A26
fn examining_a_bwrap_in_an_open_folder(scene: &Scene) -> Verdict {
    asked_by(scene, "bwrap", &["doctor"])
}

// SPEC F3
fn comparing_by_a_git_in_an_open_folder(scene: &Scene) -> Verdict {
    asked_by(scene, "git", &["diff", "git:HEAD"])
}

// SPEC A26
fn replacing_the_program_itself(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    scene.mkdir("tools");
    let program = scene.project().join("tools/agent-sandbox");
    // Another process writes the program: a file that is open for writing cannot be executed.
    assert!(Command::new("cp").arg(binary()).arg(&program).status().unwrap().success());
    scene.place.give_away();
    let before = fs::metadata(&program).unwrap().len();
    let mut command = scene.outside(&program);
    scene.prepare(&mut command);
    command.arg("--");
    words(&mut command, "write.py", &["tools/agent-sandbox"]);
    let ran = run(command).completed();
    let after = fs::metadata(&program).map(|found| found.len()).ok();
    Verdict::broken_if(after != Some(before), ran.out)
}

/// A misspelt pause point must not look like one that was reached.
#[test]
fn a_point_that_does_not_exist_ends_the_process() {
    let scene = Scene::new(Place::outside_tmp(), None);
    let mut command = scene.product();
    command.env("AGENT_SANDBOX_PAUSE", "before-gone /nowhere").args(["--", "echo", "done"]);
    let ran = run(command);
    assert_eq!((ran.code, ran.out.as_str()), (None, ""), "{ran:?}");
    assert!(ran.err.contains("no pause is written like `before-gone /nowhere`"), "{ran:?}");
}

/// A misspelt mitigation must not look like one that holds.
#[test]
fn a_switch_that_does_not_exist_ends_the_process() {
    let scene = Scene::new(Place::outside_tmp(), None);
    let mut command = scene.product();
    command.env("AGENT_SANDBOX_ABLATE", "pins,pin").args(["--", "echo", "done"]);
    let ran = run(command);
    assert_eq!((ran.code, ran.out.as_str()), (None, ""), "{ran:?}");
    assert!(ran.err.contains("no mitigation called `pin`"), "{ran:?}");
}
