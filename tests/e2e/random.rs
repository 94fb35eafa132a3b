//! Random policies over random trees: at each path, the model of the argv agrees with the access
//! of a process inside. If all rules are exact, both also agree with the policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agent_sandbox::model::{Model, ModelView as View};
use serde_json::Value;

use crate::sandbox::{Found, policy, probe, sandbox};
use crate::support::{Place, abs, model_of_printed, stderr};

/// The number of policies for each situation.
pub const POLICIES: u64 = 60;

everywhere!(the_model_agrees_with_a_process_inside);
for_both!(the_model_agrees_about_private_homes_and_minimal_bases);

// SPEC C1, C9
fn the_model_agrees_with_a_process_inside(place: &Place) {
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
    assert_eq!(met, BTreeSet::from(all), "the policies do not cover all kinds of view");
}

/// Compares model and kernel with a private home, and with a minimal base.
// SPEC O2
fn the_model_agrees_about_private_homes_and_minimal_bases(place: &Place) {
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

/// Compares policy, model and kernel, and returns the kinds of view at the paths.
fn agree(place: &Place, case: &Case, seed: u64) -> BTreeSet<&'static str> {
    let paths = case.paths(place);
    let mut met = BTreeSet::new();
    let mut granted = Vec::new();
    // A link does not open a hidden path (SPEC G8), so such a policy is refused.
    let refused = stderr(&sandbox(place).args(["--print-args", "--", "true"]).output().unwrap());
    if refused.contains("error[hidden-target]") {
        return met;
    }
    for flags in [&[][..], &["--no-optimize"], &["--no-guard"]] {
        // The run comes before the model: it creates the state folder if the command could.
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

/// The model of the printed argv.
fn model(place: &Place, flags: &[&str]) -> Model {
    let output = sandbox(place).args(flags).args(["--print-args=json", "--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    model_of_printed(&printed, |path| path.as_path().exists())
}

/// A name for the view, and the answers that the probe may give.
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
        _ => panic!("unexpected view: {view:?}"),
    }
}

/// Whether the answer of the probe fits the access. The path exists on the host.
fn fits(access: &str, found: &Found) -> bool {
    match access {
        "rw" => found.read == "ok" && found.write == "ok",
        "ro" => found.read == "ok" && found.write == "EROFS",
        _ => found.read != "ok" && found.write != "ok",
    }
}

/// A random number generator (SplitMix64) that gives the same cases on every machine.
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
    /// Whether there are neither patterns nor links, so that [`Case::access`] knows each access.
    exact: bool,
    /// Links and their targets, both relative to the home.
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

    /// The access at a path of the tree according to the rules: the deepest rule at or above the
    /// path wins, then a rule of the file, then the most restrictive rule. `None` if there are
    /// patterns or links, or if the path is not in the tree.
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

/// A random tree of folders `d0` to `d2` and files `f0` to `f2` in the project and beside it. It
/// has few names, so that several rules apply to a path.
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
