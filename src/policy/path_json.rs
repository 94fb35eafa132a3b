//! Byte strings and paths in JSON. Both are bytes on Linux, and JSON has only text.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::policy::AbsPath;

/// A string, or, where it is not UTF-8, `{ "bytes": [ … ] }`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum TextOrBytes<'w> {
    Text(&'w str),
    Bytes { bytes: &'w [u8] },
}

impl<'w> TextOrBytes<'w> {
    fn of(word: &'w OsStr) -> Self {
        match word.to_str() {
            Some(text) => Self::Text(text),
            None => Self::Bytes { bytes: word.as_bytes() },
        }
    }
}

/// A [`TextOrBytes`] for reading. Only this type refuses unknown keys, because the published
/// schema does not mention them.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum OwnedTextOrBytes {
    Text(String),
    Bytes { bytes: Vec<u8> },
}

impl From<OwnedTextOrBytes> for Word {
    fn from(read: OwnedTextOrBytes) -> Self {
        match read {
            OwnedTextOrBytes::Text(text) => Self(text.into()),
            OwnedTextOrBytes::Bytes { bytes } => Self(OsString::from_vec(bytes)),
        }
    }
}

pub fn value(word: &OsStr) -> Value {
    // Both forms can be written as JSON, so this does not fail.
    serde_json::to_value(TextOrBytes::of(word)).unwrap_or_default()
}

/// An argument of a command, or the name of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "OwnedTextOrBytes")]
pub struct Word(pub OsString);

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        TextOrBytes::of(&self.0).serialize(serializer)
    }
}

impl Serialize for AbsPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        TextOrBytes::of(self.as_os_str()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AbsPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Word(word) = Word::deserialize(deserializer)?;
        let normal = AbsPath::normalize(&word);
        // Our own output contains no other spelling of a path.
        normal.filter(|normal| normal.as_os_str() == word).ok_or_else(|| D::Error::custom("not a path"))
    }
}

impl JsonSchema for Word {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        TextOrBytes::json_schema(generator)
    }
}

impl JsonSchema for AbsPath {
    fn schema_name() -> Cow<'static, str> {
        "Path".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        TextOrBytes::json_schema(generator)
    }
}
