//! The command as a process: its arguments and streams, its exit status, and its end.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::sandbox::{failed, policy, probe, run, sandbox, shell, succeeded, with_input, write};
use crate::support::{Place, binary, stderr, stdout};

everywhere!(
    the_exit_code_is_the_commands,
    failures_before_the_start_have_their_own_codes,
    input_and_output_pass_through,
    arguments_and_environment_reach_the_command_unchanged,
    inherited_descriptors_are_closed,
    killing_the_launcher_ends_the_command,
    the_end_of_the_caller_ends_the_command_without_supervision,
    nothing_outlives_the_command,
    the_printed_forms_have_the_effects_of_a_run,
);

// SPEC S1
fn the_exit_code_is_the_commands(place: &Place) {
    policy(place, "");
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 125", 125)] {
        let output = run(place, &["--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{script}: the product adds nothing");
    }
}

fn failures_before_the_start_have_their_own_codes(place: &Place) {
    policy(place, "exclude = ['hidden']");
    write(place, "plain", "#!/bin/sh\necho ran\n");
    write(place, "hidden/tool", "#!/bin/sh\necho ran\n");
    failed(&run(place, &["--", "./plain"]), 126, "error[command-not-executable]");
    failed(&run(place, &["--", "/"]), 126, "error[command-not-executable]");
    failed(&run(place, &["--", "no-such-command"]), 127, "error[command-not-found]");
    failed(&run(place, &["--", "./missing"]), 127, "error[command-not-found]");
    failed(&run(place, &["--", "hidden/tool"]), 127, "error[command-not-found]");
    failed(&run(place, &["--config", "missing.toml", "--", "echo"]), 125, "error[missing-config]");
    failed(&run(place, &["--no-such-flag", "--", "echo"]), 2, "--no-such-flag");
    failed(&run::<&str>(place, &[]), 2, "no command to run");
    policy(place, "excluded = ['typo']");
    failed(&run(place, &["--", "echo"]), 125, "error[unknown-key]");
}

fn input_and_output_pass_through(place: &Place) {
    policy(place, "");
    let every_byte: Vec<u8> = (0..=255).collect();
    let output = with_input(sandbox(place).args(["--", "sh", "-c", "cat; echo problem >&2"]), &every_byte);
    assert_eq!(output.stdout, every_byte);
    assert_eq!(stderr(&output), "problem\n");
}

fn arguments_and_environment_reach_the_command_unchanged(place: &Place) {
    policy(place, "");
    let odd = OsStr::from_bytes(b"\xff odd\nvalue");
    let words = ["", "two words", "--", "--ro", "$HOME", "*"].map(OsStr::new);
    let output = sandbox(place).args(["--", "printf", "%s\\0"]).args(words).arg(odd).output().unwrap();
    let expected: Vec<u8> = words.iter().chain(&[odd]).flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    assert_eq!(output.stdout, expected);

    let variables = |command: &mut Command| -> Vec<Vec<u8>> {
        let output = command.args(["env", "-0"]).env("ODD", odd).env("EMPTY", "").output().unwrap();
        let mut variables: Vec<_> = output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        variables.sort();
        variables
    };
    // bwrap sets PWD to the working directory of the command, as a shell would.
    let outside = variables(place.command("env").env("PWD", place.project()).env("AGENT_SANDBOX", "1"));
    assert_eq!(variables(sandbox(place).arg("--")), outside);
    assert_eq!(shell(place, "pwd"), format!("{}\n", place.project().display()));
}

// SPEC S5
fn inherited_descriptors_are_closed(place: &Place) {
    const OPEN: &str = "
import os
for number in range(64):
    try:
        os.fstat(number)
        print(number, end=' ')
    except OSError:
        pass
";
    policy(place, "");
    let with_more = |command: &[&OsStr]| {
        let script = "exec 3</ 7<\"$HOME\" 9>/dev/null; exec \"$@\"";
        let mut shell = place.command("sh");
        shell.args(["-c", script, "sh"]).args(command).args(["/usr/bin/python3", "-I", "-c", OPEN]);
        succeeded(shell.output().unwrap())
    };
    let without = with_more(&["env".as_ref()]);
    assert!(without.starts_with("0 1 2 3 7 9 "), "without a sandbox: {without}");
    let binary = binary();
    let product = [binary.as_os_str(), "--allow-root".as_ref(), "--".as_ref()];
    assert_eq!(with_more(&product), "0 1 2 ");
}

fn killing_the_launcher_ends_the_command(place: &Place) {
    policy(place, "");
    let mut command = sandbox(place);
    command.args(["--", "sh", "-c", "(setsid sleep 600 &); echo started; sleep 600"]);
    let (mut launcher, output) = started(&mut command);
    launcher.kill().unwrap();
    assert_ended(output);
    launcher.wait().unwrap();
}

/// With `--exec`, bwrap is the direct child of the caller and ends with it. A supervised run
/// outlives its caller, as any command does under `nohup`.
// SPEC B1, S12
fn the_end_of_the_caller_ends_the_command_without_supervision(place: &Place) {
    policy(place, "");
    let mut caller = place.command("sh");
    caller.args(["-c", "\"$@\"; true", "sh"]).arg(binary());
    caller.args(["--allow-root", "--exec", "--", "sh", "-c", "(setsid sleep 600 &); echo started; sleep 600"]);
    let (mut caller, output) = started(&mut caller);
    caller.kill().unwrap();
    assert_ended(output);
    caller.wait().unwrap();
}

fn nothing_outlives_the_command(place: &Place) {
    policy(place, "");
    let (mut launcher, output) = started(sandbox(place).args(["--", "sh", "-c", "(setsid sleep 600 &); echo started"]));
    assert_ended(output);
    assert!(launcher.wait().unwrap().success());
}

/// Starts a command and waits until it prints `started`.
fn started(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    (child, output)
}

/// The output ends when no process is left that could write to it. The bound is far below the sleep
/// inside, and far above the time that any machine needs to end a process.
pub fn assert_ended(mut output: BufReader<ChildStdout>) {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(output.read_to_end(&mut Vec::new()).is_ok()));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(120)), Ok(true), "a process inside still runs");
}

fn the_printed_forms_have_the_effects_of_a_run(place: &Place) {
    write(place, "it's\n/[odd]", "host");
    write(place, "hidden/open/file", "host");
    policy(
        place,
        "exclude = ['hidden', \"it's\\n/\\\\[odd\\\\]\"]\nrw = ['hidden/open', { path = '~/made', if-missing = 'create' }]",
    );
    // The mounts with their places and flags, the environment, and a command with arguments that
    // need quotes.
    const REPORT: &str = "grep -v agent-sandbox/guard /proc/self/mountinfo | cut -d' ' -f4-6; env | sort; pwd; echo \"it's $1\"; cat <\"it's\n/[odd]\" || echo hidden";
    let command = ["--", "sh", "-c", REPORT, "sh", "a'b\nc"];
    let environment = |command: &mut Command| succeeded(command.env("TMPDIR", place.home()).output().unwrap());

    let printed = sandbox(place).arg("--print-args=script").args(command).env("TMPDIR", place.home()).output().unwrap();
    let script = OsString::from_vec(printed.stdout);
    let by_shell = environment(place.command("sh").arg("-c").arg(script));
    let direct = environment(sandbox(place).args(command));
    assert!(direct.ends_with("it's a'b\nc\nhidden\n") && direct.contains("TMPDIR=/tmp\n"), "{direct}");
    assert_eq!(by_shell, direct);

    // Without the guard, bwrap reads the filter from a descriptor. The sandbox is the same.
    let script =
        sandbox(place).args(["--no-guard", "--print-args=script"]).args(command).env("TMPDIR", place.home()).output();
    let by_shell = environment(place.command("sh").arg("-c").arg(OsString::from_vec(script.unwrap().stdout)));
    assert_eq!(by_shell, environment(sandbox(place).arg("--no-guard").args(command)));
    assert!(probe::<&str>(place, &[], &[place.project().join("hidden/open/file")])[0].write == "ok");
    let words = ["--no-guard", "--print-args=nul"];
    let printed = sandbox(place).args(words).args(command).env("TMPDIR", place.home()).output().unwrap();
    assert_eq!(stdout(&printed).matches("/made\0").count(), 2);
    assert!(stderr(&printed).contains("warning[incomplete-form]"), "{}", stderr(&printed));
}
