use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::run;
use crate::support::{Place, snapshots};

const FILE: &str = "home/code/project/.agent-sandbox.toml";

fn widening() -> Place {
    let place = Place::in_tmp();
    place.write("home/data/file", "host");
    place.write("home/code/project/.env", "SECRET=1");
    place.write(FILE, "[filesystem]\npresets = [\"!@secrets\"]\nrw = [\"~/data\"]\n");
    place
}

/// Without what differs from run to run.
fn stable(text: &str, place: &Place) -> String {
    let text = text.replace(place.path().to_str().unwrap(), "/PLACE");
    let records = fs::read_dir(place.home().join(".local/state/agent-sandbox/trust")).into_iter().flatten();
    records.fold(text, |text, record| text.replace(record.unwrap().file_name().to_str().unwrap(), "HASH.json"))
}

#[test]
fn trust_shows_what_it_records() {
    let place = widening();
    let trusted = run(&place, ["trust"]);
    assert_eq!((trusted.code, trusted.err.as_str()), (Some(0), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("trust", stable(&trusted.out, &place)));
    let records: Vec<_> = fs::read_dir(place.home().join(".local/state/agent-sandbox/trust")).unwrap().collect();
    assert_eq!(records.len(), 1, "nothing else is left there");
    let record: Value = serde_json::from_slice(&fs::read(records[0].as_ref().unwrap().path()).unwrap()).unwrap();
    let fields: Vec<&String> = record.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["file", "grants", "sha256", "version"]);
    assert_eq!(run(&place, ["--", "cat", ".env"]).out, "SECRET=1");
}

#[test]
fn a_file_that_opens_nothing_is_not_recorded() {
    let place = Place::in_tmp();
    let nothing = |said: &str| {
        let ran = run(&place, ["trust"]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), said, ""));
        assert!(!place.home().join(".local").exists());
    };
    nothing("there is no project file here that says anything: nothing to trust\n");
    place.write(FILE, "network = false\n");
    nothing(".agent-sandbox.toml opens nothing beyond your own settings: nothing to trust, nothing was recorded\n");
}

#[test]
fn a_file_with_mistakes_is_not_trusted() {
    let place = widening();
    place.write(FILE, "[filesystem]\nrw = [\"~/data\"]\nexclud = [\"x\"]\n");
    let ran = run(&place, ["trust"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.codes()), (Some(125), "", vec!["unknown-key"]));
    assert!(!place.home().join(".local").exists());
}

/// Who looks is told, and sees everything all the same.
#[test]
fn audit_forms_warn_where_a_run_is_refused() {
    let place = widening();
    let refused = run(&place, ["--", "true"]);
    assert_eq!((refused.code, refused.codes()), (Some(125), vec!["untrusted-policy"]));
    let as_warning = refused.err.replace("error[untrusted-policy]", "warning[widening-policy]");
    for words in [&["check"][..], &["--print-args"], &["--print-args=json", "--", "true"]] {
        let ran = run(&place, words);
        assert_eq!((ran.code, &ran.err), (Some(0), &as_warning), "{words:?}");
        assert!(!ran.out.is_empty());
        assert_eq!(run(&place, ["-q"].iter().chain(words)).err, "");
    }
    let debug = run(&place, ["-q", "--debug", "--print-args"]).err;
    assert!(debug.contains("\nopened by .agent-sandbox.toml:\n  preset `@secrets`: on → off"), "{debug}");
    place.trust();
    for words in [&["check"][..], &["--print-args"], &["--", "true"]] {
        let ran = run(&place, words);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
    }
    assert!(run(&place, ["--debug", "--", "true"]).err.contains("\nopened by .agent-sandbox.toml:\n"));
}

#[test]
fn a_long_list_is_cut_for_people_and_whole_for_tools_and_for_trust() {
    let place = Place::in_tmp();
    for number in 10..35 {
        place.write(format!("home/data/{number}"), "");
    }
    place.write(FILE, "[filesystem]\nrw = [\"~/data/*\"]\n");
    let text = run(&place, ["--", "true"]).err;
    assert_eq!(text.matches(": read-only → writable (").count(), 20, "{text}");
    assert!(text.contains("/data/29`: ") && !text.contains("/data/30`: "), "{text}");
    assert!(text.contains("= note: … and 5 more; `--message-format=json` shows all\n"), "{text}");
    let object: Value = serde_json::from_str(&run(&place, ["--message-format=json", "--", "true"]).err).unwrap();
    assert_eq!(object["notes"].as_array().unwrap().len(), 25);
    assert_eq!(run(&place, ["trust"]).out.matches(": read-only → writable (").count(), 25);
}

/// Flags of the policy go with it as with a run; which file it is about is no question.
#[test]
fn trust_takes_the_flags_of_a_policy_but_no_other_file() {
    let place = widening();
    let with_flags = run(&place, ["--preset", "!secrets", "--rw", "../../data", "trust"]);
    assert!(with_flags.out.contains("opens nothing beyond"), "{}{}", with_flags.out, with_flags.err);
    for flags in [&["--config", "x"][..], &["--no-project-config"], &["--allow-root"], &["--no-optimize"]] {
        let ran = run(&place, flags.iter().chain(&["trust"]));
        assert_eq!(ran.code, Some(2), "{flags:?}");
        assert!(ran.err.contains("does not go with the subcommand `trust`"), "{}", ran.err);
    }
    assert!(!place.home().join(".local").exists());
}

#[test]
fn a_folder_that_is_not_ours_takes_no_record() {
    let place = widening();
    let state = place.home().join(".local/state/agent-sandbox");
    fs::create_dir_all(&state).unwrap();
    place.give_away();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = run(&place, ["trust"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.codes()), (Some(125), "", vec!["trust-failed"]));
    assert!(ran.err.contains("others can write there"), "{}", ran.err);
}

/// A repository could bring the consent along.
#[test]
fn a_state_folder_in_the_project_holds_no_consent() {
    let place = widening();
    place.trust();
    let copied = place.command("cp").args(["-r", "../../.local/state", "state"]).status().unwrap();
    assert!(copied.success());
    let with_state = |words: &[&str]| {
        let state = place.project().join("state");
        crate::Ran::of(&place.agent_sandbox().env("XDG_STATE_HOME", state).args(words).output().unwrap())
    };
    for (words, code) in [(&["--", "true"][..], "untrusted-policy"), (&["trust"], "trust-failed")] {
        let ran = with_state(words);
        assert_eq!((ran.code, ran.out.as_str(), ran.codes()), (Some(125), "", vec![code]));
        assert!(ran.err.contains("it lies in the project itself"), "{}", ran.err);
    }
}
