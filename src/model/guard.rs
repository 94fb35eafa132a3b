//! The guard: the mounts that its plan adds to bwrap's.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde_json::Value;

use super::ModelError;
use crate::policy::AbsPath;

/// The place of the plan inside.
pub(super) const PLAN: &str = "/run/agent-sandbox/plan";
const PROGRAM: &str = "/run/agent-sandbox/guard";

pub(super) enum GuardMount {
    Mask {
        if_there: bool,
    },
    Hide,
    ReadOnly,
    Pin,
    /// A symlink to this path.
    Link(AbsPath),
}

/// The user's command, if `command` calls the guard.
pub(super) fn call(command: &[OsString]) -> Option<&[OsString]> {
    let [program, subcommand, _hash, dashes, rest @ ..] = command else { return None };
    (program == PROGRAM && subcommand == "__guard" && dashes == "--").then_some(rest)
}

/// The mounts of a plan, in order. An unknown one is an error.
pub(super) fn mounts(plan: &[u8]) -> Result<Vec<(AbsPath, GuardMount)>, ModelError> {
    let plan: Value = serde_json::from_slice(plan).map_err(|_| invalid("it is not JSON"))?;
    let overflow = plan.get("overflow").and_then(Value::as_array);
    let overflow = overflow.ok_or(invalid("it has no list of mounts"))?;
    // The guard mounts links after everything else.
    let links = plan.get("links").map_or(Some(&[][..]), |links| links.as_array().map(Vec::as_slice));
    let links = links.ok_or(invalid("its links are no list"))?;
    overflow.iter().map(mount).chain(links.iter().map(link)).collect()
}

fn link(written: &Value) -> Result<(AbsPath, GuardMount), ModelError> {
    let at = |key: &str| written.get(key).and_then(path).ok_or(invalid("a link has no absolute path"));
    Ok((at("path")?, GuardMount::Link(at("copy")?)))
}

fn mount(written: &Value) -> Result<(AbsPath, GuardMount), ModelError> {
    let entries = written.as_object().filter(|entries| entries.len() == 1);
    let Some((kind, at)) = entries.and_then(|entries| entries.iter().next()) else {
        return Err(invalid("a mount is not one key and its value"));
    };
    let path = path(at).ok_or(invalid("a mount has no absolute path"))?;
    let mount = match kind.as_str() {
        "mask" => GuardMount::Mask { if_there: false },
        "mask-if-there" => GuardMount::Mask { if_there: true },
        "hide" => GuardMount::Hide,
        "read-only" => GuardMount::ReadOnly,
        "pin" => GuardMount::Pin,
        _ => return Err(invalid("a mount is of a kind that the model does not know")),
    };
    Ok((path, mount))
}

fn path(written: &Value) -> Option<AbsPath> {
    let path = match written.as_str() {
        Some(text) => text.into(),
        None => {
            let bytes = written.get("bytes")?.as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
            OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?)
        }
    };
    AbsPath::normalize(path)
}

fn invalid(why: &'static str) -> ModelError {
    ModelError::InvalidPlan { why }
}
