//! Origins in JSON.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::policy::{AbsPath, Origin, Word};

/// Where something was written.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum OriginJson<'o> {
    /// In a configuration file. Line and column count from 1.
    File { file: &'o str, line: usize, column: usize },
    /// In a built-in preset.
    Preset { preset: &'o str },
    /// On the command line.
    Flag { flag: &'o str, value: Word },
    /// It is part of every policy.
    BuiltIn { because: &'o str },
    /// For another name of the same thing, which is mounted in two places.
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
