//! The printed command, pasted into a shell, gives the same access as a run at every path.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::random::{Case, Generator, POLICIES};
use crate::sandbox::{PROBE, answers, policy, probe, sandbox, write};
use crate::support::{Place, stderr, stdout};
use crate::undo::Waiting;

everywhere!(a_pasted_command_gives_the_view_of_a_run, a_pasted_command_of_the_defaults_gives_the_view_of_a_run);

/// The printed command that starts the probe, in a shell of the caller.
fn pasted(place: &Place) -> Command {
    let output = sandbox(place).arg("--print-args").arg("--").args(PROBE).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut shell = place.command("bash");
    shell.args(["-c", &stdout(&output)]).current_dir(place.project());
    shell
}

/// Compares a run with a pasted command, while the placeholders of another run exist.
fn agree(place: &Place, paths: &[PathBuf], context: &str) {
    let waiting = Waiting::start(place);
    let by_run = probe::<&str>(place, &[], paths);
    let by_paste = answers(&mut pasted(place), paths);
    waiting.end("");
    for ((path, run), paste) in paths.iter().zip(by_run).zip(by_paste) {
        assert_eq!(paste, run, "{path:?}\n{context}");
    }
}

// SPEC S15
fn a_pasted_command_gives_the_view_of_a_run(place: &Place) {
    let mut compared = 0;
    for seed in 0..POLICIES / 4 {
        let case = Case::generate(&mut Generator(seed));
        for entry in fs::read_dir(place.path()).unwrap() {
            fs::remove_dir_all(entry.unwrap().path()).unwrap();
        }
        case.build(place);
        // Some generated policies are refused, and then no command is printed.
        let printed = sandbox(place).args(["--print-args", "--", "true"]).output().unwrap();
        if printed.status.success() && !stderr(&printed).contains("error[") {
            agree(place, &case.paths(place), &format!("seed {seed}\n{}", case.rules()));
            compared += 1;
        }
    }
    assert!(compared > 5, "the policies are too strict: {compared}");
}

fn a_pasted_command_of_the_defaults_gives_the_view_of_a_run(place: &Place) {
    place.write("home/.ssh/key", "secret");
    place.write("home/.config/Code/settings", "");
    for file in [".env", ".env.{a,b}", "kept/file", "hidden/file", "hidden/open/file"] {
        write(place, file, "host");
    }
    crate::git::outside(place, &place.project(), "git init -q .");
    policy(
        place,
        "ro = ['kept', { path = 'blocked', if-missing = 'block' }]\nexclude = ['hidden']\nrw = ['hidden/open']\n",
    );
    // Without the user's file, all presets are on.
    place.write("home/.config/agent-sandbox/config.toml", "");
    place.give_away();
    let mut paths: Vec<PathBuf> = [
        ".env",
        ".env.{a,b}",
        "kept",
        "kept/file",
        "hidden",
        "hidden/file",
        "hidden/open/file",
        "blocked",
        ".git/config",
        ".git/hooks",
    ]
    .map(|path| place.project().join(path))
    .to_vec();
    paths.extend([".git/commondir", ".git/info/exclude", ".vscode", "."].map(|path| place.project().join(path)));
    paths.extend([".ssh", ".ssh/key", ".cache", ".bashrc", "."].map(|path| place.home().join(path)));
    paths.extend(["/", "/tmp", "/run", "/run/agent-sandbox/plan", "/dev/null", "/etc"].map(PathBuf::from));
    agree(place, &paths, "the defaults");
}
