//! Random policies over random trees: the model's reading of the argv agrees with the findings of a
//! process inside, path by path. If there are only exact rules, both agree with the policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agent_sandbox::model::{Model, ModelView as View};
use serde_json::Value;

use crate::sandbox::{Found, policy, probe, sandbox};
use crate::support::{Place, abs, model_of_printed, stderr};

/// Policies for each situation.
pub const POLICIES: u64 = 60;

everywhere!(the_model_says_what_a_process_inside_finds);
for_both!(the_model_knows_homes_and_bases_of_the_sandboxs_own);

// SPEC C1, C9
fn the_model_says_what_a_process_inside_finds(place: &Place) {
    let mut met = BTreeSet::new();
    for seed in 0..POLICIES {
        let case = Case::generate(&mut Generator(seed));
        for entry in fs::read_dir(place.path()).unwrap() {
            fs::remove_dir_all(entry.unwrap().path()).unwrap();
        }
        case.build(place);
        met.extend(agree(place, &case, seed));
    }
    let all = ["Absent", "Fresh", "MaskedFile", "Unreachable", "nothing", "readable", "writable"];
    assert_eq!(met, BTreeSet::from(all), "the policies are too tame");
}

/// Compares model and kernel where the home, or all of the root, is the sandbox's own.
// SPEC O2
fn the_model_knows_homes_and_bases_of_the_sandboxs_own(place: &Place) {
    for seed in 0..POLICIES / 4 {
        let case = Case::generate(&mut Generator(seed));
        for entry in fs::read_dir(place.path()).unwrap() {
            fs::remove_dir_all(entry.unwrap().path()).unwrap();
        }
        case.build(place);
        let paths = case.paths(place);
        for flags in [&["--home=private"][..], &["--base=minimal"], &["--home=private", "--no-guard"]] {
            let refused = stderr(&sandbox(place).args(flags).args(["--print-args", "--", "true"]).output().unwrap());
            if refused.contains("error[") {
                continue;
            }
            let model = model(place, flags);
            for (path, found) in paths.iter().zip(probe(place, flags, &paths)) {
                let view = model.view(&abs(path));
                let (_, accepted) = expected(&view, path);
                let context = || format!("{path:?}: {view:?}\nseed {seed}, {flags:?}\n{}", case.rules());
                assert!(accepted.contains(&found), "kernel {found:?}, model {accepted:?} at {}", context());
            }
        }
    }
}

/// Compares policy, model and kernel; gives the kinds of view that were met.
fn agree(place: &Place, case: &Case, seed: u64) -> BTreeSet<&'static str> {
    let paths = case.paths(place);
    let mut met = BTreeSet::new();
    let mut granted = Vec::new();
    // A link does not open a hidden path (SPEC G8); the properties say when.
    let refused = stderr(&sandbox(place).args(["--print-args", "--", "true"]).output().unwrap());
    if refused.contains("error[hidden-target]") {
        return met;
    }
    for flags in [&[][..], &["--no-optimize"], &["--no-guard"]] {
        // A run makes our state folder where a rule would let the command make it.
        let answers = probe(place, flags, &paths);
        let model = model(place, flags);
        let ok = |found: &Found| (found.read == "ok", found.write == "ok");
        granted.push(paths.iter().zip(answers.iter().map(ok)).collect::<Vec<_>>());
        for (path, found) in paths.iter().zip(answers) {
            let view = model.view(&abs(path));
            let context = || format!("{path:?}: {view:?}\nseed {seed}, {flags:?}\n{}\n{:#?}", case.rules(), case.nodes);
            let (name, accepted) = expected(&view, path);
            assert!(accepted.contains(&found), "kernel {found:?}, model {accepted:?} at {}", context());
            if let Some(access) = case.access(place, path) {
                assert!(fits(access, &found), "kernel {found:?}, policy {access} at {}", context());
            }
            met.insert(name);
        }
    }
    for other in &granted[1..] {
        let differences: Vec<_> = granted[0].iter().zip(other).filter(|(one, other)| one != other).collect();
        assert!(differences.is_empty(), "two forms differ: {differences:?}\nseed {seed}\n{}", case.rules());
    }
    met
}

/// The model of what the product prints.
fn model(place: &Place, flags: &[&str]) -> Model {
    let output = sandbox(place).args(flags).args(["--print-args=json", "--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    model_of_printed(&printed, |path| path.as_path().exists())
}

/// A name for the view, and what the probe may find there.
fn expected(view: &View, path: &Path) -> (&'static str, Vec<Found>) {
    match view {
        View::Host { writable, .. } => match fs::symlink_metadata(path) {
            Err(_) => ("nothing", vec![Found::none("ENOENT"), Found::none("ENOTDIR")]),
            Ok(host) => {
                let kind = if host.is_dir() { "directory" } else { "file" };
                if *writable { ("writable", vec![Found::rw(kind)]) } else { ("readable", vec![Found::ro(kind)]) }
            }
        },
        View::MaskedFile => ("MaskedFile", vec![Found::masked_file()]),
        View::Fresh { mode, writable } => {
            let read = if mode & 0o400 != 0 { "ok" } else { "EACCES" };
            let write: &[&str] = if *writable { &["ok"] } else { &["EROFS", "EACCES"] };
            ("Fresh", write.iter().map(|write| Found::new("directory", read, write)).collect())
        }
        View::Absent { .. } => ("Absent", vec![Found::none("ENOENT"), Found::none("ENOTDIR")]),
        View::Unreachable { .. } => ("Unreachable", vec![Found::none("EACCES")]),
        _ => panic!("the paths are elsewhere: {view:?}"),
    }
}

/// Whether what was found is what an access to something that exists means.
fn fits(access: &str, found: &Found) -> bool {
    match access {
        "rw" => found.read == "ok" && found.write == "ok",
        "ro" => found.read == "ok" && found.write == "EROFS",
        _ => found.read != "ok" && found.write != "ok",
    }
}

/// SplitMix64: the same cases on every machine.
pub struct Generator(pub u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File,
}

/// A tree below the home, and rules for it. Paths are relative to the home.
pub struct Case {
    nodes: BTreeMap<PathBuf, Node>,
    /// No patterns and no links: the meaning can be read off the rules.
    exact: bool,
    /// Links and where they lead, both relative to the home.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Access and text, as written in the project's file.
    rules: Vec<(&'static str, String)>,
}

const PROJECT: &str = "code/project";
const ACCESSES: [&str; 3] = ["rw", "ro", "exclude"];

impl Case {
    pub fn generate(random: &mut Generator) -> Self {
        let nodes = tree(random);
        let mut case = Self { nodes, exact: random.one_in(2), links: BTreeMap::new(), rules: Vec::new() };
        if !case.exact {
            case.add_links(random);
        }
        for _ in 0..2 + random.below(9) {
            let access = random.pick(&ACCESSES);
            let text = if case.exact || random.one_in(2) { case.path(random) } else { case.pattern(random) };
            // Excluding the working directory is an error of its own.
            if *access != "exclude" || text != "." {
                case.rules.push((access, text));
            }
        }
        case
    }

    fn add_links(&mut self, random: &mut Generator) {
        let inside: Vec<PathBuf> = self.nodes.keys().filter(|path| is_inside(path)).cloned().collect();
        for name in ["l1", "l2"] {
            if !inside.is_empty() {
                self.links.insert(Path::new(PROJECT).join(name), random.pick(&inside).clone());
            }
        }
    }

    /// An exact path: of the tree, of the home, through a link, or missing.
    fn path(&self, random: &mut Generator) -> String {
        let nodes: Vec<&PathBuf> = self.nodes.keys().filter(|path| **path != Path::new(PROJECT)).collect();
        let links: Vec<&PathBuf> = self.links.keys().collect();
        let path = if !links.is_empty() && random.one_in(4) { random.pick(&links) } else { random.pick(&nodes) };
        match random.below(12) {
            0 => format!("~/{}/missing", path.display()),
            1 => "~".to_owned(),
            2 => ".".to_owned(),
            _ => match path.strip_prefix(PROJECT) {
                Ok(relative) => relative.to_str().unwrap().to_owned(),
                Err(_) => format!("~/{}", path.display()),
            },
        }
    }

    fn pattern(&self, random: &mut Generator) -> String {
        let patterns =
            ["d*", "f*", "*", "**/f0", "**/d1", "d0/*", "d?/**", "{d0,d1}/f1", "~/other/*", "~/other/**/f[01]"];
        (*random.pick(&patterns)).to_owned()
    }

    pub fn rules(&self) -> String {
        let list = |access: &str| {
            let texts = self.rules.iter().filter(|(a, _)| *a == access).map(|(_, text)| format!("{text:?}"));
            format!("{access} = [{}]\n", texts.collect::<Vec<_>>().join(", "))
        };
        ACCESSES.map(list).concat()
    }

    pub fn build(&self, place: &Place) {
        let home = place.home();
        fs::create_dir_all(place.project()).unwrap();
        for (path, node) in &self.nodes {
            match node {
                Node::Directory => fs::create_dir_all(home.join(path)).unwrap(),
                Node::File => fs::write(home.join(path), "host").unwrap(),
            }
        }
        for (link, target) in &self.links {
            symlink(home.join(target), home.join(link)).unwrap();
        }
        policy(place, &self.rules());
    }

    /// The paths to ask about: everything in the tree and around it, and a missing path in each
    /// folder.
    pub fn paths(&self, place: &Place) -> Vec<PathBuf> {
        let home = place.home();
        let mut paths = vec![PathBuf::from("/tmp"), PathBuf::from("/run"), home.join("code"), home.clone()];
        paths.push(PathBuf::from(format!("/run/user/{}", place.uid)));
        for path in self.nodes.keys() {
            paths.push(home.join(path));
            paths.push(home.join(path).join("missing"));
        }
        paths
    }

    /// The access at a path of the tree, read off the rules themselves: the deepest rule at or
    /// above the path wins; of several there, the one in the file, then the most restrictive one.
    /// `None` where patterns and links make that a longer story.
    fn access(&self, place: &Place, path: &Path) -> Option<&'static str> {
        let relative = path.strip_prefix(place.home()).ok()?;
        if !self.exact || !self.nodes.contains_key(relative) {
            return None;
        }
        let written = |text: &str| match text.strip_prefix('~') {
            Some(below_home) => PathBuf::from(below_home.trim_start_matches('/')),
            None => Path::new(PROJECT).join(text).components().collect(),
        };
        let built_in = [("rw", "."), ("ro", "~")].map(|(access, text)| (0, access, text));
        let own = self.rules.iter().map(|(access, text)| (1, *access, text.as_str()));
        let strength = |access: &str| ACCESSES.iter().position(|a| *a == access);
        let rules = own.chain(built_in).filter(|(_, _, text)| relative.starts_with(written(text)));
        let governing =
            rules.max_by_key(|(layer, access, text)| (written(text).components().count(), *layer, strength(access)));
        governing.map(|(_, access, _)| access)
    }
}

fn is_inside(path: &Path) -> bool {
    path.starts_with(PROJECT) && path != Path::new(PROJECT)
}

/// Few names, so that rules meet: folders `d0` to `d2` and files `f0` to `f2` at each level, in the
/// project and beside it.
fn tree(random: &mut Generator) -> BTreeMap<PathBuf, Node> {
    let mut nodes = BTreeMap::new();
    let mut folders = vec![PathBuf::from(PROJECT), PathBuf::from("other")];
    for folder in &folders {
        nodes.insert(folder.clone(), Node::Directory);
    }
    for _ in 0..8 + random.below(14) {
        let folder = random.pick(&folders).clone();
        if random.one_in(2) {
            let directory = folder.join(format!("d{}", random.below(3)));
            if folder.components().count() < 6 && nodes.insert(directory.clone(), Node::Directory).is_none() {
                folders.push(directory);
            }
        } else {
            nodes.insert(folder.join(format!("f{}", random.below(3))), Node::File);
        }
    }
    nodes
}
