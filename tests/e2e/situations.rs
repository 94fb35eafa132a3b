//! The situations in which agent-sandbox runs: as a user and as root, in and outside `/tmp`. A
//! check is a function of a [`Place`], and `everywhere!(check)` makes a test of it for each
//! situation.

use std::process::Command;

use crate::support::{Place, require_bwrap, stderr, stdout};

/// Runs `check(&Place)` in all four situations.
macro_rules! everywhere {
    ($($check:ident),+ $(,)?) => { $(
        mod $check {
            #[test]
            fn as_user_in_tmp() {
                crate::situations::as_user(crate::support::Place::in_tmp, super::$check);
            }

            #[test]
            fn as_user_outside_tmp() {
                crate::situations::as_user(crate::support::Place::outside_tmp, super::$check);
            }

            #[test]
            fn as_root_in_tmp() {
                let name = concat!(module_path!(), "::as_root_in_tmp");
                crate::situations::as_root(name, crate::support::Place::root_in_tmp, super::$check);
            }

            #[test]
            fn as_root_outside_tmp() {
                let name = concat!(module_path!(), "::as_root_outside_tmp");
                crate::situations::as_root(name, crate::support::Place::root_outside_tmp, super::$check);
            }
        }
    )+ };
}

/// Runs `check(&Place)` as a user and as root, both outside `/tmp`.
macro_rules! for_both {
    ($($check:ident),+ $(,)?) => { $(
        mod $check {
            #[test]
            fn as_user() {
                crate::situations::as_user(crate::support::Place::outside_tmp, super::$check);
            }

            #[test]
            fn as_root() {
                let name = concat!(module_path!(), "::as_root");
                crate::situations::as_root(name, crate::support::Place::root_outside_tmp, super::$check);
            }
        }
    )+ };
}

/// Runs `check(&Place)` as root alone.
macro_rules! for_root {
    ($($check:ident),+ $(,)?) => { $(
        mod $check {
            #[test]
            fn as_root() {
                let name = concat!(module_path!(), "::as_root");
                crate::situations::as_root(name, crate::support::Place::root_in_tmp, super::$check);
            }
        }
    )+ };
}

pub fn as_user(place: fn() -> Place, check: fn(&Place)) {
    require_bwrap();
    check(&place());
}

/// Runs the check as root. If the tests run as another user, the test named `name` runs once more
/// as root of a user namespace, because a skipped test would count as passed.
pub fn as_root(name: &str, place: fn() -> Place, check: fn(&Place)) {
    require_bwrap();
    if rustix::process::getuid().is_root() {
        return check(&place());
    }
    let (_crate, name) = name.split_once("::").unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .output()
        .expect("these tests need unshare: run scripts/test, which installs util-linux");
    assert!(
        output.status.success() && stdout(&output).contains("1 passed"),
        "as root in a user namespace (if this machine has none, run the tests as root):\n{}{}",
        stdout(&output),
        stderr(&output)
    );
}
