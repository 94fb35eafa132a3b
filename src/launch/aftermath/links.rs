//! Symlinks on the way to what git obeys. A mount protects the target of a link, and the command
//! can replace the link itself. It is put back after the run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;

use rustix::fs::FileType;

use crate::compile::layers::Project;
use crate::host::{Host, OpenDir, is_absent};
use crate::policy::path::{AbsPath, escape_for_display};

use super::held::{Held, HeldReport, REMOVE_IT};

/// The parts of a git directory that git obeys.
pub(super) const OBEYED: [&str; 7] =
    ["config", "config.worktree", "hooks", "info/attributes", "commondir", "remotes", "branches"];

pub(super) struct LinksWatch {
    /// Each link and its target.
    links: Vec<(AbsPath, OsString)>,
}

impl LinksWatch {
    /// `can_be_replaced` tells whether the command can create or replace a path.
    pub(super) fn start(host: &Host, project: &Project, can_be_replaced: impl Fn(&AbsPath) -> bool) -> Self {
        let own = project.repository.iter().flat_map(|own| [&own.git_dir, &own.common_dir]);
        let nested = project.git_nested.found.iter().flat_map(|found| [&found.git_dir, &found.common_dir]);
        let git_dirs: BTreeSet<&AbsPath> = own.chain(nested).collect();
        let mut links = project.git_named.links.clone();
        for place in git_dirs.iter().flat_map(|git_dir| OBEYED.map(|name| git_dir.join(name))) {
            links.extend(host.resolve(place.as_path()).map(|found| found.links).unwrap_or_default());
        }
        let links = links.into_iter().filter(can_be_replaced);
        Self { links: links.filter_map(|link| Some((link.clone(), target_of(host, &link).ok()??))).collect() }
    }

    /// Moves aside what stands in the place of a link, and makes the link anew. A link that is gone
    /// leads git to nothing.
    pub(super) fn check(&self, held: &mut Held) {
        for (link, target) in &self.links {
            let is_replaced = match target_of(held.host, link) {
                Ok(now) => now.as_ref() != Some(target),
                Err(e) => !is_absent(&e),
            };
            if !is_replaced || held.paths.contains(link) {
                continue;
            }
            let shown = escape_for_display(target);
            let report = HeldReport {
                finding: format!("`{link}` led git to `{shown}`, and was replaced during this run"),
                subject: "what stands there".to_owned(),
                help_if_moved: "the link is back; look at what the run has put in its place",
                help_if_not: REMOVE_IT,
            };
            held.hold(link, report);
            // If it could not be moved, the report has said so.
            if let Ok((folder, name)) = OpenDir::parent_of(held.host, link) {
                let _ = folder.make_link(name, target);
            }
        }
    }
}

/// The target of the symlink at `link`; `None` if something else is there.
fn target_of(host: &Host, link: &AbsPath) -> io::Result<Option<OsString>> {
    let (folder, name) = OpenDir::parent_of(host, link)?;
    let found = folder.stat(name)?.ok_or(io::ErrorKind::NotFound)?;
    let is_link = FileType::from_raw_mode(found.st_mode).is_symlink();
    is_link.then(|| folder.link_target(name)).transpose()
}
