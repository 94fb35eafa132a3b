//! The vocabulary that all stages share: access, layers, rules, and the one order of precedence.

use std::ffi::OsString;
use std::fmt;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Serialize;

use crate::origin::Origin;
use crate::path::AbsPath;

/// What a rule allows, from least to most restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    Rw,
    Ro,
    Exclude,
}

impl Access {
    /// Whether the rule is there to keep something from the command, so that losing it silently
    /// would open a hole.
    pub fn is_protective(self) -> bool {
        self != Access::Rw
    }

    /// The configuration key, which is also the name of the flag.
    pub fn key(self) -> &'static str {
        match self {
            Access::Rw => "rw",
            Access::Ro => "ro",
            Access::Exclude => "exclude",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// What happens when a rule's path does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IfMissing {
    #[default]
    Skip,
    Error,
    Create,
    /// It cannot be created inside: a placeholder stands there during the run (SPEC M4).
    Block,
}

/// What happens when a protected file has other names, which no mount covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HardLinks {
    #[default]
    Refuse,
    Allow,
}

/// Where a rule comes from, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayerKind {
    /// What every sandbox has, whatever the rules.
    Base,
    Preset,
    System,
    User,
    Project,
    CommandLine,
}

impl LayerKind {
    pub fn name(self) -> &'static str {
        match self {
            LayerKind::Base => "base",
            LayerKind::Preset => "preset",
            LayerKind::System => "system",
            LayerKind::User => "user",
            LayerKind::Project => "project",
            LayerKind::CommandLine => "command line",
        }
    }
}

/// How a rule named the path that it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exactness {
    /// Not at all: it is a part of the base, and any rule beats it.
    Base,
    Glob,
    Exact,
}

/// Which of several rules wins at one path: the greatest. The order of the fields is the rule
/// (SPEC D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Precedence {
    pub exactness: Exactness,
    pub layer: LayerKind,
    pub access: Access,
}

/// One rule of the policy, before anything of this host is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub access: Access,
    /// As written: `~/.ssh`, `src/**/*.pem`.
    pub text: OsString,
    /// What a relative `text` is relative to.
    pub base: AbsPath,
    pub if_missing: IfMissing,
    pub hard_links: HardLinks,
    /// Written in `sockets`: it shows a socket, and so it opens something although it is read-only.
    pub shows_socket: bool,
    pub layer: LayerKind,
    pub origin: Origin,
    /// What only the data of built-in presets can say; empty for everything a user writes.
    pub refinements: Arc<Refinements>,
}

impl Rule {
    /// A rule for one path that we name ourselves. The path is the base, not the text, where a `[`
    /// would be a glob.
    pub fn exact(access: Access, path: AbsPath, layer: LayerKind, origin: Origin) -> Self {
        Self::written(access, ".".into(), path, layer, origin)
    }

    /// A rule as somebody wrote it, with nothing said but its path.
    pub fn written(access: Access, text: OsString, base: AbsPath, layer: LayerKind, origin: Origin) -> Self {
        Self {
            access,
            text,
            base,
            if_missing: IfMissing::Skip,
            hard_links: HardLinks::default(),
            shows_socket: false,
            layer,
            origin,
            refinements: Refinements::none(),
        }
    }

    /// Whether this is a `ro` of a built-in preset. Such a rule keeps a path from being changed,
    /// and never shows one that the other rules exclude (SPEC P12).
    pub fn is_preset_ro(&self) -> bool {
        self.layer == LayerKind::Preset && self.access == Access::Ro
    }

    /// The rank of this rule at a path that it names exactly or by a glob.
    pub fn precedence(&self, exactness: Exactness) -> Precedence {
        Precedence { exactness, layer: self.layer, access: self.access }
    }
}

/// What an excluded file looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mask {
    /// Opening it gives EACCES. Git then stops instead of recording an emptied file.
    #[default]
    Denied,
    /// It reads as empty. For files that tools take for granted once they exist: cargo and twine
    /// stop at a credentials file that they may not open, even where they would not need it.
    Empty,
}

/// What the data of a built-in preset can say beyond a path (SPEC P5–P10, M6, R3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refinements {
    /// Names of directories that the walk does not enter.
    pub skip_directories: Vec<String>,
    /// Only where a file of this name lies beside them.
    pub skip_beside: Option<String>,
    /// A command could have written the file that led to this path, so the rule counts only where
    /// it is stricter than the other rules (SPEC P8, P11).
    pub only_tightens: bool,
    /// Names that the pattern matches but the rule does not mean (`.env.example`).
    pub except: Vec<OsString>,
    /// Leave alone what the git index holds with the same content.
    pub leave_tracked: bool,
    pub mask: Mask,
    /// A missing path is blocked only where its folder exists (SPEC M6).
    pub needs_parent: bool,
    /// Values in this JSON file that name commands: a change of one is reported after the run (SPEC
    /// R3).
    pub report_keys: Vec<String>,
    /// A missing path is created if this program is on the caller's PATH, or always (SPEC P9).
    pub create_for: Option<CreateFor>,
    /// What is created is a file with this content.
    pub content: Option<String>,
    /// Where the file appears once more (SPEC P10).
    pub also_at: Option<AlsoAt>,
}

impl Refinements {
    /// The refinements of every rule that a user writes.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Refinements>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }
}

/// For which programs a path has to exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateFor {
    Everybody,
    Program(String),
}

/// A second place for a file, and how a program is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlsoAt {
    /// In the home.
    pub path: String,
    /// The variable that names the folder of `path`.
    pub told_by: Option<String>,
}

/// What a sandbox has beyond its mounts, and what a policy can insist on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// The second stage, which checks and locks the mounts.
    Guard,
    /// A filter of system calls.
    Seccomp,
    /// Signals and abstract sockets stay inside.
    Landlock,
}

impl Protection {
    /// As it is written in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Protection::Guard => "guard",
            Protection::Seccomp => "seccomp",
            Protection::Landlock => "landlock",
        }
    }
}
