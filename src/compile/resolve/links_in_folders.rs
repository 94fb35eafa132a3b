//! Symlinks in folders of programs and settings (SPEC P19). A mount makes such a folder read-only,
//! and not the files elsewhere that symlinks in it lead to.

use std::collections::VecDeque;

use crate::host::{FileKind, is_transient};
use crate::policy::{AbsPath, Access};
use crate::sys::ablate::{self, Mitigation};

use super::{Match, Resolver, reserved};

/// The largest numbers of entries and folders to read for one rule: a start must not walk a large
/// tree.
const MOST_ENTRIES: usize = 1_000;
const MOST_FOLDERS: usize = 32;
/// The number of folder levels to search. `~/.config/systemd/user/default.target.wants/job.service`
/// lies at this depth.
const MOST_LEVELS: usize = 3;

/// Instructions that agents read, and that no preset makes read-only in the project: they run
/// nothing.
const INSTRUCTIONS: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];

impl Resolver<'_> {
    /// Adds a match of the rule of `found` at the target of each symlink in the folder, and below
    /// it. The folders nearest to the top come first.
    pub(super) fn links_in(&mut self, found: &Match) {
        let has_links = found.rule.refinements.with_links && found.kind == FileKind::Directory;
        if !has_links || ablate::is_off(Mitigation::LinksInFolders) {
            return;
        }
        let mut waiting = VecDeque::from([(found.path.clone(), 1)]);
        let (mut entries_left, mut folders_left) = (MOST_ENTRIES, MOST_FOLDERS);
        while folders_left > 0
            && let Some((folder, level)) = waiting.pop_front()
        {
            folders_left -= 1;
            // `Host` records transient errors. If we may not read the folder, no tool can read it
            // either.
            let mut entries = self.host.read_dir(&folder).unwrap_or_default();
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            entries.truncate(entries_left);
            entries_left -= entries.len();
            for entry in entries {
                let path = folder.child(&entry.name);
                let below = match entry.is_symlink {
                    true => self.link_in(found, &path),
                    false => (entry.kind == FileKind::Directory).then_some(path),
                };
                waiting.extend(below.filter(|_| level < MOST_LEVELS).map(|below| (below, level + 1)));
            }
        }
    }

    /// Adds a match of the rule of `folder` at the target of `link`. Returns the target if it is a
    /// folder.
    fn link_in(&mut self, folder: &Match, link: &AbsPath) -> Option<AbsPath> {
        let target = match self.host.noting_closed(link.as_path(), self.host.resolve(link.as_path())) {
            Ok(target) => target,
            Err(e) => {
                if is_transient(&e) {
                    self.unreadable(&folder.rule, link, &e);
                }
                return None;
            }
        };
        let path = target.path;
        let is_broad = [&self.project.home, &self.project.cwd, &self.project.root].iter().any(|at| at.is_within(&path));
        let runs_nothing = path.file_name().is_some_and(|name| INSTRUCTIONS.iter().any(|known| name == *known));
        if path.is_within(&folder.path) || is_broad || runs_nothing || reserved(&path, Access::Ro).is_some() {
            return None;
        }
        match target.kind.filter(|_| !self.stands(&path)) {
            None => {
                self.found.absent.push((folder.rule.clone(), path.clone()));
                self.found.missing.push((folder.rule.clone(), path));
                None
            }
            // No mount makes a device read-only. A unit that leads to `/dev/null` is masked.
            Some(FileKind::Device) => None,
            Some(kind) => {
                let links = folder.links.iter().cloned().chain(target.links).collect();
                let found = Match::new(folder.rule.clone(), path.clone(), kind, folder.exactness);
                self.found.matches.push(Match { links, names: target.names, ..found });
                (kind == FileKind::Directory).then_some(path)
            }
        }
    }
}
