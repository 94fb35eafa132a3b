//! Files that hold state and lists of commands in one, so that they can be neither closed nor split: which of the values
//! that name commands are others after the run. The values themselves are nobody's business.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed};
use crate::host::Host;
use crate::policy::path::{AbsPath, escape_for_display};

/// The state of an agent that has been used for years is a few megabytes.
const LARGEST: u64 = 64 << 20;
const MOST_NAMED: usize = 8;

pub(super) struct Keys {
    path: AbsPath,
    patterns: Vec<String>,
    before: Option<Vec<u8>>,
}

impl Keys {
    pub(super) fn new(path: &AbsPath, patterns: &[String]) -> Self {
        Self { path: path.clone(), patterns: patterns.to_vec(), before: None }
    }

    /// Only reads: most runs change nothing, and then nothing needs to be understood.
    pub(super) fn start(&mut self, host: &Host) {
        self.before = host.read_regular(&self.path, LARGEST).ok().flatten();
    }

    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        let Some(before) = &self.before else { return };
        let after = host.read_regular(&self.path, LARGEST).ok().flatten().unwrap_or_default();
        if *before == after {
            return;
        }
        let parse = |text: &[u8]| serde_json::from_slice::<Value>(text);
        let help =
            "these can name commands that run outside of the sandbox: look at them before you start the agent there";
        // Others read what we do not: numbers beyond all bounds, or half a character.
        let Ok(understood) = parse(&after) else {
            let message = format!("the run changed `{}`, which cannot be understood any more", self.path);
            said.push(Diagnostic::new(Code::CommandsChanged, message).help(help));
            return;
        };
        let changed = changed(&self.patterns, &parse(before).unwrap_or(Value::Null), &understood);
        if changed.is_empty() {
            return;
        }
        let more = changed.len().saturating_sub(MOST_NAMED);
        let mut named: Vec<String> = changed.iter().take(MOST_NAMED).map(|key| format!("`{key}`")).collect();
        if more > 0 {
            named.push(format!("{more} more"));
        }
        let message = format!("the run changed {} in `{}`", listed(named.into_iter(), "and"), self.path);
        said.push(Diagnostic::new(Code::CommandsChanged, message).help(help));
    }
}

/// The keys, dotted, whose values differ. `*` in a pattern is any key; nothing and something empty are the same.
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
