//! Repositories that the run made in the direct subfolders of the project. git does not enter them
//! by itself, but editors look for repositories there, and people go there.

use std::collections::BTreeSet;
use std::io;

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::git::nested;
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about, doubts_about_settings, listed_doubts};
use super::held::Held;
use super::planted::has_head;

pub(super) struct SubfoldersWatch {
    root: AbsPath,
    /// The subfolders that were repositories at the start.
    known: BTreeSet<AbsPath>,
}

impl SubfoldersWatch {
    pub(super) fn start(host: &Host, root: &AbsPath) -> Self {
        let is_repository = |folder: &AbsPath| {
            nested::repository_in(host, folder).is_ok_and(|found| found.is_some())
                || has_head(host, folder).unwrap_or(false)
        };
        let known = subfolders(host, root).unwrap_or_default().into_iter().filter(is_repository).collect();
        Self { root: root.clone(), known }
    }

    /// Reports each new one that could make git run something, unless it was moved aside.
    pub(super) fn finish(&self, held: &mut Held) {
        let host = held.host;
        let folders = match subfolders(host, &self.root) {
            Ok(folders) => folders,
            Err(e) => {
                let message =
                    format!("repositories that this run made in `{}` are not known: {}", self.root, reason(&e));
                let help = "make the folder readable again, and look for new repositories before you enter it";
                return held.said.push(Diagnostic::new(Code::PlantedRepository, message).help(help));
            }
        };
        for folder in folders.into_iter().filter(|folder| !self.known.contains(folder)) {
            let doubts = match nested::repository_in(host, &folder) {
                Ok(Some(found)) => doubts_about(host, &found),
                Ok(None) if has_head(host, &folder).unwrap_or(true) => doubts_about_settings(host, &folder, &folder),
                Ok(None) => continue,
                Err(_) => vec!["a `.git` that cannot be looked at".to_owned()],
            };
            if doubts.is_empty() || held.paths.contains(&folder.child(".git")) {
                continue;
            }
            let name = super::name_in(&self.root, &folder);
            let message = format!("`{name}` is a repository since this run, and has {}", listed_doubts(doubts));
            let help = "look at its settings and hooks before you enter it, open it in an editor or add it";
            held.said.push(Diagnostic::new(Code::PlantedRepository, message).paths([folder]).help(help));
        }
    }
}

fn subfolders(host: &Host, root: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let entries = host.read_dir(root)?.into_iter();
    Ok(entries.filter(|entry| entry.kind == FileKind::Directory).map(|entry| root.child(&entry.name)).collect())
}
