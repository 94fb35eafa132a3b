//! bwrap starts before the placeholders are up, and the second stage waits: nothing runs on half a
//! plan, or on none.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::guard::{sandbox_with_bwrap, with_bwrap};
use crate::sandbox::{failed, journals, policy, run, runs, succeeded, write};
use crate::support::{Place, binary, stderr, stdout};

everywhere!(
    the_command_waits_for_the_placeholders,
    a_folder_that_is_swapped_under_bwrap_is_noticed,
    a_supervisor_that_is_killed_before_they_stand_runs_nothing,
    a_plan_that_is_cut_short_runs_nothing,
    what_bwrap_says_of_its_failure_is_heard,
);

for_both!(a_plan_larger_than_any_pipe_is_carried_out);

const BLOCKED: &str = "ro = [{ path = 'folder/hooks/', if-missing = 'block' }]\n";

/// A start that waits before it puts up placeholders, because the test holds the lock. bwrap has
/// come as far as it can.
struct Waiting {
    child: Child,
    lock: File,
}

impl Waiting {
    fn start(place: &Place) -> Self {
        Self::start_with(place, "words=(\"$@\")")
    }

    /// `script`: what a bwrap of ours does before it starts the real one.
    fn start_with(place: &Place, script: &str) -> Self {
        policy(place, BLOCKED);
        write(place, "folder/file", "");
        place.give_away();
        // Makes the lock, and says what is there without it.
        assert_eq!(succeeded(run(place, &["--", "ls", "folder"])), "file\nhooks\n");
        let lock = File::options().write(true).open(runs(place).join("lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let mut command = sandbox_with_bwrap(place, script);
        command.args(["--", "sh", "-c", "ls folder; touch ran"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let waiting = Self { child, lock };
        waiting.until(|| waiting.guard().is_some());
        assert!(!hooks(place).exists());
        waiting
    }

    /// The second stage, which waits for its plan.
    fn guard(&self) -> Option<u32> {
        descendants(self.child.id()).into_iter().find(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.starts_with(format!("{}\0__guard\0", binary().display()).as_bytes())
        })
    }

    fn until(&self, is_so: impl Fn() -> bool) {
        // Two minutes: this only turns a hang into a failure.
        for _ in 0..12_000 {
            if is_so() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("it never came to that");
    }

    fn go_on(self) -> Output {
        drop(self.lock);
        self.child.wait_with_output().unwrap()
    }
}

fn descendants(of: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    children.iter().flat_map(|pid| descendants(*pid)).chain(children.clone()).collect()
}

fn hooks(place: &Place) -> PathBuf {
    place.project().join("folder/hooks")
}

fn ran(place: &Place) -> PathBuf {
    place.project().join("ran")
}

fn the_command_waits_for_the_placeholders(place: &Place) {
    let output = Waiting::start(place).go_on();
    assert_eq!((stderr(&output), succeeded(output)), (String::new(), "file\nhooks\n".to_owned()));
    assert!(ran(place).exists() && !hooks(place).exists());
}

/// For root no folder is closed.
#[test]
fn a_placeholder_that_fails_when_bwrap_has_started_leaves_and_runs_nothing() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        let waiting = Waiting::start(place);
        let inside = waiting.guard().unwrap();
        let folder = place.project().join("folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
        let output = waiting.go_on();
        failed(&output, 125, "error[placeholder-failed]: cannot put a placeholder at `");
        assert_eq!(stderr(&output).matches("error").count(), 1, "bwrap and its second stage say nothing: {output:?}");
        assert!(fs::read(format!("/proc/{inside}/cmdline")).is_err(), "all have ended when we have");
        assert!(!ran(place).exists() && !hooks(place).exists());
        assert_eq!((fs::read_dir(folder).unwrap().count(), journals(place)), (1, 0));
    });
}

/// Which folder a rule means was noted before bwrap began, although most was noted later.
fn a_folder_that_is_swapped_under_bwrap_is_noticed(place: &Place) {
    // Not at a trial start.
    let swap = "case \"$*\" in *die-with-parent*) cd ..; mv project moved; cp -a moved project; cd project;; esac; words=(\"$@\")";
    let waiting = Waiting::start_with(place, swap);
    assert!(place.home().join("code/moved").exists());
    let output = waiting.go_on();
    failed(&output, 125, "/project` is no longer the file or folder that it was");
    assert!(!ran(place).exists());
}

fn a_supervisor_that_is_killed_before_they_stand_runs_nothing(place: &Place) {
    let mut waiting = Waiting::start(place);
    let inside = waiting.guard().unwrap();
    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    waiting.until(|| fs::read(format!("/proc/{inside}/cmdline")).is_err());
    assert!(!ran(place).exists() && !hooks(place).exists());
    drop(waiting.lock);
    assert_eq!(succeeded(run(place, &["--", "ls", "folder"])), "file\nhooks\n");
    assert_eq!(journals(place), 0);
}

fn a_plan_larger_than_any_pipe_is_carried_out(place: &Place) {
    policy(place, "exclude = ['*.secret']\n");
    let name = |number: u32| format!("{number}-{}.secret", "x".repeat(100));
    for number in 0..3000 {
        fs::write(place.project().join(name(number)), "canary").unwrap();
    }
    place.give_away();
    let printed = succeeded(run(place, &["--print-args=json", "--", "true"]));
    assert!(printed.len() > 1 << 20, "{}", printed.len());
    let read = format!("cat {} {} 2>/dev/null; echo ran", name(0), name(2999));
    assert_eq!(succeeded(run(place, &["--", "sh", "-c", &read])), "ran\n");
}

fn a_plan_that_is_cut_short_runs_nothing(place: &Place) {
    policy(place, "");
    let printed = succeeded(run(place, &["--print-args=json", "--", "true"]));
    let plan = serde_json::from_str::<serde_json::Value>(&printed).unwrap()["guard"]["plan"].to_string();
    for length in [0, 1, plan.len() / 2, plan.len() - 1] {
        place.write("plan", &plan[..length]);
        let mut guard = place.command("sh");
        guard
            .args(["-c", "exec \"$1\" __guard 3 -- echo ran 3<\"$2\"", "sh"])
            .arg(binary())
            .arg(place.path().join("plan"));
        let cause =
            "error[guard-refused]: the sandbox is not as planned: the plan of the second stage cannot be read: ";
        failed(&guard.output().unwrap(), 125, cause);
    }
}

/// Although the plan is on its way to nobody.
fn what_bwrap_says_of_its_failure_is_heard(place: &Place) {
    policy(place, BLOCKED);
    write(place, "folder/file", "");
    let fails = "words=(\"$@\"); case \"$*\" in *die-with-parent*) words=(--no-such-flag);; esac";
    let output = with_bwrap(place, fails, &["--", "true"]);
    failed(&output, 125, "error[start-failed]: bwrap ended with the exit code 1 before the command started");
    assert!(stderr(&output).contains("--no-such-flag") && stdout(&output).is_empty(), "{}", stderr(&output));
    assert!(!hooks(place).exists());
}
