//! Attacks that use up resources: processes, files, output, memory of `/tmp`, and time.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, DEFAULTS, Scene};

// The kernel exempts root from the limit of processes, so the product refuses that limit for root.
for_user!("limits": making_processes_without_end);
for_everybody!("limits": filling_the_disk_with_one_file, filling_the_disk_with_output);
everywhere!("limits": filling_the_memory_through_tmp, filling_the_memory_through_other_places);
for_everybody!("limits": staying_when_the_time_is_up, leaving_a_daemon_when_the_time_is_up);

/// More than the limits of these tests, and little for this machine.
const MUCH: u64 = 16 << 20;

fn limited(scene: &Scene, limit: &str) {
    scene.policy(BASE_ONLY, &format!("[limits]\n{limit}"));
}

/// Asserts that the user can start another process during the run.
fn assert_responsive(scene: &Scene) {
    assert_eq!(scene.host(&["sh", "-c", "echo alive"]), "alive\n");
}

// SPEC A24, Z4
fn making_processes_without_end(scene: &Scene) -> Verdict {
    limited(scene, "processes = 20");
    let ran = scene.attack("forks.py", &["200"]).completed();
    assert_responsive(scene);
    Verdict::broken_if(ran.value("processes").parse::<u64>().unwrap() > 20, ran.out)
}

// SPEC A24, Z4
fn filling_the_disk_with_one_file(scene: &Scene) -> Verdict {
    limited(scene, "file-size = '1M'");
    let ran = scene.attack("fill.py", &["big", &MUCH.to_string()]).completed();
    let size = fs::metadata(scene.project().join("big")).unwrap().len();
    Verdict::broken_if(size > 1 << 20, format!("{size}, {ran:?}"))
}

// SPEC A24, Z5
fn filling_the_disk_with_output(scene: &Scene) -> Verdict {
    limited(scene, "output = '1M'");
    let ran = scene.attack("/bin/sh", &["-c", &format!("trap '' PIPE TERM; yes | head -c {MUCH}; echo done >&2")]);
    let size = ran.out.len();
    Verdict::broken_if(size > 1 << 20, format!("{size}, code {:?}, {}", ran.code, ran.err))
}

// SPEC A24, Z6
fn filling_the_memory_through_tmp(scene: &Scene) -> Verdict {
    limited(scene, "tmp = '1M'");
    let ran = scene.attack("fill.py", &["/tmp/big", &MUCH.to_string()]).completed();
    Verdict::broken_if(ran.value("written").parse::<u64>().unwrap() > 1 << 20, ran.out)
}

/// Besides `/tmp`, the command can write `/dev/shm`, the runtime directory, a private home, and the
/// folder of a preset.
// SPEC A24, Z6
fn filling_the_memory_through_other_places(scene: &Scene) -> Verdict {
    scene.write_home(".claude/history", "");
    scene.policy(DEFAULTS, "home = 'private'\n[limits]\ntmp = '1M'");
    let runtime = format!("/run/user/{}/big", scene.place.uid);
    let in_home = ["big", ".claude/session-env/big"].map(|file| scene.home().join(file));
    let places = ["/dev/shm/big".into(), runtime.into()].into_iter().chain(in_home);
    let written = places.map(|place: PathBuf| {
        let ran = scene.attack("fill.py", &[place.as_os_str(), MUCH.to_string().as_ref()]).completed();
        ran.value("written").parse().unwrap()
    });
    let written: Vec<u64> = written.collect();
    let is_more = |written: &u64| *written > 1 << 20;
    let is_broken = if scene.is_control() { written.iter().all(is_more) } else { written.iter().any(is_more) };
    Verdict::broken_if(is_broken, format!("{written:?}"))
}

// SPEC A24, Z3
fn staying_when_the_time_is_up(scene: &Scene) -> Verdict {
    stay(scene, "command")
}

// SPEC A24, Z3
fn leaving_a_daemon_when_the_time_is_up(scene: &Scene) -> Verdict {
    stay(scene, "daemon")
}

/// Waits until the product ends, or, in the control without the limit, until long after it should
/// have ended.
fn stay(scene: &Scene, who: &str) -> Verdict {
    limited(scene, "time = '2s'");
    let mut running = scene.start("stay.py", &[who]);
    running.until("started", || scene.project().join("started").exists());
    if scene.is_control() {
        thread::sleep(Duration::from_secs(13));
    } else {
        while !running.has_ended() {
            thread::sleep(Duration::from_millis(10));
        }
    }
    let lock = File::open(scene.project().join("lock")).unwrap();
    let is_alive = flock(&lock, FlockOperation::NonBlockingLockShared).is_err();
    running.signal(Signal::KILL);
    let ran = running.wait();
    assert!(scene.is_control() || ran.code == Some(124), "{ran:?}");
    assert_responsive(scene);
    Verdict::broken_if(is_alive, format!("{ran:?}"))
}
