//! Rules made of the paths of a tree: exact, or with some components turned into patterns.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::scene::{Access, Entry, HOME, Missing, Node};

pub type Name = &'static [u8];

/// A name. There are few, so that rules apply to paths, and some of them look like patterns or
/// flags.
pub fn name() -> impl Strategy<Value = Name> {
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

/// The way in which one component of a path becomes a part of a pattern.
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
    pub access: Access,
    target: Index,
    spelling: Spelling,
    /// The shapes of the components, the last component first.
    shapes: [Shape; 3],
    tail: Tail,
    escaped: bool,
    pub missing: Missing,
    anywhere: bool,
}

pub fn rule() -> impl Strategy<Value = RuleSeed> {
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
    let missing = prop_oneof![30 => Just(Missing::Skip), 1 => Just(Missing::Error), 4 => Just(Missing::Create), 6 => Just(Missing::Block)];
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

/// `target` relative to `base`. Neither contains symlinks.
pub fn relative(target: &Path, base: &Path) -> PathBuf {
    let common = target.components().zip(base.components()).take_while(|(a, b)| a == b).count();
    let mut path: PathBuf = base.components().skip(common).map(|_| "..").collect();
    path.extend(target.components().skip(common));
    if path.as_os_str().is_empty() { ".".into() } else { path }
}

impl RuleSeed {
    /// The rule for a tree of `nodes`, in a document whose relative paths start at `base`.
    pub fn entry(&self, nodes: &[Node], base: &Path) -> Entry {
        let seed = self;
        // The first nodes are the same in every scene, so they are rarely chosen.
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
        // A path to create or block must not be a pattern. Only a few random rules try one.
        let is_pattern = text.iter().any(|byte| b"*?[{".contains(byte));
        let missing = match seed.missing {
            Missing::Create | Missing::Block if is_pattern && !seed.anywhere => Missing::Skip,
            Missing::Block if seed.access == Access::Rw && !seed.anywhere => Missing::Skip,
            missing => missing,
        };
        Entry { access: seed.access, text, missing }
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

    /// The name, escaped or not.
    fn literal(&self, name: &[u8]) -> Vec<u8> {
        if self.escaped { escape(name) } else { name.to_vec() }
    }
}

/// Escapes a name, so that it matches only itself.
fn escape(name: &[u8]) -> Vec<u8> {
    let escaped = |byte: &u8| if b"*?[]{}\\,".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] };
    name.iter().flat_map(escaped).collect()
}

/// A pattern that matches only `path`.
pub fn exactly(path: &Path) -> Vec<u8> {
    escape(path.as_os_str().as_bytes())
}

/// One rule that excludes something, in a file or as a flag.
pub fn exclude() -> impl Strategy<Value = RuleSeed> {
    rule().prop_map(|rule| RuleSeed { access: Access::Exclude, missing: Missing::Skip, ..rule })
}
