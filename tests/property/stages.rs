//! Who makes a mount, bwrap or the second stage after it, must not change what it means.

use agent_sandbox::diagnostic::Diagnostics;
use agent_sandbox::guard_plan::GuardMount;
use agent_sandbox::lower::{Engine, Features};
use agent_sandbox::model::Model;
use agent_sandbox::session::Session;
use proptest::prelude::*;

use crate::access::class;
use crate::{for_all, generate, places, support};

#[test]
fn with_and_without_the_second_stage_the_argv_means_the_same() {
    let delegated = std::cell::Cell::new(0);
    for_all(&generate::scene(), |scene| {
        let stage = scene.build();
        let alone = support::session(scene.cwd.to_str().unwrap());
        let guarded = Session { executable: Some(support::abs("/usr/bin/agent-sandbox")), ..alone.clone() };
        let (by_bwrap, diagnostics) = stage.compile_as(&alone, &scene.request());
        let (by_both, same) = stage.compile_as(&guarded, &scene.request());
        prop_assert_eq!(&diagnostics, &same);
        if diagnostics.has_errors() {
            return Ok(false);
        }
        let mounts = support::argv(&by_both, &guarded).guard.unwrap().plan.mounts.len();
        delegated.set(delegated.get() + mounts);
        let (by_bwrap, by_both) = (support::model(&by_bwrap, &alone), support::model(&by_both, &guarded));
        for path in places(&stage) {
            let (bwrap, both) = (class(&by_bwrap, &path), class(&by_both, &path));
            prop_assert!(bwrap.means(both, &path), "{path:?} is {both:?}, and {bwrap:?} by bwrap alone");
        }
        Ok(true)
    });
    assert!(delegated.get() > 100, "the second stage had hardly anything to do: {}", delegated.get());
}

/// What an old bwrap cannot do is the second stage's.
#[test]
fn without_perms_the_argv_means_the_same() {
    let delegated = std::cell::Cell::new(0);
    for_all(&generate::scene(), |scene| {
        let stage = scene.build();
        let alone = support::session(scene.cwd.to_str().unwrap());
        let guarded = Session { executable: Some(support::abs("/usr/bin/agent-sandbox")), ..alone };
        let (compiled, diagnostics) = stage.compile_as(&guarded, &scene.request());
        if diagnostics.has_errors() {
            return Ok(false);
        }
        let mut refused = Diagnostics::default();
        let old = Engine { features: Features::all().without("--perms"), ..support::engine() };
        let argv = compiled.argv(&guarded, &old, &["true".into()], &mut refused);
        prop_assert!(!refused.has_errors());
        let guard = argv.guard.as_ref().unwrap();
        let is_sealed = |mount: &&GuardMount| matches!(mount, GuardMount::Seal(_) | GuardMount::Hide(_));
        // Two that every sandbox has.
        delegated.set(delegated.get() + guard.plan.mounts.iter().filter(is_sealed).count() - 2);
        let descriptors = [(guard.descriptor, guard.plan.to_text().into_bytes())].into();
        let by_old = Model::read_whole(&argv.words(), &descriptors, |_| true).unwrap();
        let by_new = support::model(&compiled, &guarded);
        for path in places(&stage) {
            let path = support::abs(path);
            prop_assert_eq!(by_old.view(&path), by_new.view(&path), "{}", path);
        }
        Ok(true)
    });
    assert!(delegated.get() > 3, "hardly any mask had to be sealed: {}", delegated.get());
}
