//! The guard: the mounts that its plan adds to bwrap's.

use std::ffi::OsString;

use serde::Deserialize;

use super::ModelError;
use crate::policy::AbsPath;

pub(super) const PLAN: &str = "/run/agent-sandbox/plan";
const PROGRAM: &str = "/run/agent-sandbox/guard";

/// A mount of a plan. A mount of another kind is an error.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GuardMount {
    Mask(AbsPath),
    MaskIfThere(AbsPath),
    Hide(AbsPath),
    ReadOnly(AbsPath),
    Pin(AbsPath),
    /// A symlink at the first path to the second.
    #[serde(skip)]
    Link(AbsPath, AbsPath),
}

/// A symlink over a private file.
#[derive(Deserialize)]
struct GuardLink {
    path: AbsPath,
    copy: AbsPath,
}

#[derive(Deserialize)]
struct GuardPlan {
    overflow: Vec<GuardMount>,
    #[serde(default)]
    links: Vec<GuardLink>,
}

/// The user's command, if `command` calls the guard.
pub(super) fn call(command: &[OsString]) -> Option<&[OsString]> {
    let [program, subcommand, _hash, rest @ ..] = command else { return None };
    if program != PROGRAM || subcommand != "__guard" {
        return None;
    }
    // Limits change nothing at any path.
    let mut rest = rest;
    while let [flag, _limit, after @ ..] = rest
        && flag == "--limit"
    {
        rest = after;
    }
    let (dashes, command) = rest.split_first()?;
    (dashes == "--").then_some(command)
}

/// The mounts of a plan, in order. The guard mounts links after everything else.
pub(super) fn mounts(plan: &[u8]) -> Result<Vec<GuardMount>, ModelError> {
    let plan: Result<GuardPlan, _> = serde_json::from_slice(plan);
    let GuardPlan { overflow, links } = plan.map_err(|e| ModelError::InvalidPlan { why: e.to_string() })?;
    let links = links.into_iter().map(|GuardLink { path, copy }| GuardMount::Link(path, copy));
    Ok(overflow.into_iter().chain(links).collect())
}
