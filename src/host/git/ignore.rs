//! The lines of a `.gitignore` (gitignore(5)): those that begin with `!`, which outrank
//! `info/exclude`, and those that hide the file itself.

/// Whether a line of `text` may stop git from ignoring a path that `info/exclude` lists. `names`
/// are the components of the path below the folder of the `.gitignore`. A component of a pattern
/// with a bracket or a backslash matches every name. A later line that ignores the path again is
/// not considered.
pub(crate) fn may_take_out(text: &[u8], names: &[&[u8]], is_folder: bool) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        line.strip_prefix(b"!").is_some_and(|pattern| matches(pattern, names, is_folder))
    })
}

/// Whether git ignores the `.gitignore` with this text because of its own lines, so that
/// `git status` does not show it. Brackets and escapes count as anything that they could match. A
/// line with `!` counts only if it is the plain name.
pub(crate) fn hides_itself(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut is_hidden = false;
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_end();
        if [&b"!.gitignore"[..], b"!/.gitignore"].contains(&line) {
            is_hidden = false;
        } else if !line.starts_with(b"#") && !line.starts_with(b"!") {
            let mut pattern = line.strip_prefix(b"/").unwrap_or(line);
            while let Some(rest) = pattern.strip_prefix(b"**/") {
                pattern = rest;
            }
            is_hidden |= !pattern.contains(&b'/') && name_matches(&widened(pattern), b".gitignore");
        }
    }
    is_hidden
}

/// A pattern without brackets and escapes that matches at least the same names.
fn widened(pattern: &[u8]) -> Vec<u8> {
    let mut wide = Vec::new();
    let mut rest = pattern;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'[', _) => {
                let end = end_of_set(after);
                wide.push(if end.is_some() { b'?' } else { b'*' });
                end.and_then(|end| after.get(end + 1..)).unwrap_or_default()
            }
            (b'\\', _) => {
                wide.push(b'?');
                after.get(1..).unwrap_or_default()
            }
            _ => {
                wide.push(*byte);
                after
            }
        };
    }
    wide
}

/// The position of the `]` that ends a set, as git's `wildmatch` finds it. `text` begins after the
/// `[`.
fn end_of_set(text: &[u8]) -> Option<usize> {
    let mut at = usize::from(matches!(text.first(), Some(b'!' | b'^')));
    let first = at;
    loop {
        at += match text.get(at)? {
            b']' if at > first => return Some(at),
            b'\\' => 2,
            b'[' if text.get(at + 1) == Some(&b':') => {
                let class = text.get(at + 2..)?;
                let end = class.iter().position(|byte| *byte == b']')?;
                if end > 0 && class[end - 1] == b':' { end + 3 } else { 1 }
            }
            _ => 1,
        };
    }
}

fn matches(pattern: &[u8], names: &[&[u8]], is_folder: bool) -> bool {
    let spaces = pattern.iter().rev().take_while(|byte| **byte == b' ').count();
    let pattern = &pattern[..pattern.len() - spaces];
    let (pattern, for_folders) = match pattern.strip_suffix(b"/") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    if for_folders && !is_folder {
        return false;
    }
    let parts: Vec<&[u8]> = pattern.split(|byte| *byte == b'/').collect();
    match (&parts[..], names) {
        ([name], [.., last]) => name_matches(name, last),
        ([b"", parts @ ..] | parts, names) => path_matches(parts, names),
    }
}

/// `**` matches any number of names. At the end of the pattern it matches at least one.
fn path_matches(parts: &[&[u8]], names: &[&[u8]]) -> bool {
    let end = parts.len();
    let mut reached = vec![false; end + 1];
    reached[0] = true;
    let skip = |reached: &mut Vec<bool>| {
        for at in 0..end.saturating_sub(1) {
            reached[at + 1] |= reached[at] && parts[at] == b"**";
        }
    };
    skip(&mut reached);
    for name in names {
        let mut next = vec![false; end + 1];
        for at in (0..end).filter(|at| reached[*at]) {
            let is_any = parts[at] == b"**";
            next[at] |= is_any;
            next[at + 1] |= name_matches(parts[at], name) && (!is_any || at + 1 == end);
        }
        skip(&mut next);
        reached = next;
    }
    reached[end]
}

/// Compares without regard to case, because `core.ignoreCase` may be set.
fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    if pattern.iter().any(|byte| matches!(byte, b'[' | b'\\')) {
        return true;
    }
    let (mut at, mut seen) = (0, 0);
    // The position of the last `*` in the pattern, and the end of its match in the name.
    let mut star = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[seen]) => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (at, seen) = (after + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes_out(text: &str, path: &str, is_folder: bool) -> bool {
        may_take_out(text.as_bytes(), &path.split('/').map(str::as_bytes).collect::<Vec<_>>(), is_folder)
    }

    // SPEC J4
    #[test]
    fn a_line_counts_for_the_paths_that_git_matches() {
        let patterns = [
            "!.env",
            "!/.env",
            "!*.ENV",
            "!**/.env",
            "!.e?v",
            "!.env  ",
            "!.env\r",
            "*.log\n!.env",
            "!.[e]nv",
            "!\\.env",
            "!.*",
            "!*",
        ];
        for text in patterns {
            assert!(takes_out(text, ".env", false), "{text}");
        }
        for text in ["!a/.env", "!a/**", "!**/a/.env", "!a/*", "!/a/.env", "!.env", "!a/**/.env", "!**", "!*/**"] {
            assert!(takes_out(text, "a/.env", false), "{text}");
        }
        for text in [".env", "#!.env", " !.env", "!.env/", "!.env2", "!env", "!/a/.env", "!a", "!.env/**", "!*/"] {
            assert!(!takes_out(text, ".env", false), "{text}");
        }
        for text in ["!/.env", "!b/**", "!a", "!a/", "!*/", "!a/b/**", "!**/b/.env", "!a/.env/**"] {
            assert!(!takes_out(text, "a/.env", false), "{text}");
        }
        assert!(takes_out("!*/", "a/b", true) && takes_out("!b/", "a/b", true) && takes_out("!a/b/", "a/b", true));
        assert!(takes_out("!a/**/b/**/c", "a/x/b/c", false) && !takes_out("!a/**/b/**/c", "a/x/c", false));
    }

    // SPEC R11
    #[test]
    fn a_file_hides_itself_as_git_reads_it() {
        let hiding =
            ["*", "a\n*\n", "/*", ".*", ".gitignore", "/.gitignore\r", ".git*  ", "**/.gitignore", "\u{feff}*"];
        let odd = [
            "[.]gitignore",
            "[]a.]gitignore",
            "\\.gitignore",
            ".g[!x]tignore",
            "[[:punct:]]gitignore",
            "[\\]]gitignore",
            "**",
            "!.gitignore\n*",
            "*\n!.git*",
        ];
        let plain = ["", "a", "#*", "*/", "a/*", "*.py[cod]", "\\#*#", "[._]*.s[a-w]", ".gitignore/", "*\n!.gitignore"];
        for text in hiding.into_iter().chain(odd) {
            assert!(hides_itself(text.as_bytes()), "{text}");
        }
        for text in plain {
            assert!(!hides_itself(text.as_bytes()), "{text}");
        }
    }

    /// A command can write such a line, which the next start reads.
    #[test]
    fn many_wildcards_are_compared_quickly() {
        let text = format!("!{}x", "**/a/".repeat(5_000));
        assert!(!takes_out(&text, &"a/".repeat(200), false));
        let text = format!("!{}x", "*a".repeat(5_000));
        assert!(!takes_out(&text, &"a".repeat(255), false));
    }
}
