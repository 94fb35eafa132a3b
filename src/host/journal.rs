//! Reads the journals of runs. A journal records the placeholders that a run has on the host.
//!
//! Each run has a journal in `runs/` in the state folder, locked as long as the run lasts, with a
//! line of JSON for each step. A line that a killed run could not finish is ignored.
//! `placeholders::runs` writes the journals.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::nofollow::look;
use crate::host::{Host, Identity, OpenDir};
use crate::policy::{AbsPath, Word};

/// The folder of the journals, in the state folder.
pub const RUNS: &str = "runs";
/// The suffix of a journal's name.
pub const SUFFIX: &str = ".journal";
/// The prefix of a temporary name.
pub const TEMPORARY: &str = ".agent-sandbox-";
/// The largest journal that is read. No run has a larger one, because the kernel limits the number
/// of mounts.
pub const MAX_BYTES: u64 = 1 << 28;

/// A file or directory that a run has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceholderRecord {
    pub path: AbsPath,
    #[serde(flatten)]
    pub identity: Identity,
    /// The content of a file; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Whether this is a directory that was made only to hold a placeholder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_parent: bool,
}

impl PlaceholderRecord {
    pub fn new(path: &AbsPath, identity: Identity, content: Option<&[u8]>, is_parent: bool) -> Self {
        let content = content.map(|content| String::from_utf8_lossy(content).into_owned());
        Self { path: path.clone(), identity, content, is_parent }
    }

    /// A record of this placeholder for another run that relies on it.
    #[must_use]
    pub fn joined(&self, is_parent: bool) -> Self {
        Self { is_parent, ..self.clone() }
    }

    pub fn content(&self) -> Option<&[u8]> {
        self.content.as_deref().map(str::as_bytes)
    }
}

/// Files and directories that a run makes under a temporary name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    temporary: AbsPath,
    /// Each path, relative to `temporary`, and the content of a file; `None` for a directory.
    /// `temporary` itself is the first entry, and parents come before children.
    inside: Vec<(Word, Option<String>)>,
}

impl Intent {
    pub fn new<'c>(temporary: &AbsPath, inside: impl IntoIterator<Item = (PathBuf, Option<&'c [u8]>)>) -> Self {
        let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
        let inside = inside.into_iter().map(|(path, content)| (Word(path.into_os_string()), content.map(text)));
        Self { temporary: temporary.clone(), inside: inside.collect() }
    }

    /// All paths, parents first, and the content of each file. The list is empty if `temporary`
    /// has no temporary name or a path is not below it: directories are removed by name alone, and
    /// a journal may be forged.
    pub fn paths(&self) -> Vec<(AbsPath, Option<&[u8]>)> {
        let name = self.temporary.file_name().unwrap_or_default();
        let is_below = |path: &Word| Path::new(&path.0).components().all(|part| matches!(part, Component::Normal(_)));
        let is_ours = name.as_bytes().starts_with(TEMPORARY.as_bytes());
        if !is_ours || !self.inside.iter().all(|(path, _)| is_below(path)) {
            return Vec::new();
        }
        self.inside
            .iter()
            .map(|(path, content)| (self.temporary.join(&path.0), content.as_deref().map(str::as_bytes)))
            .collect()
    }
}

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalLine {
    WillMake(Vec<Intent>),
    /// All placeholders of the run. Replaces the earlier lines of this kind.
    Made(Vec<PlaceholderRecord>),
    /// The placeholders must stay as long as another run is alive.
    Held,
}

/// The content of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    pub intents: Vec<Intent>,
    pub records: Vec<PlaceholderRecord>,
    pub is_held: bool,
}

impl Journal {
    pub fn parse(text: &[u8]) -> Self {
        let mut journal = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(JournalLine::WillMake(intents)) => journal.intents.extend(intents),
                Ok(JournalLine::Made(records)) => journal.records = records,
                Ok(JournalLine::Held) => journal.is_held = true,
                // Empty, forged, or torn when the run was killed.
                Err(_) => {}
            }
        }
        journal
    }
}

/// The paths of all journals, sorted. The list is empty if the folder does not exist.
pub fn journals(host: &Host, state: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let folder = state.child(RUNS);
    let entries = match host.read_dir(&folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let journals = entries.iter().filter(|entry| entry.name.as_bytes().ends_with(SUFFIX.as_bytes()));
    let mut paths: Vec<AbsPath> = journals.map(|entry| folder.child(&entry.name)).collect();
    paths.sort();
    Ok(paths)
}

/// The paths of all placeholders that are on the host. The compiler treats them as missing.
pub fn placeholder_paths(host: &Host, state: &AbsPath) -> Vec<AbsPath> {
    let read = |path: AbsPath| host.read_regular(&path, MAX_BYTES).ok().flatten();
    let texts = journals(host, state).unwrap_or_default().into_iter().filter_map(read);
    let records = texts.flat_map(|text| Journal::parse(&text).records);
    let mut paths: Vec<AbsPath> =
        records.filter(|record| is_unchanged(host, record)).map(|record| record.path).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Whether the path of `record` leads to the same file, without a symlink on the way, and no
/// process has changed it.
pub fn is_unchanged(host: &Host, record: &PlaceholderRecord) -> bool {
    check_unchanged(host, record).unwrap_or(false)
}

fn check_unchanged(host: &Host, record: &PlaceholderRecord) -> io::Result<bool> {
    let (folder, name) = OpenDir::parent_of(host, &record.path)?;
    let Some(found) = folder.stat(name)? else { return Ok(false) };
    Ok(Identity::of_stat(&found) == record.identity
        && match record.content() {
            None => record.is_parent || folder.is_empty(name)?,
            Some(content) => folder.holds(name, &found, content)?,
        })
}

/// Whether a run can rely on the placeholder of `record`. A placeholder that cannot be read at the
/// moment counts as unchanged. Returns an error if the file cannot be identified.
pub fn is_in_place(host: &Host, record: &PlaceholderRecord) -> io::Result<bool> {
    let found = match look(host, &record.path) {
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => None,
        found => found?,
    };
    let is_same = found.is_some_and(|found| Identity::of_stat(&found) == record.identity);
    Ok(is_same && check_unchanged(host, record).unwrap_or(true))
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
        let made = JournalLine::Made(vec![
            PlaceholderRecord::new(&odd, identity, None, true),
            PlaceholderRecord::new(&abs("/c"), identity, Some(b".\n"), false),
        ]);
        let intent = Intent::new(&abs("/.agent-sandbox-t"), [("".into(), None), ("x/y".into(), Some(&b"."[..]))]);
        let text =
            [JournalLine::WillMake(vec![intent.clone()]), made].map(|line| serde_json::to_string(&line).unwrap());
        let whole = text.join("\n") + "\n";
        let journal = Journal::parse(whole.as_bytes());
        assert_eq!(journal.intents, [intent]);
        assert_eq!(
            journal.intents[0].paths(),
            [(abs("/.agent-sandbox-t"), None), (abs("/.agent-sandbox-t/x/y"), Some(&b"."[..]))]
        );
        // A forged journal cannot cause the removal of another file by its name.
        let forged = [("/etc/passwd", ""), ("/.agent-sandbox-t", "../etc"), ("/.agent-sandbox-t", "/etc")];
        for (top, inside) in forged {
            assert_eq!(Intent::new(&abs(top), [(inside.into(), Some(&b""[..]))]).paths(), [], "{top} {inside}");
        }
        assert_eq!(journal.records[0].path, odd);
        assert_eq!(journal.records[1].content(), Some(&b".\n"[..]));
        for cut in text[0].len() + 1..whole.len() - 1 {
            assert_eq!(Journal::parse(&whole.as_bytes()[..cut]).records, [], "{cut}");
        }
    }
}
