//! Random policies against random sequences of file operations. Neither in its own run nor in the
//! next one can a command change protected bytes on the host or read excluded bytes.
//!
//! `ESCAPE_CASES=1000 cargo test --features ablate --test escape random` looks further. A failure
//! prints its seed; `ESCAPE_SEED=N` runs that one alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, Scene};

everywhere!("pins": random_operations_under_random_policies);

const OPERATIONS: &str = "60";

/// A random number generator (splitmix64) that gives the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.roll(of.len())]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Rw,
    Ro,
    Exclude,
}

/// A tree and rules for it.
#[derive(Debug)]
struct Case {
    files: Vec<PathBuf>,
    exact: BTreeMap<PathBuf, Access>,
    /// The rules for files at any depth, by the end of their names.
    globs: BTreeMap<&'static str, Access>,
}

impl Case {
    fn random(dice: &mut Dice) -> Self {
        let mut files: Vec<PathBuf> = Vec::new();
        for _ in 0..(3 + dice.roll(8)) {
            let mut path = PathBuf::new();
            for _ in 0..dice.roll(4) {
                path.push(dice.pick(&["a", "b", "c"]));
            }
            path.push(dice.pick(&["x.key", "y.cfg", "z.txt", "w.txt"]));
            if !files.contains(&path) {
                files.push(path);
            }
        }
        let mut paths: Vec<PathBuf> = files.iter().flat_map(|file| file.ancestors().map(Path::to_owned)).collect();
        paths.retain(|path| path != Path::new(""));
        paths.sort();
        paths.dedup();
        let mut exact = BTreeMap::new();
        for _ in 0..(1 + dice.roll(4)) {
            exact.insert(
                dice.pick(&paths).clone(),
                *dice.pick(&[Access::Ro, Access::Exclude, Access::Exclude, Access::Ro, Access::Rw]),
            );
        }
        let mut globs = BTreeMap::new();
        if dice.roll(3) == 0 {
            globs.insert(".key", Access::Exclude);
        }
        if dice.roll(3) == 0 {
            globs.insert(".cfg", Access::Ro);
        }
        Self { files, exact, globs }
    }

    /// The access of a file by SPEC D1, D2 and G3: the deeper rule wins, an exact rule beats a
    /// glob, and globs do not reach into excluded folders.
    fn access(&self, file: &Path) -> (Access, Kind) {
        if let Some(access) = self.exact.get(file) {
            return (*access, Kind::Exact);
        }
        let around = file.ancestors().skip(1).find_map(|ancestor| self.exact.get(ancestor)).copied();
        let glob = self.globs.iter().find(|(end, _)| file.to_str().unwrap().ends_with(*end)).map(|(_, access)| *access);
        match (around, glob) {
            (Some(Access::Exclude), _) => (Access::Exclude, Kind::Exact),
            (Some(Access::Ro), Some(Access::Exclude)) => (Access::Exclude, Kind::Exact),
            (Some(Access::Ro), _) => (Access::Ro, Kind::Exact),
            (_, Some(access)) => (access, Kind::Glob),
            (_, None) => (Access::Rw, Kind::Exact),
        }
    }

    fn rules(&self) -> String {
        let list = |access: Access| {
            let exact =
                self.exact.iter().filter(|(_, a)| **a == access).map(|(path, _)| format!("'{}'", path.display()));
            let globs = self.globs.iter().filter(|(_, a)| **a == access).map(|(end, _)| format!("'**/*{end}'"));
            exact.chain(globs).collect::<Vec<_>>().join(", ")
        };
        format!("rw = [{}]\nro = [{}]\nexclude = [{}]", list(Access::Rw), list(Access::Ro), list(Access::Exclude))
    }
}

/// An exact rule protects the name. A rule from a recursive glob protects the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exact,
    Glob,
}

struct Protected {
    path: PathBuf,
    access: Access,
    kind: Kind,
    inode: u64,
    content: String,
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

// SPEC A1
fn random_operations_under_random_policies(scene: &Scene) -> Verdict {
    let cases = setting("ESCAPE_CASES").unwrap_or(40);
    // Each of the four situations tries other seeds.
    let offset = u64::from(scene.place.uid) * 2 + u64::from(scene.place.path().starts_with("/tmp"));
    let first = 1_000_000 * offset;
    let seeds: Vec<u64> = setting("ESCAPE_SEED").map_or_else(|| (first..first + cases).collect(), |seed| vec![seed]);
    let mut completed = 0;
    for seed in seeds {
        match one_case(scene, seed) {
            Ok(()) => completed += 1,
            Err(found) => return Verdict::Broken(format!("ESCAPE_SEED={seed}: {found}")),
        }
    }
    Verdict::Held(format!("{completed} cases"))
}

fn one_case(scene: &Scene, seed: u64) -> Result<(), String> {
    let mut dice = Dice(seed);
    let case = Case::random(&mut dice);
    let project = scene.project();
    clear(&project);
    let mut protected = Vec::new();
    for (number, path) in case.files.iter().enumerate() {
        let content = format!("bytes-{seed}-{number}-of-this-file");
        let at = project.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, &content).unwrap();
        let (access, kind) = case.access(path);
        if access != Access::Rw {
            let inode = fs::symlink_metadata(&at).unwrap().ino();
            protected.push(Protected { path: path.clone(), access, kind, inode, content });
        }
    }
    scene.place.give_away();
    scene.policy(BASE_ONLY, &case.rules());

    let mut arguments = vec![seed.to_string(), OPERATIONS.to_owned(), "none".to_owned()];
    arguments.extend(protected.iter().map(|file| file.path.to_str().unwrap().to_owned()));
    let ran = scene.attack("random.py", &arguments).completed();
    assert!(ran.value("succeeded") != "0", "nothing was tried: {ran:#?}");

    let describe = |what: &str, file: &Protected| format!("{what} {:?} ({:?})\n{case:?}", file.path, file.kind);
    for file in &protected {
        if file.access == Access::Exclude && ran.out.contains(&file.content) {
            return Err(describe("shown:", file));
        }
        let now = match file.kind {
            Kind::Exact => regular(&project.join(&file.path)),
            Kind::Glob => find(&project, file.inode),
        };
        if now.as_deref() != Some(file.content.as_bytes()) {
            return Err(describe(
                &format!("now {:?}:", now.map(|now| String::from_utf8_lossy(&now).into_owned())),
                file,
            ));
        }
    }
    // Files of the command may keep the next run from starting, but must not make it show
    // excluded bytes.
    let next = scene.attack("look.py", &["."]);
    match protected.iter().find(|file| file.access == Access::Exclude && next.out.contains(&file.content)) {
        Some(file) => Err(describe("shown by the next run:", file)),
        None => Ok(()),
    }
}

/// The bytes of a file. `None` for a symlink.
fn regular(path: &Path) -> Option<Vec<u8>> {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file()).then(|| fs::read(path).ok())?
}

/// The bytes of the file with this inode number, wherever it was moved in `folder`.
fn find(folder: &Path, inode: u64) -> Option<Vec<u8>> {
    fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let found = fs::symlink_metadata(entry.path()).ok()?;
        if found.is_dir() {
            return find(&entry.path(), inode);
        }
        (found.ino() == inode && found.is_file()).then(|| fs::read(entry.path()).ok())?
    })
}

fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
}

/// Checks the naive reading of the rules in this file against results by hand.
#[test]
fn the_naive_reading_is_right() {
    let exact = [("a", Access::Exclude), ("a/b", Access::Rw), ("c", Access::Ro), ("c/y.cfg", Access::Rw)];
    let case = Case {
        files: Vec::new(),
        exact: exact.into_iter().map(|(path, access)| (path.into(), access)).collect(),
        globs: [(".key", Access::Exclude), (".cfg", Access::Ro)].into(),
    };
    let access = |path: &str| case.access(Path::new(path));
    assert_eq!(access("a/y.cfg"), (Access::Exclude, Kind::Exact));
    assert_eq!(access("a/b/y.cfg"), (Access::Ro, Kind::Glob));
    assert_eq!(access("a/b/z.txt"), (Access::Rw, Kind::Exact));
    assert_eq!(access("c/x.key"), (Access::Exclude, Kind::Exact));
    assert_eq!(access("c/y.cfg"), (Access::Rw, Kind::Exact));
    assert_eq!(access("x.key"), (Access::Exclude, Kind::Glob));
}
