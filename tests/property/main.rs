//! Properties of every policy, over random small hosts and random rules.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod diff;
mod explain;
mod forms;
mod found;
mod generate;
mod globs;
mod injections;
mod naive;
mod pins;
mod presets;
mod rules;
mod scene;
mod stable;
mod stages;
mod trust;

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;

use agent_sandbox::compile::lower::Argv;
use agent_sandbox::compile::request::Request;
use agent_sandbox::model::Model;
use agent_sandbox::policy::rule::LayerKind;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use access::class;
use naive::Verdict;
use scene::{Scene, Stage};

/// Runs `property` on random scenes: always the same ones or, with PROPTEST_CASES, that number of
/// others. `property` returns whether it could check the scene. It must check three scenes in five.
fn for_all<S: Strategy>(scenes: &S, property: impl Fn(S::Value) -> Result<bool, TestCaseError>) {
    let config = Config { failure_persistence: None, max_shrink_iters: 3000, ..Config::default() };
    let mut runner = match std::env::var_os("PROPTEST_CASES") {
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        Some(_) => TestRunner::new(config),
    };
    let (tried, told) = (Cell::new(0), Cell::new(0));
    let result = runner.run(scenes, |scene| {
        tried.set(tried.get() + 1);
        told.set(told.get() + u32::from(property(scene)?));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    println!("{} of {} scenes were checked", told.get(), tried.get());
    assert!(told.get() * 5 >= tried.get() * 3, "only {} of {} scenes were checked", told.get(), tried.get());
}

/// The argv. `None` if the policy is refused.
fn argv(scene: &Scene, stage: &Stage, request: &Request) -> Option<Argv> {
    let (compiled, diagnostics) = stage.compile(scene, request);
    (!diagnostics.has_errors()).then(|| support::argv(&compiled))
}

/// The arguments of the argv. They name the guard's plan by the hash of its content.
fn words(scene: &Scene, stage: &Stage, request: &Request) -> Option<Vec<OsString>> {
    argv(scene, stage, request).map(|argv| argv.words())
}

fn read(argv: &Argv) -> Result<Model, TestCaseError> {
    support::read(argv).map_err(|error| TestCaseError::fail(format!("{error}: {:?}", argv.words())))
}

/// All paths of the tree, and in each directory one that does not exist.
fn places(stage: &Stage) -> Vec<PathBuf> {
    let paths = stage.paths();
    let missing: Vec<PathBuf> =
        paths.iter().filter(|(_, kind)| !kind.is_symlink()).map(|(p, _)| p.join("zz")).collect();
    paths.into_iter().map(|(path, _)| path).chain(missing).collect()
}

// SPEC O2
#[test]
fn the_argv_means_what_the_specification_says_at_every_path() {
    for_all(&generate::scene(), |scene| means_what_the_specification_says(&scene));
}

/// Compares the argv with the naive reading at every path. Returns `false` if that reading refuses
/// the policy, or leaves open whether it is refused.
fn means_what_the_specification_says(scene: &Scene) -> Result<bool, TestCaseError> {
    let stage = scene.build();
    let (compiled, diagnostics) = stage.compile(scene, &scene.request());
    let naive = match naive::judge(scene, &stage) {
        Verdict::Open => return Ok(false),
        Verdict::Refused(why) => {
            prop_assert!(diagnostics.has_errors(), "{why}, but the compiler accepts it");
            return Ok(false);
        }
        Verdict::Policy(naive) => naive,
    };
    prop_assert!(!diagnostics.has_errors(), "refused: {diagnostics:?}");
    let argv = argv(scene, &stage, &scene.request()).unwrap();
    let (words, model) = (argv.words(), read(&argv)?);
    let created = compiled.resolution.create.iter().map(|path| path.as_path().to_path_buf());
    // Of the presets, the naive reading has only the rules that name a path of these scenes.
    let blocked = compiled.resolution.placeholders.iter().filter(|one| one.layer != LayerKind::Preset);
    let blocked = blocked.map(|one| one.path.as_path().to_path_buf());
    for path in places(&stage).into_iter().chain(created).chain(blocked) {
        let (is, ought) = (class(&model, &path), naive.class(&path));
        let agreed = is.means(ought, &path, scene) || (naive.is_at_least_ro(&path) && is.of_the_host() < 2);
        prop_assert!(agreed, "{path:?} is {is:?} and ought to be {ought:?}\n{words:?}");
    }
    Ok(true)
}
