//! Marks in a repository that make git show another history than its commits have: replaced
//! objects, grafts, and commits without parents.

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::layers::Project;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::{Host, is_absent};
use crate::policy::path::AbsPath;

use super::held::{self, Held};
use super::overlap::Facts;

/// A repository with some hundred thousand packed refs.
const LARGEST: u64 = 64 << 20;
const REPLACE: &str = "refs/replace/";
/// The number of marks in one sentence.
const MOST_NAMED: usize = 5;

pub(super) struct HistoryWatch {
    /// The repositories, and their marks at the start.
    known: BTreeMap<AbsPath, BTreeSet<Mark>>,
}

/// The name of a file or ref, and a commit in it.
type Mark = (String, Vec<u8>);

impl HistoryWatch {
    pub(super) fn start(host: &Host, project: &Project) -> Self {
        let own = project.repository.iter().map(|own| &own.common_dir);
        let all = own.chain(project.git_nested.found.iter().map(|found| &found.common_dir));
        let all: BTreeSet<&AbsPath> = all.collect();
        Self { known: all.into_iter().map(|common_dir| (common_dir.clone(), marks(host, common_dir))).collect() }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        for (common_dir, marks) in &mut self.known {
            marks.retain(|(name, commit)| facts.keep("history", common_dir, [name.as_bytes(), b"\0", commit].concat()));
        }
    }

    pub(super) fn finish(&self, held: &mut Held) {
        for (common_dir, before) in &self.known {
            let now = marks(held.host, common_dir);
            let new: BTreeSet<&str> = now.difference(before).map(|(name, _)| name.as_str()).collect();
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
    for file in ["info/grafts", "shallow"] {
        add(file, &|_| Some(file.to_owned()));
    }
    match host.read_dir(&common_dir.join(REPLACE)) {
        Ok(entries) => entries.into_iter().for_each(|entry| {
            let file = format!("{REPLACE}{}", entry.name.to_string_lossy());
            add(&file, &|_| Some(file.clone()));
        }),
        Err(e) if is_absent(&e) => {}
        // A run that closes the folder, or opens it, changes the output of git.
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

/// The commit that a line is about.
fn first_word(line: &[u8]) -> Vec<u8> {
    line.split(|byte| *byte == b' ').next().unwrap_or_default().to_vec()
}
