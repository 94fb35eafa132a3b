//! `[env]`: names of variables, and their values.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::{TomlValue, Walk, as_key, printable};
use crate::diagnostic::Code;
use crate::policy::Sourced;

impl Walk<'_> {
    /// Names, or patterns for names. `environment` reports invalid patterns.
    pub(in super::super) fn variable_names(&mut self, key: &str, value: &TomlValue<'_>) -> Vec<Sourced<String>> {
        let mut names = self.strings(key, value);
        names.retain(|written| match unusable(&written.value) {
            None => true,
            Some((message, help)) => {
                self.note_at(written, Code::InvalidValue, message, help);
                false
            }
        });
        names
    }

    pub(in super::super) fn variables(
        &mut self,
        key: &str,
        value: &TomlValue<'_>,
    ) -> BTreeMap<String, Sourced<String>> {
        let mut variables = BTreeMap::new();
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(key, "a table", value, Some(format!("write `{key} = {{ NAME = \"value\" }}`")));
            return variables;
        };
        for (name, value) in table {
            let text = name.get_ref().as_ref();
            if let Some((message, _)) = unusable(text) {
                let help = "write names and values as in `NAME = \"value\"`".to_owned();
                self.note(&name.span(), Code::InvalidValue, message, Some(help));
                continue;
            }
            let dotted = format!("{key}.{}", as_key(text));
            match value.get_ref() {
                DeValue::String(given) if given.contains('\0') => {
                    let message = format!("the value of `{}` contains a NUL byte", printable(text));
                    self.note(&value.span(), Code::InvalidValue, message, Some("remove the NUL byte".to_owned()));
                }
                DeValue::String(given) => {
                    variables.insert(text.to_owned(), self.sourced(given.as_ref().to_owned(), value));
                }
                DeValue::Array(_) | DeValue::Table(_) => self.wrong_type(&dotted, "a string", value, None),
                _ => {
                    let written = self.source.text.get(value.span()).unwrap_or_default();
                    let help = format!("write it in quotes: \"{}\"", printable(written));
                    self.wrong_type(&dotted, "a string", value, Some(help));
                }
            }
        }
        variables
    }
}

/// The reason why no variable can have this name, and the help.
fn unusable(name: &str) -> Option<(String, String)> {
    if name.is_empty() {
        let help = "write a name such as `CI`, or a pattern such as `NODE_*`";
        return Some(("an empty string does not name a variable".to_owned(), help.to_owned()));
    }
    if name.contains('\0') {
        return Some((format!("`{}` contains a NUL byte", printable(name)), "remove the NUL byte".to_owned()));
    }
    let (before, after) = name.split_once('=')?;
    let help = match before.is_empty() || before.contains(['*', '?', '[', '{']) {
        true => "write the name alone".to_owned(),
        false => format!(
            "write the name alone; to give it a value, write `set = {{ {} = \"{}\" }}`",
            as_key(before),
            printable(after)
        ),
    };
    Some((format!("`{}` cannot be the name of a variable: it contains `=`", printable(name)), help))
}
