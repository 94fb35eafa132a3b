//! The guard's plan: `lower` makes it, a file that bwrap binds at `/run/agent-sandbox/plan` carries
//! it, and the guard obeys it. It is a function of the policy alone. What belongs to one run is in
//! the [`RunSheet`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::identity::Identity;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;

/// The argument that makes our binary the guard.
pub const SUBCOMMAND: &str = "__guard";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GuardPlan {
    /// Masks, read-only binds and pins beyond those that bwrap's arguments carry (SPEC B14), in the order
    /// in which the guard makes them: parents before children.
    pub overflow: Vec<Tightening>,
    /// What must be at each mount point in the end, parents before children.
    pub expect: Vec<Expected>,
    /// Directories on which a mount must stand that a later one covers (SPEC B12).
    pub pins: Vec<AbsPath>,
    /// Parts of `/proc` that the guard makes read-only.
    pub proc_read_only: Vec<AbsPath>,
    /// The command may make user namespaces of its own.
    pub nested: bool,
    /// Landlock keeps abstract sockets and signals within the sandbox.
    pub landlock: bool,
    /// Landlock lets the command create, remove and rename names in writable places only.
    pub names: bool,
    /// A seccomp filter refuses system calls that reach past the sandbox.
    pub seccomp: bool,
}

impl GuardPlan {
    /// The plan as the guard reads it.
    pub fn to_text(&self) -> String {
        // Every type here can be written as JSON. A here-document of a script ends with a newline.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
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
        match self {
            Self::Mask(path) | Self::MaskIfThere(path) | Self::Hide(path) | Self::ReadOnly(path) | Self::Pin(path) => {
                path
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expected {
    pub path: AbsPath,
    pub access: Expectation,
    /// The command must not start if nothing is mounted here: the policy closes this path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// The path on the host, where it differs. The guard cannot look there; the supervisor notes
    /// the identity of this path.
    #[serde(skip)]
    pub source: Option<AbsPath>,
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
    /// A place of the sandbox's own: `/tmp`, `/dev`, `/proc`.
    Own,
}

/// Facts of one run, which the supervisor hands to the guard on [`RUN_SHEET`]. A command that a
/// person pasted has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RunSheet {
    /// The signals that are blocked for the command, as the caller had it: a bit for each.
    pub signal_mask: Option<u64>,
    /// The file descriptor of the supervisor's socket. `--exec` leaves no supervisor.
    pub report: Option<i32>,
    /// The guard writes its own messages as JSON.
    pub json: bool,
    /// The command, if bwrap's arguments have no room for it.
    pub command: Option<Vec<Word>>,
    /// Variables of the command that bwrap and the guard must not have: their loader would obey them.
    pub environment: Vec<(Word, Word)>,
    /// The file or directory that must be mounted at each of these paths.
    pub identities: Vec<(AbsPath, Identity)>,
}

/// The file descriptor of the run sheet: a sealed file in memory.
pub const RUN_SHEET: i32 = 3;
/// The file descriptor of the supervisor's socket.
pub const REPORT: i32 = 4;
