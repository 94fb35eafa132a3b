//! `[[inject]]`.

use toml::de::DeValue;

use super::super::InjectEntry;
use super::super::keys::{INJECT, InjectTable, names};
use super::{TomlValue, Walk};
use crate::diagnostic::Code;

impl Walk<'_> {
    pub(in super::super) fn injections(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<InjectEntry> {
        let DeValue::Array(elements) = value.get_ref() else {
            let help = "write `[[inject]]`, and below it `from` or `text`, and `to`";
            self.wrong_type(key, "an array of tables", value, Some(help.to_owned()));
            return Vec::new();
        };
        elements.iter().filter_map(|element| self.injection(key, element)).collect()
    }

    fn injection(&mut self, key: &str, value: &TomlValue<'_>) -> Option<InjectEntry> {
        let DeValue::Table(table) = value.get_ref() else {
            let help = "write { from = \"FILE\", to = \"PATH\" }";
            self.wrong_element(key, "tables", value, Some(help.to_owned()));
            return None;
        };
        let mut read = InjectTable::default();
        self.keys(INJECT, format_args!("in `[[{key}]]`"), table, &mut read);
        // An unusable value or a misspelt key already has its own diagnostic.
        let has = |key: &str| table.keys().any(|other| other.get_ref() == key);
        let is_understood = table.keys().all(|key| names(INJECT).contains(&key.get_ref().as_ref()));
        let problem = match (has("from"), has("text"), has("to")) {
            (true, true, _) => Some(("has both `from` and `text`", "keep one of the two")),
            (false, false, _) => Some(("has neither `from` nor `text`", "add `from = \"FILE\"` or `text = \"…\"`")),
            (_, _, false) => Some(("has no `to`", "add `to = \"PATH\"`, where the command reads it")),
            _ => None,
        };
        if let Some((problem, help)) = problem.filter(|_| is_understood) {
            let message = format!("this entry of `{key}` {problem}");
            self.note(&value.span(), Code::InvalidValue, message, Some(help.to_owned()));
            return None;
        }
        let to = read.to?;
        let contents = [read.from.as_ref(), read.text.as_ref()].into_iter().flatten();
        let from_origin = contents.map(|content| content.origin.clone()).next()?;
        let (from, text) = (read.from.map(|from| from.value.into()), read.text.map(|text| text.value));
        let is_one = from.is_some() != text.is_some();
        is_one.then(|| InjectEntry { from, text, to: to.value.into(), from_origin, origin: to.origin })
    }
}
