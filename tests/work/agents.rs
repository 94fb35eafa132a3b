//! Imitates agents that save their files: the same calls in the same order. `scripts/test-agents`
//! runs the real agents.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::sandbox::{sandbox, succeeded, write};
use crate::support::{Place, stderr};
use crate::{inside, outside};

for_both!(
    state_that_is_saved_by_a_rename_is_saved_and_seen_again,
    an_existing_file_in_the_second_place_stays,
    an_agent_on_the_path_finds_its_folders_in_a_new_home,
    two_runs_share_the_second_place,
);

/// Saves as Claude Code 2.1 does: takes a lock, writes a new file, and renames it over the old
/// one. If the rename fails, it writes the old file in place.
const SAVE: &str = r#"
import errno, json, os, sys
folder = os.environ.get("CLAUDE_CONFIG_DIR")
path = os.path.join(folder, ".claude.json") if folder else os.path.expanduser("~/.claude.json")
state = json.load(open(path)) if os.path.exists(path) else {}
state[sys.argv[1]] = 1
text = json.dumps(state).encode()
os.mkdir(path + ".lock")
with open(path + ".tmp", "xb") as new: new.write(text)
try:
    os.rename(path + ".tmp", path)
except OSError as e:
    if e.errno not in (errno.EXDEV, errno.EPERM, errno.EEXIST, errno.EBUSY): raise
    with open(path, "r+b") as old: old.write(text); old.truncate()
    os.unlink(path + ".tmp")
os.rmdir(path + ".lock")
print(sorted(state))
"#;

fn save(place: &Place, key: &str) -> String {
    write(place, "save.py", SAVE);
    inside(place, &format!("/usr/bin/python3 save.py {key}"))
}

/// Puts an executable of this name on PATH, in the home.
fn on_path(place: &Place, program: &str) -> String {
    let bin = place.home().join("bin");
    write(place, bin.join(program), "#!/bin/sh\n");
    std::fs::set_permissions(bin.join(program), std::fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", bin.display())
}

// SPEC P10
fn state_that_is_saved_by_a_rename_is_saved_and_seen_again(place: &Place) {
    place.write("home/.claude.json", r#"{"mine": 1}"#);
    place.write("home/.claude/projects/p.jsonl", "");
    assert_eq!(save(place, "first"), "['first', 'mine']\n");
    assert_eq!(save(place, "second"), "['first', 'mine', 'second']\n");
    assert_eq!(outside(place, "cat ~/.claude.json"), r#"{"mine": 1, "first": 1, "second": 1}"#);
    assert_eq!(
        outside(place, "ls -A ~/.claude ~/.claude/projects"),
        outside(place, "printf '%s\\n' ~/.claude: projects '' ~/.claude/projects: p.jsonl")
    );
}

fn an_existing_file_in_the_second_place_stays(place: &Place) {
    place.write("home/.claude.json", "{}");
    place.write("home/.claude/.claude.json", r#"{"theirs": 1}"#);
    assert_eq!(inside(place, "echo \"$CLAUDE_CONFIG_DIR\"; cat ~/.claude/.claude.json"), "\n{\"theirs\": 1}");
    assert_eq!(outside(place, "cat ~/.claude/.claude.json"), r#"{"theirs": 1}"#);
}

// SPEC P9
fn an_agent_on_the_path_finds_its_folders_in_a_new_home(place: &Place) {
    place.renew_home();
    write(place, "save.py", SAVE);
    let run = |path: &str, script: &str| {
        succeeded(
            sandbox(place).env("PATH", path).args(["--network=false", "--", "sh", "-ec", script]).output().unwrap(),
        )
    };
    run("/usr/bin:/bin", "true");
    // The filter removes the caches of package managers of this machine.
    let made = outside(place, "ls -A ~ | grep -vxE '[.](npm|yarn|bun|cargo|gradle|m2)|go'");
    assert_eq!(made, ".cache\n.local\ncode\n", "no agent on PATH needs more");
    let path = on_path(place, "claude");
    on_path(place, "codex");
    assert_eq!(run(&path, "/usr/bin/python3 save.py a; touch ~/.codex/auth.json"), "['a']\n");
    assert_eq!(run(&path, "/usr/bin/python3 save.py b"), "['a', 'b']\n");
    let modes =
        outside(place, "stat -c '%a %n' ~/.claude ~/.claude.json ~/.codex | sed 's| .*/| |'; cat ~/.claude.json");
    assert_eq!(modes, "700 .claude\n600 .claude.json\n700 .codex\n{\"a\": 1, \"b\": 1}");
}

/// The second run finds the mount point of the first run, and does not treat it as a file of the
/// user.
// SPEC P10
fn two_runs_share_the_second_place(place: &Place) {
    place.write("home/.claude.json", "{}");
    place.write("home/.claude/history.jsonl", "");
    write(place, "save.py", SAVE);
    // The first run prints `begun`, and continues when its input ends. So neither the test nor the
    // run waits for a process that has ended.
    let mut first = sandbox(place)
        .args(["--network=false", "--", "sh", "-ec", "echo begun; read -r _ || :; /usr/bin/python3 save.py first"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 6];
    let begun = first.stdout.as_mut().unwrap().read_exact(&mut said);
    assert!(begun.is_ok() && said == *b"begun\n", "{}", stderr(&first.wait_with_output().unwrap()));
    outside(place, "test -e ~/.claude/.claude.json");
    assert_eq!(inside(place, "/usr/bin/python3 save.py second"), "['second']\n");
    outside(place, "test -e ~/.claude/.claude.json");
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    assert_eq!(outside(place, "cat ~/.claude.json; ls -A ~/.claude"), "{\"second\": 1, \"first\": 1}history.jsonl\n");
}
