//! Private files: the command writes a copy that stays with the project.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::sandbox::{run, shell, succeeded, write};
use crate::support::{Place, stderr, stdout};

everywhere!(the_model_and_verify_know_the_link);

for_both!(
    changes_of_the_host_and_of_the_command_both_survive,
    a_file_that_the_host_replaces_meanwhile_loses_no_change,
    settings_of_agents_stay_and_a_few_keys_reach_the_host,
    in_a_new_home_listed_keys_create_the_file,
    codex_starts_no_server_unless_the_user_wants_it,
    a_counter_of_a_program_is_not_reported,
    trust_in_a_planted_project_stays_inside,
    without_the_guard_a_private_file_is_read_only_with_a_warning,
    a_missing_file_that_a_user_names_starts_empty_and_stays_inside,
    a_symlink_in_its_place_is_read_only_and_lint_says_so,
    a_private_file_is_read_only_with_a_warning_if_the_kernel_refuses_the_link,
    a_program_that_replaces_the_file_itself_is_led_to_the_copy,
    the_links_that_the_supervisor_copies_cannot_be_changed,
    every_key_that_stays_is_reported,
    without_a_state_folder_a_private_file_is_read_only_with_a_warning,
    a_file_that_is_too_large_is_read_only_with_a_warning,
    a_killed_run_loses_nothing,
    the_git_folder_of_the_host_stays_unchanged,
    audit_forms_change_no_copy_and_no_file_of_the_host,
    a_state_folder_that_a_rule_names_does_not_keep_a_run_from_starting,
    a_lock_that_a_killed_git_left_is_removed,
    a_forgotten_copy_takes_everything_beside_it_along,
    closed_folders_beside_a_copy_are_forgotten,
    a_private_file_in_use_by_another_project_is_kept_and_reported,
    the_mode_stays_and_so_does_a_key_that_the_host_changed,
    a_group_that_cannot_be_kept_loses_its_rights,
    extended_attributes_and_acls_stay,
    a_file_whose_attributes_cannot_be_kept_is_left_alone,
    leftovers_of_a_killed_run_among_the_copies_are_removed,
    the_copies_of_a_project_in_use_are_not_forgotten,
    the_hosts_own_change_in_a_protected_file_is_no_finding,
    a_worktree_that_the_user_removes_during_a_run_is_no_finding,
    leftovers_of_a_killed_run_beside_the_file_are_removed,
    a_lock_of_git_on_the_host_is_named,
    beyond_64_private_files_the_others_are_read_only,
    a_copy_in_use_is_not_forgotten_and_the_last_run_reports,
    a_start_without_supervision_says_what_it_found,
    a_copy_survives_a_host_file_that_cannot_be_parsed,
);

for_root!(a_copy_of_another_user_is_set_aside);

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

// SPEC Q2
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

// SPEC Q1
fn a_missing_file_that_a_user_names_starts_empty_and_stays_inside(place: &Place) {
    write(place, ".agent-sandbox.toml", "[filesystem]\nprivate = ['conf.toml', 'new/x.json', '*.ini']\n");
    let found = shell(place, "cat conf.toml new/x.json; echo 'a = 1' >conf.toml; echo '{\"x\": 1}' >new/x.json");
    assert_eq!(found, "{}\n");
    assert!(!place.project().join("conf.toml").exists() && !place.project().join("new").exists());
    assert_eq!(shell(place, "cat conf.toml new/x.json"), "a = 1\n{\"x\": 1}\n");
    // Without placeholders the command can create both on the host.
    let said = stderr(&run(place, &["--exec", "--", "true"]));
    assert_eq!(said.matches("is missing, and the command can create it").count(), 2, "{said}");
    // A file that exists by now is the file to copy.
    write(place, "conf.toml", "b = 2\n");
    assert_eq!(shell(place, "cat conf.toml"), "a = 1\nb = 2\n");
}

// SPEC Y3
fn the_links_that_the_supervisor_copies_cannot_be_changed(place: &Place) {
    repository(place);
    let script = "exec 2>errors; cd /run/agent-sandbox/inside; for link in *; do readlink $link; done
        ln -sfn /etc/hostname $link; rm -f $link; mv $link other; touch other; chmod 0 .; umount -l .
        cd ..; mv inside other; mv /run/agent-sandbox /run/other; readlink /run/agent-sandbox/inside/$link";
    let found = shell(place, script);
    let copies: Vec<&str> = found.lines().collect();
    assert!(copies.iter().all(|copy| copy.starts_with("/run/agent-sandbox/private/")), "{found}");
    assert!(copies.len() > 1 && copies[copies.len() - 1] == copies[copies.len() - 2], "{found}");
    let errors = fs::read_to_string(place.project().join("errors")).unwrap();
    assert_eq!(errors.lines().count(), 8, "{errors}");
}

fn git(place: &Place, words: &[&str]) -> String {
    let output = place.command("git").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    stdout(&output)
}

// SPEC Q3
fn changes_of_the_host_and_of_the_command_both_survive(place: &Place) {
    repository(place);
    shell(place, "git config a.inside 1; git config a.both 1");
    // The host's file changes between two runs.
    git(place, &["config", "a.outside", "1"]);
    git(place, &["config", "a.both", "2"]);
    let output = run(place, &["--", "git", "config", "--get-regexp", "^a"]);
    assert!(stderr(&output).contains("warning[private-conflict]: `a.both`"), "{}", stderr(&output));
    let mut lines: Vec<String> = succeeded(output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a.both 2", "a.inside 1", "a.outside 1"]);
    assert_eq!(git(place, &["config", "--get-regexp", "^a"]), "a.outside 1\na.both 2\n");
    // The host's file changes during a run, in place as some editors do: a rename would detach
    // the mount.
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

/// git on the host renames a new file over its settings. This detaches the mount of the link to the
/// copy, which the run reports.
// SPEC Q3
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

/// The three agents write their settings in place, or rename a new file over the target of the
/// link.
// SPEC Q4
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

/// The lines that agent-sandbox adds to the copy of Codex's settings.
const NO_DAEMON: &str = "[features]\ndaemon_auto_start = false\n";

fn in_a_new_home_listed_keys_create_the_file(place: &Place) {
    fs::create_dir_all(place.home().join(".codex")).unwrap();
    place.give_away();
    let file = place.home().join(".codex/config.toml");
    shell(place, "printf 'model = \"m\"\\nnotify = [\"evil\"]\\n' >~/.codex/config.toml");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"m\"\n");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
    let inside = format!("model = \"m\"\nnotify = [\"evil\"]\n\n{NO_DAEMON}");
    assert_eq!(shell(place, "cat ~/.codex/config.toml"), inside);
    fs::remove_file(&file).unwrap();
    let inside = format!("notify = [\"evil\"]\n\n{NO_DAEMON}");
    assert_eq!(shell(place, "cat ~/.codex/config.toml"), inside, "the user removed the model");
    assert!(!file.exists(), "the run must not create the file again");
}

/// To run its server in a process of its own, Codex would install a program in the host's home.
// SPEC Q11
fn codex_starts_no_server_unless_the_user_wants_it(place: &Place) {
    place.write("home/.codex/config.toml", "# mine\nmodel = \"m\"\n");
    let output = run(place, &["--", "sh", "-c", "cat ~/.codex/config.toml; mkdir ~/.codex/packages/x"]);
    assert_eq!(stdout(&output), format!("# mine\nmodel = \"m\"\n\n{NO_DAEMON}"));
    assert!(stderr(&output).contains("Read-only file system") && !stderr(&output).contains("private-kept"));
    let host = place.home().join(".codex/config.toml");
    assert_eq!(fs::read_to_string(&host).unwrap(), "# mine\nmodel = \"m\"\n");
    let listed = succeeded(place.agent_sandbox().args(["private", "list"]).output().unwrap());
    assert!(!listed.contains("differs"), "{listed}");
    assert!(!place.home().join(".codex/packages").exists());
    // The command may change the key in its copy, and the user may set it in the host's file.
    let script = "sed -i --follow-symlinks s/false/true/ ~/.codex/config.toml";
    assert!(stderr(&run(place, &["--", "sh", "-c", script])).contains("daemon_auto_start"));
    assert!(shell(place, "cat ~/.codex/config.toml").contains("daemon_auto_start = true"));
    place.agent_sandbox().args(["private", "forget", "--project"]).arg(place.project()).output().unwrap();
    fs::write(&host, "[features]\ndaemon_auto_start = true\n").unwrap();
    assert_eq!(shell(place, "cat ~/.codex/config.toml"), "[features]\ndaemon_auto_start = true\n");
}

// SPEC Q5
fn a_counter_of_a_program_is_not_reported(place: &Place) {
    place.write("home/.codex/config.toml", "model = \"m\"\n");
    let count = |number: u32| {
        let script = format!(
            "printf '[tui.model_availability_nux]\n\"gpt-6\" = {number}\n[notice]\nx = true\n' >~/.codex/config.toml"
        );
        stderr(&run(place, &["--", "sh", "-c", &script]))
    };
    let first = count(1);
    assert!(first.contains("notice") && !first.contains("nux"), "{first}");
    assert_eq!(count(2), "");
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

// SPEC Q9
fn without_the_guard_a_private_file_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place);
    is_read_only(&run(place, &[&["--no-guard"][..], &WRITE].concat()), "needs the guard");
    assert_eq!(config(place), before);
}

// SPEC Q9
fn a_symlink_in_its_place_is_read_only_and_lint_says_so(place: &Place) {
    repository(place);
    let before = config(place);
    let git = place.project().join(".git");
    fs::rename(git.join("config"), git.join("real")).unwrap();
    symlink("real", git.join("config")).unwrap();
    place.give_away();
    let said = stderr(&run(place, &WRITE));
    assert!(!said.contains("private-unavailable") && said.contains("Read-only file system"), "{said}");
    assert_eq!(fs::read_to_string(git.join("real")).unwrap(), before);
    let found = stdout(&place.agent_sandbox().arg("lint").output().unwrap());
    assert!(found.contains("warning[private-unavailable]") && found.contains("is a symlink"), "{found}");
}

/// Runs its arguments under a filter that refuses `move_mount`, as some seccomp profiles of
/// containers do. The call has the same number on all architectures.
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

// SPEC Q9
fn a_private_file_is_read_only_with_a_warning_if_the_kernel_refuses_the_link(place: &Place) {
    repository(place);
    let before = config(place);
    let product = crate::sandbox::sandbox(place);
    // In a network namespace of its own, the product sees no socket of the host. The guard would
    // have to mount over one.
    let mut command = place.command("unshare");
    command.args(["--user", "--map-current-user", "--net", "python3", "-I", "-c", REFUSE_MOVE_MOUNT]);
    command.arg(product.get_program()).args(product.get_args());
    let output = command.args(WRITE).output().unwrap();
    is_read_only(&output, ".git/config`: operation not permitted");
    let said = stderr(&output);
    assert_eq!(said.matches("private-unavailable").count(), 1, "{said}");
    assert!(!said.contains("guard"), "the second start has the guard: {said}");
    assert_eq!(config(place), before);
}

// SPEC Q5
fn every_key_that_stays_is_reported(place: &Place) {
    repository(place);
    let script = "for n in $(seq 30); do git config a.k$n v; done";
    succeeded(run(place, &["--", "sh", "-c", script]));
    let output = place.agent_sandbox().args(["report", "--last"]).output().unwrap();
    let said = stdout(&output) + &stderr(&output);
    for number in 1..=30 {
        assert!(said.contains(&format!(".git/config --replace-all -- a.k{number} v`")), "{number}: {said}");
    }
}

/// Gemini CLI renames a new file over the file that a variable names.
// SPEC Q2
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
    // A path that the user has set is kept.
    let mut command = crate::sandbox::sandbox(place);
    let output = command.env("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "/mine").args(["--", "printenv"]).output().unwrap();
    assert!(succeeded(output).contains("GEMINI_CLI_TRUSTED_FOLDERS_PATH=/mine\n"));
    let plain = run(place, &["--no-guard", "--", "sh", "-c", script]);
    assert!(!plain.status.success() && stderr(&plain).contains("busy"), "{}", stderr(&plain));
    assert_eq!(fs::read(&file).unwrap(), before);
}

// SPEC Q9
fn without_a_state_folder_a_private_file_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place);
    place.write("home/.local/state/agent-sandbox/private", "no folder");
    is_read_only(&run(place, &WRITE), "private files are read-only");
    assert_eq!(config(place), before);
}

// SPEC Q9
fn a_file_that_is_too_large_is_read_only_with_a_warning(place: &Place) {
    repository(place);
    let before = config(place) + &"# comment\n".repeat(1 << 17);
    write(place, ".git/config", &before);
    place.write(place.home().join(".codex/config.toml"), "");
    let output =
        run(place, &["--", "sh", "-c", "git config a.b c; echo x >>.git/config; echo '# x' >>~/.codex/config.toml"]);
    is_read_only(&output, "is read-only: it is larger than 1 MiB");
    assert_eq!(config(place), before);
    let expected = format!("{NO_DAEMON}# x\n");
    assert_eq!(shell(place, "cat ~/.codex/config.toml"), expected, "other files have their copies");
}

/// A killed run writes nothing to the host, but its copy stays, and the next run writes the
/// changes.
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

/// A watcher of the project, and git, do not see the copies, and no file of `.git` changes.
fn the_git_folder_of_the_host_stays_unchanged(place: &Place) {
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

/// A run that waits until the test writes `go`.
struct Waiting {
    child: std::process::Child,
    project: PathBuf,
}

impl Waiting {
    fn start(mut command: Command, project: PathBuf, script: &str) -> Self {
        let script = format!("{script}; touch started; while [ ! -e go ]; do sleep 0.01; done");
        let mut child = command.args(["--", "sh", "-c", &script]).stderr(Stdio::piped()).spawn().unwrap();
        while !project.join("started").exists() {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Self { child, project }
    }

    fn finish(mut self) -> String {
        fs::write(self.project.join("go"), "").unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

/// Kills the run if the test fails.
impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn state(place: &Place) -> PathBuf {
    place.home().join(".local/state/agent-sandbox/private")
}

/// All files below the folder of private files, with their contents.
fn copies(place: &Place) -> Vec<(PathBuf, Vec<u8>)> {
    let mut folders = vec![state(place)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => files.push((entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    files.sort();
    files
}

// SPEC S6
fn audit_forms_change_no_copy_and_no_file_of_the_host(place: &Place) {
    repository(place);
    let mut run = Waiting::start(
        crate::sandbox::sandbox(place),
        place.project(),
        "git config branch.main.description kept; git config a.both 1",
    );
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    git(place, &["config", "a.both", "2"]);
    let before = (config(place), copies(place));
    for words in [&["verify"][..], &["--print-args", "--", "true"], &["doctor"]] {
        run_of(place, words);
        assert!((config(place), copies(place)) == before, "{words:?}");
    }
}

fn run_of(place: &Place, words: &[&str]) -> Output {
    let output = run(place, words);
    assert!(output.status.success(), "{words:?}: {}{}", stdout(&output), stderr(&output));
    output
}

// SPEC Q9
fn a_state_folder_that_a_rule_names_does_not_keep_a_run_from_starting(place: &Place) {
    repository(place);
    place.write("home/.local/state/agent-sandbox/private", "no folder");
    let folder = state(place);
    let output = run(place, &["--ro", folder.to_str().unwrap(), "--", "echo", "started"]);
    assert_eq!(stdout(&output), "started\n", "{}", stderr(&output));
}

fn a_lock_that_a_killed_git_left_is_removed(place: &Place) {
    repository(place);
    shell(place, "touch $(readlink .git/config).lock; ! git config a.b c 2>/dev/null");
    assert_eq!(shell(place, "git config a.b c; git config a.b"), "c\n");
}

fn forget(place: &Place) -> Output {
    place.agent_sandbox().args(["private", "forget", ".git/config"]).output().unwrap()
}

// SPEC Q10
fn a_forgotten_copy_takes_everything_beside_it_along(place: &Place) {
    repository(place);
    shell(place, "git config a.b c; touch $(dirname $(readlink .git/config))/beside");
    assert!(forget(place).status.success());
    assert_eq!(shell(place, "ls $(dirname $(readlink .git/config)); git config a.b || echo gone"), "config\ngone\n");
}

// SPEC Q10
fn closed_folders_beside_a_copy_are_forgotten(place: &Place) {
    repository(place);
    let close = "git config a.b c; cd $(dirname $(readlink .git/config)); mkdir -p x/y; touch x/y/z; chmod 0 x/y x";
    shell(place, close);
    assert!(forget(place).status.success());
    assert_eq!(shell(place, "git config a.b || echo gone"), "gone\n");
    // The command closes folders again, now with an earlier copy that was set aside.
    shell(place, close);
    let project = place.project();
    let words = ["private", "forget", "--project", project.to_str().unwrap()];
    succeeded(place.agent_sandbox().args(words).output().unwrap());
    let mut folders = fs::read_dir(state(place)).unwrap().map(|entry| entry.unwrap().path());
    let mine = folders.find(|path| path.join("lock").exists()).unwrap();
    let left: Vec<_> = fs::read_dir(mine).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

/// Two projects mount over the same file of the home, and each has its own copy.
// SPEC Q8
fn a_private_file_in_use_by_another_project_is_kept_and_reported(place: &Place) {
    let file = place.home().join(".codex/config.toml");
    place.write(&file, "model = \"old\"\n");
    let other = place.home().join("code/other");
    place.write(other.join(".agent-sandbox.toml"), "");
    let mut command = crate::sandbox::sandbox(place);
    command.current_dir(&other);
    let waiting = Waiting::start(command, other, "sed -i --follow-symlinks '1i x = 1' ~/.codex/config.toml");
    let change = ["--", "sh", "-c", "sed -i --follow-symlinks s/old/new/ ~/.codex/config.toml"];
    let first = run_of(place, &change);
    assert!(stderr(&first).contains("warning[private-not-written]") && stderr(&first).contains("another run uses it"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"old\"\n");
    assert!(waiting.finish().contains("`x` of"), "each run reports its own copy");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"old\"\n", "the copy of another project");
    assert_eq!(stderr(&run_of(place, &["--", "true"])), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"new\"\n");
}

// SPEC Q4
fn the_mode_stays_and_so_does_a_key_that_the_host_changed(place: &Place) {
    repository(place);
    let file = place.project().join(".git/config");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let script = "git config branch.main.description inside; git config branch.main.rebase true";
    let waiting = Waiting::start(crate::sandbox::sandbox(place), place.project(), script);
    let before = fs::metadata(&file).unwrap();
    // The file is changed in place: a rename would detach the mount.
    write(place, ".git/config", config(place) + "[branch \"main\"]\n\tdescription = outside\n");
    waiting.finish();
    let after = fs::metadata(&file).unwrap();
    assert_eq!((after.mode() & 0o7777, after.gid()), (0o640, before.gid()));
    assert_ne!(after.ino(), before.ino(), "the file is a new one");
    assert_eq!(
        git(place, &["config", "--get-regexp", "^branch"]),
        "branch.main.description outside\nbranch.main.rebase true\n"
    );
}

/// Only root and the members of a group can give a file to the group.
// SPEC Q4
fn a_group_that_cannot_be_kept_loses_its_rights(place: &Place) {
    const OTHERS: u32 = 54_321;
    repository(place);
    let file = place.project().join(".git/config");
    std::os::unix::fs::chown(&file, None, Some(OTHERS)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    shell(place, "git config branch.main.rebase true");
    let after = fs::metadata(&file).unwrap();
    let expected = if place.uid == 0 { (0o664, OTHERS) } else { (0o604, place.uid) };
    assert_eq!((after.mode() & 0o7777, after.gid()), expected);
    assert!(config(place).contains("rebase = true"));
}

const ACCESS_ACL: &str = "system.posix_acl_access";

/// An ACL that lets user 1 read, as the kernel stores it (acl(5)): tag, rights, id.
fn acl() -> Vec<u8> {
    const ANYBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, ANYBODY), (2, 4, 1), (4, 0, ANYBODY), (16, 4, ANYBODY), (32, 0, ANYBODY)];
    let bytes = |(tag, rights, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [2_u32.to_le_bytes().to_vec()].into_iter().chain(entries.map(bytes)).flatten().collect()
}

fn set_attribute(path: &std::path::Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

fn attribute(path: &std::path::Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1000];
    let length = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    Some(value[..length].to_vec())
}

// SPEC Q4
fn extended_attributes_and_acls_stay(place: &Place) {
    repository(place);
    let git = place.project().join(".git");
    let file = git.join("config");
    set_attribute(&file, "user.mine", b"kept");
    set_attribute(&file, ACCESS_ACL, &acl());
    let mode = fs::metadata(&file).unwrap().mode();
    shell(place, "git config branch.main.rebase true");
    assert!(config(place).contains("rebase = true"));
    assert_eq!(attribute(&file, "user.mine").as_deref(), Some(&b"kept"[..]));
    assert_eq!((attribute(&file, ACCESS_ACL), fs::metadata(&file).unwrap().mode()), (Some(acl()), mode));
    // Each new file in the folder gets this ACL, but the existing file has none.
    set_attribute(&git, "system.posix_acl_default", &acl());
    rustix::fs::removexattr(&file, ACCESS_ACL).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    shell(place, "git config branch.main.rebase false");
    assert!(config(place).contains("rebase = false"));
    assert_eq!((attribute(&file, ACCESS_ACL), fs::metadata(&file).unwrap().mode() & 0o777), (None, 0o640));
}

/// Only root can set the capabilities of a file.
// SPEC Q4
fn a_file_whose_attributes_cannot_be_kept_is_left_alone(place: &Place) {
    repository(place);
    let file = place.project().join(".git/config");
    // Version 2, without any capability (linux/capability.h).
    let none = [&0x0200_0000_u32.to_le_bytes()[..], &[0; 16]].concat();
    set_attribute(&file, "security.capability", &none);
    let before = (config(place), fs::metadata(&file).unwrap().ino());
    let output = run_of(place, &["--", "git", "config", "branch.main.rebase", "true"]);
    if place.uid == 0 {
        assert!(config(place).contains("rebase = true"));
    } else {
        let said = stderr(&output);
        let expected = "/.git/config` did not get the changes of the sandbox: its extended attributes cannot be kept: operation not permitted";
        assert!(said.contains(expected), "{said}");
        assert_eq!((config(place), fs::metadata(&file).unwrap().ino()), before);
    }
    assert_eq!(attribute(&file, "security.capability"), Some(none));
    assert!(!place.project().join(".git/config.lock").exists());
}

// SPEC Q10
fn leftovers_of_a_killed_run_among_the_copies_are_removed(place: &Place) {
    repository(place);
    shell(place, "git config branch.main.rebase true");
    let names = || -> Vec<std::ffi::OsString> {
        let mut folders = fs::read_dir(state(place)).unwrap().map(|entry| entry.unwrap().path());
        let mine = folders.find(|path| path.join("lock").exists()).unwrap();
        let mut names: Vec<_> = fs::read_dir(&mine).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for name in ["new", "git", "git.lock"] {
            place.write(mine.join(name), "unfinished");
        }
        names
    };
    let before = names();
    shell(place, "git config branch.main.rebase false");
    assert!(config(place).contains("rebase = false"));
    assert_eq!(names(), before);
}

// SPEC Q10
fn the_copies_of_a_project_in_use_are_not_forgotten(place: &Place) {
    repository(place);
    let waiting = Waiting::start(crate::sandbox::sandbox(place), place.project(), "git config a.first 1");
    let project = place.project();
    let words = ["private", "forget", "--project", project.to_str().unwrap()];
    let forgotten = place.agent_sandbox().args(words).output().unwrap();
    assert_eq!(forgotten.status.code(), Some(125));
    assert!(stderr(&forgotten).contains("a run uses it"), "{}", stderr(&forgotten));
    assert!(waiting.finish().contains("warning[private-kept]: `a.first`"));
    succeeded(place.agent_sandbox().args(words).output().unwrap());
    assert_eq!(shell(place, "git config a.first || echo gone"), "gone\n");
}

/// No mount was detached, so the command cannot have made the change.
fn the_hosts_own_change_in_a_protected_file_is_no_finding(place: &Place) {
    repository(place);
    let waiting = Waiting::start(crate::sandbox::sandbox(place), place.project(), "true");
    write(place, ".git/config", config(place) + "[core]\n\tpager = mine\n");
    write(place, ".git/hooks/pre-commit", "#!/bin/sh\n");
    assert_eq!(waiting.finish(), "");
    for name in ["started", "go"] {
        fs::remove_file(place.project().join(name)).unwrap();
    }
    // A rename detaches the mount, and then the run cannot tell a change of the user from a change
    // of the command.
    let waiting = Waiting::start(crate::sandbox::sandbox(place), place.project(), "true");
    git(place, &["config", "core.fsmonitor", "mine"]);
    let said = waiting.finish();
    assert!(said.contains("warning[replaced-during-run]: `.git/config`"), "{said}");
    assert_eq!(said.matches("since this run, `core.fsmonitor`").count(), 1, "{said}");
}

// SPEC R2
fn a_worktree_that_the_user_removes_during_a_run_is_no_finding(place: &Place) {
    repository(place);
    let beside = place.home().join("code/beside");
    let git = place.project().join(".git");
    let of_worktree = git.join("worktrees/beside");
    place.write(beside.join(".git"), format!("gitdir: {}\n", of_worktree.display()));
    place.write(of_worktree.join("gitdir"), format!("{}\n", beside.join(".git").display()));
    place.write(of_worktree.join("commondir"), "../..\n");
    place.write(of_worktree.join("HEAD"), "ref: refs/heads/beside\n");
    let waiting = Waiting::start(crate::sandbox::sandbox(place), place.project(), "true");
    fs::remove_dir_all(&beside).unwrap();
    fs::remove_dir_all(git.join("worktrees")).unwrap();
    let said = waiting.finish();
    assert!(!said.contains("repository-repaired"), "{said}");
}

fn leftovers_of_a_killed_run_beside_the_file_are_removed(place: &Place) {
    let file = place.home().join(".codex/config.toml");
    place.write(&file, "");
    place.write(place.home().join(".codex/config.toml.agent-sandbox"), "unfinished");
    shell(place, "echo 'model = \"m\"' >~/.codex/config.toml");
    assert_eq!(fs::read_to_string(&file).unwrap(), "model = \"m\"\n");
    assert!(!place.home().join(".codex/config.toml.agent-sandbox").exists());
}

// SPEC Q4
fn a_lock_of_git_on_the_host_is_named(place: &Place) {
    repository(place);
    let before = config(place);
    write(place, ".git/config.lock", "");
    let output = run_of(place, &["--", "git", "config", "branch.main.description", "x"]);
    assert!(stderr(&output).contains("/.git/config.lock` exists; remove it if no git runs"), "{}", stderr(&output));
    assert_eq!(config(place), before);
    fs::remove_file(place.project().join(".git/config.lock")).unwrap();
    run_of(place, &["--", "true"]);
    assert!(config(place).contains("description = x"));
}

// SPEC Q9
fn beyond_64_private_files_the_others_are_read_only(place: &Place) {
    for number in 100..165 {
        place.write(place.home().join(format!(".many/{number}.json")), "{}");
    }
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nprivate = [\"~/.many/*.json\"]\n");
    let script = "echo '{ }' >~/.many/163.json; ! echo '{ }' 2>/dev/null >~/.many/164.json";
    let output = run_of(place, &["--", "sh", "-c", script]);
    let said = stderr(&output);
    assert!(said.contains("/.many/164.json` is read-only: only 64 private files get a copy"), "{said}");
    if place.uid != 0 {
        let file = place.home().join(".many/100.json");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        let said = stderr(&run_of(place, &["--", "true"]));
        assert!(said.contains("/.many/100.json` is read-only: permission denied"), "{said}");
    }
}

// SPEC Q8, Q10
fn a_copy_in_use_is_not_forgotten_and_the_last_run_reports(place: &Place) {
    repository(place);
    let waiting = Waiting::start(crate::sandbox::sandbox(place), place.project(), "git config a.first 1");
    let forgotten = forget(place);
    assert_eq!(forgotten.status.code(), Some(125));
    assert!(stderr(&forgotten).contains("a run uses it"), "{}", stderr(&forgotten));
    // The file is invalid, as while a program writes it.
    let second = run_of(place, &["--", "sh", "-c", "cp .git/config kept; echo '[' >.git/config"]);
    assert_eq!(stderr(&second), "");
    let third = run_of(place, &["--", "sh", "-c", "cat kept >.git/config; rm kept"]);
    assert_eq!(stderr(&third), "");
    assert!(waiting.finish().contains("warning[private-kept]: `a.first`"));
}

// SPEC Q3
fn a_start_without_supervision_says_what_it_found(place: &Place) {
    repository(place);
    shell(place, "git config a.both 1");
    git(place, &["config", "a.both", "2"]);
    let output = run_of(place, &["--exec", "--", "git", "config", "a.both"]);
    assert_eq!(stdout(&output), "2\n");
    assert!(stderr(&output).contains("warning[private-conflict]: `a.both`"), "{}", stderr(&output));
}

// SPEC Q3
fn a_copy_survives_a_host_file_that_cannot_be_parsed(place: &Place) {
    let file = place.home().join(".codex/config.toml");
    place.write(&file, "");
    shell(place, "echo 'mine = 1' >~/.codex/config.toml");
    place.write(&file, "= not toml\n");
    let output = run_of(place, &["--", "sh", "-c", "cat ~/.codex/config.toml"]);
    assert_eq!(stdout(&output), "= not toml\n");
    assert!(stderr(&output).contains("has no keys that can be merged"), "{}", stderr(&output));
    assert!(copies(place).iter().any(|(path, text)| path.ends_with("config.toml") && text == b"mine = 1\n"));
}

// SPEC Q7
fn a_copy_of_another_user_is_set_aside(place: &Place) {
    repository(place);
    shell(place, "git config a.b c");
    let copy = copies(place).into_iter().find(|(path, _)| path.ends_with("config")).unwrap().0;
    std::os::unix::fs::chown(&copy, Some(1), Some(1)).unwrap();
    git(place, &["config", "a.outside", "1"]);
    let output = run_of(place, &["--", "sh", "-c", "git config a.b || git config a.outside"]);
    assert_eq!(stdout(&output), "1\n");
    assert!(stderr(&output).contains("it belongs to another user"), "{}", stderr(&output));
}
