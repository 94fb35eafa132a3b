//! The keys of a configuration file, their documentation, and the JSON schema made of both.
//!
//! An editor shows the doc comments of these fields, so they address the author of the file.
//! `parse` turns text into these types, and `schema` turns the types into the JSON schema.

mod keys;
mod parse;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compile::identity::GitIdentity;
use crate::policy::{
    Access, HardLinks, IfMissing, Limit, LimitKind, Origin, Protection, Sourced, rule::display_as_in_json,
};

pub use parse::parse;
pub use schema::schema;

/// The policy of agent-sandbox: the paths and services that a sandboxed command may read, write,
/// and reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(title = "agent-sandbox configuration", deny_unknown_fields, default)]
pub struct ConfigFile {
    /// The paths that the command can read and write. Paths that no rule names are read-only.
    pub filesystem: Filesystem,

    /// Whether the command can use the network. Default: `true`.
    #[schemars(with = "bool", extend("default" = true))]
    pub network: Option<Sourced<bool>>,

    /// Whether the command can reach the Docker (or Podman) socket. A process that can reach it can
    /// read and write this whole machine. Default: `false`.
    #[schemars(with = "bool", extend("default" = false))]
    pub docker: Option<Sourced<bool>>,

    /// Whether the command can make user namespaces, as container tools and browsers' own sandboxes
    /// do. It can then also rename folders that are otherwise kept in place. Default: `false`.
    #[schemars(with = "bool", extend("default" = false))]
    pub nested: Option<Sourced<bool>>,

    /// Protections without which nothing runs. By default, agent-sandbox only warns if this machine
    /// lacks one. Default: none.
    #[schemars(with = "Vec<Protection>")]
    pub require: Vec<Sourced<Protection>>,

    /// The variables of the environment that the command gets.
    pub env: Env,

    /// Limits of the command's resources. A limit that this machine cannot enforce is an error.
    pub limits: Limits,
    /// The settings of git inside the sandbox.
    pub git: Git,

    /// Sockets of services on this machine that the command can connect to: paths and globs. All
    /// others outside of the project are hidden. A service does everything for the command that it
    /// does for you: an SSH agent signs, a session bus starts programs outside of the sandbox.
    /// Default: none.
    #[schemars(schema_with = "schema::paths")]
    pub sockets: Vec<Sourced<String>>,

    /// Files and folders that the command reads at another path, in this run alone. The host's
    /// files at that path stay as they are. Default: none.
    pub inject: Vec<InjectEntry>,

    /// Presets of your own, by name. A definition does nothing until `filesystem.presets` of this
    /// or a later configuration file names it. Default: none.
    #[schemars(schema_with = "schema::preset_definitions")]
    pub presets: BTreeMap<String, PresetDefinition>,
}

/// The paths that the command can read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields, default)]
pub struct Filesystem {
    /// Presets to switch on (`"@lint/ts"`) or off (`"!@caches"`). Removals apply first, then
    /// additions; their order does not matter. Default: `@all` is on.
    #[schemars(schema_with = "schema::preset_switches")]
    pub presets: Vec<Sourced<String>>,

    /// Paths and globs that can be read and not written, also inside writable folders. Default:
    /// none besides those of the presets.
    pub ro: Vec<Entry>,

    /// Paths and globs that can be read and written, also inside excluded folders. Default: none
    /// besides those of the presets.
    pub rw: Vec<Entry>,

    /// Paths and globs whose contents are hidden. Default: none besides those of the presets.
    pub exclude: Vec<Entry>,

    /// Files that the command changes in a copy only. agent-sandbox keeps the copy for this
    /// project. The host's file is read-only, and no change of the copy reaches it. If the host has
    /// no such file, the copy starts empty. Default: none besides those of the presets.
    pub private: Vec<Entry>,

    /// The `/tmp` that the command sees. Default: `"private"`.
    #[schemars(with = "Tmp", extend("default" = "private"))]
    pub tmp: Option<Sourced<Tmp>>,

    /// The home that the command sees. Default: `"host"`, or `"private"` with `base = "minimal"`.
    #[schemars(with = "Home", extend("default" = "host"))]
    pub home: Option<Sourced<Home>>,

    /// The other folders of this machine that the command sees. Default: `"host"`.
    #[schemars(with = "BaseTree", extend("default" = "host"))]
    pub base: Option<Sourced<BaseTree>>,
}

/// The variables of the environment that the command gets. A variable that no entry names passes,
/// unless it leads to a socket or a session of the host (`SSH_AUTH_SOCK`, `DISPLAY`, …).
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields, default)]
pub struct Env {
    /// Whether variables that no entry names pass. With `false`, only those that every program
    /// needs (`PATH`, `HOME`, `TERM`, `LANG`, …) still pass. Default: `true`.
    #[schemars(with = "bool", extend("default" = true))]
    pub inherit: Option<Sourced<bool>>,

    /// Names of variables that pass with the caller's values: `["CI", "NODE_*"]`. Default: none
    /// besides the built-in ones.
    #[schemars(schema_with = "schema::variable_names")]
    pub pass: Vec<Sourced<String>>,

    /// Names of variables that do not pass: `["AWS_*"]`. In one configuration file this beats
    /// `pass`. Default: none besides the built-in ones.
    #[schemars(schema_with = "schema::variable_names")]
    pub unset: Vec<Sourced<String>>,

    /// Variables and their values: `{ CI = "1" }`. Every user who can read this file can read them.
    /// Default: none.
    #[schemars(schema_with = "schema::variables")]
    pub set: BTreeMap<String, Sourced<String>>,
}

/// Limits of the command's resources. A limit that this machine cannot enforce is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Limits {
    /// The time that the command can run: a number with `ms`, `s`, `m`, `h` or `d`, such as
    /// `"30m"`. When the time is over, the command gets SIGTERM, and 10 seconds later everything
    /// inside is killed. The exit code is 124. Default: no limit.
    #[schemars(schema_with = "schema::time")]
    pub time: Option<Sourced<Limit>>,

    /// The largest number of processes and threads inside at any moment, such as `512`. The kernel
    /// refuses more (EAGAIN), and no report says so. Default: no limit.
    #[schemars(schema_with = "schema::processes")]
    pub processes: Option<Sourced<Limit>>,

    /// The maximum size of each file that the command writes: a number with `B`, `K`, `M`, `G` or
    /// `T`, such as `"2G"`. The kernel ends a program that writes more (SIGXFSZ), and no report
    /// says so. Default: no limit.
    #[schemars(schema_with = "schema::size")]
    pub file_size: Option<Sourced<Limit>>,

    /// The number of bytes that the command can write to standard output and standard error
    /// together, such as `"10M"`. A command that writes more is ended like one that exceeds
    /// `time`. Not possible on a terminal. Default: no limit.
    #[schemars(schema_with = "schema::size")]
    pub output: Option<Sourced<Limit>>,

    /// The size of the private `/tmp`, such as `"1G"`. `/dev/shm`, a private home and other places
    /// of the sandbox's own have the same size. Default: `"4G"`, and at most half of the memory.
    #[schemars(schema_with = "schema::size")]
    pub tmp: Option<Sourced<Limit>>,

    /// The memory that all processes inside can have together, without swap, such as `"4G"`. Needs
    /// a cgroup that controls memory, from a systemd user manager or delegated. Default: no limit.
    #[schemars(schema_with = "schema::size")]
    pub memory: Option<Sourced<Limit>>,

    /// The number of processors that all processes inside can keep busy together, such as `2.0`.
    /// Needs a cgroup that controls processor time, from a systemd user manager or delegated.
    /// Default: no limit.
    #[schemars(schema_with = "schema::cpus")]
    pub cpus: Option<Sourced<Limit>>,
}

impl Limits {
    pub fn iter(&self) -> impl Iterator<Item = &Sourced<Limit>> {
        let Self { time, processes, file_size, output, tmp, memory, cpus } = self;
        [time, processes, file_size, output, tmp, memory, cpus].into_iter().flatten()
    }
}

/// A later limit of the same kind replaces an earlier one.
impl FromIterator<Sourced<Limit>> for Limits {
    fn from_iter<I: IntoIterator<Item = Sourced<Limit>>>(all: I) -> Self {
        let mut limits = Self::default();
        for limit in all {
            let place = match limit.value.kind() {
                LimitKind::Time => &mut limits.time,
                LimitKind::Processes => &mut limits.processes,
                LimitKind::FileSize => &mut limits.file_size,
                LimitKind::Output => &mut limits.output,
                LimitKind::Tmp => &mut limits.tmp,
                LimitKind::Memory => &mut limits.memory,
                LimitKind::Cpus => &mut limits.cpus,
            };
            *place = Some(limit);
        }
        limits
    }
}

/// The settings of git inside the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields, default)]
pub struct Git {
    /// The author and committer of commits: `"host"` means you, even if your settings of git are
    /// hidden; `false` sets none; a table names another one:
    /// `{ name = "Agent", email = "agent@localhost" }`. Default: `"host"`.
    #[schemars(schema_with = "schema::identity", extend("default" = "host"))]
    pub identity: Option<Sourced<GitIdentity>>,
}

// The `/tmp` that the command sees. This is not a doc comment, because the schema of `show` would
// repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Tmp {
    /// An empty folder that is gone after the run.
    Private,
    /// The folder of this machine, writable, with the sockets in it.
    Host,
}

// The home that the command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Home {
    /// The home of this machine, read-only where no rule says otherwise.
    Host,
    /// A folder that is gone after the run. It shows the paths that `rw` rules and your own `ro`
    /// rules name, and the programs of the home that are on PATH, read-only.
    Private,
}

// The folders of the machine that the command sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Base", rename_all = "kebab-case")]
#[schemars(inline)]
pub enum BaseTree {
    /// All of them, read-only where no rule says otherwise.
    Host,
    /// `/usr`, `/bin`, `/sbin`, `/lib*`, `/etc`, `/opt` and `/nix`, and the paths that rules name.
    Minimal,
}

display_as_in_json!(Home, BaseTree);

/// One path or glob. A table also sets the behaviour for a path that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case", transform = schema::string_or_table)]
pub struct Entry {
    /// A path or a glob (`*`, `?`, `[…]`, `{a,b}`, `**`). `~/` is the home. In a project's file, a
    /// relative path starts at the file's folder; in a user's or the system's file, it starts at
    /// the project root.
    // Bytes, because a flag fills this type too, and a path need not be UTF-8.
    #[schemars(schema_with = "schema::path")]
    pub path: OsString,

    /// The behaviour if the path does not exist. Default: `"skip"`, but `"block"` for a path in
    /// `private`, of which the command then gets an empty copy.
    #[schemars(default, extend("default" = "skip"))]
    pub if_missing: IfMissing,

    /// The behaviour if a file that the entry protects has other names (hard links), by which it
    /// can still be read or changed. For `ro` and `exclude`. Default: `"refuse"`.
    #[schemars(default, extend("default" = "refuse"))]
    pub hard_links: HardLinks,

    #[schemars(skip)]
    pub origin: Origin,
}

impl Entry {
    /// Makes an entry with the default behaviour for a path.
    pub fn new(path: OsString, origin: Origin) -> Self {
        Self { hard_links: HardLinks::default(), path, if_missing: IfMissing::default(), origin }
    }
}

/// Content that the command reads at a path instead of the host's file.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields, transform = schema::from_or_text)]
pub struct InjectEntry {
    /// The file or folder to read. A folder is injected child by child. `~/` is the home; a
    /// relative path starts at the same folder as in a rule.
    #[schemars(schema_with = "schema::path", default)]
    pub from: Option<OsString>,

    /// The text to read, instead of `from`.
    #[schemars(with = "String", default)]
    pub text: Option<String>,

    /// The path at which the command reads the content. `~/` is the home; a relative path starts
    /// at the project. Not a pattern.
    #[schemars(schema_with = "schema::path")]
    pub to: OsString,

    /// The place of `from` or `text` in the file.
    #[schemars(skip)]
    pub from_origin: Origin,

    #[schemars(skip)]
    pub origin: Origin,
}

/// The list in which an entry was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// `rw`, `ro` or `exclude`: the list of this access.
    Plain(Access),
    /// `private`.
    Private,
}

/// A preset of your own: rules under one name.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PresetDefinition {
    /// Paths and globs that can be read and not written. Default: none.
    #[schemars(default)]
    pub ro: Vec<Entry>,

    /// Paths and globs that can be read and written. Default: none.
    #[schemars(default)]
    pub rw: Vec<Entry>,

    /// Paths and globs whose contents are hidden. Default: none.
    #[schemars(default)]
    pub exclude: Vec<Entry>,

    /// Files that the command changes in a copy only, which is kept for the project. Default:
    /// none.
    #[schemars(default)]
    pub private: Vec<Entry>,

    /// Other presets that this one includes: `["@git", "@my-tools"]`. Default: none.
    #[schemars(schema_with = "schema::preset_names", default)]
    pub include: Vec<Sourced<String>>,

    // The place where the preset's name was written.
    #[schemars(skip)]
    pub origin: Origin,
}

impl PresetDefinition {
    /// The entries of each list, with the kind of the list.
    pub fn by_access(&self) -> [(RuleKind, &[Entry]); 4] {
        let [rw, ro, exclude] = [Access::Rw, Access::Ro, Access::Exclude].map(RuleKind::Plain);
        [(rw, &self.rw), (ro, &self.ro), (exclude, &self.exclude), (RuleKind::Private, &self.private)]
    }

    pub fn empty(origin: Origin) -> Self {
        let (ro, rw, exclude, private, include) = Default::default();
        Self { ro, rw, exclude, private, include, origin }
    }
}

/// Whether `name` can be written as `@name`: `[a-z0-9][a-z0-9_/-]*`.
pub fn is_preset_name(name: &str) -> bool {
    let is_start = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut bytes = name.bytes();
    bytes.next().is_some_and(is_start) && bytes.all(|c| is_start(c) || matches!(c, b'_' | b'/' | b'-'))
}
