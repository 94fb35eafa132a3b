//! Small random scenes. A seed picks paths of the tree, so that most rules apply to a path.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::rules::{Name, RuleSeed, name, relative, rule};
use crate::scene::{
    Access, Definition, Document, Entry, HOME, Kind, Missing, Node, Own, PROJECT_FILE, SYSTEM_FILE, Scene, USER_FILE,
};

#[derive(Clone, Debug)]
enum NodeSeed {
    Directory,
    File,
    Link { to: Index, absolute: bool },
    Dangling,
}

#[derive(Clone, Debug)]
struct Grown {
    parent: Index,
    name: Name,
    kind: NodeSeed,
}

fn grown() -> impl Strategy<Value = Grown> {
    let kind = prop_oneof![
        8 => Just(NodeSeed::Directory),
        7 => Just(NodeSeed::File),
        4 => (any::<Index>(), any::<bool>()).prop_map(|(to, absolute)| NodeSeed::Link { to, absolute }),
        1 => Just(NodeSeed::Dangling),
    ];
    (any::<Index>(), name(), kind).prop_map(|(parent, name, kind)| Grown { parent, name, kind })
}

#[derive(Clone, Debug)]
struct DocumentSeed {
    rules: Vec<RuleSeed>,
    tmp: Option<&'static str>,
    home: Option<&'static str>,
    base: Option<&'static str>,
    /// The definition of a preset, `p` or `q`: its rules, and whether it includes the other one.
    definition: Option<(&'static str, Vec<RuleSeed>, bool)>,
    named: Vec<(&'static str, bool)>,
}

/// Boxed, because six documents would overflow the stack of a test.
fn document(rules: usize) -> BoxedStrategy<DocumentSeed> {
    let preset = || select(vec!["p", "q"]);
    let definition = (preset(), vec(rule(), 0..3), any::<bool>());
    let tmp = prop_oneof![12 => Just(None), 2 => Just(Some("host")), 1 => Just(Some("private"))];
    let home = prop_oneof![30 => Just(None), 2 => Just(Some("host")), 1 => Just(Some("private"))];
    let base = prop_oneof![40 => Just(None), 2 => Just(Some("host")), 1 => Just(Some("minimal"))];
    let named = vec((preset(), prop::bool::weighted(0.8)), 0..2);
    let seeds = (vec(rule(), 0..=rules), (tmp, home, base), prop::option::weighted(0.25, definition), named);
    let document =
        |(rules, (tmp, home, base), definition, named)| DocumentSeed { rules, tmp, home, base, definition, named };
    seeds.prop_map(document).boxed()
}

#[derive(Clone, Debug)]
struct SceneSeed {
    project: &'static str,
    in_subfolder: bool,
    /// The file in the subfolder `s` that marks a project.
    marker: Option<&'static str>,
    grown: Vec<Grown>,
    documents: [Option<DocumentSeed>; 5],
    flags: DocumentSeed,
    defaults: bool,
    own: Own,
    /// A rule that makes the project visible, as `@base` does.
    opened: Option<Access>,
    extra: Vec<Node>,
}

pub fn scene() -> impl Strategy<Value = Scene> {
    let project = prop_oneof![4 => Just("/home/u/proj"), 1 => Just("/tmp/proj")];
    let marker = prop_oneof![2 => Just(None), 1 => Just(Some(PROJECT_FILE)), 1 => Just(Some(".git"))];
    let own = prop_oneof![8 => Just(Own::Found), 1 => Just(Own::Requested("conf.toml")), 1 => Just(Own::None)];
    let documents = [
        prop::option::weighted(0.4, document(2)),
        prop::option::weighted(0.5, document(3)),
        prop::option::weighted(0.8, document(4)),
        prop::option::weighted(0.6, document(3)),
        prop::option::weighted(0.9, document(3)),
    ];
    // The state folder, and files that built-in presets skip.
    let file = |path: &str| Node { path: path.into(), kind: Kind::File };
    let state = prop_oneof![
        3 => Just(Vec::new()),
        1 => Just(vec![file("/home/u/.local/state/agent-sandbox/a")]),
        1 => Just(vec![file("/home/u/proj/node_modules/.env"), file("/home/u/proj/s/.env.local")]),
    ];
    (
        (project, prop::bool::weighted(0.35), marker, vec(grown(), 3..16)),
        (documents, document(3), prop::bool::weighted(0.15), own),
        (prop::option::weighted(0.8, select(vec![Access::Rw, Access::Rw, Access::Ro])), state),
    )
        .prop_map(
            |((project, in_subfolder, marker, grown), (documents, flags, defaults, own), (opened, extra))| {
                SceneSeed { project, in_subfolder, marker, grown, documents, flags, defaults, own, opened, extra }
                    .build()
            },
        )
}

impl SceneSeed {
    fn build(self) -> Scene {
        let project = PathBuf::from(self.project);
        let sub = project.join("s");
        let nodes = self.nodes(&project, &sub);
        let cwd = if self.in_subfolder { sub.clone() } else { project.clone() };
        let places = [
            PathBuf::from(SYSTEM_FILE),
            PathBuf::from(USER_FILE),
            project.join(PROJECT_FILE),
            sub.join(PROJECT_FILE),
            cwd.join("conf.toml"),
        ];
        let mut own = self.own;
        if matches!(own, Own::Requested(_)) && self.documents[4].is_none() {
            own = Own::Found;
        }
        let marker = self.marker.filter(|marker| *marker == ".git" || self.documents[3].is_some());
        // Flags may name the presets of the project's file and of the file above it.
        let above = (self.in_subfolder && marker.is_some()).then_some(2);
        let speaking = match (own, self.in_subfolder, marker) {
            (Own::Requested(_), ..) => Some(4),
            (Own::Found, true, Some(PROJECT_FILE)) => Some(3),
            (Own::Found, false, _) | (Own::Found, true, None) => Some(2),
            _ => None,
        };
        let mut writer = Writer { nodes: &nodes, defined: Vec::new(), text_only: true };
        let mut files = BTreeMap::new();
        for (index, (place, seed)) in places.iter().zip(&self.documents).enumerate() {
            let wanted = match index {
                3 => self.marker == Some(PROJECT_FILE),
                4 => own != Own::Found,
                _ => true,
            };
            if let Some(seed) = seed.as_ref().filter(|_| wanted) {
                let base = if index < 2 { project.clone() } else { place.parent().unwrap().to_path_buf() };
                let counts = index < 2 || speaking == Some(index) || above == Some(index);
                let document = if counts { writer.document(seed, &base) } else { writer.plain(seed, &base) };
                files.insert(place.clone(), document);
            }
        }
        writer.text_only = false;
        let seed = DocumentSeed { tmp: None, home: None, base: None, definition: None, ..self.flags.clone() };
        let mut flags = writer.document(&seed, &cwd);
        flags.entries.iter_mut().for_each(|entry| entry.missing = Missing::Skip);
        if let Some(access) = self.opened {
            flags.entries.push(Entry { access, text: self.project.as_bytes().to_vec(), missing: Missing::Skip });
        }
        if !self.defaults || self.marker == Some(".git") {
            // The lowest layer that always counts turns all presets off, so that other layers may
            // turn presets on.
            let lowest = files.get_mut(Path::new(SYSTEM_FILE)).unwrap_or(&mut flags);
            lowest.presets.push("!@all".to_owned());
        }
        Scene { nodes, cwd, files, flags, own }
    }

    fn nodes(&self, project: &Path, sub: &Path) -> Vec<Node> {
        let directory = |path: PathBuf| Node { path, kind: Kind::Directory };
        let mut nodes: Vec<Node> =
            ["/dev", "/proc", "/run/k", "/tmp", "/srv", HOME].map(|p| directory(p.into())).into();
        nodes.extend([project, sub].map(|p| directory(p.to_path_buf())));
        if self.marker == Some(".git") {
            nodes.push(directory(sub.join(".git")));
        }
        for extra in &self.extra {
            let parent = extra.path.parent().unwrap();
            if !nodes.iter().any(|node| node.path == parent) {
                nodes.push(directory(parent.to_path_buf()));
            }
            nodes.push(extra.clone());
        }
        // The project, and each folder in it, is listed twice, so that most files are in the
        // project and some of them deep.
        let mut parents =
            vec![project.to_path_buf(), project.to_path_buf(), sub.to_path_buf(), HOME.into(), "/srv".into()];
        for Grown { parent, name, kind } in &self.grown {
            let parent = parent.get(&parents).clone();
            let path = parent.join(OsStr::from_bytes(name));
            if nodes.iter().any(|node| node.path == path) {
                continue;
            }
            let kind = match kind {
                NodeSeed::Directory => Kind::Directory,
                NodeSeed::File => Kind::File,
                NodeSeed::Dangling => Kind::Link("nowhere".into()),
                NodeSeed::Link { to, absolute } => {
                    // Links to the first seven nodes, folders of the system and the project, would
                    // mostly be errors.
                    let target = &to.get(&nodes[7..]).path;
                    Kind::Link(if *absolute { target.clone() } else { relative(target, &parent) })
                }
            };
            if kind == Kind::Directory && path.components().count() < project.components().count() + 4 {
                parents.extend([path.clone(), path.clone()]);
            }
            nodes.push(Node { path, kind });
        }
        nodes
    }
}

struct Writer<'a> {
    nodes: &'a [Node],
    /// The presets that earlier documents define.
    defined: Vec<&'static str>,
    /// Whether the document must be UTF-8. Only flags need not.
    text_only: bool,
}

impl Writer<'_> {
    fn plain(&self, seed: &DocumentSeed, base: &Path) -> Document {
        Document { entries: self.entries(&seed.rules, base), ..Document::default() }
    }

    fn document(&mut self, seed: &DocumentSeed, base: &Path) -> Document {
        let mut document = self.plain(seed, base);
        (document.tmp, document.home, document.base) = (seed.tmp, seed.home, seed.base);
        if let Some((name, rules, includes)) = &seed.definition {
            let other = if *name == "p" { "q" } else { "p" };
            // Only `p` includes `q`: both directions would be a cycle.
            let include =
                if *includes && *name == "p" && self.defined.contains(&other) { vec![other] } else { Vec::new() };
            document.definitions.push(Definition { name, include, entries: self.entries(rules, base) });
            self.defined.push(name);
        }
        for (name, on) in &seed.named {
            let is_new = !document.presets.iter().any(|written| written.ends_with(name));
            if self.defined.contains(name) && is_new {
                document.presets.push(format!("{}@{name}", if *on { "" } else { "!" }));
            }
        }
        document
    }

    fn entries(&self, seeds: &[RuleSeed], base: &Path) -> Vec<Entry> {
        let entries = seeds.iter().map(|seed| seed.entry(self.nodes, base));
        entries.filter(|entry| !self.text_only || std::str::from_utf8(&entry.text).is_ok()).collect()
    }
}
