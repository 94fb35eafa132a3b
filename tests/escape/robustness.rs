//! Surroundings that would make a start hang, lie or end silently: FIFOs in `.git`, odd names
//! in answers for tools, a umask that closes everything, no room for files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, Scene, run};

everywhere!("the time limit of agent-sandbox, around the same git": hanging_a_comparison_by_a_fifo);
everywhere!("the escapes of agent-sandbox, by a plain JSON writer": driving_the_terminal_by_a_name_in_json);
everywhere!("the modes that agent-sandbox gives, by mkdir": closing_a_fresh_home_by_the_umask);
for_everybody!("byte-budget": using_up_the_memory_of_the_next_start);
everywhere!("the message, by a shell that writes a file": ending_a_start_without_a_diagnostic);

/// The command, started by a shell that first sets this limit for itself.
fn after(scene: &Scene, limit: &str, command: &Command) -> Command {
    let mut limited = scene.outside("sh");
    limited.args(["-c", &format!("{limit} && exec \"$@\""), "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    limited
}

// SPEC F3
fn hanging_a_comparison_by_a_fifo(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    scene.host(&["sh", "-c", "git init -q . && mkfifo .git/packed-refs"]);
    if scene.is_control() {
        // 124: `timeout` had to end git.
        let ran = scene.try_host(&["timeout", "2", "git", "rev-parse", "main"]);
        return Verdict::broken_if(ran.code == Some(124), format!("{ran:?}"));
    }
    let mut command = scene.outside(crate::support::binary());
    command.args(["diff", "git:main"]);
    let ran = run(command);
    assert!(ran.refused("error["), "{ran:?}");
    Verdict::Held(ran.err)
}

/// U+202E reverses the direction of text, and U+009B begins a control sequence of a terminal.
const NAME: &str = "a\u{202e}b\u{9b}31mc";

// SPEC S15
fn driving_the_terminal_by_a_name_in_json(scene: &Scene) -> Verdict {
    scene.write(NAME, "x");
    scene.policy(BASE_ONLY, &format!("ro = ['{NAME}']"));
    let said = if scene.is_control() {
        serde_json::to_string(NAME).unwrap()
    } else {
        let mut command = scene.outside(crate::support::binary());
        command.args(["show", "--json"]);
        let ran = run(command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("\\u202e") && ran.out.contains("\\u009b"), "{}", ran.out);
        ran.out
    };
    let is_raw = said.contains(['\u{202e}', '\u{9b}']);
    Verdict::broken_if(is_raw, format!("raw: {is_raw}"))
}

// SPEC S16
fn closing_a_fresh_home_by_the_umask(scene: &Scene) -> Verdict {
    let mut command = if scene.is_control() { scene.outside("mkdir") } else { scene.product() };
    match scene.is_control() {
        true => command.arg(scene.home().join(".local")),
        false => command.args(["--", "echo", "done"]),
    };
    let ran = run(after(scene, "umask 0777", &command));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mode = fs::metadata(scene.home().join(".local")).unwrap().permissions().mode() & 0o777;
    Verdict::broken_if(mode == 0, format!("{mode:o}"))
}

// SPEC S17
fn ending_a_start_without_a_diagnostic(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let mut command = if scene.is_control() { scene.outside("dd") } else { scene.product() };
    match scene.is_control() {
        true => command.args(["if=/dev/zero", "of=large", "count=1", "status=none"]),
        false => command.args(["--", "echo", "done"]),
    };
    // The output goes to pipes, because with this limit no file can be written.
    let ran = after(scene, "ulimit -f 0", &command).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    let is_refused = ran.status.code() == Some(125) && ran.stdout.is_empty() && said.contains("file too large");
    assert!(scene.is_control() || is_refused, "{:?}: {said}", ran.status);
    Verdict::broken_if(ran.status.code().is_none() && said.is_empty(), format!("{:?}: {said}", ran.status))
}

/// The attack plants nested repositories whose indexes are large sparse files.
// SPEC R5
fn using_up_the_memory_of_the_next_start(scene: &Scene) -> Verdict {
    crate::git::repository(scene);
    scene.attack("sparse_indexes.py", &["12"]).completed();
    // Undoes the moves, as if the run had been killed before it moved anything aside.
    scene.host(&["sh", "-c", "for git in m/*/.git.held; do [ ! -e $git ] || mv $git ${git%.held} || exit; done"]);
    let mut command = scene.product();
    command.args(["--", "echo", "done"]);
    let ran = run(after(scene, "ulimit -v 2500000", &command));
    Verdict::broken_if(ran.code != Some(0) || ran.out != "done\n", format!("{:?} {}", ran.code, ran.err))
}
