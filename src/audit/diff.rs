//! The answer of `agent-sandbox diff`: the difference of two policies on this host.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::plan::View;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::trust::openings::{Opened, Opening, Openness, openings};

/// What differs between two policies, compiled for the same project on the same host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// What was compared.
    pub old: String,
    pub new: String,
    /// What a command gets by the new policy and not by the old one.
    pub widened: Vec<PolicyChange>,
    /// What a command gets by the old policy and not by the new one.
    pub narrowed: Vec<PolicyChange>,
    /// What there is to know about the two, such as a file that is missing.
    pub notes: Vec<String>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename = "Change")]
pub struct PolicyChange {
    pub what: Subject,
    pub old: Side,
    pub new: Side,
}

/// What is different. At a `path` itself the two policies differ as said, so it is a witness; a folder stands for all below it that
/// differs in the same way.
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

/// Compares two policies, each with its name.
pub fn diff(old: (&str, &Compiled), new: (&str, &Compiled)) -> Diff {
    let ((old_name, old), (new_name, new)) = (old, new);
    let widened = openings(old, new).into_iter().map(|opening| change(opening, old, new)).collect();
    // The old policy opens what the new one closes.
    let narrowed = openings(new, old).into_iter().map(|opening| {
        let PolicyChange { what, old, new } = change(opening, new, old);
        PolicyChange { what, old: new, new: old }
    });
    let (old, new) = (old_name.to_owned(), new_name.to_owned());
    Diff { old, new, widened, narrowed: narrowed.collect(), notes: Vec::new() }
}

fn change(Opening { opened, before: from, after: to }: Opening, before: &Compiled, after: &Compiled) -> PolicyChange {
    use DiffState::{Off, On};
    let (what, was, is) = match opened {
        Opened::Network => (Subject::Network, Off, On),
        Opened::Docker => (Subject::Docker, Off, On),
        Opened::Nested => (Subject::Nested, Off, On),
        Opened::Inherit => (Subject::Inherit, Off, On),
        Opened::Requirement(protection) => (
            Subject::Requirement { protection: protection.name().to_owned() },
            DiffState::Required,
            DiffState::NotRequired,
        ),
        Opened::Variable { name, had_another } => {
            let was = if had_another { DiffState::Given } else { DiffState::Absent };
            (Subject::Variable { name }, was, DiffState::Given)
        }
        Opened::PresetOff(name) => (Subject::Preset { name }, On, Off),
        Opened::PresetOn(name) => (Subject::Preset { name }, Off, On),
        Opened::OtherNames(path) => (Subject::OtherNames { path }, DiffState::NotAccepted, DiffState::Accepted),
        Opened::Create(path) => (Subject::Created { path }, DiffState::Missing, DiffState::Created),
        Opened::Device(path) => (Subject::Device { path }, DiffState::Hidden, DiffState::Usable),
        Opened::Socket(path) => (Subject::Socket { path }, DiffState::Hidden, DiffState::Usable),
        Opened::Path { path, .. } => {
            let (was, is) = (state(before, &path), state(after, &path));
            (Subject::Path { path }, was, is)
        }
    };
    PolicyChange { what, old: Side { is: was, rule: from }, new: Side { is, rule: to } }
}

fn state(compiled: &Compiled, path: &AbsPath) -> DiffState {
    let view = compiled.plan.view(path);
    let is_blocked = compiled.plan.placeholders.iter().any(|placeholder| placeholder.path == *path);
    match Openness::from(view) {
        Openness::Writable => DiffState::Writable,
        _ if is_blocked => DiffState::Blocked,
        Openness::ReadOnly => DiffState::ReadOnly,
        Openness::Hidden if view == View::Masked => DiffState::Hidden,
        Openness::Hidden => DiffState::Private,
    }
}
