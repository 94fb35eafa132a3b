//! Placeholders that cannot be removed when a run ends stay in the journal, and are removed later.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::sandbox::{journals, policy, run, sandbox, succeeded};
use crate::support::{Place, stderr, stdout};

const BLOCKED: &str =
    "ro = [{ path = 'folder/a/f.json', if-missing = 'block' }, { path = 'other/', if-missing = 'block' }]";

/// Only an ordinary user is tested: root may search every folder.
// SPEC M7
#[test]
fn placeholders_in_a_closed_folder_are_removed_by_the_next_start() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        closed(place);
        // The next start is in another project: in this one, a folder that cannot be searched
        // would stop the start.
        let other = place.home().join("code/other");
        fs::create_dir(&other).unwrap();
        place.give_away();
        let said = sandbox(place).current_dir(&other).args(["--", "true"]).output().unwrap();
        assert!(stderr(&said).contains(&stuck(place, "folder/a/f.json")), "{}", stderr(&said));
        assert_eq!((succeeded(said), journals(place)), (String::new(), 1));
        open(place);
        assert_eq!(stderr(&run(place, &["--", "true"])), "");
        assert_eq!((left(place), journals(place)), (0, 0));
    });
}

// SPEC M7
#[test]
fn placeholders_in_a_closed_folder_are_removed_by_a_sweep() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        closed(place);
        let at = |path: &str| place.project().join(path).display().to_string();
        let said = sweep(place, &[]);
        let expected = format!(
            "could not remove {}: permission denied\ncould not remove {}: permission denied\n",
            at("folder/a/f.json"),
            at("folder/a")
        );
        assert_eq!((stdout(&said), said.status.code()), (expected, Some(1)));
        assert_eq!(sweep(place, &["--quiet"]).status.code(), Some(1));
        // The user creates a folder with the name of a placeholder that is already removed.
        fs::create_dir(place.project().join("other")).unwrap();
        place.give_away();
        open(place);
        assert_eq!(
            stdout(&sweep(place, &[])),
            format!("removed {}\nremoved {}\n", at("folder/a/f.json"), at("folder/a"))
        );
        assert!(place.project().join("other").exists());
        assert_eq!(
            (stdout(&sweep(place, &[])), left(place), journals(place)),
            ("nothing to remove\n".to_owned(), 0, 0)
        );
    });
}

/// Without a free descriptor, a run cannot find out which placeholders other runs need.
// SPEC M7
#[test]
fn a_run_that_can_open_nothing_leaves_the_rest_to_a_sweep() {
    crate::situations::as_user(Place::outside_tmp, |place| {
        prepare(place);
        let mut command = sandbox(place);
        command.args(["--", "sh", "-c", "echo started; cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let limit = place.command("prlimit").args(["--nofile=3:3", "--pid", &child.id().to_string()]).output();
        succeeded(limit.unwrap());
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        assert!(stderr(&output).contains("too many open files"), "{}", stderr(&output));
        assert_eq!((output.status.code(), left(place), journals(place)), (Some(0), 1, 1));
        assert_eq!(stdout(&sweep(place, &[])).lines().count(), 3);
        assert_eq!((left(place), journals(place)), (0, 0));
    });
}

fn prepare(place: &Place) {
    policy(place, BLOCKED);
    fs::create_dir(place.project().join("folder")).unwrap();
    place.give_away();
}

/// A run whose command sets the mode of a placeholder's folder to 000.
fn closed(place: &Place) {
    prepare(place);
    let ended = run(place, &["--", "chmod", "000", "folder"]);
    assert!(stderr(&ended).contains(&stuck(place, "folder/a/f.json")), "{}", stderr(&ended));
    assert!(
        stderr(&ended).contains("the next start or `agent-sandbox sweep` then removes the placeholder"),
        "{}",
        stderr(&ended)
    );
    assert_eq!((succeeded(ended), journals(place)), (String::new(), 1));
    assert!(!place.project().join("other").exists());
}

fn open(place: &Place) {
    fs::set_permissions(place.project().join("folder"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn stuck(place: &Place, path: &str) -> String {
    let path = place.project().join(path);
    format!("warning[placeholder-left]: the placeholder at `{}` could not be removed after the run: ", path.display())
}

fn sweep(place: &Place, flags: &[&str]) -> Output {
    place.agent_sandbox().arg("sweep").args(flags).output().unwrap()
}

/// The number of placeholders that exist in `folder`.
fn left(place: &Place) -> usize {
    entries(&place.project().join("folder"))
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}
