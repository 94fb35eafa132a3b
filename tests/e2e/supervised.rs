//! A run behaves towards the shell as the command alone: signals, job control, and exit status.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::assert_ended;
use crate::sandbox::{failed, policy, python, run, sandbox, shell, succeeded, write};
use crate::support::{Place, binary, stderr, write_program};

for_both!(
    the_supervisor_ends_as_the_command_ended,
    a_signal_sent_to_us_reaches_the_handler_once,
    a_signal_sent_to_us_kills_as_without_us,
    a_signal_that_comes_too_late_changes_nothing,
    signals_ignored_or_blocked_by_the_caller_stay_so,
    a_handler_works_although_the_caller_ignores_the_signal,
    a_time_limit_reaches_the_handler,
    an_alarm_set_before_reaches_the_command,
    killing_the_supervisor_ends_the_command,
    the_end_of_the_caller_ends_nothing,
    killing_bwrap_is_reported,
    a_start_that_hangs_can_be_ended,
    a_start_that_fails_says_why,
    a_command_that_cannot_be_executed_inside_has_its_own_exit_code,
    a_reader_that_goes_away_ends_the_command,
    the_end_of_input_passes_through,
    no_process_is_left_after_the_run,
    a_caller_outside_our_pid_namespace_can_start_a_run,
    without_supervision_the_caller_gets_the_exit_code_of_bwrap,
);

/// Makes tests of scenes in `terminal.py`.
macro_rules! scenes {
    ($($scene:ident),+ $(,)?) => {
        for_both!($($scene),+);
        $(fn $scene(place: &Place) {
            play(place, stringify!($scene));
        })+
    };
}

scenes!(
    // SPEC S7
    keys_reach_the_handler_once,
    // SPEC S10
    keys_kill_as_without_us,
    // SPEC S9
    a_job_is_stopped_and_continued,
    // SPEC S9
    a_command_that_stops_itself_is_a_stopped_job,
    // SPEC S9
    a_command_that_ignores_the_key_goes_on,
    // SPEC S9
    stopping_from_elsewhere_stops_the_command,
    // SPEC S9
    continuing_us_alone_continues_the_command,
    // SPEC S7
    a_resize_reaches_the_command,
    // SPEC S7, C15
    a_shell_inside_keeps_job_control,
    // SPEC S7
    the_terminal_comes_back_from_a_shell_inside,
    // SPEC S9
    a_background_job_stays_in_the_background,
    // SPEC S7
    the_end_of_the_terminal_reaches_the_command,
);

/// Plays a scene with and without agent-sandbox. Both must behave the same.
fn play(place: &Place, scene: &str) {
    policy(place, "");
    let binary = binary();
    let mut product = vec![binary.to_str().unwrap()];
    product.extend((place.uid == 0).then_some("--allow-root"));
    for starts in [&["env"][..], &product] {
        let words = [&[scene], starts, &["--"]].concat();
        let said = python(place.command("env").env("TERM", "dumb"), include_str!("terminal.py"), &words);
        assert_eq!(said, "played\n", "{starts:?}");
        let _ = fs::remove_file(place.project().join("handled"));
    }
}

/// Writes the first signal to the file `handled`, and exits with 7. It does not wait in `pause`,
/// which would miss a signal that came just before.
const NOTE: &str = "
import signal, sys, time
def note(number, frame):
    with open('handled', 'a') as file:
        file.write(signal.Signals(number).name + '\\n')
    sys.exit(7)
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGRTMAX):
    signal.signal(number, note)
print('started', flush=True)
while True:
    time.sleep(0.01)
";

fn noting(command: &mut Command) -> &mut Command {
    command.args(["--", "/usr/bin/python3", "-I", "-c", NOTE])
}

fn handled(place: &Place) -> Vec<String> {
    let file = place.project().join("handled");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Starts the command and waits for its first line.
fn started(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    (child, output)
}

fn signalled(command: &mut Command, signal: Signal) -> ExitStatus {
    let (mut child, _output) = started(command);
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait().unwrap()
}

// SPEC S10
fn the_supervisor_ends_as_the_command_ended(place: &Place) {
    policy(place, "");
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("exit 125", 125), ("exit 255", 255)] {
        let output = run(place, &["--", "sh", "-c", script]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(code), ""), "{script}");
    }
    for signal in [Signal::INT, Signal::TERM, Signal::SEGV, Signal::KILL, Signal::USR1, Signal::ABORT] {
        let number = signal.as_raw();
        let output = run(place, &["--", "sh", "-c", &format!("kill -{number} $$")]);
        assert_eq!((output.status.signal(), stderr(&output).as_str()), (Some(number), ""));
        assert!(!output.status.core_dumped());
        // bwrap reports a signal as 128 and its number. If the kernel does not tell how the
        // process ended, such an exit code counts as a signal.
        let output = run(place, &["--", "sh", "-c", &format!("exit {}", 128 + number)]);
        let as_code = (Some(128 + number), None);
        let as_signal = (None, Some(number));
        let expected = if kernel_tells_how_a_process_ended() { as_code } else { as_signal };
        assert_eq!((output.status.code(), output.status.signal()), expected);
    }
}

/// Whether pidfds report the exit status of a process, as they do since Linux 6.15.
fn kernel_tells_how_a_process_ended() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (6, 15)
}

// SPEC S7
fn a_signal_sent_to_us_reaches_the_handler_once(place: &Place) {
    policy(place, "");
    for (signal, name) in [
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::USR1, "SIGUSR1"),
    ] {
        let status = signalled(noting(&mut sandbox(place)), signal);
        assert_eq!((status.code(), handled(place)), (Some(7), vec![name.to_owned()]));
    }
    let (mut child, _output) = started(noting(&mut sandbox(place)));
    let sent = Command::new("kill").args(["-64", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!((child.wait().unwrap().code(), handled(place)), (Some(7), vec!["SIGRTMAX".to_owned()]));
}

// SPEC S10
fn a_signal_sent_to_us_kills_as_without_us(place: &Place) {
    policy(place, "");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR2] {
        let mut command = sandbox(place);
        command.args(["--", "sh", "-c", "echo started; exec sleep 60"]);
        assert_eq!(signalled(&mut command, signal).signal(), Some(signal.as_raw()));
    }
}

/// The test sends SIGTERM until the supervisor ends, so some of the signals come too late.
// SPEC S10
fn a_signal_that_comes_too_late_changes_nothing(place: &Place) {
    policy(place, "");
    const AT_ONCE: &str = "
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
print('started', flush=True)
while True:
    time.sleep(0.01)
";
    for _ in 0..10 {
        let (mut child, _output) = started(sandbox(place).args(["--", "/usr/bin/python3", "-I", "-c", AT_ONCE]));
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => kill_process(Pid::from_child(&child), Signal::TERM).unwrap(),
            }
        };
        assert_eq!(status.code(), Some(7));
    }
}

// SPEC S8
fn signals_ignored_or_blocked_by_the_caller_stay_so(place: &Place) {
    policy(place, "");
    const IGNORED: &str = "sed -n 's/^SigIgn:.*\\(.....\\)$/\\1/p' /proc/self/status";
    assert_eq!(shell(place, IGNORED), "00000\n", "the supervisor's own dispositions are not inherited");
    let mut nohup = place.command("sh");
    nohup.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]).arg(binary()).args([
        "--allow-root",
        "--",
        "sh",
        "-c",
        IGNORED,
    ]);
    assert_eq!(succeeded(nohup.output().unwrap()), "00003\n", "SIGHUP is the first bit, SIGINT the second");
    // Signals that the caller blocks stay blocked.
    const BLOCKING: &str = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {1, 12}); os.execv(sys.argv[1], sys.argv[1:])";
    // The command is not a shell, which might change the mask.
    const BLOCKED: [&str; 5] = ["--", "sed", "-n", "s/^SigBlk:.*\\(.....\\)$/\\1/p", "/proc/self/status"];
    for flags in [&["--allow-root"][..], &["--allow-root", "--exec"]] {
        let mut caller = place.command("/usr/bin/python3");
        caller.args(["-I", "-c", BLOCKING]).arg(binary()).args(flags).args(BLOCKED);
        assert_eq!(succeeded(caller.output().unwrap()), "00801\n", "{flags:?}");
        assert_eq!(succeeded(place.agent_sandbox().args(flags).args(BLOCKED).output().unwrap()), "00000\n");
    }
    // An ignored SIGHUP ends neither the supervisor nor the command.
    let mut nohup = place.command("nohup");
    let script = "echo started; kill -HUP $$; read line; echo \"went on $line\"";
    nohup.arg(binary()).args(["--allow-root", "--", "sh", "-c", script]).stdin(Stdio::piped());
    let (mut child, mut output) = started(&mut nohup);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"line\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("went on line\n", Some(0)));
}

/// A shell without job control starts background commands with SIGINT ignored. A server that sets
/// a handler still gets the signal.
// SPEC S8
fn a_handler_works_although_the_caller_ignores_the_signal(place: &Place) {
    policy(place, "");
    let mut caller = place.command("sh");
    caller.args(["-c", "trap '' INT; exec \"$@\"", "sh"]).arg(binary()).arg("--allow-root");
    assert_eq!(signalled(noting(&mut caller), Signal::INT).code(), Some(7));
    assert_eq!(handled(place), ["SIGINT"]);
}

/// `timeout` signals its child and then its whole process group. The test sends SIGALRM to
/// `timeout` to make its time run out.
// SPEC S7
fn a_time_limit_reaches_the_handler(place: &Place) {
    policy(place, "");
    for flags in [&["3600"][..], &["--foreground", "3600"]] {
        let mut timeout = place.command("timeout");
        timeout.args(flags).arg(binary()).arg("--allow-root");
        assert_eq!(signalled(noting(&mut timeout), Signal::ALARM).code(), Some(124));
        let handled = handled(place);
        assert!(!handled.is_empty() && handled.iter().all(|name| name == "SIGTERM"), "{handled:?}");
    }
}

/// The timer of the caller survives the exec of agent-sandbox, and its signal reaches the command.
fn an_alarm_set_before_reaches_the_command(place: &Place) {
    policy(place, "");
    const CALLER: &str = "import os, signal, sys; signal.alarm(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])";
    // On a slow machine, an early alarm may come before the command has its handler.
    let handled = ["1", "10", "60"].into_iter().find_map(|seconds| {
        let mut caller = place.command("/usr/bin/python3");
        caller.args(["-I", "-c", CALLER, seconds]).arg(binary()).arg("--allow-root");
        let output = noting(&mut caller).output().unwrap();
        (!output.stdout.is_empty()).then(|| (output.status.code(), handled(place)))
    });
    assert_eq!(handled, Some((Some(7), vec!["SIGALRM".to_owned()])));
}

// SPEC S11
fn killing_the_supervisor_ends_the_command(place: &Place) {
    policy(place, "");
    let mut command = sandbox(place);
    command.args(["--", "sh", "-c", "trap '' TERM HUP INT; (setsid sleep 600 &); echo started; sleep 600"]);
    let (mut child, output) = started(&mut command);
    let inside = descendants(child.id());
    assert!(inside.len() >= 4, "two of bwrap, the shell, and its child: {inside:?}");
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_ended(output);
}

// SPEC S11
fn the_end_of_the_caller_ends_nothing(place: &Place) {
    policy(place, "");
    let mut caller = place.command("sh");
    caller.args(["-c", "\"$@\"; true", "sh"]).arg(binary()).arg("--allow-root");
    caller.args(["--", "sh", "-c", "echo started; read line; echo \"went on $line\""]).stdin(Stdio::piped());
    let (mut caller, mut output) = started(&mut caller);
    let mut input = caller.stdin.take().unwrap();
    caller.kill().unwrap();
    caller.wait().unwrap();
    std::io::Write::write_all(&mut input, b"line\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "went on line\n");
}

fn descendants(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let deeper: Vec<u32> = children.iter().flat_map(|pid| descendants(*pid)).collect();
    [children, deeper].concat()
}

// SPEC S11
fn killing_bwrap_is_reported(place: &Place) {
    policy(place, "");
    let mut command = sandbox(place);
    command.args(["--", "sh", "-c", "(setsid sleep 600 &); echo started; sleep 600"]);
    let (child, output) = started(&mut command);
    let bwrap = descendants(child.id())[0];
    kill_process(Pid::from_raw(bwrap.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    assert_ended(output);
    failed(&child.wait_with_output().unwrap(), 125, "error[sandbox-lost]: bwrap was killed by the signal 9");
}

/// A bwrap that never starts the command.
// SPEC S8
fn a_start_that_hangs_can_be_ended(place: &Place) {
    policy(place, "");
    write_program(
        &place.path().join("bin/bwrap"),
        "#!/bin/sh\n[ \"$1\" != --help ] || exit\necho started\nexec sleep 60\n",
    );
    let mut command = sandbox(place);
    command.env("PATH", format!("{}:/usr/bin:/bin", place.path().join("bin").display())).args(["--", "true"]);
    for signal in [Signal::TERM, Signal::INT] {
        assert_eq!(signalled(&mut command, signal).signal(), Some(signal.as_raw()));
    }
}

// SPEC S1
fn a_start_that_fails_says_why(place: &Place) {
    policy(place, "");
    let with = |program: &str| {
        write_program(&place.path().join("bin/bwrap"), program);
        let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
        sandbox(place).env("PATH", path).args(["--", "true"]).output().unwrap()
    };
    let refused = with("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n");
    failed(&refused, 125, "error[sandbox-unavailable]: bwrap cannot make a sandbox here: No permissions");
    let once = with("#!/bin/sh\n[ \"$1\" = --unshare-all ] || { echo 'bwrap: gone' >&2; exit 1; }\n");
    failed(&once, 125, "error[start-failed]: bwrap ended with the exit code 1 before the command started");
}

// SPEC S1
fn a_command_that_cannot_be_executed_inside_has_its_own_exit_code(place: &Place) {
    policy(place, "");
    for (name, text) in [("lost", "#!/nowhere/sh\n"), ("folder", "#!/usr\n")] {
        write(place, name, text);
        fs::set_permissions(place.project().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for flags in [&[][..], &["--exec"]] {
        let run = |name: &str| sandbox(place).args(flags).args(["--", name]).output().unwrap();
        failed(&run("./lost"), 127, "error[command-not-found]: `./lost` cannot be executed inside");
        failed(&run("./folder"), 126, "error[command-not-executable]: `./folder` cannot be executed inside");
    }
}

fn a_reader_that_goes_away_ends_the_command(place: &Place) {
    policy(place, "");
    let mut caller = place.command("bash");
    let script = "\"$@\" -- cat /dev/zero | head -c1 >/dev/null; echo ${PIPESTATUS[0]}";
    caller.args(["-c", script, "bash"]).arg(binary()).arg("--allow-root");
    assert_eq!(succeeded(caller.output().unwrap()), "141\n", "SIGPIPE, as without agent-sandbox");
}

fn the_end_of_input_passes_through(place: &Place) {
    policy(place, "");
    let mut caller = place.command("sh");
    caller.args(["-c", "printf 'one\\ntwo\\n' | \"$@\" -- cat | head -1", "sh"]).arg(binary()).arg("--allow-root");
    assert_eq!(succeeded(caller.output().unwrap()), "one\n");
}

/// Orphaned processes become children of this caller. It must have none after the run, not even
/// zombies.
// SPEC S7
fn no_process_is_left_after_the_run(place: &Place) {
    const CALLER: &str = "
import ctypes, os, subprocess, sys
set_child_subreaper = 36
assert ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0
for script in ('true', '(setsid sleep 60 &); echo x', 'kill -9 $$'):
    subprocess.run([*sys.argv[1:], '--', 'sh', '-c', script], stdout=subprocess.DEVNULL)
    try:
        print(script, os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print('nobody')
";
    policy(place, "");
    let binary = binary();
    let said = python(&mut place.command("env"), CALLER, &[binary.to_str().unwrap(), "--allow-root"]);
    assert_eq!(said, "nobody\n".repeat(3));
}

/// Under `docker exec` and in many CI systems, the session and the process group of agent-sandbox
/// are outside of its PID namespace, and read as 0.
fn a_caller_outside_our_pid_namespace_can_start_a_run(place: &Place) {
    policy(place, "");
    let mut caller = place.command("unshare");
    caller.args(["--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "sh", "-c"]);
    caller
        .args(["cut -d ' ' -f 5,6 /proc/$$/stat; exec \"$@\" -- echo inside", "sh"])
        .arg(binary())
        .arg("--allow-root");
    let said = succeeded(caller.output().unwrap());
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["0", "0", "inside"]);
}

// SPEC S12
fn without_supervision_the_caller_gets_the_exit_code_of_bwrap(place: &Place) {
    policy(place, "");
    for (script, code) in [("exit 3", 3), ("kill -TERM $$", 143)] {
        assert_eq!(run(place, &["--exec", "--", "sh", "-c", script]).status.code(), Some(code));
    }
    let mut command = sandbox(place);
    command.args(["--exec", "--", "sh", "-c", "echo started; exec sleep 60"]);
    assert_eq!(signalled(&mut command, Signal::TERM).signal(), Some(15), "bwrap has no handler");
    let (mut child, output) = started(noting(sandbox(place).arg("--exec")));
    assert_eq!(fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap(), "bwrap\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ended(output);
}
