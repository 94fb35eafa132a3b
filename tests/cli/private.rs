//! `agent-sandbox private`.

use serde_json::Value;

use crate::run;
use crate::support::{Place, require_bwrap};

fn stable(text: &str, place: &Place) -> String {
    text.replace(place.path().to_str().unwrap(), "/PLACE")
}

// SPEC Q10
#[test]
fn copies_are_listed_shown_and_forgotten() {
    require_bwrap();
    let place = Place::in_tmp();
    assert_eq!(run(&place, ["private", "list"]).out, "no project has a copy of a private file\n");
    place.write("home/.tool/a.json", "{\"x\": 1}");
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nprivate = [\"~/.tool/a.json\"]\n");
    let script = "printf '{\"x\": 2, \"y\": [3]}' >~/.tool/a.json";
    let ran = run(&place, ["--", "sh", "-c", script]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("warning[private-kept]: `x` and `y`"), "{}", ran.err);
    let list = run(&place, ["private", "list"]);
    let listed = "project /PLACE/home/code/project\n  /PLACE/home/.tool/a.json: 2 keys of the copy differ from the host's file\n";
    assert_eq!(stable(&list.out, &place), listed);
    let file = place.home().join(".tool/a.json");
    let file = file.to_str().unwrap();
    let shown = "/PLACE/home/.tool/a.json\n  x: `1` on the host, `2` in the copy\n  y: nothing on the host, `[3]` in the copy\n";
    for words in [vec!["private", "show"], vec!["private", "show", file]] {
        assert_eq!(stable(&run(&place, words).out, &place), shown);
    }
    assert_eq!(run(&place, ["private", "show", "other"]).out, "this project has no such copy\n");
    let json = run(&place, ["private", "show", "--json"]);
    let answer: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(answer["copies"][0]["changes"][0]["key"], "x", "{answer:#}");
    let schema: Value = serde_json::from_str(&run(&place, ["schema", "private"]).out).unwrap();
    jsonschema::validate(&schema, &answer).unwrap();
    let missing = run(&place, ["private", "forget", "other"]);
    assert_eq!((missing.code, missing.out.contains("there is no copy of")), (Some(1), true));
    for (words, said) in [
        (vec!["private", "forget"], "needs a FILE or --project"),
        (vec!["private", "forget", "--json", file], "has no JSON form"),
    ] {
        let refused = run(&place, words);
        assert_eq!((refused.code, refused.err.contains(said)), (Some(125), true), "{}", refused.err);
    }
    let forgotten = run(&place, ["private", "forget", file]);
    assert_eq!(
        (forgotten.code, stable(&forgotten.out, &place).as_str()),
        (Some(0), "forgotten /PLACE/home/.tool/a.json\n")
    );
    assert_eq!(run(&place, ["--", "cat", file]).out, "{\"x\": 1}", "the next run starts with the host's file");
}

/// The list includes copies of a project that is gone, and copies whose notes are damaged.
// SPEC Q10
#[test]
fn copies_of_other_projects_can_be_listed_and_dropped() {
    require_bwrap();
    let place = Place::in_tmp();
    place.write("home/.tool/a.json", "{}");
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nprivate = [\"~/.tool/*.json\"]\n");
    let old = place.home().join("code/old");
    place.write(old.join(".agent-sandbox.toml"), "");
    let mut command = place.agent_sandbox();
    let script = "echo '{\"x\": 1}' >~/.tool/a.json";
    let ran = command.current_dir(&old).args(["--", "sh", "-c", script]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    std::fs::remove_dir_all(&old).unwrap();
    std::fs::remove_file(place.home().join(".tool/a.json")).unwrap();
    let list = || stable(&run(&place, ["private", "list"]).out, &place);
    assert_eq!(
        list(),
        "project /PLACE/home/code/old, which is gone\n  \
         /PLACE/home/.tool/a.json: 1 key of the copy differs; the host has no such file\n"
    );
    let old = old.to_str().unwrap();
    let shown = run(&place, ["private", "show", "--project", old]);
    assert!(shown.out.contains("  x: nothing on the host, `1` in the copy\n"), "{}", shown.out);
    let stored = place.home().join(".local/state/agent-sandbox/private");
    let notes: Vec<_> = files_below(&stored).into_iter().filter(|path| path.ends_with("about.json")).collect();
    assert_eq!(notes.len(), 1);
    std::fs::write(&notes[0], "damaged").unwrap();
    assert!(list().contains("the copy cannot be compared: our notes cannot be read"), "{}", list());
    let forgotten = run(&place, ["private", "forget", "--project", old]);
    assert_eq!(stable(&forgotten.out, &place), "forgotten: all copies of /PLACE/home/code/old\n");
    assert_eq!(list(), "no project has a copy of a private file\n");
    let left: Vec<_> = files_below(&stored).into_iter().filter(|path| !path.starts_with(stored.join("held"))).collect();
    assert!(left.iter().all(|path| path.ends_with("lock")), "{left:?}");
    let again = run(&place, ["private", "forget", "--project", old]);
    assert_eq!((again.code, again.out.contains("there is no copy of")), (Some(1), true));
}

/// All files below a folder.
fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

// SPEC Q5, Q10
#[test]
fn a_file_without_keys_is_one_content() {
    require_bwrap();
    let place = Place::in_tmp();
    place.write("home/.tool/text", "one\n");
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nprivate = [\"~/.tool/text\"]\n");
    let ran = run(&place, ["--", "sh", "-c", "echo two >~/.tool/text"]);
    let said = stable(&ran.err, &place);
    assert!(said.contains("]: the new content of `/PLACE/home/.tool/text` stays in the sandbox's copy\n"), "{said}");
    assert!(
        said.contains("note: outside: write /PLACE/home/.tool/text yourself; `agent-sandbox private show` has"),
        "{said}"
    );
}

// SPEC Q10
#[test]
fn a_copy_of_a_removed_worktree_is_listed_only_if_it_differs() {
    require_bwrap();
    let place = Place::in_tmp();
    for file in ["same.json", "other.json"] {
        place.write(format!("home/.tool/{file}"), "{}");
    }
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nprivate = [\"~/.tool/*.json\"]\n");
    let ran = run(&place, ["--", "sh", "-c", "echo '{\"x\": 1}' >~/.tool/other.json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let list = || run(&place, ["private", "list"]).out;
    assert!(list().ends_with("1 copy is the same as the host's file\n"), "{}", list());
    std::fs::remove_dir_all(place.home().join(".tool")).unwrap();
    assert!(!list().contains("same as") && list().contains("/other.json: 1 key"), "{}", list());
}

#[test]
fn without_an_action_the_actions_are_named() {
    let ran = crate::ran(["private"]);
    assert!(ran.code == Some(2) && ran.err.contains("<list|show|forget>"), "{ran:?}");
}
