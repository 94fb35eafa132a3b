//! Repositories that the run made in the direct subfolders of the project. git does not enter them
//! by itself, but editors look for repositories there, and people go there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::compile::layers::Project;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::git::nested;
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::doubts::{SETTINGS_ELSEWHERE, doubts_about, doubts_about_settings, listed_doubts};
use super::held::Held;
use super::nested::protected_parts;
use super::planted::has_head;

pub(super) struct SubfoldersWatch {
    root: AbsPath,
    /// The settings that a worktree of the project shares.
    own_settings: Option<AbsPath>,
    /// The subfolders that were repositories at the start.
    known: BTreeMap<AbsPath, Subfolder>,
}

/// A subfolder that is a repository.
#[derive(Default)]
struct Subfolder {
    /// The files that make git run something, if it is known where they are.
    obeyed: Vec<AbsPath>,
    doubts: Vec<String>,
}

impl SubfoldersWatch {
    pub(super) fn start(host: &Host, project: &Project) -> Self {
        let root = project.root.clone();
        let own_settings = project.repository.as_ref().map(|own| own.common_dir.clone());
        let folders = subfolders(host, &root).unwrap_or_default().into_iter();
        let look = |folder: &AbsPath| look_in(host, folder, own_settings.as_ref());
        let known = folders.filter_map(|folder| Some((folder.clone(), look(&folder)?))).collect();
        Self { root, own_settings, known }
    }

    /// Reports each one that could make git run something since this run, unless it was moved
    /// aside. The user changed the files that the policy protected during the whole run.
    pub(super) fn finish(&self, was_protected: impl Fn(&AbsPath) -> bool, held: &mut Held) {
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
        // Worktrees share their settings.
        let mut said = BTreeSet::new();
        for folder in folders {
            let before = self.known.get(&folder);
            let Subfolder { obeyed, mut doubts } =
                look_in(host, &folder, self.own_settings.as_ref()).unwrap_or_default();
            doubts.retain(|doubt| !before.is_some_and(|before| before.doubts.contains(doubt)));
            let is_same = before.is_some_and(|before| before.obeyed == obeyed);
            let was_protected = is_same && !obeyed.is_empty() && obeyed.iter().all(&was_protected);
            if doubts.is_empty() || was_protected || held.paths.contains(&folder.child(".git")) {
                continue;
            }
            if is_same && !said.insert((obeyed.first().cloned(), doubts.clone())) {
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

/// The repository in `folder`; `None` if there is none. The settings of a worktree of the project
/// are the project's own.
fn look_in(host: &Host, folder: &AbsPath, own_settings: Option<&AbsPath>) -> Option<Subfolder> {
    match nested::repository_in(host, folder) {
        Ok(Some(found)) => {
            let obeyed = protected_parts(&found.git_dir, &found.common_dir).into();
            let is_worktree = Some(&found.common_dir) == own_settings;
            let mut doubts = doubts_about(host, &found);
            doubts.retain(|doubt| !is_worktree || doubt != SETTINGS_ELSEWHERE);
            Some(Subfolder { obeyed, doubts })
        }
        Ok(None) if has_head(host, folder).unwrap_or(true) => {
            let obeyed = protected_parts(folder, folder).into();
            Some(Subfolder { obeyed, doubts: doubts_about_settings(host, folder, folder) })
        }
        Ok(None) => None,
        Err(_) => Some(Subfolder { obeyed: Vec::new(), doubts: vec!["a `.git` that cannot be looked at".to_owned()] }),
    }
}

fn subfolders(host: &Host, root: &AbsPath) -> io::Result<Vec<AbsPath>> {
    let entries = host.read_dir(root)?.into_iter().filter(|entry| entry.kind == FileKind::Directory);
    let mut folders: Vec<AbsPath> = entries.map(|entry| root.child(&entry.name)).collect();
    folders.sort();
    Ok(folders)
}
