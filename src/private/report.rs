//! Diagnostics about private files.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::formats::{Entries, Key, KeyChanges, Syntax, Values};
use crate::diagnostic::{Code, Diagnostic, by_turns, listed, reason, shell_quote};
use crate::policy::{AbsPath, escape_for_display};

/// The most keys that a message names.
const MOST_KEYS: usize = 8;
/// The largest number of keys that have a note. A terminal shows fewer notes, and `report --last`
/// shows all of them.
const MOST_NOTES: usize = 1000;
/// The longest key or value in a report, in bytes.
const LONGEST: usize = 200;
/// The most values of one key in a note.
const MOST_VALUES: usize = 8;

/// Keys that name programs, files or addresses: the first and the last part. A report may not have
/// room for all keys, and names these first.
const OBEYED: &[(&str, &str)] = &[
    ("core", "fsmonitor"),
    ("core", "hookspath"),
    ("core", "sshcommand"),
    ("core", "pager"),
    ("core", "editor"),
    ("core", "askpass"),
    ("core", "gitproxy"),
    ("core", "worktree"),
    ("core", "attributesfile"),
    ("core", "alternaterefscommand"),
    ("alias", "*"),
    ("browser", "cmd"),
    ("browser", "path"),
    ("credential", "helper"),
    ("diff", "command"),
    ("diff", "external"),
    ("diff", "textconv"),
    ("difftool", "cmd"),
    ("difftool", "path"),
    ("filter", "clean"),
    ("filter", "process"),
    ("filter", "smudge"),
    ("gpg", "program"),
    ("guitool", "cmd"),
    ("hook", "command"),
    ("include", "path"),
    ("includeif", "path"),
    ("init", "templatedir"),
    ("interactive", "difffilter"),
    ("man", "cmd"),
    ("man", "path"),
    ("merge", "driver"),
    ("mergetool", "cmd"),
    ("mergetool", "path"),
    ("pager", "*"),
    ("remote", "pushurl"),
    ("remote", "receivepack"),
    ("remote", "uploadpack"),
    ("remote", "url"),
    ("sendemail", "*"),
    ("sequence", "editor"),
    ("submodule", "update"),
    ("submodule", "url"),
    ("tar", "command"),
    ("trailer", "cmd"),
    ("trailer", "command"),
    ("uploadpack", "packobjectshook"),
    ("url", "insteadof"),
    ("url", "pushinsteadof"),
    // Settings of agents.
    ("apiKeyHelper", "*"),
    ("env", "*"),
    ("hooks", "*"),
    ("mcpServers", "*"),
    ("mcp_servers", "*"),
    ("notify", "*"),
    ("permissions", "*"),
    ("projects", "*"),
    ("statusLine", "*"),
    ("tools", "*"),
];

/// Puts keys that programs obey before all others, and the kinds of keys by turns: a command can
/// write any number of keys.
pub(super) fn obeyed_first(changes: KeyChanges) -> KeyChanges {
    let ends = |(Key(parts), _): &(Key, Values)| (parts.first().cloned(), parts.last().cloned());
    let is_obeyed = |change: &(Key, Values)| {
        let (Some(first), Some(last)) = ends(change) else { return false };
        OBEYED.iter().any(|key| key.0.as_bytes() == first && (key.1 == "*" || key.1.as_bytes() == last))
    };
    let (obeyed, others): (KeyChanges, KeyChanges) = changes.into_iter().partition(is_obeyed);
    [obeyed, others].into_iter().flat_map(|changes| by_turns(changes, ends)).collect()
}

/// Changes that stay in the copy.
pub(super) fn kept(path: &AbsPath, syntax: Syntax, changes: &[(Key, Values)], host: &Entries) -> Diagnostic {
    let more = changes.len().saturating_sub(MOST_KEYS);
    let shown = &changes[..changes.len() - more];
    let keys = shown.iter().map(|(key, _)| short(key));
    let keys = keys.chain((more > 0).then(|| format!("{more} more")));
    let stay = if changes.len() == 1 { "stays" } else { "stay" };
    let message = match changes {
        // A file without a known format is one value, and has no keys.
        [(key, _)] if key.0.is_empty() => format!("the new content of `{path}` stays in the sandbox's copy"),
        _ => format!("{} of `{path}` {stay} in the sandbox's copy", listed(keys, "and")),
    };
    let outside = changes.iter().take(MOST_NOTES).map(|(key, values)| {
        let why = unknown_remote(key, values, host).filter(|_| syntax == Syntax::Git);
        outside(path, syntax, key, values) + &why.unwrap_or_default()
    });
    Diagnostic::new(Code::PrivateKept, message)
        .notes(outside)
        .paths([path.clone()])
        .help("check each change before you make it outside; the next run inside has these changes already")
}

/// The reason why an upstream does not reach the host's file, whose entries are `host`.
fn unknown_remote(Key(parts): &Key, values: &Values, host: &Entries) -> Option<String> {
    let ([section, _, name], [remote]) = (parts.as_slice(), values.as_slice()) else { return None };
    let url = Key(vec![b"remote".to_vec(), remote.clone(), b"url".to_vec()]);
    let is_unknown = section == b"branch" && name == b"remote" && remote.len() <= LONGEST && !host.contains_key(&url);
    let remote = escape_for_display(OsStr::from_bytes(remote));
    is_unknown.then(|| format!("; an upstream reaches the host's file only if that file has the remote `{remote}`"))
}

/// A key in backticks, cut if it is long.
fn short(key: &Key) -> String {
    let text = key.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The note for one change: a `git config` call or a sentence that says how to make the same
/// change outside, or the reason why it is too large to show.
fn outside(path: &AbsPath, syntax: Syntax, key: &Key, values: &Values) -> String {
    let (file, shown) = (shell_quote(path.as_os_str()), short(key));
    if key.0.is_empty() {
        return format!("outside: write {file} yourself; `agent-sandbox private show` has both contents");
    }
    if key.0.iter().chain(values).any(|text| text.len() > LONGEST) {
        return format!("{shown} has a name or a value of more than {LONGEST} bytes");
    }
    if values.len() > MOST_VALUES {
        return format!("{shown} has {} values", values.len());
    }
    let key = shell_quote(&OsString::from_vec(key.0.join(&b'.')));
    match (syntax, values.as_slice()) {
        (Syntax::Git, []) => format!("outside: `git config --file {file} --unset-all -- {key}`"),
        (Syntax::Git, [first, others @ ..]) => {
            let set = |action: &str, value: &Vec<u8>| {
                format!("`git config --file {file} {action} -- {key} {}`", shell_quote(OsStr::from_bytes(value)))
            };
            let others = others.iter().map(|value| set("--add", value));
            format!("outside: {}", listed(std::iter::once(set("--replace-all", first)).chain(others), "and"))
        }
        (_, []) => format!("outside: remove {shown} from {file}"),
        (_, [value, ..]) => {
            let value = escape_for_display(OsStr::from_bytes(value));
            format!("outside: set {shown} to `{value}` in {file}")
        }
    }
}

/// Keys that changed on both sides.
pub(super) fn conflict(path: &AbsPath, keys: &[Key]) -> Diagnostic {
    let more = keys.len().saturating_sub(MOST_KEYS);
    let shown = keys[..keys.len() - more].iter().map(short);
    let keys = listed(shown.chain((more > 0).then(|| format!("{more} more"))), "and");
    let message = format!("{keys} of `{path}` changed on the host and in the sandbox's copy: the host's value counts");
    Diagnostic::new(Code::PrivateConflict, message)
        .paths([path.clone()])
        .help("change it again inside if you want the other value there")
}

/// A copy that cannot be used.
pub(super) fn set_aside(path: &AbsPath, why: &str, place: &Path, is_cut: io::Result<bool>) -> Diagnostic {
    let message = format!("the sandbox's copy of `{path}` was not used: {why}");
    let place = shell_quote(place.as_os_str());
    let help = format!("find the copy in {place}; the next run starts with the host's file");
    let cut = match is_cut {
        Ok(is_cut) => is_cut.then(|| "of each file, only the first 1 MiB is kept".to_owned()),
        Err(e) => Some(format!("not every large file in it could be cut: {}", reason(&e))),
    };
    Diagnostic::new(Code::PrivateSetAside, message).notes(cut).paths([path.clone()]).help(help)
}

/// Changes of the host that could not be merged into the copy.
pub(super) fn not_merged(path: &AbsPath, why: &str) -> Diagnostic {
    Diagnostic::new(Code::PrivateNotWritten, format!("the sandbox's copy of `{path}` lacks changes of the host: {why}"))
        .paths([path.clone()])
        .help("start another run, which tries again")
}

/// Keys that could not be written to the host's file.
pub(super) fn not_written(path: &AbsPath, why: &str) -> Diagnostic {
    Diagnostic::new(Code::PrivateNotWritten, format!("`{path}` did not get the changes of the sandbox: {why}"))
        .paths([path.clone()])
        .help("start another run, which tries again when it ends")
}
