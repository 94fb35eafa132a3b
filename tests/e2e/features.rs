//! A run refuses a bwrap that is too old, or does without its missing flags. It asks bwrap for its
//! flags only if needed.

use std::fs;
use std::process::{Command, Output};

use crate::sandbox::{failed, policy, sandbox, succeeded, write};
use crate::support::{Place, stderr, write_program};

everywhere!(a_bwrap_without_perms_is_refused,);

for_both!(
    without_disable_userns_there_are_no_user_namespaces_either,
    a_guarded_start_asks_bwrap_nothing,
    without_a_guard_each_start_asks_once,
    in_a_container_a_start_without_a_guard_is_tried_first,
);

/// Installs a wrapper of the real bwrap that neither accepts these flags nor names them in its
/// help. It appends its first argument to the file `calls`.
pub fn bwrap_without(place: &Place, flags: &[&str]) {
    let cases = if flags.is_empty() { "--none".to_owned() } else { flags.join("|") };
    let lines: String = flags.iter().map(|flag| format!("/^ *{flag} /d;")).collect();
    let script = format!(
        "#!/bin/sh
real=$(PATH=/usr/local/bin:/usr/bin:/bin command -v bwrap)
echo \"$1\" >>{calls}
[ \"$1\" != --help ] || {{ \"$real\" --help | sed '{lines}'; exit; }}
for word; do
  case $word in
    {cases}) echo \"bwrap: Unknown option $word\" >&2; exit 1 ;;
    --) break ;;
  esac
done
exec \"$real\" \"$@\"
",
        calls = place.path().join("calls").display(),
    );
    write_program(&place.path().join("bin/bwrap"), &script);
    fs::write(place.path().join("calls"), "").unwrap();
    place.give_away();
}

pub fn with_it(place: &Place) -> Command {
    let mut command = sandbox(place);
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", place.path().join("bin").display()));
    command
}

/// The first argument of each call of the wrapper so far.
fn calls(place: &Place) -> Vec<String> {
    fs::read_to_string(place.path().join("calls")).unwrap().lines().map(str::to_owned).collect()
}

/// A supervised start with the guard fails first and is then explained. All other forms ask bwrap
/// before they start anything, because nothing could explain their failure afterwards.
// SPEC S14
fn a_bwrap_without_perms_is_refused(place: &Place) {
    policy(place, "exclude = ['hidden']");
    write(place, "hidden/file", "host");
    bwrap_without(place, &["--perms"]);
    for flags in [&["--exec"][..], &["--no-guard"], &["--no-guard", "--print-args"], &[]] {
        assert!(!calls(place).contains(&"--die-with-parent".to_owned()), "something was started");
        let output = with_it(place).args(flags).args(["--", "echo", "x"]).output().unwrap();
        failed(&output, 125, "error[bwrap-too-old]");
        assert!(stderr(&output).contains("does not have `--perms`"), "{}", stderr(&output));
    }
}

// SPEC S14
fn without_disable_userns_there_are_no_user_namespaces_either(place: &Place) {
    policy(place, "");
    bwrap_without(place, &["--disable-userns", "--assert-userns-disabled"]);
    for flags in [&["-q"][..], &["-q", "--no-guard"]] {
        let script = "unshare --user true 2>/dev/null || echo refused";
        let said = with_it(place).args(flags).args(["--", "sh", "-c", script]).output().unwrap();
        assert_eq!(succeeded(said), "refused\n");
    }
}

// SPEC S14
fn a_guarded_start_asks_bwrap_nothing(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    succeeded(with_it(place).args(["--print-args", "--", "true"]).output().unwrap());
    succeeded(with_it(place).args(["--", "true"]).output().unwrap());
    assert_eq!(calls(place), ["--die-with-parent"]);
}

// SPEC S14
fn without_a_guard_each_start_asks_once(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    for _ in 0..2 {
        succeeded(with_it(place).args(["-q", "--no-guard", "--", "true"]).output().unwrap());
    }
    let mut called = calls(place);
    called.retain(|first| first != "--unshare-all");
    assert_eq!(called, ["--help", "--die-with-parent", "--help", "--die-with-parent"]);
}

// SPEC S14
fn in_a_container_a_start_without_a_guard_is_tried_first(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    let run = || -> Output {
        with_it(place).env("container", "test").args(["-q", "--no-guard", "--", "true"]).output().unwrap()
    };
    succeeded(run());
    assert_eq!(calls(place), ["--help", "--unshare-all", "--die-with-parent"]);
    let real = fs::read_to_string(place.path().join("bin/bwrap")).unwrap();
    let broken =
        real.replace("for word", "[ \"$1\" != --unshare-all ] || { echo 'bwrap: broken' >&2; exit 1; }\nfor word");
    write_program(&place.path().join("bin/bwrap"), &broken);
    place.give_away();
    failed(&run(), 125, "error[sandbox-unavailable]: bwrap cannot make a sandbox here: broken");
}
