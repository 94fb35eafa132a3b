//! What runs have put on the host and must take away again: the journals in the state folder, as they are read.
//!
//! Each run keeps a file of its own in `runs/`, locked as long as the run lasts. It is a line of JSON for each step: what
//! will be made under which temporary name, then what was made. A line that a killed run could not finish counts as
//! not written. `launch::undo` writes them.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, statat};
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::host::identity::Identity;
use crate::host::nofollow::{holds, is_empty, look, open_parent};
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;

/// The folder of the journals, in the state folder.
pub const RUNS: &str = "runs";
/// How a journal's name ends.
pub const SUFFIX: &str = ".journal";
/// How a temporary name begins.
pub const TEMPORARY: &str = ".agent-sandbox-";
/// No run makes this much.
const LARGEST: u64 = 1 << 20;

/// Something that a run has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    path: Word,
    #[serde(flatten)]
    pub identity: Identity,
    /// Of a file; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// A directory that was made only for the sake of something in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_parent: bool,
}

impl Record {
    pub fn new(path: &AbsPath, identity: Identity, content: Option<&[u8]>, is_parent: bool) -> Self {
        let content = content.map(|content| String::from_utf8_lossy(content).into_owned());
        Self { path: word(path), identity, content, is_parent }
    }

    /// The same, for a run that needs it too.
    #[must_use]
    pub fn joined(&self, is_parent: bool) -> Self {
        Self { is_parent, ..self.clone() }
    }

    /// `None` if the journal was tampered with.
    pub fn path(&self) -> Option<AbsPath> {
        AbsPath::normalize(&self.path.0)
    }

    pub fn content(&self) -> Option<&[u8]> {
        self.content.as_deref().map(str::as_bytes)
    }
}

/// Something that is made under a name of its own first, so that it is known before it stands where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    temporary: Word,
    /// What is made below the temporary name, and itself: relative paths, parents first.
    inside: Vec<(Word, bool)>,
}

impl Intent {
    /// `inside`: relative to `temporary`, and whether it is a directory.
    pub fn new(temporary: &AbsPath, inside: impl IntoIterator<Item = (std::path::PathBuf, bool)>) -> Self {
        let inside = inside.into_iter().map(|(path, is_directory)| (Word(path.into_os_string()), is_directory));
        Self { temporary: word(temporary), inside: inside.collect() }
    }

    /// All that was to be made, parents first, and whether it is a directory.
    pub fn paths(&self) -> Vec<(AbsPath, bool)> {
        let Some(top) = AbsPath::normalize(&self.temporary.0) else { return Vec::new() };
        // What is removed by its name alone must have one that nobody else uses, whatever a journal says.
        let is_ours = top.file_name().is_some_and(|name| name.as_bytes().starts_with(TEMPORARY.as_bytes()));
        let is_below = |path: &Word| Path::new(&path.0).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_ours || !self.inside.iter().all(|(path, _)| is_below(path)) {
            return Vec::new();
        }
        self.inside.iter().map(|(path, is_directory)| (top.join(&path.0), *is_directory)).collect()
    }
}

/// A step of a run, as one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    WillMake(Vec<Intent>),
    /// All that stands; the last such line counts.
    Made(Vec<Record>),
    /// It must stand as long as another run lives.
    Held,
}

/// One run's journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    pub intents: Vec<Intent>,
    pub records: Vec<Record>,
    pub is_held: bool,
}

impl Journal {
    pub fn parse(text: &[u8]) -> Self {
        let mut journal = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Line::WillMake(intents)) => journal.intents.extend(intents),
                Ok(Line::Made(records)) => journal.records = records,
                Ok(Line::Held) => journal.is_held = true,
                // The end of a run that was killed while it wrote.
                Err(_) => {}
            }
        }
        journal
    }
}

fn word(path: &AbsPath) -> Word {
    Word(path.as_os_str().to_owned())
}

/// The names of the journals in `state`, sorted. A folder that cannot be read has none.
pub fn names(host: &Host, state: &AbsPath) -> Vec<AbsPath> {
    read_names(host, state).unwrap_or_default()
}

/// The same for who must not mistake a failure for an empty folder.
pub fn read_names(host: &Host, state: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let folder = state.child(RUNS);
    let entries = match host.read_dir(&folder) {
        // No folder, no runs.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let is_journal = |name: &std::ffi::OsStr| name.as_bytes().ends_with(SUFFIX.as_bytes());
    let mut names: Vec<AbsPath> =
        entries.iter().filter(|entry| is_journal(&entry.name)).map(|entry| folder.child(&entry.name)).collect();
    names.sort();
    Ok(names)
}

/// The placeholders that stand on this host, as runs have made them: for everybody else nothing is there.
pub fn standing(host: &Host, state: &AbsPath) -> Vec<AbsPath> {
    let read = |name: AbsPath| host.read_regular(&name, LARGEST).ok().flatten();
    let records = names(host, state).into_iter().filter_map(read).flat_map(|text| Journal::parse(&text).records);
    let mut standing: Vec<AbsPath> =
        records.filter(|record| is_unchanged(host, record)).filter_map(|record| record.path()).collect();
    standing.sort();
    standing.dedup();
    standing
}

/// Whether what `record` names is still that and as it was made: nothing was put into it. A symlink on the way is not followed.
pub fn is_unchanged(host: &Host, record: &Record) -> bool {
    looks_unchanged(host, record).unwrap_or(false)
}

fn looks_unchanged(host: &Host, record: &Record) -> io::Result<bool> {
    let Some(path) = record.path() else { return Ok(false) };
    let (folder, name) = open_parent(host, &path)?;
    let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Identity::of_stat(&found) == record.identity
        && match record.content() {
            None => record.is_parent || is_empty(&folder, name)?,
            Some(content) => holds(&folder, name, &found, content)?,
        })
}

/// The same for who will rely on it. What is the same file counts as it was where it cannot be looked into at the moment. An error where it cannot be told whether it
/// is the same.
pub fn stands(host: &Host, record: &Record) -> io::Result<bool> {
    let Some(path) = record.path() else { return Ok(false) };
    let found = match look(host, &path) {
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => None,
        found => found?,
    };
    if found.is_none_or(|found| Identity::of_stat(&found) != record.identity) {
        return Ok(false);
    }
    Ok(looks_unchanged(host, record).unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn abs(path: impl AsRef<std::path::Path>) -> AbsPath {
        AbsPath::normalize(path).unwrap()
    }

    #[test]
    fn a_journal_is_read_back_and_a_torn_line_is_not() {
        let odd = abs(std::ffi::OsString::from_vec(b"/a/\xff\nb".to_vec()));
        let identity = Identity { device: 1, inode: u64::MAX };
        let made = Line::Made(vec![
            Record::new(&odd, identity, None, true),
            Record::new(&abs("/c"), identity, Some(b".\n"), false),
        ]);
        let intent = Intent::new(&abs("/.agent-sandbox-t"), [("".into(), true), ("x/y".into(), false)]);
        let text = [Line::WillMake(vec![intent.clone()]), made].map(|line| serde_json::to_string(&line).unwrap());
        let whole = text.join("\n") + "\n";
        let journal = Journal::parse(whole.as_bytes());
        assert_eq!(journal.intents, [intent]);
        assert_eq!(
            journal.intents[0].paths(),
            [(abs("/.agent-sandbox-t"), true), (abs("/.agent-sandbox-t/x/y"), false)]
        );
        // What nobody of ours has named is not removed by its name, whatever a journal says.
        let forged = [("/etc/passwd", ""), ("/.agent-sandbox-t", "../etc"), ("/.agent-sandbox-t", "/etc")];
        for (top, inside) in forged {
            assert_eq!(Intent::new(&abs(top), [(inside.into(), false)]).paths(), [], "{top} {inside}");
        }
        assert_eq!(journal.records[0].path(), Some(odd));
        assert_eq!(journal.records[1].content(), Some(&b".\n"[..]));
        for cut in text[0].len() + 1..whole.len() - 1 {
            assert_eq!(Journal::parse(&whole.as_bytes()[..cut]).records, [], "{cut}");
        }
    }
}
