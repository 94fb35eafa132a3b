//! Policies with more masks and read-only binds than bwrap's arguments carry (SPEC B14), and starts
//! while another process changes the project.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::sandbox::{Found, failed, policy, probe, run, sandbox, succeeded, write};
use crate::support::{Place, stdout};

everywhere!(masks_and_read_only_binds_beyond_the_limit_hold, directories_beyond_the_limit_stay_in_their_place);

for_both!(
    more_writable_paths_than_bwrap_can_carry_are_an_error,
    a_directory_that_keeps_changing_does_not_stop_a_start,
    more_worktrees_than_open_files_do_not_stop_a_start,
);

const MANY: usize = 120;

// SPEC B14
fn masks_and_read_only_binds_beyond_the_limit_hold(place: &Place) {
    for number in 0..MANY {
        write(place, format!("keys/{number}.pem"), "secret");
        write(place, format!("kept/{number}/file"), "host");
        write(place, format!("boxes/{number}/file"), "secret");
    }
    // bwrap, not the guard, always mounts a read-only folder with a writable path in it,
    // wherever it is in the order.
    write(place, "zone/closed/open/file", "host");
    policy(place, "exclude = ['keys/*.pem', 'boxes/*']\nro = ['kept/*', 'zone/closed']\nrw = ['zone/closed/open']\n");
    let printed: Value = serde_json::from_str(&succeeded(run(place, &["--print-args=json", "--", "true"]))).unwrap();
    let overflow = printed["guard"]["plan"]["overflow"].as_array().unwrap();
    // The policy file is read-only, too, and root's password hashes are hidden.
    assert!(overflow.len() > 3 * MANY - 64, "{overflow:?}");
    let comment = stdout(&sandbox(place).args(["--print-args", "--", "true"]).output().unwrap());
    assert!(comment.contains(&format!("# mounts that the guard makes, as its plan lists them: {}", overflow.len())));
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut expected = Vec::new();
    for number in 0..MANY {
        paths.push(place.project().join(format!("keys/{number}.pem")));
        expected.push(Found::masked_file());
        paths.push(place.project().join(format!("kept/{number}/file")));
        expected.push(Found::ro("file"));
        paths.push(place.project().join(format!("boxes/{number}/file")));
        expected.push(Found::none("EACCES"));
    }
    paths.push(place.project().join("zone/closed/open/file"));
    expected.push(Found::rw("file"));
    paths.push(place.project().join("zone/closed"));
    expected.push(Found::ro("directory"));
    assert_eq!(probe::<&str>(place, &[], &paths), expected);
    // The guard's mounts are locked as bwrap's are.
    let script = "for f in keys/119.pem boxes/99; do chmod 777 $f || mv $f x || rm -rf $f || umount $f || echo held; done 2>/dev/null";
    assert_eq!(succeeded(run(place, &["--", "sh", "-c", script])), "held\nheld\n");
}

/// A command can create any number of directories that a pattern names.
// SPEC B14
fn directories_beyond_the_limit_stay_in_their_place(place: &Place) {
    for number in 0..MANY {
        write(place, format!("pins/{number}/kept"), "host");
        write(place, format!("pins/{number}/free"), "host");
    }
    policy(place, "ro = ['pins/*/kept']\n");
    let script = "for n in 0 7 63 64 99 119; do
        mv pins/$n pins/moved 2>/dev/null && echo moved $n
        echo x >pins/$n/kept 2>/dev/null && echo written $n
        echo x >pins/$n/free && mv pins/$n/free pins/free && mv pins/free pins/$n/free || echo stuck $n
    done; echo done";
    assert_eq!(succeeded(run(place, &["--", "sh", "-c", script])), "done\n");
    assert_eq!(fs::read_to_string(place.project().join("pins/119/free")).unwrap(), "x\n");
    succeeded(run(place, &["verify"]));
}

// SPEC B14
fn more_writable_paths_than_bwrap_can_carry_are_an_error(place: &Place) {
    for number in 0..3000 {
        fs::create_dir_all(place.home().join(format!("many/{number}"))).unwrap();
    }
    policy(place, "");
    place.write("home/.config/agent-sandbox/config.toml", "[filesystem]\nrw = ['~/many/*']\n");
    place.give_away();
    let output = sandbox(place).args(["--", "true"]).output().unwrap();
    failed(&output, 125, "error[too-many-words]");
    failed(&output, 125, "config.toml:2:");
}

/// A program of the user creates and removes a file in the project all the time, as a database does
/// with its journal.
// SPEC C14
fn a_directory_that_keeps_changing_does_not_stop_a_start(place: &Place) {
    write(place, ".env", "secret");
    policy(place, "exclude = ['.env']\n");
    let journal = place.project().join("journal");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::write(&journal, "").unwrap();
                fs::remove_file(&journal).unwrap();
            }
        });
        let outputs: Vec<_> =
            (0..5).map(|_| run(place, &["--", "sh", "-c", "cat .env 2>/dev/null || echo hidden"])).collect();
        is_over.store(true, Ordering::Relaxed);
        for output in outputs {
            assert_eq!(succeeded(output), "hidden\n");
        }
    });
}

/// A command can plant any number of worktrees, and the supervisor needs a descriptor for each
/// placeholder.
// SPEC S8
fn more_worktrees_than_open_files_do_not_stop_a_start(place: &Place) {
    const LIMIT: usize = 256;
    let project = place.project();
    assert!(place.command("git").args(["init", "-q"]).current_dir(&project).status().unwrap().success());
    for number in 0..LIMIT + 50 {
        let (git_dir, work_tree) =
            (project.join(format!(".git/worktrees/w{number}")), project.join(format!("w{number}")));
        fs::create_dir_all(&git_dir).unwrap();
        fs::create_dir(&work_tree).unwrap();
        fs::write(git_dir.join("HEAD"), "ref: refs/heads/x\n").unwrap();
        fs::write(git_dir.join("commondir"), "../..\n").unwrap();
        fs::write(git_dir.join("gitdir"), format!("{}/.git\n", work_tree.display())).unwrap();
        fs::write(work_tree.join(".git"), format!("gitdir: {}\n", git_dir.display())).unwrap();
    }
    place.give_away();
    let sandbox = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", &format!("ulimit -Sn {LIMIT}; exec \"$@\""), "sh"]).arg(sandbox.get_program());
    command.args(sandbox.get_args()).args(["--", "sh", "-c", "ulimit -n"]).current_dir(project);
    assert_eq!(succeeded(command.output().unwrap()), format!("{LIMIT}\n"));
}
