use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::Value;

use crate::support::Place;
use crate::{Ran, ran, run};

/// The output for tools, after it was validated against its schema.
pub(crate) fn checked(what: &str, ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    let schema: Value = serde_json::from_str(&crate::ran(["schema", what]).out).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(mistakes.is_empty(), "{mistakes:?}");
    value
}

/// All paths below a place, each with its mode and content.
pub(crate) fn everything(place: &Place) -> Vec<(PathBuf, u32, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut folders = vec![place.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap();
            if kind.is_dir() {
                folders.push(path.clone());
            }
            let content = kind.is_file().then(|| fs::read(&path).unwrap());
            found.push((path, kind.permissions().mode(), content));
        }
    }
    found.sort();
    found
}

fn access(place: &Place, words: &[&str]) -> String {
    let value = checked("explain", &run(place, words));
    value["paths"][0]["access"].as_str().unwrap().to_owned()
}

#[test]
fn a_path_must_be_given() {
    let ran = ran(["explain"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("<PATH>"), "{}", ran.err);
}

// SPEC X6
#[test]
fn the_change_that_gives_more_access_is_named() {
    let place = Place::in_tmp();
    for path in [".env", "kept", "own", ".git/config", ".git/HEAD"] {
        place.write(format!("home/code/project/{path}"), "x = 1\n");
    }
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nexclude = [\"own\"]\n");
    place.write("home/.ssh/id", "");
    let open = |path: &str| {
        let ran = run(&place, ["explain", path]);
        let line = ran.out.lines().find_map(|line| line.strip_prefix("  open    ")).unwrap_or("none");
        line.trim_end_matches("; in a project's file this needs consent").to_owned()
    };
    for (path, expected) in [
        ("kept", "none"),
        (".env", "`ro = [\".env\"]` in `[filesystem]`"),
        ("own", "change or remove this rule: .agent-sandbox.toml:2:12"),
        ("~/.ssh/id", "`ro = [\"~/.ssh/id\"]` in `[filesystem]`"),
        ("~/.ssh", "`ro = [\"~/.ssh\"]` in `[filesystem]`"),
        (
            ".git/hooks",
            "`rw = [{ path = \".git/hooks/\", if-missing = \"create\" }]` in `[filesystem]` creates a folder; create a file yourself first",
        ),
        (".git/config", "`rw = [\".git/config\"]` in `[filesystem]`: the command then changes the host's file"),
        (".agent-sandbox.toml", "no rule opens this path: it belongs to agent-sandbox"),
        ("/tmp/x", "`tmp = \"host\"` in `[filesystem]`"),
        ("/dev/null", "none"),
    ] {
        assert_eq!(open(path), expected, "{path}");
    }
}

// SPEC X6
#[test]
fn the_change_that_gives_more_access_is_named_inside() {
    crate::support::require_bwrap();
    let place = Place::in_tmp();
    place.write("home/code/project/.env", "x = 1\n");
    place.write("home/code/project/own/x", "x = 1\n");
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nexclude = [\"own\"]\n");
    let asked = [".env", "own", ".agent-sandbox.toml", "/missing", "/gone/deep/file"];
    let ran = run(&place, [&["--", "/run/agent-sandbox/guard", "explain"], &asked[..]].concat());
    let root = place.project();
    let lines: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("  open")).collect();
    let expected = [
        format!("  open    outside, for the next run: `ro = [\"{}/.env\"]` in `[filesystem]`", root.display()),
        "  open    outside, for the next run: change or remove the rule of .agent-sandbox.toml".to_owned(),
        "  open    outside, for the next run: `rw = [{ path = \"/missing/\", if-missing = \"create\" }]` in \
         `[filesystem]` creates a folder; create a file yourself first"
            .to_owned(),
        "  open    outside, for the next run: `rw = [{ path = \"/gone/deep/\", if-missing = \"create\" }]` in \
         `[filesystem]` creates the missing folder around it"
            .to_owned(),
    ];
    assert_eq!(lines, expected, "{ran:?}");
}

// SPEC X2, X8
#[test]
fn explain_reports_unreadable_paths_and_explains_the_rest() {
    let place = Place::in_tmp();
    place.write("home/code/project/file", "");
    place.write("home/closed/x", "");
    symlink("loop", place.project().join("loop")).unwrap();
    fs::set_permissions(place.home().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    for (asked, code, said) in [
        ("file/below", "invalid-path", "`file/below`"),
        ("loop", "symlink-loop", "`loop`"),
        ("loop/in", "symlink-loop", "`loop/in`"),
        ("~/closed/x", "unreadable-path", "`~/closed/x`"),
        ("", "invalid-path", "empty"),
    ] {
        let ran = run(&place, ["explain", asked, "file"]);
        assert_eq!((ran.code, ran.codes()), (Some(125), vec![code]), "{ran:?}");
        assert!(ran.err.contains(said), "{}", ran.err);
        assert!(ran.out.starts_with("file: rw "), "{}", ran.out);
    }
    // An unreadable folder itself can be explained.
    assert_eq!(access(&place, &["explain", "--json", "~/closed"]), "ro");
    fs::set_permissions(place.home().join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_policy_with_mistakes_explains_nothing() {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", "netwrk = false\n");
    for words in [&["explain", "."][..], &["show"]] {
        let ran = run(&place, words);
        assert_eq!((ran.code, ran.out.as_str(), ran.codes()), (Some(125), "", vec!["unknown-key"]));
    }
}

// SPEC X2
#[test]
fn paths_start_at_the_working_directory_or_the_home_and_flags_count() {
    let place = Place::in_tmp();
    place.write("home/code/project/sub/x", "");
    place.write("home/.ssh/id", "");
    assert_eq!(access(&place, &["explain", "--json", "sub/x"]), "rw");
    assert_eq!(access(&place, &["--exclude", "sub", "explain", "--json", "sub/x"]), "exclude");
    assert_eq!(access(&place, &["-C", "sub", "--ro", "x", "explain", "--json", "x"]), "ro");
    assert_eq!(access(&place, &["explain", "--json", "~/.ssh/id"]), "exclude");
    assert_eq!(access(&place, &["explain", "--json", "~//.ssh"]), "exclude");
    assert_eq!(access(&place, &["explain", "--json", "../../.ssh/new"]), "exclude");
    let misplaced = run(&place, ["--exec", "explain", "x"]);
    assert_eq!(misplaced.code, Some(2));
}

// SPEC X3, O3
#[test]
fn a_folder_that_path_names_twice_has_one_rule() {
    let place = Place::in_tmp();
    place.write("home/tools/program", "");
    let tools = place.home().join("tools");
    let path = format!("{}:/usr/bin:{}/", tools.display(), tools.display());
    let mut command = place.agent_sandbox();
    let output = command.env("PATH", path).args(["--home=private", "explain", "--json", "~/tools"]).output().unwrap();
    let value = checked("explain", &Ran::of(&output));
    let losers = value["paths"][0]["losers"].as_array().unwrap();
    assert!(losers.iter().all(|loser| loser["why"] != "equal"), "{losers:#?}");
}

// SPEC X2
#[test]
fn a_name_that_is_not_utf8_is_explained() {
    let place = Place::in_tmp();
    let name = OsStr::from_bytes(b"a\xffb\x1b[2J");
    fs::write(place.project().join(name), "").unwrap();
    place.give_away();
    let text = run(&place, [OsStr::new("explain"), name]);
    assert!(text.out.starts_with("a\\xffb\\u{1b}[2J: rw "), "{}", text.out);
    assert!(!text.out.contains('\u{1b}'));
    let value = checked("explain", &run(&place, [OsStr::new("explain"), OsStr::new("--json"), name]));
    assert_eq!(value["paths"][0]["asked"]["bytes"], serde_json::json!(name.as_bytes()));
}

#[test]
fn several_paths_are_separated_and_in_order() {
    let place = Place::in_tmp();
    let text = run(&place, ["explain", "a", "/etc", "."]).out;
    let titles: Vec<&str> = text.split("\n\n").map(|part| part.split(':').next().unwrap()).collect();
    assert_eq!(titles, ["a", "/etc", "."]);
    let value = checked("explain", &run(&place, ["explain", "--json", "a", "/etc", "."]));
    let asked: Vec<&str> =
        value["paths"].as_array().unwrap().iter().map(|path| path["asked"].as_str().unwrap()).collect();
    assert_eq!(asked, titles);
}

// SPEC X3
#[test]
fn explain_says_that_a_glob_leaves_a_tracked_file_alone() {
    let place = Place::in_tmp();
    place.write("home/code/project/.env", "A=1\n");
    let git = |words: &[&str]| assert!(place.command("git").args(words).status().unwrap().success(), "{words:?}");
    git(&["init", "-q"]);
    git(&["add", ".env"]);
    let value = checked("explain", &run(&place, ["explain", "--json", ".env"]));
    let explanation = &value["paths"][0];
    assert_eq!(explanation["access"], "rw");
    let losers = explanation["losers"].as_array().unwrap();
    let why: Vec<&Value> =
        losers.iter().filter(|loser| loser["rule"]["text"] == "**/.env").map(|loser| &loser["why"]).collect();
    assert_eq!(why, ["left-alone"]);
}

// SPEC S6
#[test]
fn nothing_is_changed_and_no_bwrap_is_needed() {
    let place = Place::in_tmp();
    place.renew_home();
    let policy = "[filesystem]\nrw = [{ path = \"made\", if-missing = \"create\" }]\nro = [{ path = \"held\", if-missing = \"block\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", policy);
    let before = everything(&place);
    for words in [&["explain", "made", "held", ".git"][..], &["show"], &["show", "--json"]] {
        let output = place.agent_sandbox().env("PATH", place.path()).args(words).output().unwrap();
        let ran = Ran::of(&output);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    }
    assert_eq!(everything(&place), before);
}

#[test]
fn explain_and_show_report_and_include_rules_without_consent() {
    let place = Place::in_tmp();
    place.write("home/notes/x", "");
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nrw = [\"~/notes\"]\n");
    for words in [&["explain", "~/notes"][..], &["show"]] {
        let ran = run(&place, words);
        assert_eq!((ran.code, ran.codes()), (Some(0), vec!["widening-policy"]));
        assert!(ran.out.contains(".agent-sandbox.toml:2:7"), "{}", ran.out);
    }
}

#[test]
fn colour_is_printed_on_request_and_adds_no_information() {
    let place = Place::in_tmp();
    for words in [&["explain", "."][..], &["show"]] {
        let plain = run(&place, words).out;
        let coloured = run(&place, ["--color=always"].iter().chain(words)).out;
        assert!(!plain.contains('\u{1b}') && coloured.contains('\u{1b}'));
        assert_eq!(without_codes(&coloured), plain);
    }
}

fn without_codes(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

// SPEC X9
#[test]
fn the_fate_of_a_variable_is_explained_without_its_value() {
    let place = Place::in_tmp();
    let explain = |words: &[&str]| {
        let mut command = place.agent_sandbox();
        command.env("GITHUB_TOKEN", "not-to-be-shown").env("OPENAI_API_KEY", "not-to-be-shown");
        Ran::of(&command.arg("explain").args(words).output().unwrap())
    };
    let names = ["--env", "GITHUB_TOKEN", "--env", "OPENAI_API_KEY", "--env", "DISPLAY", "--env", "HOME"];
    let text = explain(&names);
    assert_eq!((text.code, text.err.as_str()), (Some(0), ""));
    assert_eq!(
        text.out,
        "GITHUB_TOKEN: unset (the command does not get it)\n  \
           rule    *_TOKEN  [@secrets]\n  \
           source  names that programs and CI services use for tokens, passwords and keys\n  \
           open    `pass = [\"GITHUB_TOKEN\"]` in `[env]`; in a project's file this needs consent\n\n\
         OPENAI_API_KEY: passed (the command gets your value)\n  \
           rule    OPENAI_API_KEY  [@agents]\n  \
           source  Codex, \"Authentication\" and \"Non-interactive mode\"\n\n\
         DISPLAY: unset (the command does not get it)\n  \
           now     you do not have this variable: the answer says whether the command would get it\n  \
           rule    the display sees your keys and your screen\n  \
           open    `pass = [\"DISPLAY\"]` in `[env]`; in a project's file this needs consent\n\n\
         HOME: passed (the command gets your value)\n  \
           rule    every program needs it\n"
    );
    let json = checked("explain", &explain(&[&names[..], &["--json", "."]].concat()));
    let variables = json["variables"].as_array().unwrap();
    let fates: Vec<_> = variables.iter().map(|one| one["fate"].as_str().unwrap()).collect();
    assert_eq!(fates, ["unset", "passed", "unset", "passed"]);
    assert_eq!(
        (&variables[0]["preset"]["pattern"], &variables[2]["caller-has-it"]),
        (&"*_TOKEN".into(), &false.into())
    );
    assert_eq!(json["paths"][0]["access"], "rw");
    assert!(!json.to_string().contains("not-to-be-shown"));
    let mistake = explain(&["--env", "A=b"]);
    assert_eq!(mistake.code, Some(125));
    assert!(mistake.err.contains("error[invalid-value]: `A=b` cannot be the name of a variable"), "{}", mistake.err);
}
