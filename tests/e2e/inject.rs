//! Injections: in one run, the command reads a file at another path.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::git::outside;
use crate::sandbox::{failed, policy, run, sandbox, shell, shell_with, succeeded, write};
use crate::support::{Place, stderr, stdout, write_program};
use crate::undo::Waiting;

everywhere!(
    the_example_gives_the_application_its_own_settings,
    a_folder_is_merged_and_its_other_entries_stay,
    injected_files_are_gone_after_the_run,
    the_next_run_removes_the_files_of_a_killed_run,
    two_runs_read_different_files_at_one_target,
    verify_and_the_model_know_injections,
    injections_are_the_same_without_the_guard,
);
for_both!(
    an_injection_outside_of_the_project_needs_consent,
    git_on_the_host_and_inside_ignores_injected_files,
    a_fifo_is_refused_and_not_waited_for,
    a_large_file_is_not_copied,
    the_command_keeps_the_old_file_if_the_host_replaces_a_source,
    a_missing_target_is_refused_if_no_placeholder_can_be_created,
    a_harness_shows_the_instructions_where_the_agent_looks,
    a_file_beside_an_injected_one_is_reported,
    an_injected_program_is_found,
    a_closed_source_is_refused,
    a_file_and_a_folder_at_one_target_are_refused,
    a_submodule_has_its_own_index,
    a_link_that_shows_the_skills_already_causes_no_warning,
    a_placeholder_of_another_run_is_no_project,
);

const EXAMPLE: &str = include_str!("../../examples/inject.toml");

/// The names in the project.
fn names(place: &Place) -> Vec<String> {
    names_in(&place.project())
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

// SPEC J1
fn an_injected_program_is_found(place: &Place) {
    for (name, text) in [("a", "echo one"), ("sub/b", "echo two")] {
        write(place, format!("tools/{name}"), "");
        write_program(&place.project().join("tools").join(name), &format!("#!/bin/sh\n{text}\n"));
    }
    write(place, "tools/text", "echo");
    let run = |flags: &[&str], command: &str| run(place, &[flags, &["--", command]].concat());
    assert_eq!(succeeded(run(&["--inject", "tools/a:bin/a"], "bin/a")), "one\n");
    assert_eq!(succeeded(run(&["--inject", "tools:bin"], "bin/sub/b")), "two\n");
    failed(&run(&["--inject", "tools:bin"], "bin/text"), 126, "which cannot be executed");
    failed(&run(&["--inject", "tools:bin"], "bin/none"), 127, "was not found");
    // The command would start the injected file, not the host's program at the target.
    write_program(&place.project().join("tools/text2"), "#!/bin/sh\n");
    failed(&run(&["--inject", "tools/text:tools/text2"], "tools/text2"), 126, "which cannot be executed");
}

// SPEC J1
fn the_example_gives_the_application_its_own_settings(place: &Place) {
    write(place, ".agent-sandbox.toml", EXAMPLE);
    assert_eq!(shell(place, "cat .env"), "DATABASE_URL=postgres://localhost/test\n", "the content is unchanged");
    assert!(!place.project().join(".env").exists());
    let (_, commented) = EXAMPLE.split_once("\n#\n# [[inject]]\n").unwrap();
    let lines =
        format!("[[inject]]\n{commented}").replace("# [[", "[[").replace("# from", "from").replace("# to", "to");
    write(place, ".agent-sandbox.toml", lines);
    write(place, ".env", "KEY=secret\n");
    write(place, ".env.sandbox", "KEY=test\n");
    write(place, "AGENTS.md", "use tabs\n");
    assert_eq!(shell(place, "cat .env"), "KEY=test\n");
    assert_eq!(shell(place, "cat CLAUDE.md"), "use tabs\n");
    assert_eq!(shell(place, "! echo x >>.env && ! rm .env && ! mv .env x && cat .env 2>&1"), "KEY=test\n");
    assert_eq!(fs::read_to_string(place.project().join(".env")).unwrap(), "KEY=secret\n");
    let inside = shell(place, "/run/agent-sandbox/guard explain .env");
    assert!(inside.starts_with(".env: injected (injected content can be read, but not the host's file)\n"), "{inside}");
    let explained = succeeded(place.agent_sandbox().args(["explain", ".env"]).output().unwrap());
    assert!(explained.contains("injected .env → "), "{explained}");
    assert!(explained.contains("[.agent-sandbox.toml:"), "{explained}");
}

// SPEC J3
fn a_folder_is_merged_and_its_other_entries_stay(place: &Place) {
    policy(place, "[[inject]]\nfrom = 'shared'\nto = 'out'\n");
    for path in ["shared/one", "shared/both/a", "shared/new/deep/x", "out/own", "out/both/b"] {
        write(place, path, path);
    }
    let found = shell(place, "cd out && find . -type f | sort && cat one both/a both/b new/deep/x own");
    let expected = "./both/a\n./both/b\n./new/deep/x\n./one\n./own\n";
    assert_eq!(found, format!("{expected}shared/oneshared/both/aout/both/bshared/new/deep/xout/own"));
    // The folder is on the host, and the injected files are not.
    assert_eq!(shell(place, "echo new >out/more; ! echo x >out/new/y && ! echo x >out/one && cat out/more"), "new\n");
    assert_eq!(fs::read_to_string(place.project().join("out/more")).unwrap(), "new\n");
    assert!(!place.project().join("out/new").exists());
}

// SPEC J5
fn injected_files_are_gone_after_the_run(place: &Place) {
    policy(place, "[[inject]]\ntext = 'now'\nto = 'a/b/c.md'\n[[inject]]\ntext = 'home'\nto = '~/d/e.md'\n");
    shell(place, "true");
    let files = || (names(place), names_in(&place.home()));
    let before = files();
    assert_eq!(shell(place, "cat a/b/c.md ~/d/e.md; exit 0"), "nowhome");
    assert_eq!(run(place, &["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(files(), before);
}

// SPEC J5
fn the_next_run_removes_the_files_of_a_killed_run(place: &Place) {
    policy(place, "[[inject]]\ntext = 'now'\nto = 'a/c.md'\n");
    let before = names(place);
    let waiting = Waiting::start(place);
    assert!(place.project().join("a/c.md").exists());
    waiting.kill();
    assert!(place.project().join("a/c.md").exists());
    // The next run also needs the file, and treats the leftover as missing.
    assert_eq!(shell(place, "cat a/c.md"), "now");
    assert_eq!(names(place), before);
    let waiting = Waiting::start(place);
    waiting.kill();
    succeeded(place.agent_sandbox().arg("sweep").output().unwrap());
    assert_eq!(names(place), before);
}

// SPEC J5
fn two_runs_read_different_files_at_one_target(place: &Place) {
    policy(place, "");
    write(place, "one", "1");
    write(place, "two", "2");
    let mut first = sandbox(place);
    let first = Waiting::start_with(first.args([
        "--inject",
        "one:t/x",
        "--",
        "sh",
        "-c",
        "echo started; cat >/dev/null; cat t/x",
    ]));
    let second = |script: &str| shell_with(place, &["--inject", "two:t/x"], script);
    assert_eq!(second("cat t/x"), "2");
    // The first run still reads its file, so the placeholder stays.
    assert!(place.project().join("t/x").exists());
    assert_eq!(stdout(&first.end("")), "1");
    assert!(!place.project().join("t").exists());
    assert_eq!(second("cat t/x"), "2");
}

// SPEC J1
fn verify_and_the_model_know_injections(place: &Place) {
    policy(
        place,
        "exclude = ['closed']\n[[inject]]\nfrom = 'shared'\nto = 'out'\n[[inject]]\ntext = 'x'\nto = 'closed/y'\n",
    );
    for path in ["shared/a/b", "shared/c", "out/d", "closed/key"] {
        write(place, path, path);
    }
    let output = run(place, &["verify", "--json"]);
    let verified: Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::sandbox::assert_fits("verify", &verified);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&run(place, &["verify"]));
    for path in ["out/a", "out/c", "closed/y"] {
        let path = place.project().join(path);
        let lines = text.lines().filter(|line| line.starts_with(&format!("{} ", path.display())));
        assert!(lines.clone().count() >= 2, "{text}");
        assert!(lines.clone().all(|line| line.ends_with(" ok")), "{text}");
    }
}

// SPEC J1
fn injections_are_the_same_without_the_guard(place: &Place) {
    policy(place, "exclude = ['.env']\n[[inject]]\nfrom = 'other'\nto = '.env'\n[[inject]]\ntext = 'x'\nto = 'new'\n");
    write(place, ".env", "secret");
    write(place, "other", "harmless");
    assert_eq!(shell_with(place, &["--no-guard"], "cat .env new; ! echo x >>.env 2>/dev/null"), "harmlessx");
    assert!(!place.project().join("new").exists());
}

// SPEC J7
fn an_injection_outside_of_the_project_needs_consent(place: &Place) {
    place.write("home/.claude/settings.json", "{}");
    write(place, ".agent-sandbox.toml", "[[inject]]\ntext = 'mine'\nto = '~/.claude/CLAUDE.md'\n");
    let output = run(place, &["--", "true"]);
    failed(&output, 125, "error[untrusted-policy]");
    assert!(stderr(&output).contains(".claude/CLAUDE.md`: the command reads injected content there"));
    place.trust();
    assert_eq!(shell(place, "cat ~/.claude/CLAUDE.md"), "mine");
    // An injection in the project needs no consent.
    write(place, ".agent-sandbox.toml", "[[inject]]\ntext = 'mine'\nto = 'docs/CLAUDE.md'\n");
    assert_eq!(shell(place, "cat docs/CLAUDE.md"), "mine");
}

// SPEC J6
fn git_on_the_host_and_inside_ignores_injected_files(place: &Place) {
    outside(place, &place.project(), "git init -q; echo x >x; git add x; git commit -qm first");
    let inject = "[[inject]]\nfrom = 'x'\nto = 'CLAUDE.md'\n[[inject]]\nfrom = 'x'\nto = '.claude/skills/a/SKILL.md'\n";
    place.write("home/.config/agent-sandbox/config.toml", inject);
    // None of these lines makes git show an injected path.
    write(place, ".gitignore", "/*\n!*/\n!/x\n!/src/**\n!/.gitignore\n");
    outside(place, &place.project(), "git add .gitignore; git commit -qm second");
    let script =
        "cat CLAUDE.md .claude/skills/a/SKILL.md; git status --porcelain; git add -A; git diff --cached --name-only";
    assert_eq!(shell(place, script), "x\nx\n");
    assert_eq!(outside(place, &place.project(), "git status --porcelain"), "");
}

/// git in the superproject neither tracks nor adds files of the submodule.
// SPEC J4
fn a_submodule_has_its_own_index(place: &Place) {
    let make = "git init -q; git init -q sub; cd sub; echo x >x; git add x; git commit -qm first; cd ..; git add sub";
    outside(place, &place.project(), &format!("{make} 2>/dev/null; git commit -qm first"));
    policy(place, "[[inject]]\ntext = 'injected'\nto = 'sub/new'\n");
    let script = "cat sub/new; git add -A; git -C sub add -A; git status --porcelain; git -C sub status --porcelain";
    assert_eq!(shell(place, script), "injected");
    policy(place, "[[inject]]\ntext = 'injected'\nto = 'sub/x'\n");
    failed(&run(place, &["--", "true"]), 125, "git tracks");
}

// SPEC J4
fn a_closed_source_is_refused(place: &Place) {
    if place.uid == 0 {
        return;
    }
    write(place, ".agent-sandbox.toml", "[[inject]]\nfrom = 'closed'\nto = 'x'\n");
    write(place, "closed", "");
    outside(place, &place.project(), "chmod 0200 closed");
    let output = run(place, &["--", "true"]);
    failed(&output, 125, "cannot be read");
    assert!(stderr(&output).contains("toml:2:8"), "{}", stderr(&output));
}

// SPEC J4
fn a_file_and_a_folder_at_one_target_are_refused(place: &Place) {
    policy(place, "");
    write(place, "folder/a", "a");
    write(place, "file", "b");
    let start = |inject: &'static str| {
        let mut first = sandbox(place);
        Waiting::start_with(first.args(["--inject", inject, "--", "sh", "-c", "echo started; cat >/dev/null"]))
    };
    let first = start("folder:x");
    failed(&run(place, &["--inject", "file:x", "--", "true"]), 125, "another run keeps a folder at");
    first.end("");
    let first = start("file:x");
    failed(&run(place, &["--inject", "folder:x", "--", "true"]), 125, "a file is on the way");
    first.end("");
}

// SPEC J9
fn a_link_that_shows_the_skills_already_causes_no_warning(place: &Place) {
    write(place, ".agents/skills/a/SKILL.md", "a");
    write(place, ".claude/x", "");
    outside(place, &place.project(), "ln -s ../.agents/skills .claude/skills");
    let output = run(place, &["--preset", "harness/claude", "--", "cat", ".claude/skills/a/SKILL.md"]);
    assert_eq!((stdout(&output), stderr(&output)), ("a".to_owned(), String::new()));
}

/// The file of a project also counts above the working directory, but a placeholder does not.
// SPEC L3, M7
fn a_placeholder_of_another_run_is_no_project(place: &Place) {
    let blocks = "[filesystem]\nrw = ['..']\nro = [{ path = '../.agent-sandbox.toml', if-missing = 'block' }]\n";
    write(place, "one/blocks.toml", blocks);
    write(place, "two/x", "");
    let start = |folder: &str| {
        let mut command = sandbox(place);
        command.current_dir(place.project().join(folder));
        command
    };
    let script = "echo started; cat >/dev/null";
    let first = Waiting::start_with(start("one").args(["--config", "blocks.toml", "--", "sh", "-c", script]));
    assert!(place.project().join(".agent-sandbox.toml").exists());
    let write = |command: &mut Command| command.args(["--", "sh", "-c", "echo x >../planted"]).output().unwrap();
    assert!(!write(&mut start("two")).status.success());
    first.end("");
    assert!(!place.project().join("planted").exists());
    // A file of the user does mark a project.
    fs::write(place.project().join(".agent-sandbox.toml"), "").unwrap();
    succeeded(write(&mut start("two")));
}

// SPEC J4
fn a_fifo_is_refused_and_not_waited_for(place: &Place) {
    policy(place, "");
    outside(place, &place.project(), "mkfifo pipe; mkdir folder; mkfifo folder/pipe");
    for from in ["pipe", "folder"] {
        let output = run(place, &["--inject", &format!("{from}:x"), "--", "true"]);
        failed(&output, 125, "is neither a file nor a folder");
    }
}

// SPEC J1
fn a_large_file_is_not_copied(place: &Place) {
    policy(place, "");
    write(place, "large", "");
    let large = fs::File::options().write(true).open(place.project().join("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    assert_eq!(shell_with(place, &["--inject", "large:x"], "stat -c %s x"), "1073741824\n");
    let state = place.home().join(".local/state/agent-sandbox/mounts");
    let sizes = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().metadata().unwrap().size());
    assert!(sizes.max().unwrap() < 1 << 20);
}

/// A mount of a file stays on its inode, so the command does not see a rename on the host.
// SPEC J8
fn the_command_keeps_the_old_file_if_the_host_replaces_a_source(place: &Place) {
    policy(place, "");
    write(place, "source", "before");
    let mut command = sandbox(place);
    let script = "echo started; cat >/dev/null; cat target";
    let waiting = Waiting::start_with(command.args(["--inject", "source:target", "--", "sh", "-c", script]));
    write(place, "new", "after");
    fs::rename(place.project().join("new"), place.project().join("source")).unwrap();
    assert_eq!(stdout(&waiting.end("")), "before");
}

// SPEC J5
fn a_missing_target_is_refused_if_no_placeholder_can_be_created(place: &Place) {
    policy(place, "");
    write(place, "source", "x");
    for flag in ["--exec", "--no-placeholders"] {
        let output = run(place, &["--inject", "source:target", flag, "--", "true"]);
        failed(&output, 125, "create no placeholder for it");
        write(place, "there", "");
        assert_eq!(shell_with(place, &["--inject", "source:there", flag], "cat there"), "x");
    }
}

/// The paths come from the documentation of each agent (`src/compile/presets/data/harness.rs`).
// SPEC J9
fn a_harness_shows_the_instructions_where_the_agent_looks(place: &Place) {
    write(place, "AGENTS.md", "project");
    write(place, ".agents/skills/a/SKILL.md", "skill");
    place.write("home/.config/agent-sandbox/AGENTS.md", "user");
    for folder in [".claude", ".codex", ".gemini", ".kimi-code", ".config/opencode"] {
        place.write(format!("home/{folder}/any"), "");
    }
    let reads = |agent: &str, files: &str| {
        let of = |home: &str| {
            let flags = ["--home", home, "--preset", &format!("harness/{agent}")];
            shell_with(place, &flags, &format!("cat {files}"))
        };
        let shown = of("host");
        assert_eq!(of("private"), shown, "{agent}");
        shown
    };
    assert_eq!(reads("claude", "CLAUDE.md .claude/skills/a/SKILL.md ~/.claude/CLAUDE.md"), "projectskilluser");
    assert_eq!(reads("gemini", "GEMINI.md .agents/skills/a/SKILL.md ~/.gemini/GEMINI.md"), "projectskilluser");
    assert_eq!(reads("codex", "AGENTS.md .agents/skills/a/SKILL.md ~/.codex/AGENTS.md"), "projectskilluser");
    assert_eq!(
        reads("opencode", "AGENTS.md .agents/skills/a/SKILL.md ~/.config/opencode/AGENTS.md"),
        "projectskilluser"
    );
    assert_eq!(reads("kimi", "AGENTS.md .agents/skills/a/SKILL.md ~/.kimi-code/AGENTS.md"), "projectskilluser");
    assert_eq!(names(place), [".agents", "AGENTS.md"]);
    // The user's own file stays.
    place.write("home/.claude/CLAUDE.md", "own");
    write(place, ".claude/CLAUDE.md", "own");
    assert_eq!(reads("claude", "~/.claude/CLAUDE.md; ! cat CLAUDE.md 2>/dev/null"), "own");
}

/// The folder exists during the run because of the injection, and stays because the command filled
/// it.
// SPEC J3, R1
fn a_file_beside_an_injected_one_is_reported(place: &Place) {
    write(place, ".agents/skills/a/SKILL.md", "a");
    let harness = ["--preset", "harness/claude", "--", "sh", "-c"];
    let said = |script: &str| stderr(&run(place, &[&harness[..], &[script]].concat()));
    assert_eq!(said("cat .claude/skills/a/SKILL.md"), "");
    assert!(!place.project().join(".claude").exists());
    let said = said("mkdir .claude/skills/b && echo x >.claude/skills/b/SKILL.md");
    assert!(said.contains("created during the run: `.claude/skills` (@autorun)"), "{said}");
}
