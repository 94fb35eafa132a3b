//! The second stage: what the plan that it reads from a descriptor adds to bwrap's mounts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use serde_json::Value;

use super::ModelError;
use crate::path::AbsPath;

/// One mount of the second stage.
pub(super) enum Step {
    Mask(AbsPath),
    Hide(AbsPath),
    ReadOnly(AbsPath),
}

/// The descriptor of the plan and the words of the command proper, where `command` is a call of the second stage.
pub(super) fn call(command: &[OsString]) -> Option<(i32, &[OsString])> {
    let [program, subcommand, descriptor, dashes, rest @ ..] = command else { return None };
    let is_call = program == "/run/agent-sandbox/guard" && subcommand == "__guard" && dashes == "--";
    Some((descriptor.to_str()?.parse().ok()?, rest)).filter(|_| is_call)
}

/// A directory of the sandbox's own that gets its mode from the second stage, and is then sealed or not.
pub(super) struct Own {
    pub(super) path: AbsPath,
    pub(super) mode: u32,
    pub(super) sealed: bool,
}

/// What a plan does before its mounts. Whatever is not understood is an error.
pub(super) fn own(plan: &[u8]) -> Result<Vec<Own>, ModelError> {
    let plan: Value = serde_json::from_slice(plan).map_err(|_| invalid("it is not JSON"))?;
    let Some(own) = plan.get("own") else { return Ok(Vec::new()) };
    let entries = own.as_array().ok_or(invalid("its own directories are no list"))?;
    let read = |entry: &Value| {
        let sealed = match entry.get("sealed") {
            None => Some(false),
            Some(sealed) => sealed.as_bool(),
        };
        let mode = entry.get("mode").and_then(Value::as_str).and_then(|mode| u32::from_str_radix(mode, 8).ok());
        Some(Own { path: path(entry.get("path")?)?, mode: mode?, sealed: sealed? })
    };
    entries.iter().map(|entry| read(entry).ok_or(invalid("a directory of its own is not understood"))).collect()
}

/// The mounts of a plan, in order. Whatever is not understood is an error.
pub(super) fn steps(plan: &[u8]) -> Result<Vec<Step>, ModelError> {
    let plan: Value = serde_json::from_slice(plan).map_err(|_| invalid("it is not JSON"))?;
    let mounts = plan.get("mounts").and_then(Value::as_array).ok_or(invalid("it has no mounts"))?;
    mounts.iter().map(step).collect()
}

fn step(mount: &Value) -> Result<Step, ModelError> {
    let entries = mount.as_object().filter(|entries| entries.len() == 1);
    let Some((kind, at)) = entries.and_then(|entries| entries.iter().next()) else {
        return Err(invalid("a mount is not one key and its path"));
    };
    let path = path(at).ok_or(invalid("a mount has no absolute path"))?;
    match kind.as_str() {
        "mask" | "mask-if-there" => Ok(Step::Mask(path)),
        "hide" => Ok(Step::Hide(path)),
        "read-only" => Ok(Step::ReadOnly(path)),
        _ => Err(invalid("a mount is of a kind that the model does not know")),
    }
}

fn path(written: &Value) -> Option<AbsPath> {
    if let Some(text) = written.as_str() {
        return AbsPath::normalize(OsStr::new(text));
    }
    let bytes = written.get("bytes")?.as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
    AbsPath::normalize(OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?))
}

fn invalid(why: &'static str) -> ModelError {
    ModelError::InvalidPlan { why }
}
