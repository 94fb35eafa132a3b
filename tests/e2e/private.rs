//! Private files: the command writes a copy that stays with the project.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::sandbox::{run, shell, succeeded, write};
use crate::support::{Place, stderr, stdout};

everywhere!(the_model_and_verify_know_the_link);

for_both!(
    changes_of_the_host_and_of_the_command_both_survive,
    a_file_that_the_host_replaces_meanwhile_loses_no_change,
    settings_of_agents_stay_and_a_few_keys_reach_the_host,
    in_a_new_home_the_keys_make_the_file,
    trust_in_a_planted_project_stays_inside,
    without_the_guard_a_private_file_is_read_only_with_a_warning,
    a_symlink_in_its_place_is_read_only_with_a_warning,
    where_the_kernel_refuses_the_link_it_is_read_only_with_a_warning,
    a_program_that_replaces_the_file_itself_is_led_to_the_copy,
    every_key_that_stays_is_reported,
    without_a_state_folder_it_is_read_only_with_a_warning,
    a_file_that_is_too_large_is_read_only_with_a_warning,
    a_killed_run_loses_nothing,
    the_host_sees_nothing_of_it,
);

fn repository(place: &Place) {
    write(place, ".git/HEAD", "ref: refs/heads/main\n");
    write(place, ".git/config", "[core]\n\tbare = false\n\trepositoryformatversion = 0\n");
    for folder in ["objects", "refs/heads", "hooks", "info"] {
        fs::create_dir_all(place.project().join(".git").join(folder)).unwrap();
    }
    write(place, ".git/info/exclude", "");
    place.give_away();
}

fn config(place: &Place) -> String {
    fs::read_to_string(place.project().join(".git/config")).unwrap()
}

fn the_model_and_verify_know_the_link(place: &Place) {
    repository(place);
    let before = config(place);
    let found =
        shell(place, "readlink .git/config; echo x >>.git/config; cat .git/config; rm .git/config 2>&1 || true");
    assert!(found.starts_with("/run/agent-sandbox/private/"), "{found}");
    assert!(found.contains(&format!("{before}x\n")) && found.contains("busy"), "{found}");
    assert_eq!(config(place), before);
    let output = place.agent_sandbox().args(["explain", "--json", ".git/config"]).output().unwrap();
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(explained["paths"][0]["access"], "private-file", "{explained:#}");
    let output = run(place, &["verify", "--json"]);
    let verified: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = verified["checks"].as_array().unwrap();
    let is_copy = |check: &&Value| check["path"].as_str().unwrap().starts_with("/run/agent-sandbox/private/");
    assert!(checks.iter().filter(is_copy).count() >= 2, "{verified:#}");
    assert_eq!(output.status.code(), Some(0), "{verified:#}");
}

fn git(place: &Place, words: &[&str]) -> String {
    let output = place.command("git").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    stdout(&output)
}

fn changes_of_the_host_and_of_the_command_both_survive(place: &Place) {
    repository(place);
    shell(place, "git config a.inside 1; git config a.both 1");
    // Between two runs.
    git(place, &["config", "a.outside", "1"]);
    git(place, &["config", "a.both", "2"]);
    let output = run(place, &["--", "git", "config", "--get-regexp", "^a"]);
    assert!(stderr(&output).contains("warning[private-conflict]: `a.both`"), "{}", stderr(&output));
    let mut lines: Vec<String> = succeeded(output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a.both 2", "a.inside 1", "a.outside 1"]);
    assert_eq!(git(place, &["config", "--get-regexp", "^a"]), "a.outside 1\na.both 2\n");
    // During a run, in place, as an editor does that keeps the file: a rename would take the mount off.
    let script = "git config branch.main.description inside; touch started; while [ ! -e go ]; do sleep 0.01; done";
    let mut command = crate::sandbox::sandbox(place);
    let mut child = command.args(["--", "sh", "-c", script]).spawn().unwrap();
    while !place.project().join("started").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    write(place, ".git/config", config(place) + "# new\n[branch \"main\"]\n\trebase = true\n");
    write(place, "go", "");
    assert!(child.wait().unwrap().success());
    let now = config(place);
    assert!(now.contains("# new\n") && now.contains("rebase = true"), "{now}");
    assert_eq!(git(place, &["config", "branch.main.description"]), "inside\n");
}

/// As git on the host does it. The link is gone with the file that it covered, which is reported.
fn a_file_that_the_host_replaces_meanwhile_loses_no_change(place: &Place) {
    repository(place);
    let script = "git config branch.main.description inside; git config a.inside 1; touch started
                  while [ ! -e go ]; do sleep 0.01; done";
    let mut command = crate::sandbox::sandbox(place);
    let mut child = command.args(["--", "sh", "-c", script]).stderr(Stdio::piped()).spawn().unwrap();
    while !place.project().join("started").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    git(place, &["config", "a.outside", "1"]);
    write(place, "go", "");
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("`.git/config` was replaced on the host during the run"), "{said}");
    assert_eq!(git(place, &["config", "--get-regexp", "^(a|branch)"]), "a.outside 1\nbranch.main.description inside\n");
    assert_eq!(
        shell(place, "git config a.inside; git config a.outside; git config branch.main.description"),
        "1\n1\ninside\n"
    );
}

/// The settings of the three agents, as they write them: in place, or beside the file that a link leads to.
fn settings_of_agents_stay_and_a_few_keys_reach_the_host(place: &Place) {
    for (file, content) in [
        (".codex/config.toml", "# mine\nmodel = \"old\"\n"),
        (".gemini/settings.json", "{\n  \"mcpServers\": {},\n  \"ui\": {\n    \"theme\": \"old\"\n  }\n}\n"),
        (".claude/settings.json", "{\"hooks\": {}, \"model\": \"old\"}\n"),
    ] {
        place.write(place.home().join(file), content);
    }
    let script = r#"
        cat >new <<'END'
model = "new"
model_reasoning_effort = "high"
[projects."/p"]
trust_level = "trusted"
[mcp_servers.x]
command = "evil"
END
        real=$(readlink ~/.codex/config.toml); cp new "$real.tmp"; mv "$real.tmp" "$real"
        printf '{"ui": {"theme": "new"}, "security": {"auth": {"selectedType": "gemini-api-key"}}, "tools": {"x": "evil"}}' \
            >~/.gemini/settings.json
        printf '{"model": "new", "theme": "/evil", "apiKeyHelper": "evil", "skipDangerousModePermissionPrompt": true}' \
            >~/.claude/settings.json"#;
    let output = run(place, &["--", "sh", "-c", script]);
    let said = stderr(&output);
    succeeded(output);
    for kept in ["trust_level", "mcp_servers.x.command", "tools.x", "`theme`", "apiKeyHelper", "skipDangerous"] {
        assert!(said.contains(kept), "{kept}: {said}");
    }
    let read = |file: &str| fs::read_to_string(place.home().join(file)).unwrap();
    assert_eq!(read(".codex/config.toml"), "# mine\nmodel = \"new\"\nmodel_reasoning_effort = \"high\"\n");
    let gemini = "{\n  \"mcpServers\": {},\n  \"ui\": {\n    \"theme\": \"new\"\n  },\n  \
                  \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}}\n}\n";
    assert_eq!(read(".gemini/settings.json"), gemini);
    assert_eq!(read(".claude/settings.json"), "{\"hooks\": {}, \"model\": \"new\"}\n");
    let again = run(place, &["--", "sh", "-c", "cat ~/.codex/config.toml ~/.claude/settings.json"]);
    assert_eq!(stderr(&again), "", "it was reported once");
    let again = succeeded(again);
    assert!(again.contains("trust_level = \"trusted\"") && again.contains("skipDangerous"), "{again}");
}

fn in_a_new_home_the_keys_make_the_file(place: &Place) {
    fs::create_dir_all(place.home().join(".codex")).unwrap();
    place.give_away();
    let file = place.home().join(".codex/config.toml");
    shell(place, "printf 'model = \"m\"\\nnotify = [\"evil\"]\\n' >~/.codex/config.toml");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"m\"\n");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(shell(place, "cat ~/.codex/config.toml"), "model = \"m\"\nnotify = [\"evil\"]\n");
    fs::remove_file(&file).unwrap();
    assert_eq!(shell(place, "cat ~/.codex/config.toml"), "notify = [\"evil\"]\n", "the user removed the model");
    assert!(!file.exists(), "and it does not come back");
}

/// Codex starts the servers that the file of a trusted project names.
fn trust_in_a_planted_project_stays_inside(place: &Place) {
    fs::create_dir_all(place.home().join(".codex")).unwrap();
    place.give_away();
    shell(
        place,
        "mkdir -p planted/.codex; printf '[mcp_servers.x]\\ncommand = \"evil\"\\n' >planted/.codex/config.toml
         printf '[projects.\"%s\"]\\ntrust_level = \"trusted\"\\n' \"$PWD/planted\" >~/.codex/config.toml
         printf 'projects = { \"%s\" = { trust_level = \"trusted\" } }\\n' \"$PWD\" >>~/.codex/x",
    );
    assert!(!place.home().join(".codex/config.toml").exists());
}

fn is_read_only(output: &Output, why: &str) {
    let said = stderr(output);
    assert!(said.contains("warning[private-unavailable]") && said.contains(why), "{said}");
    assert!(said.contains("Read-only file system") || said.contains("could not"), "{said}");
}

const WRITE: [&str; 4] = ["--", "sh", "-c", "git config a.b c; echo x >>.git/config"];

fn without_the_guard_a_private_file_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place);
    is_read_only(&run(place, &[&["--no-guard"][..], &WRITE].concat()), "needs the guard");
    assert_eq!(config(place), before);
}

fn a_symlink_in_its_place_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place);
    let git = place.project().join(".git");
    fs::rename(git.join("config"), git.join("real")).unwrap();
    symlink("real", git.join("config")).unwrap();
    place.give_away();
    let output = run(place, &WRITE);
    is_read_only(&output, "is a symlink");
    assert_eq!(fs::read_to_string(git.join("real")).unwrap(), before);
}

/// Refuses `move_mount` to the arguments that follow, as some seccomp profiles of containers do. Its number is that of all
/// architectures.
const REFUSE_MOVE_MOUNT: &str = r#"
import ctypes, os, struct, sys
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
MOVE_MOUNT, EPERM_, ALLOW = 429, 0x00050001, 0x7fff0000
steps = [(LOAD_NUMBER, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, MOVE_MOUNT), (RETURN, 0, 0, EPERM_), (RETURN, 0, 0, ALLOW)]
steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(steps)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
for words in [(NO_NEW_PRIVS, 1, 0, 0, 0), (SECCOMP, FILTER, program, 0, 0)]:
    if prctl(*words) != 0: sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"#;

fn where_the_kernel_refuses_the_link_it_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place);
    let product = crate::sandbox::sandbox(place);
    let mut command = place.command("python3");
    command.args(["-I", "-c", REFUSE_MOVE_MOUNT]).arg(product.get_program()).args(product.get_args());
    let output = command.args(WRITE).output().unwrap();
    is_read_only(&output, ".git/config`: operation not permitted");
    let said = stderr(&output);
    assert_eq!(said.matches("private-unavailable").count(), 1, "{said}");
    assert!(!said.contains("guard"), "the second start has the guard: {said}");
    assert_eq!(config(place), before);
}

fn every_key_that_stays_is_reported(place: &Place) {
    repository(place);
    let script = "for n in $(seq 30); do git config a.k$n v; done";
    succeeded(run(place, &["--", "sh", "-c", script]));
    let output = place.agent_sandbox().args(["report", "--last"]).output().unwrap();
    let said = stdout(&output) + &stderr(&output);
    for number in 1..=30 {
        assert!(said.contains(&format!(".git/config --replace-all a.k{number} v`")), "{number}: {said}");
    }
}

/// Gemini CLI renames a new file over the one that a variable names.
fn a_program_that_replaces_the_file_itself_is_led_to_the_copy(place: &Place) {
    let file = place.home().join(".gemini/trustedFolders.json");
    place.write(&file, "{\"/mine\": \"TRUST_FOLDER\"}\n");
    let before = fs::read(&file).unwrap();
    let script = "file=${GEMINI_CLI_TRUSTED_FOLDERS_PATH-~/.gemini/trustedFolders.json}; cat $file; rm -f $file.tmp
                  printf '{\"/mine\": \"TRUST_FOLDER\", \"%s\": \"TRUST_FOLDER\"}\n' \"$PWD\" >$file.tmp; mv $file.tmp $file";
    let first = run(place, &["--", "sh", "-c", script]);
    assert!(stderr(&first).contains("TRUST_FOLDER"), "reported: {}", stderr(&first));
    assert_eq!(succeeded(first).as_bytes(), before);
    assert_eq!(fs::read(&file).unwrap(), before);
    let again = shell(place, "cat ~/.gemini/trustedFolders.json \"$GEMINI_CLI_TRUSTED_FOLDERS_PATH\"");
    assert_eq!(again.matches(place.project().to_str().unwrap()).count(), 2, "{again}");
    // The user's own place is the user's.
    let mut command = crate::sandbox::sandbox(place);
    let output = command.env("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "/mine").args(["--", "printenv"]).output().unwrap();
    assert!(succeeded(output).contains("GEMINI_CLI_TRUSTED_FOLDERS_PATH=/mine\n"));
    let plain = run(place, &["--no-guard", "--", "sh", "-c", script]);
    assert!(!plain.status.success() && stderr(&plain).contains("busy"), "{}", stderr(&plain));
    assert_eq!(fs::read(&file).unwrap(), before);
}

fn without_a_state_folder_it_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place);
    place.write("home/.local/state/agent-sandbox/private", "no folder");
    is_read_only(&run(place, &WRITE), "private files are read-only");
    assert_eq!(config(place), before);
}

fn a_file_that_is_too_large_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place) + &"# comment\n".repeat(1 << 17);
    write(place, ".git/config", &before);
    place.write(place.home().join(".codex/config.toml"), "");
    let output =
        run(place, &["--", "sh", "-c", "git config a.b c; echo x >>.git/config; echo '# x' >>~/.codex/config.toml"]);
    is_read_only(&output, "is read-only: it is larger than 1 MiB");
    assert_eq!(config(place), before);
    assert_eq!(shell(place, "cat ~/.codex/config.toml"), "# x\n", "other files have their copies");
}

/// Nothing leaves at its end, but the copy stays, and the next run finishes it.
fn a_killed_run_loses_nothing(place: &Place) {
    repository(place);
    let script = "git config branch.main.description kept; touch started; sleep 60";
    let mut command = crate::sandbox::sandbox(place);
    let mut child = command.args(["--", "sh", "-c", script]).spawn().unwrap();
    while !place.project().join("started").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!config(place).contains("kept"));
    assert_eq!(shell(place, "git config branch.main.description"), "kept\n");
    assert!(config(place).contains("description = kept"));
}

/// A watcher of the project, and git, see neither the copies nor a change of a file that did not change.
fn the_host_sees_nothing_of_it(place: &Place) {
    repository(place);
    let looked = || {
        let git = place.project().join(".git");
        let found = fs::metadata(git.join("config")).unwrap();
        let mut names: Vec<_> = fs::read_dir(&git).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        (found.ino(), found.ctime(), found.ctime_nsec(), names)
    };
    let before = looked();
    shell(place, "git config core.pager evil; git config --unset core.pager; git config user.name inside");
    assert_eq!(looked(), before);
}
