//! What bwrap lacks is done otherwise, or said; and what is noted about a bwrap is believed only where it can be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::sandbox::{failed, policy, sandbox, succeeded, write};
use crate::support::{Place, stderr, write_program};

everywhere!(a_bwrap_without_perms_is_refused,);

for_both!(
    without_disable_userns_there_are_no_user_namespaces_either,
    a_bwrap_is_asked_once_and_again_when_it_has_changed,
    where_nothing_can_be_noted_each_start_asks,
    printing_notes_nothing,
    a_trial_that_succeeded_is_not_repeated,
    what_others_could_have_noted_is_not_believed,
    a_damaged_note_is_replaced,
    notes_cannot_be_written_inside,
);

/// A bwrap that is the real one, but for these flags: neither in its help nor understood. What it is called with first goes to `calls`.
fn bwrap_without(place: &Place, flags: &[&str]) {
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

fn with_it(place: &Place) -> Command {
    let mut command = sandbox(place);
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", place.path().join("bin").display()));
    command
}

/// How often it was called with this as the first word.
fn calls(place: &Place, first: &str) -> usize {
    fs::read_to_string(place.path().join("calls")).unwrap().lines().filter(|line| *line == first).count()
}

fn note(place: &Place) -> PathBuf {
    place.home().join(".local/state/agent-sandbox/probes/bwrap.json")
}

/// Which flags of the wrapper are believed to be lacking.
fn believed(place: &Place) -> String {
    let output = with_it(place).args(["--debug", "--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    said.lines().find_map(|line| line.strip_prefix("bwrap's flags: ")).unwrap().to_owned()
}

fn a_bwrap_without_perms_is_refused(place: &Place) {
    policy(place, "exclude = ['hidden']");
    write(place, "hidden/file", "host");
    bwrap_without(place, &["--perms"]);
    for flags in [&[][..], &["--print-args"], &["--no-guard"], &["--no-guard", "--print-args"]] {
        let output = with_it(place).args(flags).args(["--", "echo", "x"]).output().unwrap();
        failed(&output, 125, "error[bwrap-too-old]");
        assert!(stderr(&output).contains("does not have `--perms`"), "{}", stderr(&output));
    }
    assert_eq!(calls(place, "--die-with-parent"), 0, "nothing was started");
}

fn without_disable_userns_there_are_no_user_namespaces_either(place: &Place) {
    policy(place, "");
    bwrap_without(place, &["--disable-userns", "--assert-userns-disabled"]);
    for flags in [&["-q"][..], &["-q", "--no-guard"]] {
        let script = "unshare --user true 2>/dev/null || echo refused";
        let said = with_it(place).args(flags).args(["--", "sh", "-c", script]).output().unwrap();
        assert_eq!(succeeded(said), "refused\n");
    }
}

fn a_bwrap_is_asked_once_and_again_when_it_has_changed(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    for _ in 0..3 {
        assert_eq!(believed(place), "all");
    }
    assert_eq!(calls(place, "--help"), 1);
    bwrap_without(place, &["--disable-userns"]);
    for _ in 0..3 {
        assert_eq!(believed(place), "all but --disable-userns");
    }
    assert_eq!(calls(place, "--help"), 1);
    // The same content, and the same times, but another file.
    let (old, new) = (place.path().join("bin/bwrap"), place.path().join("bin/new"));
    succeeded(place.command("cp").arg("-p").args([&old, &new]).output().unwrap());
    fs::rename(new, old).unwrap();
    assert_eq!((believed(place), calls(place, "--help")), ("all but --disable-userns".to_owned(), 2));
}

fn where_nothing_can_be_noted_each_start_asks(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    for _ in 0..2 {
        let output = with_it(place).env("XDG_STATE_HOME", "/proc/1").args(["--", "echo", "x"]).output().unwrap();
        assert_eq!(succeeded(output), "x\n");
    }
    assert_eq!(calls(place, "--help"), 2);
}

fn printing_notes_nothing(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    succeeded(with_it(place).args(["--print-args", "--", "true"]).output().unwrap());
    assert!(!note(place).exists());
}

/// Called for in a container, by who has no guard to find out afterwards.
fn a_trial_that_succeeded_is_not_repeated(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    let run = || -> Output {
        with_it(place).env("container", "test").args(["-q", "--no-guard", "--", "true"]).output().unwrap()
    };
    for _ in 0..3 {
        succeeded(run());
    }
    assert_eq!(calls(place, "--unshare-all"), 1);
    // Under other circumstances it is tried again.
    let text = fs::read_to_string(note(place)).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(boot.trim()), "{text}");
    fs::write(note(place), text.replace(boot.trim(), "another")).unwrap();
    succeeded(run());
    assert_eq!((calls(place, "--unshare-all"), calls(place, "--help")), (2, 1));
    // And what is noted keeps nobody from failing.
    let real = fs::read_to_string(place.path().join("bin/bwrap")).unwrap();
    let broken =
        real.replace("for word", "[ \"$1\" != --unshare-all ] || { echo 'bwrap: broken' >&2; exit 1; }\nfor word");
    write_program(&place.path().join("bin/bwrap"), &broken);
    place.give_away();
    for _ in 0..2 {
        failed(&run(), 125, "error[sandbox-unavailable]: bwrap cannot make a sandbox here: broken");
    }
}

fn what_others_could_have_noted_is_not_believed(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    assert_eq!(believed(place), "all");
    let forge = || {
        let text = fs::read_to_string(note(place)).unwrap();
        fs::write(note(place), text.replace("\"--disable-userns\",", "")).unwrap();
    };
    forge();
    assert_eq!(believed(place), "all but --disable-userns", "what is ours is believed");
    let mode = |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let folders =
        [note(place), note(place).parent().unwrap().to_owned(), place.home().join(".local/state/agent-sandbox")];
    for path in &folders {
        let before = fs::metadata(path).unwrap().permissions().mode();
        for others in [0o020, 0o002] {
            mode(path, before | others);
            assert_eq!(believed(place), "all", "{path:?} {others:o}");
            mode(path, before);
            forge();
        }
    }
    // Nobody but root can give a file away; and root may believe only root.
    if rustix::process::getuid().is_root() {
        for path in &folders {
            assert_eq!(believed(place), "all but --disable-userns");
            lchown(path, Some(54321), None).unwrap();
            let output = with_it(place).args(["--debug", "--", "true"]).output().unwrap();
            assert!(stderr(&output).contains("bwrap's flags: all\n"), "{path:?}: {}", stderr(&output));
            lchown(path, Some(place.uid), None).unwrap();
            forge();
        }
    }
}

fn a_damaged_note_is_replaced(place: &Place) {
    policy(place, "");
    bwrap_without(place, &[]);
    assert_eq!(believed(place), "all");
    let whole = fs::read_to_string(note(place)).unwrap();
    for damaged in ["", "{", "[]", &whole[..whole.len() / 2], &whole.replace("\"version\": 2", "\"version\": 1")] {
        fs::write(note(place), damaged).unwrap();
        assert_eq!(believed(place), "all");
        assert_eq!(fs::read_to_string(note(place)).unwrap(), whole);
    }
    assert_eq!(calls(place, "--help"), 6);
}

fn notes_cannot_be_written_inside(place: &Place) {
    policy(place, "rw = ['~/.local']");
    bwrap_without(place, &[]);
    fs::create_dir_all(place.home().join(".local/state")).unwrap();
    place.give_away();
    let script = "cd ~/.local/state/agent-sandbox; mkdir -p probes; echo x >probes/bwrap.json; chmod 777 . probes; \
                  mv probes x; mv ../agent-sandbox ../x; rm -rf probes; echo tried";
    for _ in 0..2 {
        let output = with_it(place).args(["--", "sh", "-c", script]).output().unwrap();
        assert_eq!(succeeded(output), "tried\n");
        assert!(fs::read_to_string(note(place)).unwrap().starts_with("{\n  \"version\": 2,"));
    }
    assert_eq!(calls(place, "--help"), 1);
}
