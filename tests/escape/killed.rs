//! Runs that are killed while they create or remove placeholders.

use rustix::process::Signal;

use crate::outcome::Verdict;
use crate::scene::{DEFAULTS, Held, Scene};
use crate::support::Place;

everywhere!("the sweep": killing_a_run_at_any_step, killing_a_verification_at_any_step);

/// The pause points of `src/placeholders`, and the two of the start in between.
const STEPS: [&str; 9] = [
    "placeholders:journal-created",
    "placeholders:announced",
    "placeholders:made",
    "placeholders:noted",
    "placeholders:first-placed",
    "before-bwrap",
    "before-go",
    "placeholders:first-removed",
    "placeholders:all-removed",
];

const BLOCKED: &str =
    "ro = [{ path = 'a/.mcp.json', if-missing = 'block' }, { path = 'hooks/', if-missing = 'block' }]";

// SPEC M7
fn killing_a_run_at_any_step(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, BLOCKED);
    // This run creates all files that stay after a run.
    scene.attack("true", &[""; 0]);
    kill_at_each_step(scene, &["--", "true"])
}

/// `verify` also removes the directories that an ordinary run creates and leaves.
// SPEC V6
fn killing_a_verification_at_any_step(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, &format!("{BLOCKED}\nrw = [{{ path = 'new/made', if-missing = 'create' }}]"));
    scene.host(&["mkdir", "-p", scene.home().join(".local").to_str().unwrap()]);
    kill_at_each_step(scene, &["verify"])
}

fn kill_at_each_step(scene: &Scene, arguments: &[&str]) -> Verdict {
    let before = listing(scene);
    let mut left = Vec::new();
    for step in STEPS {
        let mut command = scene.product();
        command.args(arguments);
        let mut held = Held::start(scene, command, &[step]);
        held.stopped();
        held.running.signal(Signal::KILL);
        held.go_on(step);
        assert_eq!(held.running.wait().code, None, "{step}: not killed");
        if !scene.is_control() {
            let mut sweep = scene.place.agent_sandbox();
            sweep.arg("sweep");
            let swept = crate::scene::run(sweep);
            assert_eq!((swept.code, swept.err.as_str()), (Some(0), ""), "{step}: {swept:?}");
        }
        let after = listing(scene);
        left.extend(after.iter().filter(|path| !before.contains(path)).map(|path| format!("{step}: {path}")));
        assert!(before.iter().all(|path| after.contains(path)), "{step}: {before:?} {after:?}");
    }
    Verdict::broken_if(!left.is_empty(), left.join("\n"))
}

/// The paths in the home. Of the state folder, only the journals count.
fn listing(scene: &Scene) -> Vec<String> {
    let home = scene.home();
    let found = scene.host(&["find", home.to_str().unwrap()]);
    let counts = |path: &&str| !path.contains("/.local/") || path.ends_with(".journal");
    found.lines().filter(counts).map(str::to_owned).collect()
}

/// Signals stay pending while placeholders are created. A signal that arrives in that time ends the
/// start before bwrap runs, and nothing is left.
// SPEC S8
#[test]
fn a_signal_ends_a_start_before_the_command_runs() {
    let scene = Scene::new(Place::outside_tmp(), None);
    scene.policy(DEFAULTS, BLOCKED);
    for signal in [Signal::TERM, Signal::INT] {
        for point in ["placeholders:put-up", "before-bwrap"] {
            let mut held = scene.hold(&[point], &[], "touch", &["ran"]);
            held.stopped();
            assert!(scene.project().join("hooks").exists());
            held.running.signal(signal);
            held.go_on(point);
            let ran = held.running.wait();
            assert_eq!((ran.code, ran.err.as_str()), (None, ""), "{signal:?} {point}");
            assert!(!scene.project().join("ran").exists() && !scene.project().join("hooks").exists());
        }
    }
}
