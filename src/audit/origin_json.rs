//! Where a rule was written, for tools.

use schemars::JsonSchema;
use serde::Serialize;

use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;

/// Where something was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Whence {
    /// In a configuration file. Line and column count from 1.
    File { file: String, line: usize, column: usize },
    /// In a built-in preset.
    Preset { preset: String },
    /// On the command line.
    Flag { flag: String, value: Word },
    /// It is part of every policy.
    BuiltIn { because: String },
    /// For another name of the same thing, which is mounted in two places.
    Alias { of: AbsPath, whence: Box<Whence> },
}

impl From<&Origin> for Whence {
    fn from(origin: &Origin) -> Self {
        match origin {
            Origin::File(place) => {
                let (line, column) = place.line_column();
                Whence::File { file: place.source.name.clone(), line, column }
            }
            Origin::Preset { name, .. } => Whence::Preset { preset: (*name).to_owned() },
            Origin::Flag { flag, value } => Whence::Flag { flag: (*flag).to_owned(), value: Word(value.clone()) },
            Origin::BuiltIn(because) => Whence::BuiltIn { because: (*because).to_owned() },
            Origin::Alias { of, origin } => {
                Whence::Alias { of: of.clone(), whence: Box::new(Whence::from(origin.as_ref())) }
            }
        }
    }
}
