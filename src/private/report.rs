//! What is said about private files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::formats::{Format, Key, Values};
use crate::diagnostic::{Code, Diagnostic, listed, shell_quote};
use crate::policy::{AbsPath, escape_for_display};

/// A message names so many keys.
const MOST_KEYS: usize = 8;
/// At most so many keys have a note. A terminal shows fewer, and `report --last` all of them.
const MOST_NOTES: usize = 1000;
/// The longest value in a report, in bytes.
const LONGEST: usize = 200;

/// Changes that stay in the copy.
pub(super) fn kept(path: &AbsPath, format: Format, changes: &[(Key, Values)]) -> Diagnostic {
    let more = changes.len().saturating_sub(MOST_KEYS);
    let shown = &changes[..changes.len() - more];
    let keys = shown.iter().map(|(key, _)| format!("`{key}`"));
    let keys = keys.chain((more > 0).then(|| format!("{more} more")));
    let stay = if changes.len() == 1 { "stays" } else { "stay" };
    let message = format!("{} of `{path}` {stay} in the sandbox's copy", listed(keys, "and"));
    let outside = changes.iter().take(MOST_NOTES).map(|(key, values)| outside(path, format, key, values));
    Diagnostic::new(Code::PrivateKept, message)
        .notes(outside)
        .paths([path.clone()])
        .help("the next run has it again; look at it before you set it outside")
}

/// The command, or the words, for the same change outside.
fn outside(path: &AbsPath, format: Format, Key(parts): &Key, values: &Values) -> String {
    let file = shell_quote(path.as_os_str());
    let key = shell_quote(&OsString::from_vec(parts.join(&b'.')));
    let cut = |value: &[u8]| value.len() > LONGEST;
    if values.iter().any(|value| cut(value)) {
        return format!("`{}` has a value of more than {LONGEST} bytes", Key(parts.clone()));
    }
    match (format, values.as_slice()) {
        (Format::Git, []) => format!("outside: `git config --file {file} --unset-all {key}`"),
        (Format::Git, [value]) => {
            format!("outside: `git config --file {file} {key} {}`", shell_quote(OsStr::from_bytes(value)))
        }
        (Format::Git, values) => {
            let add = |value: &Vec<u8>| {
                format!("`git config --file {file} --add {key} {}`", shell_quote(OsStr::from_bytes(value)))
            };
            format!("outside: {}", listed(values.iter().map(add), "and"))
        }
        (_, []) => format!("outside: remove `{}` from {file}", Key(parts.clone())),
        (Format::Opaque, _) => format!("outside: write {file} yourself"),
        (_, [value, ..]) => {
            let value = escape_for_display(OsStr::from_bytes(value));
            format!("outside: set `{}` to `{value}` in {file}", Key(parts.clone()))
        }
    }
}

/// Keys that changed on both sides.
pub(super) fn conflict(path: &AbsPath, keys: &[Key]) -> Diagnostic {
    let more = keys.len().saturating_sub(MOST_KEYS);
    let shown = keys[..keys.len() - more].iter().map(|key| format!("`{key}`"));
    let keys = listed(shown.chain((more > 0).then(|| format!("{more} more"))), "and");
    let message = format!("{keys} of `{path}` changed on the host and in the sandbox's copy: the host's value counts");
    Diagnostic::new(Code::PrivateConflict, message)
        .paths([path.clone()])
        .help("change it again inside if you want the other value there")
}

/// A copy that cannot be used.
pub(super) fn set_aside(path: &AbsPath, why: &str, place: Option<&Path>) -> Diagnostic {
    let message = format!("the sandbox's copy of `{path}` was not used: {why}");
    let help = match place {
        Some(place) => {
            format!("the next run starts with the host's file; the copy is kept as {}", shell_quote(place.as_os_str()))
        }
        None => "the next run starts with the host's file".to_owned(),
    };
    Diagnostic::new(Code::PrivateSetAside, message).paths([path.clone()]).help(help)
}

/// Keys that could not be written to the host's file.
pub(super) fn not_written(path: &AbsPath, why: &str) -> Diagnostic {
    Diagnostic::new(Code::PrivateNotWritten, format!("`{path}` did not get the changes of the sandbox: {why}"))
        .paths([path.clone()])
        .help("the end of the next run tries again")
}
