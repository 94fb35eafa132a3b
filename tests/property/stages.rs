//! The argv must mean the same, whether bwrap or the guard makes a mount.

use agent_sandbox::host::session::Session;
use proptest::prelude::*;

use crate::access::class;
use crate::{for_all, generate, places, support};

// SPEC B14, C1
#[test]
fn with_and_without_a_guard_and_with_overflow_the_argv_means_the_same() {
    let overflowed = std::cell::Cell::new(0);
    for_all(&generate::scene(), |scene| {
        let stage = scene.build();
        let guarded = support::session(scene.cwd.to_str().unwrap());
        let alone = Session { executable: None, ..guarded.clone() };
        let (by_bwrap, diagnostics) = stage.compile_as(&alone, &scene.request());
        let (mut by_both, same) = stage.compile_as(&guarded, &scene.request());
        prop_assert_eq!(&diagnostics, &same);
        if diagnostics.has_errors() {
            return Ok(false);
        }
        let with_guard = support::model(&by_both);
        by_both.plan.most_in_argv = 1;
        let steps = support::argv(&by_both).guard.unwrap().plan.overflow.len();
        overflowed.set(overflowed.get() + steps);
        let (by_bwrap, with_overflow) = (support::model(&by_bwrap), support::model(&by_both));
        for path in places(&stage) {
            let classes = [&by_bwrap, &with_guard, &with_overflow].map(|model| class(model, &path));
            let [bwrap, guard, overflow] = classes;
            prop_assert!(bwrap.means(guard, &path, &scene), "{path:?} is {guard:?}, and {bwrap:?} by bwrap alone");
            prop_assert!(
                bwrap.means(overflow, &path, &scene),
                "{path:?} is {overflow:?} with overflow, and {bwrap:?} without"
            );
        }
        Ok(true)
    });
    assert!(overflowed.get() > 100, "the guard made too few mounts: {}", overflowed.get());
}
