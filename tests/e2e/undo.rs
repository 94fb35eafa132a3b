//! Placeholders at blocked paths: the command cannot create these paths, and however the run ends,
//! the placeholders are removed. This file also tests the reports after a run.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::sandbox::{failed, journals, policy, run, runs, sandbox, shell, snapshot, succeeded, write};
use crate::support::{Place, binary, stderr, stdout};

everywhere!(
    a_blocked_path_cannot_be_created,
    nothing_is_left_whatever_the_exit_code,
    a_killed_run_is_swept_by_the_next_one,
    a_killed_run_is_swept_on_request,
    two_runs_keep_a_placeholder_until_both_have_ended,
    many_runs_at_once_leave_nothing,
    placeholders_have_the_modes_of_the_callers_umask,
    a_run_that_starts_beside_another_blocks_and_ignores_the_same,
    host_changes_at_a_placeholder_are_kept_and_reported,
    a_link_to_nothing_is_not_followed,
    the_state_folder_cannot_be_written_inside,
    git_does_not_see_placeholders,
    git_works_beside_its_placeholders,
    git_skips_covered_files,
    a_head_that_the_command_broke_is_put_back,
    files_created_by_the_command_are_reported_once,
    changed_commands_in_mixed_state_are_reported,
    a_mask_that_the_host_lost_is_reported,
    a_folder_that_the_host_replaced_is_reported,
    without_a_state_folder_nothing_runs_that_needs_placeholders,
);

const BLOCKED: &str = "ro = [{ path = 'a/.mcp.json', if-missing = 'block' }, { path = 'hooks/', if-missing = 'block' }]
exclude = [{ path = 'token', if-missing = 'block' }, { path = 'keys/', if-missing = 'block' }]\n";

/// The sorted names in the project, without the policy file.
fn project(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.project()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name != ".agent-sandbox.toml");
    names.sort();
    names
}

/// A run that waits until its input ends.
pub struct Waiting {
    child: Child,
}

impl Waiting {
    pub fn start(place: &Place) -> Self {
        Self::start_with(sandbox(place).args(["--", "sh", "-c", "echo started; cat"]))
    }

    pub fn start_with(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        Self { child }
    }

    /// Gives `input` to the command and waits for its end.
    pub fn end(mut self, input: &str) -> Output {
        self.child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.child.wait_with_output().unwrap()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

// SPEC M4
fn a_blocked_path_cannot_be_created(place: &Place) {
    policy(place, BLOCKED);
    for attempt in [
        "echo x >a/.mcp.json",
        "rm -f a/.mcp.json && test ! -e a/.mcp.json",
        "mv a/.mcp.json a/x",
        "ln -sf /etc/passwd a/.mcp.json",
        "mkdir hooks/x",
        "rmdir hooks",
        "mv hooks x",
        "echo x >token",
        "cat token",
        "mkdir keys/x",
        "ls keys",
        "rm -rf token keys hooks && test ! -e token",
        "chmod 777 hooks && touch hooks/x",
    ] {
        let output = run(place, &["--", "sh", "-c", attempt]);
        assert!(!output.status.success(), "{attempt}: {}", stdout(&output));
        assert_eq!(project(place), Vec::<String>::new(), "{attempt}");
    }
    assert_eq!(shell(place, "cat a/.mcp.json; ls -A hooks"), "{}\n");
}

// SPEC M7
fn nothing_is_left_whatever_the_exit_code(place: &Place) {
    write(place, "kept", "host");
    policy(place, BLOCKED);
    let before: Vec<String> = snapshot(&place.project()).into_iter().filter(|line| !line.starts_with(' ')).collect();
    for (script, code) in [("exit 0", Some(0)), ("exit 1", Some(1)), ("kill -KILL $$", None)] {
        let output = run(place, &["--", "sh", "-c", script]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (code, ""), "{script}");
        let after: Vec<String> = snapshot(&place.project()).into_iter().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(after, before, "{script}");
        assert_eq!(journals(place), 0);
    }
    // A start that fails also leaves nothing.
    assert_eq!(run(place, &["--", "no-such-command"]).status.code(), Some(127));
    assert_eq!((project(place), journals(place)), (vec!["kept".to_owned()], 0));
}

// SPEC M7
fn a_killed_run_is_swept_by_the_next_one(place: &Place) {
    policy(place, BLOCKED);
    Waiting::start(place).kill();
    assert_eq!(project(place), ["a", "hooks", "keys", "token"]);
    // Printing removes nothing, and its output is the same before and after the sweep.
    let printed = || stdout(&run(place, &["--print-args=json", "--", "true"]));
    let while_it_stands = printed();
    assert_eq!(project(place), ["a", "hooks", "keys", "token"]);
    // A run in another project of the user sweeps.
    let other = place.home().join("code/other");
    fs::create_dir(&other).unwrap();
    place.give_away();
    succeeded(sandbox(place).current_dir(&other).args(["--", "true"]).output().unwrap());
    assert_eq!((project(place), journals(place)), (vec![], 0));
    assert_eq!(printed(), while_it_stands);
}

// SPEC M7
fn a_killed_run_is_swept_on_request(place: &Place) {
    policy(place, BLOCKED);
    Waiting::start(place).kill();
    write(place, "hooks/mine", "");
    let sweep = |flags: &[&str]| succeeded(place.agent_sandbox().arg("sweep").args(flags).output().unwrap());
    let at = |name: &str| place.project().join(name).display().to_string();
    let said = sweep(&[]);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let expected = [
        format!("left {}: it is not empty any more", at("hooks")),
        format!("removed {}", at("a")),
        format!("removed {}", at("a/.mcp.json")),
        format!("removed {}", at("keys")),
        format!("removed {}", at("token")),
    ];
    assert_eq!(lines, expected);
    assert_eq!((project(place), sweep(&[])), (vec!["hooks".to_owned()], "nothing to remove\n".to_owned()));
    assert_eq!(sweep(&["--quiet"]), "");
    fs::remove_dir_all(place.project().join("hooks")).unwrap();
    Waiting::start(place).kill();
    assert_eq!((sweep(&["--quiet"]), project(place)), (String::new(), vec![]));
}

// SPEC M7
fn two_runs_keep_a_placeholder_until_both_have_ended(place: &Place) {
    policy(place, BLOCKED);
    for (first_ends_first, is_killed) in [(true, false), (false, false), (true, true), (false, true)] {
        let one = Waiting::start(place);
        // The command tries to change the placeholders after its input has ended.
        let script = "echo started; cat >/dev/null; mkdir hooks/x 2>/dev/null || echo >token || echo blocked";
        let two = Waiting::start_with(sandbox(place).args(["--", "sh", "-c", script]));
        let (early, late, said) = if first_ends_first { (one, two, "blocked\n") } else { (two, one, "") };
        match is_killed {
            true => early.kill(),
            false => assert!(early.end("").status.success()),
        }
        // A third run sweeps only placeholders that no live run needs.
        succeeded(run(place, &["--", "true"]));
        assert_eq!(project(place), ["a", "hooks", "keys", "token"]);
        let output = late.end("");
        assert_eq!(stdout(&output), said, "{}", stderr(&output));
        assert_eq!((project(place), journals(place)), (vec![], 0));
    }
}

/// If paths change too often during the start, a run may refuse to start (SPEC C11). Otherwise all
/// runs succeed, and no placeholder is left.
// SPEC M7
fn many_runs_at_once_leave_nothing(place: &Place) {
    policy(place, BLOCKED);
    let one_run = || {
        let output = run(place, &["--", "sh", "-c", "cat a/.mcp.json; ls -A hooks"]);
        let is_refused = stderr(&output).starts_with("error[guard-refused]");
        assert!(is_refused || (stdout(&output), stderr(&output)) == ("{}\n".into(), String::new()), "{output:?}");
    };
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..5).for_each(|_| one_run()));
        }
    });
    assert_eq!((project(place), journals(place)), (vec![], 0));
}

// SPEC M7
fn placeholders_have_the_modes_of_the_callers_umask(place: &Place) {
    policy(place, BLOCKED);
    let root = if place.uid == 0 { "--allow-root" } else { "" };
    for (umask, modes) in [("022", "644\n755\n"), ("077", "600\n700\n"), ("0777", "600\n700\n"), ("002", "644\n755\n")]
    {
        let script = format!("umask {umask} && exec {} {root} -- stat -c %a a/.mcp.json hooks", binary().display());
        assert_eq!(succeeded(place.command("sh").args(["-c", &script]).output().unwrap()), modes, "{umask}");
        assert_eq!(project(place), Vec::<String>::new(), "{umask}");
    }
}

/// A command that could open the lock file for reading could lock it, and make other runs wait.
/// Root is not tested, because root can open every file.
#[test]
fn the_lock_cannot_be_taken_from_within() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        let lock = runs(place).join("lock");
        succeeded(run(place, &["--", "true"]));
        // An older version created the file with this mode.
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
        succeeded(run(place, &["--", "true"]));
        assert_eq!(fs::metadata(&lock).unwrap().mode() & 0o7777, 0o200);
        let script = "for how in '<' '>>' '<>'; do (eval \"exec 5$how$0\") 2>/dev/null && echo opened; done
            chmod u+r $0 2>/dev/null && echo changed; echo tried";
        let said = succeeded(sandbox(place).args(["--", "sh", "-c", script]).arg(&lock).output().unwrap());
        assert_eq!(said, "tried\n");
    });
}

// SPEC M5
fn a_run_that_starts_beside_another_blocks_and_ignores_the_same(place: &Place) {
    succeeded(git(place.command("git"), &["init", "-q", "."]));
    policy(place, BLOCKED);
    let printed = || stdout(&run(place, &["--print-args=json", "--", "true"]));
    let alone = printed();
    let one = Waiting::start(place);
    assert_eq!(printed(), alone, "an existing placeholder counts as a missing path");
    assert_eq!(shell(place, "git status --porcelain"), "");
    one.end("");
    assert_eq!(project(place), [".git"]);
}

// SPEC M7
fn host_changes_at_a_placeholder_are_kept_and_reported(place: &Place) {
    policy(place, BLOCKED);
    let waiting = Waiting::start(place);
    let at = |name: &str| place.project().join(name);
    fs::remove_dir(at("hooks")).unwrap();
    fs::create_dir(at("hooks")).unwrap();
    fs::write(at("token"), "mine").unwrap();
    fs::write(at("keys/mine"), "mine").unwrap();
    place.give_away();
    let said = stderr(&waiting.end(""));
    for (name, why) in [("hooks", "something else"), ("token", "its content"), ("keys", "it is not empty")] {
        let left = "where a placeholder was during a run, is left as it is";
        assert!(said.contains(&format!("{}`, {left}: {why}", at(name).display())), "{said}");
    }
    assert_eq!(project(place), ["hooks", "keys", "token"]);
    assert_eq!((fs::read(at("token")).unwrap(), fs::read(at("keys/mine")).unwrap()), (b"mine".into(), b"mine".into()));
    assert_eq!(fs::metadata(at("keys")).unwrap().mode() & 0o7777, 0o755);
}

// SPEC M4
fn a_link_to_nothing_is_not_followed(place: &Place) {
    policy(place, BLOCKED);
    let target = place.home().join("elsewhere");
    symlink(&target, place.project().join("hooks")).unwrap();
    place.give_away();
    failed(&run(place, &["--", "true"]), 125, "error[placeholder-failed]");
    assert!(!target.exists());
    // A link at a path that a preset names is only a warning.
    fs::remove_file(place.project().join("hooks")).unwrap();
    symlink(&target, place.project().join(".vscode")).unwrap();
    fs::create_dir_all(place.home().join(".config/Code")).unwrap();
    place.write("home/.config/agent-sandbox/config.toml", "");
    let output = run(place, &["--", "true"]);
    assert!(output.status.success() && stderr(&output).contains("warning[dangling-link]"), "{}", stderr(&output));
    assert!(!target.exists());
}

// SPEC D6
fn the_state_folder_cannot_be_written_inside(place: &Place) {
    let state = place.home().join(".local/state/agent-sandbox");
    policy(place, "rw = [{ path = '~/.local', if-missing = 'create' }]");
    let script = format!("mkdir -p {0}/runs 2>&1; touch {0}/x; mv {0} {0}.old; ls -A {0}/..", state.display());
    assert!(!state.exists());
    let output = run(place, &["--", "sh", "-c", &script]);
    assert_eq!(stdout(&output).lines().last(), Some("agent-sandbox"), "{}", stderr(&output));
    // The run created the folder, so that the command could not.
    let mut made: Vec<_> = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    made.sort();
    assert_eq!(made, ["mounts", "runs"]);
}

/// git without settings of the user or the system.
fn git(mut command: Command, words: &[&str]) -> Output {
    with_identity(&mut command).args(words).output().unwrap()
}

fn with_identity(command: &mut Command) -> &mut Command {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "A Tester").env(format!("GIT_{who}_EMAIL"), "tester@example.org");
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1")
}

fn git_script(place: &Place, git: &Path, script: &str) -> String {
    let mut command = sandbox(place);
    let path = format!("{}:/usr/bin:/bin", git.parent().unwrap().display());
    let output = with_identity(&mut command).env("PATH", path).args(["--", "sh", "-ec", script]).output().unwrap();
    assert_eq!(stderr(&output), "", "{script}");
    succeeded(output)
}

/// Every git of this machine.
fn gits() -> Vec<PathBuf> {
    let all = ["/usr/local/bin/git", "/usr/bin/git"].map(PathBuf::from).into_iter();
    let found: Vec<PathBuf> = all.filter(|git| git.exists()).collect();
    assert!(!found.is_empty(), "these tests need git: run scripts/test, which installs it");
    found
}

// SPEC M5
fn git_does_not_see_placeholders(place: &Place) {
    for (number, program) in gits().iter().enumerate() {
        let template = if number % 2 == 0 { "--template=" } else { "-q" };
        let _ = fs::remove_dir_all(place.project().join(".git"));
        succeeded(git(place.command(program), &["init", "-q", template, "."]));
        let odd = "ro = [{ path = 'odd [1] *\\\\', if-missing = 'block' }, { path = '#x ', if-missing = 'block' },\
                   { path = \"line\\nbreak\", if-missing = 'block' }, { path = '.mcp.json', if-missing = 'block' }]\n";
        write(
            place,
            ".agent-sandbox.toml",
            format!(
                "[filesystem]\n{}",
                odd.replace("[1] *\\\\", "\\\\[1\\\\] \\\\*").replace("'odd", "\"odd").replace("*'", "*\"")
            ),
        );
        let script = "test -e .mcp.json && echo new >new && git add -A && git status --porcelain && git commit -qm one
            git status --porcelain && git ls-files && git clean -ndx && git stash -q -u && git check-ignore .mcp.json";
        let said = git_script(place, program, script);
        assert!(said.starts_with("A  new\nnew\n"), "{program:?}: {said}");
        assert_eq!(project(place), [".git", "new"]);
        let judged = git(place.command(program), &["status", "--porcelain"]);
        assert_eq!(succeeded(judged), "?? .agent-sandbox.toml\n", "{program:?}");
        assert_eq!(place.project().join(".git/info").exists(), number % 2 == 1);
        fs::remove_file(place.project().join("new")).unwrap();
    }
}

/// git does not stage a protected untracked file, and does not fail because of it.
// SPEC M5
fn git_skips_covered_files(place: &Place) {
    const SCRIPT: &str = "
        git add -A && git diff --cached --name-only && git reset -q
        echo x >junk && echo y >>file && git stash -u -q && test ! -e junk && git stash pop -q && test -e junk
        echo z >open/deeper/new && git status --porcelain
        git clean -fdq && test ! -e junk
        echo kept >>tracked/.env && git commit -qam tracked && git status --porcelain";
    for program in gits() {
        let _ = fs::remove_dir_all(place.project().join(".git"));
        succeeded(git(place.command(&program), &["init", "-q", "."]));
        for path in ["file", "tracked/.env", "open/deeper/kept"] {
            write(place, path, "1\n");
        }
        succeeded(git(place.command(&program), &["add", "file", "tracked", "open"]));
        succeeded(git(place.command(&program), &["commit", "-qm", "one"]));
        write(place, ".env", "SECRET=1");
        write(
            place,
            ".agent-sandbox.toml",
            "[filesystem]\nro = ['open']\nrw = ['open/deeper']\nexclude = ['secret']\n",
        );
        write(place, "secret/key", "");
        let before = fs::read(place.project().join(".git/info/exclude")).unwrap();
        assert_eq!(git_script(place, &program, SCRIPT), " M file\n?? junk\n?? open/deeper/new\n", "{program:?}");
        assert_eq!(fs::read(place.project().join(".git/info/exclude")).unwrap(), before);
        let seen = succeeded(git(place.command(&program), &["status", "--porcelain"]));
        assert_eq!(seen, "?? .agent-sandbox.toml\n?? .env\n?? secret/\n", "{program:?}");
    }
}

/// git reads the placeholder `commondir` in each of these commands.
// SPEC M6
fn git_works_beside_its_placeholders(place: &Place) {
    const SCRIPT: &str = "
        cat .git/commondir
        echo one >file && git add -A && git commit -qm one && echo two >>file && git commit -qam two
        git checkout -qb side HEAD~1 && echo side >side && git add side && git commit -qm side
        git rebase -q main && git checkout -q main && git merge -q side
        echo more >>file && git stash -q && git stash pop -q && git commit -qam three
        git worktree add -q ../project/inner -b inner && (cd inner && echo in >in && git add in && git commit -qm inner)
        git -C inner rev-parse --git-common-dir >/dev/null && git worktree list | wc -l && git worktree remove inner
        git gc -q --prune=now && git repack -qad && git pack-refs --all && git fsck --no-dangling
        git tag v1 && git clone -q . clone && rm -rf clone && git merge -q inner
        git reflog expire --expire=now --all && git prune
        git status --porcelain; git log --format=%s; git rev-parse --git-dir --show-toplevel
        cd \"$(git rev-parse --git-common-dir)\" && pwd";
    for program in gits() {
        let _ = fs::remove_dir_all(place.project().join(".git"));
        succeeded(git(place.command(&program), &["init", "-q", "-b", "main", "."]));
        let said = git_script(place, &program, SCRIPT);
        let top = place.project();
        let expected = format!("./\n2\ninner\nthree\nside\ntwo\none\n.git\n{0}\n{0}/.git\n", top.display());
        assert_eq!(said, expected, "{program:?}");
        assert!(!top.join(".git/commondir").exists());
        let judged = git(place.command(&program), &["fsck", "--no-dangling"]);
        assert_eq!(succeeded(judged), "");
        for name in ["file", "side", "in"] {
            fs::remove_file(top.join(name)).unwrap();
        }
    }
}

// SPEC R2
fn a_head_that_the_command_broke_is_put_back(place: &Place) {
    let head = place.project().join(".git/HEAD");
    succeeded(git(place.command("git"), &["init", "-q", "-b", "main", "."]));
    succeeded(git(place.command("git"), &["commit", "-q", "--allow-empty", "-m", "one"]));
    for attack in [
        "rm .git/HEAD",
        "echo nonsense >.git/HEAD",
        "rm .git/HEAD && mkdir -p .git/HEAD/x",
        "rm .git/HEAD && mkfifo .git/HEAD",
        "rm .git/HEAD && ln -s /nowhere .git/HEAD",
        "mv .git/refs .git/old; git init -q --bare . ; true",
    ] {
        let output = with_identity(sandbox(place).args(["--", "sh", "-c", attack])).output().unwrap();
        let said = stderr(&output);
        assert!(said.contains("warning[repository-repaired]"), "{attack}: {said}");
        assert_eq!(fs::read_to_string(&head).unwrap(), "ref: refs/heads/main\n", "{attack}");
        let seen = succeeded(git(place.command("git"), &["rev-parse", "--git-dir"]));
        assert_eq!(seen, ".git\n", "{attack}");
    }
    // Another branch is not reported.
    let output =
        with_identity(sandbox(place).args(["--", "git", "symbolic-ref", "HEAD", "refs/heads/x"])).output().unwrap();
    assert_eq!(stderr(&output), "");
    assert_eq!(fs::read_to_string(&head).unwrap(), "ref: refs/heads/x\n");
}

// SPEC R1
fn files_created_by_the_command_are_reported_once(place: &Place) {
    let command = ["--", "sh", "-c", "echo x >.envrc; mkdir -p .claude; echo {} >.claude/settings.json"];
    let output = run(place, &command);
    let expected = "warning[created-during-run]: created during the run: 2 paths
  |
  = note: `.claude/settings.json` (@autorun)
  = note: `.envrc` (@autorun)
";
    assert!(output.status.success() && stderr(&output).starts_with(expected), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("warning[").count(), 1);
    assert_eq!(stdout(&output), "");
    assert_eq!(stderr(&run(place, &["--", "true"])), "", "the file existed before this run");
    fs::remove_file(place.project().join(".envrc")).unwrap();
    assert_eq!(stderr(&run(place, &["--quiet", "--", "touch", ".envrc"])), "");
    fs::remove_file(place.project().join(".envrc")).unwrap();
    let output = run(place, &["--message-format=json", "--", "sh", "-c", "touch .envrc; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).starts_with("{\"severity\":\"warning\",\"code\":\"created-during-run\""),
        "{}",
        stderr(&output)
    );
}

// SPEC R3
fn changed_commands_in_mixed_state_are_reported(place: &Place) {
    let state = place.home().join(".claude.json");
    write(place, &state, r#"{ "numStartups": 1, "mcpServers": {} }"#);
    let set = |text: &str| run(place, &["--", "sh", "-c", &format!("printf %s '{text}' >~/.claude.json")]);
    assert_eq!(stderr(&set(r#"{ "numStartups": 2 }"#)), "");
    let said = stderr(&set(r#"{ "mcpServers": { "x": { "command": "evil-thing" } } }"#));
    assert!(said.contains("warning[commands-changed]: the run changed settings that an agent obeys in `"), "{said}");
    assert!(said.contains("= note: `mcpServers`: programs that it starts"), "{said}");
    assert!(!said.contains("evil-thing"), "{said}");
}

// SPEC R4
fn a_mask_that_the_host_lost_is_reported(place: &Place) {
    write(place, "key", "secret");
    write(place, "other", "secret");
    policy(place, "exclude = ['key', 'other']");
    let waiting = Waiting::start(place);
    write(place, "new", "newer");
    fs::rename(place.project().join("new"), place.project().join("key")).unwrap();
    // A note may have told it during the run.
    let said = stderr(&waiting.end(""));
    assert!(said.contains("warning[replaced-during-run]: `key` was replaced on the host"), "{said}");
    // ext4 may give the new file the same inode number.
    let waiting = Waiting::start(place);
    fs::remove_file(place.project().join("key")).unwrap();
    write(place, "key", "newest");
    let said = stderr(&waiting.end(""));
    assert!(said.contains("warning[replaced-during-run]: `key` was replaced on the host"), "{said}");
    assert_eq!(stderr(&Waiting::start(place).end("")), "");
}

// SPEC R4
fn a_folder_that_the_host_replaced_is_reported(place: &Place) {
    write(place, "folder/file", "");
    policy(place, "ro = ['folder']");
    place.give_away();
    let waiting = Waiting::start(place);
    write(place, "folder/other", "the folder stays");
    assert_eq!(stderr(&waiting.end("")), "");
    let waiting = Waiting::start(place);
    fs::remove_dir_all(place.project().join("folder")).unwrap();
    fs::create_dir(place.project().join("folder")).unwrap();
    let said = stderr(&waiting.end(""));
    assert!(said.starts_with("warning[replaced-during-run]: `folder` was replaced on the host"), "{said}");
}

// SPEC M8
fn without_a_state_folder_nothing_runs_that_needs_placeholders(place: &Place) {
    // A file is at the path of the folder, so that root cannot create it either.
    write(place, place.home().join(".local/state"), "");
    fs::create_dir_all(place.home().join(".config/Code")).unwrap();
    place.give_away();
    failed(&run(place, &["--", "sh", "-c", "touch .vscode && echo ran"]), 125, "error[placeholder-failed]: `");
    succeeded(place.agent_sandbox().args(["explain", "."]).output().unwrap());
    assert!(!place.project().join(".vscode").exists());
    let output = run(place, &["--no-placeholders", "--", "sh", "-c", "touch .vscode && echo ran"]);
    let said = stderr(&output);
    assert_eq!(stdout(&output), "ran\n", "{said}");
    assert!(said.contains("warning[created-during-run]: created during the run: `.vscode` (@autorun)"), "{said}");
    policy(place, BLOCKED);
    for flags in [&["--", "true"][..], &["--no-placeholders", "--", "true"]] {
        failed(&run(place, flags), 125, "error[placeholder-failed]");
    }
    let mut command = place.command(binary());
    command.env("XDG_STATE_HOME", place.home().join("state")).args(["--allow-root", "--", "true"]);
    succeeded(command.output().unwrap());
}
