//! git's configuration syntax: one file and its entries, exactly as git reads them. Includes are
//! not followed.

use std::io;
use std::rc::Rc;

/// One `name = value` and its section, in the spelling of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigEntry {
    /// The section without the quoted subsection. `[a.b]`, an older form of `[a "b"]`, is the
    /// section `a.b`.
    pub section: Rc<str>,
    pub subsection: Option<Rc<[u8]>>,
    pub name: String,
    /// A key without `=` means true and reads as `true`.
    pub value: Vec<u8>,
}

impl ConfigEntry {
    /// Whether this is `section.key`, in upper or lower case, in a section without a subsection.
    pub(crate) fn is(&self, section: &str, key: &str) -> bool {
        self.subsection.is_none() && self.section.eq_ignore_ascii_case(section) && self.name.eq_ignore_ascii_case(key)
    }

    /// Whether `table` lists this key under `section`. The table holds sections and their keys in
    /// lower case.
    pub(crate) fn is_listed(&self, section: &str, table: &[(&str, &str)]) -> bool {
        let has_key = |keys: &str| keys.split(' ').any(|key| self.name.eq_ignore_ascii_case(key));
        table.iter().any(|(known, keys)| section.eq_ignore_ascii_case(known) && has_key(keys))
    }
}

/// Settings whose value is a name, a URL or a file that git does not run. Each row has the
/// section, the keys that git, its commands or a user's `git config` often write into a
/// repository, and other keys.
const NO_PROGRAM: [(&str, &str, &str); 25] = [
    ("core", "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks", ""),
    ("core", "worktree autocrlf eol sparsecheckout sparsecheckoutcone", "excludesfile"),
    ("remote", "url pushurl fetch tagopt", "push"),
    ("branch", "remote merge rebase description", "pushremote"),
    ("submodule", "url active branch", "path ignore"),
    ("user", "name email useconfigonly", "signingkey"),
    ("author", "name email", ""),
    ("committer", "name email", ""),
    ("color", "ui", ""),
    ("column", "ui", ""),
    ("i18n", "commitencoding logoutputencoding", ""),
    ("log", "date", ""),
    ("merge", "conflictstyle ff", ""),
    ("pull", "rebase ff", ""),
    ("push", "default", ""),
    ("status", "showuntrackedfiles", ""),
    ("tag", "sort", ""),
    ("init", "defaultbranch", ""),
    ("index", "sparse", ""),
    ("extensions", "objectformat", "worktreeconfig partialclone refstorage"),
    ("commit", "", "template"),
    ("blame", "", "ignorerevsfile"),
    ("mailmap", "", "file blob"),
    ("diff", "algorithm renames", "orderfile"),
    ("gpg", "", "allowedsignersfile revocationfile"),
];

/// Settings that name no program if their value is a boolean or a number.
const SWITCHES: [(&str, &str); 10] = [
    ("advice", "detachedhead"),
    ("core", "fsmonitor longpaths untrackedcache quotepath"),
    ("commit", "gpgsign"),
    ("feature", "manyfiles"),
    ("fetch", "prune"),
    ("gc", "auto"),
    ("index", "version threads"),
    ("push", "autosetupremote followtags"),
    ("rebase", "autosquash autostash"),
    ("rerere", "enabled"),
];

impl ConfigEntry {
    /// Whether the value can name no program if the key is in `section`.
    pub(crate) fn names_no_program(&self, section: &str) -> bool {
        let tables = NO_PROGRAM.map(|(known, written, other)| [(known, written), (known, other)]);
        self.is_listed(section, tables.as_flattened()) && !runs_helper(&self.value)
    }

    /// Whether git or an agent writes this setting into new repositories, and the value can name
    /// no program.
    pub(crate) fn is_of_a_new_repository(&self) -> bool {
        let table = NO_PROGRAM.map(|(known, written, _)| (known, written));
        self.is_listed(&self.section, &table) && !runs_helper(&self.value) || self.is_switch()
    }

    /// Whether this setting is in `SWITCHES` and its value is a boolean or a number.
    fn is_switch(&self) -> bool {
        let is_number = !self.value.is_empty() && self.value.iter().all(u8::is_ascii_digit);
        let is_switch = is_number || [&b"true"[..], b"false"].contains(&self.value.as_slice());
        is_switch && self.subsection.is_none() && self.is_listed(&self.section, &SWITCHES)
    }
}

/// Whether a URL names a transport helper. `ext::` runs a program, and others may.
pub(crate) fn runs_helper(url: &[u8]) -> bool {
    url.windows(2).any(|part| part == b"::")
}

/// The entry for a `key`, such as `section.subsection.name`, and a `value` from the environment.
pub(crate) fn entry_of(key: &[u8], value: &[u8]) -> Option<ConfigEntry> {
    let first = key.iter().position(|byte| *byte == b'.')?;
    let last = key.iter().rposition(|byte| *byte == b'.')?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let subsection = key.get(first + 1..last).map(Rc::from);
    Some(ConfigEntry {
        section: text(&key[..first]).into(),
        subsection,
        name: text(&key[last + 1..]),
        value: value.to_vec(),
    })
}

/// All entries, in order. Text that git refuses is an error, because git then obeys none of it.
pub(crate) fn entries(text: &[u8]) -> io::Result<Vec<ConfigEntry>> {
    let mut text = ConfigText(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text));
    text.entries().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed git configuration"))
}

/// The last value of `section.key`, which is the one that git uses.
pub(crate) fn last_value(text: &[u8], section: &str, key: &str) -> io::Result<Option<Vec<u8>>> {
    Ok(entries(text)?.into_iter().rfind(|entry| entry.is(section, key)).map(|entry| entry.value))
}

pub(crate) fn is_true(value: &[u8]) -> bool {
    [&b"true"[..], b"yes", b"on", b"1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// A section and its subsection.
type SectionName = (Rc<str>, Option<Rc<[u8]>>);

/// The rest of the text, which is not read yet. The functions return `None` where git reports a
/// syntax error.
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
        // The entries of a section share its names: a short line costs little memory.
        let (mut section, mut subsection) = (Rc::from(""), None);
        let mut entries = Vec::new();
        while let Some(byte) = self.next() {
            match byte {
                b'#' | b';' => self.skip_line(),
                b'[' => (section, subsection) = self.section()?,
                _ if is_space(byte) => {}
                _ if byte.is_ascii_alphabetic() => {
                    let (name, value) = self.entry(byte)?;
                    let (section, subsection) = (section.clone(), subsection.clone());
                    entries.push(ConfigEntry { section, subsection, name, value });
                }
                _ => return None,
            }
        }
        Some(entries)
    }

    /// The name after `[`, and the subsection that follows it.
    fn section(&mut self) -> Option<SectionName> {
        let mut name = String::new();
        loop {
            match self.next()? {
                b']' => return (!name.is_empty()).then(|| (name.into(), None)),
                byte if is_space(byte) => {
                    return Some((name.into(), Some(self.subsection(byte)?.into())));
                }
                byte if is_key(byte) || byte == b'.' => name.push(byte.into()),
                _ => return None,
            }
        }
    }

    /// The subsection after the blank `byte`, and the `]`.
    fn subsection(&mut self, mut byte: u8) -> Option<Vec<u8>> {
        while is_space(byte) && byte != b'\n' {
            byte = self.next()?;
        }
        if byte != b'"' {
            return None;
        }
        let mut subsection = Vec::new();
        loop {
            let byte = match self.next()? {
                b'"' => break,
                b'\\' => self.next()?,
                byte => byte,
            };
            if byte == b'\n' {
                return None;
            }
            subsection.push(byte);
        }
        (self.next()? == b']').then_some(subsection)
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
        // git treats a value as a C string.
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

    // SPEC R5, R11
    #[test]
    fn settings_of_users_that_name_no_program_are_known() {
        let is_known = |text: &str| entries(text.as_bytes()).unwrap().iter().all(ConfigEntry::is_of_a_new_repository);
        for known in [
            "[user]\nname = Ada\nemail = ada@x\n[author]\nname = Ada\n[committer]\nemail = ada@x\n",
            "[pull]\nrebase = true\n[push]\ndefault = simple\nautoSetupRemote = true\n[fetch]\nprune = true\n",
            "[color]\nui = auto\n[merge]\nconflictStyle = diff3\n[rerere]\nenabled = 1\n",
        ] {
            assert!(is_known(known), "{known}");
        }
        for other in [
            "[color]\npager = evil\n",
            "[merge \"x\"]\ndriver = evil\n",
            "[push]\ngpgSign = x\n",
            "[rerere]\nenabled = evil\n",
            "[core]\nhooksPath = 1\n",
            "[diff]\nexternal = evil\n",
        ] {
            assert!(!is_known(other), "{other}");
        }
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
