//! The limits of a policy: commands try to exceed them.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::features::{bwrap_without, with_it};
use crate::guard::with_bwrap;
use crate::sandbox::{assert_fits, failed, policy, python, run, sandbox, shell_with, succeeded, write};
use crate::support::{Place, binary, stderr, stdout};

everywhere!(a_full_tmp_is_reported_with_the_remedy, tmp_has_the_size_of_the_policy);

for_both!(
    a_command_beyond_its_time_gets_sigterm_and_exit_code_124,
    a_command_that_takes_too_long_may_clean_up,
    a_time_limit_holds_without_a_guard,
    a_command_within_its_time_keeps_its_exit_code,
    a_command_that_stops_itself_with_its_supervisor_is_ended_in_time,
    more_processes_than_allowed_cannot_be_made,
    a_file_does_not_grow_beyond_its_limit,
    a_lower_limit_of_the_caller_stays,
    output_is_cut_at_the_limit_and_the_command_is_ended,
    output_up_to_the_limit_passes_as_it_is,
    both_streams_to_one_file_keep_their_order,
    output_to_a_terminal_cannot_be_limited,
    a_pipe_that_another_process_holds_open_does_not_delay_the_end,
    a_printed_command_holds_the_limits_of_guard_and_tmp,
    a_limit_of_tmp_needs_a_bwrap_that_knows_sizes,
    limits_are_explained_outside_and_inside,
    limits_are_verified,
    the_example_runs,
    doctor_lists_the_limits_that_this_machine_enforces,
);

/// The warning about a limit of time or output.
fn reached(limit: &str, kind: &str) -> String {
    let what = if kind == "output" { "the end of the output is missing" } else { "the command was ended" };
    format!(
        "warning[limit-reached]: {what}: it reached the limit `{limit}`\n  |\n  \
         = help: raise it with `--limit {kind}=VALUE`, or in `[limits]`\n"
    )
}

// SPEC Z3
fn a_command_beyond_its_time_gets_sigterm_and_exit_code_124(place: &Place) {
    policy(place, "[limits]\ntime = '500ms'\n");
    let output = run(place, &["--", "sleep", "1000"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(124), reached("time=500ms", "time")));
}

// SPEC Z3
fn a_command_that_takes_too_long_may_clean_up(place: &Place) {
    policy(place, "");
    let script = "trap 'echo cleaned; exit 3' TERM; sleep 1000 & wait";
    let output = run(place, &["--limit", "time=500ms", "--", "sh", "-c", script]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(124), "cleaned\n"));
}

// SPEC Z3
fn a_time_limit_holds_without_a_guard(place: &Place) {
    policy(place, "");
    let output = run(place, &["-q", "--no-guard", "--limit", "time=500ms", "--", "sleep", "1000"]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
}

fn a_command_within_its_time_keeps_its_exit_code(place: &Place) {
    policy(place, "");
    let output = run(place, &["--limit", "time=1h", "--", "sh", "-c", "exit 7"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(7), ""));
}

/// At a terminal the supervisor stops together with the command, and then cannot measure time.
// SPEC Z3
fn a_command_that_stops_itself_with_its_supervisor_is_ended_in_time(place: &Place) {
    policy(place, "");
    const AT_A_TERMINAL: &str = "
import os, pty, signal, sys
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
signal.alarm(60)
stopped = os.waitpid(pid, os.WUNTRACED)[1]
assert os.WIFSTOPPED(stopped), 'the supervisor has not stopped'
status = os.waitpid(pid, 0)[1]
print(os.waitstatus_to_exitcode(status))
";
    let binary = binary();
    let mut words = vec![binary.to_str().unwrap()];
    words.extend((place.uid == 0).then_some("--allow-root"));
    words.extend(["--limit", "time=2s", "--", "sh", "-c", "sleep 1000 & kill -STOP $$; wait"]);
    assert_eq!(python(&mut place.command("env"), AT_A_TERMINAL, &words), "124\n");
}

/// Root of the whole machine is exempt from the kernel's limit.
fn is_exempt(place: &Place) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    place.uid == 0 && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Starts children until the kernel refuses, and prints the number of processes with the parent.
const FORKS: &str = "
import os, resource, signal
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000))
except ValueError:
    print('not raised')
children = []
try:
    while len(children) < 100:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
print(len(children) + 1)
for child in children:
    os.kill(child, signal.SIGKILL)
";

// SPEC Z4
fn more_processes_than_allowed_cannot_be_made(place: &Place) {
    policy(place, "[limits]\nprocesses = 20\n");
    let mut command = sandbox(place);
    command.arg("--");
    if is_exempt(place) {
        let output = command.arg("true").output().unwrap();
        let said = "error[limit-unavailable]: the limit `processes` cannot be enforced: the kernel exempts root of the machine";
        assert!(stderr(&output).contains("config.toml:"), "{output:?}");
        return failed(&output, 125, said);
    }
    assert_eq!(python(&mut command, FORKS, &[]), "not raised\n20\n");
    // Processes of the same user outside, and in another sandbox, do not count.
    let mut other = sandbox(place);
    other.args(["--limit", "processes=2", "--"]);
    assert_eq!(python(&mut other, FORKS, &[]), "not raised\n2\n");
}

// SPEC Z4
fn a_file_does_not_grow_beyond_its_limit(place: &Place) {
    policy(place, "[limits]\nfile-size = '1M'\n");
    assert_eq!(shell_with(place, &[], "yes >big; echo $?"), "153\n", "SIGXFSZ");
    assert_eq!(fs::metadata(place.project().join("big")).unwrap().len(), 1 << 20);
    let script = "trap '' XFSZ; yes >other 2>error; grep -c 'too large' error";
    assert_eq!(shell_with(place, &[], script), "1\n");
}

// SPEC Z4
fn a_lower_limit_of_the_caller_stays(place: &Place) {
    policy(place, "[limits]\nfile-size = '1M'\n");
    // The soft limit of the caller is in force, and the command can raise it to the hard limit.
    for (flag, said) in [("-S", "512\n1024\n"), ("-H", "512\n512\n")] {
        let mut command = place.command("bash");
        let script = format!("ulimit -S -f 512; ulimit {flag} -f 512; exec \"$@\"");
        command.args(["-c", &script, "bash"]).arg(binary()).args((place.uid == 0).then_some("--allow-root"));
        command.args(["--", "bash", "-c", "ulimit -S -f; ulimit -H -f"]).current_dir(place.project());
        assert_eq!(succeeded(command.output().unwrap()), said, "{flag}");
    }
}

/// The user's limit of processes may be reached when the supervisor starts a thread for the output.
// SPEC Z5
#[test]
fn without_a_process_for_the_output_nothing_runs_and_nothing_stays() {
    let place = Place::outside_tmp();
    // With the presets, placeholders exist when the thread is started.
    place.write("home/.config/agent-sandbox/config.toml", "[limits]\noutput = '1M'\n");
    let names =
        || -> BTreeSet<_> { fs::read_dir(place.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect() };
    let before = names();
    let mut command = place.command("bash");
    command.args(["-c", "ulimit -u 1; exec \"$@\"", "bash"]).arg(binary());
    let output = command.args(["--", "echo", "started"]).current_dir(place.project()).output().unwrap();
    failed(&output, 125, "error[start-failed]: cannot count the output of the command: ");
    assert_eq!(names(), before);
}

// SPEC Z5
fn output_is_cut_at_the_limit_and_the_command_is_ended(place: &Place) {
    policy(place, "[limits]\noutput = '1M'\n");
    let output = run(place, &["--", "yes"]);
    let expected = (Some(124), 1 << 20, reached("output=1M", "output"));
    assert_eq!((output.status.code(), output.stdout.len(), stderr(&output)), expected);
    // Both streams count, and the supervisor also ends a command that ignores SIGPIPE.
    let script = "trap '' PIPE; echo 12345 >&2; echo 67890; sleep 1000";
    let output = run(place, &["--limit", "output=10B", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(124));
    // Each stream has a thread of its own, and the thread that reads later gets the rest.
    let (out, err) = (stdout(&output), stderr(&output));
    let passed = [("6789", "12345\nwarning"), ("67890\n", "1234warning")];
    assert!(passed.iter().any(|(rest, begin)| out == *rest && err.starts_with(begin)), "{output:?}");
}

// SPEC Z5
fn output_up_to_the_limit_passes_as_it_is(place: &Place) {
    policy(place, "[limits]\noutput = '1M'\n");
    let output = run(place, &["--", "sh", "-c", "head -c 1048570 /dev/zero; echo 12345 >&2; exit 3"]);
    assert_eq!((output.status.code(), output.stdout.len(), stderr(&output).as_str()), (Some(3), 1048570, "12345\n"));
    // The rest of the output of a command that has ended reaches a slow reader.
    let mut command = sandbox(place);
    command.args(["--", "head", "-c", "500000", "/dev/zero"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut reader = Command::new("sh");
    reader.args(["-c", "sleep 1; wc -c"]).stdin(child.stdout.take().unwrap());
    assert_eq!(succeeded(reader.output().unwrap()).trim(), "500000");
    assert!(child.wait().unwrap().success());
}

// SPEC Z5
fn both_streams_to_one_file_keep_their_order(place: &Place) {
    policy(place, "[limits]\noutput = '1M'\n");
    let log = fs::File::create(place.path().join("log")).unwrap();
    let script = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); done";
    let mut command = sandbox(place);
    command.args(["--", "sh", "-c", script]).stdout(log.try_clone().unwrap()).stderr(log);
    assert!(command.status().unwrap().success());
    let expected: String = (0..200).map(|number| format!("{number}\n")).collect();
    assert_eq!(fs::read_to_string(place.path().join("log")).unwrap(), expected);
}

// SPEC Z5
fn output_to_a_terminal_cannot_be_limited(place: &Place) {
    policy(place, "[limits]\noutput = '1M'\n");
    const AT_A_TERMINAL: &str = "
import os, pty, sys
status = pty.spawn(sys.argv[1:])
print(os.waitstatus_to_exitcode(status))
";
    let binary = binary();
    let mut words = vec![binary.to_str().unwrap()];
    words.extend((place.uid == 0).then_some("--allow-root"));
    words.extend(["--color=never", "--", "echo", "started"]);
    let said = python(&mut place.command("env"), AT_A_TERMINAL, &words).replace('\r', "");
    let expected = "error[limit-unavailable]: the limit `output` cannot be enforced: standard output is a terminal, and output \
                    is counted on its way through a pipe\n  |\n  = help: redirect both to a file or a pipe, or remove the \
                    limit\n125\n";
    assert_eq!(said, expected);
}

/// A command can pass its standard output over a socket of the project to a process outside.
// SPEC Z5
fn a_pipe_that_another_process_holds_open_does_not_delay_the_end(place: &Place) {
    policy(place, "[limits]\noutput = '1M'\n");
    const KEEP: &str = "
import array, os, socket
server = socket.socket(socket.AF_UNIX)
server.bind('socket')
os.chmod('socket', 0o777)
server.listen()
print('listening', flush=True)
connection, _ = server.accept()
_, kept, _, _ = socket.recv_fds(connection, 1, 1)
connection.send(b'x')
import signal
signal.pause()
";
    const GIVE: &str = "
import socket
client = socket.socket(socket.AF_UNIX)
client.connect('socket')
socket.send_fds(client, [b'x'], [1])
client.recv(1)
print('given')
";
    let mut keeper = place.command("python3");
    keeper.args(["-I", "-c", KEEP]).current_dir(place.project()).stdout(Stdio::piped());
    let mut keeper = keeper.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(keeper.stdout.take().unwrap()), &mut line).unwrap();
    let mut command = sandbox(place);
    command.arg("--");
    let said = python(&mut command, GIVE, &[]);
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert_eq!(said, "given\n");
}

/// The size of the file system that the command sees at `/tmp`.
fn size_of_tmp(place: &Place, flags: &[&str]) -> u64 {
    shell_with(place, flags, "stat -f -c '%S %b' /tmp | { read s b; echo $((s*b)); }").trim().parse().unwrap()
}

// SPEC Z6
fn tmp_has_the_size_of_the_policy(place: &Place) {
    policy(place, "");
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")).unwrap();
    let half = total.parse::<u64>().unwrap() * 1024 / 2;
    assert_eq!(size_of_tmp(place, &[]), half.min(4 << 30).next_multiple_of(4096));
    assert_eq!(size_of_tmp(place, &["--limit", "tmp=64M"]), 64 << 20);
    assert_eq!(size_of_tmp(place, &["-q", "--no-guard", "--limit", "tmp=64M"]), 64 << 20);
    policy(place, "[limits]\ntmp = '32M'\n");
    assert_eq!(size_of_tmp(place, &[]), 32 << 20);
}

// SPEC Z6
fn a_full_tmp_is_reported_with_the_remedy(place: &Place) {
    policy(place, "[limits]\ntmp = '1M'\n");
    let output = run(place, &["--", "sh", "-c", "yes >/tmp/file 2>error; grep -c 'No space left' error"]);
    let warning = "warning[tmp-full]: `/tmp` was full when the command ended: it has 1M\n  |\n  \
                   = help: give it more with `tmp` in `[limits]`, or use the host's with `tmp = \"host\"`\n";
    assert_eq!((output.status.code(), stdout(&output).as_str(), stderr(&output).as_str()), (Some(0), "1\n", warning));
    let output = run(place, &["--", "sh", "-c", "head -c 900K /dev/zero >/tmp/file"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

// SPEC Z4
fn a_printed_command_holds_the_limits_of_guard_and_tmp(place: &Place) {
    policy(place, "[limits]\nfile-size = '1M'\ntmp = '2M'\n");
    for form in ["shell", "script"] {
        let script = "yes >big; stat -c %s big; stat -f -c '%S %b' /tmp";
        let mut command = sandbox(place);
        command.args([&format!("--print-args={form}"), "--", "sh", "-c", script]);
        let printed = succeeded(command.output().unwrap());
        let mut shell = place.command("bash");
        shell.args(["-c", &printed]).current_dir(place.project());
        assert_eq!(succeeded(shell.output().unwrap()), "1048576\n4096 512\n", "{form}");
    }
}

// SPEC Z6
fn a_limit_of_tmp_needs_a_bwrap_that_knows_sizes(place: &Place) {
    policy(place, "");
    bwrap_without(place, &["--size"]);
    for flags in [&["--exec"][..], &["-q", "--no-guard"], &[]] {
        let mut command = with_it(place);
        let output = command.args(flags).args(["--limit", "tmp=1M", "--", "echo", "x"]).output().unwrap();
        failed(&output, 125, "error[limit-unavailable]: the limit `tmp` cannot be enforced: `");
        assert!(stderr(&output).contains("does not have `--size`"), "{}", stderr(&output));
    }
    // The default size is not set for a bwrap whose binary does not contain the flag.
    let wrapper = place.path().join("bin/bwrap");
    let text = fs::read_to_string(&wrapper).unwrap().replace("--size", "--si\"\"ze");
    fs::write(&wrapper, text).unwrap();
    assert_eq!(succeeded(with_it(place).args(["--", "echo", "x"]).output().unwrap()), "x\n");
    let printed = succeeded(with_it(place).args(["--print-args=lines", "--", "echo", "x"]).output().unwrap());
    assert!(printed.contains("\n--tmpfs\n/tmp\n") && !printed.contains("--size"), "{printed}");
}

// SPEC Z2
fn limits_are_explained_outside_and_inside(place: &Place) {
    policy(place, "[limits]\ntime = '1h'\ntmp = '1G'\n");
    let explain = |words: &[&str]| succeeded(place.agent_sandbox().args(words).output().unwrap());
    let text = explain(&["--limit", "time=30m", "explain", "--limits"]);
    let file = place.home().join(".config/agent-sandbox/config.toml");
    let expected = format!(
        "time: at most 30m\n  rule    --limit time=30m\n  over    1h  [{0}:4:8]\n  held    the supervisor sends SIGTERM, and \
         kills everything inside 10 seconds later; exit code 124\n\ntmp: at most 1G\n  rule    {0}:5:7\n  held    the size of \
         the file system at `/tmp`, by bubblewrap 0.7 or newer: ENOSPC\n",
        file.display()
    );
    assert_eq!(text, expected);
    let json: Value = serde_json::from_str(&explain(&["explain", "--limits", "--json"])).unwrap();
    assert_fits("explain", &json);
    assert_eq!(json["limits"][0]["limit"], "time=1h");
    let inside = succeeded(run(place, &["--", "/run/agent-sandbox/guard", "explain", "--limits"]));
    assert_eq!(inside, "limits: time=1h tmp=1G\n");
}

/// `examples/limits.toml`, which people copy.
fn the_example_runs(place: &Place) {
    policy(place, "");
    let example = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/limits.toml")).unwrap();
    write(place, ".agent-sandbox.toml", example);
    let script = "stat -f -c '%S %b' /tmp; bash -c 'ulimit -f'";
    let mut command = sandbox(place);
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    if is_exempt(place) {
        return failed(&output, 125, "error[limit-unavailable]: the limit `processes` cannot be enforced");
    }
    assert_eq!(succeeded(output), format!("4096 {}\n{}\n", 524_288, 4 << 20));
}

// SPEC Z9
fn limits_are_verified(place: &Place) {
    let processes = if is_exempt(place) { "" } else { "processes = 200\n" };
    let limits = format!("[limits]\ntime = '1h'\nfile-size = '1G'\noutput = '1M'\ntmp = '100M'\n{processes}");
    policy(place, &limits);
    let facts = |output: Output, code: i32| {
        assert_eq!(output.status.code(), Some(code), "{}{}", stdout(&output), stderr(&output));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_fits("verify", &json);
        let facts = json["facts"].as_array().unwrap().iter().filter_map(|fact| {
            let name = fact["name"].as_str().unwrap().strip_prefix("limit: ")?;
            Some(format!("{name} {}", fact["result"].as_str().unwrap()))
        });
        facts.collect::<Vec<_>>()
    };
    let mut held = vec!["file-size ok", "tmp ok", "time ok", "output ok"];
    if !processes.is_empty() {
        held.insert(0, "processes ok");
    }
    let words = ["verify", "--json"];
    assert_eq!(facts(run(place, &words), 0), held);
    // The probe of `verify` finds out that bwrap or the guard did not set a limit.
    let without = |flag: &str| {
        format!(
            "words=(); while [ $# -gt 0 ]; do if [ \"$1\" = {flag} ]; then shift 2; else words+=(\"$1\"); shift; fi; done"
        )
    };
    let found = facts(with_bwrap(place, &without("--size"), &words), 1);
    assert!(found.contains(&"tmp mismatch".to_owned()), "{found:?}");
    let found = facts(with_bwrap(place, &without("--limit"), &words), 1);
    assert!(found.contains(&"file-size mismatch".to_owned()), "{found:?}");
}

// SPEC Z9
fn doctor_lists_the_limits_that_this_machine_enforces(place: &Place) {
    policy(place, "");
    write(place, "file", "");
    let mut command = sandbox(place);
    let output = command.env_remove("XDG_RUNTIME_DIR").args(["doctor", "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let limits = json["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "limits").unwrap();
    let (held, why) = match is_exempt(place) {
        true => ("time, file-size, output, tmp", "no processes: the kernel exempts root of the machine; "),
        false => ("time, processes, file-size, output, tmp", ""),
    };
    let expected = format!(
        "{held}; {why}no memory, cpus: `XDG_RUNTIME_DIR` is not set, so no user manager of systemd runs, and no cgroup \
         above this process is delegated to you"
    );
    assert_eq!((limits["found"].as_str().unwrap(), &limits["status"]), (expected.as_str(), &Value::from("limited")));
    let remedy = limits["remedy"].as_str().unwrap();
    assert!(remedy.contains("session of systemd") && remedy.contains("delegate a folder of cgroups"), "{remedy}");
}
