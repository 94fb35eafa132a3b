//! Small random scenes. A seed picks among what the tree holds, so that most rules meet something.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::scene::{
    Access, Definition, Document, Entry, HOME, Kind, Missing, Node, Own, PROJECT_FILE, SYSTEM_FILE, Scene, USER_FILE,
};

type Name = &'static [u8];

/// Few, so that rules and paths meet; and some that are easily taken for something else.
fn name() -> impl Strategy<Value = Name> {
    let plain: Vec<Name> = vec![b"a", b"b", b"ab", b"s"];
    let odd: Vec<Name> = vec![
        b".env",
        b".x",
        b" ",
        b"[x]",
        b"*",
        b"-r",
        b"n\nl",
        b"\xff",
        "\u{e9}".as_bytes(),
        b"{a,b}",
        b"\\*",
        b"x",
        b"node_modules",
    ];
    prop_oneof![6 => select(plain), 2 => select(odd)]
}

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

/// How one component of a path becomes a part of a pattern.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Keep,
    Star,
    Start,
    End,
    Question,
    Class,
    Braces(Name),
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        8 => Just(Shape::Keep),
        2 => Just(Shape::Star),
        1 => Just(Shape::Start),
        1 => Just(Shape::End),
        1 => Just(Shape::Question),
        1 => Just(Shape::Class),
        1 => name().prop_map(Shape::Braces),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spelling {
    Relative,
    Absolute,
    Home,
    /// `**/last-name`
    AnyDepth,
    /// `{path,…}`
    WholeInBraces,
}

#[derive(Clone, Copy, Debug)]
enum Tail {
    Nothing,
    Name(Name),
    Star,
    AnyDepth,
    NameAnyDepthBelow(Name),
}

#[derive(Clone, Debug)]
pub struct RuleSeed {
    access: Access,
    target: Index,
    spelling: Spelling,
    /// From the last component backwards.
    shapes: [Shape; 3],
    tail: Tail,
    escaped: bool,
    missing: Missing,
    anywhere: bool,
}

fn rule() -> impl Strategy<Value = RuleSeed> {
    let access = select(vec![Access::Rw, Access::Ro, Access::Exclude]);
    let spelling = prop_oneof![
        6 => Just(Spelling::Relative),
        2 => Just(Spelling::Absolute),
        1 => Just(Spelling::Home),
        3 => Just(Spelling::AnyDepth),
        1 => Just(Spelling::WholeInBraces),
    ];
    let tail = prop_oneof![
        12 => Just(Tail::Nothing),
        2 => name().prop_map(Tail::Name),
        4 => Just(Tail::Star),
        1 => Just(Tail::AnyDepth),
        1 => name().prop_map(Tail::NameAnyDepthBelow),
    ];
    let exact = Just([Shape::Keep; 3]);
    let shapes = prop_oneof![1 => exact, 1 => [shape(), shape(), shape()]];
    let missing = prop_oneof![40 => Just(Missing::Skip), 1 => Just(Missing::Error), 1 => Just(Missing::Create)];
    let flags = (prop::bool::weighted(0.7), prop::bool::weighted(0.2));
    (access, any::<Index>(), spelling, shapes, tail, flags, missing).prop_map(
        |(access, target, spelling, shapes, tail, (escaped, anywhere), missing)| RuleSeed {
            access,
            target,
            spelling,
            shapes,
            tail,
            escaped,
            missing,
            anywhere,
        },
    )
}

#[derive(Clone, Debug)]
struct DocumentSeed {
    rules: Vec<RuleSeed>,
    tmp: Option<&'static str>,
    /// Rules of a preset of its own, `p` or `q`, and whether it includes the other one.
    definition: Option<(&'static str, Vec<RuleSeed>, bool)>,
    named: Vec<(&'static str, bool)>,
}

fn document(rules: usize) -> impl Strategy<Value = DocumentSeed> {
    let preset = || select(vec!["p", "q"]);
    let definition = (preset(), vec(rule(), 0..3), any::<bool>());
    let tmp = prop_oneof![12 => Just(None), 2 => Just(Some("host")), 1 => Just(Some("private"))];
    let named = vec((preset(), prop::bool::weighted(0.8)), 0..2);
    (vec(rule(), 0..=rules), tmp, prop::option::weighted(0.25, definition), named)
        .prop_map(|(rules, tmp, definition, named)| DocumentSeed { rules, tmp, definition, named })
}

#[derive(Clone, Debug)]
struct SceneSeed {
    project: &'static str,
    in_subfolder: bool,
    /// What stands in the subfolder `s`.
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
    let state = prop_oneof![
        4 => Just(Vec::new()),
        1 => Just(vec![Node { path: PathBuf::from(crate::scene::STATE).join("a"), kind: Kind::File }]),
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
        // The file that speaks for the project: what it defines, flags may name.
        let speaking = match (own, self.in_subfolder, self.marker) {
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
                // SPEC L4 says nothing about presets of a file above the root.
                let counts = index < 2 || speaking == Some(index);
                let document = if counts { writer.document(seed, &base) } else { writer.plain(seed, &base) };
                files.insert(place.clone(), document);
            }
        }
        writer.text_only = false;
        let seed = DocumentSeed { tmp: None, definition: None, ..self.flags.clone() };
        let mut flags = writer.document(&seed, &cwd);
        flags.entries.iter_mut().for_each(|entry| entry.missing = Missing::Skip);
        if let Some(access) = self.opened {
            flags.entries.push(Entry { access, text: self.project.as_bytes().to_vec(), missing: Missing::Skip });
        }
        if !self.defaults || self.marker == Some(".git") {
            // In the lowest layer that always counts, so that others may name single ones again.
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
        nodes.extend(self.extra.iter().cloned());
        // Twice the project, and twice each folder in it: most of what happens should happen there, and some of it deep.
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
                    // Not the six that stand for the system, nor what is above the project: those are errors mostly.
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

/// `target` as seen from `base`; both hold no symlinks.
fn relative(target: &Path, base: &Path) -> PathBuf {
    let common = target.components().zip(base.components()).take_while(|(a, b)| a == b).count();
    let mut path: PathBuf = base.components().skip(common).map(|_| "..").collect();
    path.extend(target.components().skip(common));
    if path.as_os_str().is_empty() { ".".into() } else { path }
}

struct Writer<'a> {
    nodes: &'a [Node],
    /// Presets that documents so far define.
    defined: Vec<&'static str>,
    /// Only flags can hold bytes that are no text.
    text_only: bool,
}

impl Writer<'_> {
    fn plain(&self, seed: &DocumentSeed, base: &Path) -> Document {
        Document { entries: self.entries(&seed.rules, base), ..Document::default() }
    }

    fn document(&mut self, seed: &DocumentSeed, base: &Path) -> Document {
        let mut document = self.plain(seed, base);
        document.tmp = seed.tmp;
        if let Some((name, rules, includes)) = &seed.definition {
            let other = if *name == "p" { "q" } else { "p" };
            // Only one direction: the other way round it would be a cycle.
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

impl RuleSeed {
    /// The rule for a tree of `nodes`, as it is written where relative paths start at `base`.
    pub fn entry(&self, nodes: &[Node], base: &Path) -> Entry {
        let seed = self;
        // Mostly what grew, sometimes what is there on every host.
        let target = &seed.target.get(&nodes[if seed.anywhere { 3 } else { 7 }..]).path;
        let absolute = matches!(seed.spelling, Spelling::Absolute);
        let start = match seed.spelling {
            Spelling::Home if target.starts_with(HOME) => target.strip_prefix(HOME).unwrap().to_path_buf(),
            _ if absolute => target.strip_prefix("/").unwrap().to_path_buf(),
            _ => relative(target, base),
        };
        let names: Vec<&[u8]> = start.iter().map(OsStrExt::as_bytes).collect();
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let shape = seed.shapes.get(names.len() - 1 - index).copied().unwrap_or(Shape::Keep);
            // `..` after a wildcard is an error, and `.` is no name.
            let fixed = *name == b"." || names.contains(&b"..".as_slice());
            parts.push(if fixed { name.to_vec() } else { seed.part(name, shape) });
        }
        if seed.spelling == Spelling::AnyDepth {
            let last = parts.pop().filter(|part| part != b".." && part != b".").unwrap_or_else(|| b"a".to_vec());
            parts = vec![b"**".to_vec(), last];
        }
        match seed.tail {
            Tail::Nothing => {}
            Tail::Name(name) => parts.push(seed.literal(name)),
            Tail::Star => parts.push(b"*".to_vec()),
            Tail::AnyDepth => parts.push(b"**".to_vec()),
            Tail::NameAnyDepthBelow(name) => parts.extend([b"**".to_vec(), seed.literal(name)]),
        }
        let mut text = parts.join(&b'/');
        let ends_in_name = parts.last().is_some_and(|part| part != b"." && part != b"..");
        if seed.spelling == Spelling::WholeInBraces && ends_in_name {
            text = [b"{", text.as_slice(), b",zz}"].concat();
        } else if absolute {
            text.insert(0, b'/');
        } else if seed.spelling == Spelling::Home && target.starts_with(HOME) {
            text.splice(0..0, *b"~/");
        }
        Entry { access: seed.access, text, missing: seed.missing }
    }

    fn part(&self, name: &[u8], shape: Shape) -> Vec<u8> {
        let is_ascii = name.is_ascii();
        let text = std::str::from_utf8(name).unwrap_or_default();
        let first = text.chars().next();
        let rest = first.map_or(0, char::len_utf8);
        match (shape, first) {
            (Shape::Star, _) => b"*".to_vec(),
            (Shape::Start, _) if !name.is_empty() => {
                [&self.literal(&name[..if is_ascii { 1 } else { name.len() }]), b"*".as_slice()].concat()
            }
            (Shape::End, _) => {
                [b"*", self.literal(&name[if is_ascii { name.len() - 1 } else { 0 }..]).as_slice()].concat()
            }
            (Shape::Question, Some(_)) => [b"?", escape(&name[rest..]).as_slice()].concat(),
            (Shape::Class, Some(c)) if c.is_alphanumeric() => {
                [format!("[z{c}]").as_bytes(), escape(&name[rest..]).as_slice()].concat()
            }
            (Shape::Braces(other), _) => {
                [b"{", self.literal(name).as_slice(), b",", self.literal(other).as_slice(), b"}"].concat()
            }
            _ => self.literal(name),
        }
    }

    /// The name as it is, or escaped.
    fn literal(&self, name: &[u8]) -> Vec<u8> {
        if self.escaped { escape(name) } else { name.to_vec() }
    }
}

/// So that it means nothing but itself.
fn escape(name: &[u8]) -> Vec<u8> {
    let escaped = |byte: &u8| if b"*?[]{}\\,".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] };
    name.iter().flat_map(escaped).collect()
}

/// A pattern that is `path` alone.
pub fn exactly(path: &Path) -> Vec<u8> {
    escape(path.as_os_str().as_bytes())
}

/// One rule that excludes something, in a file or as a flag.
pub fn exclude() -> impl Strategy<Value = RuleSeed> {
    rule().prop_map(|rule| RuleSeed { access: Access::Exclude, missing: Missing::Skip, ..rule })
}
