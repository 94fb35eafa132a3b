//! What is kept, where runs are killed and where there are several.

use super::*;

/// A run that is killed after so many steps: what is kept is found, noted, and moved; the end is begun, and the journal stays.
fn killed(scene: &Scene, steps: usize) {
    let items = items();
    if steps > 3 {
        let run = scene.start_again(&items);
        let others: [runs::OtherRun; 0] = [];
        let taken = if steps > 4 { &run.records[..] } else { &run.records[1..] };
        let mut parked = scene.parked();
        parked.make_room(taken.len());
        remove_all(&scene.host, taken, &others, &[], Some(&mut parked));
        if steps == 6 {
            fs::set_permissions(scene.kept_of("d"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        return;
    }
    let lock = runs::lock(&scene.host, &scene.state).unwrap();
    let mut parked = scene.parked();
    let journal = RunJournal::create(&scene.host, &scene.state, Some(&parked)).unwrap();
    let mut standing = RunPlaceholders { journal, records: vec![], intents: vec![], held: vec![] };
    let mut folders = Folders::default();
    let found: Vec<_> = items.iter().map(|item| parked.find(&scene.host, item, &mut folders).unwrap()).collect();
    if steps > 0 {
        let records = items.iter().zip(&found);
        standing
            .records
            .extend(records.map(|(item, found)| Record::new(&item.path, found.identity, item.content, false)));
        standing.journal.write(&Line::Made(standing.records.clone())).unwrap();
    }
    for (item, found) in items.iter().zip(&found).take(steps.saturating_sub(1)) {
        parked.put(found, &scene.host, item, &mut folders).unwrap();
    }
    drop((standing, lock));
}

#[test]
fn a_kill_at_any_step_leaves_nothing_after_a_sweep_and_the_next_run_works() {
    for steps in 0..7 {
        for is_swept in [true, false] {
            let scene = Scene::keeping();
            scene.once(&items());
            killed(&scene, steps);
            if is_swept {
                scene.sweep();
                assert_eq!((scene.project(), scene.journals()), (vec![], 0), "{steps}");
            }
            scene.once(&items());
            assert_eq!(scene.kept().len(), 3, "{steps}: {:?}", scene.kept());
            assert_eq!(scene.once(&items()), scene.once(&items()), "{steps}");
        }
    }
}

/// Killed when it had closed a placeholder, and not moved it: who joins it opens it.
#[test]
fn what_was_closed_and_left_is_opened_by_the_next_run() {
    let scene = Scene::keeping();
    drop(scene.start_again(&items()));
    fs::set_permissions(scene.real("/p/d"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(scene.real("/p/g"), fs::Permissions::from_mode(0o400)).unwrap();
    let run = scene.start_again(&items());
    assert_eq!((mode(&scene.real("/p/d")), mode(&scene.real("/p/g"))), (0o750, 0o640));
    scene.end_and_keep(run);
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
}

#[test]
fn what_another_run_relies_on_is_not_taken_in() {
    let scene = Scene::keeping();
    let first = scene.once(&items());
    let (one, two) = (scene.start_again(&items()), scene.start_again(&items()));
    let (outcomes, _) = scene.end_and_keep(one);
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == RemovalOutcome::InUse), "{outcomes:?}");
    assert_eq!((scene.project(), mode(&scene.real("/p/d"))), (vec!["d".into(), "f.json".into(), "g".into()], 0o750));
    scene.end_and_keep(two);
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
    assert_eq!(scene.once(&items()), first);
}

#[test]
fn many_at_once_share_what_is_kept() {
    let scene = Scene::keeping();
    let first = scene.once(&items());
    std::thread::scope(|threads| {
        for number in 0..8 {
            let (scene, first) = (&scene, &first);
            threads.spawn(move || {
                for round in 0..20 {
                    let run = scene.start_again(&items());
                    assert_eq!(scene.project(), ["d", "f.json", "g"], "{number} {round}");
                    assert_eq!(made(&scene.real("/p/d")), first[0]);
                    scene.end_and_keep(run);
                }
            });
        }
    });
    assert_eq!((scene.project(), scene.journals()), (vec![], 0));
    assert_eq!(scene.once(&items()), first);
}
