//! Programs that the settings of agents on the host name (SPEC P18). Without a rule of its own, the
//! script of a hook or a status line in an agent's writable folder would be writable, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::host::Host;
use crate::host::commands::{self, CommandSearch, distinct, words_of};
use crate::policy::AbsPath;

use super::data::{AgentFile, FileUse, PRESETS};

/// The largest file of settings that is read. The state of an agent that has been used for years is
/// a few megabytes.
const LARGEST: u64 = 64 << 20;

/// The extensions of files with data, which commands write: logs, notes, histories, databases.
const DATA: [&str; 9] = ["log", "txt", "md", "csv", "jsonl", "history", "db", "sqlite", "sqlite3"];

/// The files in the home or in the project that settings of agents name as part of a command. A
/// missing file counts only if a whole word of the command is its path.
pub(crate) fn named_by_agents(host: &Host, home: &AbsPath, root: &AbsPath) -> BTreeSet<AbsPath> {
    let mut programs = BTreeSet::new();
    for file in PRESETS.iter().flat_map(|preset| preset.agent_files) {
        // The agent cannot read a file that this user cannot read.
        let path = home.join(file.path.trim_start_matches("~/"));
        let resolved = host.resolve(path.as_path()).map_or(path, |found| found.path);
        let Ok(Some(text)) = host.read_regular(&resolved, LARGEST) else { continue };
        for command in commands_in(file, &text) {
            let places = |value: &[u8], from: &AbsPath| commands::places(host, home, value, from);
            let mut search = CommandSearch { host, places, tops: vec![home, root], links: &mut BTreeSet::new() };
            let files = search.files(&command).into_iter();
            let files = files.filter(|file| (file.exists || file.is_plain) && !is_data(file.path.as_path()));
            programs.extend(files.map(|file| file.path));
        }
    }
    programs
}

fn is_data(path: &Path) -> bool {
    path.extension().is_some_and(|kind| DATA.iter().any(|data| kind.eq_ignore_ascii_case(data)))
}

/// The words of each command in the settings. The strings of one object belong together: `command`,
/// `args` and `cwd`. A text in another format has one command in each line.
fn commands_in(file: &AgentFile, text: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut commands = Vec::new();
    match parsed(file, text) {
        Some(value) => strings(&value, &mut commands),
        None => commands.extend(String::from_utf8_lossy(text).lines().map(|line| vec![line.to_owned()])),
    }
    let words = |texts: &Vec<String>| {
        distinct(texts.iter().flat_map(|text| words_of(without_outputs(text).as_bytes())).collect())
    };
    commands.iter().map(words).collect()
}

fn parsed(file: &AgentFile, text: &[u8]) -> Option<Value> {
    match file.used {
        FileUse::Mixed { keys, .. } => {
            let patterns = keys.iter().filter(|key| key.names_programs).map(|key| key.key.split('.').collect());
            let patterns: Vec<Vec<&str>> = patterns.collect();
            let patterns: Vec<&[&str]> = patterns.iter().map(Vec::as_slice).collect();
            Some(selected(&String::from_utf8_lossy(text), &patterns))
        }
        FileUse::ReadOnly { except } => {
            let mut value: Value = match file.path.rsplit_once('.') {
                Some((_, "toml")) => toml::from_str(std::str::from_utf8(text).ok()?).ok()?,
                Some((_, "json")) => serde_json::from_slice(text).ok()?,
                _ => return None,
            };
            for key in except {
                value.as_object_mut().and_then(|members| members.remove(*key));
            }
            Some(value)
        }
    }
}

/// Adds the strings of each object in `value`.
fn strings(value: &Value, found: &mut Vec<Vec<String>>) {
    fn add(value: &Value, own: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        match value {
            Value::String(text) => own.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| add(item, own, found)),
            Value::Object(_) => strings(value, found),
            _ => {}
        }
    }
    let mut own = Vec::new();
    match value {
        Value::Object(members) => members.values().for_each(|member| add(member, &mut own, found)),
        other => add(other, &mut own, found),
    }
    if !own.is_empty() {
        found.push(own);
    }
}

/// The command without the files that it writes: `>> ~/.claude/commands.log`.
fn without_outputs(command: &str) -> String {
    let mut rest = command;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once('>') {
        kept.push_str(before);
        kept.push(' ');
        let name = after.trim_start_matches(['>', '|', '&', ' ']);
        let quote = name.chars().next().filter(|first| "\"'".contains(*first));
        let end = match quote {
            Some(quote) => name[1..].find(quote).map(|end| end + 2),
            None => name.find(|c: char| c.is_whitespace() || ";|&)".contains(c)),
        };
        rest = &name[end.unwrap_or(name.len())..];
    }
    kept + rest
}

/// The values at the patterns (`projects.*.hooks`). Everything else is skipped, and settings that
/// the agent cannot read name nothing.
fn selected(text: &str, patterns: &[&[&str]]) -> Value {
    if patterns.iter().any(|pattern| pattern.is_empty()) {
        return serde_json::from_str(text).unwrap_or_default();
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<BTreeMap<String, &RawValue>>();
    let members = values.next().and_then(Result::ok).unwrap_or_default();
    let members = members.into_iter().filter_map(|(key, value)| {
        let inner = patterns.iter().filter_map(|pattern| pattern.split_first());
        let inner = inner.filter(|(first, _)| [&"*", &key.as_str()].contains(first)).map(|(_, rest)| rest);
        let inner: Vec<&[&str]> = inner.collect();
        (!inner.is_empty()).then(|| (key, selected(value.get(), &inner)))
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC P18
    #[test]
    fn files_that_a_command_writes_are_no_part_of_it() {
        for (command, expected) in [
            ("jq . >> ~/.claude/x && sh y", "jq .   && sh y"),
            ("sh a 2>&1 | sh b >'my log'; c", "sh a 2  | sh b  ; c"),
            ("a > b", "a  "),
            ("a >", "a  "),
            ("a >\"b", "a  "),
        ] {
            assert_eq!(without_outputs(command), expected, "{command}");
        }
    }

    // SPEC P18
    #[test]
    fn only_the_values_that_name_programs_are_read() {
        let file = PRESETS.iter().flat_map(|preset| preset.agent_files).find(|file| file.path == "~/.claude.json");
        let text = br#"{ "n": [1, {"hooks": "~/no"}], "exampleFiles": ["~/no"], "mcpServers": { "x": { "command":
            "node", "args": ["~/a"], "env": { "V": "~/b" } } }, "projects": { "/p": { "hooks": "~/c", "history":
            ["~/no"] }, "/q": null }, "apiKeyHelper": "~/d", "hooks": 1.5 }"#;
        let mut found = Vec::new();
        strings(&parsed(file.unwrap(), text).unwrap(), &mut found);
        let expected: [&[&str]; 4] = [&["~/b"], &["~/c"], &["~/d"], &["~/a", "node"]];
        assert_eq!(found.len(), expected.len());
        for texts in expected {
            let is_there = |of: &Vec<String>| texts.iter().all(|text| of.contains(&(*text).to_owned()));
            assert!(found.iter().any(is_there), "{texts:?} in {found:?}");
        }
        assert!(!format!("{found:?}").contains("no\""));
    }
}
