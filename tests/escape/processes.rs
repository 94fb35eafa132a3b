//! Attacks with inherited files and variables, with signals, and by processes that stay.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, CANARY, DEFAULTS, PATIENCE, Running, Scene, run, words};
use crate::support::binary;

everywhere!("descriptors": reading_through_an_inherited_folder);
everywhere!("landlock-scope": signalling_the_callers_process_group);
everywhere!("env-filter": reading_sockets_of_the_session_from_the_environment, reading_secrets_that_were_not_passed);
everywhere!("a sandbox": outliving_the_command, outliving_the_launcher);

// SPEC A6
fn reading_through_an_inherited_folder(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let mut command = scene.outside("sh");
    command.args(["-c", "exec 3<\"$HOME\" 9<\"$HOME\"; exec \"$@\"", "sh"]).arg(binary());
    scene.prepare(&mut command);
    command.arg("--");
    words::<&str>(&mut command, "descriptors.py", &[]);
    let ran = run(command).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

// SPEC A9
fn signalling_the_callers_process_group(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    // The leader of the process group acts as the caller, a shell without job control.
    let mut witness = scene.outside("sleep");
    let mut witness = witness.arg("600").process_group(0).stdout(Stdio::null()).spawn().unwrap();
    let mut command = scene.product();
    command.process_group(witness.id() as i32);
    // A supervised command may have a process group of its own.
    if knows(scene, "--exec") {
        command.arg("--exec");
    }
    command.arg("--");
    words::<&str>(&mut command, "signal.py", &[]);
    let ran = run(command);
    assert!(scene.project().join("attempted").exists(), "{ran:?}");
    // The first fatal signal decides the exit status, so the one that follows here does not change
    // it.
    witness.kill().unwrap();
    let ended_by = witness.wait().unwrap().signal();
    Verdict::broken_if(ended_by == Some(Signal::USR1.as_raw()), format!("{ran:?}"))
}

fn knows(scene: &Scene, flag: &str) -> bool {
    let mut command = scene.product();
    command.arg("--help");
    run(command).out.split_whitespace().any(|word| word == flag)
}

// SPEC A10
fn reading_sockets_of_the_session_from_the_environment(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let mut command = scene.product();
    for name in ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "TMUX", "GPG_AGENT_INFO", "XAUTHORITY"] {
        command.env(name, format!("/nowhere/{CANARY}/{name}"));
    }
    command.arg("--");
    words::<&str>(&mut command, "environment.py", &[]);
    let ran = run(command).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

// SPEC A10
fn reading_secrets_that_were_not_passed(scene: &Scene) -> Verdict {
    let rules = "[env]\ninherit = false\npass = ['PATH', 'HOME', 'LANG']";
    scene.policy(BASE_ONLY, rules);
    let mut command = scene.product();
    command.env("DEPLOY_TOKEN", CANARY);
    command.arg("--");
    words::<&str>(&mut command, "environment.py", &[]);
    let ran = run(command).completed();
    Verdict::broken_if(ran.shows_canary(), ran.out)
}

/// Processes of the host that have `mark` in their arguments.
pub fn marked(mark: &str) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_mark = |pid: &i32| {
        let words = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
        words.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    pids.filter(has_mark).filter_map(Pid::from_raw).collect()
}

/// Returns and kills the marked processes that are still alive after `patience`.
pub fn survivors(mark: &str, patience: Duration) -> Vec<Pid> {
    let deadline = Instant::now() + patience;
    while !marked(mark).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = marked(mark);
    for pid in &left {
        let _ = kill_process(*pid, Signal::KILL);
    }
    left
}

/// The time to wait for processes to end. In the control they stay, so it is short.
fn patience(scene: &Scene) -> Duration {
    if scene.is_control() { Duration::ZERO } else { PATIENCE }
}

fn mark(scene: &Scene) -> String {
    format!("mark-of-{}", scene.place.path().file_name().unwrap().to_str().unwrap())
}

/// The command that starts the daemon, in a sandbox or, for the control, without one.
fn daemon(scene: &Scene, stay: &str) -> Command {
    let mut command = if scene.is_control() {
        scene.outside("env")
    } else {
        let mut product = scene.product();
        product.arg("--");
        product
    };
    words(&mut command, "daemon.sh", &[mark(scene).as_str(), stay]);
    command
}

// SPEC A25
fn outliving_the_command(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    run(daemon(scene, "leave")).completed();
    let left = survivors(&mark(scene), patience(scene));
    Verdict::broken_if(!left.is_empty(), format!("{left:?}"))
}

// SPEC A25
fn outliving_the_launcher(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let mut running = Running::start(daemon(scene, "stay"));
    running.until("started", || scene.project().join("started").exists());
    running.signal(Signal::KILL);
    running.wait();
    let left = survivors(&mark(scene), patience(scene));
    Verdict::broken_if(!left.is_empty(), format!("{left:?}"))
}
