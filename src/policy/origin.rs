//! Where a rule or a setting was written. Every stage passes it on, so that each argument of bwrap
//! can be explained.

use std::ffi::OsString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use crate::policy::{AbsPath, escape_for_display};

/// A configuration file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// As shown to people: `.agent-sandbox.toml`, `/etc/agent-sandbox/config.toml`.
    pub name: String,
    pub text: String,
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
        let end = self.span.start.min(self.source.text.len());
        let before = &self.source.text.as_bytes()[..end];
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        (line, column)
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
    /// Written in a configuration file.
    File(Place),
    /// Part of a built-in preset: its entry for this path.
    Preset { name: &'static str, path: &'static str },
    /// Given as a flag: `--ro src`.
    Flag { flag: &'static str, value: OsString },
    /// Part of every policy; the text says why.
    BuiltIn(&'static str),
    /// Written for another name of a file or folder that is mounted in two places.
    Alias { of: AbsPath, origin: Box<Origin> },
}

impl Origin {
    /// Whether it was written in `source`.
    pub fn is_in(&self, source: &Arc<Source>) -> bool {
        self.place().is_some_and(|place| Arc::ptr_eq(&place.source, source))
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
