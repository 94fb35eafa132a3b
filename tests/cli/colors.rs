//! Colours on both streams: with `always`, with `never`, and by default.

use crate::Ran;
use crate::support::{Place, binary};

/// Runs `explain`, which writes an answer to standard output, and an error about the empty path to
/// standard error.
fn explained(flags: &[&str], no_color: Option<&str>) -> Ran {
    let place = Place::in_tmp();
    place.write("home/code/project/a", "");
    let mut command = place.agent_sandbox();
    if let Some(value) = no_color {
        command.env("NO_COLOR", value);
    }
    let ran = Ran::of(&command.args(flags).args(["explain", "a", ""]).output().unwrap());
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(!ran.out.is_empty() && !ran.err.is_empty(), "{ran:?}");
    ran
}

fn has_color(text: &str) -> bool {
    text.contains('\u{1b}')
}

// SPEC K2
#[test]
fn requested_colors_go_through_a_pipe() {
    for no_color in [None, Some("1")] {
        let ran = explained(&["--color=always"], no_color);
        assert!(has_color(&ran.out) && has_color(&ran.err), "{ran:?}");
    }
}

// SPEC K2
#[test]
fn colors_are_off_without_a_terminal_or_if_the_user_disables_them() {
    for (flags, no_color) in [(&["--color=never"] as &[&str], None), (&[], None), (&[], Some("1"))] {
        let ran = explained(flags, no_color);
        assert!(!has_color(&ran.out) && !has_color(&ran.err), "{flags:?}: {ran:?}");
    }
}

/// The output of `explain` to a terminal, both streams together.
fn on_a_terminal(flags: &[&str], no_color: Option<&str>) -> String {
    let place = Place::in_tmp();
    place.write("home/code/project/a", "");
    let mut python = place.command("/usr/bin/python3");
    if let Some(value) = no_color {
        python.env("NO_COLOR", value);
    }
    python.args(["-c", "import pty, sys; pty.spawn(sys.argv[1:])"]).arg(binary()).args(flags).args(["explain", "a"]);
    let ran = Ran::of(&python.current_dir(place.project()).output().unwrap());
    assert!(ran.out.contains("/code/project/a"), "{ran:?}");
    ran.out
}

// SPEC K2
#[test]
fn a_terminal_gets_colours_unless_the_user_disables_them() {
    assert!(has_color(&on_a_terminal(&[], None)));
    assert!(has_color(&on_a_terminal(&[], Some(""))), "an empty variable counts as unset");
    assert!(!has_color(&on_a_terminal(&[], Some("1"))));
    assert!(!has_color(&on_a_terminal(&["--color=never"], None)));
}

/// Help and usage errors obey the flag although they end the parsing of the arguments.
// SPEC K2
#[test]
fn help_and_mistakes_obey_the_color_flag() {
    let place = Place::in_tmp();
    let ran = |words: &[&str]| Ran::of(&place.agent_sandbox().args(words).output().unwrap());
    assert!(has_color(&ran(&["--color=always", "--help"]).out));
    assert!(has_color(&ran(&["--color", "always", "--no-such-flag"]).err));
    assert!(!has_color(&ran(&["--color=never", "--help"]).out) && !has_color(&ran(&["--help"]).out));
}

/// The answer is the same with and without colours.
// SPEC K2
#[test]
fn colors_add_nothing_but_colors() {
    let plain = |text: &str| {
        let mut parts = text.split('\u{1b}');
        let first = parts.next().unwrap_or_default().to_owned();
        first + &parts.map(|part| part.split_once('m').unwrap().1).collect::<String>()
    };
    let place = Place::in_tmp();
    place.write("home/code/project/a", "");
    let ran = |flag: &str| Ran::of(&place.agent_sandbox().args([flag, "explain", "a"]).output().unwrap()).out;
    assert_eq!(plain(&ran("--color=always")), ran("--color=never"));
}
