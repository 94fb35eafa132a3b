//! The text of a rule: where it starts from, and whether it is a pattern.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::host::Host;
use crate::policy::{AbsPath, Rule};

use super::pattern;

/// The directory that the text starts from, and the text without `~`.
pub(super) fn anchored<'t>(rule: &'t Rule, home: &'t AbsPath) -> (&'t AbsPath, &'t OsStr) {
    match rule.text.as_bytes() {
        b"~" => (home, OsStr::new(".")),
        [b'~', b'/', rest @ ..] => {
            // `~//x` must not become the absolute path `/x`.
            let start = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
            (home, OsStr::from_bytes(&rest[start..]))
        }
        _ => (&rule.base, &rule.text),
    }
}

/// A file whose name is the text of a pattern, or the first components of it up to the first with a
/// wildcard: `app/[id]` for `app/[id]/**`. Also returns how many bytes of the text name it.
pub(crate) fn named_like_pattern(host: &Host, home: &AbsPath, rule: &Rule) -> Option<(AbsPath, usize)> {
    let (anchor, text) = anchored(rule, home);
    let bytes = text.as_bytes();
    // A text with escapes already says that a name is meant.
    if !pattern::has_metacharacter(text) || bytes.contains(&b'\\') {
        return None;
    }
    let has_wildcard =
        |end: &usize| bytes[*end] == b'/' && pattern::has_metacharacter(OsStr::from_bytes(&bytes[..*end]));
    let first = (0..bytes.len()).find(has_wildcard);
    [bytes.len()].into_iter().chain(first).find_map(|end| {
        let found = host.resolve(&anchor.as_path().join(OsStr::from_bytes(&bytes[..end]))).ok()?;
        found.kind.map(|_| (found.path, rule.text.len() - (bytes.len() - end)))
    })
}
