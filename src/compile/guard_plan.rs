//! The guard's plan. `lower` makes it, bwrap binds it as a file at `/run/agent-sandbox/plan`, and
//! the guard obeys it. It is a function of the policy alone. The [`RunSheet`] has the facts of one
//! run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::Identity;
use crate::policy::{AbsPath, Word};

/// The argument that makes our binary the guard.
pub const SUBCOMMAND: &str = "__guard";
/// The guard's flag for each limit that it sets: `--limit processes=512`.
pub const LIMIT: &str = "--limit";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GuardPlan {
    /// The mounts that the guard makes (SPEC B14), parents before children. Masks come last.
    pub overflow: Vec<Tightening>,
    /// The symlinks that the guard mounts over private files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PrivateLink>,
    /// The mounts that the guard must find besides its own, parents before children.
    pub expect: Vec<Expected>,
    /// Pins that bwrap makes: directories with a mount that a later mount covers (SPEC B12).
    pub pins: Vec<AbsPath>,
    /// Parts of `/proc` that the guard makes read-only.
    pub proc_read_only: Vec<AbsPath>,
    /// The command may make user namespaces.
    pub nested: bool,
    /// Landlock keeps abstract sockets and signals within the sandbox.
    pub landlock: bool,
    /// Landlock lets the command open files for writing, and create, remove and rename names, in
    /// writable places only.
    pub changes: bool,
    /// A seccomp filter refuses system calls that reach past the sandbox.
    pub seccomp: bool,
}

impl GuardPlan {
    /// The plan as the guard reads it.
    pub fn to_text(&self) -> String {
        // This does not fail, because every type here can be written as JSON. In a printed script a
        // here-document carries the plan, and a here-document ends with a newline.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// All mounts that must exist before the command starts, whichever program makes them.
    pub fn all_expected(&self) -> impl Iterator<Item = Expected> {
        self.expect.iter().cloned().chain(self.overflow.iter().filter_map(Tightening::expected))
    }

    /// All pins, whichever program makes them.
    pub fn all_pins(&self) -> impl Iterator<Item = &AbsPath> {
        let by_guard = self.overflow.iter().filter(|step| matches!(step, Tightening::Pin(_)));
        self.pins.iter().chain(by_guard.map(Tightening::path))
    }
}

/// A symlink to the copy of a private file (SPEC Q2). It shows nothing of the host and opens
/// nothing: the arguments of bwrap bind the copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PrivateLink {
    /// The file that the link covers.
    pub path: AbsPath,
    /// The copy inside that the link leads to.
    pub copy: AbsPath,
}

/// A mount that takes something away and opens nothing. The guard makes no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tightening {
    /// A file that cannot be opened.
    Mask(AbsPath),
    /// A file that cannot be opened, or nothing if the file is gone.
    MaskIfThere(AbsPath),
    /// A directory that shows nothing.
    Hide(AbsPath),
    ReadOnly(AbsPath),
    /// A directory bound onto itself with the access that it has, so that no process can rename it.
    Pin(AbsPath),
}

impl Tightening {
    /// The step's name in printed forms.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mask(_) => "mask",
            Self::MaskIfThere(_) => "mask-if-there",
            Self::Hide(_) => "hide",
            Self::ReadOnly(_) => "read-only",
            Self::Pin(_) => "pin",
        }
    }

    /// The mount point.
    pub fn path(&self) -> &AbsPath {
        let (Self::Mask(path) | Self::MaskIfThere(path) | Self::Hide(path) | Self::ReadOnly(path) | Self::Pin(path)) =
            self;
        path
    }

    /// Whether this step covers a file.
    pub fn is_mask(&self) -> bool {
        matches!(self, Self::Mask(_) | Self::MaskIfThere(_))
    }

    /// The mount that must exist after this step. `None` for a pin, which changes no view.
    pub fn expected(&self) -> Option<Expected> {
        let (access, required) = match self {
            Self::Mask(_) | Self::Hide(_) => (Expectation::Hidden, true),
            Self::MaskIfThere(_) => (Expectation::Hidden, false),
            Self::ReadOnly(_) => (Expectation::Ro, true),
            Self::Pin(_) => return None,
        };
        Some(Expected { path: self.path().clone(), access, required, source: None })
    }
}

/// A mount that must exist before the command starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expected {
    pub path: AbsPath,
    pub access: Expectation,
    /// The command must not start if nothing is mounted here, because a rule of the policy would
    /// not apply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The path on the host, if it differs. The guard cannot see that path, so the supervisor
    /// notes the identity of its file or directory.
    #[serde(skip)]
    pub source: Option<AbsPath>,
}

impl Expected {
    pub fn host_path(&self) -> &AbsPath {
        self.source.as_ref().unwrap_or(&self.path)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    Rw,
    Ro,
    /// A directory or file that shows nothing of the host.
    Hidden,
    /// A read-only file with content of ours.
    Content,
    /// A private place: `/tmp`, `/dev`, `/proc`.
    Own,
}

/// Facts of one run, which the supervisor passes to the guard on [`RUN_SHEET`]. A printed command
/// that the user pastes into a shell has no run sheet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RunSheet {
    /// The signals that the caller had blocked, and that the command has blocked too: one bit for
    /// each signal.
    pub signal_mask: Option<u64>,
    /// The file descriptor of the supervisor's socket. `None` with `--exec`, which leaves no
    /// supervisor.
    pub report: Option<i32>,
    /// The guard writes its own messages as JSON.
    pub json: bool,
    /// The caller is in the background of its terminal, and so the command stays there.
    pub background: bool,
    /// The command, if bwrap's arguments have no room for it.
    pub command: Option<Vec<Word>>,
    /// Variables of the command that bwrap and the guard must not get, because their loader would
    /// obey them.
    pub environment: Vec<(Word, Word)>,
    /// The file or directory that must be mounted at each of these paths.
    pub identities: Vec<(AbsPath, Identity)>,
}

/// The file descriptor of the run sheet: a sealed file in memory.
pub const RUN_SHEET: i32 = 3;
/// The file descriptor of the supervisor's socket.
pub const REPORT: i32 = 4;
