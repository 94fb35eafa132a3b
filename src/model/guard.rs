//! The second stage: what the plan that it reads from a descriptor adds to bwrap's mounts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde_json::Value;

use super::ModelError;
use crate::path::AbsPath;

/// One mount of the second stage.
pub(super) enum Step {
    Pin(AbsPath),
    Dev(AbsPath),
    /// A path of the host, from `source`.
    Bind {
        path: AbsPath,
        source: AbsPath,
        access: Access,
        if_there: bool,
    },
    Mask {
        path: AbsPath,
        if_there: bool,
    },
    Hide(AbsPath),
    Tmpfs {
        path: AbsPath,
        mode: u32,
    },
    Directory {
        path: AbsPath,
        mode: u32,
    },
    Symlink {
        path: AbsPath,
        target: OsString,
    },
    Data(AbsPath),
    Seal(AbsPath),
}

/// What can be done through a bind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    Writable,
    WithDevices,
}

/// The descriptor of the plan and the words of the command proper, where `command` is a call of the second stage.
pub(super) fn call(command: &[OsString]) -> Option<(i32, &[OsString])> {
    let [_, subcommand, descriptor, dashes, rest @ ..] = command else { return None };
    let is_call = subcommand == "__guard" && dashes == "--";
    Some((descriptor.to_str()?.parse().ok()?, rest)).filter(|_| is_call)
}

/// The mounts of a plan, in order. Whatever is not understood is an error.
pub(super) fn steps(plan: &[u8]) -> Result<Vec<Step>, ModelError> {
    let plan: Value = serde_json::from_slice(plan).map_err(|_| invalid("it is not JSON"))?;
    let list = |name| plan.get(name).and_then(Value::as_array);
    let expected = list("expect").ok_or(invalid("it expects nothing"))?;
    let writable: BTreeSet<AbsPath> = expected
        .iter()
        .filter(|expected| expected.get("access").is_some_and(|access| access == "rw"))
        .filter_map(|expected| path(expected.get("path")?))
        .collect();
    let mounts = list("mounts").ok_or(invalid("it has no mounts"))?;
    mounts.iter().map(|mount| step(mount, &writable)).collect()
}

fn step(mount: &Value, writable: &BTreeSet<AbsPath>) -> Result<Step, ModelError> {
    let entries = mount.as_object().filter(|entries| entries.len() == 1);
    let Some((kind, of)) = entries.and_then(|entries| entries.iter().next()) else {
        return Err(invalid("a mount is not one key and its value"));
    };
    let (kind, if_there) = kind.strip_suffix("-if-there").map_or((kind.as_str(), false), |kind| (kind, true));
    let at = path(of).or_else(|| path(of.get("path")?)).ok_or(invalid("a mount has no absolute path"))?;
    let bind = |access| Step::Bind { path: at.clone(), source: at.clone(), access, if_there };
    let mode = || of.get("mode").and_then(Value::as_str).and_then(|mode| u32::from_str_radix(mode, 8).ok());
    let step = match kind {
        "read-only" => Some(bind(Access::ReadOnly)),
        "writable" => Some(bind(Access::Writable)),
        "with-devices" => Some(bind(Access::WithDevices)),
        "mask" => Some(Step::Mask { path: at, if_there }),
        _ if if_there => None,
        "pin" => Some(Step::Pin(at)),
        "dev" => Some(Step::Dev(at)),
        "from" => of.get("source").and_then(path).map(|source| {
            let access = if writable.contains(&at) { Access::Writable } else { Access::ReadOnly };
            Step::Bind { path: at, source, access, if_there }
        }),
        "hide" => Some(Step::Hide(at)),
        "tmpfs" => mode().map(|mode| Step::Tmpfs { path: at, mode }),
        "directory" => mode().map(|mode| Step::Directory { path: at, mode }),
        "symlink" => of.get("target").and_then(word).map(|target| Step::Symlink { path: at, target }),
        "data" => Some(Step::Data(at)),
        "seal" => Some(Step::Seal(at)),
        _ => None,
    };
    step.ok_or(invalid("a mount is of a kind that the model does not know"))
}

fn word(written: &Value) -> Option<OsString> {
    if let Some(text) = written.as_str() {
        return Some(text.into());
    }
    let bytes = written.get("bytes")?.as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
    Some(OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?))
}

fn path(written: &Value) -> Option<AbsPath> {
    AbsPath::normalize(word(written)?)
}

fn invalid(why: &'static str) -> ModelError {
    ModelError::InvalidPlan { why }
}
