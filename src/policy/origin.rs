//! The origin of a rule or a setting. Every stage passes it on, so that each argument of bwrap can
//! be explained.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::policy::{AbsPath, Word, escape_for_display};

/// A configuration file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The name that people see: `.agent-sandbox.toml`, `/etc/agent-sandbox/config.toml`.
    pub name: String,
    pub text: String,
    /// The offset at which each line begins.
    lines: Vec<usize>,
    /// The number of characters before each [`BLOCK`] of bytes.
    characters: Vec<usize>,
}

/// The most bytes that are read to find a column. A policy may have all its rules on one line, and
/// each rule needs its column.
const BLOCK: usize = 1024;

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        let blocks = text.as_bytes().chunks(BLOCK).scan(0, |before, block| {
            *before += characters(block);
            Some(*before)
        });
        let characters = std::iter::once(0).chain(blocks).collect();
        Self { name, text, lines, characters }
    }

    /// The number of characters before the byte `at`.
    fn characters_before(&self, at: usize) -> usize {
        let block = at / BLOCK;
        let in_block = self.text.as_bytes().get(block * BLOCK..at).unwrap_or_default();
        self.characters.get(block).unwrap_or(&0) + characters(in_block)
    }
}

/// The number of characters that begin in `text`, which is part of a text in UTF-8.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Hashes the name alone: the text may be long, and each of its places would hash it again.
impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A place in a [`Source`]; `span` counts bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub source: Arc<Source>,
    pub span: Range<usize>,
}

impl Place {
    /// Line and column, both from 1; the column counts characters.
    pub fn line_column(&self) -> (usize, usize) {
        let Source { text, lines, .. } = &*self.source;
        let at = self.span.start.min(text.len());
        let line = lines.partition_point(|start| *start <= at);
        let start = lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        (line, self.source.characters_before(at) - self.source.characters_before(start) + 1)
    }

    /// The place behind the last character.
    pub fn end(&self) -> Self {
        Self { source: Arc::clone(&self.source), span: self.span.end..self.span.end }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.source.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    File(Place),
    /// Part of a built-in preset: its entry for this path.
    Preset {
        name: &'static str,
        path: &'static str,
    },
    /// Given as a flag: `--ro src`.
    Flag {
        flag: &'static str,
        value: OsString,
    },
    /// Part of every policy; the text gives the reason.
    BuiltIn(&'static str),
    /// A rule for another path of the same file or folder, which is mounted in two places.
    Alias {
        of: AbsPath,
        origin: Box<Origin>,
    },
}

impl Origin {
    /// Whether it was written in `source`.
    pub fn is_in(&self, source: &Arc<Source>) -> bool {
        self.place().is_some_and(|place| Arc::ptr_eq(&place.source, source))
    }

    /// Whether it is an entry of the built-in preset `name`.
    pub fn is_of_preset(&self, preset: &str) -> bool {
        matches!(self, Origin::Preset { name, .. } if *name == preset)
    }

    pub fn place(&self) -> Option<&Place> {
        match self {
            Origin::File(place) => Some(place),
            Origin::Alias { origin, .. } => origin.place(),
            Origin::Preset { .. } | Origin::Flag { .. } | Origin::BuiltIn(_) => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(place) => place.fmt(f),
            Origin::Preset { name, .. } => write!(f, "@{name}"),
            Origin::Flag { flag, value } => write!(f, "{flag} {}", escape_for_display(value)),
            Origin::BuiltIn(why) => f.write_str(why),
            Origin::Alias { of, origin } => write!(f, "{origin}, the same as {of}"),
        }
    }
}

/// A value together with where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

/// The origin of a rule or a setting.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum OriginJson<'o> {
    /// A place in a configuration file. Line and column count from 1.
    File { file: &'o str, line: usize, column: usize },
    /// An entry of a built-in preset.
    Preset { preset: &'o str },
    /// A flag of the command line.
    Flag { flag: &'o str, value: Word },
    /// The rule is part of every policy.
    BuiltIn { because: &'o str },
    /// A rule for another path of the same file or folder, which is mounted in two places.
    Alias { of: &'o AbsPath, whence: &'o Origin },
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = match self {
            Origin::File(place) => {
                let (line, column) = place.line_column();
                OriginJson::File { file: &place.source.name, line, column }
            }
            Origin::Preset { name, .. } => OriginJson::Preset { preset: name },
            Origin::Flag { flag, value } => OriginJson::Flag { flag, value: Word(value.clone()) },
            Origin::BuiltIn(because) => OriginJson::BuiltIn { because },
            Origin::Alias { of, origin } => OriginJson::Alias { of, whence: origin },
        };
        json.serialize(serializer)
    }
}

impl JsonSchema for Origin {
    fn schema_name() -> Cow<'static, str> {
        "Whence".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        OriginJson::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_text_has_the_line_and_column_of_a_reader() {
        let lines = ["", "a\n", "ü🦀\n\n", &"é".repeat(BLOCK), "\n", &"x".repeat(2 * BLOCK - 1), "🦀\nend"];
        let text = lines.concat();
        let source = Arc::new(Source::new("f", text.as_str()));
        let (mut line, mut column) = (1, 1);
        for (at, c) in text.char_indices() {
            let place = Place { source: Arc::clone(&source), span: at..at };
            assert_eq!(place.line_column(), (line, column), "{at}");
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        let end = Place { source, span: text.len() + 9..text.len() + 9 };
        assert_eq!(end.line_column(), (line, column));
    }
}
