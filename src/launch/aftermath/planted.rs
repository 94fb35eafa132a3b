//! Repositories that the run made in the user's working directory, between it and the root of the
//! project, or in the place of a repository of SPEC P11. No rule could protect them, and the next
//! prompt of a shell may obey their settings.

use std::io;

use crate::host::git::Nested;
use crate::host::git::nested;
use crate::host::{FileKind, Host, OpenDir};
use crate::policy::path::AbsPath;

use super::doubts::{doubts_about, doubts_about_settings, listed_doubts};
use super::held::{Held, HeldReport, REMOVE_IT};
use super::is_there;
use super::overlap::Facts;
use super::remotes::Reach;
use super::repository::valid_head;

/// A folder, and the repository that git saw in it at the start.
pub(super) struct PlantedWatch {
    folder: AbsPath,
    /// The repository to which the `.git` in the folder led.
    before: Option<Nested>,
    /// Whether the `.git` in the folder could not be examined.
    was_unclear: bool,
    was_bare: bool,
}

impl PlantedWatch {
    pub(super) fn start(host: &Host, folder: AbsPath) -> Self {
        let found = nested::repository_in(host, &folder);
        let was_unclear = found.is_err();
        let before = found.ok().flatten();
        let was_bare = is_bare(host, &folder).unwrap_or(false);
        Self { folder, before, was_unclear, was_bare }
    }

    /// Does nothing if another run did not examine this folder.
    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        let Self { folder, before, was_unclear, was_bare } = self;
        let mut is_known = |state: &str| facts.keep("planted", folder, state);
        if is_known("") {
            before.take_if(|before| !is_known(&format!("{before:?}")));
            *was_unclear = *was_unclear && is_known("unclear");
            *was_bare = *was_bare && is_known("bare");
        }
    }

    /// The repository in the folder, if git saw another one or none at the start.
    pub(super) fn new_repository(&self, host: &Host) -> io::Result<Option<Nested>> {
        Ok(nested::repository_in(host, &self.folder)?.filter(|found| self.before.as_ref() != Some(found)))
    }

    /// Moves a new repository aside if git could run something for it. `host` may have a cache.
    pub(super) fn check(&self, host: &Host, reach: Reach, held: &mut Held) {
        let Self { folder, before, was_unclear, was_bare } = self;
        let (name, doubts) = match nested::repository_in(host, folder) {
            // This repository was there at the start. Mounts protect its parts, and the user may
            // change these parts during the run.
            Ok(Some(found)) if before.as_ref() == Some(&found) => return self.name_bare(held),
            Ok(Some(found)) => (".git", doubts_about(host, &found, reach)),
            Ok(None) if !was_bare && has_head(host, folder).unwrap_or(true) => {
                ("HEAD", doubts_about_settings(host, folder, folder))
            }
            Ok(None) => return,
            Err(_) if *was_unclear || before.is_some() => return,
            Err(_) => (".git", vec!["a `.git` that cannot be examined".to_owned()]),
        };
        if doubts.is_empty() {
            return;
        }
        let place = folder.child(name);
        let report = HeldReport {
            finding: format!("`{folder}` is a repository since this run, and has {}", listed_doubts(doubts)),
            subject: format!("`{place}`"),
            help_if_moved: "look at it, and move it back if it is right",
            help_if_not: REMOVE_IT,
        };
        held.hold(&place, report);
    }

    /// Reports a bare repository around the `.git`. git obeys it as soon as git no longer accepts
    /// the `.git`.
    fn name_bare(&self, held: &mut Held) {
        let Self { folder, was_bare, .. } = self;
        let head = folder.child("HEAD");
        if *was_bare || !is_bare(held.host, folder).unwrap_or(false) || !held.paths.insert(head.clone()) {
            return;
        }
        let message =
            format!("since this run `{folder}` looks like a bare repository, with `HEAD`, `objects` and `refs`");
        let help = "remove `HEAD`: if `.git` breaks, git obeys the settings and hooks beside it";
        held.say(&head, message, help);
    }
}

/// Whether git accepts a folder without a `.git` as a repository (`is_git_directory` in git). git
/// tests neither whether `objects` and `refs` are directories nor where a `commondir` leads.
pub(super) fn is_bare(host: &Host, folder: &AbsPath) -> io::Result<bool> {
    if !has_head(host, folder)? {
        return Ok(false);
    }
    let common_dir = OpenDir::open(host, &nested::common_dir_of(host, folder)?)?;
    Ok(["objects", "refs"].iter().all(|name| common_dir.may_execute(name)))
}

/// Whether `folder` has a `HEAD` that git accepts. The checks after a run require nothing else of
/// a repository: `objects` may be missing, because an environment variable can lead git to others.
pub(super) fn has_head(host: &Host, folder: &AbsPath) -> io::Result<bool> {
    if !is_there(host, &folder.child("HEAD")) {
        return Ok(false);
    }
    // A directory on the way may have become a link, which git follows.
    let folder = host.resolve(folder.as_path())?;
    if folder.kind != Some(FileKind::Directory) {
        return Ok(false);
    }
    Ok(valid_head(&OpenDir::open(host, &folder.path)?)?.is_some())
}
