//! bwrap is started before the policy is compiled. If the start fails, bwrap says nothing, and no
//! process is left.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::sandbox::{failed, policy, sandbox, shell, shell_with, write};
use crate::support::{Place, end_if_unborn, stderr, stdout};

everywhere!(
    a_mistake_that_is_found_meanwhile_is_all_that_is_said,
    a_start_that_is_killed_meanwhile_leaves_nobody,
    a_signal_at_any_moment_of_the_start_ends_us_or_reaches_the_command,
    a_network_that_a_file_turns_off_is_off,
    the_command_has_all_processors_back,
    a_bwrap_that_is_started_ahead_has_no_variables,
);

/// The product in a session of its own, by whose number all that it leaves can be found.
fn in_own_session(place: &Place) -> Command {
    let (inner, mut command) = (sandbox(place), place.command("setsid"));
    command.arg(inner.get_program()).args(inner.get_args());
    command
}

/// The lines of `/proc/PID/stat` of the processes of a session that have not ended.
fn alive(session: u32) -> Vec<String> {
    let of_session = |stat: &String| {
        // After the name, which may hold anything: state, parent, group, session.
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
        fields.get(3) == Some(&session.to_string().as_str()) && fields.first() != Some(&"Z")
    };
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok()).filter(of_session).collect()
}

fn a_mistake_that_is_found_meanwhile_is_all_that_is_said(place: &Place) {
    policy(place, "exclude = ['~/code/project']\n");
    place.give_away();
    for _ in 0..20 {
        let mut command = in_own_session(place);
        let child = command.args(["--", "touch", "ran"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let session = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(alive(session), [""; 0], "all have ended when we have");
        failed(&output, 125, "error[excluded-cwd]");
        assert_eq!(stderr(&output).matches("error").count(), 1, "{}", stderr(&output));
        assert!(!stderr(&output).contains("bwrap"), "{}", stderr(&output));
    }
    assert!(!place.project().join("ran").exists());
}

fn a_start_that_is_killed_meanwhile_leaves_nobody(place: &Place) {
    policy(place, "ro = [{ path = 'blocked/', if-missing = 'block' }]\n");
    place.give_away();
    for step in 0..40 {
        let mut command = in_own_session(place);
        let mut child = command.args(["--", "sleep", "100"]).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_micros(step * 250));
        child.kill().unwrap();
        child.wait().unwrap();
        let begun = Instant::now();
        while !alive(child.id()).is_empty() {
            let left = alive(child.id());
            assert!(begun.elapsed() < Duration::from_secs(120), "{step}: {left:?}");
            left.iter().filter_map(|stat| stat.split(' ').next()?.parse().ok()).for_each(end_if_unborn);
            sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(shell(place, "ls -d blocked"), "blocked\n");
    assert!(!place.project().join("blocked").exists(), "what the killed ones left is gone");
}

/// The command gets the signal, or nothing of it has run and agent-sandbox dies by the signal. Only
/// bwrap may print a message: one that has no arguments yet cannot be told to be quiet.
fn a_signal_at_any_moment_of_the_start_ends_us_or_reaches_the_command(place: &Place) {
    policy(place, "ro = [{ path = 'blocked/', if-missing = 'block' }]\n");
    place.give_away();
    for step in 0..60 {
        let mut command = in_own_session(place);
        let script = "trap 'echo caught; exit 3' TERM; echo begun; while :; do sleep 0.01; done";
        command.args(["--", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        sleep(Duration::from_micros(step * 400));
        // It has not been waited for, so the number is still its own.
        let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        let (said, status) = (stdout(&output), output.status);
        match said.as_str() {
            "begun\ncaught\n" => assert_eq!(status.code(), Some(3), "{step}"),
            // It got the signal before it had its handler.
            "" => assert_eq!(status.signal(), Some(15), "{step}: {status} {}", stderr(&output)),
            said => panic!("{step}: {said} {status} {}", stderr(&output)),
        }
        assert!(!stderr(&output).contains("error"), "{step}: {}", stderr(&output));
    }
}

/// Which decides about the words that bwrap is told before the rest is known.
fn a_network_that_a_file_turns_off_is_off(place: &Place) {
    let interfaces = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \\n'";
    policy(place, "");
    write(place, ".agent-sandbox.toml", "network = false\n");
    place.give_away();
    assert_eq!(shell(place, interfaces), "lo");
    let host = fs::read_to_string("/proc/net/dev").unwrap().lines().count();
    write(place, ".agent-sandbox.toml", "");
    place.give_away();
    let inside = shell_with(place, &["--network"], "wc -l < /proc/net/dev");
    assert_eq!(inside.trim().parse::<usize>().unwrap(), host);
}

/// Looked at from outside: the command may not look at the processes of bwrap at all.
fn a_bwrap_that_is_started_ahead_has_no_variables(place: &Place) {
    policy(place, "");
    place.give_away();
    let mut command = sandbox(place);
    command.args(["--", "sh", "-c", "echo $HOME; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut home = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut home).unwrap();
    let own = |of: &str| fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    let bwrap = own(&child.id().to_string()).trim().to_owned();
    let environments: Vec<Vec<u8>> = [bwrap.clone(), own(&bwrap).trim().to_owned()]
        .map(|of| fs::read(format!("/proc/{of}/environ")).unwrap())
        .into();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(home.trim_end(), place.home().to_str().unwrap(), "the command has them");
    // For root it is not started ahead.
    let are_empty = environments.iter().all(Vec::is_empty);
    assert_eq!(are_empty, place.uid != 0, "{:?}", String::from_utf8_lossy(&environments.concat()));
}

/// bwrap runs where we do not, until it has nothing more to do.
fn the_command_has_all_processors_back(place: &Place) {
    policy(place, "");
    place.give_away();
    let outside = place.command("sh").args(["-c", ALLOWED]).output().unwrap();
    let outside = String::from_utf8(outside.stdout).unwrap();
    assert!(outside.starts_with("Cpus_allowed_list:"), "{outside}");
    for _ in 0..20 {
        assert_eq!(shell(place, ALLOWED), outside);
    }
}

const ALLOWED: &str = "grep Cpus_allowed_list /proc/self/status";
