//! Words and paths in JSON. Both are bytes on Linux, and JSON has only text.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::path::AbsPath;

/// A string, or, where it is not UTF-8, `{ "bytes": [ … ] }`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes { bytes: Vec<u8> },
}

impl Written {
    fn of(word: &OsStr) -> Self {
        match word.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes { bytes: word.as_bytes().to_vec() },
        }
    }

    fn into_word(self) -> OsString {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes { bytes } => OsString::from_vec(bytes),
        }
    }
}

/// A word as a value: what prints and what reads back agree on its form.
pub fn value(word: &OsStr) -> Value {
    // Both forms can be written as JSON.
    serde_json::to_value(Written::of(word)).unwrap_or_default()
}

/// One word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub OsString);

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::of(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Written::deserialize(deserializer)?.into_word()))
    }
}

impl Serialize for AbsPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::of(self.as_os_str()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AbsPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Written::deserialize(deserializer)?.into_word();
        let normal = AbsPath::normalize(&word);
        // Another spelling of a path was not written by us.
        normal.filter(|normal| normal.as_os_str() == word).ok_or_else(|| D::Error::custom("not a path"))
    }
}

impl JsonSchema for Word {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}

impl JsonSchema for AbsPath {
    fn schema_name() -> Cow<'static, str> {
        "Path".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::json_schema(generator)
    }
}
