//! Placeholders are kept from one run to the next: nothing is made and nothing is freed, and nothing of it is seen.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use crate::sandbox::{journals, policy, run, runs, sandbox, shell, succeeded};
use crate::support::{Place, binary, stderr, stdout};

const BLOCKED: &str = "ro = [{ path = '.mcp.json', if-missing = 'block' }, { path = 'hooks/', if-missing = 'block' }]";

/// Which they are, and when they were made: numbers come back.
const WHICH: &str = "stat -c '%i %w %a' .mcp.json hooks";

fn parked(place: &Place) -> PathBuf {
    place.home().join(".local/state/agent-sandbox/parked")
}

fn kept(place: &Place) -> usize {
    fs::read_dir(parked(place)).map_or(0, Iterator::count)
}

/// What there is in the project besides the policy.
fn project(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.project()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name != ".agent-sandbox.toml").collect();
    names.sort();
    names
}

#[test]
fn the_second_run_makes_nothing() {
    for place in [Place::outside_tmp, Place::in_tmp] {
        crate::situations::as_user(place, |place| {
            policy(place, BLOCKED);
            let first = shell(place, WHICH);
            assert!(first.lines().all(|line| line.ends_with("644") || line.ends_with("755")), "{first}");
            let journal =
                || fs::metadata(runs(place).join("spare")).map(|found| (found.ino(), found.created().unwrap()));
            let before = journal().unwrap();
            for _ in 0..3 {
                assert_eq!((project(place), kept(place), journals(place)), (vec![], 2, 0));
                assert_eq!(shell(place, WHICH), first);
                assert_eq!(journal().unwrap(), before);
            }
            assert_eq!(fs::metadata(parked(place)).unwrap().mode() & 0o7777, 0o700);
        });
    }
}

/// A mode that the caller does not want for others, whatever it was before.
#[test]
fn each_run_has_the_modes_of_its_own_umask() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        for (umask, modes) in
            [("022", "644\n755\n"), ("077", "600\n700\n"), ("0777", "600\n700\n"), ("002", "644\n755\n")]
        {
            let script = format!("umask {umask} && exec {} -- stat -c %a .mcp.json hooks", binary().display());
            assert_eq!(succeeded(place.command("sh").args(["-c", &script]).output().unwrap()), modes, "{umask}");
            assert_eq!((project(place), kept(place)), (vec![], 2), "{umask}");
        }
    });
}

#[test]
fn what_the_host_puts_into_it_stays_where_it_was_put() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        succeeded(run(place, &["--", "true"]));
        let script = "touch ready; while [ ! -e go ]; do sleep 0.01; done";
        let mut child = sandbox(place).args(["--", "sh", "-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        while !place.project().join("ready").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let hooks = place.project().join("hooks");
        fs::write(hooks.join("mine"), "mine").unwrap();
        fs::write(place.project().join("go"), "").unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(fs::read(hooks.join("mine")).unwrap(), b"mine");
        assert_eq!(fs::metadata(&hooks).unwrap().mode() & 0o7777, 0o755);
        assert_eq!((project(place), kept(place)), (["go", "hooks", "ready"].map(String::from).to_vec(), 1));
    });
}

/// What one project's command may still have open does not come to stand in another project.
#[test]
fn nothing_goes_from_one_project_to_another() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        let other = place.home().join("code/other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join(".agent-sandbox.toml"), "").unwrap();
        place.give_away();
        let there = || succeeded(sandbox(place).current_dir(&other).args(["--", "sh", "-c", WHICH]).output().unwrap());
        let here = shell(place, WHICH);
        let first = there();
        assert!(first.lines().all(|line| !here.contains(line)), "{here}{first}");
        assert_eq!((shell(place, WHICH), there(), kept(place)), (here, first, 4));
    });
}

#[test]
fn what_somebody_has_changed_in_between_is_not_used() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        let first = shell(place, WHICH);
        let kept = |ends: &str| {
            let mut all = fs::read_dir(parked(place)).unwrap().map(|entry| entry.unwrap().path());
            all.find(|path| path.to_str().unwrap().ends_with(ends)).unwrap()
        };
        fs::write(kept("-hooks").join("pre-commit"), "planted").unwrap();
        fs::remove_file(kept("-.mcp.json")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", kept("-hooks").with_file_name("x")).unwrap();
        let file = kept("-hooks").to_str().unwrap().replace("-hooks", "-.mcp.json");
        fs::rename(kept("x"), &file).unwrap();
        place.give_away();
        let second = shell(place, WHICH);
        assert!(second.lines().all(|line| !first.contains(line)), "{first}{second}");
        assert_eq!(shell(place, "cat .mcp.json; ls -A hooks"), "{}\n");
        assert_eq!(project(place), Vec::<String>::new());
    });
}

// Modes do not stop root from putting something into what is on its way.
for_root!(root_keeps_nothing);

fn root_keeps_nothing(place: &Place) {
    policy(place, BLOCKED);
    for _ in 0..2 {
        succeeded(run(place, &["--", "true"]));
        assert_eq!((project(place), journals(place)), (vec![], 0));
        assert!(!parked(place).exists());
    }
}

#[test]
fn a_run_that_leaves_nothing_keeps_nothing_and_takes_nothing() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        succeeded(run(place, &["verify"]));
        assert!(!parked(place).exists());
        let first = shell(place, WHICH);
        succeeded(run(place, &["verify"]));
        assert_eq!((kept(place), shell(place, WHICH)), (2, first));
    });
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_after_a_sweep_and_no_more_than_is_kept() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        let begun = SystemTime::now();
        succeeded(run(place, &["--", "true"]));
        let whole = begun.elapsed().unwrap();
        for round in 0..80 {
            let mut child = sandbox(place).args(["--", "true"]).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole * round / 70);
            let _ = child.kill();
            child.wait().unwrap();
            crate::verify::wait_until_nobody_is_left(place);
            if round % 2 == 0 {
                let swept = place.agent_sandbox().arg("sweep").output().unwrap();
                assert!(swept.status.success() && !stdout(&swept).contains("left"), "{}", stdout(&swept));
                assert_eq!((project(place), journals(place)), (vec![], 0), "{round}");
            }
            assert!(kept(place) <= 3, "{round}");
        }
        let last = run(place, &["--", "sh", "-c", "cat .mcp.json; ls -A hooks; stat -c %a .mcp.json hooks"]);
        assert_eq!((stderr(&last), succeeded(last)), (String::new(), "{}\n644\n755\n".to_owned()));
        assert_eq!((project(place), journals(place), kept(place)), (vec![], 0, 2));
    });
}

#[test]
fn many_runs_at_once_find_what_they_need() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        let first = shell(place, WHICH);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..5).for_each(|_| assert_eq!(shell(place, WHICH), first)));
            }
        });
        assert_eq!((project(place), journals(place), kept(place)), (vec![], 0, 2));
    });
}

/// Who can open a file to read it can lock it, and would let every start and end of others wait.
#[test]
fn the_lock_cannot_be_taken_from_within() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        policy(place, BLOCKED);
        let lock = runs(place).join("lock");
        // As an older version has left it.
        succeeded(run(place, &["--", "true"]));
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
        succeeded(run(place, &["--", "true"]));
        assert_eq!(fs::metadata(&lock).unwrap().mode() & 0o7777, 0o200);
        let script = "for how in '<' '>>' '<>'; do (eval \"exec 5$how$0\") 2>/dev/null && echo opened; done; chmod u+r $0 2>/dev/null && echo changed; echo tried";
        let said = succeeded(sandbox(place).args(["--", "sh", "-c", script]).arg(&lock).output().unwrap());
        assert_eq!(said, "tried\n");
    });
}
