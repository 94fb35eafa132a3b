//! Reports keys of a mixed state file (`~/.claude.json`) that name commands or give consent and
//! that changed during the run. Such a file can be neither read-only nor split. Its values are not
//! printed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::compile::presets::data::ObeyedKey;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::policy::path::{AbsPath, escape_for_display};

/// The largest state file that is compared. The state of an agent that has been used for years is a
/// few megabytes.
const LARGEST: u64 = 64 << 20;

pub(super) struct KeyWatch {
    path: AbsPath,
    keys: &'static [ObeyedKey],
    before: Vec<u8>,
}

impl KeyWatch {
    /// Reads the file and does not parse it, because most runs change nothing. A file that cannot
    /// be read counts as empty, so that all keys in it count as new after the run.
    pub(super) fn start(host: &Host, path: AbsPath, keys: &'static [ObeyedKey]) -> Self {
        let before = host.read_regular(&path, LARGEST).ok().flatten().unwrap_or_default();
        Self { path, keys, before }
    }

    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        let after = match host.read_regular(&self.path, LARGEST) {
            Ok(None) => return,
            Ok(Some(after)) if self.before == after => return,
            after => after.ok().flatten(),
        };
        let parse = |text: &[u8]| serde_json::from_slice::<Value>(text);
        // The agent's parser may accept text that ours refuses, such as a huge number or half a
        // character. So such text is reported.
        let (message, notes) = match after.and_then(|after| parse(&after).ok()) {
            None => (format!("the run changed `{}`, which cannot be understood any more", self.path), Vec::new()),
            Some(after) => {
                let changed = changed(self.keys, &parse(&self.before).unwrap_or(Value::Null), &after);
                if changed.is_empty() {
                    return;
                }
                let notes = changed.iter().map(|(key, reason)| format!("`{key}`: {reason}")).collect();
                (format!("the run changed settings that an agent obeys in `{}`", self.path), notes)
            }
        };
        let help = "look at it before you start the agent outside, which obeys it, too";
        let changed = Diagnostic::new(Code::CommandsChanged, message).notes(notes);
        said.push(changed.paths([self.path.clone()]).help(help));
    }
}

/// The dotted names of keys whose values differ, each with its reason. A missing value equals an
/// empty one.
fn changed(keys: &[ObeyedKey], before: &Value, after: &Value) -> BTreeMap<String, &'static str> {
    let mut found = BTreeMap::new();
    for ObeyedKey { key, reason, .. } in keys {
        let parts: Vec<&str> = key.split('.').collect();
        let mut differ = BTreeSet::new();
        compare(&parts, "", before, after, &mut differ);
        found.extend(differ.into_iter().map(|key| (key, *reason)));
    }
    found
}

fn compare(parts: &[&str], at: &str, before: &Value, after: &Value, found: &mut BTreeSet<String>) {
    let Some((first, rest)) = parts.split_first() else {
        let is_nothing = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
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
    let (name, condition) = first.split_once('?').unwrap_or((first, ""));
    let keys: BTreeSet<String> = match name {
        "*" => [before, after].into_iter().filter_map(keys).flatten().collect(),
        key => BTreeSet::from([key.to_owned()]),
    };
    for key in keys {
        let below =
            |value: &Value| value.get(&key).filter(|below| meets(condition, below)).cloned().unwrap_or_default();
        let name = escape_for_display(key.as_ref());
        let at = if at.is_empty() { name } else { format!("{at}.{name}") };
        compare(rest, &at, &below(before), &below(after), found);
    }
}

/// Whether `value` has the member that the condition (`type=wellknown`) asks for.
fn meets(condition: &str, value: &Value) -> bool {
    let Some((member, expected)) = condition.split_once('=') else { return true };
    value.get(member).and_then(Value::as_str) == Some(expected)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // SPEC R3
    #[test]
    fn only_listed_values_are_compared_and_empty_equals_missing() {
        let patterns = [("mcpServers", "programs"), ("projects.*.mcpServers", "programs"), ("trusted", "consent")];
        let keys = patterns.map(|(key, reason)| ObeyedKey { key, reason, names_programs: false });
        let changed = |before: &Value, after: &Value| changed(&keys, before, after);
        let before = json!({ "count": 1, "projects": { "/a": { "mcpServers": { "x": 1 } }, "/b": {} } });
        let same = json!({ "count": 2, "mcpServers": {}, "trusted": false, "projects": { "/a": { "mcpServers": { "x": 1 }, "y": 2 },
            "/b": { "mcpServers": {} }, "/c": { "mcpServers": [] } } });
        assert_eq!(changed(&before, &same), BTreeMap::new());
        let after = json!({ "mcpServers": { "evil": 1 }, "projects": { "/b": { "mcpServers": { "evil": 1 } } },
            "trusted": true });
        let expected = ["mcpServers", "projects./a.mcpServers", "projects./b.mcpServers"];
        let expected = expected.map(|key| (key.to_owned(), "programs"));
        let expected = expected.into_iter().chain([("trusted".to_owned(), "consent")]).collect();
        assert_eq!(changed(&before, &after), expected);
        assert_eq!(changed(&Value::Null, &json!([1])), BTreeMap::new());
    }

    // SPEC R3
    #[test]
    fn a_condition_leaves_out_values_of_another_kind() {
        let keys = [ObeyedKey { key: "*?type=x", reason: "r", names_programs: false }];
        let of = |before: Value, after: Value| changed(&keys, &before, &after).into_keys().collect::<Vec<_>>();
        let entry = |kind: &str, key: &str| json!({ "a": { "type": kind, "key": key } });
        assert_eq!(of(entry("y", "1"), entry("y", "2")), Vec::<String>::new());
        for (before, after) in [(json!({}), entry("x", "1")), (entry("y", "1"), entry("x", "1"))] {
            assert_eq!(of(before, after), ["a"]);
        }
        assert_eq!(of(entry("x", "1"), entry("x", "2")), ["a"]);
        assert_eq!(of(json!([1]), json!({ "a": "x" })), Vec::<String>::new());
    }
}
