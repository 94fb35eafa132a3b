//! Settings in TOML. Keys that hold credentials are removed, in tables of all kinds.

use toml_edit::visit_mut::{VisitMut, visit_table_like_mut};
use toml_edit::{DocumentMut, TableLike};

use super::Unclear;
use super::lines::is_reference;

const KEYS: [&str; 8] =
    ["token", "password", "passwd", "secret", "secret-key", "secret_key", "auth-token", "auth_token"];

pub(super) fn without_credentials(text: &str) -> Result<String, Unclear> {
    // A comment may hold an old token.
    let is_old = |line: &&str| {
        let setting = line.trim_start().strip_prefix('#').and_then(|comment| comment.split_once('='));
        setting.is_some_and(|(key, _)| is_credential(key.trim().trim_matches('"')))
    };
    let kept: String = text.split_inclusive('\n').filter(|line| !is_old(line)).collect();
    let mut document: DocumentMut = kept.parse().map_err(|_| Unclear::Syntax)?;
    let mut removal = Removal { has_removed: false };
    removal.visit_document_mut(&mut document);
    Ok(if removal.has_removed { document.to_string() } else { kept })
}

fn is_credential(key: &str) -> bool {
    // In a comment, a key may have its table before it.
    let key = key.rsplit('.').next().unwrap_or(key);
    KEYS.iter().any(|known| key.eq_ignore_ascii_case(known))
}

struct Removal {
    has_removed: bool,
}

impl VisitMut for Removal {
    fn visit_table_like_mut(&mut self, table: &mut dyn TableLike) {
        // Bun reads `$NAME` as a variable.
        let is_name = |value: &str| is_reference(value) || value.starts_with('$');
        let holds =
            |(key, value): &(&str, &toml_edit::Item)| is_credential(key) && !value.as_str().is_some_and(is_name);
        let keys: Vec<String> = table.iter().filter(holds).map(|(key, _)| key.to_owned()).collect();
        for key in keys {
            self.has_removed |= table.remove(&key).is_some();
        }
        visit_table_like_mut(self, table);
    }
}
