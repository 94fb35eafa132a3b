//! The guard: the mounts that its plan adds to bwrap's.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde_json::Value;

use super::ModelError;
use crate::policy::path::AbsPath;

/// The place of the plan inside.
pub(super) const PLAN: &str = "/run/agent-sandbox/plan";
const PROGRAM: &str = "/run/agent-sandbox/guard";

/// One mount of the guard.
pub(super) enum Step {
    Mask { path: AbsPath, if_there: bool },
    Hide(AbsPath),
    ReadOnly(AbsPath),
    Pin(AbsPath),
}

/// The command proper, if `command` calls the guard.
pub(super) fn call(command: &[OsString]) -> Option<&[OsString]> {
    let [program, subcommand, _hash, dashes, rest @ ..] = command else { return None };
    (program == PROGRAM && subcommand == "__guard" && dashes == "--").then_some(rest)
}

/// The mounts of a plan, in order. An unknown step is an error.
pub(super) fn steps(plan: &[u8]) -> Result<Vec<Step>, ModelError> {
    let plan: Value = serde_json::from_slice(plan).map_err(|_| invalid("it is not JSON"))?;
    let overflow = plan.get("overflow").and_then(Value::as_array);
    overflow.ok_or(invalid("it has no list of mounts"))?.iter().map(step).collect()
}

fn step(written: &Value) -> Result<Step, ModelError> {
    let entries = written.as_object().filter(|entries| entries.len() == 1);
    let Some((kind, at)) = entries.and_then(|entries| entries.iter().next()) else {
        return Err(invalid("a mount is not one key and its value"));
    };
    let path = path(at).ok_or(invalid("a mount has no absolute path"))?;
    match kind.as_str() {
        "mask" => Ok(Step::Mask { path, if_there: false }),
        "mask-if-there" => Ok(Step::Mask { path, if_there: true }),
        "hide" => Ok(Step::Hide(path)),
        "read-only" => Ok(Step::ReadOnly(path)),
        "pin" => Ok(Step::Pin(path)),
        _ => Err(invalid("a mount is of a kind that the model does not know")),
    }
}

fn path(written: &Value) -> Option<AbsPath> {
    let word = match written.as_str() {
        Some(text) => text.into(),
        None => {
            let bytes = written.get("bytes")?.as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
            OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?)
        }
    };
    AbsPath::normalize(word)
}

fn invalid(why: &'static str) -> ModelError {
    ModelError::InvalidPlan { why }
}
