//! The command line as a caller sees it: the built binary, as an ordinary user, in a project of its
//! own.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod ablation;
mod annotated;
mod check;
mod colors;
mod diff;
mod embedding;
mod exit_codes;
mod explain;
mod generated;
mod help;
mod init;
mod lint;
mod parsing;
mod print_args;
mod private;
mod show;
mod streams;
mod surroundings;
mod trust;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::Output;
use std::time::{Duration, Instant};

use support::{Place, require_bwrap, stderr, stdout};

/// The result of one run.
#[derive(Debug)]
struct Ran {
    /// `None`: killed by a signal.
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        let ran = Self { code: output.status.code(), out: stdout(output), err: stderr(output) };
        assert!(!ran.err.contains("panicked"), "{ran:?}");
        ran
    }

    /// The codes of all diagnostics, in order.
    fn codes(&self) -> Vec<&str> {
        let titles = self.err.lines().filter_map(|l| l.strip_prefix("error[").or(l.strip_prefix("warning[")));
        titles.filter_map(|title| title.split_once("]: ")).map(|(code, _)| code).collect()
    }
}

/// Runs the binary in the project of `place`.
fn run<W: AsRef<OsStr>>(place: &Place, words: impl IntoIterator<Item = W>) -> Ran {
    require_bwrap();
    Ran::of(&place.agent_sandbox().args(words).output().unwrap())
}

/// Runs a comparison of several runs. Each run hides the services that listen on this machine at
/// that moment, so the comparison is repeated if a service came or went meanwhile.
fn undisturbed(compare: impl Fn()) {
    // The deadline only turns a hang into a failure.
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        let before = services();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&compare));
        match result {
            Ok(()) => return,
            Err(_) if services() != before => {}
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    panic!("services come and go all the time: see /proc/net/unix");
}

/// The services that a sandbox could see, without those that the tests start in their private
/// places.
fn services() -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    let names = table.lines().filter_map(|line| line.split_once(" /")).map(|(_, name)| format!("/{name}"));
    names.filter(|name| !name.starts_with("/tmp/") && !name.starts_with("/run/")).collect()
}

/// Runs the binary in an empty project.
fn ran<const N: usize>(words: [&str; N]) -> Ran {
    run(&Place::in_tmp(), words)
}
