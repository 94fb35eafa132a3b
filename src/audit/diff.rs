//! The answer of `agent-sandbox diff`: the difference of two policies on this host.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::trust::openings::openings;

pub use crate::trust::openings::{DiffState, PolicyChange, Side, Subject};

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

pub fn diff(old: (&str, &Compiled), new: (&str, &Compiled)) -> Diff {
    let ((old_name, old), (new_name, new)) = (old, new);
    let widened = openings(old, new);
    // The old policy opens what the new one closes.
    let swapped = |PolicyChange { what, old, new }| PolicyChange { what, old: new, new: old };
    let narrowed = openings(new, old).into_iter().map(swapped).collect();
    Diff { old: old_name.to_owned(), new: new_name.to_owned(), widened, narrowed, notes: Vec::new() }
}
