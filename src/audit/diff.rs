//! The difference of two policies on this host: what the new one opens beyond the old one, and what it closes.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::compile::plan::View;
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::trust::openings::{Opened, Opening, Openness, openings};

use super::origin_json::Whence;

/// What differs between two policies, compiled for the same project on the same host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// What was compared.
    pub old: String,
    pub new: String,
    /// What a command gets by the new policy and not by the old one.
    pub widened: Vec<Change>,
    /// What a command gets by the old policy and not by the new one.
    pub narrowed: Vec<Change>,
    /// What there is to know about the two, such as a file that is missing.
    pub notes: Vec<String>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
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
    pub is: State,
    /// What decides it, where something does.
    pub rule: Option<Whence>,
    /// The same for people.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
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

impl State {
    /// For people.
    pub fn shown(self) -> &'static str {
        match self {
            State::Off => "off",
            State::On => "on",
            State::Required => "required",
            State::NotRequired => "not required",
            State::Absent => "absent",
            State::Given => "given",
            State::NotAccepted => "not accepted",
            State::Accepted => "accepted",
            State::Missing => "missing",
            State::Created => "created",
            State::Hidden => "hidden",
            State::Private => "private",
            State::Blocked => "blocked",
            State::ReadOnly => "read-only",
            State::Writable => "writable",
            State::Usable => "can be used",
        }
    }
}

/// Compares two policies, which were compiled for the same project on the same host. `old` and `new` are what they are called.
pub fn diff(old: (&str, &Compiled), new: (&str, &Compiled)) -> Diff {
    let ((old_name, old), (new_name, new)) = (old, new);
    let widened = openings(old, new).into_iter().map(|opening| change(opening, old, new)).collect();
    // The other way round it is the new one that is less open.
    let narrowed = openings(new, old).into_iter().map(|opening| {
        let Change { what, old, new } = change(opening, new, old);
        Change { what, old: new, new: old }
    });
    let narrowed = narrowed.collect();
    Diff { old: old_name.to_owned(), new: new_name.to_owned(), widened, narrowed, notes: Vec::new() }
}

/// What opens from `before` to `after`.
fn change(Opening { opened, before: from, after: to }: Opening, before: &Compiled, after: &Compiled) -> Change {
    let (what, was, is) = match opened {
        Opened::Network => (Subject::Network, State::Off, State::On),
        Opened::Docker => (Subject::Docker, State::Off, State::On),
        Opened::Nested => (Subject::Nested, State::Off, State::On),
        Opened::Inherit => (Subject::Inherit, State::Off, State::On),
        Opened::Requirement(protection) => {
            (Subject::Requirement { protection: protection.name().to_owned() }, State::Required, State::NotRequired)
        }
        Opened::Variable { name, had_another } => {
            let was = if had_another { State::Given } else { State::Absent };
            (Subject::Variable { name }, was, State::Given)
        }
        Opened::PresetOff(name) => (Subject::Preset { name }, State::On, State::Off),
        Opened::PresetOn(name) => (Subject::Preset { name }, State::Off, State::On),
        Opened::OtherNames(path) => (Subject::OtherNames { path }, State::NotAccepted, State::Accepted),
        Opened::Create(path) => (Subject::Created { path }, State::Missing, State::Created),
        Opened::Device(path) => (Subject::Device { path }, State::Hidden, State::Usable),
        Opened::Socket(path) => (Subject::Socket { path }, State::Hidden, State::Usable),
        Opened::Path { path, .. } => {
            let (was, is) = (state(before, &path), state(after, &path));
            (Subject::Path { path }, was, is)
        }
    };
    Change { what, old: Side::new(was, from), new: Side::new(is, to) }
}

impl Side {
    fn new(is: State, origin: Option<Origin>) -> Self {
        Self { is, rule: origin.as_ref().map(Whence::from), origin }
    }
}

fn state(compiled: &Compiled, path: &AbsPath) -> State {
    let view = compiled.plan.view(path);
    let is_blocked = compiled.plan.placeholders.iter().any(|placeholder| placeholder.path == *path);
    match Openness::from(view) {
        Openness::Writable => State::Writable,
        _ if is_blocked => State::Blocked,
        Openness::ReadOnly => State::ReadOnly,
        Openness::Hidden if view == View::Masked => State::Hidden,
        Openness::Hidden => State::Private,
    }
}
