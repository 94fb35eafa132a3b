//! git's configuration syntax: one file and its entries. Nothing is followed here.

use std::io;

/// One `name = value` and the section that it stands in; a subsection belongs to the name of the section, with its quotes.
pub(crate) struct Entry {
    pub section: Vec<u8>,
    pub name: Vec<u8>,
    /// A key without `=` means true and reads as `true`.
    pub value: Vec<u8>,
}

/// All entries, in order. Text that git would refuse is an error: half of it is not an answer.
pub(crate) fn entries(text: &[u8]) -> io::Result<Vec<Entry>> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed git configuration");
    let mut reader = Reader::new(text);
    let mut section = Vec::new();
    let mut entries = Vec::new();
    while let Some(byte) = reader.next() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            b'[' => section = reader.section().ok_or_else(malformed)?,
            _ if byte.is_ascii_whitespace() => {}
            _ if byte.is_ascii_alphabetic() => {
                let (name, value) = reader.entry(byte).ok_or_else(malformed)?;
                entries.push(Entry { section: section.clone(), name, value });
            }
            _ => return Err(malformed()),
        }
    }
    Ok(entries)
}

/// The value of `section.key`, the last one where there are several, as git takes it. `section` and `key` are given in
/// lower case.
pub(crate) fn last_value(text: &[u8], section: &str, key: &str) -> io::Result<Option<Vec<u8>>> {
    let is_it = |entry: &Entry| {
        entry.section.eq_ignore_ascii_case(section.as_bytes()) && entry.name.eq_ignore_ascii_case(key.as_bytes())
    };
    Ok(entries(text)?.into_iter().rfind(is_it).map(|entry| entry.value))
}

pub(crate) fn is_true(value: &[u8]) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_slice(), b"true" | b"yes" | b"on" | b"1")
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl<'t> Reader<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self { rest: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) }
    }

    /// The next byte; the two of a DOS line end count as one.
    fn next(&mut self) -> Option<u8> {
        if let Some(after) = self.rest.strip_prefix(b"\r\n") {
            self.rest = after;
            return Some(b'\n');
        }
        let (first, after) = self.rest.split_first()?;
        self.rest = after;
        Some(*first)
    }

    fn skip_line(&mut self) {
        while !matches!(self.next(), None | Some(b'\n')) {}
    }

    /// The name after `[`. One with a subsection is returned with it, so that it equals no plain name.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        let mut quoted = false;
        loop {
            match self.next()? {
                b'\n' => return None,
                b']' if !quoted => return Some(name),
                b'"' => {
                    quoted = !quoted;
                    name.push(b'"');
                }
                b'\\' if quoted => name.push(self.next().filter(|byte| *byte != b'\n')?),
                byte => name.push(byte),
            }
        }
    }

    /// The key that starts with `first`, and its value.
    fn entry(&mut self, first: u8) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut name = vec![first];
        let mut ended = false;
        loop {
            match self.next() {
                Some(byte) if !ended && (byte.is_ascii_alphanumeric() || byte == b'-') => name.push(byte),
                Some(b' ' | b'\t') => ended = true,
                Some(b'=') => return Some((name, self.value()?)),
                None | Some(b'\n') => return Some((name, b"true".to_vec())),
                Some(_) => return None,
            }
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        // Blanks outside quotes count only between other characters.
        let mut kept = 0;
        let mut quoted = false;
        loop {
            match self.next() {
                None | Some(b'\n') if quoted => return None,
                None | Some(b'\n') => break,
                Some(b'"') => {
                    quoted = !quoted;
                    kept = value.len();
                    continue;
                }
                Some(b'#' | b';') if !quoted => {
                    self.skip_line();
                    break;
                }
                Some(b'\\') => match self.next()? {
                    b'\n' => continue,
                    b't' => value.push(b'\t'),
                    b'b' => value.push(b'\x08'),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                Some(byte) if !quoted && byte.is_ascii_whitespace() => {
                    if kept > 0 {
                        value.push(byte);
                    }
                    continue;
                }
                Some(byte) => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        // git takes a value for a string of C.
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        value.truncate(end);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worktree(text: &str) -> Option<String> {
        let value = last_value(text.as_bytes(), "core", "worktree").ok()??;
        String::from_utf8(value).ok()
    }

    #[test]
    fn the_last_value_of_the_plain_section_counts() {
        let text = "[core]\n\tbare = false\n\tworktree = ../a\n[core \"sub\"]\nworktree = ../no\n\
                    [Core.sub]\nworktree=../no\n[CORE] WorkTree=../b\n[user]\nworktree = ../no\n";
        assert_eq!(worktree(text).as_deref(), Some("../b"));
    }

    #[test]
    fn quotes_comments_and_continuations_are_read_as_git_reads_them() {
        for (text, expected) in [
            ("[core]\nworktree =  a b  ; c\n", "a b"),
            ("[core]\nworktree = \" a # b \" # c", " a # b "),
            ("[core]\nworktree = a\\\n  b\n", "a  b"),
            ("[core]\nworktree = a\\\\b\\\"c\\td\n", "a\\b\"c\td"),
            ("\u{feff}[core]\r\nworktree = a\r\n", "a"),
            ("# worktree = x\n[core]\n; worktree = y\nworktree = z", "z"),
            ("[core]\nworktree\n", "true"),
            ("[core]\nworktree = a\0b\n", "a"),
            ("[core]\nworktree =\n", ""),
        ] {
            assert_eq!(worktree(text).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn text_that_git_refuses_is_an_error() {
        for text in
            ["[core\nworktree = a\n", "[core]\nworktree = \"a\n", "[core]\nx = \\q\n", "[core]\nwork tree = a\n"]
        {
            assert!(last_value(text.as_bytes(), "core", "worktree").is_err(), "{text:?}");
        }
    }
}
