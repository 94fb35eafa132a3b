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
    harmless: &'static [&'static str],
    before: Vec<u8>,
}

impl KeyWatch {
    /// Reads the file and does not parse it, because most runs change nothing. A file that cannot
    /// be read counts as empty, so that all keys in it count as new after the run.
    pub(super) fn start(
        host: &Host,
        path: AbsPath,
        keys: &'static [ObeyedKey],
        harmless: &'static [&'static str],
    ) -> Self {
        let before = host.read_regular(&path, LARGEST).ok().flatten().unwrap_or_default();
        Self { path, keys, harmless, before }
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
                let before = parse(&self.before).unwrap_or(Value::Null);
                let mut changed = changed(self.keys, &before, &after);
                if !self.harmless.is_empty() {
                    add_unknown(self.harmless, &before, &after, &mut changed);
                }
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

/// Adds the keys of the top level that changed, are not harmless, and of which nothing is reported.
fn add_unknown(harmless: &[&str], before: &Value, after: &Value, found: &mut BTreeMap<String, &'static str>) {
    for key in keys_of(before, after).into_iter().filter(|key| !harmless.contains(&key.as_str())) {
        let name = escape_for_display(key.as_ref());
        let is_part = |known: &String| known.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.'));
        let below = |value: &Value| value.get(&key).cloned().unwrap_or_default();
        if differ(&below(before), &below(after)) && !found.keys().any(is_part) {
            found.entry(name).or_insert("it is not known to be harmless");
        }
    }
}

fn keys_of(before: &Value, after: &Value) -> BTreeSet<String> {
    [before, after].into_iter().filter_map(Value::as_object).flat_map(|map| map.keys().cloned()).collect()
}

fn differ(before: &Value, after: &Value) -> bool {
    let is_off = |value: &Value| matches!(value, Value::Null | Value::Bool(false));
    let is_nothing = |value: &Value| match value {
        Value::Object(map) => map.values().all(is_off),
        Value::Array(list) => list.is_empty(),
        value => is_off(value),
    };
    before != after && !(is_nothing(before) && is_nothing(after))
}

fn compare(parts: &[&str], at: &str, before: &Value, after: &Value, found: &mut BTreeSet<String>) {
    let Some((first, rest)) = parts.split_first() else {
        if differ(before, after) {
            found.insert(at.to_owned());
        }
        return;
    };
    let (name, condition) = first.split_once('?').unwrap_or((first, ""));
    let keys: BTreeSet<String> = match name {
        "*" => keys_of(before, after),
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

/// Whether `value` has the member that the condition (`type=wellknown`) asks for, or, for `!`, a
/// text that starts with `!`.
fn meets(condition: &str, value: &Value) -> bool {
    match (condition, value) {
        ("", _) => true,
        ("!", Value::String(text)) => text.starts_with('!'),
        ("!", Value::Array(list)) => list.iter().any(|item| meets("!", item)),
        ("!", Value::Object(map)) => map.values().any(|member| meets("!", member)),
        _ => condition
            .split_once('=')
            .is_some_and(|(member, expected)| value.get(member).and_then(Value::as_str) == Some(expected)),
    }
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
    fn every_key_counts_that_is_not_known_to_be_harmless() {
        let keys = [ObeyedKey { key: "permissions.allow", reason: "consent", names_programs: false }];
        let (before, after) = (
            json!({ "model": 1, "permissions": {} }),
            json!({ "model": 2, "permissions": { "allow": 1, "x": 1 }, "a?b": 1, "*": 1, "new": { "on": false } }),
        );
        let mut found = changed(&keys, &before, &after);
        add_unknown(&["model"], &before, &after, &mut found);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["*", "a?b", "permissions.allow"]);
        let mut found = BTreeMap::new();
        add_unknown(&["model"], &json!({ "permissions": { "x": 1 } }), &json!({}), &mut found);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["permissions"]);
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
        let keys = [ObeyedKey { key: "*?!", reason: "r", names_programs: false }];
        let of = |before: Value, after: Value| changed(&keys, &before, &after).into_keys().collect::<Vec<_>>();
        assert_eq!(of(entry("y", "1"), entry("y", "2!")), Vec::<String>::new());
        assert_eq!(of(entry("y", "1"), json!({ "a": { "env": ["!2"] } })), ["a"]);
        assert_eq!(of(entry("y", "!1"), entry("y", "!2")), ["a"]);
    }
}
