//! Turns text into a [`ConfigFile`]. The walk over the parsed TOML records every mistake and goes
//! on, so that one run shows them all. It leaves mistaken values out; a policy with mistakes never
//! runs (SPEC L8).

mod identity;
mod injections;
mod variables;

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{ENTRY, EntryTable, KeyTable, PRESET, TOP_LEVEL, meant, names};
use super::{ConfigFile, Entry, PresetDefinition, is_preset_name};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, nearest};
use crate::policy::limits::form;
use crate::policy::{IfMissing, Limit, LimitKind, Origin, Place, Source, Sourced, escape_for_display};

pub(super) type TomlValue<'t> = Spanned<DeValue<'t>>;

pub fn parse(source: &Arc<Source>, diagnostics: &mut Diagnostics) -> ConfigFile {
    let mut file = ConfigFile::default();
    Walk::run(source, diagnostics, |walk, table| {
        walk.keys(TOP_LEVEL, format_args!("at the top level"), table, &mut file)
    });
    file
}

pub(super) struct Walk<'a> {
    source: &'a Arc<Source>,
    found: Vec<(Range<usize>, Diagnostic)>,
}

impl<'a> Walk<'a> {
    fn run(source: &'a Arc<Source>, diagnostics: &mut Diagnostics, read: impl FnOnce(&mut Self, &DeTable<'_>)) {
        let mut walk = Self { source, found: Vec::new() };
        match DeTable::parse(&source.text) {
            Ok(table) => read(&mut walk, table.get_ref()),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                walk.note(&span, Code::InvalidToml, escape_for_display(OsStr::new(error.message())), None);
            }
        }
        // The TOML parser sorts keys by name; people read from top to bottom.
        walk.found.sort_by_key(|(span, _)| span.start);
        for (_, diagnostic) in walk.found {
            diagnostics.push(diagnostic);
        }
    }

    fn origin(&self, span: &Range<usize>) -> Origin {
        Origin::File(Place { source: Arc::clone(self.source), span: span.clone() })
    }

    fn note(&mut self, span: &Range<usize>, code: Code, message: impl Into<String>, help: Option<String>) {
        let mut diagnostic = Diagnostic::new(code, message).at(&self.origin(span));
        diagnostic.help = help;
        self.found.push((span.clone(), diagnostic));
    }

    pub(super) fn sourced<T>(&self, value: T, written: &TomlValue<'_>) -> Sourced<T> {
        Sourced { value, origin: self.origin(&written.span()) }
    }

    /// `place` is the part of the message that says where the table is.
    fn keys<T>(&mut self, known: KeyTable<T>, place: fmt::Arguments<'_>, table: &DeTable<'_>, into: &mut T) {
        for (key, value) in table {
            match known.iter().find(|(name, _)| *name == key.get_ref().as_ref()) {
                Some((name, read)) => read(self, name, value, into),
                None => {
                    let text = key.get_ref().as_ref();
                    let message = format!("unknown key `{}` {place}", printable(text));
                    self.note(&key.span(), Code::UnknownKey, message, Some(meant(text, &names(known))));
                }
            }
        }
    }

    /// `key` is dotted, as in the header of the table.
    pub(super) fn table<T>(&mut self, known: KeyTable<T>, key: &str, value: &TomlValue<'_>, into: &mut T) {
        match value.get_ref() {
            DeValue::Table(table) => self.keys(known, format_args!("in `[{key}]`"), table, into),
            _ => self.wrong_type(key, "a table", value, Some(format!("write it as `[{key}]`"))),
        }
    }

    fn wrong_type(&mut self, what: &str, expected: &str, value: &TomlValue<'_>, help: Option<String>) {
        let message = format!("`{what}` must be {expected}, not {}", kind(value));
        self.note(&value.span(), Code::WrongType, message, help);
    }

    pub(super) fn boolean(&mut self, key: &str, value: &TomlValue<'_>) -> Option<Sourced<bool>> {
        match value.get_ref() {
            DeValue::Boolean(given) => Some(self.sourced(*given, value)),
            _ => {
                let quotes = if value.get_ref().is_str() { ", without quotes" } else { "" };
                self.wrong_type(key, "a boolean", value, Some(format!("write `true` or `false`{quotes}")));
                None
            }
        }
    }

    pub(super) fn text(&mut self, key: &str, value: &TomlValue<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref().to_owned()),
            _ => {
                self.wrong_type(key, "a string", value, None);
                None
            }
        }
    }

    pub(super) fn limit(&mut self, kind: LimitKind, value: &TomlValue<'_>) -> Option<Sourced<Limit>> {
        let expected = match kind {
            LimitKind::Processes => "an integer",
            LimitKind::Cpus => "a number",
            _ => "a string",
        };
        let text = match (kind, value.get_ref()) {
            (LimitKind::Cpus, DeValue::Float(number)) => number.as_str().to_owned(),
            // A number that is too large for TOML is too large for a limit.
            (LimitKind::Processes | LimitKind::Cpus, DeValue::Integer(number)) => {
                i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX).to_string()
            }
            (_, DeValue::String(text)) if expected == "a string" => text.as_ref().to_owned(),
            _ => {
                self.wrong_type(&kind.to_string(), expected, value, Some(form(kind)));
                return None;
            }
        };
        match Limit::parse(kind, &text) {
            Ok(limit) => Some(self.sourced(limit, value)),
            Err(error) => {
                self.note(&value.span(), Code::InvalidValue, printable(&error.to_string()), Some(error.help()));
                None
            }
        }
    }

    pub(super) fn choice<T: Choice>(&mut self, key: &str, value: &TomlValue<'_>) -> Option<Sourced<T>> {
        let all = |words: &[String]| format!("write {}", listed(words.iter().map(|word| format!("\"{word}\"")), "or"));
        let DeValue::String(text) = value.get_ref() else {
            self.wrong_type(key, "a string", value, Some(all(&words::<T>())));
            return None;
        };
        let read: Result<T, ValueError> = T::deserialize(text.as_ref().into_deserializer());
        if let Ok(given) = read {
            return Some(self.sourced(given, value));
        }
        let words = words::<T>();
        let help = match nearest(text, words.iter().map(String::as_str)) {
            Some(word) => format!("did you mean \"{word}\"?"),
            None => all(&words),
        };
        let message = format!("`{}` is not a value of `{key}`", printable(text));
        self.note(&value.span(), Code::InvalidValue, message, Some(help));
        None
    }

    pub(super) fn choice_or_default<T: Choice + Default>(&mut self, key: &str, value: &TomlValue<'_>) -> T {
        self.choice(key, value).map_or_else(T::default, |given| given.value)
    }

    pub(super) fn choices<T: Choice>(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<Sourced<T>> {
        self.array(key, value).iter().filter_map(|element| self.choice(key, element)).collect()
    }

    /// The elements of an array. If the value is a lone element, the help shows it in brackets.
    fn array<'v, 't>(&mut self, key: &str, value: &'v TomlValue<'t>) -> &'v [TomlValue<'t>] {
        if let DeValue::Array(elements) = value.get_ref() {
            return elements;
        }
        let written = self.source.text.get(value.span()).unwrap_or_default();
        let is_lone = written.starts_with(['"', '\'', '{']) && !written.contains('\n');
        self.wrong_type(key, "an array", value, is_lone.then(|| format!("write `{key} = [{}]`", printable(written))));
        &[]
    }

    fn strings(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<Sourced<String>> {
        let mut strings = Vec::new();
        for element in self.array(key, value) {
            match element.get_ref() {
                DeValue::String(text) => strings.push(self.sourced(text.as_ref().to_owned(), element)),
                _ => self.wrong_element(key, "strings", element, None),
            }
        }
        strings
    }

    fn wrong_element(&mut self, key: &str, expected: &str, element: &TomlValue<'_>, help: Option<String>) {
        let message = format!("`{key}` holds {expected}, not {}", kind(element));
        self.note(&element.span(), Code::WrongType, message, help);
    }

    pub(super) fn entries(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<Entry> {
        self.array(key, value).iter().filter_map(|element| self.entry(key, element)).collect()
    }

    fn entry(&mut self, key: &str, value: &TomlValue<'_>) -> Option<Entry> {
        match value.get_ref() {
            DeValue::String(text) => {
                let path = self.path(self.sourced(text.as_ref().to_owned(), value))?;
                let if_missing = default_if_missing(key, &path.value);
                Some(Entry { if_missing, ..Entry::new(path.value.into(), path.origin) })
            }
            DeValue::Table(table) => {
                let mut entry = EntryTable::default();
                self.keys(ENTRY, format_args!("in an entry of `{key}`"), table, &mut entry);
                // An unusable path or a misspelt key already has its own diagnostic.
                let is_other = |key: &str| key != "path" && names(ENTRY).contains(&key);
                if table.keys().all(|key| is_other(key.get_ref())) {
                    let help = Some("add `path = \"PATH\"`".to_owned());
                    self.note(&value.span(), Code::InvalidValue, format!("this entry of `{key}` has no `path`"), help);
                }
                let path = entry.path?;
                Some(Entry {
                    if_missing: entry.if_missing.unwrap_or_else(|| default_if_missing(key, &path.value)),
                    hard_links: entry.hard_links,
                    ..Entry::new(path.value.into(), path.origin)
                })
            }
            _ => {
                let help = Some("write \"PATH\", or { path = \"PATH\", if-missing = \"error\" }".to_owned());
                self.wrong_element(key, "strings and tables", value, help);
                None
            }
        }
    }

    pub(super) fn paths(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<Sourced<String>> {
        self.strings(key, value).into_iter().filter_map(|written| self.path(written)).collect()
    }

    pub(super) fn path(&mut self, written: Sourced<String>) -> Option<Sourced<String>> {
        let (message, help) = if written.value.is_empty() {
            ("the path is empty".to_owned(), "write \".\" for the folder that relative paths start at")
        } else if written.value.contains('\0') {
            (format!("`{}` contains a NUL byte", printable(&written.value)), "remove the NUL byte")
        } else {
            return Some(written);
        };
        self.note_at(&written, Code::InvalidPath, message, help.to_owned());
        None
    }

    /// A single string that is a path.
    pub(super) fn one_path(&mut self, key: &str, value: &TomlValue<'_>) -> Option<Sourced<String>> {
        let written = self.text(key, value).map(|text| self.sourced(text, value));
        written.and_then(|written| self.path(written))
    }

    pub(super) fn preset_definitions(&mut self, key: &str, value: &TomlValue<'_>, file: &mut ConfigFile) {
        let DeValue::Table(table) = value.get_ref() else {
            let help =
                "define presets as `[presets.NAME]`; to switch presets on or off, write `presets` in `[filesystem]`";
            return self.wrong_type(key, "a table", value, Some(help.to_owned()));
        };
        for (name, value) in table {
            let text = name.get_ref().as_ref();
            let mut definition = PresetDefinition::empty(self.origin(&name.span()));
            self.table(PRESET, &format!("{key}.{}", as_key(text)), value, &mut definition);
            if is_preset_name(text) {
                file.presets.insert(text.to_owned(), definition);
                continue;
            }
            let message = format!("`{}` cannot be the name of a preset", printable(text));
            let help = "use lower-case letters, digits, `-`, `_` and `/`, with a letter or digit first";
            self.note(&name.span(), Code::InvalidPresetName, message, Some(help.to_owned()));
        }
    }

    /// `@name` and `!@name`.
    pub(super) fn preset_switches(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<Sourced<String>> {
        let mut strings = self.strings(key, value);
        strings.retain(|written| match written.value.strip_prefix('!') {
            Some(name) => self.is_reference("!", name, written),
            None => self.is_reference("", &written.value, written),
        });
        strings
    }

    /// `@name` alone: a preset cannot remove another one.
    pub(super) fn preset_names(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<Sourced<String>> {
        let mut strings = self.strings(key, value);
        strings.retain(|written| {
            if !written.value.starts_with('!') {
                return self.is_reference("", &written.value, written);
            }
            let message = format!("`{}` removes a preset, and `{key}` can only add", printable(&written.value));
            let help = "switch it off with `presets` in `[filesystem]`".to_owned();
            self.note_at(written, Code::InvalidValue, message, help);
            false
        });
        strings
    }

    fn is_reference(&mut self, sign: &str, name: &str, written: &Sourced<String>) -> bool {
        if name.strip_prefix('@').is_some_and(is_preset_name) {
            return true;
        }
        let bare = name.trim_start_matches('@').to_lowercase();
        let help = format!("write `{sign}@{}`", if is_preset_name(&bare) { &bare } else { "NAME" });
        let message = match written.value.as_str() {
            "" => "an empty string does not name a preset".to_owned(),
            text => format!("`{}` does not name a preset", printable(text)),
        };
        self.note_at(written, Code::InvalidValue, message, help);
        false
    }

    fn note_at(&mut self, written: &Sourced<String>, code: Code, message: String, help: String) {
        if let Some(place) = written.origin.place() {
            self.note(&place.span, code, message, Some(help));
        }
    }
}

/// A value from a short list of words in the schema.
pub(super) trait Choice: DeserializeOwned + JsonSchema {}

impl<T: DeserializeOwned + JsonSchema> Choice for T {}

fn words<T: Choice>() -> Vec<String> {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    let words = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    words.filter_map(|word| Some(word.get("const")?.as_str()?.to_owned())).collect()
}

/// `name` as a part of a dotted key. Only letters, digits, `-` and `_` need no quotes there.
fn as_key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let needs_quotes = name.is_empty() || !name.chars().all(is_bare);
    if needs_quotes { format!("\"{}\"", printable(name)) } else { name.to_owned() }
}

fn kind(value: &TomlValue<'_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn printable(text: &str) -> String {
    escape_for_display(OsStr::new(text))
}

/// The command gets a copy of a missing private file, too. A pattern blocks nothing.
fn default_if_missing(key: &str, path: &str) -> IfMissing {
    let is_pattern = path.contains(['*', '?', '[', '{']);
    if key == "private" && !is_pattern { IfMissing::Block } else { IfMissing::Skip }
}

#[cfg(test)]
mod tests;
