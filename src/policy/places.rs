//! Paths of the sandbox that do not show files of the host.

use crate::policy::AbsPath;

pub const DEV: &str = "/dev";
pub const PROC: &str = "/proc";
pub const RUN: &str = "/run";
pub const TMP: &str = "/tmp";
/// The folder that is reserved for agent-sandbox.
pub const OURS: &str = "/run/agent-sandbox";
/// The file that marks every sandbox (SPEC B9).
pub const MARKER: &str = "/run/agent-sandbox/inside";
/// The text that tells the command that it is in a sandbox, and which rules govern it (SPEC B16).
pub const README: &str = "/run/agent-sandbox/README";
/// Our own executable, which is the guard.
pub const GUARD: &str = "/run/agent-sandbox/guard";
pub const PLAN: &str = "/run/agent-sandbox/plan";
/// The file that is mounted over every masked file. The guard compares masks with it.
pub const MASKED: &str = "/run/agent-sandbox/masked";
/// The copies of this project's private files.
pub const PRIVATE: &str = "/run/agent-sandbox/private";

pub fn at(place: &str) -> AbsPath {
    AbsPath::root().join(place)
}
