//! The identity of the author of commits (SPEC section 26).

use std::fs;
use std::process::Command;

use crate::sandbox::{failed, sandbox, succeeded, write};
use crate::support::{Place, stdout, write_program};

for_both!(
    the_hosts_identity_passes_if_the_settings_of_git_are_hidden,
    visible_settings_need_no_variables,
    an_identity_of_the_policy_is_set_everywhere,
    an_unusable_value_sets_nothing,
    settings_in_variables_of_the_caller_count,
    variables_of_the_caller_win_over_an_identity,
    without_git_or_an_identity_nothing_is_set,
    the_identity_of_the_repository_counts,
    asking_for_the_identity_runs_no_program_of_the_repository,
    a_settings_file_that_blocks_readers_does_not_stop_a_run,
    no_value_of_an_identity_is_in_the_arguments,
);

const NAMES: &str = "printenv GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL";

fn git(place: &Place, words: &[&str]) {
    succeeded(place.command("git").args(words).output().unwrap());
}

/// Creates a repository, and the user's git settings with another address below `code`.
fn prepare(place: &Place) {
    git(place, &["init", "-q", "."]);
    let work = "[includeIf \"gitdir:~/code/\"]\npath = work.inc\n";
    place.write("home/.gitconfig", format!("[user]\nname = Ada\nemail = ada@home.example\n{work}"));
    place.write("home/work.inc", "[user]\nemail = ada@work.example\n");
}

/// The identity variables that the command gets in a sandbox with these flags.
fn variables(command: &mut Command, flags: &[&str]) -> String {
    stdout(&command.args(flags).args(["--", "sh", "-c", NAMES]).output().unwrap())
}

/// If a value cannot be passed, the value of another scope does not replace it.
// SPEC U1
fn an_unusable_value_sets_nothing(place: &Place) {
    prepare(place);
    place.write("home/work.inc", "[user]\nname = \"Ada\\tWork\"\nemail = ada@work.example\n");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), "ada@work.example\nada@work.example\n");
}

// SPEC U1
fn settings_in_variables_of_the_caller_count(place: &Place) {
    prepare(place);
    let mut command = sandbox(place);
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "user.name").env("GIT_CONFIG_VALUE_0", "Eve");
    assert_eq!(variables(&mut command, &["--home=private"]), ADA.replace("Ada", "Eve"));
}

const ADA: &str = "Ada\nada@work.example\nAda\nada@work.example\n";

// SPEC U1
fn the_hosts_identity_passes_if_the_settings_of_git_are_hidden(place: &Place) {
    prepare(place);
    for flags in [&["--home=private"] as &[&str], &["--base=minimal"], &["--exclude=~/.gitconfig"]] {
        assert_eq!(variables(&mut sandbox(place), flags), ADA, "{flags:?}");
    }
    let script = "git commit -q --allow-empty -m one && git log -1 --format='%an %ae %cn %ce'";
    let output = sandbox(place).args(["--home=private", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(succeeded(output), "Ada ada@work.example Ada ada@work.example\n");
}

// SPEC U1, U2
fn visible_settings_need_no_variables(place: &Place) {
    prepare(place);
    assert_eq!(variables(&mut sandbox(place), &[]), "");
    let all = ["--home=private", "--ro=~/.gitconfig", "--ro=~/work.inc"];
    assert_eq!(variables(&mut sandbox(place), &all), ADA, "the variables equal the settings that git reads inside");
    // The included file is hidden.
    assert_eq!(variables(&mut sandbox(place), &all[..2]), ADA);
    place.write("home/.config/agent-sandbox/config.toml", "[git]\nidentity = false\n");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), "");
}

// SPEC U2
fn an_identity_of_the_policy_is_set_everywhere(place: &Place) {
    prepare(place);
    write(place, ".agent-sandbox.toml", "[git]\nidentity = { name = 'The Agent', email = 'agent@localhost' }\n");
    let own = "The Agent\nagent@localhost\nThe Agent\nagent@localhost\n";
    assert_eq!(variables(&mut sandbox(place), &[]), own);
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), own);
}

// SPEC U3
fn variables_of_the_caller_win_over_an_identity(place: &Place) {
    prepare(place);
    let mut command = sandbox(place);
    command.env("GIT_AUTHOR_NAME", "Me");
    assert_eq!(variables(&mut command, &["--home=private"]), ADA.replacen("Ada", "Me", 1));
    place.write("home/.config/agent-sandbox/config.toml", "[env]\nunset = ['GIT_*']\n");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), "");
}

// SPEC U1
fn without_git_or_an_identity_nothing_is_set(place: &Place) {
    prepare(place);
    place.write("bin/bwrap", "");
    fs::remove_file(place.path().join("bin/bwrap")).unwrap();
    let bwrap = fs::canonicalize("/usr/bin/bwrap").unwrap();
    std::os::unix::fs::symlink(bwrap, place.path().join("bin/bwrap")).unwrap();
    let mut without_git = sandbox(place);
    let words = ["--home=private", "--", "/bin/sh", "-c", NAMES];
    let output = without_git.env("PATH", place.path().join("bin")).args(words).output().unwrap();
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(127)), "{output:?}");
    place.write("home/.gitconfig", "[core]\neditor = vi\n");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), "");
    place.write("home/.gitconfig", "[user\n");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), "", "git refuses the file");
    place.write("home/.gitconfig", "[user]\nname = \"A\\tB\"\nemail = a@x\n");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), "a@x\na@x\n", "a control character");
}

/// The variables come from the host's settings, not from the copy that the command changes.
// SPEC U1
fn the_identity_of_the_repository_counts(place: &Place) {
    prepare(place);
    git(place, &["config", "user.email", "ada@project.example"]);
    let expected = ADA.replace("work", "project");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), expected);
    let script = "git config user.email mallory@x && git config user.email";
    let output = sandbox(place).args(["--home=private", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(succeeded(output), "mallory@x\n");
    assert_eq!(variables(&mut sandbox(place), &["--home=private"]), expected);
}

// SPEC U4
fn asking_for_the_identity_runs_no_program_of_the_repository(place: &Place) {
    prepare(place);
    let mark = place.path().join("ran");
    let program = place.path().join("program");
    write_program(&program, &format!("#!/bin/sh\ntouch '{}'\n", mark.display()));
    let program = program.to_str().unwrap();
    for key in ["core.fsmonitor", "core.pager", "pager.config", "core.editor", "core.sshCommand", "credential.helper"] {
        git(place, &["config", key, program]);
    }
    git(place, &["config", "alias.config", &format!("!{program}")]);
    git(place, &["config", "core.hooksPath", place.path().to_str().unwrap()]);
    place.give_away();
    git(place, &["status"]);
    assert!(mark.exists(), "the control: git runs the monitor");
    fs::remove_file(&mark).unwrap();
    let mut command = sandbox(place);
    command.args(["--home=private", "--print-args=json", "--", "true"]);
    let printed = succeeded(command.output().unwrap());
    assert!(printed.contains("ada@work.example"), "{printed}");
    assert!(!mark.exists(), "asking ran a program");
}

// SPEC U1
fn a_settings_file_that_blocks_readers_does_not_stop_a_run(place: &Place) {
    prepare(place);
    succeeded(place.command("mkfifo").arg(place.home().join("fifo")).output().unwrap());
    place.write("home/.gitconfig", "[include]\npath = fifo\n[user]\nname = Ada\n");
    let output =
        sandbox(place).args(["--home=private", "--preset=!git", "--", "sh", "-c", "echo ran"]).output().unwrap();
    assert_eq!(succeeded(output), "ran\n");
}

// SPEC U3
fn no_value_of_an_identity_is_in_the_arguments(place: &Place) {
    prepare(place);
    for form in ["shell", "annotated", "lines", "nul"] {
        let mut command = sandbox(place);
        command.args(["--home=private", &format!("--print-args={form}"), "--", "true"]);
        let printed = succeeded(command.output().unwrap());
        assert!(!printed.contains("Ada") && !printed.contains("ada@"), "{form}: {printed}");
        let names = form == "shell" || form == "annotated";
        assert_eq!(printed.contains("GIT_AUTHOR_NAME"), names, "{form}: {printed}");
    }
}

// SPEC U5
#[test]
fn an_invalid_identity_is_refused_with_its_place() {
    let place = Place::in_tmp();
    write(&place, ".agent-sandbox.toml", "[git]\nidentity = { name = 'A' }\n");
    failed(&sandbox(&place).args(["--", "true"]).output().unwrap(), 125, "`identity` has no `email`");
}
