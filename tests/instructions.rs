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
const COMPILING_WITH_1000_RULES: u64 = 218;

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
    assert_no_growth(COMPILING_WITH_1000_RULES, counted(&with_rules(1000)));
}

/// Some stage that looks at all rules for each of them would make it four times as much, or soon.
#[test]
fn twice_as_many_rules_cost_twice_as_much() {
    let (some, twice) = (counted(&with_rules(1000)), counted(&with_rules(2000)));
    assert!(twice * 10 < some * 22, "{some} million instructions, and {twice} for twice as many rules");
}

/// Rules that lie beside and in each other, some of which say what holds already.
fn with_rules(count: usize) -> Place {
    let place = Place::outside_tmp();
    let project = place.project();
    let kinds = ["ro", "rw", "exclude"];
    let mut policy = "[filesystem]\n".to_owned();
    for (index, kind) in kinds.iter().enumerate() {
        let within = kinds[..=index].join("/");
        let paths = (0..count / 3).map(|number| format!("rules/{}/{within}/{}", number / 10, number % 10));
        let paths: Vec<String> = paths.map(|path| project.join(path).to_str().unwrap().to_owned()).collect();
        for path in &paths {
            std::fs::create_dir_all(path).unwrap();
        }
        policy.push_str(&format!("{kind} = {paths:?}\n"));
    }
    place.write("home/.config/agent-sandbox/config.toml", policy);
    place
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
