use serde_json::Value;

use crate::support::{Place, snapshots};
use crate::{ran, run};

const POLICY: &str = r#"[filesystem]
exclude = ["deploy/keyz", "**/*.p12"]
rw = ["src"]
ro = ["src"]
"#;

fn place() -> Place {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", POLICY);
    place.write("home/code/project/src/server.key", "-----BEGIN PRIVATE KEY-----\ns3cr3t\n");
    place
}

// SPEC N1
#[test]
fn lint_prints_findings_and_exits_with_1() {
    let place = place();
    let ran = run(&place, ["lint"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert!(!ran.out.contains("s3cr3t"));
    let out = ran.out.replace(place.path().to_str().unwrap(), "/place");
    snapshots("cli").bind(|| insta::assert_snapshot!("lint", out));
}

// SPEC N1
#[test]
fn lint_exits_with_0_if_there_are_only_notes() {
    let place = place();
    let words = ["unblocked-path", "shadowed-rule", "visible-secret"].into_iter().flat_map(|code| ["--allow", code]);
    let notes = run(&place, ["lint"].into_iter().chain(words));
    assert_eq!((notes.code, notes.out.lines().last()), (Some(0), Some("1 note")));
    let nothing = ran(["lint"]);
    assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.as_str()), (Some(0), "nothing found\n", ""));
}

#[test]
fn a_code_that_does_not_exist_is_a_mistake() {
    let ran = ran(["lint", "--allow", "unusd-rule"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("did you mean `unused-rule`?"), "{}", ran.err);
    let other = crate::ran(["lint", "--allow", "foo"]);
    assert_eq!(other.code, Some(2));
    assert!(
        other.err.contains("`shadowed-rule`, `unused-rule`, ") && other.err.contains("`writable-path`"),
        "{}",
        other.err
    );
}

#[test]
fn tools_get_all_findings_in_one_object() {
    let place = place();
    let text = run(&place, ["lint"]);
    let count = text.out.lines().filter(|line| line.starts_with("warning[")).count() as u64;
    for words in [["lint", "--json"], ["lint", "--format=json"]] {
        let ran = run(&place, words);
        assert_eq!(ran.code, Some(1));
        let value: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(value["warnings"].as_u64(), Some(count));
    }
    let sarif: Value = serde_json::from_str(&run(&place, ["lint", "--format", "sarif"]).out).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    assert!(sarif["runs"][0]["results"].as_array().unwrap().len() as u64 > count);
}

/// An error that stops a run is a finding, too, so that one command reports everything.
// SPEC N1
#[test]
fn mistakes_are_findings() {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", "netwrk = false\n");
    let ran = run(&place, ["lint", "--allow", "unknown-key", "--json"]);
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (ran.code, &value["findings"][0]["code"], &value["errors"]),
        (Some(1), &"unknown-key".into(), &1.into())
    );
}

// SPEC S6, N9
#[test]
fn lint_creates_nothing() {
    let place = Place::in_tmp();
    place.renew_home();
    let toml = "[filesystem]\nrw = [{ path = \"made\", if-missing = \"create\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    assert_eq!(run(&place, ["lint"]).code, Some(0));
    assert!(!place.project().join("made").exists() && !place.home().join(".cache").exists());
}

#[test]
fn a_mistyped_subcommand_is_recognised() {
    for (typed, meant) in [("explian", "explain"), ("lnt", "lint"), ("inti", "init")] {
        for words in [vec![typed, "x"], vec!["--no-guard", "--", typed]] {
            let ran = run(&Place::in_tmp(), words);
            assert_eq!((ran.code, ran.codes()), (Some(127), vec!["command-not-found"]));
            assert!(ran.err.contains(&format!("did you mean `agent-sandbox {meant}`?")), "{}", ran.err);
        }
    }
    let other = run(&Place::in_tmp(), ["nothing-like-it"]);
    assert!(!other.err.contains("did you mean"), "{}", other.err);
}

#[test]
fn lint_reports_missing_consent_but_counts_no_finding() {
    let place = Place::in_tmp();
    place.write("home/data/file", "");
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nrw = ['~/data']\n");
    let before = run(&place, ["lint"]);
    assert_eq!((before.code, before.out.as_str()), (Some(0), "nothing found\n"));
    assert_eq!(before.codes(), ["widening-policy"]);
    place.trust();
    assert_eq!(run(&place, ["lint"]).err, "");
}

// SPEC N2, M1
#[test]
fn a_read_only_rule_in_a_hidden_folder_opens() {
    let place = Place::in_tmp();
    place.write("home/closed/tool", "");
    let policy = "[filesystem]\nexclude = [\"~/closed\"]\nro = [\"~/closed/tools\"]\n";
    place.write("home/code/project/.agent-sandbox.toml", policy);
    let ran = run(&place, ["lint"]);
    assert!(ran.out.contains("note[unused-rule]: `~/closed/tools` does not exist, so nothing is shown\n"), "{ran:?}");
    let ran = run(&place, ["explain", "."]);
    assert!(!ran.err.contains("did you mean"), "{ran:?}");
}
