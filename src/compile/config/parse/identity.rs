//! `[git] identity`.

use toml::de::DeValue;

use super::super::keys::{IDENTITY, IdentityTable, names};
use super::{TomlValue, Walk, printable};
use crate::compile::identity::GitIdentity;
use crate::diagnostic::Code;
use crate::policy::Sourced;

/// The longest name or address. The kernel refuses variables of more than 128 KiB.
const MOST_BYTES: usize = 1000;

const HELP: &str = "write \"host\", false, or { name = \"Agent\", email = \"agent@localhost\" }";

impl Walk<'_> {
    pub(in super::super) fn identity(&mut self, key: &str, value: &TomlValue<'_>) -> Option<Sourced<GitIdentity>> {
        let identity = match value.get_ref() {
            DeValue::String(word) if word.as_ref() == "host" => GitIdentity::Host,
            DeValue::Boolean(false) => GitIdentity::None,
            DeValue::String(word) => {
                let message = format!("`{}` is not a value of `{key}`", printable(word));
                self.note(&value.span(), Code::InvalidValue, message, Some(HELP.to_owned()));
                return None;
            }
            DeValue::Table(table) => {
                let mut read = IdentityTable::default();
                self.keys(IDENTITY, format_args!("in `{key}`"), table, &mut read);
                for name in names(IDENTITY) {
                    if !table.keys().any(|key| key.get_ref().as_ref() == name) {
                        let (message, help) = (format!("`{key}` has no `{name}`"), format!("add `{name} = \"…\"`"));
                        self.note(&value.span(), Code::InvalidValue, message, Some(help));
                    }
                }
                GitIdentity::Own { name: read.name?, email: read.email? }
            }
            _ => {
                self.wrong_type(key, "a string, `false` or a table", value, Some(HELP.to_owned()));
                return None;
            }
        };
        Some(self.sourced(identity, value))
    }

    /// A text that git accepts as a name or an address.
    pub(in super::super) fn identity_text(&mut self, key: &str, value: &TomlValue<'_>) -> Option<String> {
        let DeValue::String(text) = value.get_ref() else {
            let help = format!("write `{key} = \"…\"`, or `identity = false` to set nothing");
            self.wrong_type(key, "a string", value, Some(help));
            return None;
        };
        let (message, help) = if text.chars().any(|c| c.is_ascii_control()) {
            (format!("`{key}` contains a control character"), "write it on one line, as plain text")
        } else if text.len() > MOST_BYTES {
            (format!("`{key}` is longer than {MOST_BYTES} bytes"), "write a name or an address")
        } else if text.chars().all(|c| c == ' ') {
            (format!("`{key}` is empty"), "write one, or `identity = false` to set nothing")
        } else {
            return Some(text.as_ref().to_owned());
        };
        self.note(&value.span(), Code::InvalidValue, message, Some(help.to_owned()));
        None
    }
}
