//! What the guard, the second stage inside, is told: a value that `lower` makes, `print` shows, a descriptor carries, and the guard obeys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bytes::Word;
use crate::identity::Identity;
use crate::path::AbsPath;

/// The word that asks our binary to be the guard.
pub const SUBCOMMAND: &str = "__guard";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GuardPlan {
    /// Directories of the sandbox's own that get their mode here, because bwrap cannot give it to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<OwnDirectory>,
    /// Made on top of bwrap's mounts, in this order.
    pub mounts: Vec<Tightening>,
    /// What must be at each mount point in the end.
    pub expect: Vec<Expected>,
    /// Parts of `/proc` that become read-only.
    pub proc_read_only: Vec<AbsPath>,
    /// The command may make user namespaces of its own.
    pub nested: bool,
    /// Abstract sockets and signals stay within the sandbox.
    pub landlock: bool,
    /// System calls that reach past the sandbox are refused.
    pub seccomp: bool,
    /// The signals that are blocked for the command, as the caller had it: bits, in hexadecimal. Without it, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_mask: Option<String>,
    /// The descriptor of the supervisor's socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<i32>,
    /// What the guard itself has to say is for programs to read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub json: bool,
    /// The command, where it is too long to be a part of bwrap's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<Word>>,
}

impl GuardPlan {
    /// As the guard reads it: one line of JSON for each part, so that people can read it, too.
    pub fn to_text(&self) -> String {
        // Every type here can be written as JSON.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// A directory on a tmpfs that bwrap made for the sandbox, and what becomes of it before anything is mounted by the guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OwnDirectory {
    pub path: AbsPath,
    #[serde(with = "octal")]
    pub mode: u32,
    /// It is the root of a tmpfs, which becomes read-only once all modes are set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
}

/// Modes as people write them.
mod octal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{mode:04o}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        u32::from_str_radix(&String::deserialize(deserializer)?, 8).map_err(D::Error::custom)
    }
}

/// A mount that takes something away and opens nothing. Only such mounts can be made inside: a read-only mount of bwrap's
/// cannot be made writable again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tightening {
    /// A file that cannot be opened.
    Mask(AbsPath),
    /// The same for one that may have gone: then there is nothing to mask.
    MaskIfThere(AbsPath),
    /// A directory that shows nothing.
    Hide(AbsPath),
    ReadOnly(AbsPath),
}

impl Tightening {
    /// For people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Mask(_) => "mask",
            Self::MaskIfThere(_) => "mask if there",
            Self::Hide(_) => "hide",
            Self::ReadOnly(_) => "read-only",
        }
    }

    pub fn path(&self) -> &AbsPath {
        match self {
            Self::Mask(path) | Self::MaskIfThere(path) | Self::Hide(path) | Self::ReadOnly(path) => path,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expected {
    pub path: AbsPath,
    pub access: Expectation,
    /// Nothing may start if there is no mount here: it would leave open what is meant to be closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Which file or directory was meant, as it was just before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// What it is on the host, where that has another path. The guard cannot look there: it is for who notes the identity.
    #[serde(skip)]
    pub source: Option<AbsPath>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    Rw,
    Ro,
    /// Shows nothing of the host and takes nothing.
    Hidden,
    /// A place of the sandbox's own: `/tmp`, `/dev`, `/proc`.
    Own,
}
