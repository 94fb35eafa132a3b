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

/// The text without the parts that differ from run to run.
fn stable(text: &str, place: &Place) -> String {
    let text = text.replace(place.path().to_str().unwrap(), "/PLACE");
    let records = fs::read_dir(place.home().join(".local/state/agent-sandbox/trust")).into_iter().flatten();
    records.fold(text, |text, record| text.replace(record.unwrap().file_name().to_str().unwrap(), "HASH.json"))
}

// SPEC T5
#[test]
fn trust_shows_what_it_records() {
    let place = widening();
    let trusted = run(&place, ["trust", "--yes"]);
    assert_eq!((trusted.code, trusted.err.as_str()), (Some(0), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("trust", stable(&trusted.out, &place)));
    let records: Vec<_> = fs::read_dir(place.home().join(".local/state/agent-sandbox/trust")).unwrap().collect();
    assert_eq!(records.len(), 1, "nothing else is left there");
    let record: Value = serde_json::from_slice(&fs::read(records[0].as_ref().unwrap().path()).unwrap()).unwrap();
    let fields: Vec<&String> = record.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["file", "grants", "sha256", "version"]);
    assert_eq!(run(&place, ["--", "cat", ".env"]).out, "SECRET=1");
    // `trust` does not ask again for a consent that is in force.
    let again = run(&place, ["trust"]);
    assert_eq!((again.code, again.err.as_str()), (Some(0), ""));
    let said = "you have agreed to all that .agent-sandbox.toml opens; `agent-sandbox trust --list` shows it\n";
    assert_eq!(again.out, said);
}

// SPEC T5
#[test]
fn trust_without_a_terminal_needs_yes() {
    let place = widening();
    let ran = run(&place, ["trust"]);
    assert_eq!((ran.code, ran.codes()), (Some(125), vec!["trust-failed"]));
    assert!(ran.out.contains(" opens:\n") && !ran.out.contains("recorded"), "{}", ran.out);
    assert!(ran.err.contains("standard input is no terminal") && ran.err.contains("trust --yes"), "{}", ran.err);
    assert!(!place.home().join(".local").exists());
}

// SPEC T5
#[test]
fn a_file_that_opens_nothing_is_not_recorded() {
    let place = Place::in_tmp();
    let nothing = |said: &str| {
        let ran = run(&place, ["trust"]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), said, ""));
        assert!(!place.home().join(".local").exists());
    };
    nothing("no file of this project sets anything: nothing to trust\n");
    place.write(FILE, "network = false\n");
    nothing(".agent-sandbox.toml opens nothing beyond your own settings: nothing to trust, nothing was recorded\n");
}

// SPEC T5
#[test]
fn a_file_with_mistakes_is_not_trusted() {
    let place = widening();
    place.write(FILE, "[filesystem]\nrw = [\"~/data\"]\nexclud = [\"x\"]\n");
    let ran = run(&place, ["trust"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.codes()), (Some(125), "", vec!["unknown-key"]));
    assert!(!place.home().join(".local").exists());
}

/// Commands that start no sandbox warn about the missing consent, and still answer.
// SPEC T4
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
    assert_eq!(run(&place, ["trust", "--yes"]).out.matches(": read-only → writable (").count(), 25);
}

/// The advised command has the flags of the refused run, because consent covers their effect.
// SPEC T4
#[test]
fn the_advised_trust_command_makes_the_same_run_start() {
    let place = Place::in_tmp();
    place.write("home/data/file", "host");
    place.write("home/code/project/sub dir/.agent-sandbox.toml", "[presets.mine]\nrw = [\"~/data\"]\n");
    let flags = ["-C", "sub dir", "--preset", "mine", "--network=false"];
    let refused = run(&place, flags.iter().chain(&["--", "true"]));
    assert_eq!((refused.code, refused.codes()), (Some(125), vec!["untrusted-policy"]));
    let typed = "agent-sandbox -C 'sub dir' --preset mine --network=false trust";
    assert!(refused.err.contains(&format!("= help: record your consent with `{typed}`")), "{}", refused.err);
    let script = typed.replacen("agent-sandbox", crate::support::binary().to_str().unwrap(), 1) + " --yes";
    let agreed = crate::Ran::of(&place.command("/bin/sh").args(["-c", &script]).output().unwrap());
    assert_eq!((agreed.code, agreed.err.as_str()), (Some(0), ""));
    let same: Vec<&str> = refused.err.lines().filter_map(|line| line.trim().strip_prefix("= note: ")).collect();
    let listed: Vec<&str> = agreed.out.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert_eq!(same, listed, "the list is the same");
    assert_eq!(run(&place, flags.iter().chain(&["--", "true"])).code, Some(0));
}

// SPEC T8
#[test]
fn consents_are_listed_with_the_state_of_their_files() {
    let place = widening();
    let list = || run(&place, ["trust", "--list"]);
    assert_eq!((list().code, list().out.as_str()), (Some(0), "no consents\n"));
    assert!(!place.home().join(".local").exists(), "looking makes nothing");
    place.trust();
    let other = "home/code/other/.agent-sandbox.toml";
    let gone = "home/code/gone/.agent-sandbox.toml";
    for file in [other, gone] {
        place.write(file, "[filesystem]\nrw = [\"~/data\"]\n");
        let folder = place.path().join(file).parent().unwrap().to_owned();
        assert_eq!(run(&place, ["-C", folder.to_str().unwrap(), "trust", "--yes"]).code, Some(0));
    }
    place.write(other, "[filesystem]\nrw = []\n");
    fs::remove_file(place.path().join(gone)).unwrap();
    place.write("home/.local/state/agent-sandbox/trust/forged.json", "{}");
    let listed = list();
    assert_eq!((listed.code, listed.err.as_str()), (Some(0), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("trust-list", stable(&listed.out, &place)));
    let json: Value = serde_json::from_str(&run(&place, ["trust", "--list", "--json"]).out).unwrap();
    crate::check::assert_fits("trust", &json);
    let status: Vec<&str> =
        json["consents"].as_array().unwrap().iter().map(|c| c["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["gone", "changed", "in-force"]);
    assert_eq!(json["unusable"][0]["because"], "it is damaged");
}

// SPEC T9
#[test]
fn consent_is_taken_back() {
    let place = widening();
    let none = run(&place, ["trust", "--revoke"]);
    assert_eq!((none.code, none.err.as_str()), (Some(1), ""));
    assert!(none.out.starts_with("there was no consent to ") && none.out.contains(FILE), "{}", none.out);
    // Consent is revoked for the project, the file, its folder, and a file that is gone.
    let project = place.project();
    let absolute = place.path().join(FILE);
    for words in
        [&["trust", "--revoke"][..], &["trust", "--revoke", absolute.to_str().unwrap()], &["trust", "--revoke", "."]]
    {
        place.trust();
        assert_eq!(run(&place, ["--", "true"]).code, Some(0));
        let revoked = run(&place, words);
        assert_eq!((revoked.code, revoked.err.as_str()), (Some(0), ""), "{words:?}");
        assert!(revoked.out.starts_with("revoked: "), "{}", revoked.out);
        assert_eq!(run(&place, ["--", "true"]).codes(), ["untrusted-policy"], "{words:?}");
    }
    place.trust();
    fs::remove_file(project.join(".agent-sandbox.toml")).unwrap();
    assert_eq!(run(&place, ["trust", "--revoke", absolute.to_str().unwrap()]).code, Some(0));
    assert_eq!(run(&place, ["trust", "--list"]).out, "no consents\n");
    for words in [&["--rw", "x", "trust", "--list"][..], &["--network", "trust", "--revoke"], &["trust", "--json"]] {
        assert_eq!(run(&place, words).code, Some(2), "{words:?}");
    }
    assert_eq!(run(&place, ["trust", "--list", "--revoke"]).code, Some(2));
}

/// agent-sandbox removes neither the target of a link in the place of a record, nor anything in a
/// folder that others can write.
// SPEC T8, T9
#[test]
fn only_records_of_our_own_are_removed() {
    let place = widening();
    place.trust();
    let folder = place.home().join(".local/state/agent-sandbox/trust");
    let record = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let precious = place.home().join("precious.json");
    fs::rename(&record, &precious).unwrap();
    std::os::unix::fs::symlink(&precious, &record).unwrap();
    place.give_away();
    let listed = run(&place, ["trust", "--list"]).out;
    assert!(listed.contains("no consent: too many"), "{listed}");
    assert_eq!(run(&place, ["trust", "--revoke"]).code, Some(0));
    assert!(precious.exists() && record.symlink_metadata().is_err());
    place.trust();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    for words in [["trust", "--revoke"], ["trust", "--list"]] {
        let ran = run(&place, words);
        assert_eq!((ran.code, ran.codes()), (Some(125), vec!["trust-failed"]), "{words:?}");
        assert!(ran.err.contains("others can write there"), "{}", ran.err);
    }
    assert!(record.exists());
    // A link to another folder replaces the folder of the records.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let moved = place.home().join("moved");
    fs::rename(&folder, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &folder).unwrap();
    place.give_away();
    assert_eq!(run(&place, ["trust", "--revoke"]).codes(), ["trust-failed"]);
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 1);
}

/// `trust` takes the policy flags of a run, but no flag that chooses the file.
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

// SPEC T7
#[test]
fn a_folder_that_is_not_ours_takes_no_record() {
    let place = widening();
    let state = place.home().join(".local/state/agent-sandbox");
    fs::create_dir_all(&state).unwrap();
    place.give_away();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    let ran = run(&place, ["trust", "--yes"]);
    assert_eq!((ran.code, ran.codes()), (Some(125), vec!["trust-failed"]));
    assert!(!ran.out.contains("recorded"), "{}", ran.out);
    assert!(ran.err.contains("others can write there"), "{}", ran.err);
}

/// A repository could contain its own consent.
// SPEC T7
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
    for (words, code) in [(&["--", "true"][..], "untrusted-policy"), (&["trust", "--yes"], "trust-failed")] {
        let ran = with_state(words);
        assert_eq!((ran.code, ran.codes()), (Some(125), vec![code]));
        assert!(!ran.out.contains("recorded"), "{}", ran.out);
        assert!(ran.err.contains("it lies in the project itself"), "{}", ran.err);
    }
}
