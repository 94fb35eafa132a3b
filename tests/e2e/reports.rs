//! The report of a run is kept until the user has seen it, and can be read again.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::sandbox::{assert_fits, policy, run, sandbox, succeeded, write};
use crate::support::{Place, stderr, stdout};

everywhere!(an_unshown_report_is_repeated_once);
for_both!(
    the_last_report_can_be_read_again,
    all_reports_that_are_kept_are_shown_in_order,
    a_report_names_a_hundred_paths_and_keeps_all,
    a_flood_of_one_kind_hides_no_other_kind,
    a_report_that_nobody_could_read_is_repeated,
    a_report_that_was_not_wanted_is_not_repeated,
    reports_that_are_never_read_do_not_pile_up,
    a_report_that_cannot_be_kept_is_shown,
    a_report_that_cannot_be_read_is_reported_as_damaged,
    a_report_belongs_to_its_project,
    consent_that_a_run_gave_to_an_agent_is_reported,
);

const CREATED: &str = "warning[created-during-run]: created during the run: `.envrc` (@autorun)";

fn report(place: &Place, flags: &[&str]) -> Output {
    place.agent_sandbox().arg("report").args(flags).output().unwrap()
}

/// A run that creates a file which tools obey, and cannot show its report: no process reads its
/// standard error.
fn unread(place: &Place, file: &str) {
    let (reader, gone) = io::pipe().unwrap();
    drop(reader);
    let status = sandbox(place).args(["--", "touch", file]).stdout(Stdio::null()).stderr(gone).status();
    assert_eq!(status.unwrap().code(), Some(0));
}

// SPEC R6
fn a_report_that_nobody_could_read_is_repeated(place: &Place) {
    let program = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", r#"exec "$@" -- touch .envrc 2>&-"#, "sh"]).arg(program.get_program()).args(program.get_args());
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    assert!(stderr(&run(place, &["--", "true"])).contains(CREATED));
    assert_eq!(stderr(&run(place, &["--", "true"])), "", "once");
}

fn reports(place: &Place) -> PathBuf {
    place.home().join(".local/state/agent-sandbox/reports")
}

fn count(place: &Place) -> usize {
    fs::read_dir(reports(place)).map_or(0, Iterator::count)
}

// SPEC R6
fn an_unshown_report_is_repeated_once(place: &Place) {
    unread(place, ".envrc");
    // Only the user can read a kept report.
    let folder = reports(place);
    let kept = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&kept)), (0o700, 0o600));
    let output = run(place, &["--", "sh", "-c", "exit 3"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3));
    assert!(said.starts_with("warning[unshown-report]: the report of the run here that ended"), "{said}");
    assert!(said.contains(CREATED), "{said}");
    assert_eq!(stderr(&run(place, &["--", "true"])), "", "once");
    // `--exec` repeats the report, too. Commands that start no sandbox do not.
    fs::remove_file(place.project().join(".envrc")).unwrap();
    unread(place, ".envrc");
    assert!(!stderr(&run(place, &["--print-args", "--", "true"])).contains(CREATED));
    let said = stderr(&run(place, &["--message-format=json", "--exec", "--", "true"]));
    let codes = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["code"].clone());
    assert_eq!(codes.collect::<Vec<_>>(), ["unshown-report", "created-during-run"]);
}

// SPEC R7
fn the_last_report_can_be_read_again(place: &Place) {
    let none = report(place, &["--last"]);
    assert_eq!((stdout(&none).as_str(), none.status.code()), ("no run in this project has left a report\n", Some(0)));
    assert_eq!(json(place), Vec::<Value>::new());
    assert!(stderr(&run(place, &["--", "touch", ".envrc"])).starts_with(CREATED));
    let again = succeeded(report(place, &["--last"]));
    assert!(again.starts_with("the report of the run that ended ") && again.contains(CREATED), "{again}");
    assert!(!again.contains("was not shown"), "{again}");
    // A run without a report of its own keeps the last report.
    assert_eq!(stderr(&run(place, &["--", "true"])), "");
    let path = place.project().join(".envrc");
    let kept = json(place);
    assert_eq!((kept.len(), &kept[0]["shown"], kept[0]["left-out"].as_u64()), (1, &Value::Bool(true), Some(0)));
    assert_eq!(kept[0]["findings"][0]["code"], "created-during-run");
    assert_eq!(kept[0]["findings"][0]["paths"], serde_json::json!([path]));
    // Of two reports that were not shown, `--last` shows the newest, and the next run the other.
    unread(place, ".mcp.json");
    unread(place, ".gdbinit");
    let newest = succeeded(report(place, &["--last"]));
    assert!(newest.contains("`.gdbinit`") && newest.contains("was not shown until now"), "{newest}");
    assert!(!newest.contains("`.mcp.json`"), "{newest}");
    let said = stderr(&run(place, &["--", "true"]));
    assert!(said.contains("`.mcp.json`") && !said.contains("`.gdbinit`"), "it has been read: {said}");
}

/// Without `--last`, the reports that were not shown follow the last one that was.
// SPEC R7
fn all_reports_that_are_kept_are_shown_in_order(place: &Place) {
    assert!(stderr(&run(place, &["--", "touch", ".envrc"])).starts_with(CREATED));
    unread(place, ".mcp.json");
    unread(place, ".gdbinit");
    let all = succeeded(report(place, &[]));
    let files = ["`.envrc`", "`.mcp.json`", "`.gdbinit`"];
    let places = files.map(|file| all.find(file).unwrap_or_else(|| panic!("no {file}: {all}")));
    assert!(places.is_sorted(), "{all}");
    assert_eq!(all.matches("was not shown until now").count(), 2, "{all}");
    // All of them were shown, so the last one alone is kept.
    let last = succeeded(report(place, &[]));
    let is_named = files.map(|file| last.contains(file));
    assert_eq!((is_named, last.matches("the report of the run").count()), ([false, false, true], 1), "{last}");
}

/// All reports of the project.
fn json(place: &Place) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&succeeded(report(place, &["--json"]))).unwrap();
    assert_fits("report", &answer);
    answer["reports"].as_array().unwrap().clone()
}

// SPEC R8
fn a_report_names_a_hundred_paths_and_keeps_all(place: &Place) {
    let names: Vec<String> = (0..300).map(|number| format!("tool-{number:03}")).collect();
    policy(place, &format!("ro = {names:?}"));
    let said = stderr(&run(place, &["--", "sh", "-c", "touch $(seq -f tool-%03.0f 0 299)"]));
    assert!(said.starts_with("warning[created-during-run]: created during the run: 300 paths\n"), "{said}");
    assert_eq!(said.matches("note: `tool-").count(), 100, "{said}");
    assert!(said.contains("note: … and 200 more; `agent-sandbox report --last` shows more\n"), "{said}");
    let kept = succeeded(report(place, &["--last"]));
    assert_eq!(kept.matches("note: `tool-").count(), 300, "{kept}");
    let findings = &json(place)[0]["findings"][0];
    assert_eq!((findings["paths"].as_array().unwrap().len(), findings["left-out"].as_u64()), (300, Some(0)));
}

/// A command chooses the names of files, but not which kinds of files tools obey.
// SPEC R8
fn a_flood_of_one_kind_hides_no_other_kind(place: &Place) {
    assert!(place.command("git").args(["init", "-q", "."]).status().unwrap().success());
    place.give_away();
    let script = "touch $(seq -f a%.0f.code-workspace 1 300) mise.zzz.toml
        for n in $(seq 300); do printf '[branch \"a%s\"]\n\tx = 1\n[core]\n\ta%s = 1\n' $n $n; done >>.git/config
        git config core.pager evil";
    let said = stderr(&run(place, &["--", "sh", "-c", script]));
    assert!(said.contains("`mise.zzz.toml`"), "{said}");
    assert!(said.contains("`core.pager`"), "{said}");
    let kept = succeeded(report(place, &["--last"]));
    assert_eq!(kept.matches(".code-workspace`").count(), 300, "{kept}");
}

// SPEC R6
fn a_report_that_was_not_wanted_is_not_repeated(place: &Place) {
    unread(place, ".envrc");
    assert_eq!(stderr(&run(place, &["--quiet", "--", "true"])), "");
    assert!(stderr(&run(place, &["--", "true"])).contains(CREATED), "an earlier report is kept until a run shows it");
    fs::remove_file(place.project().join(".envrc")).unwrap();
    assert_eq!(stderr(&run(place, &["--quiet", "--", "touch", ".envrc"])), "");
    assert_eq!(stderr(&run(place, &["--", "true"])), "");
    assert!(succeeded(report(place, &["--last"])).contains(CREATED));
}

// SPEC R6
fn reports_that_are_never_read_do_not_pile_up(place: &Place) {
    for _ in 0..20 {
        unread(place, ".envrc");
        fs::remove_file(place.project().join(".envrc")).unwrap();
    }
    assert_eq!(count(place), 16);
}

// SPEC R6
fn a_report_that_cannot_be_kept_is_shown(place: &Place) {
    // A file is at the path of the folder, so that root cannot create it either.
    write(place, reports(place), "");
    let output = run(place, &["--", "sh", "-c", "touch .envrc; exit 3"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        said.starts_with(CREATED) && said.contains("warning[report-not-kept]: this report cannot be kept"),
        "{said}"
    );
}

fn a_report_that_cannot_be_read_is_reported_as_damaged(place: &Place) {
    unread(place, ".envrc");
    let kept = fs::read_dir(reports(place)).unwrap().next().unwrap().unwrap().path();
    write(place, &kept, "{");
    let said = stderr(&run(place, &["--", "true"]));
    assert!(said.starts_with("warning[unshown-report]: the report of an earlier run here was never shown"), "{said}");
    assert!(said.contains("it is damaged") && said.contains(kept.to_str().unwrap()), "{said}");
    // Reports that are not damaged are shown.
    unread(place, ".mcp.json");
    let shown = report(place, &[]);
    assert_eq!(shown.status.code(), Some(0));
    assert!(stdout(&shown).contains("`.mcp.json`"), "{}", stdout(&shown));
    let said = stderr(&shown);
    assert!(said.starts_with("warning[unshown-report]: the report of an earlier run here cannot be shown"), "{said}");
    assert!(said.contains("it is damaged") && said.contains(kept.to_str().unwrap()), "{said}");
    fs::remove_file(kept).unwrap();
    assert_eq!(stderr(&run(place, &["--", "true"])), "");
}

// SPEC R7
fn a_report_belongs_to_its_project(place: &Place) {
    unread(place, ".envrc");
    fs::create_dir_all(place.home().join("other/.git")).unwrap();
    place.give_away();
    let elsewhere = |command: &mut Command| command.current_dir(place.home().join("other")).output().unwrap();
    assert!(!stderr(&elsewhere(sandbox(place).args(["--", "true"]))).contains(CREATED));
    let none = elsewhere(place.agent_sandbox().args(["report", "--last"]));
    assert_eq!(stdout(&none), "no run in this project has left a report\n");
    // The home contains the state folder, but no report is about the home.
    let none = place.agent_sandbox().args(["report"]).current_dir(place.home()).output().unwrap();
    assert_eq!((stdout(&none).as_str(), stderr(&none).as_str()), ("no run in this project has left a report\n", ""));
    assert!(stderr(&run(place, &["--", "true"])).contains(CREATED));
}

// SPEC R3
fn consent_that_a_run_gave_to_an_agent_is_reported(place: &Place) {
    let state = place.home().join(".claude.json");
    write(place, &state, r#"{ "projects": { "/p": { "hasTrustDialogAccepted": false } } }"#);
    let set = |text: &str| stderr(&run(place, &["--", "sh", "-c", &format!("printf %s '{text}' >~/.claude.json")]));
    let text = r#"{ "bypassPermissionsModeAccepted": true, "enableAllProjectMcpServers": true,
        "projects": { "/p": { "hasTrustDialogAccepted": true }, "/q": { "hasTrustDialogAccepted": false } } }"#;
    let said = set(text);
    let keys = ["bypassPermissionsModeAccepted", "enableAllProjectMcpServers", "projects./p.hasTrustDialogAccepted"];
    for key in keys {
        assert!(said.contains(&format!("= note: `{key}`: it ")), "{key}: {said}");
    }
    assert_eq!(said.matches("= note: ").count(), keys.len(), "{said}");
    assert_eq!(set(text), "");
}
