//! Words and paths in JSON. Both are bytes on Linux, and JSON has only text.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::policy::path::AbsPath;

/// A string, or, where it is not UTF-8, `{ "bytes": [ … ] }`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Written<'w> {
    Text(&'w str),
    Bytes { bytes: &'w [u8] },
}

impl<'w> Written<'w> {
    fn of(word: &'w OsStr) -> Self {
        match word.to_str() {
            Some(text) => Self::Text(text),
            None => Self::Bytes { bytes: word.as_bytes() },
        }
    }
}

/// Reads what [`Written`] writes. By hand, because an untagged enum keeps a copy of each value to try one form after the other, and a plan has
/// thousands of paths.
struct ReadWord;

impl<'de> Visitor<'de> for ReadWord {
    type Value = OsString;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string, or an object with `bytes`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<OsString, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OsString, A::Error> {
        match map.next_entry::<Cow<'de, str>, Vec<u8>>()? {
            Some((name, bytes)) if name == "bytes" && map.next_key::<IgnoredAny>()?.is_none() => {
                Ok(OsString::from_vec(bytes))
            }
            _ => Err(A::Error::custom("not an object with `bytes` alone")),
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
        deserializer.deserialize_any(ReadWord).map(Self)
    }
}

impl Serialize for AbsPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written::of(self.as_os_str()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AbsPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = deserializer.deserialize_any(ReadWord)?;
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
