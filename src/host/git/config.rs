//! git's configuration syntax: one file and its entries, exactly as git reads them. Includes are
//! not followed.

use std::io;

/// One `name = value` and the section that it stands in, in the spelling of the file.
pub(crate) struct ConfigEntry {
    /// Without the quoted subsection. `[a.b]`, an older form of `[a "b"]`, is the section `a.b`.
    pub section: String,
    pub has_subsection: bool,
    /// The quoted subsection; empty without one.
    pub subsection: Vec<u8>,
    pub name: String,
    /// A key without `=` means true and reads as `true`.
    pub value: Vec<u8>,
}

impl ConfigEntry {
    /// Whether this is `section.key`, given in lower case, in a section without a subsection.
    pub(crate) fn is(&self, section: &str, key: &str) -> bool {
        !self.has_subsection && self.section.eq_ignore_ascii_case(section) && self.name.eq_ignore_ascii_case(key)
    }

    /// Whether `table`, of sections and their keys in lower case, has this key in `section`.
    pub(crate) fn is_listed(&self, section: &str, table: &[(&str, &str)]) -> bool {
        let has_key = |keys: &str| keys.split(' ').any(|key| self.name.eq_ignore_ascii_case(key));
        table.iter().any(|(known, keys)| section.eq_ignore_ascii_case(known) && has_key(keys))
    }
}

/// All entries, in order. Text that git refuses is an error, because git then obeys none of it.
pub(crate) fn entries(text: &[u8]) -> io::Result<Vec<ConfigEntry>> {
    let mut text = ConfigText(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
    text.entries().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed git configuration"))
}

/// The last value of `section.key`, which is the one that git takes.
pub(crate) fn last_value(text: &[u8], section: &str, key: &str) -> io::Result<Option<Vec<u8>>> {
    Ok(entries(text)?.into_iter().rfind(|entry| entry.is(section, key)).map(|entry| entry.value))
}

pub(crate) fn is_true(value: &[u8]) -> bool {
    [&b"true"[..], b"yes", b"on", b"1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The text that is not yet read. The functions return `None` where git reports a syntax error.
struct ConfigText<'t>(&'t [u8]);

impl ConfigText<'_> {
    /// The next byte; the two bytes of a DOS line end count as one.
    fn next(&mut self) -> Option<u8> {
        self.0 = self.0.strip_prefix(b"\r").filter(|rest| rest.starts_with(b"\n")).unwrap_or(self.0);
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip_line(&mut self) {
        while !matches!(self.next(), None | Some(b'\n')) {}
    }

    fn entries(&mut self) -> Option<Vec<ConfigEntry>> {
        let (mut section, mut quoted) = (String::new(), None);
        let mut entries = Vec::new();
        while let Some(byte) = self.next() {
            match byte {
                b'#' | b';' => self.skip_line(),
                b'[' => (section, quoted) = self.section()?,
                _ if is_space(byte) => {}
                _ if byte.is_ascii_alphabetic() => {
                    let (name, value) = self.entry(byte)?;
                    let (has_subsection, subsection) = (quoted.is_some(), quoted.clone().unwrap_or_default());
                    entries.push(ConfigEntry { section: section.clone(), has_subsection, subsection, name, value });
                }
                _ => return None,
            }
        }
        Some(entries)
    }

    /// The name after `[`, and the subsection that follows it.
    fn section(&mut self) -> Option<(String, Option<Vec<u8>>)> {
        let mut name = String::new();
        loop {
            match self.next()? {
                b']' => return (!name.is_empty()).then_some((name, None)),
                byte if is_space(byte) => {
                    let subsection = self.subsection(byte)?;
                    return Some((name, Some(subsection)));
                }
                byte if is_key(byte) || byte == b'.' => name.push(byte.into()),
                _ => return None,
            }
        }
    }

    /// The subsection after the blank `byte`, up to the `]`.
    fn subsection(&mut self, mut byte: u8) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while is_space(byte) && byte != b'\n' {
            byte = self.next()?;
        }
        let mut is_quoted = byte == b'"';
        while is_quoted {
            byte = self.next()?;
            is_quoted = byte != b'"';
            if byte == b'\\' {
                byte = self.next()?;
            }
            if byte == b'\n' {
                return None;
            }
            if is_quoted {
                text.push(byte);
            }
        }
        (byte == b'"' && self.next()? == b']').then_some(text)
    }

    /// The key that starts with `first`, and its value.
    fn entry(&mut self, first: u8) -> Option<(String, Vec<u8>)> {
        let mut name = String::from(char::from(first));
        let mut has_ended = false;
        loop {
            match self.next() {
                Some(byte) if !has_ended && is_key(byte) => name.push(byte.into()),
                Some(b' ' | b'\t') => has_ended = true,
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
        let mut is_quoted = false;
        loop {
            match self.next() {
                None | Some(b'\n') if is_quoted => return None,
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some(byte) if !is_quoted && is_space(byte) => {
                    if kept > 0 {
                        value.push(byte);
                    }
                    continue;
                }
                Some(b'"') => is_quoted = !is_quoted,
                Some(b'\\') => match self.next().unwrap_or(b'\n') {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(b'\x08'),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                Some(byte) => value.push(byte),
            }
            kept = value.len();
        }
        value.truncate(kept);
        // git takes a value for a C string.
        Some(super::until_nul(&value).to_vec())
    }
}

/// git knows no form feed, unlike `u8::is_ascii_whitespace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::super::tests::fixture::Fixture;
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
        assert_eq!(worktree("[core]\nworktree\n").as_deref(), Some("true"));
    }

    /// Each text is read here and by `git config`.
    #[test]
    fn a_file_is_read_as_git_reads_it() {
        let fixture = Fixture::new();
        for (text, expected) in [
            ("[core]\nworktree =  a b  ; c\n", Some("a b")),
            ("[core]\nworktree = \" a # b \" # c", Some(" a # b ")),
            ("[core]\nworktree = a\\\n  b\n", Some("a  b")),
            ("[core]\nworktree = a \\\n", Some("a ")),
            ("[core]\nworktree = a\\", Some("a")),
            ("[core]\nworktree = a\\\\b\\\"c\\td\n", Some("a\\b\"c\td")),
            ("[core]\nworktree = \x0ca\x0c\n", Some("\x0ca\x0c")),
            ("\u{feff}[core]\r\nworktree = a\r\n", Some("a")),
            ("# worktree = x\n[core]\n; worktree = y\nworktree = z", Some("z")),
            ("[core]\nworktree = a\0b\n", Some("a")),
            ("[core]\nworktree =\n", Some("")),
            ("[a \"b\\\"]\\\\\"] x = 1\n[core] worktree = a\n", Some("a")),
            ("[core\nworktree = a\n", None),
            ("[core ]\nworktree = a\n", None),
            ("[core]\nworktree = a\n[core \"x\" ]\n", None),
            ("[core]\nworktree = a\n[]\n", None),
            ("[core]\nworktree = a\n[c_re]\n", None),
            ("[core]\nworktree = a\n\x0c\n", None),
            ("[core]\nworktree = \"a\n", None),
            ("[core]\nworktree = a\nx = \\q\n", None),
            ("[core]\nwork tree = a\n", None),
        ] {
            assert_eq!(worktree(text).as_deref(), expected, "{text:?}");
            assert_eq!(last_value(text.as_bytes(), "core", "worktree").is_err(), expected.is_none(), "{text:?}");
            fixture.write("file", text);
            let mut git = Command::new("git");
            git.args(["config", "--file"]).arg(fixture.real("file")).args(["-z", "--get", "core.worktree"]);
            let output = git.output().unwrap();
            let said = output.status.success().then(|| String::from_utf8(output.stdout).unwrap());
            assert_eq!(said, expected.map(|value| format!("{value}\0")), "{text:?}");
        }
    }
}
