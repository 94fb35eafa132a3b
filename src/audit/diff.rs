//! The answer of `agent-sandbox diff`: the difference of two policies on this host.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::trust::openings::openings;

pub use crate::trust::openings::{DiffState, PolicyChange, Side, Subject};

/// The differences between two policies, compiled for the same project on the same host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// The names of the two operands.
    pub old: String,
    pub new: String,
    /// Access that only the new policy gives.
    pub widened: Vec<PolicyChange>,
    /// Access that only the old policy gives.
    pub narrowed: Vec<PolicyChange>,
    /// Notes about the two policies, such as a file that is missing.
    pub notes: Vec<String>,
}

pub fn diff(old: (&str, &Compiled), new: (&str, &Compiled)) -> Diff {
    let ((old_name, old), (new_name, new)) = (old, new);
    let widened = openings(old, new);
    // With its operands exchanged, `openings` finds the narrowed access. Exchange `old` and `new`
    // back.
    let swapped = |PolicyChange { what, old, new }| PolicyChange { what, old: new, new: old };
    let narrowed = openings(new, old).into_iter().map(swapped).collect();
    Diff { old: old_name.to_owned(), new: new_name.to_owned(), widened, narrowed, notes: Vec::new() }
}
