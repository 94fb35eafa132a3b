//! Repositories that the run made in the direct subfolders of the project. git does not enter them
//! by itself, but editors look for repositories there, and people go there.

use std::collections::BTreeMap;
use std::io;

use crate::compile::layers::Project;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::git::nested;
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::doubts::{SETTINGS_ELSEWHERE, doubts_about, doubts_about_settings, listed_doubts};
use super::held::Held;
use super::planted::has_head;

pub(super) struct SubfoldersWatch {
    root: AbsPath,
    /// The settings that a worktree of the project shares.
    own_settings: Option<AbsPath>,
    /// The subfolders that were repositories at the start, and the doubts about each.
    known: BTreeMap<AbsPath, Vec<String>>,
}

impl SubfoldersWatch {
    pub(super) fn start(host: &Host, project: &Project) -> Self {
        let root = project.root.clone();
        let own_settings = project.repository.as_ref().map(|own| own.common_dir.clone());
        let folders = subfolders(host, &root).unwrap_or_default().into_iter();
        let doubts = |folder: &AbsPath| doubts_in(host, folder, own_settings.as_ref());
        let known = folders.filter_map(|folder| Some((folder.clone(), doubts(&folder)?))).collect();
        Self { root, own_settings, known }
    }

    /// Reports each one that could make git run something since this run, unless it was moved
    /// aside.
    pub(super) fn finish(&self, held: &mut Held) {
        let host = &held.host.with_cache();
        let folders = match subfolders(host, &self.root) {
            Ok(folders) => folders,
            Err(e) => {
                let message =
                    format!("repositories that this run made in `{}` are not known: {}", self.root, reason(&e));
                let help = "make the folder readable again, and look for new repositories before you enter it";
                return held.said.push(Diagnostic::new(Code::PlantedRepository, message).help(help));
            }
        };
        for folder in folders {
            let before = self.known.get(&folder);
            let mut doubts = doubts_in(host, &folder, self.own_settings.as_ref()).unwrap_or_default();
            doubts.retain(|doubt| !before.is_some_and(|before| before.contains(doubt)));
            if doubts.is_empty() || held.paths.contains(&folder.child(".git")) {
                continue;
            }
            let (name, doubts) = (super::name_in(&self.root, &folder), listed_doubts(doubts));
            let message = match before {
                None => format!("`{name}` is a repository since this run, and has {doubts}"),
                Some(_) => format!("the repository `{name}` has, since this run, {doubts}"),
            };
            let help = "look at its settings and hooks before you enter it, open it in an editor or add it";
            held.said.push(Diagnostic::new(Code::PlantedRepository, message).paths([folder]).help(help));
        }
    }
}

/// The doubts about a repository in `folder`; `None` if there is none. The settings of a worktree
/// of the project are the project's own.
fn doubts_in(host: &Host, folder: &AbsPath, own_settings: Option<&AbsPath>) -> Option<Vec<String>> {
    match nested::repository_in(host, folder) {
        Ok(Some(found)) => {
            let is_worktree = Some(&found.common_dir) == own_settings;
            let mut doubts = doubts_about(host, &found);
            doubts.retain(|doubt| !is_worktree || doubt != SETTINGS_ELSEWHERE);
            Some(doubts)
        }
        Ok(None) if has_head(host, folder).unwrap_or(true) => Some(doubts_about_settings(host, folder, folder)),
        Ok(None) => None,
        Err(_) => Some(vec!["a `.git` that cannot be looked at".to_owned()]),
    }
}

fn subfolders(host: &Host, root: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let entries = host.read_dir(root)?.into_iter();
    Ok(entries.filter(|entry| entry.kind == FileKind::Directory).map(|entry| root.child(&entry.name)).collect())
}
