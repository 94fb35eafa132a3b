//! Against real folders. A run that was killed is one whose journal is closed and not removed.

mod parked;

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::runs::RunJournal;
use super::trees::{Tree, trees};
use super::*;
use crate::host::identity::Identity;
use crate::host::journal::Line;
use crate::host::nofollow::Folders;

struct Scene {
    folder: TempDir,
    host: Host,
    state: AbsPath,
}

fn abs(path: &str) -> AbsPath {
    AbsPath::normalize(path).unwrap()
}

fn directory(path: &str) -> Item {
    Item { path: abs(path), content: None, is_parent: false }
}

fn file(path: &str) -> Item {
    Item { path: abs(path), content: Some(b"{}\n"), is_parent: false }
}

fn parent(path: &str) -> Item {
    Item { path: abs(path), content: None, is_parent: true }
}

/// A directory, and a file below one that is made for it.
fn usual() -> Vec<Item> {
    vec![parent("/p/a"), file("/p/a/f.json"), directory("/p/d")]
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("p")).unwrap();
        Self { host: Host::at(folder.path()), folder, state: abs("/state") }
    }

    fn start(&self, items: &[Item]) -> RunPlaceholders {
        let mut said = Diagnostics::default();
        let standing =
            put_up_items(&self.host, &self.state, items, &BTreeSet::new(), None, &mut said).unwrap().unwrap();
        assert_eq!(said, Diagnostics::default());
        standing
    }

    fn end(&self, standing: RunPlaceholders) -> Vec<(AbsPath, RemovalOutcome)> {
        take_away(&self.host, &self.state, standing, None).0
    }

    fn sweep(&self) -> Vec<(AbsPath, RemovalOutcome)> {
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
        crate::host::journal::names(&self.host, &self.state).len()
    }
}

#[track_caller]
fn assert_left(outcomes: &[(AbsPath, RemovalOutcome)], path: &str, why: &str) {
    let outcome = outcomes.iter().find(|(at, _)| *at == abs(path)).map(|(_, outcome)| outcome);
    assert_eq!(outcome, Some(&RemovalOutcome::Left(why.to_owned())), "{outcomes:?}");
}

#[test]
fn what_is_put_up_is_taken_away() {
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
fn the_next_run_sweeps_what_it_does_not_need_and_takes_over_what_it_does() {
    let scene = Scene::new();
    drop(scene.start(&usual()));
    let inode = || Identity::of(&fs::metadata(scene.real("/p/d")).unwrap());
    let before = inode();
    let next = scene.start(&[directory("/p/d"), directory("/p/e")]);
    assert_eq!(scene.project(), ["d", "e"]);
    assert_eq!(inode(), before, "taken over, so that nobody can create it in between");
    scene.end(next);
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
}

/// A run that is killed after so many steps.
fn killed_after(scene: &Scene, steps: usize) {
    let items = usual();
    let wanted: Vec<&Item> = items.iter().collect();
    let lock = runs::lock(&scene.host, &scene.state).unwrap();
    let journal = RunJournal::create(&scene.host, &scene.state, None).unwrap();
    let mut standing = RunPlaceholders { journal, records: vec![], intents: vec![], held: vec![] };
    let trees = trees(&scene.host, &wanted, &standing.journal.tag).unwrap();
    let mut folders = Folders::default();
    if steps > 0 {
        standing.journal.write(&Line::WillMake(trees.iter().map(Tree::intent).collect())).unwrap();
    }
    if steps > 1 {
        trees.iter().for_each(|tree| tree.make(&scene.host, &mut standing.records, &mut folders).unwrap());
    }
    if steps > 2 {
        standing.journal.write(&Line::Made(standing.records.clone())).unwrap();
    }
    if steps > 3 {
        trees[0].place(&scene.host, &mut standing.records, &mut standing.held, &mut folders).unwrap();
    }
    drop((standing, lock));
}

#[test]
fn a_kill_at_any_step_leaves_nothing_after_a_sweep_and_touches_nothing_of_others() {
    for steps in 0..5 {
        for others_folder in [false, true] {
            let scene = Scene::new();
            killed_after(&scene, steps);
            // Meanwhile somebody makes the same, empty, as we would have.
            if others_folder {
                fs::create_dir(scene.real("/p/d")).unwrap();
            }
            scene.sweep();
            let expected: Vec<String> = others_folder.then(|| "d".to_owned()).into_iter().collect();
            assert_eq!((scene.project(), scene.journals()), (expected, 0), "{steps}");
        }
    }
}

/// `start` asserts that nothing is said: what stands there is of the next run, and no surprise.
#[test]
fn a_run_after_any_kill_works_and_says_nothing() {
    for steps in 0..5 {
        let scene = Scene::new();
        killed_after(&scene, steps);
        let run = scene.start(&usual());
        assert_eq!(scene.project(), ["a", "a/f.json", "d"], "{steps}");
        // Another one dies before it has put up its own, while this one lives; then this one is
        // killed, too.
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

#[test]
fn a_placeholder_of_a_run_counts_as_missing_until_somebody_uses_it() {
    let scene = Scene::new();
    let run = scene.start(&usual());
    let standing = || crate::host::journal::standing(&scene.host, &scene.state);
    assert_eq!(standing(), ["/p/a", "/p/a/f.json", "/p/d"].map(abs));
    fs::write(scene.real("/p/a/f.json"), "mine").unwrap();
    fs::write(scene.real("/p/d/x"), "").unwrap();
    assert_eq!(standing(), ["/p/a"].map(abs));
    scene.end(run);
}

#[test]
fn what_the_host_changed_or_replaced_is_left() {
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
    assert_left(&outcomes, "/p/e", "something else stands there now");
    assert_left(&outcomes, "/p/f", "its content has changed");
    assert_left(&outcomes, "/p/g", "something else stands there now");
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
fn what_appeared_since_we_looked_is_not_ours() {
    let scene = Scene::new();
    fs::create_dir(scene.real("/p/d")).unwrap();
    let run = scene.start(&usual());
    scene.end(run);
    assert_eq!(scene.project(), ["d"]);
}

#[test]
fn nothing_is_put_up_or_taken_away_through_a_symlink() {
    let scene = Scene::new();
    fs::create_dir_all(scene.real("/elsewhere")).unwrap();
    symlink("../elsewhere", scene.real("/p/l")).unwrap();
    symlink("../elsewhere/x", scene.real("/p/dangling")).unwrap();
    for item in [file("/p/l/x"), file("/p/dangling")] {
        let failed = put_up_items(
            &scene.host,
            &scene.state,
            &[directory("/p/d"), item],
            &BTreeSet::new(),
            None,
            &mut Diagnostics::default(),
        );
        assert!(failed.is_err());
        assert_eq!((scene.project(), scene.journals()), (vec!["dangling".into(), "l".into()], 0), "all or nothing");
        assert_eq!(fs::read_dir(scene.real("/elsewhere")).unwrap().count(), 0);
    }
    // A folder becomes a link to one that holds the very same.
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
    let run =
        put_up_items(&scene.host, &scene.state, &[], &BTreeSet::new(), None, &mut Diagnostics::default()).unwrap();
    assert_eq!(scene.journals(), 1);
    take_away(&scene.host, &scene.state, run.unwrap(), None);
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
