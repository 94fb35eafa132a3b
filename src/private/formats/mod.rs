//! The syntaxes of private files. Each can read all keys of a text, and write a text with some keys
//! changed. A change keeps the format, the order and the comments of everything else.

mod git;
mod json;
mod toml;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Serialize};

use crate::policy::private::FileFormat;
use crate::policy::{AbsPath, escape_for_display};
use crate::sys::ablate::{self, Mitigation};

pub(super) use git::GitProgram;

/// The parts of a key: section, subsection and name of git, or the names on the way to a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(super) Vec<Vec<u8>>);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the whole content");
        }
        let is_plain = |part: &[u8]| part.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
        for (at, part) in self.0.iter().enumerate() {
            let text = escape_for_display(std::ffi::OsStr::from_bytes(part));
            let dot = if at == 0 { "" } else { "." };
            match is_plain(part) {
                true => write!(f, "{dot}{text}")?,
                false => write!(f, "{dot}\"{}\"", text.replace('"', "\\\""))?,
            }
        }
        Ok(())
    }
}

/// The values of one key: several for git, one for the others, none for a key that is missing.
pub(crate) type Values = Vec<Vec<u8>>;

/// All keys of a text.
pub(crate) type Entries = BTreeMap<Key, Values>;

/// The most entries that a text may have. Each is kept with its whole key.
const MOST_ENTRIES: usize = 20_000;
/// The longest part of a key, in bytes.
const LONGEST_PART: usize = 4096;
/// The most bytes of all keys of a text together. Keys in a deep table repeat the names around it.
const MOST_KEY_BYTES: usize = 16 << 20;

/// Collects the keys of a text, and fails if they are too many or too long.
#[derive(Default)]
struct EntryReader {
    found: Entries,
    count: usize,
    key_bytes: usize,
}

impl EntryReader {
    fn add(&mut self, parts: &[&[u8]], value: Vec<u8>) -> Result<(), FormatError> {
        self.count += 1;
        self.key_bytes += parts.iter().map(|part| size_of::<Vec<u8>>() + part.len()).sum::<usize>();
        let is_long = parts.iter().any(|part| part.len() > LONGEST_PART);
        let is_large = is_long || self.count > MOST_ENTRIES || self.key_bytes > MOST_KEY_BYTES;
        if is_large && !ablate::is_off(Mitigation::PrivateCopyChecks) {
            return Err(FormatError::TooLarge);
        }
        let key = Key(parts.iter().map(|part| part.to_vec()).collect());
        self.found.entry(key).or_default().push(value);
        Ok(())
    }
}

/// Keys with their new values.
pub(crate) type KeyChanges = Vec<(Key, Values)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Syntax {
    Git,
    Toml,
    Json,
    /// Unknown: the content is one value.
    Opaque,
}

/// A text that cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormatError {
    #[error("it cannot be parsed")]
    Syntax,
    #[error("it has too many keys, or one that is too long")]
    TooLarge,
    #[error("git cannot change it")]
    Git(#[source] io::Error),
    #[error("no program `git` outside of the project was found")]
    NoGit,
}

impl FormatError {
    /// Whether the text itself is the cause.
    pub(super) fn is_of_the_text(&self) -> bool {
        matches!(self, Self::Syntax | Self::TooLarge)
    }
}

impl Syntax {
    pub(super) fn of(format: FileFormat, path: &AbsPath) -> Self {
        let extension = path.as_path().extension().unwrap_or_default();
        match format {
            FileFormat::Git => Self::Git,
            FileFormat::Toml => Self::Toml,
            FileFormat::Json => Self::Json,
            FileFormat::ByName if extension == "toml" => Self::Toml,
            FileFormat::ByName if extension == "json" => Self::Json,
            FileFormat::ByName => Self::Opaque,
        }
    }

    /// All keys of `text`.
    pub(super) fn read(self, text: &[u8]) -> Result<Entries, FormatError> {
        match self {
            Self::Git => git::read(text),
            Self::Toml => toml::read(text),
            Self::Json => json::read(text),
            Self::Opaque => Ok(Entries::from([(Key(Vec::new()), vec![text.to_vec()])])),
        }
    }

    /// `text` with these changes.
    pub(super) fn write(
        self,
        text: &[u8],
        changes: &[(Key, Values)],
        git: Option<&GitProgram>,
    ) -> Result<Vec<u8>, FormatError> {
        match self {
            Self::Git => git.ok_or(FormatError::NoGit)?.write(text, changes).map_err(FormatError::Git),
            Self::Toml => toml::write(text, changes),
            Self::Json => json::write(text, changes),
            Self::Opaque => changes
                .last()
                .map_or(Some(text.to_vec()), |(_, values)| values.first().cloned())
                .ok_or(FormatError::Syntax),
        }
    }

    /// The text of a value that is a string.
    pub(super) fn string(self, value: &[u8]) -> Option<String> {
        match self {
            Self::Git | Self::Opaque => String::from_utf8(value.to_vec()).ok(),
            Self::Toml => toml::string(value),
            Self::Json => serde_json::from_slice(value).ok(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;

    /// `a.b.c`, split at the dots.
    pub(in crate::private) fn key(text: &str) -> Key {
        Key(text.split('.').map(|part| part.as_bytes().to_vec()).collect())
    }

    /// A change to one value, or to none.
    pub(in crate::private) fn change(text: &str, value: Option<&str>) -> (Key, Values) {
        (key(text), value.map(|value| value.as_bytes().to_vec()).into_iter().collect())
    }

    /// The text after these changes. Asserts that the new text has these changes and no others.
    pub(in crate::private) fn changed(syntax: Syntax, text: &str, changes: &[(&str, Option<&str>)]) -> String {
        let changes: KeyChanges = changes.iter().map(|(key, value)| change(key, *value)).collect();
        let git = GitProgram::for_tests();
        let written = syntax.write(text.as_bytes(), &changes, Some(&git)).unwrap();
        let mut expected = syntax.read(text.as_bytes()).unwrap();
        for (key, values) in changes {
            match values.is_empty() {
                true => expected.remove(&key),
                false => expected.insert(key, values),
            };
        }
        assert_eq!(syntax.read(&written).unwrap(), expected, "{text}");
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn the_name_tells_the_format_of_a_users_file() {
        let of = |path: &str| Syntax::of(FileFormat::ByName, &AbsPath::normalize(path).unwrap());
        assert_eq!(
            ["/a.toml", "/a.json", "/a.yaml", "/json"].map(of),
            [Syntax::Toml, Syntax::Json, Syntax::Opaque, Syntax::Opaque]
        );
    }

    // SPEC Q7
    #[test]
    fn a_text_with_long_or_many_keys_is_too_large() {
        let is_too_large =
            |syntax: Syntax, text: String| matches!(syntax.read(text.as_bytes()), Err(FormatError::TooLarge));
        let long = |length: usize| "x".repeat(length);
        for (length, expected) in [(LONGEST_PART, false), (LONGEST_PART + 1, true)] {
            assert_eq!(is_too_large(Syntax::Git, format!("[a \"{}\"]\nb = 1\n", long(length))), expected);
            assert_eq!(is_too_large(Syntax::Json, format!("{{\"{}\": 1}}", long(length))), expected);
            assert_eq!(is_too_large(Syntax::Toml, format!("{} = 1\n", long(length))), expected);
        }
        for (count, expected) in [(MOST_ENTRIES, false), (MOST_ENTRIES + 1, true)] {
            assert_eq!(is_too_large(Syntax::Git, format!("[a]\n{}", "b\n".repeat(count))), expected);
        }
        // Each key has the names around it.
        let names = |level: usize| format!("{{\"{level}{}\": ", long(4000));
        let around: String = (0..20).map(names).collect();
        let members: Vec<String> = (0..1000).map(|number| format!("\"{number}\": 1")).collect();
        assert!(is_too_large(Syntax::Json, format!("{around}{{{}}}{}", members.join(","), "}".repeat(20))));
    }

    #[test]
    fn a_key_is_shown_so_that_nothing_in_it_can_pass_for_another_key() {
        assert_eq!(key("core.hookspath").to_string(), "core.hookspath");
        let odd = Key(vec![b"branch".to_vec(), b"a.b\n".to_vec(), b"merge".to_vec()]);
        assert_eq!(odd.to_string(), "branch.\"a.b\\n\".merge");
        let quotes = Key(vec![b"branch".to_vec(), b"a\".\"b".to_vec(), b"merge".to_vec()]);
        assert_eq!(quotes.to_string(), "branch.\"a\\\".\\\"b\".merge");
    }
}
