//! Ordinary work of people and agents succeeds inside with the default policy. A process inside
//! does the work, and the test judges it on the host.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unused_macros)]

#[macro_use]
#[path = "../e2e/situations.rs"]
mod situations;

mod agents;
mod editors;
mod git;
mod hidden_files;
mod languages;

#[path = "../e2e/sandbox.rs"]
mod sandbox;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Output};

use sandbox::{sandbox, succeeded};
use support::Place;

/// The output of a script inside. It must succeed.
#[track_caller]
fn inside(place: &Place, script: &str) -> String {
    succeeded(output_inside(place, script))
}

fn output_inside(place: &Place, script: &str) -> Output {
    let mut command = sandbox(place);
    prepared(&mut command).args(["--network=false", "--", "sh", "-ec", script]).output().unwrap()
}

/// The output of a script outside, which the user runs before or after a run.
#[track_caller]
fn outside(place: &Place, script: &str) -> String {
    let mut command = place.command("sh");
    succeeded(prepared(&mut command).args(["-ec", script]).output().unwrap())
}

/// Adds the toolchain that built the tests, and a name and address for commits.
fn prepared(command: &mut Command) -> &mut Command {
    let cargo = Path::new(env!("CARGO")).parent().unwrap();
    command.env("PATH", format!("/usr/bin:/bin:{}", cargo.display())).env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "A Tester").env(format!("GIT_{who}_EMAIL"), "tester@example.org");
    }
    command
}

/// Fails without the program, because a skipped test would count as passed.
#[track_caller]
fn need(program: &str) {
    let mut look = Command::new("/usr/bin/env");
    look.args(["PATH=/usr/bin:/bin", "sh", "-c", "command -v \"$1\"", "sh", program]);
    assert!(
        look.output().is_ok_and(|output| output.status.success()),
        "this test needs `{program}`: run scripts/test, which installs it"
    );
}
