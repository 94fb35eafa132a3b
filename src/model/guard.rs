//! The guard: the mounts that its plan adds to bwrap's.

use std::ffi::OsString;

use serde::Deserialize;

use super::ModelError;
use crate::policy::AbsPath;

pub(super) const PLAN: &str = "/run/agent-sandbox/plan";
const PROGRAM: &str = "/run/agent-sandbox/guard";

/// A mount of a plan. One of another kind is an error.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GuardMount {
    Mask(AbsPath),
    MaskIfThere(AbsPath),
    Hide(AbsPath),
    ReadOnly(AbsPath),
    Pin(AbsPath),
}

#[derive(Deserialize)]
struct GuardPlan {
    overflow: Vec<GuardMount>,
}

/// The user's command, if `command` calls the guard.
pub(super) fn call(command: &[OsString]) -> Option<&[OsString]> {
    let [program, subcommand, _hash, dashes, rest @ ..] = command else { return None };
    (program == PROGRAM && subcommand == "__guard" && dashes == "--").then_some(rest)
}

/// The mounts of a plan, in order.
pub(super) fn mounts(plan: &[u8]) -> Result<Vec<GuardMount>, ModelError> {
    let plan: Result<GuardPlan, _> = serde_json::from_slice(plan);
    plan.map(|plan| plan.overflow).map_err(|e| ModelError::InvalidPlan { why: e.to_string() })
}
