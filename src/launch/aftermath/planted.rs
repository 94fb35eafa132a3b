//! Repositories that the run made in the user's working directory, or between it and the root of
//! the project. No rule could protect them, and the next prompt of a shell may obey their settings.

use crate::host::git::NestedRepositories;
use crate::host::git::nested;
use crate::host::nofollow::look;
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about, doubts_about_settings, listed_doubts};
use super::held::{Held, HeldReport, REMOVE_IT};

/// A folder, and what it was at the start.
pub(super) struct PlantedWatch {
    folder: AbsPath,
    had_repository: bool,
    was_bare: bool,
}

impl PlantedWatch {
    pub(super) fn start(host: &Host, folder: AbsPath) -> Self {
        // A `.git` that cannot be looked at is the user's.
        let had_repository = !matches!(look(host, &folder.child(".git")), Ok(None));
        let was_bare = is_bare(host, &folder);
        Self { folder, had_repository, was_bare }
    }

    /// Moves a new repository aside if git could run something for it. Returns the repositories
    /// that its index names.
    pub(super) fn check(&self, held: &mut Held) -> Option<NestedRepositories> {
        let Self { folder, had_repository: false, was_bare } = self else { return None };
        let planted = nested::planted(held.host, folder);
        let (name, doubts) = match &planted {
            Some((found, _)) => (".git", doubts_about(held.host, found)),
            None if !was_bare && is_bare(held.host, folder) => {
                ("HEAD", doubts_about_settings(held.host, folder, folder))
            }
            None => return None,
        };
        if !doubts.is_empty() {
            let place = folder.child(name);
            let report = HeldReport {
                finding: format!("`{folder}` is a repository since this run, and has {}", listed_doubts(doubts)),
                subject: format!("`{place}`"),
                help_if_moved: "look at it, and move it back if it is right",
                help_if_not: REMOVE_IT,
            };
            held.hold(&place, report);
        }
        planted.map(|(_, named)| named)
    }
}

/// Whether git takes a folder without a `.git` for a repository.
fn is_bare(host: &Host, folder: &AbsPath) -> bool {
    let is_directory = |name: &str| {
        host.resolve(folder.child(name).as_path()).is_ok_and(|found| found.kind == Some(FileKind::Directory))
    };
    // A link to a branch that does not exist yet is a `HEAD`, too.
    let has_head = !matches!(look(host, &folder.child("HEAD")), Ok(None));
    has_head && is_directory("objects") && is_directory("refs")
}
