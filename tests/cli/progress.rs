//! A search that takes long. valgrind makes it so, on every machine.

use std::fs;

use crate::Ran;
use crate::support::{Place, binary};

const SLOWLY: [&str; 3] = ["valgrind", "--quiet", "--tool=none"];

/// A project that takes a while to search.
fn large_project() -> Place {
    let place = Place::in_tmp();
    for folder in 0..12_000 {
        fs::create_dir_all(place.project().join(format!("deep/{}/{folder}", folder / 100))).unwrap();
    }
    place.give_away();
    place
}

/// What comes out of a slow `--print-args`, on a terminal or through pipes.
fn searched(place: &Place, on_terminal: bool, flags: &[&str]) -> String {
    let mut command = place.command("/usr/bin/python3");
    let run = if on_terminal {
        "import pty, sys; pty.spawn(sys.argv[1:])"
    } else {
        "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    };
    command.args(["-c", run]).args(SLOWLY).arg(binary()).args(flags).args(["--print-args=lines", "--", "true"]);
    let ran = Ran::of(&command.current_dir(place.project()).output().unwrap());
    assert!(ran.out.contains("bwrap"), "{ran:?}");
    ran.out + &ran.err
}

#[test]
fn a_long_search_says_how_far_it_is_on_a_terminal_alone() {
    const SIGN: &str = "looking for what patterns match: ";
    let place = &large_project();
    let said = searched(place, true, &[]);
    assert!(said.contains(SIGN) && said.contains(" folders, /"), "{said}");
    let (line, rest) = said.rsplit_once(SIGN).unwrap();
    assert!(line.ends_with("\r\u{1b}[K") && rest.contains("\r\u{1b}[K"), "the line goes again: {said}");
    assert!(!searched(place, true, &["--quiet"]).contains(SIGN));
    assert!(!searched(place, true, &["--message-format=json"]).contains(SIGN));
    assert!(!searched(place, false, &[]).contains(SIGN));
}
