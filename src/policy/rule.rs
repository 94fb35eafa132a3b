//! The vocabulary that all stages share: access, layers, rules, and the one order of precedence.

use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::{AbsPath, Origin, PrivateFile};

/// The access that a rule gives, from least to most restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    Rw,
    Ro,
    Exclude,
}

impl Access {
    /// Whether the rule restricts the command. Silently losing such a rule would open a hole.
    pub fn is_protective(self) -> bool {
        self != Access::Rw
    }
}

/// The effect of a rule whose path does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum IfMissing {
    /// The entry does nothing.
    #[default]
    Skip,
    /// Nothing runs.
    Error,
    /// A directory is created there before the start. Globs cannot have this action.
    Create,
    /// The command cannot create it, because a placeholder is there during the run. A path that
    /// ends with `/` is a directory. Only `ro` and `exclude` can have this action, and globs
    /// cannot.
    Block,
}

/// The effect of a rule on a file with several names (hard links). A mount protects one name only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum HardLinks {
    /// Nothing runs.
    #[default]
    Refuse,
    /// The name that the entry gives is protected; the other names are not.
    Allow,
}

/// The layer that a rule comes from, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayerKind {
    /// A part of every sandbox, which depends on no rule.
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

/// The way in which a rule named the path that it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exactness {
    /// The rule did not name the path: it is a part of the base, and any rule beats it.
    Base,
    Glob,
    Exact,
    /// An injection shows other content there. No rule wins over an injection, because the other
    /// rules are about the host's file (SPEC J2).
    Injected,
}

/// The rank of a rule at one path. The rule with the greatest rank wins. The fields are compared in
/// their order here (SPEC D1).
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
    /// The path or pattern as written: `~/.ssh`, `src/**/*.pem`.
    pub text: OsString,
    /// The folder that a relative `text` starts from.
    pub base: AbsPath,
    pub if_missing: IfMissing,
    pub hard_links: HardLinks,
    /// The rule comes from `sockets` and shows a socket. It is read-only, but still gives access
    /// to the service.
    pub shows_socket: bool,
    /// The command gets a writable copy of the file, and the host's file is read-only (SPEC Q1).
    pub private: Option<&'static PrivateFile>,
    /// The content that the command reads at the path instead of the host's file (SPEC J1).
    pub injected: Option<Arc<Injected>>,
    pub layer: LayerKind,
    pub origin: Origin,
    /// Refinements from the data of built-in presets; empty for every rule that a user writes.
    pub refinements: Refinements,
    /// A name that the pattern matches but the rule does not mean: the current branch.
    pub except: Option<OsString>,
}

/// Hashes the text and its place, which differ for almost all rules.
impl Hash for Rule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
        self.origin.place().map(|place| place.span.start).hash(state);
    }
}

impl Rule {
    /// A rule for one path that we name ourselves. The path is the base and not the text, because a
    /// `[` in the text would be a glob.
    pub fn exact(access: Access, path: AbsPath, layer: LayerKind, origin: Origin) -> Self {
        Self::written(access, ".".into(), path, layer, origin)
    }

    /// Whether this is a rule of `@git` about the repository of the project, whose paths no command
    /// can choose.
    pub fn protects_repository(&self) -> bool {
        let is_of_git = matches!(&self.origin, Origin::Preset { name: "git" | "git-strict", .. });
        is_of_git && self.access.is_protective() && !self.refinements.only_tightens
    }

    /// A rule with a path and nothing else.
    pub fn written(access: Access, text: OsString, base: AbsPath, layer: LayerKind, origin: Origin) -> Self {
        Self {
            access,
            text,
            base,
            if_missing: IfMissing::Skip,
            hard_links: HardLinks::default(),
            shows_socket: false,
            private: None,
            injected: None,
            layer,
            origin,
            refinements: Refinements::NONE,
            except: None,
        }
    }

    /// Whether the rule does not mean `name`, which its pattern matches.
    pub fn excepts(&self, name: &OsStr) -> bool {
        self.except.as_deref() == Some(name) || self.refinements.except.iter().any(|except| name == *except)
    }

    /// Whether this is a `ro` of a built-in preset. Such a rule keeps a path from being changed,
    /// and never shows one that the other rules exclude (SPEC P12).
    pub fn is_preset_ro(&self) -> bool {
        self.layer == LayerKind::Preset && self.access == Access::Ro && self.injected.is_none()
    }

    /// The rank of this rule at a path that it names exactly or by a glob.
    pub fn precedence(&self, exactness: Exactness) -> Precedence {
        Precedence { exactness, layer: self.layer, access: self.access }
    }
}

/// The content that an injection puts at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injected {
    /// The file or folder at `path` of the host, which holds no symlinks. `links` are the symlinks
    /// between the written source and `path`.
    Source { path: AbsPath, links: Vec<AbsPath> },
    /// A file with these bytes.
    Text(Arc<[u8]>),
}

/// The form in which an excluded file or folder appears inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Opening it gives EACCES. Git then stops instead of recording an emptied file.
    Denied,
    /// The file reads as this text. For example, cargo and twine fail if a credentials file exists
    /// and they may not open it, even if they do not need it.
    Reads(&'static str),
    /// An empty private folder covers it. The command can write it, except at `/`.
    OwnPlace,
    /// The file reads as a copy without its credentials. This is for files that also hold settings
    /// that tools need. A file without credentials gets no mask. If no safe copy can be made,
    /// opening the file gives EACCES.
    Redacted(CredentialFile),
    /// The folder is empty and writable. It is in memory, and its files are lost after the run.
    /// This is for folders in which processes of one machine find each other, and for folders from
    /// which a program sources files.
    Fresh,
}

/// The syntax of a file that may hold credentials among settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialFile {
    /// npmrc(5).
    Npmrc,
    /// `.yarnrc.yml` of Yarn 2 and later.
    Yarnrc,
    /// A file with credentials in URLs alone: `pip.conf`.
    Urls,
    Toml,
    /// `settings.xml` of Maven, `NuGet.Config`.
    Xml,
    /// A line `key = value` for each setting: `gradle.properties`, `nix.conf`.
    Properties,
    /// Settings of Bundler. The key of a credential is the name of a host.
    Bundle,
}

/// Refinements that the data of a built-in preset can add to a path (SPEC P5–P10, M6, R3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refinements {
    /// Names of directories that the walk does not enter.
    pub skip_directories: &'static [&'static str],
    /// The walk skips such a directory only if a file of this name lies beside it.
    pub skip_beside: Option<&'static str>,
    /// A command could have written the file that names this path, so the rule opens nothing. It
    /// applies only where it is stricter than the rule that would otherwise govern the path.
    pub only_tightens: bool,
    /// The rule shows a path of the host in a private home or a minimal base. Elsewhere it has no
    /// effect.
    pub only_shows: bool,
    /// Names that the pattern matches but the rule does not mean (`.env.example`).
    pub except: &'static [&'static str],
    /// The pattern leaves a file alone if the git index holds the same content.
    pub leave_tracked: bool,
    pub mask: Mask,
    /// The rule also applies where symlinks in the folder lead (SPEC P19).
    pub with_links: bool,
    /// A missing path is blocked only where its folder exists (SPEC M6).
    pub needs_parent: bool,
    /// The rule applies only if nothing is at the path (SPEC P17).
    pub only_missing: bool,
    /// A missing path is blocked only where one of these paths of the home exists (SPEC M6). If
    /// the list is empty, it is always blocked.
    pub in_use: &'static [&'static str],
    /// A file that the run created at this path is moved aside when the run ends (SPEC R1).
    pub moved_aside: bool,
    /// A missing path is created if this program is on the caller's PATH; `*` means always (SPEC
    /// P9).
    pub create_for: Option<&'static str>,
    pub content: Option<&'static str>,
    /// The second place of the file, in the home (SPEC P10).
    pub second_place: Option<&'static str>,
    /// The variable that names the folder of the second place.
    pub second_place_var: Option<&'static str>,
}

impl Refinements {
    /// No refinements, as in every rule that a user writes.
    pub const NONE: Self = Self {
        skip_directories: &[],
        skip_beside: None,
        only_tightens: false,
        only_shows: false,
        except: &[],
        leave_tracked: false,
        mask: Mask::Denied,
        with_links: false,
        needs_parent: false,
        only_missing: false,
        in_use: &[],
        moved_aside: false,
        create_for: None,
        content: None,
        second_place: None,
        second_place_var: None,
    };
}

// The protections of a sandbox besides its mounts. A policy can require them. This is not a doc
// comment, because the schema would repeat a doc comment at each element of `require`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Protection {
    /// The guard, which compares and locks the mounts.
    Guard,
    /// The filter of system calls.
    Seccomp,
    /// Signals and abstract sockets stay inside (Linux 6.12).
    Landlock,
}

/// Displays unit variants by their names in JSON.
macro_rules! display_as_in_json {
    ($($name:ty),+) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    )+};
}
pub(crate) use display_as_in_json;

display_as_in_json!(Access, Protection);
