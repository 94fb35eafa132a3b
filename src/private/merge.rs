//! Three-way merge by key. Only git's writer has side effects.

use super::formats::{Entries, FormatError, GitProgram, Key, KeyChanges, Syntax, Values};
use crate::policy::private::MAX_BYTES;

/// The keys whose values differ between `before` and `now`, with their values in `now`.
pub(super) fn changes(before: &Entries, now: &Entries) -> KeyChanges {
    let changed = now.iter().filter(|(key, values)| before.get(key) != Some(values));
    let removed = before.keys().filter(|key| !now.contains_key(key));
    let changed = changed.map(|(key, values)| (key.clone(), values.clone()));
    changed.chain(removed.map(|key| (key.clone(), Values::new()))).collect()
}

/// `entries` after `changes`.
pub(super) fn with(mut entries: Entries, changes: &[(Key, Values)]) -> Entries {
    for (key, values) in changes {
        match values.is_empty() {
            true => entries.remove(key),
            false => entries.insert(key.clone(), values.clone()),
        };
    }
    entries
}

/// Changes a text. Reads the new text again, and fails unless it has exactly these changes. If all
/// lines of the old text end with CR and LF, so do those of the new text.
pub(super) fn apply(
    syntax: Syntax,
    text: &[u8],
    changes: &[(Key, Values)],
    git: Option<&GitProgram>,
) -> Result<Vec<u8>, FormatError> {
    let mut written = syntax.write(text, changes, git)?;
    if has_crlf(text) {
        written = with_crlf(&written);
    }
    let expected = with(syntax.read(text)?, changes);
    if written.len() as u64 > MAX_BYTES {
        return Err(FormatError::TooLarge);
    }
    if syntax.read(&written)? == expected { Ok(written) } else { Err(FormatError::Syntax) }
}

fn has_crlf(text: &[u8]) -> bool {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).peekable();
    lines.peek().is_some() && lines.all(|line| line.ends_with(b"\r\n"))
}

fn with_crlf(text: &[u8]) -> Vec<u8> {
    let with_crlf = |line: &[u8]| match line.strip_suffix(b"\n") {
        Some(line) => [line.strip_suffix(b"\r").unwrap_or(line), b"\r\n"].concat(),
        None => line.to_vec(),
    };
    text.split_inclusive(|byte| *byte == b'\n').flat_map(with_crlf).collect()
}

/// The copy after the host's file has changed from `base` to `host`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub text: Vec<u8>,
    /// Keys that changed on both sides. The host's value counts.
    pub conflicts: Vec<Key>,
}

/// Applies the host's changes to the copy.
pub(super) fn merge(
    syntax: Syntax,
    base: &[u8],
    host: &[u8],
    copy: &[u8],
    git: Option<&GitProgram>,
) -> Result<Merged, FormatError> {
    if host == base || host == copy {
        return Ok(Merged { text: copy.to_vec(), conflicts: Vec::new() });
    }
    if copy == base {
        return Ok(Merged { text: host.to_vec(), conflicts: Vec::new() });
    }
    let (was, inside) = (syntax.read(base)?, syntax.read(copy)?);
    let outside = changes(&was, &syntax.read(host)?);
    let differs = |(key, values): &&(Key, Values)| {
        let now = inside.get(key);
        now != was.get(key) && now.map_or(&[][..], Vec::as_slice) != values.as_slice()
    };
    let conflicts = outside.iter().filter(differs).map(|(key, _)| key.clone()).collect();
    // git is started for each key, so it applies the side with fewer changes to the text of the
    // other.
    let of_command = changes(&was, &inside);
    let text = if syntax == Syntax::Git && of_command.len() < outside.len() {
        let is_of_host = |key: &Key| outside.iter().any(|(changed, _)| changed == key);
        let of_command: KeyChanges = of_command.into_iter().filter(|(key, _)| !is_of_host(key)).collect();
        apply(syntax, host, &of_command, git)?
    } else {
        apply(syntax, copy, &outside, git)?
    };
    Ok(Merged { text, conflicts })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::formats::tests::key;
    use super::*;

    fn merged(base: &str, host: &str, copy: &str) -> (String, Vec<Key>) {
        let merged = merge(Syntax::Json, base.as_bytes(), host.as_bytes(), copy.as_bytes(), None).unwrap();
        (String::from_utf8(merged.text).unwrap(), merged.conflicts)
    }

    // SPEC Q3
    #[test]
    fn both_changes_survive_and_the_host_wins_a_conflict() {
        let base = r#"{"a": 1, "b": 1, "c": 1}"#;
        assert_eq!(merged(base, base, r#"{"a": 2}"#), (r#"{"a": 2}"#.into(), vec![]));
        assert_eq!(merged(base, r#"{"a": 2}"#, base), (r#"{"a": 2}"#.into(), vec![]));
        let host = r#"{"a": 2, "b": 1, "c": 1}"#;
        let both = merged(base, host, r#"{"a": 1, "b": 3, "c": 1}"#);
        assert_eq!(both, (r#"{"a": 2, "b": 3, "c": 1}"#.into(), vec![]));
        let conflict = merged(base, host, r#"{"a": 3, "b": 3, "c": 1}"#);
        assert_eq!(conflict, (r#"{"a": 2, "b": 3, "c": 1}"#.into(), vec![key("a")]));
        let same = merged(base, host, r#"{"a": 2, "b": 3, "c": 1}"#);
        assert_eq!(same.1, []);
        let removed = merged(base, r#"{"b": 1, "c": 1}"#, r#"{"a": 1, "b": 3, "c": 1}"#);
        assert_eq!(removed, (r#"{"b": 3, "c": 1}"#.into(), vec![]));
    }

    // SPEC Q4
    #[test]
    fn a_text_with_carriage_returns_keeps_them() {
        let git = GitProgram::for_tests();
        for (syntax, text, value, expected) in [
            (Syntax::Git, "[a]\r\n\tb = 1\r\n", "2", "[a]\r\n\tb = 1\r\n\tc = 2\r\n"),
            (Syntax::Toml, "# x\r\n[a]\r\nb = 1\r\n", "2", "# x\r\n[a]\r\nb = 1\r\nc = 2\r\n"),
            (
                Syntax::Json,
                "{\r\n  \"a\": {\r\n    \"b\": 1\r\n  }\r\n}\r\n",
                "2",
                "{\r\n  \"a\": {\r\n    \"b\": 1,\r\n    \"c\": 2\r\n  }\r\n}\r\n",
            ),
        ] {
            let change = (key("a.c"), vec![value.as_bytes().to_vec()]);
            let written = apply(syntax, text.as_bytes(), &[change], Some(&git)).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
        let mixed = apply(Syntax::Toml, b"a = 1\r\nb = 1\n", &[(key("c"), vec![b"1".to_vec()])], None).unwrap();
        assert!(mixed.ends_with(b"b = 1\nc = 1\n"), "{mixed:?}");
    }

    /// Starting git for each of these keys would take seconds.
    // SPEC Q3
    #[test]
    fn many_changes_of_the_host_are_merged_with_few_of_the_command() {
        let git = GitProgram::for_tests();
        let branches = |count: usize| -> String {
            (0..count).map(|number| format!("[branch \"b{number}\"]\n\tremote = origin\n")).collect()
        };
        let base = "[core]\n\tbare = false\n";
        let copy = format!("{base}[a]\n\tb = 1\n[branch \"b0\"]\n\tremote = inside\n");
        let host = format!("{base}{}", branches(2000));
        let merged = merge(Syntax::Git, base.as_bytes(), host.as_bytes(), copy.as_bytes(), Some(&git)).unwrap();
        assert_eq!(String::from_utf8(merged.text).unwrap(), format!("{host}[a]\n\tb = 1\n"));
        assert_eq!(merged.conflicts, [key("branch.b0.remote")]);
    }

    #[test]
    fn a_change_that_cannot_be_taken_over_is_an_error() {
        assert!(merge(Syntax::Json, b"{}", b"{\"a\": 1}", b"{\"a\": {\"b\": 2}}", None).is_err());
        assert!(merge(Syntax::Json, b"{}", b"{\"a\": 1}", b"{", None).is_err());
    }
}
