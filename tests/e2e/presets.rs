//! A built-in preset's `ro` keeps a path from being changed, and shows none that is excluded (SPEC
//! P12).

use std::fs;

use rustix::fs::inotify;
use serde_json::Value;

use crate::sandbox::{Found, assert_fits, probe, run, sandbox, shell_with, succeeded, write};
use crate::situations;
use crate::support::{Place, binary, stderr};

everywhere!(
    excluding_a_folder_hides_what_a_preset_names_in_it,
    excluding_the_home_hides_what_a_preset_names_in_it,
    excluding_in_the_users_file_hides_what_a_preset_names,
    a_preset_keeps_its_read_only_paths_in_an_excluded_home,
    without_an_exclude_a_preset_keeps_a_file_from_being_changed,
    a_users_own_ro_shows_a_file_in_an_excluded_home,
    the_folder_of_a_glob_match_that_a_preset_names_cannot_be_moved,
    a_watcher_of_the_project_sees_no_event_of_a_run,
);

/// inotify queues an event before the system call that caused it returns, so the test misses none.
// SPEC M5, M6
fn a_watcher_of_the_project_sees_no_event_of_a_run(place: &Place) {
    write(place, "README", "x");
    write(place, ".husky/pre-commit", "x");
    let listed = |expected: &[&str]| {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        let changes = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVE
            | inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::ATTRIB;
        inotify::add_watch(&watch, place.project(), changes).unwrap();
        let inside = succeeded(run(place, &["--", "ls", "-A"]));
        assert_eq!(inside.lines().collect::<Vec<_>>(), expected);
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let first = inotify::Reader::new(&watch, &mut buffer).next().map(|event| format!("{event:?}"));
        assert_eq!(first, Err(rustix::io::Errno::AGAIN));
    };
    listed(&[".husky", "README"]);
    succeeded(place.command("git").args(["init", "-q", "."]).output().unwrap());
    place.give_away();
    listed(&[".git", ".husky", "README"]);
    let untracked = succeeded(run(place, &["--", "git", "status", "--porcelain"]));
    assert_eq!(untracked, "?? .husky/\n?? README\n");
}

const USER_FILE: &str = "home/.config/agent-sandbox/config.toml";

// SPEC P12
fn excluding_a_folder_hides_what_a_preset_names_in_it(place: &Place) {
    write(place, ".claude/settings.json", "{}");
    let settings = place.project().join(".claude/settings.json");
    assert_eq!(probe(place, &["--ro=.claude"], std::slice::from_ref(&settings)), [Found::ro("file")], "the control");
    assert_eq!(probe(place, &["--exclude=.claude"], &[settings]), [Found::none("EACCES")]);
}

// SPEC P12
fn excluding_the_home_hides_what_a_preset_names_in_it(place: &Place) {
    place.write("home/.bashrc", "alias x=y\n");
    let bashrc = place.home().join(".bashrc");
    assert_eq!(probe(place, &["--exclude=~"], &[bashrc]), [Found::none("ENOENT")]);
}

// SPEC P12
fn excluding_in_the_users_file_hides_what_a_preset_names(place: &Place) {
    place.write("home/.config/fish/config.fish", "set x y\n");
    place.write(USER_FILE, "[filesystem]\nexclude = ['~/.config']\n");
    let settings = place.home().join(".config/fish/config.fish");
    assert_eq!(probe::<&str>(place, &[], &[settings]), [Found::none("EACCES")]);
}

/// The test mounts its own `/etc` with a system's file in a new mount namespace. The sandbox starts
/// as the ordinary user, in a child user namespace.
// SPEC P12
#[test]
fn excluding_in_the_systems_file_hides_what_a_preset_names() {
    const HOST: &str = r#"
        set -e
        user=$1 etc=$2 binary=$3
        mount --bind "$etc" /etc
        exec unshare --user --map-user="$user" --map-group="$user" "$binary" -- \
            sh -c 'cat ~/.config/fish/config.fish 2>&1 && exit 1; cat ~/.profile'
    "#;
    situations::as_user(Place::outside_tmp, |place| {
        place.write("home/.config/fish/config.fish", "set x y\n");
        place.write("home/.profile", "shown\n");
        place.write("etc/agent-sandbox/config.toml", "[filesystem]\nexclude = ['~/.config']\n");
        let mut host = place.command("unshare");
        host.args(["--user", "--map-root-user", "--mount", "sh", "-c", HOST, "sh", &place.uid.to_string()]);
        let output = succeeded(host.arg(place.path().join("etc")).arg(binary()).output().unwrap());
        assert!(output.contains("Permission denied") && output.ends_with("\nshown\n"), "{output}");
    });
}

// SPEC P12
fn a_preset_keeps_its_read_only_paths_in_an_excluded_home(place: &Place) {
    place.write("home/.claude/settings.local.json", "{}");
    shell_with(place, &["--exclude=~"], "echo state >~/.claude/x");
    assert_eq!(fs::read_to_string(place.home().join(".claude/x")).unwrap(), "state\n");
    let paths = ["settings.local.json", "x"].map(|name| place.home().join(".claude").join(name));
    assert_eq!(probe(place, &["--exclude=~"], &paths), [Found::ro("file"), Found::rw("file")]);
}

// SPEC P12
fn without_an_exclude_a_preset_keeps_a_file_from_being_changed(place: &Place) {
    place.write("home/.bashrc", "alias x=y\n");
    let output = run(place, &["--", "sh", "-c", "cat ~/.bashrc; echo x >>~/.bashrc"]);
    assert!(stderr(&output).contains("Read-only file system") && !output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"alias x=y\n");
    assert_eq!(fs::read_to_string(place.home().join(".bashrc")).unwrap(), "alias x=y\n");
}

// SPEC P12
fn a_users_own_ro_shows_a_file_in_an_excluded_home(place: &Place) {
    place.write("home/.bashrc", "alias x=y\n");
    place.write(USER_FILE, "[filesystem]\nexclude = ['~']\nro = ['~/.bashrc']\n");
    assert_eq!(probe::<&str>(place, &[], &[place.home().join(".bashrc")]), [Found::ro("file")]);
}

/// The glob alone would let the command move `.config` away and create another folder. The rule of
/// the preset names `.config`, which keeps it in place.
// SPEC B13
fn the_folder_of_a_glob_match_that_a_preset_names_cannot_be_moved(place: &Place) {
    write(place, ".config/mise.toml", "[env]\n");
    write(place, "sub/mise.toml", "[env]\n");
    let script = "cat .config/mise.toml sub/mise.toml; mv sub moved && mv .config away";
    let output = run(place, &["--exclude=**/mise.toml", "--", "sh", "-c", script]);
    let said = stderr(&output);
    assert_eq!((output.status.success(), said.matches("Permission denied").count()), (false, 2), "{said}");
    assert!(said.contains("Device or resource busy"), "{said}");
    assert!(place.project().join("moved").exists() && place.project().join(".config").exists());
}

// SPEC X3
#[test]
fn explain_names_a_presets_rule_that_only_tightens() {
    situations::as_user(Place::outside_tmp, |place| {
        place.write("home/.bashrc", "");
        let explain = |more: &[&str]| {
            let words = ["--exclude=~", "explain"].iter().chain(more).chain(&["~/.bashrc"]);
            succeeded(sandbox(place).args(words).output().unwrap())
        };
        let text = explain(&[]);
        assert!(text.starts_with("~/.bashrc: exclude "), "{text}");
        let of_preset: Vec<&str> = text.lines().filter(|line| line.contains("ro ~/.bashrc")).collect();
        assert!(matches!(of_preset[..], [line] if line.ends_with("a preset's `ro` can only restrict")), "{text}");
        let answer: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
        assert_fits("explain", &answer);
        let losers = answer["paths"][0]["losers"].as_array().unwrap();
        let why = losers.iter().find(|loser| loser["rule"]["text"] == "~/.bashrc").map(|loser| &loser["why"]);
        assert_eq!(why, Some(&Value::from("preset-only-tightens")), "{answer}");
    });
}
