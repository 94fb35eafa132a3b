//! bwrap is started before the policy is compiled: whatever becomes of that, nobody sees more of it than before, and nobody is left.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::sandbox::{failed, policy, sandbox, shell, shell_with, write};
use crate::support::{Place, stderr};

everywhere!(
    a_mistake_that_is_found_meanwhile_is_all_that_is_said,
    a_start_that_is_killed_meanwhile_leaves_nobody,
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

/// The processes of a session that have not ended.
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
            assert!(begun.elapsed() < Duration::from_secs(30), "{step}: {:?}", alive(child.id()));
            sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(shell(place, "ls -d blocked"), "blocked\n");
    assert!(!place.project().join("blocked").exists(), "what the killed ones left is gone");
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

fn a_bwrap_that_is_started_ahead_has_no_variables(place: &Place) {
    policy(place, "");
    place.give_away();
    let count = shell(place, "tr '\\0' '\\n' < /proc/1/environ | wc -l; echo $HOME");
    let (count, home) = count.split_once('\n').unwrap();
    // For root it is not.
    assert_eq!(count == "0", place.uid != 0, "{count}");
    assert_eq!(home.trim_end(), place.home().to_str().unwrap());
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
