//! The answers of `explain` agree with the meaning of the argv.

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use agent_sandbox::audit::effective_access::EffectiveAccess as Effective;
use agent_sandbox::audit::explain::{Durability, Explainer, Explanation, LoserReason, MountStep};
use agent_sandbox::audit::show::show;
use agent_sandbox::compile::lower::Argv;
use agent_sandbox::compile::resolve::FutureGlobs;
use agent_sandbox::host::Host;
use agent_sandbox::host::session::Session;
use agent_sandbox::model::{Model, ModelView as View};
use agent_sandbox::policy::path::AbsPath;
use agent_sandbox::policy::rule::Exactness;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::support::effective::agreeing;
use crate::{for_all, generate, places, support};

// SPEC X1, X5, X6
#[test]
fn explanations_agree_with_the_model_of_the_argv() {
    let (asked, lost) = (Cell::new(0), Cell::new(0));
    for_all(&(generate::scene(), any::<bool>()), |(scene, guard)| {
        let stage = scene.build();
        let host = Host::at(stage.root.path());
        let alone = support::session(scene.cwd.to_str().unwrap());
        let executable = guard.then(|| support::abs("/usr/bin/agent-sandbox"));
        let session = Session { executable, ..alone };
        let (compiled, diagnostics) = stage.compile_as(&session, &scene.request());
        if diagnostics.has_errors() {
            return Ok(false);
        }
        let (argv, model) = (support::argv(&compiled), support::model(&compiled));
        let explainer = Explainer::new(&host, &compiled);
        for path in places(&stage) {
            let Ok(explanation) = explainer.explain(path.as_os_str()) else {
                prop_assert!(cannot_be_asked(&host, &path), "{path:?} is not explained");
                continue;
            };
            let is_link = stage.real(&path).is_symlink();
            prop_assert!(is_link || explanation.path.as_path() == path, "{path:?} is {:?}", explanation.path);
            assert_agrees(&explanation, &model)?;
            assert_args_are_in_the_argv(&explanation, &argv)?;
            assert_movable_is_what_can_be_renamed(&explanation, &model, &host)?;
            asked.set(asked.get() + 1);
            let is_rival = |why: LoserReason| {
                !matches!(why, LoserReason::NextInLine | LoserReason::LessSpecific | LoserReason::Missing)
            };
            lost.set(lost.get() + explanation.losers.iter().filter(|loser| is_rival(loser.why)).count());
        }
        for node in show(&compiled).paths {
            let agreed = agreeing(&model, &node.path).contains(&node.access);
            prop_assert!(agreed, "{} is shown as {}", node.path, node.access);
        }
        Ok(true)
    });
    assert!(asked.get() > 1000 && lost.get() > 100, "{} asked, {} rules lost", asked.get(), lost.get());
}

fn assert_agrees(explanation: &Explanation, model: &Model) -> Result<(), TestCaseError> {
    let Explanation { path, access, rule, .. } = explanation;
    let said = agreeing(model, path);
    prop_assert!(said.contains(access), "{path} is explained as {access}, and the model says {said:?}");
    // A rule that hides a path in a private place decides, but the path stays private.
    let is_private = matches!(access, Effective::Private | Effective::PrivateRo);
    prop_assert!(rule.access == *access || is_private, "{path} is {access} by {rule:?}");
    prop_assert!(path.is_within(&rule.at), "{path} is decided at {}", rule.at);
    Ok(())
}

fn assert_args_are_in_the_argv(explanation: &Explanation, argv: &Argv) -> Result<(), TestCaseError> {
    prop_assert!(!explanation.mounts.is_empty(), "nothing mounts {}", explanation.path);
    for step in explanation.mounts.iter().chain(&explanation.pins) {
        let is_there = match step {
            MountStep::Bwrap(words) => {
                argv.operations.iter().any(|operation| operation.words.iter().eq(words.iter().map(|word| &word.0)))
            }
            MountStep::Guard(tightening) => argv.guard.as_ref().unwrap().plan.overflow.contains(tightening),
            MountStep::Link(link) => argv.guard.as_ref().unwrap().plan.links.contains(link),
        };
        prop_assert!(is_there, "{step:?} is no part of the argv");
    }
    Ok(())
}

/// SPEC B12: the directories that `explain` calls movable are those that can be renamed.
fn assert_movable_is_what_can_be_renamed(
    explanation: &Explanation,
    model: &Model,
    host: &Host,
) -> Result<(), TestCaseError> {
    if !matches!(explanation.rule.access, Effective::Ro | Effective::Exclude)
        || explanation.access == Effective::Private
    {
        return Ok(());
    }
    let said = explanation.durability.iter().find_map(|one| match one {
        Durability::Movable { directories } => Some(directories.clone()),
        _ => None,
    });
    let mut movable: Vec<_> = explanation.rule.at.ancestors().skip(1).filter(|at| model.can_rename(at)).collect();
    movable.reverse();
    // A path that is missing on the host does not count.
    movable.retain(|at| host.exists(at).unwrap());
    // A directory that only the sandbox has does not count either: renames do not reach the host.
    movable.retain(|at| matches!(model.view(at), View::Host { .. }));
    prop_assert_eq!(said.unwrap_or_default(), movable, "{}", explanation.path);
    Ok(())
}

/// Compares the answers about patterns with the results of the walk, for existing paths.
#[test]
fn patterns_match_the_same_paths_as_the_walk() {
    let seen = Cell::new(0);
    for_all(&generate::scene(), |scene| {
        let stage = scene.build();
        let host = Host::at(stage.root.path());
        let (compiled, diagnostics) = stage.compile(&scene, &scene.request());
        if diagnostics.has_errors() {
            return Ok(false);
        }
        let (resolution, decisions) = (&compiled.resolution, &compiled.decisions);
        let patterns = FutureGlobs::of(&host, &compiled.layers.project, &compiled.policy.rules);
        let globs = || resolution.matches.iter().filter(|m| m.exactness == Exactness::Glob && m.alias_of.is_none());
        for found in globs().filter(|found| !may_be_a_literal_name(&found.matched)) {
            let said = patterns.matching(&found.matched);
            let is_said = said.iter().any(|one| one.rule.origin == found.rule.origin && one.at == found.matched);
            prop_assert!(is_said, "{:?} matches {}", found.rule.text, found.matched);
            seen.set(seen.get() + 1);
        }
        for (path, _) in stage.paths() {
            let path = support::abs(&path);
            for one in patterns.matching(&path).into_iter().filter(|one| one.at == path) {
                let rule = one.rule;
                // The walk does not enter a hidden folder in which no path is open.
                if !decisions.reaches(one.fixed_prefix, &path) {
                    continue;
                }
                let is_found = globs().any(|found| found.rule.origin == rule.origin && found.matched == path);
                let is_passed_by = resolution.missing.iter().chain(&resolution.left_alone);
                let is_passed_by = is_passed_by.into_iter().any(|(by, at)| by.origin == rule.origin && *at == path);
                prop_assert!(is_found || is_passed_by, "{:?} does not match {path}", rule.text);
            }
        }
        Ok(true)
    });
    assert!(seen.get() > 100, "only {} matches", seen.get());
}

/// Whether a rule may have found the path as a literal name, not as a match (SPEC G4).
fn may_be_a_literal_name(path: &AbsPath) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| b"*?[]{}\\".contains(byte))
}

/// Whether `explain` refuses the path: it is below a file, or in a circle of links.
fn cannot_be_asked(host: &Host, path: &Path) -> bool {
    match host.resolve(path) {
        Err(_) => true,
        Ok(resolved) => resolved.kind.is_none(),
    }
}
