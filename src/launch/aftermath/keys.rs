//! Reports which command-bearing keys of a mixed state file (`~/.claude.json`) changed during the
//! run. Such a file can be neither read-only nor split. Its values are not printed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::policy::path::{AbsPath, escape_for_display};

/// The state of an agent that has been used for years is a few megabytes.
const LARGEST: u64 = 64 << 20;
const MOST_NAMED: usize = 8;

pub(super) struct KeyWatch {
    path: AbsPath,
    patterns: Vec<String>,
    before: Vec<u8>,
}

impl KeyWatch {
    /// Reads the file and does not parse it, because most runs change nothing. `None` if there is
    /// no file.
    pub(super) fn start(host: &Host, path: &AbsPath, patterns: &[String]) -> Option<Self> {
        let before = host.read_regular(path, LARGEST).ok().flatten()?;
        Some(Self { path: path.clone(), patterns: patterns.to_vec(), before })
    }

    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        let after = host.read_regular(&self.path, LARGEST).ok().flatten().unwrap_or_default();
        if self.before == after {
            return;
        }
        let parse = |text: &[u8]| serde_json::from_slice::<Value>(text);
        // Other parsers accept more than ours: numbers beyond all bounds, or half a character.
        let message = match parse(&after) {
            Err(_) => format!("the run changed `{}`, which cannot be understood any more", self.path),
            Ok(after) => {
                let changed = changed(&self.patterns, &parse(&self.before).unwrap_or(Value::Null), &after);
                if changed.is_empty() {
                    return;
                }
                let changed = changed.iter().map(|key| format!("`{key}`")).collect();
                format!("the run changed {} in `{}`", super::held::shortened(changed, MOST_NAMED), self.path)
            }
        };
        let help =
            "these can name commands that run outside of the sandbox: look at them before you start the agent there";
        said.push(Diagnostic::new(Code::CommandsChanged, message).help(help));
    }
}

/// The keys, dotted, whose values differ. `*` in a pattern is any key. A missing value equals an
/// empty one.
fn changed(patterns: &[String], before: &Value, after: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pattern in patterns {
        let parts: Vec<&str> = pattern.split('.').collect();
        compare(&parts, "", before, after, &mut found);
    }
    found
}

fn compare(parts: &[&str], at: &str, before: &Value, after: &Value, found: &mut BTreeSet<String>) {
    let Some((first, rest)) = parts.split_first() else {
        let is_nothing = |value: &Value| match value {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if before != after && !(is_nothing(before) && is_nothing(after)) {
            found.insert(at.to_owned());
        }
        return;
    };
    let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<BTreeSet<_>>());
    let keys: BTreeSet<String> = match *first {
        "*" => [before, after].into_iter().filter_map(keys).flatten().collect(),
        key => BTreeSet::from([key.to_owned()]),
    };
    for key in keys {
        let below = |value: &Value| value.get(&key).cloned().unwrap_or(Value::Null);
        let name = escape_for_display(key.as_ref());
        let at = if at.is_empty() { name } else { format!("{at}.{name}") };
        compare(rest, &at, &below(before), &below(after), found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_values_that_count_are_compared_and_empty_is_nothing() {
        let patterns = ["mcpServers", "projects.*.mcpServers"].map(str::to_owned);
        let before = json!({ "count": 1, "projects": { "/a": { "mcpServers": { "x": 1 } }, "/b": {} } });
        let same = json!({ "count": 2, "mcpServers": {}, "projects": { "/a": { "mcpServers": { "x": 1 }, "y": 2 },
            "/b": { "mcpServers": {} }, "/c": { "mcpServers": [] } } });
        assert_eq!(changed(&patterns, &before, &same), BTreeSet::new());
        let after = json!({ "mcpServers": { "evil": 1 }, "projects": { "/b": { "mcpServers": { "evil": 1 } } } });
        let expected = ["mcpServers", "projects./a.mcpServers", "projects./b.mcpServers"].map(str::to_owned);
        assert_eq!(changed(&patterns, &before, &after), BTreeSet::from(expected));
        assert_eq!(changed(&patterns, &Value::Null, &json!([1])), BTreeSet::new());
    }
}
