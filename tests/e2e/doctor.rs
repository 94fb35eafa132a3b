//! `agent-sandbox doctor` on real machines that lack something.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::guard::{NO_NAMESPACES, with_bwrap};
use crate::sandbox::{assert_fits, marked, policy, sandbox, snapshot, succeeded};
use crate::support::{Place, binary, stderr, stdout};

for_both!(
    doctor_reports_that_a_working_machine_works,
    doctor_reports_policy_errors_on_a_working_machine,
    a_limit_of_the_policy_that_this_machine_lacks_is_told_of,
    a_home_is_told_to_be_too_broad_a_project,
    doctor_without_bwrap_names_the_package,
    doctor_finds_a_bwrap_that_fails,
    doctor_reports_a_guard_that_cannot_work_as_limited,
    doctor_refuses_a_bwrap_that_a_command_could_have_planted,
    doctor_names_user_namespaces_that_are_off,
    doctor_reports_that_sandboxes_do_not_nest,
    doctor_reports_a_read_only_state_folder_as_limited,
);

for_root!(doctor_tells_root_about_the_flag, doctor_tells_root_in_a_container_that_root_is_allowed);

/// The answer of `doctor`, and its exit code.
#[track_caller]
fn diagnosis(output: &Output) -> (Value, Option<i32>) {
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|e| panic!("{e}: {}{}", stdout(output), stderr(output)));
    assert_fits("doctor", &value);
    assert_eq!(stderr(output), "", "the answer on standard output is complete");
    let works = value["works"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!works)));
    (value, output.status.code())
}

fn doctor(command: &mut Command) -> (Value, Option<i32>) {
    diagnosis(&command.args(["doctor", "--json"]).output().unwrap())
}

#[track_caller]
fn finding<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let mut findings = diagnosis["findings"].as_array().unwrap().iter();
    findings.find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("no {name}: {diagnosis:#}"))
}

/// Asserts that `doctor` reports `name` as missing for the reason `found`, with effect and remedy.
#[track_caller]
fn is_missing(diagnosis: &Value, name: &str, found: &str) {
    let finding = finding(diagnosis, name);
    assert_eq!(finding["status"], "missing", "{finding:#}");
    assert!(finding["found"].as_str().unwrap().contains(found), "{finding:#}");
    assert!(finding["effect"].is_string() && finding["remedy"].is_string(), "{finding:#}");
}

// SPEC H2
fn doctor_reports_that_a_working_machine_works(place: &Place) {
    place.renew_home();
    let before = snapshot(&place.project());
    let (found, code) = doctor(&mut sandbox(place));
    assert_eq!(code, Some(0), "{found:#}");
    for name in ["caller", "bwrap", "user namespaces", "guard", "trial start"] {
        assert_eq!(finding(&found, name)["status"], "ok", "{found:#}");
    }
    let has = |flag: &str| {
        found["bwrap-features"].as_array().unwrap().iter().any(|one| one["flag"] == flag && one["available"] == true)
    };
    assert!(has("--perms"), "{found:#}");
    let text = succeeded(sandbox(place).arg("doctor").output().unwrap());
    assert!(text.ends_with("ok: `agent-sandbox -- COMMAND` works here\n"), "{text}");
    // `doctor` judges the machine, also from a folder in which no sandbox starts.
    succeeded(sandbox(place).current_dir("/").arg("doctor").output().unwrap());
    succeeded(sandbox(place).current_dir(place.home()).arg("doctor").output().unwrap());
    let state = place.home().join(".local/state/agent-sandbox");
    let left: Vec<_> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mounts"], "contents that bwrap binds (SPEC S6)");
    assert_eq!(snapshot(&place.project()), before, "nothing else was made");
}

fn doctor_reports_policy_errors_on_a_working_machine(place: &Place) {
    policy(place, "");
    place.write("home/code/project/.agent-sandbox.toml", "netwrk = false\n");
    let (found, code) = doctor(&mut sandbox(place));
    assert_eq!((code, &found["policy-is-valid"]), (Some(0), &Value::Bool(false)), "{found:#}");
    is_missing(&found, "policy", "unknown key `netwrk`");
    let text = succeeded(sandbox(place).arg("doctor").output().unwrap());
    assert!(
        text.ends_with("\nlimited: this machine can start sandboxes, but none with the policy here: see `policy`\n"),
        "{text}"
    );
}

// SPEC H2
fn a_limit_of_the_policy_that_this_machine_lacks_is_told_of(place: &Place) {
    policy(place, "");
    place.write("home/code/project/.agent-sandbox.toml", "[limits]\ntime = \"1h\"\nmemory = \"1G\"\n");
    let (found, code) = doctor(sandbox(place).env_remove("XDG_RUNTIME_DIR"));
    assert_eq!((code, &found["policy-is-valid"]), (Some(0), &Value::Bool(false)), "{found:#}");
    is_missing(&found, "policy", "the limit `memory` cannot be enforced: `XDG_RUNTIME_DIR` is not set");
    let policy = finding(&found, "policy");
    assert!(policy["found"].as_str().unwrap().ends_with(" (.agent-sandbox.toml:3:10)"), "{policy:#}");
    let remedy = policy["remedy"].as_str().unwrap();
    assert!(remedy.contains("session of systemd") && remedy.contains("delegate a folder of cgroups"), "{remedy}");
}

// SPEC H2
fn a_home_is_told_to_be_too_broad_a_project(place: &Place) {
    let (found, code) = doctor(sandbox(place).current_dir(place.home()));
    assert_eq!((code, &found["policy-is-valid"]), (Some(0), &Value::Bool(false)), "{found:#}");
    is_missing(&found, "policy", "is too broad a project");
    assert!(finding(&found, "policy")["remedy"].as_str().unwrap().contains("start in the folder of one project"));
}

// SPEC H1
fn doctor_without_bwrap_names_the_package(place: &Place) {
    let (found, _) = doctor(sandbox(place).env("PATH", place.path()));
    for name in ["bwrap", "trial start"] {
        is_missing(&found, name, "there is no `bwrap` on PATH");
    }
    assert_eq!(found["bwrap-features"], Value::Array(Vec::new()));
}

// SPEC H2
fn doctor_finds_a_bwrap_that_fails(place: &Place) {
    let fails = "case \"$1\" in --version|--help) words=(\"$@\") ;; *) echo 'bwrap: No permissions to create new namespace' >&2; exit 1 ;; esac";
    let (found, code) = diagnosis(&with_bwrap(place, fails, &["doctor", "--json"]));
    assert_eq!((code, &finding(&found, "bwrap")["status"]), (Some(1), &Value::from("ok")));
    is_missing(&found, "trial start", "No permissions to create new namespace");
}

fn doctor_reports_a_guard_that_cannot_work_as_limited(place: &Place) {
    let (found, code) = diagnosis(&with_bwrap(place, NO_NAMESPACES, &["doctor", "--json"]));
    assert_eq!(code, Some(0), "{found:#}");
    let stage = finding(&found, "guard");
    assert_eq!(stage["status"], "limited");
    assert!(stage["effect"].as_str().unwrap().contains("neither compared with the plan nor locked"), "{stage:#}");
}

fn doctor_refuses_a_bwrap_that_a_command_could_have_planted(place: &Place) {
    crate::support::write_program(&place.project().join("bin/bwrap"), "#!/bin/sh\ntouch was-run\n");
    place.give_away();
    let path = format!("{}:/usr/bin:/bin", place.project().join("bin").display());
    let (found, _) = doctor(sandbox(place).env("PATH", path));
    is_missing(&found, "bwrap", "which a sandboxed command can write");
    assert!(!place.project().join("was-run").exists());
}

/// The limit is set in a user namespace of its own, so no other process is affected.
// SPEC H1
fn doctor_names_user_namespaces_that_are_off(place: &Place) {
    let limit = "/proc/sys/user/max_user_namespaces";
    let before = fs::read_to_string(limit).unwrap();
    let script = format!("echo 0 >{limit} && exec \"$0\" --allow-root doctor --json");
    let mut command = place.command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]).arg(binary());
    let (found, _) = diagnosis(&command.output().unwrap());
    is_missing(&found, "user namespaces", "`user.max_user_namespaces` is 0");
    is_missing(&found, "trial start", "user namespaces are off");
    assert_eq!(fs::read_to_string(limit).unwrap(), before);
}

// SPEC H2
fn doctor_reports_that_sandboxes_do_not_nest(place: &Place) {
    policy(place, "");
    let output = sandbox(place).arg("--").arg(binary()).args(["--allow-root", "doctor", "--json"]).output().unwrap();
    let (found, _) = diagnosis(&output);
    is_missing(&found, "caller", "this is a sandbox already");
    assert_eq!(finding(&found, "user namespaces")["status"], "limited");
}

// SPEC H1
fn doctor_reports_a_read_only_state_folder_as_limited(place: &Place) {
    place.write("home/file", "");
    let (found, code) = doctor(sandbox(place).env("XDG_STATE_HOME", place.home().join("file/none")));
    assert_eq!((code, &finding(&found, "state folder")["status"]), (Some(0), &Value::from("limited")), "{found:#}");
}

// SPEC H2
fn doctor_tells_root_about_the_flag(place: &Place) {
    let (found, _) = doctor(&mut marked(place, &[]));
    is_missing(&found, "caller", "refusing to run as root");
    assert!(finding(&found, "caller")["remedy"].as_str().unwrap().contains("--allow-root"));
}

// SPEC H2
fn doctor_tells_root_in_a_container_that_root_is_allowed(place: &Place) {
    let (found, code) = doctor(&mut marked(place, &["/.dockerenv"]));
    let caller = finding(&found, "caller");
    assert_eq!((code, &caller["status"]), (Some(0), &Value::from("ok")), "{found:#}");
    assert_eq!(caller["found"], "running as root, because this is a container (`/.dockerenv` exists)");
}
