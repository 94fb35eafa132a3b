//! The progress of a long search. This is no attack, but only this build can be held in the search.

use std::process::Stdio;
use std::time::Duration;

use crate::scene::{BASE_ONLY, Held, Scene};
use crate::support::{Place, binary, require_bwrap};

/// More than the product waits before it shows progress (`PATIENCE` in `src/cli/progress.rs`).
const LONG: Duration = Duration::from_millis(600);

/// The output of a slow `--print-args`, on a terminal or through pipes.
fn searched(on_terminal: bool, flags: &[&str]) -> String {
    let scene = Scene::new(Place::in_tmp(), None);
    scene.policy(BASE_ONLY, "exclude = ['**/.env']");
    scene.mkdir("deep");
    let run = if on_terminal {
        "import pty, sys; pty.spawn(sys.argv[1:])"
    } else {
        "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    };
    let mut command = scene.outside("/usr/bin/python3");
    command.args(["-I", "-c", run]).arg(binary()).args(flags).args(["--print-args=lines", "--", "true"]);
    command.stdin(Stdio::null());
    let point = format!("read-folder:{}", scene.project().join("deep").display());
    let mut held = Held::start(&scene, command, &[&point]);
    held.stopped();
    std::thread::sleep(LONG);
    held.go_on(&point);
    let ran = held.running.wait();
    assert!(ran.out.contains("bwrap"), "{ran:?}");
    ran.out + &ran.err
}

// SPEC K3
#[test]
fn a_long_search_says_how_far_it_is_on_a_terminal_alone() {
    require_bwrap();
    const SIGN: &str = "searching for matches of patterns: ";
    let said = searched(true, &[]);
    assert!(said.contains(SIGN) && said.contains(" folders, /"), "{said}");
    let (line, rest) = said.rsplit_once(SIGN).unwrap();
    assert!(line.ends_with("\r\u{1b}[K") && rest.contains("\r\u{1b}[K"), "the line is removed again: {said}");
    for (on_terminal, flags) in [(true, &["--quiet"][..]), (true, &["--message-format=json"]), (false, &[])] {
        assert!(!searched(on_terminal, flags).contains(SIGN), "{flags:?}");
    }
}
