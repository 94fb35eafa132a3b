//! What compiling the default policy costs, in instructions: the same on a loaded machine as on an idle one, so that no growth goes
//! unnoticed among the noise of a clock.
//!
//! The numbers are those of this test's own build, and of one architecture. Elsewhere there is nothing to compare with.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(all(target_arch = "x86_64", debug_assertions))]

#[path = "support/mod.rs"]
mod support;

use support::{Place, binary, require_bwrap, stderr};

/// Millions, when it was last looked at. After a change that is worth its price: the number that the failure shows.
const COMPILING: u64 = 40;
const COMPILING_WITH_1000_RULES: u64 = 1616;

/// In percent. Compilers and C libraries differ by a few.
const TOLERANCE: u64 = 20;

#[test]
fn compiling_the_default_policy_costs_no_more_than_it_did() {
    let place = Place::outside_tmp();
    place.write("home/code/project/.env", "KEY=1\n");
    assert_no_growth(COMPILING, counted(&place));
}

#[test]
fn a_thousand_rules_cost_no_more_than_they_did() {
    let place = Place::outside_tmp();
    let project = place.project();
    let paths = (0..1000).map(|index| format!("rules/{}/{}", index / 30, index % 30));
    let paths: Vec<String> = paths.map(|path| project.join(path).to_str().unwrap().to_owned()).collect();
    for path in &paths {
        std::fs::create_dir_all(path).unwrap();
    }
    place.write("home/.config/agent-sandbox/config.toml", format!("[filesystem]\nro = {paths:?}\n"));
    assert_no_growth(COMPILING_WITH_1000_RULES, counted(&place));
}

/// Millions of instructions that printing the argv takes, of our own process alone.
fn counted(place: &Place) -> u64 {
    require_bwrap();
    place.give_away();
    let mut valgrind = place.command("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(binary());
    let output = valgrind.args(["--print-args=nul", "--quiet", "--", "true"]).output();
    let output = output.expect("valgrind counts the instructions: scripts/test installs it");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let count = said.lines().find_map(|line| line.split_once("Collected : ")).unwrap_or_else(|| panic!("{said}")).1;
    count.trim().parse::<u64>().unwrap() / 1_000_000
}

fn assert_no_growth(before: u64, now: u64) {
    let limit = before + before * TOLERANCE / 100;
    assert!(now <= limit, "{now} million instructions, and it was {before}: find out what made it dearer");
    // Otherwise what was gained could be lost again in silence.
    let floor = before - before * TOLERANCE / 100;
    assert!(now >= floor, "{now} million instructions, and it was {before}: write down what was gained");
}
