//! The keys of each table, as the lists that the parser dispatches from. The same lists answer what an unknown key
//! was meant to be, and `tests` holds them against the schema.

use super::parse::{Value, Walk};
use super::{BuiltinPreset, ConfigFile, Env, Filesystem, OnlyBuiltIn, PresetDefinition, RelativeTo};
use crate::diagnostic::{listed, nearest};
use crate::policy::origin::Sourced;
use crate::policy::rule::{HardLinks, IfMissing, Mask};

/// The keys of a table that fills a `T`.
pub(super) type Keys<T> = &'static [Key<T>];

/// A key, and what to do with its value.
pub(super) type Key<T> = (&'static str, fn(&mut Walk<'_>, &'static str, &Value<'_>, &mut T));

pub(super) const TOP_LEVEL: Keys<ConfigFile> = &[
    ("filesystem", |walk, key, value, it| walk.table(FILESYSTEM, key, value, &mut it.filesystem)),
    ("network", |walk, key, value, it| it.network = walk.boolean(key, value)),
    ("docker", |walk, key, value, it| it.docker = walk.boolean(key, value)),
    ("nested", |walk, key, value, it| it.nested = walk.boolean(key, value)),
    ("require", |walk, key, value, it| it.require = walk.choices(key, value)),
    ("env", |walk, key, value, it| walk.table(ENV, key, value, &mut it.env)),
    ("sockets", |walk, key, value, it| it.sockets = walk.paths(key, value)),
    ("presets", |walk, key, value, it| walk.preset_definitions(key, value, it)),
];

pub(super) const FILESYSTEM: Keys<Filesystem> = &[
    ("presets", |walk, key, value, it| it.presets = walk.preset_switches(key, value)),
    ("ro", |walk, key, value, it| it.ro = walk.entries(key, value)),
    ("rw", |walk, key, value, it| it.rw = walk.entries(key, value)),
    ("exclude", |walk, key, value, it| it.exclude = walk.entries(key, value)),
    ("tmp", |walk, key, value, it| it.tmp = walk.choice(key, value)),
];

pub(super) const ENV: Keys<Env> = &[
    ("inherit", |walk, key, value, it| it.inherit = walk.boolean(key, value)),
    ("pass", |walk, key, value, it| it.pass = walk.variable_names(key, value)),
    ("unset", |walk, key, value, it| it.unset = walk.variable_names(key, value)),
    ("set", |walk, key, value, it| it.set = walk.variables(key, value)),
];

pub(super) const PRESET: Keys<PresetDefinition> = &[
    ("ro", |walk, key, value, it| it.ro = walk.entries(key, value)),
    ("rw", |walk, key, value, it| it.rw = walk.entries(key, value)),
    ("exclude", |walk, key, value, it| it.exclude = walk.entries(key, value)),
    ("include", |walk, key, value, it| it.include = walk.preset_names(key, value)),
];

pub(super) const BUILTIN: Keys<BuiltinPreset> = &[
    ("description", |walk, key, value, it| it.description = walk.text(key, value).unwrap_or_default()),
    ("skip-directories", |walk, key, value, it| it.skip_directories = walk.texts(key, value)),
    ("skip-beside", |walk, key, value, it| it.skip_beside = walk.text(key, value)),
    ("leave-tracked", |walk, key, value, it| {
        it.leave_tracked = walk.boolean(key, value).is_some_and(|given| given.value);
    }),
    ("relative-to", |walk, key, value, it| {
        it.relative_to = walk.choice(key, value).map_or_else(RelativeTo::default, |given| given.value);
    }),
    ("ro", |walk, key, value, it| it.definition.ro = walk.entries(key, value)),
    ("rw", |walk, key, value, it| it.definition.rw = walk.entries(key, value)),
    ("exclude", |walk, key, value, it| it.definition.exclude = walk.entries(key, value)),
    ("include", |walk, key, value, it| it.definition.include = walk.preset_names(key, value)),
];

/// The table form of an entry, while it is read.
#[derive(Default)]
pub(super) struct EntryTable {
    pub path: Option<Sourced<String>>,
    /// There is a `path`, but it cannot be used.
    pub bad_path: bool,
    pub if_missing: IfMissing,
    pub hard_links: HardLinks,
    pub only_built_in: OnlyBuiltIn,
}

pub(super) const ENTRY: Keys<EntryTable> = &[PATH, IF_MISSING, HARD_LINKS];

pub(super) const BUILTIN_ENTRY: Keys<EntryTable> = &[
    PATH,
    IF_MISSING,
    ("except", |walk, key, value, it| it.only_built_in.except = walk.texts(key, value)),
    MASK,
    NEEDS_PARENT,
    IN_USE,
    REPORT_KEYS,
    ("create-for", |walk, key, value, it| it.only_built_in.create_for = walk.text(key, value)),
    ("content", |walk, key, value, it| it.only_built_in.content = walk.text(key, value)),
    ("also-at", |walk, key, value, it| it.only_built_in.also_at = walk.text(key, value)),
    ("told-by", |walk, key, value, it| it.only_built_in.told_by = walk.text(key, value)),
];

const PATH: Key<EntryTable> = ("path", |walk, key, value, it| {
    it.path = walk.text(key, value).and_then(|text| walk.path(text, value));
    it.bad_path = it.path.is_none();
});

const IF_MISSING: Key<EntryTable> = ("if-missing", |walk, key, value, it| {
    it.if_missing = walk.choice(key, value).map_or_else(IfMissing::default, |given| given.value);
});

const HARD_LINKS: Key<EntryTable> = ("hard-links", |walk, key, value, it| {
    it.hard_links = walk.choice(key, value).map_or_else(HardLinks::default, |given| given.value);
});

const MASK: Key<EntryTable> = ("mask", |walk, key, value, it| {
    it.only_built_in.mask = walk.choice(key, value).map_or_else(Mask::default, |given| given.value);
});

const NEEDS_PARENT: Key<EntryTable> = ("needs-parent", |walk, key, value, it| {
    it.only_built_in.needs_parent = walk.boolean(key, value).is_some_and(|given| given.value);
});

const IN_USE: Key<EntryTable> = ("in-use", |walk, key, value, it| it.only_built_in.in_use = walk.texts(key, value));

const REPORT_KEYS: Key<EntryTable> =
    ("report-keys", |walk, key, value, it| it.only_built_in.report_keys = walk.texts(key, value));

pub(super) fn names<T>(keys: Keys<T>) -> Vec<&'static str> {
    keys.iter().map(|(name, _)| *name).collect()
}

/// Words that mean one of our keys and are spelled too differently for [`nearest`].
const OTHER_WORDS: &[(&str, &str)] = &[
    ("presets", "include"),
    ("extends", "include"),
    ("read-only", "ro"),
    ("readonly", "ro"),
    ("read-write", "rw"),
    ("write", "rw"),
    ("writable", "rw"),
    ("deny", "exclude"),
    ("hide", "exclude"),
    ("mask", "exclude"),
    ("environment", "env"),
    ("allow", "pass"),
    ("include", "pass"),
    ("keep", "pass"),
    ("deny", "unset"),
    ("drop", "unset"),
    ("exclude", "unset"),
    ("remove", "unset"),
];

/// What someone who wrote `key` in a table with the keys `known` should write instead.
pub(super) fn meant(key: &str, known: &[&'static str]) -> String {
    let spelled = key.to_lowercase().replace('_', "-");
    let other_word = OTHER_WORDS.iter().find(|(word, name)| *word == spelled && known.contains(name));
    if let Some((_, name)) = other_word {
        return format!("did you mean `{name}`?");
    }
    if known == names(ENV) && is_variable(key) {
        return format!("to give a variable a value, write `set = {{ {key} = \"…\" }}`");
    }
    // A right key in the wrong table. Easily done in TOML, where all that follows `[filesystem]` is in it.
    if names(FILESYSTEM).contains(&key) {
        return format!("`{key}` belongs in `[filesystem]`");
    }
    if names(TOP_LEVEL).contains(&key) {
        return format!("`{key}` belongs at the top of the file, above the first `[table]`");
    }
    if names(PRESET).contains(&key) {
        return format!("`{key}` belongs in `[presets.NAME]`");
    }
    if names(ENTRY).contains(&key) {
        return format!("`{key}` belongs in an entry: {{ path = \"PATH\", if-missing = \"error\" }}");
    }
    if names(ENV).contains(&key) {
        return format!("`{key}` belongs in `[env]`");
    }
    match nearest(&spelled, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the keys here are {}", listed(known.iter().map(|name| format!("`{name}`")), "and")),
    }
}

/// Whether it looks like `NODE_ENV`.
fn is_variable(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_')
}
