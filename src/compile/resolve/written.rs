//! What a rule says: where its text starts from, and whether it is a pattern.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::host::Host;
use crate::policy::path::AbsPath;
use crate::policy::rule::Rule;

use super::pattern;

/// Where the text starts from, and the text without `~`.
pub(super) fn anchored<'t>(rule: &'t Rule, home: &'t AbsPath) -> (&'t AbsPath, &'t OsStr) {
    match rule.text.as_bytes() {
        b"~" => (home, OsStr::new(".")),
        [b'~', b'/', rest @ ..] => (home, OsStr::from_bytes(trim_slashes(rest))),
        _ => (&rule.base, &rule.text),
    }
}

/// Whether the text of a rule is a pattern by its looks.
pub(crate) fn looks_like_pattern(text: &OsStr) -> bool {
    pattern::has_metacharacter(text)
}

/// What exists under the very text of a pattern, or under the first components of it, up to the first that has a wildcard:
/// `app/[id]` for `app/[id]/**`. With how many bytes of the text name it.
pub(crate) fn named_like_pattern(host: &Host, home: &AbsPath, rule: &Rule) -> Option<(AbsPath, usize)> {
    let (anchor, text) = anchored(rule, home);
    let bytes = text.as_bytes();
    // Escapes are how one says that a name is meant.
    if !pattern::has_metacharacter(text) || bytes.contains(&b'\\') {
        return None;
    }
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let has_wildcard = |end: &usize| pattern::has_metacharacter(OsStr::from_bytes(&bytes[..*end]));
    let first = slashes.into_iter().find(has_wildcard);
    [bytes.len()].into_iter().chain(first).find_map(|end| {
        let found = host.resolve(&anchor.as_path().join(OsStr::from_bytes(&bytes[..end]))).ok()?;
        found.kind.map(|_| (found.path, rule.text.len() - (bytes.len() - end)))
    })
}

/// `~//x` must not become the absolute path `/x`.
fn trim_slashes(mut rest: &[u8]) -> &[u8] {
    while let [b'/', tail @ ..] = rest {
        rest = tail;
    }
    rest
}
