//! Placeholders that are kept. Root may keep none, because modes do not stop him; the tests let him, so that they can do what only he or
//! a strange file system can.

mod killed;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::SystemTime;

use rustix::fs::{CWD, FileType, XattrFlags, lsetxattr, mknodat};

use super::super::leaving::Leaving;
use super::super::parked::{MOST, Parked};
use super::*;

fn items() -> Vec<Item> {
    vec![directory("/p/d"), file("/p/f.json"), Item { path: abs("/p/g"), content: Some(b""), is_parent: false }]
}

/// The kernel's clock for files ticks every few milliseconds.
fn tick() {
    std::thread::sleep(std::time::Duration::from_millis(12));
}

/// Whatever number it has: an inode that was made anew was made later. ext4 gives a number to the next at once.
fn made(path: &std::path::Path) -> (u64, SystemTime) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.ino(), found.created().unwrap())
}

fn mode(path: &std::path::Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

impl Scene {
    fn keeping() -> Self {
        let scene = Self::new();
        fs::create_dir_all(scene.real("/state/parked")).unwrap();
        fs::set_permissions(scene.real("/state/parked"), fs::Permissions::from_mode(0o700)).unwrap();
        scene
    }

    fn parked(&self) -> Parked {
        Parked::read(&self.host, &self.state, Mode::from_raw_mode(0o027)).unwrap()
    }

    fn start_again(&self, items: &[Item]) -> RunPlaceholders {
        let mut said = Diagnostics::default();
        let standing =
            put_up_items(&self.host, &self.state, items, &BTreeSet::new(), Some(&mut self.parked()), &mut said)
                .unwrap();
        assert_eq!(said, Diagnostics::default());
        standing.unwrap()
    }

    /// What became of each, and whether something is to be freed.
    fn end_and_keep(&self, standing: RunPlaceholders) -> (Vec<(AbsPath, RemovalOutcome)>, bool) {
        take_away(&self.host, &self.state, standing, Some(&mut self.parked()))
    }

    /// One run from start to end, and what was made for it.
    fn once(&self, items: &[Item]) -> Vec<(u64, SystemTime)> {
        tick();
        let run = self.start_again(items);
        let made = items.iter().map(|item| made(&self.real(item.path.as_path().to_str().unwrap()))).collect();
        let (outcomes, _) = self.end_and_keep(run);
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == RemovalOutcome::Removed), "{outcomes:?}");
        assert_eq!((self.project(), self.journals()), (vec![], 0));
        made
    }

    fn kept(&self) -> Vec<std::path::PathBuf> {
        let mut kept: Vec<_> =
            fs::read_dir(self.real("/state/parked")).unwrap().map(|entry| entry.unwrap().path()).collect();
        kept.sort();
        kept
    }

    /// Where something that has stood in the project is kept.
    fn kept_of(&self, name: &str) -> std::path::PathBuf {
        let ends = format!("-{name}");
        self.kept().into_iter().find(|path| path.to_str().unwrap().ends_with(&ends)).unwrap()
    }
}

#[test]
fn what_has_stood_stands_again() {
    let scene = Scene::keeping();
    let first = scene.once(&items());
    for _ in 0..3 {
        let run = scene.start_again(&items());
        assert_eq!(scene.project(), ["d", "f.json", "g"]);
        assert_eq!(["/p/d", "/p/f.json", "/p/g"].map(|path| made(&scene.real(path))), first[..]);
        assert_eq!(fs::read(scene.real("/p/f.json")).unwrap(), b"{}\n");
        assert_eq!(["/p/d", "/p/f.json", "/p/g"].map(|path| mode(&scene.real(path))), [0o750, 0o640, 0o640]);
        let journal = crate::host::journal::names(&scene.host, &scene.state);
        let journal = made(&scene.host.real(&journal[0]));
        let (_, frees) = scene.end_and_keep(run);
        assert!(!frees);
        assert_eq!(made(&scene.real("/state/runs/spare")), journal);
        assert_eq!(["d", "f.json", "g"].map(|name| mode(&scene.kept_of(name))), [0o600, 0o400, 0o400]);
    }
}

#[test]
fn a_journal_that_is_used_again_says_nothing_of_the_run_before() {
    let scene = Scene::keeping();
    let run = scene.start_again(&items());
    let said = fs::read(scene.host.real(&run.journal.path)).unwrap();
    scene.end_and_keep(run);
    assert_eq!(fs::read(scene.real("/state/runs/spare")).unwrap(), b"");
    // As if that run had been killed before the last step.
    fs::write(scene.real("/state/runs/spare"), said).unwrap();
    let run = scene.start_again(&[directory("/p/d")]);
    let journal = crate::host::journal::Journal::parse(&fs::read(scene.host.real(&run.journal.path)).unwrap());
    assert_eq!((journal.intents, journal.records), (vec![], run.records.clone()));
    scene.end_and_keep(run);
}

#[test]
fn it_returns_only_to_where_it_was() {
    let scene = Scene::keeping();
    let first = scene.once(&[directory("/p/d")]);
    assert_ne!(scene.once(&[directory("/p/e")]), first, "another name");
    fs::rename(scene.real("/p"), scene.real("/elsewhere")).unwrap();
    fs::create_dir(scene.real("/p")).unwrap();
    assert_ne!(scene.once(&[directory("/p/d")]), first, "another folder of the same name");
    fs::remove_dir(scene.real("/p")).unwrap();
    fs::rename(scene.real("/elsewhere"), scene.real("/p")).unwrap();
    assert_eq!(scene.once(&[directory("/p/d")]), first);
}

#[test]
fn what_is_in_another_is_made_with_it() {
    let scene = Scene::keeping();
    for _ in 0..2 {
        let run = scene.start_again(&usual());
        assert_eq!(scene.project(), ["a", "a/f.json", "d"]);
        scene.end_and_keep(run);
        assert_eq!(scene.project(), Vec::<String>::new());
        assert_eq!(scene.kept().len(), 1, "one directory");
    }
}

#[test]
fn what_somebody_has_filled_stays_as_it_is() {
    let scene = Scene::keeping();
    scene.once(&items());
    let run = scene.start_again(&items());
    fs::write(scene.real("/p/d/mine"), "mine").unwrap();
    fs::write(scene.real("/p/f.json"), "mine").unwrap();
    fs::hard_link(scene.real("/p/g"), scene.real("/p/other")).unwrap();
    let changed = || {
        ["/p/d", "/p/f.json"]
            .map(|path| fs::metadata(scene.real(path)).unwrap())
            .map(|it| (it.ctime(), it.ctime_nsec()))
    };
    let before = changed();
    tick();
    let (outcomes, _) = scene.end_and_keep(run);
    assert_eq!(changed(), before, "closed to nobody, not for a moment");
    assert_left(&outcomes, "/p/d", "it is not empty any more");
    assert_left(&outcomes, "/p/f.json", "its content has changed");
    assert_eq!(scene.project(), ["d", "d/mine", "f.json", "other"]);
    assert_eq!((mode(&scene.real("/p/d")), mode(&scene.real("/p/f.json"))), (0o750, 0o640));
    assert_eq!(scene.kept(), Vec::<std::path::PathBuf>::new());
}

/// What others do to a placeholder in the very moment in which it is taken in.
type Meddle = fn(&Scene, &std::path::Path);

/// Takes in `item`, while somebody meddles after the step `at`. Whether it was taken in.
fn taken_in_while(scene: &Scene, item: &Item, at: usize, meddle: Meddle) -> bool {
    let run = scene.start_again(std::slice::from_ref(item));
    let path = scene.real(item.path.as_path().to_str().unwrap());
    let (mut parked, mut folders) = (scene.parked(), Folders::default());
    let name = parked.name(&scene.host, &item.path, &mut folders).unwrap();
    let (folder, called) = folders.parent(&scene.host, &item.path).unwrap();
    let leaving = Leaving::begin(&parked, folder, called, name.clone(), &run.records[0]).unwrap();
    let mut step = 0;
    let is_in = leaving.through(|| {
        // It is under the one name or the other.
        let there =
            if path.symlink_metadata().is_ok() { path.clone() } else { scene.real("/state/parked").join(&name) };
        if step == at {
            meddle(scene, &there);
        }
        step += 1;
    });
    scene.end(run);
    is_in
}

/// Root can do it, and then it is given back. Nobody else can.
#[test]
fn what_is_filled_in_the_very_moment_is_not_lost() {
    fn or_refused(done: std::io::Result<()>) {
        let is_refused = done.is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied);
        assert_eq!(is_refused, !rustix::process::geteuid().is_root());
    }
    let is_root = rustix::process::geteuid().is_root();
    for at in 0..2 {
        let scene = Scene::keeping();
        let fill: Meddle = |_, there| or_refused(fs::write(there.join("mine"), "mine"));
        assert_eq!(taken_in_while(&scene, &directory("/p/d"), at, fill), !is_root, "{at}");
        if is_root {
            assert_eq!((scene.project(), mode(&scene.real("/p/d"))), (vec!["d".into(), "d/mine".into()], 0o755));
        }

        let scene = Scene::keeping();
        let write: Meddle = |_, there| or_refused(fs::write(there, "mine"));
        assert_eq!(taken_in_while(&scene, &file("/p/f"), at, write), !is_root, "{at}");
        if is_root {
            assert_eq!(fs::read(scene.real("/p/f")).unwrap(), b"mine");
            assert_eq!(mode(&scene.real("/p/f")), 0o644);
        }

        let scene = Scene::keeping();
        let link: Meddle = |scene, there| fs::hard_link(there, scene.real("/p/other")).unwrap();
        assert!(!taken_in_while(&scene, &file("/p/f"), at, link), "{at}");
        assert_eq!((scene.project(), scene.kept().len()), (vec!["other".into()], 0));
    }
}

#[test]
fn what_takes_the_place_in_the_very_moment_is_given_back() {
    let scene = Scene::keeping();
    let replace: Meddle = |scene, there| {
        fs::rename(there, scene.real("/aside")).unwrap();
        fs::create_dir_all(there.join("mine")).unwrap();
    };
    assert!(!taken_in_while(&scene, &directory("/p/d"), 0, replace));
    assert_eq!((scene.project(), scene.kept().len()), (vec!["d".into(), "d/mine".into()], 0));
}

#[test]
fn what_is_not_as_it_was_kept_is_not_used() {
    let meddles: [(usize, Meddle); 10] = [
        (0, |_, kept| {
            fs::set_permissions(kept, fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(kept.join("theirs"), "").unwrap();
            fs::set_permissions(kept, fs::Permissions::from_mode(0o600)).unwrap();
        }),
        (0, |_, kept| fs::set_permissions(kept, fs::Permissions::from_mode(0o755)).unwrap()),
        (0, |scene, kept| {
            fs::remove_dir(kept).unwrap();
            symlink(scene.real("/elsewhere"), kept).unwrap();
        }),
        (0, |_, kept| {
            fs::remove_dir(kept).unwrap();
            fs::write(kept, "").unwrap();
        }),
        (1, |_, kept| {
            fs::set_permissions(kept, fs::Permissions::from_mode(0o600)).unwrap();
            fs::write(kept, "[]\n").unwrap();
            fs::set_permissions(kept, fs::Permissions::from_mode(0o400)).unwrap();
        }),
        (1, |scene, kept| fs::hard_link(kept, scene.real("/elsewhere/link")).unwrap()),
        (1, |_, kept| fs::set_permissions(kept, fs::Permissions::from_mode(0o4400)).unwrap()),
        (1, |scene, kept| {
            fs::rename(kept, scene.real("/elsewhere/f")).unwrap();
            symlink(scene.real("/elsewhere/f"), kept).unwrap();
        }),
        (1, |_, kept| {
            fs::remove_file(kept).unwrap();
            mknodat(CWD, kept, FileType::Fifo, Mode::RUSR, 0).unwrap();
        }),
        (1, |_, kept| {
            fs::remove_file(kept).unwrap();
            fs::create_dir(kept).unwrap();
        }),
    ];
    for (number, (which, meddle)) in meddles.into_iter().enumerate() {
        let scene = Scene::keeping();
        fs::create_dir(scene.real("/elsewhere")).unwrap();
        let before = scene.once(&items());
        meddle(&scene, &scene.kept_of(["d", "f.json"][which]));
        let after = scene.once(&items());
        assert_ne!(after[which], before[which], "{number}");
        assert_eq!(after[2], before[2], "{number}: the others are");
        if number == 0 {
            assert_eq!(fs::read_dir(scene.kept_of("d")).unwrap().count(), 1, "what somebody put there is his");
        } else {
            assert_eq!(scene.once(&items()), after, "{number}: the next one is kept in its place");
        }
    }
}

/// A list of rights as the kernel keeps it: for the owner, the group, and others.
fn rights() -> Vec<u8> {
    let entries = [(1u16, 7u16), (4, 7), (0x20, 5)];
    let entries = entries.iter().flat_map(|(tag, rights)| {
        [tag.to_le_bytes().as_slice(), &rights.to_le_bytes(), &u32::MAX.to_le_bytes()].concat()
    });
    2u32.to_le_bytes().into_iter().chain(entries).collect()
}

#[test]
fn what_inherits_or_has_rights_of_its_own_is_made_anew() {
    let set = |path: std::path::PathBuf, name: &str| lsetxattr(path, name, &rights(), XattrFlags::empty()).unwrap();
    let scene = Scene::keeping();
    let first = scene.once(&items());
    fs::set_permissions(scene.real("/p"), fs::Permissions::from_mode(0o2755)).unwrap();
    assert_ne!(scene.once(&items()), first);
    fs::set_permissions(scene.real("/p"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(scene.once(&items()), first);
    set(scene.real("/p"), "system.posix_acl_default");
    assert_ne!(scene.once(&items()), first);

    let scene = Scene::keeping();
    let run = scene.start_again(&[directory("/p/d")]);
    set(scene.real("/p/d"), "system.posix_acl_default");
    scene.end_and_keep(run);
    assert_eq!((scene.project(), scene.kept().len()), (vec![], 0));
}

#[test]
fn on_another_file_system_all_is_made_and_removed() {
    let scene = Scene::keeping();
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let device = |path: &std::path::Path| fs::metadata(path).unwrap().dev();
    assert_ne!(device(elsewhere.path()), device(scene.folder.path()), "the tests need another file system there");
    let host = Host::at("/");
    let state = AbsPath::normalize(scene.real("/state")).unwrap();
    let item = Item { path: AbsPath::normalize(elsewhere.path().join("d")).unwrap(), content: None, is_parent: false };
    for _ in 0..2 {
        let mut parked = Parked::read(&host, &state, Mode::empty()).unwrap();
        let (items, said) = (std::slice::from_ref(&item), &mut Diagnostics::default());
        let run = put_up_items(&host, &state, items, &BTreeSet::new(), Some(&mut parked), said).unwrap().unwrap();
        assert!(elsewhere.path().join("d").is_dir());
        let (outcomes, frees) = take_away(&host, &state, run, Some(&mut parked));
        assert_eq!((outcomes, frees), (vec![(item.path.clone(), RemovalOutcome::Removed)], true));
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        assert_eq!(scene.kept(), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn a_folder_that_others_can_write_keeps_nothing() {
    let scene = Scene::keeping();
    fs::set_permissions(scene.real("/state/parked"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Parked::read(&scene.host, &scene.state, Mode::empty()).is_err());
}

#[test]
fn it_never_grows_beyond_its_bound() {
    let scene = Scene::keeping();
    for number in 0..MOST + 20 {
        fs::create_dir(scene.real(&format!("/state/parked/1-1-{number}"))).unwrap();
    }
    for round in 0..20 {
        let items: Vec<Item> = (0..20).map(|number| directory(&format!("/p/{round}-{number}"))).collect();
        scene.once(&items);
        assert_eq!(scene.kept().len(), MOST, "{round}");
    }
    let many: Vec<Item> = (0..MOST + 20).map(|number| directory(&format!("/p/{number}"))).collect();
    for _ in 0..2 {
        scene.once(&many);
        assert!(scene.kept().len() <= MOST, "{}", scene.kept().len());
    }
}
