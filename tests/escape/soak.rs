//! Many starts, in sequence and in parallel, end at any moment. They leave no files behind, and
//! remove no file of the user.
//!
//! At the moments that matter, a start is held at a pause point and ended. Other starts are ended
//! after some time. Every assertion here holds for every moment.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::processes::marked;
use crate::scene::{DEFAULTS, Held, PATIENCE, Running, Scene, run};
use crate::support::{Place, end_if_unborn, require_bwrap};

const IN_A_ROW: usize = 200;
const ROUNDS: usize = 12;
const AT_A_TIME: usize = 16;

/// All paths below a folder, with the content of files.
fn listing(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            let content = if kind.is_file() { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
            lines.push(format!("{:?} {kind:?} {:?}", entry.path(), String::from_utf8_lossy(&content)));
            if kind.is_dir() {
                open.push(entry.path());
            }
        }
    }
    lines.sort();
    lines
}

/// Makes a repository with files of the user at blocked paths that look like placeholders.
fn prepared(place: Place) -> Scene {
    require_bwrap();
    let scene = Scene::new(place, None);
    scene.host(&["git", "init", "-q"]);
    scene.write("mine.json", "");
    scene.mkdir("mine");
    let block = |path: &str| format!("{{ path = '{path}', if-missing = 'block' }}");
    let blocked = [block("missing.json"), block("tools/missing"), block("mine.json"), block("mine")].join(", ");
    scene.mkdir("tools");
    scene.policy(DEFAULTS, &format!("ro = [{blocked}]"));
    scene
}

fn mark(scene: &Scene) -> String {
    format!("soak-{}", scene.place.path().file_name().unwrap().to_str().unwrap())
}

fn start(scene: &Scene, script: &str) -> Running {
    Running::start(command(scene, script))
}

fn command(scene: &Scene, script: &str) -> Command {
    let mut command = scene.product();
    command.args(["--", "sh", "-c", script, &mark(scene)]);
    command
}

/// Waits until every process with `mark` in its arguments has ended.
fn until_all_have_ended(mark: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !marked(mark).is_empty() {
        assert!(Instant::now() < deadline, "processes outlived their launchers: {:?}", marked(mark));
        marked(mark).iter().for_each(|pid| end_if_unborn(pid.as_raw_nonzero().get().cast_unsigned()));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Asserts that one clean run after `work` removes all leftovers: the files are then the same as
/// after a clean run before `work`.
fn as_at_first(scene: &Scene, work: impl FnOnce()) {
    let clean = || {
        let ran = start(scene, "echo done").wait();
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "{ran:?}");
    };
    clean();
    let state = scene.home().join(".local/state");
    // Contents that bwrap binds depend on the services of the machine, and are swept after a week.
    let of_state =
        || listing(&state).into_iter().filter(|line| !line.contains("agent-sandbox/mounts")).collect::<Vec<_>>();
    let before = (listing(&scene.project()), of_state());
    work();
    until_all_have_ended(&mark(scene));
    clean();
    assert_eq!((listing(&scene.project()), of_state()), before);
}

#[test]
fn a_start_that_is_ended_at_a_point_leaves_nothing() {
    let scene = prepared(Place::outside_tmp());
    as_at_first(&scene, || {
        for point in ["before-bwrap", "before-go"] {
            for signal in [Signal::KILL, Signal::TERM] {
                let mut held = Held::start(&scene, command(&scene, "exec sleep 600"), &[point]);
                assert_eq!(held.stopped(), point);
                assert!(scene.bytes("missing.json").is_some(), "the placeholder exists");
                held.running.signal(signal);
                held.go_on(point);
                let ran = held.running.wait();
                assert_eq!(ran.code, None, "{point}, {signal:?}: ended by the signal: {ran:?}");
            }
        }
    });
}

#[test]
fn two_hundred_starts_in_a_row() {
    let scene = prepared(Place::outside_tmp());
    as_at_first(&scene, || {
        for number in 0..IN_A_ROW {
            let running = start(&scene, "echo done");
            if number % 5 == 4 {
                std::thread::sleep(Duration::from_millis(number as u64 % 23));
                running.signal(if number % 2 == 0 { Signal::KILL } else { Signal::TERM });
                running.wait();
            } else {
                let ran = running.wait();
                assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "start {number}: {ran:?}");
            }
        }
    });
}

// SPEC A2
#[test]
fn sixteen_runs_at_a_time_ended_at_any_moment() {
    let scene = prepared(Place::in_tmp());
    as_at_first(&scene, || {
        for round in 0..ROUNDS {
            let all: Vec<Running> = (0..AT_A_TIME).map(|_| start(&scene, "sleep 0.05; echo done")).collect();
            for (number, running) in all.into_iter().enumerate() {
                std::thread::sleep(Duration::from_millis((round * 7 + number * 3) as u64 % 11));
                match number % 3 {
                    0 => running.signal(Signal::KILL),
                    1 => running.signal(Signal::TERM),
                    _ => {
                        let ran = running.wait();
                        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "round {round}: {ran:?}");
                        continue;
                    }
                }
                running.wait();
            }
        }
    });
}

/// A file that the user creates at the path of a placeholder of a killed run stays.
#[test]
fn a_user_file_at_the_path_of_a_placeholder_stays() {
    let scene = prepared(Place::outside_tmp());
    let mut killed = start(&scene, "touch started; sleep 60");
    killed.until("started", || scene.project().join("started").exists());
    killed.signal(Signal::KILL);
    killed.wait();
    fs::write(scene.project().join("missing.json"), "{ \"of\": \"the user\" }").unwrap();
    scene.place.give_away();
    let mut command = scene.product();
    command.args(["--", "true"]);
    let ran = run(command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(scene.bytes("missing.json").unwrap(), b"{ \"of\": \"the user\" }");
    assert!(scene.bytes("mine.json").is_some() && scene.project().join("mine").is_dir());
}
