//! The places that every sandbox has of its own, under the names that several stages use.

use crate::path::AbsPath;

pub const DEV: &str = "/dev";
pub const PROC: &str = "/proc";
pub const RUN: &str = "/run";
pub const TMP: &str = "/tmp";
/// Reserved for us.
pub const OURS: &str = "/run/agent-sandbox";
/// Present in every sandbox (SPEC B9).
pub const MARKER: &str = "/run/agent-sandbox/inside";
/// Our own executable, inside, whatever the policy hides. The second stage itself is started by its path on the host.
pub const GUARD: &str = "/run/agent-sandbox/guard";

/// One of the above as a path.
pub fn at(place: &str) -> AbsPath {
    AbsPath::root().join(place)
}
