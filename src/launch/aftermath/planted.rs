//! A repository in the folder that the user is in, or on the way from there to the root of the project, where none was at the start: nothing could be
//! protected of it. The next prompt of a shell may obey its settings.

use std::collections::BTreeSet;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::git::NestedRepositories;
use crate::host::git::nested;
use crate::host::nofollow::look;
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::nested::{doubts_about, doubts_about_settings, move_aside, some};

pub(super) struct Planted {
    folder: AbsPath,
    /// At the start.
    had_repository: bool,
    was_bare: bool,
}

impl Planted {
    pub(super) fn new(folder: AbsPath) -> Self {
        Self { folder, had_repository: true, was_bare: true }
    }

    pub(super) fn start(&mut self, host: &Host) {
        // What cannot be looked at is the user's.
        self.had_repository = !matches!(look(host, &self.folder.child(".git")), Ok(None));
        self.was_bare = is_bare(host, &self.folder);
    }

    /// What the index of a new repository names, if there is one.
    pub(super) fn look(
        &self,
        host: &Host,
        held: &mut BTreeSet<AbsPath>,
        said: &mut Diagnostics,
    ) -> Option<NestedRepositories> {
        if self.had_repository {
            return None;
        }
        let planted = nested::planted(host, &self.folder);
        let (name, doubts) = match &planted {
            Some((found, _)) => (".git", doubts_about(host, found)),
            None if !self.was_bare && is_bare(host, &self.folder) => {
                ("HEAD", doubts_about_settings(host, &self.folder, &self.folder))
            }
            None => return None,
        };
        if !doubts.is_empty() && held.insert(self.folder.child(name)) {
            said.push(self.hold(host, name, doubts));
        }
        planted.map(|(_, named)| named)
    }

    fn hold(&self, host: &Host, name: &str, doubts: Vec<String>) -> Diagnostic {
        let begin = format!("`{}` is a repository since this run, and has {}", self.folder, some(doubts));
        let place = self.folder.child(name);
        match move_aside(host, &self.folder, name) {
            Ok(held) => {
                Diagnostic::new(Code::PlantedRepository, format!("{begin}; moved aside: `{place}` is `{held}` now"))
                    .help("look at it, and move it back if it is right")
            }
            Err(e) => {
                let message = format!("{begin}; `{place}` cannot be moved aside: {}", reason(&e));
                Diagnostic::new(Code::PlantedRepository, message)
                    .help("remove it before you use git in this project: `git status` is enough to run what it names")
            }
        }
    }
}

/// Whether git takes a folder without a `.git` for a repository.
fn is_bare(host: &Host, folder: &AbsPath) -> bool {
    let is = |name: &str| host.resolve(folder.child(name).as_path()).ok().and_then(|found| found.kind);
    let is_directory = |name| is(name) == Some(FileKind::Directory);
    // A link to a branch that is not there yet is a `HEAD`, too.
    let has_head = !matches!(look(host, &folder.child("HEAD")), Ok(None));
    has_head && is_directory("objects") && is_directory("refs")
}
