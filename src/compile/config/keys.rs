//! The keys of each table. The parser finds the reader of a key in these lists, and its suggestions
//! for unknown keys come from them. The tests of `schema` compare the lists with the schema.

use super::parse::{TomlValue, Walk};
use super::{ConfigFile, Env, Filesystem, Git, Limits, PresetDefinition};
use crate::diagnostic::{listed, nearest};
use crate::policy::{HardLinks, IfMissing, LimitKind, Sourced};

/// The keys of a TOML table whose values fill a `T`.
pub(super) type KeyTable<T> = &'static [KeyReader<T>];

pub(super) type KeyReader<T> = (&'static str, fn(&mut Walk<'_>, &'static str, &TomlValue<'_>, &mut T));

pub(super) const TOP_LEVEL: KeyTable<ConfigFile> = &[
    ("filesystem", |walk, key, value, it| walk.table(FILESYSTEM, key, value, &mut it.filesystem)),
    ("network", |walk, key, value, it| it.network = walk.boolean(key, value)),
    ("docker", |walk, key, value, it| it.docker = walk.boolean(key, value)),
    ("nested", |walk, key, value, it| it.nested = walk.boolean(key, value)),
    ("require", |walk, key, value, it| it.require = walk.choices(key, value)),
    ("env", |walk, key, value, it| walk.table(ENV, key, value, &mut it.env)),
    ("limits", |walk, key, value, it| walk.table(LIMITS, key, value, &mut it.limits)),
    ("git", |walk, key, value, it| walk.table(GIT, key, value, &mut it.git)),
    ("sockets", |walk, key, value, it| it.sockets = walk.paths(key, value)),
    ("inject", |walk, key, value, it| it.inject = walk.injections(key, value)),
    ("presets", |walk, key, value, it| walk.preset_definitions(key, value, it)),
];

pub(super) const FILESYSTEM: KeyTable<Filesystem> = &[
    ("presets", |walk, key, value, it| it.presets = walk.preset_switches(key, value)),
    ("ro", |walk, key, value, it| it.ro = walk.entries(key, value)),
    ("rw", |walk, key, value, it| it.rw = walk.entries(key, value)),
    ("exclude", |walk, key, value, it| it.exclude = walk.entries(key, value)),
    ("private", |walk, key, value, it| it.private = walk.entries(key, value)),
    ("tmp", |walk, key, value, it| it.tmp = walk.choice(key, value)),
    ("home", |walk, key, value, it| it.home = walk.choice(key, value)),
    ("base", |walk, key, value, it| it.base = walk.choice(key, value)),
];

pub(super) const ENV: KeyTable<Env> = &[
    ("inherit", |walk, key, value, it| it.inherit = walk.boolean(key, value)),
    ("pass", |walk, key, value, it| it.pass = walk.variable_names(key, value)),
    ("unset", |walk, key, value, it| it.unset = walk.variable_names(key, value)),
    ("set", |walk, key, value, it| it.set = walk.variables(key, value)),
];

pub(super) const LIMITS: KeyTable<Limits> = &[
    ("time", |walk, _, value, it| it.time = walk.limit(LimitKind::Time, value)),
    ("processes", |walk, _, value, it| it.processes = walk.limit(LimitKind::Processes, value)),
    ("file-size", |walk, _, value, it| it.file_size = walk.limit(LimitKind::FileSize, value)),
    ("output", |walk, _, value, it| it.output = walk.limit(LimitKind::Output, value)),
    ("tmp", |walk, _, value, it| it.tmp = walk.limit(LimitKind::Tmp, value)),
    ("memory", |walk, _, value, it| it.memory = walk.limit(LimitKind::Memory, value)),
    ("cpus", |walk, _, value, it| it.cpus = walk.limit(LimitKind::Cpus, value)),
];

pub(super) const GIT: KeyTable<Git> = &[("identity", |walk, key, value, it| it.identity = walk.identity(key, value))];

/// The table form of an identity, while the parser fills it.
#[derive(Default)]
pub(super) struct IdentityTable {
    pub name: Option<String>,
    pub email: Option<String>,
}

pub(super) const IDENTITY: KeyTable<IdentityTable> = &[
    ("name", |walk, key, value, it| it.name = walk.identity_text(key, value)),
    ("email", |walk, key, value, it| it.email = walk.identity_text(key, value)),
];

pub(super) const PRESET: KeyTable<PresetDefinition> = &[
    ("ro", |walk, key, value, it| it.ro = walk.entries(key, value)),
    ("rw", |walk, key, value, it| it.rw = walk.entries(key, value)),
    ("exclude", |walk, key, value, it| it.exclude = walk.entries(key, value)),
    ("private", |walk, key, value, it| it.private = walk.entries(key, value)),
    ("include", |walk, key, value, it| it.include = walk.preset_names(key, value)),
];

/// The table form of an entry, while the parser fills it.
#[derive(Default)]
pub(super) struct EntryTable {
    pub path: Option<Sourced<String>>,
    pub if_missing: Option<IfMissing>,
    pub hard_links: HardLinks,
}

pub(super) const ENTRY: KeyTable<EntryTable> =
    &[PATH, IF_MISSING, ("hard-links", |walk, key, value, it| it.hard_links = walk.choice_or_default(key, value))];

const PATH: KeyReader<EntryTable> = ("path", |walk, key, value, it| it.path = walk.one_path(key, value));

const IF_MISSING: KeyReader<EntryTable> =
    ("if-missing", |walk, key, value, it| it.if_missing = walk.choice(key, value).map(|given| given.value));

/// An injection, while the parser fills it.
#[derive(Default)]
pub(super) struct InjectTable {
    pub from: Option<Sourced<String>>,
    pub text: Option<Sourced<String>>,
    pub to: Option<Sourced<String>>,
}

pub(super) const INJECT: KeyTable<InjectTable> = &[
    ("from", |walk, key, value, it| it.from = walk.one_path(key, value)),
    ("text", |walk, key, value, it| it.text = walk.text(key, value).map(|text| walk.sourced(text, value))),
    ("to", |walk, key, value, it| it.to = walk.one_path(key, value)),
];

pub(super) fn names<T>(keys: KeyTable<T>) -> Vec<&'static str> {
    keys.iter().map(|(name, _)| *name).collect()
}

/// Our keys, each with synonyms that differ too much in spelling for [`nearest`].
const OTHER_WORDS: &[(&str, &[&str])] = &[
    ("include", &["presets", "extends"]),
    ("ro", &["read-only", "readonly"]),
    ("rw", &["read-write", "write", "writable"]),
    ("exclude", &["deny", "hide", "mask"]),
    ("env", &["environment"]),
    ("pass", &["allow", "include", "keep"]),
    ("unset", &["deny", "drop", "exclude", "remove"]),
    ("limits", &["limit", "resources"]),
    ("time", &["timeout", "wall-time", "duration"]),
    ("processes", &["pids", "nproc", "tasks", "threads"]),
    ("file-size", &["fsize"]),
    ("memory", &["mem", "ram", "memory-max"]),
    ("cpus", &["cpu", "cpu-quota", "processors"]),
];

/// The help for an unknown `key` in a table with the keys `known`.
pub(super) fn meant(key: &str, known: &[&'static str]) -> String {
    let spelled = key.to_lowercase().replace('_', "-");
    let is_meant = |(name, words): &&(&str, &[&str])| known.contains(name) && words.contains(&spelled.as_str());
    if let Some((name, _)) = OTHER_WORDS.iter().find(is_meant) {
        return format!("did you mean `{name}`?");
    }
    let is_variable = key.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_');
    if known == names(ENV) && is_variable && !key.is_empty() {
        return format!("write `set = {{ {key} = \"…\" }}` to give a variable a value");
    }
    // The key may belong to another table: in TOML, every key after `[filesystem]` belongs to that
    // table.
    let places = [
        (names(FILESYSTEM), "in `[filesystem]`"),
        (names(TOP_LEVEL), "at the top of the file, above the first `[table]`"),
        (names(PRESET), "in `[presets.NAME]`"),
        (names(ENTRY), "in an entry: { path = \"PATH\", if-missing = \"error\" }"),
        (names(ENV), "in `[env]`"),
        (names(LIMITS), "in `[limits]`"),
        (names(GIT), "in `[git]`"),
        (names(IDENTITY), "in `identity = { name = \"NAME\", email = \"ADDRESS\" }` of `[git]`"),
        (names(INJECT), "in `[[inject]]`"),
    ];
    if let Some((_, place)) = places.iter().find(|(keys, _)| keys.contains(&key)) {
        return format!("write `{key}` {place}");
    }
    match nearest(&spelled, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("write one of these keys: {}", listed(known.iter().map(|name| format!("`{name}`")), "and")),
    }
}
