use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::Place;
use crate::{Ran, ran, run};

#[test]
fn the_commands_own_code_comes_back() {
    assert_eq!(ran(["--", "true"]).code, Some(0));
    for code in [1, 2, 42, 125, 126, 127, 255] {
        let ran = ran(["--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(code), ""));
    }
}

// SPEC S12
#[test]
fn death_by_a_signal_is_128_and_its_number_without_supervision() {
    assert_eq!(ran(["--exec", "--", "sh", "-c", "kill -KILL $$"]).code, Some(128 + 9));
    assert_eq!(ran(["--exec", "--", "sh", "-c", "kill -TERM $$"]).code, Some(128 + 15));
    assert_eq!(ran(["--", "sh", "-c", "kill -TERM $$"]).code, None);
}

// SPEC S1
#[test]
fn every_mistake_on_the_command_line_is_2() {
    let mistakes: &[&[&str]] = &[
        &[],
        &["--"],
        &["--no-such-flag", "--", "true"],
        &["--network=maybe", "--", "true"],
        &["--docker=1", "--", "true"],
        &["--network", "false"],
        &["--network", "true", "--", "x"],
        &["--docker", "true"],
        &["--print-args", "json"],
        &["--print-args=xml", "--", "true"],
        &["--message-format=yaml", "--", "true"],
        &["--config", "a.toml", "--no-project-config", "--", "true"],
        &["--inside", "--", "true"],
        &["--inside", "--print-args"],
        &["--ro"],
        &["--ro", "--", "true"],
        &["-C"],
        &["check", "a.toml", "b.toml"],
        &["check", "--no-such-flag"],
        &["schema", "extra"],
    ];
    let place = Place::in_tmp();
    for words in mistakes {
        let ran = run(&place, *words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words:?}");
        assert!(ran.err.starts_with("error: "), "{words:?}: {}", ran.err);
    }
}

fn assert_own_failure(ran: &Ran, code: &str) {
    assert_eq!((ran.code, ran.codes(), ran.out.as_str()), (Some(125), vec![code], ""));
}

// SPEC S1
#[test]
fn our_own_failure_is_125() {
    let place = Place::in_tmp();
    place.write("home/code/project/bad.toml", "[filesystem]\nexcludes = []\n");
    assert_own_failure(&run(&place, ["-c", "bad.toml", "--", "true"]), "unknown-key");
    assert_own_failure(&run(&place, ["-c", "bad.toml", "--print-args", "--", "true"]), "unknown-key");
    assert_own_failure(&run(&place, ["-c", "gone.toml", "--", "true"]), "missing-config");
    assert_own_failure(&run(&place, ["-C", "gone", "--", "true"]), "invalid-cwd");
    assert_own_failure(&run(&place, ["--exclude", ".", "--", "true"]), "excluded-cwd");
    assert_own_failure(&run(&place, ["--preset", "no-such", "--", "true"]), "unknown-preset");
}

#[test]
fn a_missing_bwrap_is_125() {
    let place = Place::in_tmp();
    let output = place.agent_sandbox().env("PATH", place.path()).args(["--", "/bin/true"]).output().unwrap();
    assert_own_failure(&Ran::of(&output), "bwrap-missing");
}

#[test]
fn a_command_that_cannot_be_executed_is_126() {
    let place = Place::in_tmp();
    place.write("home/code/project/script", "#!/bin/sh\n");
    fs::create_dir(place.project().join("folder")).unwrap();
    for name in ["./script", "./folder"] {
        let ran = run(&place, ["--", name]);
        assert_eq!((ran.code, ran.codes()), (Some(126), vec!["command-not-executable"]), "{name}");
    }
    fs::set_permissions(place.project().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&place, ["--", "./script"]).code, Some(0));
}

// SPEC S1
#[test]
fn a_command_that_is_not_there_is_127() {
    for name in ["no-such-command", "./no-such-command", "/no/such/command", ""] {
        let ran = ran(["--", name]);
        assert_eq!((ran.code, ran.codes()), (Some(127), vec!["command-not-found"]), "{name:?}");
    }
}

#[test]
fn a_command_that_the_sandbox_hides_is_127() {
    let place = Place::in_tmp();
    place.write("tool", "#!/bin/sh\n");
    fs::set_permissions(place.path().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let tool = place.path().join("tool");
    let ran = run(&place, [tool.as_os_str()]);
    assert_eq!((ran.code, ran.codes()), (Some(127), vec!["command-not-found"]));
}

#[test]
fn check_is_0_or_1() {
    let place = Place::in_tmp();
    assert_eq!(run(&place, ["check"]).code, Some(0));
    place.write("home/code/project/.agent-sandbox.toml", "netwrk = false\n");
    assert_eq!(run(&place, ["check"]).code, Some(1));
}

#[test]
fn the_flag_inside_exits_with_0_inside_and_1_outside() {
    // `--check` is its old name.
    for flag in ["--inside", "--check"] {
        let outside = ran([flag]);
        assert_eq!((outside.code, outside.out.as_str()), (Some(1), "outside sandbox\n"));
    }
    let place = Place::outside_tmp();
    let binary = crate::support::binary();
    let inside = run(&place, ["--".as_ref(), binary.as_os_str(), "--inside".as_ref()]);
    assert_eq!((inside.code, inside.out.as_str()), (Some(0), "inside sandbox\n"));
}

#[test]
fn a_sandbox_in_a_sandbox_is_125() {
    let place = Place::outside_tmp();
    let binary = crate::support::binary();
    let nested = run(&place, ["--".as_ref(), binary.as_os_str(), "--".as_ref(), "true".as_ref()]);
    assert_own_failure(&nested, "already-inside");
}

#[test]
fn a_script_printed_without_a_command_reports_that() {
    let place = Place::in_tmp();
    let printed = run(&place, ["-q", "--print-args"]);
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
    let script = place.command("sh").args(["-c", &printed.out]).output().unwrap();
    let ran = crate::Ran::of(&script);
    assert_eq!((ran.code, ran.codes()), (Some(127), vec!["command-not-found"]), "{}", ran.err);
    assert!(ran.err.contains("`agent-sandbox --print-args -- COMMAND [ARGS]…`"), "{}", ran.err);
}
