use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Place, snapshots};
use crate::{Ran, ran, run};

/// Every kind of mistake that a file can hold, from parsing to resolving.
const MISTAKES: &str = r#"netwrk = false
docker = "no"

[filesystem]
presets = ["@lint/rus", "!caches"]
ro = ["src/[a", { path = "gone", if-missing = "error" }]
rw = ["", "/proc", { path = "out/*", if-missing = "create" }]
tmp = "shared"

[presets.secrets]
exclude = ["vault"]
"#;

fn mistaken() -> Place {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", MISTAKES);
    place
}

#[test]
fn every_mistake_of_a_file_is_shown_at_once() {
    let ran = run(&mistaken(), ["check"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("check-many-mistakes", ran.err));
}

// SPEC L8
#[test]
fn a_run_shows_the_same_mistakes_and_starts_nothing() {
    let place = mistaken();
    let checked = run(&place, ["check"]);
    let started = run(&place, ["--", "sh", "-c", "touch started"]);
    assert_eq!((started.code, started.err), (Some(125), checked.err));
    assert!(!place.project().join("started").exists());
}

#[test]
fn check_prints_one_json_object_on_each_line() {
    let place = mistaken();
    let text = run(&place, ["check"]);
    for words in [["--message-format=json", "check"], ["check", "--message-format=json"]] {
        let ran = run(&place, words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
        let objects: Vec<Value> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let codes: Vec<&str> = objects.iter().map(|object| object["code"].as_str().unwrap()).collect();
        assert_eq!(codes, text.codes());
        for object in &objects {
            assert_fields(object);
        }
    }
}

fn assert_fields(object: &Value) {
    let fields: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    let documented =
        ["severity", "code", "message", "file", "line", "column", "end_line", "end_column", "origin", "help"];
    assert_eq!(fields, BTreeSet::from(documented), "{object}");
    assert_eq!((&object["severity"], &object["file"]), (&"error".into(), &".agent-sandbox.toml".into()));
    let number = |field: &str| object[field].as_u64().unwrap();
    // The position marks exactly the mistaken text.
    let line = MISTAKES.lines().nth(number("line") as usize - 1).unwrap();
    let marked: String = line
        .chars()
        .skip(number("column") as usize - 1)
        .take((number("end_column") - number("column")) as usize)
        .collect();
    assert_eq!(number("line"), number("end_line"));
    let mistaken = [
        "netwrk",
        "\"no\"",
        "\"@lint/rus\"",
        "\"!caches\"",
        "\"src/[a\"",
        "\"gone\"",
        "\"\"",
        "\"/proc\"",
        "\"out/*\"",
        "\"shared\"",
        "secrets",
    ];
    assert!(mistaken.contains(&marked.as_str()), "{marked}");
}

#[test]
fn a_mistake_without_a_place_leaves_the_fields_of_the_place_out() {
    let ran = ran(["--message-format=json", "--", "no-such-command"]);
    let object: Value = serde_json::from_str(&ran.err).unwrap();
    let fields: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["code", "help", "message", "severity"]);
}

#[test]
fn a_good_file_is_named() {
    let place = Place::in_tmp();
    let none = run(&place, ["check"]);
    assert_eq!(none.out, "ok: no configuration file, defaults only\n");
    place.write("home/code/project/.agent-sandbox.toml", "network = false\n");
    place.write("home/.config/agent-sandbox/config.toml", "docker = false\n");
    let both = run(&place, ["check"]);
    let home = place.home();
    let expected =
        format!("ok: {0}/.config/agent-sandbox/config.toml, {0}/code/project/.agent-sandbox.toml\n", home.display());
    assert_eq!((both.code, both.err.as_str(), both.out), (Some(0), "", expected));
}

/// The file is compiled for the project in its own folder, and its relative paths start there.
#[test]
fn a_named_file_is_checked_from_anywhere() {
    let place = Place::in_tmp();
    place.write(
        "home/code/other/.agent-sandbox.toml",
        "[filesystem]\nro = [{ path = \"here\", if-missing = \"error\" }]\n",
    );
    let file = "../other/.agent-sandbox.toml";
    let missing = run(&place, ["check", file]);
    assert_eq!((missing.code, missing.codes()), (Some(1), vec!["missing-path"]));
    place.write("home/code/other/here", "");
    let found = run(&place, ["check", file]);
    assert_eq!((found.code, found.err.as_str()), (Some(0), ""));
    assert_eq!(found.out, format!("ok: {}/code/other/.agent-sandbox.toml\n", place.home().display()));
    let mut from_above = place.agent_sandbox();
    from_above.current_dir(place.home().join("code")).args(["check", "other/.agent-sandbox.toml"]);
    assert_eq!(Ran::of(&from_above.output().unwrap()).out, found.out);
    let absolute = place.home().join("code/other/.agent-sandbox.toml");
    assert_eq!(run(&place, ["check".as_ref(), absolute.as_os_str()]).out, found.out);
}

#[test]
fn a_named_file_must_exist() {
    for file in ["gone.toml", "gone/gone.toml"] {
        let ran = ran(["check", file]);
        assert_eq!((ran.code, ran.codes()), (Some(1), vec!["missing-config"]), "{file}");
    }
}

/// A diagnostic names the file by its path from the caller's directory.
#[test]
fn a_named_file_is_shown_from_where_the_caller_is() {
    let place = Place::in_tmp();
    place.write("home/code/project/sub/p.toml", "netwrk = false\n");
    for (words, name) in [
        (&["check", "sub/p.toml"][..], "sub/p.toml:1:1"),
        (&["--config", "sub/p.toml", "check"], "sub/p.toml:1:1"),
        (&["-C", "sub", "check", "p.toml"], "p.toml:1:1"),
        (&["-C", "sub", "--config", "p.toml", "check"], "p.toml:1:1"),
    ] {
        let ran = run(&place, words);
        assert_eq!((ran.code, ran.codes()), (Some(1), vec!["unknown-key"]), "{words:?}");
        assert!(ran.err.contains(&format!("--> {name}\n")), "{words:?}: {}", ran.err);
    }
}

#[test]
fn check_with_a_folder_reads_the_project_file_in_it() {
    let place = Place::in_tmp();
    place.write("home/code/project/sub/keep", "");
    for folder in [".", "sub", "sub/"] {
        let ran = run(&place, ["check", folder]);
        assert_eq!((ran.code, ran.codes()), (Some(1), vec!["missing-config"]), "{folder}");
        assert!(ran.err.contains("/.agent-sandbox.toml` does not exist"), "{}", ran.err);
    }
    place.write("home/code/project/.agent-sandbox.toml", "network = false\n");
    for folder in [".", "sub/.."] {
        let ran = run(&place, ["check", folder]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{folder}");
    }
}

#[test]
fn warnings_are_shown_and_are_no_failure() {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nro = [\"a[b]\"]\n");
    place.write("home/code/project/a[b]", "");
    place.write("home/code/project/ab", "");
    let ran = run(&place, ["check"]);
    assert_eq!((ran.code, ran.codes()), (Some(0), vec!["ambiguous-pattern"]));
    assert!(ran.out.starts_with("ok: "));
}

#[test]
fn rules_that_match_nothing_are_counted() {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nro = ['gone', '*.none', '.']\n");
    let ran = run(&place, ["check"]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.out.ends_with(".agent-sandbox.toml (2 rules match nothing here; see `agent-sandbox lint`)\n"),
        "{ran:?}"
    );
}

// SPEC S6
#[test]
fn checking_needs_no_bwrap_and_creates_nothing() {
    let place = Place::in_tmp();
    let toml = "[filesystem]\nrw = [{ path = \"made\", if-missing = \"create\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    let output = place.agent_sandbox().env("PATH", place.path()).arg("check").output().unwrap();
    assert_eq!(Ran::of(&output).code, Some(0));
    assert!(!place.project().join("made").exists());
}

/// The document that `agent-sandbox schema WHAT` describes, and the name of the file in `schema/`.
const SCHEMAS: &[(&str, &str)] = &[
    ("config", "agent-sandbox"),
    ("diff", "diff"),
    ("doctor", "doctor"),
    ("explain", "explain"),
    ("lint", "lint"),
    ("private", "private"),
    ("report", "report"),
    ("show", "show"),
    ("trust", "trust"),
    ("verify", "verify"),
];

#[test]
fn the_schema_in_the_tree_is_the_one_that_is_printed() {
    for (what, file) in SCHEMAS {
        let printed = ran(["schema", what]);
        assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
        let parsed: Value = serde_json::from_str(&printed.out).unwrap();
        jsonschema::meta::validate(&parsed).unwrap();
        let kept = std::fs::read_to_string(format!("{}/schema/{file}.schema.json", env!("CARGO_MANIFEST_DIR")));
        assert!(
            kept.unwrap() == printed.out,
            "the schema is stale: cargo run -- schema {what} > schema/{file}.schema.json"
        );
    }
    assert_eq!(ran(["schema"]).out, ran(["schema", "config"]).out);
}

/// Asserts that an answer in JSON fits its schema.
#[track_caller]
pub fn assert_fits(what: &str, answer: &Value) {
    let schema: Value = serde_json::from_str(&ran(["schema", what]).out).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(answer).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(mistakes.is_empty(), "{mistakes:?} in {answer:#}");
}
