//! Tests in real directories. A killed run is one whose value is dropped: its journal is not locked
//! any more, and stays.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::runs::RunJournal;
use super::trees::trees;
use super::*;
use crate::host::identity::Identity;

struct Scene {
    folder: TempDir,
    host: Host,
    state: AbsPath,
}

fn abs(path: &str) -> AbsPath {
    AbsPath::normalize(path).unwrap()
}

fn directory(path: &str) -> PlaceholderItem {
    PlaceholderItem { path: abs(path), content: None, is_parent: false }
}

fn file(path: &str) -> PlaceholderItem {
    PlaceholderItem { path: abs(path), content: Some(b"{}\n"), is_parent: false }
}

fn parent(path: &str) -> PlaceholderItem {
    PlaceholderItem { path: abs(path), content: None, is_parent: true }
}

/// A directory, and a file in another directory that is made for it.
fn usual() -> Vec<PlaceholderItem> {
    vec![parent("/p/a"), file("/p/a/f.json"), directory("/p/d")]
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("p")).unwrap();
        Self { host: Host::at(folder.path()), folder, state: abs("/state") }
    }

    fn create_placeholders(&self, items: &[PlaceholderItem]) -> Result<RunPlaceholders, PathError> {
        let mut said = Diagnostics::default();
        let run = create_placeholder_items(&self.host, &self.state, items, &BTreeSet::new(), &mut said);
        assert_eq!(said, Diagnostics::default());
        run.map(Option::unwrap)
    }

    fn start(&self, items: &[PlaceholderItem]) -> RunPlaceholders {
        self.create_placeholders(items).unwrap()
    }

    fn end(&self, run: RunPlaceholders) -> Outcomes {
        run.remove(&self.host, &self.state)
    }

    fn sweep(&self) -> Outcomes {
        sweep(&self.host, &self.state).unwrap()
    }

    fn real(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(&path[1..])
    }

    /// Everything in the project, sorted.
    fn project(&self) -> Vec<String> {
        fn below(folder: &std::path::Path, top: &std::path::Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
                if path.is_dir() && !path.is_symlink() {
                    below(&path, top, found);
                }
            }
        }
        let mut found = Vec::new();
        below(&self.real("/p"), &self.real("/p"), &mut found);
        found.sort();
        found
    }

    fn journals(&self) -> usize {
        journal::journals(&self.host, &self.state).unwrap().len()
    }
}

#[track_caller]
fn assert_left(outcomes: &[(AbsPath, RemovalOutcome)], path: &str, why: &str) {
    let outcome = outcomes.iter().find(|(at, _)| *at == abs(path)).map(|(_, outcome)| outcome);
    assert_eq!(outcome, Some(&RemovalOutcome::Left(why.to_owned())), "{outcomes:?}");
}

#[test]
fn placeholders_are_removed_after_the_run() {
    let scene = Scene::new();
    let run = scene.start(&usual());
    assert_eq!(scene.project(), ["a", "a/f.json", "d"]);
    assert_eq!(fs::read(scene.real("/p/a/f.json")).unwrap(), b"{}\n");
    let outcomes = scene.end(run);
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == RemovalOutcome::Removed), "{outcomes:?}");
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
}

#[test]
fn a_run_that_was_killed_is_swept() {
    let scene = Scene::new();
    drop(scene.start(&usual()));
    assert_eq!(scene.project().len(), 3);
    let outcomes = scene.sweep();
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == RemovalOutcome::Removed), "{outcomes:?}");
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
    assert_eq!(scene.sweep(), []);
}

#[test]
fn the_next_run_sweeps_or_takes_over_each_placeholder() {
    let scene = Scene::new();
    drop(scene.start(&usual()));
    let inode = || Identity::of(&fs::metadata(scene.real("/p/d")).unwrap());
    let before = inode();
    let next = scene.start(&[directory("/p/d"), directory("/p/e")]);
    assert_eq!(scene.project(), ["d", "e"]);
    assert_eq!(inode(), before, "taken over, so that no process can create it in between");
    scene.end(next);
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
}

/// The number of steps after which a run can be killed.
const STEPS: usize = 6;

/// Simulates a run that is killed after `steps` steps of `RunPlaceholders::create_placeholders`.
fn killed_after(scene: &Scene, steps: usize) {
    let items = usual();
    let host = &scene.host;
    let _locked = runs::lock(host, &scene.state).unwrap();
    let journal = RunJournal::create(host, &scene.state).unwrap();
    let mut run = RunPlaceholders { journal, records: vec![], made: HashMap::new(), intents: vec![], held: vec![] };
    let trees = trees(host, &items.iter().collect::<Vec<_>>(), &run.journal.tag).unwrap();
    for step in 0..steps {
        let done = match step {
            0 => run.announce(&trees),
            1 => trees.iter().try_for_each(|tree| run.make(host, tree)),
            2 => run.note(),
            3 => run.place(host, &trees[0]),
            _ => run.place(host, &trees[1]),
        };
        done.unwrap();
    }
}

// SPEC M7
#[test]
fn a_kill_at_any_step_leaves_nothing_after_a_sweep_and_touches_nothing_of_others() {
    for steps in 0..STEPS {
        for others_folder in [false, true] {
            let scene = Scene::new();
            killed_after(&scene, steps);
            // The user makes the same empty directory, where there is no placeholder yet.
            let is_of_user = others_folder && fs::create_dir(scene.real("/p/d")).is_ok();
            assert_eq!(is_of_user, others_folder && steps < 5);
            scene.sweep();
            let expected: Vec<String> = is_of_user.then(|| "d".to_owned()).into_iter().collect();
            assert_eq!((scene.project(), scene.journals()), (expected, 0), "{steps}");
        }
    }
}

// SPEC M7
#[test]
fn a_kill_while_placeholders_are_removed_leaves_nothing_after_a_sweep_or_the_next_run() {
    for removed in 0..=usual().len() {
        for is_swept in [true, false] {
            let scene = Scene::new();
            let run = scene.start(&usual());
            for record in run.records.iter().rev().take(removed) {
                assert_eq!(place::remove(&scene.host, record), RemovalOutcome::Removed);
            }
            drop(run);
            if is_swept {
                scene.sweep();
            } else {
                let next = scene.start(&usual());
                assert_eq!(scene.project(), ["a", "a/f.json", "d"], "{removed}");
                scene.end(next);
            }
            assert_eq!((scene.project(), scene.journals()), (vec![], 0), "{removed}");
        }
    }
}

/// `start` asserts that nothing is reported.
#[test]
fn a_run_after_any_kill_works_and_reports_nothing() {
    for steps in 0..STEPS {
        let scene = Scene::new();
        killed_after(&scene, steps);
        let run = scene.start(&usual());
        assert_eq!(scene.project(), ["a", "a/f.json", "d"], "{steps}");
        // Another run is killed before it renames its placeholder, and then this run, too.
        fs::rename(scene.real("/p/d"), scene.real("/p/x")).unwrap();
        killed_after(&scene, 3);
        fs::rename(scene.real("/p/x"), scene.real("/p/d")).unwrap();
        drop(run);
        let outcomes = scene.sweep();
        assert!(
            !outcomes.iter().any(|(_, outcome)| matches!(outcome, RemovalOutcome::Left(_))),
            "{steps}: {outcomes:?}"
        );
        assert_eq!((scene.project(), scene.journals()), (vec![], 0), "{steps}");
    }
}

#[test]
fn two_runs_share_a_placeholder_until_the_last_one_ends() {
    for first_ends_first in [true, false] {
        for killed in [true, false] {
            let scene = Scene::new();
            let (one, two) = (scene.start(&usual()), scene.start(&usual()));
            let (early, late) = if first_ends_first { (one, two) } else { (two, one) };
            if killed {
                drop(early);
                let outcomes = scene.sweep();
                assert!(outcomes.iter().all(|(_, outcome)| *outcome == RemovalOutcome::InUse), "{outcomes:?}");
            } else {
                let outcomes = scene.end(early);
                assert!(outcomes.iter().all(|(_, outcome)| *outcome == RemovalOutcome::InUse), "{outcomes:?}");
            }
            assert_eq!(scene.project(), ["a", "a/f.json", "d"]);
            scene.end(late);
            assert_eq!((scene.project(), scene.journals()), (vec![], 0));
        }
    }
}

/// A policy that is compiled while the directories of another run exist names no parents.
// SPEC M7
#[test]
fn a_directory_on_the_way_goes_with_the_last_run_that_needs_it() {
    for first_ends_first in [true, false] {
        for killed in [true, false] {
            for path in ["/p/a/f.json", "/p/a/other"] {
                let scene = Scene::new();
                let (one, two) = (scene.start(&usual()), scene.start(&[file(path)]));
                let (early, late) = if first_ends_first { (one, two) } else { (two, one) };
                if killed {
                    drop(early);
                    scene.sweep();
                } else {
                    scene.end(early);
                }
                scene.end(late);
                let left = (scene.project(), scene.journals());
                assert_eq!(left, (vec![], 0), "{first_ends_first} {killed} {path}");
            }
        }
    }
}

/// The run that had made the directory has ended since the policy was compiled.
// SPEC M7
#[test]
fn a_directory_on_the_way_that_has_gone_is_made() {
    let scene = Scene::new();
    let run = scene.start(&[file("/p/a/b/f.json"), file("/p/a/g")]);
    assert_eq!(scene.project(), ["a", "a/b", "a/b/f.json", "a/g"]);
    scene.end(run);
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
}

#[test]
fn a_placeholder_counts_as_missing_until_the_host_uses_it() {
    let scene = Scene::new();
    let run = scene.start(&usual());
    let standing = || journal::placeholder_paths(&scene.host, &scene.state);
    assert_eq!(standing(), ["/p/a", "/p/a/f.json", "/p/d"].map(abs));
    fs::write(scene.real("/p/a/f.json"), "mine").unwrap();
    fs::write(scene.real("/p/d/x"), "").unwrap();
    assert_eq!(standing(), ["/p/a"].map(abs));
    scene.end(run);
}

// SPEC M7
#[test]
fn placeholders_that_the_host_changed_or_replaced_are_left() {
    let scene = Scene::new();
    let items = [directory("/p/d"), directory("/p/e"), file("/p/f"), file("/p/g"), file("/p/h"), directory("/p/i")];
    let run = scene.start(&items);
    fs::write(scene.real("/p/d/mine"), "").unwrap();
    fs::remove_dir(scene.real("/p/e")).unwrap();
    fs::create_dir(scene.real("/p/e")).unwrap();
    fs::write(scene.real("/p/f"), "{ }").unwrap();
    fs::remove_file(scene.real("/p/g")).unwrap();
    symlink("/etc/passwd", scene.real("/p/g")).unwrap();
    fs::remove_file(scene.real("/p/h")).unwrap();
    let outcomes = scene.end(run);
    assert_left(&outcomes, "/p/d", "it is not empty any more");
    assert_left(&outcomes, "/p/e", "something else is there now");
    assert_left(&outcomes, "/p/f", "its content has changed");
    assert_left(&outcomes, "/p/g", "something else is there now");
    assert_eq!(outcomes.iter().find(|(path, _)| *path == abs("/p/h")).unwrap().1, RemovalOutcome::Gone);
    assert_eq!(scene.project(), ["d", "d/mine", "e", "f", "g"]);
}

#[test]
fn a_directory_on_the_way_stays_where_the_command_has_filled_it() {
    let scene = Scene::new();
    let run = scene.start(&usual());
    fs::write(scene.real("/p/a/work"), "").unwrap();
    let outcomes = scene.end(run);
    assert!(outcomes.contains(&(abs("/p/a"), RemovalOutcome::Filled)), "{outcomes:?}");
    assert_eq!(scene.project(), ["a", "a/work"]);
}

#[test]
fn a_path_that_appeared_before_its_placeholder_is_not_removed() {
    let scene = Scene::new();
    fs::create_dir(scene.real("/p/d")).unwrap();
    let run = scene.start(&usual());
    scene.end(run);
    assert_eq!(scene.project(), ["d"]);
}

#[test]
fn no_placeholder_is_created_or_removed_through_a_symlink() {
    let scene = Scene::new();
    fs::create_dir_all(scene.real("/elsewhere")).unwrap();
    symlink("../elsewhere", scene.real("/p/l")).unwrap();
    symlink("../elsewhere/x", scene.real("/p/dangling")).unwrap();
    for item in [file("/p/l/x"), file("/p/dangling")] {
        assert!(scene.create_placeholders(&[directory("/p/d"), item]).is_err());
        assert_eq!((scene.project(), scene.journals()), (vec!["dangling".into(), "l".into()], 0), "all or nothing");
        assert_eq!(fs::read_dir(scene.real("/elsewhere")).unwrap().count(), 0);
    }
    // A directory becomes a link to one with the same content.
    let run = scene.start(&usual());
    fs::rename(scene.real("/p/a"), scene.real("/elsewhere/a")).unwrap();
    symlink("../elsewhere/a", scene.real("/p/a")).unwrap();
    scene.end(run);
    assert!(scene.real("/elsewhere/a/f.json").exists());
}

#[test]
fn a_forged_or_broken_journal_removes_nothing_of_ours() {
    let scene = Scene::new();
    fs::write(scene.real("/p/mine"), "{}\n").unwrap();
    fs::create_dir_all(scene.real("/state/runs")).unwrap();
    for text in ["", "{", "null", r#"{"made":[{"path":"/p/mine","device":1,"inode":1,"content":"{}\n"}]}"#] {
        fs::write(scene.real("/state/runs/x.journal"), text).unwrap();
        scene.sweep();
        assert_eq!((scene.project(), scene.journals()), (vec!["mine".to_owned()], 0), "{text}");
    }
}

#[test]
fn a_run_without_placeholders_is_known_to_be_alive_while_it_lasts() {
    let scene = Scene::new();
    let run = scene.start(&[]);
    assert_eq!(scene.journals(), 1);
    scene.end(run);
    assert_eq!((scene.project(), scene.journals()), (Vec::new(), 0));
}

#[test]
fn many_runs_at_once_leave_nothing() {
    let scene = Scene::new();
    std::thread::scope(|threads| {
        for number in 0..8 {
            let scene = &scene;
            threads.spawn(move || {
                for round in 0..20 {
                    let run = scene.start(&usual());
                    assert_eq!(scene.project(), ["a", "a/f.json", "d"], "{number} {round}");
                    scene.end(run);
                }
            });
        }
    });
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
}

/// A command can move a directory of its own, with a protected file in it, to a temporary name.
#[test]
fn a_file_of_the_user_stays_under_a_temporary_name() {
    let scene = Scene::new();
    let top = scene.folder.path().join("p/.agent-sandbox-t-0");
    fs::create_dir(&top).unwrap();
    let inside = [("".into(), None), (".env".into(), Some(&b"{}\n"[..]))];
    let intent = crate::host::journal::Intent::new(&abs("/p/.agent-sandbox-t-0"), inside);
    for (content, stays) in [("secret\n", true), ("{}\n", false)] {
        fs::write(top.join(".env"), content).unwrap();
        super::removal::remove_temporary(&scene.host, std::slice::from_ref(&intent));
        assert_eq!(top.join(".env").exists(), stays, "{content}");
    }
    assert!(!top.exists());
}
