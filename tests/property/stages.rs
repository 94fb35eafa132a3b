//! Who makes a mount, bwrap or the second stage after it, must not change what it means.

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
