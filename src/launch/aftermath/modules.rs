//! Git directories of submodules that are not checked out. git does not enter them by itself, but `git submodule update` uses the one that
//! is there, with its hooks and settings, instead of cloning.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::git::Repository;
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::nested::{doubts_about_settings, move_to, some};

/// No repository has so many folders there; what lies deeper than a command should go is not searched for ever.
const MOST_FOLDERS: usize = 10_000;

/// What a git directory holds besides further ones.
const NOT_ENTERED: [&str; 6] = ["objects", "refs", "logs", "hooks", "info", "lfs"];

/// Of a folder that cannot be looked into: git needs less than that.
const CLOSED: &str = "what nobody may look at";

pub(super) struct Modules {
    folders: Vec<AbsPath>,
    /// Each that is there at the start, and what there is to say of it.
    known: BTreeMap<AbsPath, Vec<String>>,
}

impl Modules {
    pub(super) fn new(repository: Option<&Repository>) -> Self {
        let git_dirs = repository.map(|repository| [&repository.common_dir, &repository.git_dir]);
        let mut folders: Vec<AbsPath> = git_dirs.iter().flatten().map(|git_dir| git_dir.child("modules")).collect();
        folders.dedup();
        Self { folders, known: BTreeMap::new() }
    }

    pub(super) fn start(&mut self, host: &Host) {
        self.known = self.found(host);
    }

    /// Moves aside what has come to name programs.
    pub(super) fn look(&self, host: &Host, held: &mut BTreeSet<AbsPath>, said: &mut Diagnostics) {
        for (git_dir, mut doubts) in self.found(host) {
            if let Some(before) = self.known.get(&git_dir) {
                doubts.retain(|doubt| !before.contains(doubt));
            }
            if !doubts.is_empty() && held.insert(git_dir.clone()) {
                let around = self.folders.iter().find(|folder| git_dir.is_within(folder)).and_then(AbsPath::parent);
                said.push(hold(host, &git_dir, &around.unwrap_or_else(AbsPath::root), doubts));
            }
        }
    }

    fn found(&self, host: &Host) -> BTreeMap<AbsPath, Vec<String>> {
        let host = &host.with_cache();
        let mut found = BTreeMap::new();
        let mut waiting = self.folders.clone();
        let mut visited = 0;
        while let Some(folder) = waiting.pop() {
            visited += 1;
            if visited > MOST_FOLDERS {
                let tops = self.folders.iter().filter(|top| host.exists(top).unwrap_or(true));
                found.extend(tops.map(|top| (top.clone(), vec!["more folders than can be looked at".to_owned()])));
                break;
            }
            let Ok(resolved) = host.resolve(folder.as_path()) else {
                found.insert(folder, vec![CLOSED.to_owned()]);
                continue;
            };
            if resolved.kind != Some(FileKind::Directory) {
                continue;
            }
            if resolved.path != folder {
                found.insert(folder, vec!["a symlink in its place".to_owned()]);
                continue;
            }
            let Ok(entries) = host.read_dir(&folder) else {
                found.insert(folder, vec![CLOSED.to_owned()]);
                continue;
            };
            let is_git_dir = entries.iter().any(|entry| entry.name == "HEAD");
            if is_git_dir {
                found.insert(folder.clone(), doubts_about_settings(host, &folder, &folder));
            }
            let is_entered = |name: &OsStr| !is_git_dir || !NOT_ENTERED.iter().any(|known| name == *known);
            let folders = entries.iter().filter(|entry| entry.kind == FileKind::Directory || entry.is_symlink);
            waiting.extend(folders.filter(|entry| is_entered(&entry.name)).map(|entry| folder.child(&entry.name)));
        }
        found
    }
}

fn hold(host: &Host, git_dir: &AbsPath, around: &AbsPath, doubts: Vec<String>) -> Diagnostic {
    let begin = format!(
        "git would take `{git_dir}` for the repository of a submodule, which since this run has {}",
        some(doubts)
    );
    let parent = git_dir.parent().unwrap_or_else(AbsPath::root);
    let name = git_dir.file_name().unwrap_or_default();
    // Out of the folder `modules`: in it, it would still be the repository of a submodule, of another name.
    match move_to(host, (&parent, name), (around, "modules")) {
        Ok(held) => Diagnostic::new(Code::PlantedRepository, format!("{begin}; moved aside: it is `{held}` now"))
            .help("look at it, and move it back if it is right; `git submodule update --init` clones it anew"),
        Err(e) => {
            Diagnostic::new(Code::PlantedRepository, format!("{begin}; it cannot be moved aside: {}", reason(&e)))
                .help("remove it before you use `git submodule`")
        }
    }
}
