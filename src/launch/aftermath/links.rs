//! Symlinks on the way to files that git obeys. A mount protects the target of a link, but the
//! command can replace the link itself. The supervisor makes the link again after the run.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;

use rustix::fs::FileType;

use crate::compile::Compiled;
use crate::compile::resolve::Match;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{Host, OpenDir, is_transient};
use crate::policy::path::{AbsPath, escape_for_display};

use super::held::{Held, HeldReport, REMOVE_IT};
use super::is_there;

/// The parts of a git directory that git obeys.
pub(super) const OBEYED: [&str; 7] =
    ["config", "config.worktree", "hooks", "info/attributes", "commondir", "remotes", "branches"];

pub(super) struct LinksWatch {
    /// Each link and its target.
    links: Vec<(AbsPath, OsString)>,
    /// The links in the place of a `.git`. If such a link is missing, the next run does not
    /// protect the repository.
    dot_gits: BTreeSet<AbsPath>,
    /// A path that could not be examined at the start, with the reason.
    pub(super) unclear: Option<String>,
}

impl LinksWatch {
    /// `can_be_replaced` tells whether the command can create or replace a path.
    pub(super) fn start(host: &Host, compiled: &Compiled, can_be_replaced: impl Fn(&AbsPath) -> bool) -> Self {
        let project = &compiled.layers.project;
        let own = project.repository.iter().flat_map(|own| [&own.git_dir, &own.common_dir]);
        let nested = project.git_nested.found.iter().flat_map(|found| [&found.git_dir, &found.common_dir]);
        let git_dirs: BTreeSet<&AbsPath> = own.chain(nested).collect();
        let mut links = project.git_named.links.clone();
        // A hook may be a link to a link.
        let of_git = |found: &&Match| found.rule.refinements.with_links && found.rule.origin.is_of_preset("git");
        links.extend(compiled.resolution.matches.iter().filter(of_git).flat_map(|found| found.links.iter().cloned()));
        let mut unclear = None;
        let mut note = |path: &AbsPath, e: &io::Error| {
            if is_transient(e) {
                unclear.get_or_insert_with(|| format!("`{path}`: {}", reason(e)));
            }
        };
        for place in git_dirs.iter().flat_map(|git_dir| OBEYED.map(|name| git_dir.join(name))) {
            match host.resolve(place.as_path()) {
                Ok(found) => links.extend(found.links),
                Err(e) => note(&place, &e),
            }
        }
        let folders = project.repository.iter().map(|own| &own.work_tree);
        let folders = folders.chain(project.git_nested.found.iter().map(|found| &found.folder));
        let dot_gits: BTreeSet<AbsPath> = folders.map(|folder| folder.child(".git")).collect();
        links.extend(dot_gits.iter().cloned());
        let mut watched = Vec::new();
        for link in links.into_iter().filter(can_be_replaced) {
            match target_of(host, &link) {
                Ok(target) => watched.extend(target.map(|target| (link, target))),
                Err(e) => note(&link, &e),
            }
        }
        Self { links: watched, dot_gits, unclear }
    }

    /// Moves aside a file that replaced a link, and makes the link again. A link that is only
    /// missing is made again if it was in the place of a `.git`.
    pub(super) fn check(&self, held: &mut Held) {
        for (link, target) in &self.links {
            let shown = escape_for_display(target);
            let Some(place) = replaced(held.host, link, target) else {
                if self.dot_gits.contains(link) && !is_there(held.host, link) && held.paths.insert(link.clone()) {
                    let outcome = match make_again(held.host, link, target) {
                        Ok(()) => "is made again".to_owned(),
                        Err(e) => format!("cannot be made again: {}", reason(&e)),
                    };
                    let message = format!("the run removed the link `{link}` to `{shown}`, which {outcome}");
                    let help = "keep the link: without it, the next run does not protect the hooks and settings of \
                                that repository";
                    held.said.push(Diagnostic::new(Code::RepositoryRepaired, message).paths([link.clone()]).help(help));
                }
                continue;
            };
            if held.paths.contains(&place) {
                continue;
            }
            let report = HeldReport {
                finding: format!("`{link}` led git to `{shown}`, and was replaced during this run"),
                subject: if place == *link { "the entry in its place".to_owned() } else { format!("`{place}`") },
                help_if_moved: if place == *link { LINK_IS_BACK } else { PUT_IT_BACK },
                help_if_not: REMOVE_IT,
            };
            held.hold(&place, report);
            if place != *link {
                continue;
            }
            let made = make_again(held.host, link, target);
            let is_back = matches!(target_of(held.host, link), Ok(Some(now)) if now == *target);
            match made {
                Err(e) if !is_back => held.say(
                    link,
                    format!("the link `{link}` to `{shown}` cannot be made again: {}", reason(&e)),
                    "make it again yourself, before you use git in this project",
                ),
                Ok(()) | Err(_) => {}
            }
        }
    }
}

fn make_again(host: &Host, link: &AbsPath, target: &OsStr) -> io::Result<()> {
    let (folder, name) = OpenDir::parent_of(host, link)?;
    super::make_writable(&folder)?;
    folder.make_link(name, target)
}

const LINK_IS_BACK: &str = "look at the file or folder that the run has put in its place; the link is made again, \
                            unless another finding says that it is not";
const PUT_IT_BACK: &str = "look for the folder that the run has replaced by this link, and put it back";

/// The path to move aside so that git obeys nothing in the place of `link`: the link itself, or a
/// directory on the way to it that has become a link. `None` if the link is unchanged or missing.
fn replaced(host: &Host, link: &AbsPath, target: &OsStr) -> Option<AbsPath> {
    match target_of(host, link) {
        Ok(now) => (now.as_deref() != Some(target)).then(|| link.clone()),
        Err(_) => match host.resolve(link.as_path()) {
            Ok(found) if found.kind.is_none() => None,
            Ok(found) => Some(found.links.into_iter().next().unwrap_or_else(|| link.clone())),
            Err(_) => Some(link.clone()),
        },
    }
}

/// The target of the symlink at `link`; `None` if something else is there.
fn target_of(host: &Host, link: &AbsPath) -> io::Result<Option<OsString>> {
    let (folder, name) = OpenDir::parent_of(host, link)?;
    let found = folder.stat(name)?.ok_or(io::ErrorKind::NotFound)?;
    let is_link = FileType::from_raw_mode(found.st_mode).is_symlink();
    is_link.then(|| folder.link_target(name)).transpose()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;

    // SPEC R5
    #[test]
    fn a_link_that_cannot_be_made_again_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        std::os::unix::fs::symlink("evil", folder.path().join("hooks")).unwrap();
        // The kernel makes no link with an empty target.
        let links = vec![(AbsPath::root().child("hooks"), OsString::new())];
        let mut said = Diagnostics::default();
        let watch = LinksWatch { links, dot_gits: BTreeSet::new(), unclear: None };
        watch.check(&mut Held { host: &host, said: &mut said, paths: BTreeSet::new() });
        let messages: Vec<&str> = said.iter().map(|finding| finding.message.as_str()).collect();
        assert!(messages[0].ends_with("the entry in its place is `/hooks.held` now"), "{messages:?}");
        let expected = "the link `/hooks` to `` cannot be made again: no such file or directory";
        assert_eq!(messages[1..], [expected]);
    }
}
