//! The answer of `agent-sandbox private`: the copies of private files.

use schemars::JsonSchema;
use serde::Serialize;

use crate::private::KeptCopy;

/// The copies of private files, each compared with the host's file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(title = "agent-sandbox private")]
pub struct PrivateCopies {
    /// The copies, sorted by project, then by path.
    pub copies: Vec<KeptCopy>,
}
