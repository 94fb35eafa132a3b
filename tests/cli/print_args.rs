use std::fs;

use serde_json::Value;

use crate::support::Place;
use crate::{ran, run};

/// A command that no form can carry without care.
const AWKWARD: [&str; 5] = ["printf", "%s|", "two words", "it's\n", "a\\b"];

fn print(place: &Place, form: &str) -> String {
    let flags = ["--exclude", "it's [hidden]", "--rw", "made\nup", form, "--"];
    let ran = run(place, flags.into_iter().chain(AWKWARD));
    assert_eq!((ran.code, ran.codes()), (Some(0), vec![]), "{form}");
    ran.out
}

fn awkward() -> Place {
    let place = Place::in_tmp();
    place.write("home/code/project/it's [hidden]", "");
    fs::create_dir(place.project().join("made\nup")).unwrap();
    place
}

fn words(place: &Place) -> Vec<String> {
    let out = print(place, "--print-args=nul");
    out.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
}

#[test]
fn every_form_carries_the_same_words() {
    let place = awkward();
    let words = words(&place);
    let command = words.iter().rposition(|word| word == "--").unwrap();
    assert_eq!(words[command + 1..], AWKWARD);

    assert_eq!(shell_words::split(&print(&place, "--print-args=shell")).unwrap(), words);
    let lines = print(&place, "--print-args=lines");
    let unescaped = |line: &str| line.replace("\\\\", "\0").replace("\\n", "\n").replace('\0', "\\");
    assert_eq!(lines.lines().map(unescaped).collect::<Vec<_>>(), words);
    let json: Value = serde_json::from_str(&print(&place, "--print-args=json")).unwrap();
    assert_eq!(json["argv"], Value::from(words.clone()));
    assert_eq!(json["create"], Value::from(Vec::<String>::new()));
}

#[test]
fn without_a_form_it_is_the_shells() {
    let place = awkward();
    assert_eq!(print(&place, "--print-args"), print(&place, "--print-args=shell"));
}

#[test]
fn annotated_words_are_those_of_the_shell_with_reasons() {
    let place = Place::in_tmp();
    let shell = run(&place, ["--print-args=shell", "--", "true"]).out;
    let annotated = run(&place, ["--print-args=annotated", "--", "true"]).out;
    assert_eq!(
        shell_words::split(
            &annotated.replace(" # ", "\n# ").lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n")
        )
        .unwrap(),
        shell_words::split(&shell).unwrap()
    );
    let operations = annotated.lines().filter(|line| line.starts_with("  --") && !line.starts_with("  -- "));
    for line in operations {
        assert!(line.contains(" # "), "a reason in {line:?}");
    }
}

#[test]
fn the_printed_script_runs_as_it_is() {
    let place = Place::in_tmp();
    place.write("home/code/project/secret", "secret");
    let script = "cat secret 2>/dev/null && exit 1; echo \"it's $1\" > made; exit 42";
    let printed = run(&place, ["--exclude", "secret", "--print-args", "--", "sh", "-c", script, "sh", "a b"]).out;
    let status = place.command("sh").args(["-c", &printed]).status().unwrap();
    assert_eq!(status.code(), Some(42));
    assert_eq!(fs::read_to_string(place.project().join("made")).unwrap(), "it's a b\n");
}

#[test]
fn printing_needs_no_command_and_changes_nothing() {
    let place = Place::in_tmp();
    let toml = "[filesystem]\nrw = [{ path = \"made\", if-missing = \"create\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    let ran = run(&place, ["--print-args"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.starts_with("mkdir -p -m 0700 -- "), "{}", ran.out);
    assert!(!place.project().join("made").exists());
    assert_eq!(run(&place, ["true"]).code, Some(0));
    assert!(place.project().join("made").is_dir());
}

#[test]
fn a_command_that_does_not_exist_can_still_be_printed() {
    let ran = ran(["--print-args", "--", "no-such-command"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.ends_with("-- no-such-command\n"));
}
