//! Programs that are run before there is a sandbox: bwrap, and agent-sandbox itself.

use std::fs;
use std::process::Command;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, Scene, run, words};
use crate::support::{Place, binary, write_program};

everywhere!("bwrap-path": planting_a_bwrap_in_the_project, planting_a_bwrap_in_an_open_folder);
everywhere!("own-executable": replacing_the_program_itself);

/// The first `bwrap` on PATH says that it ran.
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

fn planting_a_bwrap_in_the_project(scene: &Scene) -> Verdict {
    with_planted_bwrap(scene, "code/project/node_modules/.bin")
}

fn planting_a_bwrap_in_an_open_folder(scene: &Scene) -> Verdict {
    with_planted_bwrap(scene, ".cache/tools")
}

fn replacing_the_program_itself(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    scene.mkdir("tools");
    let program = scene.project().join("tools/agent-sandbox");
    // By another process: what this one has open for writing cannot be executed.
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

/// A typo in a point must not pass for a moment that was met.
#[test]
fn a_point_that_does_not_exist_ends_the_process() {
    let scene = Scene::new(Place::outside_tmp(), None);
    let mut command = scene.product();
    command.env("AGENT_SANDBOX_PAUSE", "before-gone /nowhere").args(["--", "echo", "done"]);
    let ran = run(command);
    assert_eq!((ran.code, ran.out.as_str()), (None, ""), "{ran:?}");
    assert!(ran.err.contains("no pause is written like `before-gone /nowhere`"), "{ran:?}");
}

/// A typo in a control must not pass for a mitigation that holds.
#[test]
fn a_switch_that_does_not_exist_ends_the_process() {
    let scene = Scene::new(Place::outside_tmp(), None);
    let mut command = scene.product();
    command.env("AGENT_SANDBOX_ABLATE", "pins,pin").args(["--", "echo", "done"]);
    let ran = run(command);
    assert_eq!((ran.code, ran.out.as_str()), (None, ""), "{ran:?}");
    assert!(ran.err.contains("no mitigation called `pin`"), "{ran:?}");
}
