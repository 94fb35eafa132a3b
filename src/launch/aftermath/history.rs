//! Marks in a repository that make git show another history than its commits have (replaced
//! objects, grafts, and commits without parents), and patterns of files that git does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::diagnostic::{Code, Diagnostic};
use crate::host::git::nested::Families;
use crate::host::{Host, is_absent};
use crate::policy::path::{AbsPath, escape_for_display};

use super::held::{self, Held};
use super::nested::Changeable;
use super::overlap::Facts;

/// The largest file that is read. It is enough for some hundred thousand packed refs.
const LARGEST: u64 = 64 << 20;
const REPLACE: &str = "refs/replace/";
const EXCLUDE: &str = "info/exclude";
const SHALLOW: &str = "shallow";
/// The number of marks in one sentence.
const MOST_NAMED: usize = 5;

pub(super) struct HistoryWatch {
    /// The repositories, and their marks at the start.
    known: BTreeMap<AbsPath, BTreeSet<Mark>>,
    /// The patterns of files that `git status` does not show, by the lists that hold them.
    excluded: BTreeMap<AbsPath, BTreeSet<Vec<u8>>>,
}

/// The name of a file or ref, and a commit in it.
type Mark = (String, Vec<u8>);

impl HistoryWatch {
    pub(super) fn start(host: &Host, families: &Families) -> Self {
        let all = families.iter().map(|family| family.repository.common_dir.clone());
        let (mut known, mut excluded) = (BTreeMap::new(), BTreeMap::new());
        for common_dir in all {
            let list = common_dir.join(EXCLUDE);
            excluded.insert(list.clone(), patterns(host, &list));
            known.insert(common_dir.clone(), marks(host, &common_dir));
        }
        Self { known, excluded }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        for (common_dir, marks) in &mut self.known {
            marks.retain(|(name, commit)| facts.keep("history", common_dir, [name.as_bytes(), b"\0", commit].concat()));
        }
        for (list, patterns) in &mut self.excluded {
            patterns.retain(|line| facts.keep("excluded", list, line));
        }
    }

    /// Reports patterns that are new in a list that the command could write.
    pub(super) fn finish_excluded(&self, now: &Families, could_be_changed: Changeable, held: &mut Held) {
        let lists = now.iter().map(|family| family.repository.common_dir.join(EXCLUDE));
        for list in lists.filter(could_be_changed) {
            let none = BTreeSet::new();
            let before = self.excluded.get(&list).unwrap_or(&none);
            let new = patterns(held.host, &list);
            let new: Vec<String> = new
                .difference(before)
                .map(|line| format!("`{}`", escape_for_display(OsStr::from_bytes(line))))
                .collect();
            if !new.is_empty() {
                let names = held::shortened(new, MOST_NAMED);
                let message = format!("since this run git does not show new files by {names} in `{list}`");
                let help = "list them with `git status --ignored`, and remove the lines that are not yours";
                held.said.push(Diagnostic::new(Code::HiddenFromGit, message).paths([list]).help(help));
            }
        }
    }

    pub(super) fn finish(&self, now: &Families, can_be_written: &impl Fn(&AbsPath) -> bool, held: &mut Held) {
        let new = now.iter().map(|family| &family.repository.common_dir);
        let new = new.filter(|path| !self.known.contains_key(*path) && can_be_written(&path.child("refs")));
        for common_dir in self.known.keys().chain(new) {
            let before = self.known.get(common_dir);
            let mut now = marks(held.host, common_dir);
            // `git clone --depth` and `git submodule add --depth` make the file `shallow`.
            now.retain(|mark| {
                before.is_some_and(|before| !before.contains(mark)) || before.is_none() && mark.0 != SHALLOW
            });
            let new: BTreeSet<&str> = now.iter().map(|(name, _)| name.as_str()).collect();
            if new.is_empty() {
                continue;
            }
            let names = held::shortened(new.into_iter().map(|name| format!("`{name}`")).collect(), MOST_NAMED);
            let message = format!("since this run git shows another history, because of {names} in `{common_dir}`");
            let help = "restore the real history with `git replace -d` or `git fetch --unshallow`, or remove the file";
            held.said.push(Diagnostic::new(Code::HiddenFromGit, message).paths([common_dir.clone()]).help(help));
        }
    }
}

/// The lines of a list that are no comments. If the list cannot be read, the error is the only
/// line.
fn patterns(host: &Host, list: &AbsPath) -> BTreeSet<Vec<u8>> {
    let text = host.read_regular(list, LARGEST).map(Option::unwrap_or_default);
    let text = text.unwrap_or_else(|e| e.kind().to_string().into_bytes());
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.filter(|line| !line.starts_with(b"#")).map(<[u8]>::to_vec).collect()
}

fn marks(host: &Host, common_dir: &AbsPath) -> BTreeSet<Mark> {
    let (mut marks, mut closed) = (BTreeSet::new(), None);
    let mut add = |file: &str, name_of: &dyn Fn(&[u8]) -> Option<String>| match host
        .read_regular(&common_dir.join(file), LARGEST)
    {
        Ok(text) => {
            let text = text.unwrap_or_default();
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            marks.extend(lines.filter_map(|line| Some((name_of(line)?, first_word(line)))));
        }
        Err(e) => marks.extend([(file.to_owned(), e.kind().to_string().into_bytes())]),
    };
    for file in ["info/grafts", SHALLOW] {
        add(file, &|_| Some(file.to_owned()));
    }
    match host.read_dir(&common_dir.join(REPLACE)) {
        Ok(entries) => entries.into_iter().for_each(|entry| {
            let file = format!("{REPLACE}{}", entry.name.to_string_lossy());
            add(&file, &|_| Some(file.clone()));
        }),
        Err(e) if is_absent(&e) => {}
        // The output of git depends on whether it can read the folder, so the error is a mark.
        Err(e) => closed = Some((REPLACE.to_owned(), e.kind().to_string().into_bytes())),
    }
    add("packed-refs", &|line| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        let is_replaced = line[at + 1..].starts_with(REPLACE.as_bytes());
        is_replaced.then(|| String::from_utf8_lossy(&line[at + 1..]).into_owned())
    });
    marks.extend(closed);
    marks
}

/// The first word of a line, which is the id of a commit.
fn first_word(line: &[u8]) -> Vec<u8> {
    line.split(|byte| *byte == b' ').next().unwrap_or_default().to_vec()
}
