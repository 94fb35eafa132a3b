//! `agent-sandbox verify` finds wrong mounts and settings, reports no others, and leaves nothing
//! behind.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::guard::{DROP, NO_NAMESPACES, with_bwrap};
use crate::sandbox::{assert_fits, failed, policy, run, sandbox, succeeded, write};
use crate::support::{Place, end_if_unborn, stderr, stdout, write_program};

everywhere!(
    the_defaults_hold,
    a_rich_policy_holds,
    a_mask_that_is_missing_is_found,
    a_mount_that_is_writable_is_found,
    a_pin_that_is_missing_is_found,
    a_root_that_is_writable_is_found,
    verifying_leaves_nothing_behind,
    verifying_a_new_home_leaves_nothing_behind,
    an_empty_folder_that_cannot_be_listed_stays,
    a_killed_verification_leaves_nothing_after_a_sweep,
);

for_both!(
    verify_marks_access_that_the_host_refuses_as_not_testable,
    namespaces_and_variables_are_as_the_policy_says,
    a_policy_that_does_not_run_is_not_verified,
    rules_without_a_mount_are_tested,
    without_the_guard_bwrap_alone_is_verified,
);

/// The answer to `verify --json` after `flags`, and the exit code.
fn verified(place: &Place, flags: &[&str]) -> (Value, i32) {
    answer(&run(place, &[flags, &["verify", "--json"]].concat()))
}

#[track_caller]
fn answer(output: &Output) -> (Value, i32) {
    let code = output.status.code().unwrap_or(-1);
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|e| panic!("{e}, exit code {code}: {}{}", stdout(output), stderr(output)));
    assert_fits("verify", &value);
    (value, code)
}

/// The checks and facts with this result: path or name, and operation.
fn with_result(answer: &Value, result: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |list: &str, name: &str| -> Vec<String> {
        let all = answer[list].as_array().unwrap().iter().filter(|one| one["result"] == result);
        all.map(|one| format!("{} {}", text(&one[name]), text(&one["operation"])).trim().to_owned()).collect()
    };
    [of("checks", "path"), of("facts", "name")].concat()
}

#[track_caller]
fn holds(place: &Place, flags: &[&str]) -> Value {
    let (answer, code) = verified(place, flags);
    assert_eq!(with_result(&answer, "mismatch"), Vec::<String>::new(), "{flags:?}");
    assert_eq!((code, &answer["holds"]), (0, &Value::Bool(true)), "{flags:?}");
    answer
}

/// The tests that fail if a script replaces bwrap. Its shell adds variables, which `verify` also
/// finds and this function ignores.
fn wrong(answer: &Value) -> Vec<String> {
    with_result(answer, "mismatch").into_iter().filter(|name| name != "variables").collect()
}

/// Asserts that exactly the expected tests fail.
#[track_caller]
fn finds(place: &Place, script: &str, flags: &[&str], expected: &[String]) {
    let (answer, code) = answer(&with_bwrap(place, script, &[flags, &["verify", "--json"]].concat()));
    assert_eq!(wrong(&answer), expected, "{flags:?}");
    assert_eq!((code, &answer["holds"]), (1, &Value::Bool(false)));
    let text = stdout(&with_bwrap(place, script, &[flags, &["verify"]].concat()));
    assert!(text.contains("MISMATCH\n") && text.contains("the kernel does not behave as the policy says"), "{text}");
}

/// A repository with secrets.
fn project(place: &Place) {
    for (path, content) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", ""),
        (".git/hooks/sample", ""),
        (".git/objects/x", ""),
        (".git/refs/x", ""),
        (".env", "TOKEN=canary"),
        ("src/main.c", ""),
    ] {
        write(place, path, content);
    }
    place.write("home/.ssh/key", "canary");
}

fn at(place: &Place, path: &str, operation: &str) -> String {
    format!("{} {operation}", place.project().join(path).display())
}

const FORMS: [&[&str]; 4] =
    [&[], &["--no-guard"], &["--no-optimize"], &["--no-guard", "--no-optimize", "--network=false"]];

/// The path inside of the copy of a private file.
fn copy_of(path: &Path) -> String {
    agent_sandbox::policy::private::copy_inside(&crate::support::abs(path)).to_string()
}

// SPEC V1
fn the_defaults_hold(place: &Place) {
    project(place);
    for flags in FORMS {
        let answer = holds(place, flags);
        let ok = with_result(&answer, "ok");
        for expected in [
            at(place, ".env", "read"),
            at(place, ".env", "write"),
            match flags.contains(&"--no-guard") {
                true => at(place, ".git/config", "write"),
                false => format!("{} write", copy_of(&place.project().join(".git/config"))),
            },
            at(place, ".git/hooks", "write"),
            at(place, ".git", "move"),
            at(place, "", "write").replace("/ ", " "),
            format!("{} read", place.home().join(".ssh/key").display()),
            "user namespaces of its own".to_owned(),
            "taking mounts down".to_owned(),
        ] {
            assert!(ok.contains(&expected), "{expected:?}, {flags:?}: {ok:?}");
        }
    }
}

// SPEC V2
fn a_rich_policy_holds(place: &Place) {
    project(place);
    for path in ["a/b/c/d/e", "hidden/in/open/closed/x", "hidden/file", "way/to/kept/x", "app/[id]/page", "odd\nname"] {
        write(place, path, "x");
    }
    place.write("home/also/writable/x", "x");
    let rules = "rw = ['~/also', 'hidden/in/open', 'a/b/c']\nro = ['a', 'a/b/c/d', 'way/to/kept', 'app/*/page', 'src/**']\n\
        exclude = ['hidden', 'hidden/in/open/closed', 'odd*', { path = 'blocked/file', if-missing = 'block' }]\n";
    policy(place, rules);
    for flags in FORMS {
        let ok = with_result(&holds(place, flags), "ok");
        for expected in [
            at(place, "a/b/c", "write"),
            at(place, "a/b/c/d", "write"),
            at(place, "hidden", "read"),
            at(place, "hidden/in/open", "write"),
            at(place, "hidden/in/open/closed", "read"),
            at(place, "way", "move"),
            at(place, "way/to", "move"),
            at(place, "blocked/file", "write"),
        ] {
            assert!(ok.contains(&expected), "{expected:?}, {flags:?}: {ok:?}");
        }
    }
    assert!(!place.project().join("blocked").exists());
}

// SPEC V3, V7
fn a_mask_that_is_missing_is_found(place: &Place) {
    write(place, "hidden/secret", "canary");
    write(place, "hidden/open/file", "");
    policy(place, "exclude = ['hidden']\nrw = ['hidden/open']\n");
    let found = with_bwrap(place, DROP, &["verify"]);
    assert_eq!((found.status.code(), stdout(&found).as_str()), (Some(1), ""), "{}", stderr(&found));
    assert!(stderr(&found).contains("error[guard-refused]: the sandbox is not as planned"), "{}", stderr(&found));
    let open = [("hidden", "read"), ("hidden", "write"), ("hidden", "move"), ("hidden/secret", "read")];
    let open = open.map(|(path, operation)| at(place, path, operation));
    finds(place, DROP, &["--no-guard"], &open);
}

/// Makes the bind of the path that ends with `/kept` writable.
const OPEN: &str = r#"words=("$@"); for i in "${!words[@]}"; do
    [[ "${words[$i]} ${words[$((i+1))]}" =~ ^--ro-bind(-try)?\ .*/kept$ ]] && words[$i]=--bind; done"#;

// SPEC V3
fn a_mount_that_is_writable_is_found(place: &Place) {
    write(place, "kept/file", "");
    policy(place, "ro = ['kept']\n");
    holds(place, &[]);
    finds(place, OPEN, &["--no-guard"], &[at(place, "kept", "write")]);
    // The guard makes the mount read-only again.
    assert_eq!(wrong(&answer(&with_bwrap(place, OPEN, &["verify", "--json"])).0), Vec::<String>::new());
}

/// Removes the read-only bind of the path that ends with `/way`.
const UNPIN: &str = r#"words=(); while [ $# -gt 0 ]; do
    if [[ "$1 $2" =~ ^--ro-bind(-try)?\ .*/way$ ]]; then shift 3; else words+=("$1"); shift; fi; done"#;

// SPEC V3
fn a_pin_that_is_missing_is_found(place: &Place) {
    write(place, "way/to/kept", "");
    policy(place, "ro = ['way/to/kept']\n");
    holds(place, &[]);
    let found = with_bwrap(place, UNPIN, &["verify"]);
    assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
    assert!(stderr(&found).contains("/way` is not kept in its place"), "{}", stderr(&found));
    finds(place, UNPIN, &["--no-guard"], &[at(place, "way", "move")]);
}

// SPEC V3
fn a_root_that_is_writable_is_found(place: &Place) {
    let elsewhere = if place.uid == 0 { Place::root_outside_tmp() } else { Place::outside_tmp() };
    let other = elsewhere.home();
    let open = r#"words=("$@"); for i in "${!words[@]}"; do
        [ "${words[$i]} ${words[$((i+1))]}" = "--ro-bind /" ] && words[$i]=--bind; done"#;
    policy(place, &format!("ro = ['{}']\n", other.display()));
    let found = |flags: &[&str]| wrong(&answer(&with_bwrap(place, open, &[flags, &["verify", "--json"]].concat())).0);
    let writable = found(&["--no-guard"]);
    assert!(writable.contains(&format!("{} write", other.display())), "{writable:?}");
    assert_eq!(found(&[]), Vec::<String>::new(), "the guard makes it read-only again");
}

/// A line for each file at and below the path: name, inode, mode, size and time. Folders have no
/// time, because it changes with their entries.
fn listing(path: &Path) -> Vec<String> {
    let found = fs::symlink_metadata(path).unwrap();
    let time = if found.is_dir() { (0, 0) } else { (found.mtime(), found.mtime_nsec()) };
    let mut lines = vec![format!("{} {} {:o} {} {time:?}", path.display(), found.ino(), found.mode(), found.len())];
    if found.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        lines.extend(entries.iter().flat_map(|entry| listing(entry)));
    }
    lines
}

// SPEC S6, V6
fn verifying_leaves_nothing_behind(place: &Place) {
    project(place);
    let before = without_state(place);
    for flags in FORMS {
        holds(place, flags);
        assert_eq!(without_state(place), before, "{flags:?}");
    }
    policy(
        place,
        "rw = [{ path = 'made/by/rule', if-missing = 'create' }, { path = '~/.local', if-missing = 'create' }]\n",
    );
    let before = without_state(place);
    let ok = with_result(&holds(place, &[]), "ok");
    assert!(ok.contains(&at(place, "made/by/rule", "write")), "{ok:?}");
    assert_eq!(without_state(place), before);
    only_mount_files_are_left(place);
}

/// `verify` tries to remove a folder to test that it stays in place. It must not try with an empty
/// folder, which would be gone.
// SPEC V6
fn an_empty_folder_that_cannot_be_listed_stays(place: &Place) {
    use std::os::unix::fs::PermissionsExt;
    project(place);
    policy(place, "rw = ['~/open']\nexclude = ['~/open/hidden']\nro = ['~/open/kept']\n");
    let folders = ["hidden", "kept"].map(|name| place.home().join("open").join(name));
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
    }
    place.give_away();
    for folder in &folders {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o300)).unwrap();
    }
    holds(place, &[]);
    for folder in &folders {
        assert!(folder.is_dir(), "{}", folder.display());
        // Restores the mode, so that the test can remove the place.
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
}

// SPEC V6
fn verifying_a_new_home_leaves_nothing_behind(place: &Place) {
    project(place);
    place.renew_home();
    for agent in ["claude", "codex", "opencode"] {
        write_program(&place.path().join("bin").join(agent), "#!/bin/sh\n");
    }
    place.give_away();
    let before = without_state(place);
    let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
    let (found, code) = answer(&sandbox(place).env("PATH", path).args(["verify", "--json"]).output().unwrap());
    assert_eq!((with_result(&found, "mismatch"), code), (Vec::new(), 0));
    let ok = with_result(&found, "ok");
    for made in [".claude", ".claude/.claude.json", ".codex", ".cache"] {
        let expected = format!("{} write", place.home().join(made).display());
        assert!(ok.contains(&expected), "{expected}: {ok:?}");
    }
    assert_eq!(without_state(place), before);
    only_mount_files_are_left(place);
}

/// Asserts that the state folder has only files that bwrap binds, which are swept after a week
/// (SPEC S6), and copies of private files.
fn only_mount_files_are_left(place: &Place) {
    let state = place.home().join(".local/state/agent-sandbox");
    let mut names: Vec<_> = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["mounts", "private"]);
}

/// The listing of the place without the state folder.
fn without_state(place: &Place) -> Vec<String> {
    let of_state = place.home().join(".local").display().to_string();
    listing(place.path()).into_iter().filter(|line| !line.starts_with(&of_state)).collect()
}

// SPEC V6
fn a_killed_verification_leaves_nothing_after_a_sweep(place: &Place) {
    project(place);
    fs::create_dir(place.home().join(".local")).unwrap();
    place.give_away();
    let before = without_state(place);
    // `verify` is killed before there is a sandbox, while the probe works, and after that.
    for delay in 0..12 {
        let mut command = sandbox(place);
        let mut child = command.arg("verify").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay * 4));
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        wait_until_no_process_is_left(place);
        succeeded(place.agent_sandbox().arg("sweep").output().unwrap());
        assert_eq!(without_state(place), before, "killed after {} ms", delay * 4);
    }
}

/// Waits for the processes of a killed run, which end soon. They have the project as working
/// directory.
fn wait_until_no_process_is_left(place: &Place) {
    // bwrap leaves the project while it mounts, but its arguments name the project.
    let project = place.project().into_os_string().into_encoded_bytes();
    let names_it = |line: Vec<u8>| line.windows(project.len()).any(|part| part == project);
    let is_there = |entry: &fs::DirEntry| {
        let cwd = fs::read_link(entry.path().join("cwd")).map(|cwd| cwd.into_os_string().into_encoded_bytes());
        cwd.is_ok_and(|cwd| cwd == project) || fs::read(entry.path().join("cmdline")).is_ok_and(names_it)
    };
    loop {
        let left: Vec<_> = fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(is_there).collect();
        if left.is_empty() {
            return;
        }
        let pids = left.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.for_each(end_if_unborn);
        thread::sleep(Duration::from_millis(5));
    }
}

// SPEC V4
fn verify_marks_access_that_the_host_refuses_as_not_testable(place: &Place) {
    write(place, "locked", "");
    write(place, "open", "");
    fs::set_permissions(place.project().join("locked"), fs::Permissions::from_mode(0o400)).unwrap();
    policy(place, "ro = ['locked', 'open']\n");
    let answer = holds(place, &[]);
    assert!(with_result(&answer, "not-testable").contains(&at(place, "locked", "write")));
    let ok = with_result(&answer, "ok");
    assert!(ok.contains(&at(place, "locked", "read")) && ok.contains(&at(place, "open", "write")), "{ok:?}");
    assert!(!ok.contains(&at(place, "locked", "write")));
    let text = succeeded(run(place, &["verify"]));
    assert!(text.contains("not testable: the host itself refuses: EACCES"), "{text}");
}

fn fact<'a>(answer: &'a Value, name: &str) -> &'a str {
    let mut facts = answer["facts"].as_array().unwrap().iter();
    facts.find(|fact| fact["name"] == name).unwrap()["kernel"].as_str().unwrap()
}

// SPEC V5
fn namespaces_and_variables_are_as_the_policy_says(place: &Place) {
    policy(place, "");
    let shared = holds(place, &[]);
    assert_eq!(fact(&shared, "namespace: net"), "the host's");
    assert_eq!((fact(&shared, "namespace: pid"), fact(&shared, "capabilities")), ("own", "none"));
    let own = holds(place, &["--network=false"]);
    assert_eq!(fact(&own, "namespace: net"), "own");
    // This bwrap keeps the network and adds a variable.
    let share = r#"words=(); for word in "$@"; do
        [ "$word" = --chdir ] && words+=(--share-net --setenv PLANTED x); words+=("$word"); done"#;
    finds(place, share, &["--network=false"], &["namespace: net".to_owned()]);
    let (found, _) = answer(&with_bwrap(place, share, &["verify", "--json"]));
    assert!(fact(&found, "variables").contains("PLANTED"), "{found:#}");
    write(place, ".agent-sandbox.toml", "nested = true\n");
    let nested = holds(place, &["--config", ".agent-sandbox.toml"]);
    assert_eq!(fact(&nested, "user namespaces of its own"), "possible");
    assert_eq!(fact(&nested, "taking mounts down"), "EINVAL", "locked, whoever has a namespace of its own");
}

// SPEC V1, V7
fn a_policy_that_does_not_run_is_not_verified(place: &Place) {
    write(place, ".agent-sandbox.toml", "[filesystem]\nrw = [\"~\"]\n");
    failed(&run(place, &["verify"]), 125, "error[untrusted-policy]");
    let output = sandbox(place).env("PATH", place.path()).arg("verify").output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
}

// SPEC V2
fn rules_without_a_mount_are_tested(place: &Place) {
    write(place, "a/b", "");
    policy(place, "ro = ['a', 'a/b']\nrw = ['.']\n");
    let ok = with_result(&holds(place, &[]), "ok");
    for expected in [at(place, "a/b", "read"), at(place, "a/b", "write")] {
        assert!(ok.contains(&expected), "{expected}: {ok:?}");
    }
}

fn without_the_guard_bwrap_alone_is_verified(place: &Place) {
    project(place);
    let before = listing(&place.project());
    let output = with_bwrap(place, NO_NAMESPACES, &["verify", "--json"]);
    assert!(stderr(&output).contains("warning[protection-missing]: without the guard"), "{}", stderr(&output));
    let (found, _) = answer(&output);
    assert_eq!((wrong(&found), &found["second-stage"]), (Vec::new(), &Value::Bool(false)));
    assert_eq!(listing(&place.project()), before);
}
