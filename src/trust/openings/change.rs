//! One difference between two policies.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::policy::{AbsPath, Origin, Word};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Change")]
pub struct PolicyChange {
    pub what: Subject,
    pub old: Side,
    pub new: Side,
}

/// A difference. The two policies differ at the `path` itself as said; a folder stands for
/// everything below it that differs in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Subject {
    /// The host's network.
    Network,
    /// The container engine's socket, which is as good as root.
    Docker,
    /// User namespaces inside.
    Nested,
    /// Whether variables pass that nothing names.
    Inherit,
    /// A protection that the policy insists on: `guard`, `seccomp` or `landlock`.
    Requirement { protection: String },
    /// A variable of the environment.
    Variable { name: Word },
    /// A preset whose rules open or close something that differs.
    Preset { name: String },
    /// A protected file that has other names (hard links), by which it is not protected.
    OtherNames { path: AbsPath },
    /// A directory that is made on the host before the start.
    Created { path: AbsPath },
    /// Device nodes at this path and below it.
    Device { path: AbsPath },
    /// A socket of the host.
    Socket { path: AbsPath },
    /// What the host has at this path and below it.
    Path { path: AbsPath },
}

/// How it is by one of the two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Side {
    pub is: DiffState,
    /// What decides it, where something does.
    pub rule: Option<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "State", rename_all = "kebab-case")]
pub enum DiffState {
    Off,
    On,
    Required,
    NotRequired,
    /// The command does not have the variable.
    Absent,
    /// The command has the variable. Given on both sides: with another value.
    Given,
    /// Other names of the file are not accepted.
    NotAccepted,
    Accepted,
    Missing,
    Created,
    /// Nothing of the host shows.
    Hidden,
    /// A place of the sandbox's own is there instead of the host's.
    Private,
    /// Nothing is there, and nothing can be created there.
    Blocked,
    ReadOnly,
    Writable,
    /// The device or the socket can be used.
    Usable,
}

impl fmt::Display for DiffState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiffState::NotRequired => f.write_str("not required"),
            DiffState::NotAccepted => f.write_str("not accepted"),
            DiffState::Usable => f.write_str("can be used"),
            // The other names in JSON are words.
            _ => self.serialize(f),
        }
    }
}
