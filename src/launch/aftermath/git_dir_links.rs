//! Symlinks in git directories. git appends to its logs and replaces its files through symlinks, so
//! a link makes it write wherever the user can. git itself makes no links, except for an old form
//! of `HEAD`. A link that is new after the run is moved aside.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::Mode;

use crate::compile::layers::Project;
use crate::diagnostic::reason;
use crate::host::long_path::LONGEST_SEARCHED;
use crate::host::{DirEntry, FileKind, Host, OpenDir, is_transient};
use crate::policy::path::{AbsPath, escape_for_display};
use crate::sys::ablate::{self, Mitigation};

use super::held::{Held, HeldReport};
use super::overlap::Facts;
use super::repository::valid_head;

/// The largest number of folders that are searched in one git directory. A git directory that packs
/// its refs has some dozens.
const MOST_FOLDERS: usize = 20_000;

const REMOVE_LINK: &str = "remove it before you use git in this project: git would write through it";

pub(super) struct GitDirLinks {
    /// The git directories of the project at the start. One that lies in another one is left out,
    /// because the search of the outer one covers it.
    git_dirs: BTreeSet<AbsPath>,
    /// The links in these git directories at the start, and the target of each.
    known: BTreeMap<AbsPath, OsString>,
    /// A path that could not be examined at the start, with the reason.
    pub(super) unclear: Option<String>,
}

impl GitDirLinks {
    pub(super) fn start(host: &Host, project: &Project) -> Self {
        let own = project.repository.iter().flat_map(|own| [&own.git_dir, &own.common_dir]);
        let nested = project.git_nested.found.iter().flat_map(|found| [&found.git_dir, &found.common_dir]);
        let all: BTreeSet<&AbsPath> = own.chain(nested).collect();
        let is_inner = |git_dir: &AbsPath| {
            let mut around = git_dir.ancestors().skip(1).filter(|around| all.contains(around));
            around.any(|around| !components(&around, git_dir).contains(&"objects".as_ref()))
        };
        let git_dirs: BTreeSet<AbsPath> = all.iter().copied().filter(|path| !is_inner(path)).cloned().collect();
        let mut known = BTreeMap::new();
        let mut unclear = None;
        for git_dir in &git_dirs {
            let found = search(host, git_dir);
            known.extend(found.links);
            let transient = found.closed.into_iter().find(|(_, e)| is_transient(e));
            unclear = unclear.or_else(|| transient.map(|(path, e)| format!("`{path}`: {}", reason(&e))));
        }
        Self { git_dirs, known, unclear }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        self.known.retain(|link, target| facts.keep("link", link, target.as_bytes()));
    }

    /// Moves each new link aside. If the target of a known link has changed, makes the old link
    /// again. `can_be_written` tells whether the command could create or replace a path. A search
    /// that stops at its limit is reported for every git directory, because it may have missed
    /// links.
    pub(super) fn check(&self, can_be_written: &impl Fn(&AbsPath) -> bool, closed: Closed, held: &mut Held) {
        if ablate::is_off(Mitigation::GitLinks) {
            return;
        }
        for git_dir in &self.git_dirs {
            let found = search_opening(held.host, git_dir, closed);
            // A new link would be an entry of the folder, so `can_be_written` gets the path of an
            // entry. The folder itself may be a mount point, which the command cannot replace.
            let unknown = found.closed.iter().filter(|(folder, _)| can_be_written(&folder.child("HEAD")));
            let unknown = unknown.map(|(folder, e)| (folder, reason(e)));
            let overfull = found
                .is_overfull
                .then(|| (git_dir, format!("it holds more than {MOST_FOLDERS} folders, or they are nested too deep")));
            for (folder, why) in unknown.chain(overfull).filter(|_| closed == Closed::All) {
                let message = format!("symlinks that this run made in `{folder}` are not known: {why}");
                held.say(folder, message, "look for symlinks there before you use git: git would write through them");
            }
            for (link, target) in &found.links {
                let before = self.known.get(link);
                let is_known = before == Some(target) || is_held(git_dir, link);
                if !is_known && !is_symbolic_ref(git_dir, link, target) && can_be_written(link) {
                    move_aside(git_dir, link, target, before, held);
                }
            }
        }
    }
}

/// Moves `link` to the top of the git directory. In its own folder, such as `refs`, git would use
/// the link under any name.
fn move_aside(git_dir: &AbsPath, link: &AbsPath, target: &OsStr, before: Option<&OsString>, held: &mut Held) {
    let shown = escape_for_display(target);
    let report = HeldReport {
        finding: format!("since this run `{link}` is a symlink to `{shown}`, through which git would write"),
        subject: "it".to_owned(),
        help_if_moved: "if the run has put it in the place of a file or folder of the repository, put that back",
        help_if_not: REMOVE_LINK,
    };
    let name = link.file_name().unwrap_or_default().to_string_lossy();
    held.hold_in(link, git_dir, &name, report);
    if let Some(before) = before {
        let made = OpenDir::parent_of(held.host, link).and_then(|(folder, name)| folder.make_link(name, before));
        if let Err(e) = made {
            let shown = escape_for_display(before);
            let message = format!("the link `{link}` to `{shown}` cannot be made again: {}", reason(&e));
            held.say(link, message, "make it again yourself, before you use git in this project");
        }
    }
}

/// The symlinks in `git_dir`, and the folders that could not be searched for symlinks.
pub(super) fn doubts(host: &Host, git_dir: &AbsPath) -> Vec<String> {
    if ablate::is_off(Mitigation::GitLinks) {
        return Vec::new();
    }
    let found = search(host, git_dir);
    let links = found.links.iter().filter(|(link, target)| !is_symbolic_ref(git_dir, link, target));
    let links = links.map(|(link, _)| format!("a symlink in the place of `{}`", super::name_in(git_dir, link)));
    let closed = found.closed.iter().map(|(folder, _)| format!("a folder that cannot be searched, `{folder}`"));
    let overfull = found.is_overfull.then(|| "more folders than can be searched".to_owned());
    links.chain(closed).chain(overfull).collect()
}

/// Whether git could have made the link itself (`core.preferSymlinkRefs`). git reads the target of
/// such a link as the name of a ref, and does not follow the link. git makes no links in `logs`.
fn is_symbolic_ref(git_dir: &AbsPath, link: &AbsPath, target: &OsStr) -> bool {
    let target = target.as_bytes();
    let is_ref = target.starts_with(b"refs/") && !target.windows(2).any(|part| part == b"..");
    is_ref
        && link.file_name().is_some_and(|name| name == "HEAD")
        && !components(git_dir, link).contains(&"logs".as_ref())
}

/// Whether a link is one that was moved aside. git has no files with such names at the top of a
/// git directory.
fn is_held(git_dir: &AbsPath, link: &AbsPath) -> bool {
    let names = components(git_dir, link);
    names.len() == 1 && names[0].as_bytes().windows(5).any(|part| part == b".held")
}

/// Whether `folder` is an object store, whose subfolders with names of two characters need no
/// search. There may be 65,536 of them (`lfs/objects/ab/cd`), and git does not change the files in
/// them. In `logs` and `refs`, a folder `objects` is part of the name of a branch. Below `modules`
/// it may be part of the name of a submodule.
fn is_store(host: &Host, git_dir: &AbsPath, folder: &AbsPath) -> bool {
    let names = components(git_dir, folder);
    let around = match names.as_slice() {
        [around @ .., lfs, objects] if *lfs == "lfs" && *objects == "objects" => around,
        [around @ .., objects] if *objects == "objects" => around,
        _ => return false,
    };
    match around.first() {
        None => true,
        Some(first) if *first != "modules" || around.iter().any(|name| *name == "logs" || *name == "refs") => false,
        Some(_) => is_git_dir(host, &around.iter().fold(git_dir.clone(), |path, name| path.child(name))),
    }
}

/// Whether git accepts `folder` as a git directory. git uses no other git directory inside such a
/// folder, except below its `modules`.
fn is_git_dir(host: &Host, folder: &AbsPath) -> bool {
    OpenDir::open(host, folder).is_ok_and(|folder| {
        matches!(valid_head(&folder), Ok(Some(_)))
            && ["objects", "refs"].iter().all(|name| folder.leads_to_directory(name))
    })
}

fn components<'p>(git_dir: &AbsPath, path: &'p AbsPath) -> Vec<&'p OsStr> {
    let below = path.as_path().strip_prefix(git_dir.as_path()).unwrap_or(path.as_path());
    below.iter().collect()
}

/// Selects the folders that a search makes readable if it cannot list them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// Only folders that this user can search, and in which git can therefore reach links.
    IfSearchable,
    All,
}

/// The result of a search in one git directory.
#[derive(Default)]
struct Found {
    links: BTreeMap<AbsPath, OsString>,
    /// The folders that could not be searched.
    closed: Vec<(AbsPath, io::Error)>,
    /// The search reached a limit, such as [`MOST_FOLDERS`], and left out some folders.
    is_overfull: bool,
}

/// Finds the symlinks in `git_dir`, at any depth.
fn search(host: &Host, git_dir: &AbsPath) -> Found {
    search_by(host, git_dir, |folder| host.read_dir(folder))
}

/// Finds the symlinks after a run. The command may have made a folder unreadable that git can
/// still search. This function makes such a folder readable.
fn search_opening(host: &Host, git_dir: &AbsPath, closed: Closed) -> Found {
    search_by(host, git_dir, |folder| match host.read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let opened = OpenDir::open(host, folder)?;
            if closed == Closed::IfSearchable && !opened.is_searchable() {
                return Err(e);
            }
            opened.grant(Mode::RWXU)?;
            host.read_dir(folder)
        }
        listed => listed,
    })
}

fn search_by(host: &Host, git_dir: &AbsPath, list: impl Fn(&AbsPath) -> io::Result<Vec<DirEntry>>) -> Found {
    let mut found = Found::default();
    let mut waiting = vec![git_dir.clone()];
    let mut left = MOST_FOLDERS;
    while let Some(folder) = waiting.pop() {
        if left == 0 {
            found.is_overfull = true;
            break;
        }
        left -= 1;
        if folder.as_os_str().len() > LONGEST_SEARCHED {
            found.is_overfull = true;
            continue;
        }
        let entries = match list(&folder) {
            Ok(entries) => entries,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(e) => {
                found.closed.push((folder, e));
                continue;
            }
        };
        let is_store = is_store(host, git_dir, &folder);
        for entry in entries {
            if entry.is_symlink {
                let path = folder.child(&entry.name);
                let read = OpenDir::open(host, &folder).and_then(|folder| folder.link_target(&entry.name));
                let target = read.unwrap_or_else(|e| {
                    found.closed.push((folder.clone(), e));
                    OsString::new()
                });
                found.links.insert(path, target);
            } else if entry.kind == FileKind::Directory && !(is_store && entry.name.len() == 2) {
                waiting.push(folder.child(&entry.name));
            }
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;

    // SPEC R14
    #[test]
    fn a_symbolic_ref_is_told_from_a_link_that_leads_elsewhere() {
        let git_dir = AbsPath::root().join("logs/.git");
        let is_ref = |link: &str, target: &str| {
            is_symbolic_ref(&git_dir, &AbsPath::root().join("logs").join(link), target.as_ref())
        };
        assert!(is_ref(".git/HEAD", "refs/heads/main"));
        assert!(is_ref(".git/refs/remotes/origin/HEAD", "refs/remotes/origin/main"));
        assert!(!is_ref(".git/HEAD", "refs/../../file"));
        assert!(!is_ref(".git/HEAD", "/refs/heads/main"));
        assert!(!is_ref(".git/ORIG_HEAD", "refs/heads/main"));
        assert!(!is_ref(".git/logs/HEAD", "refs/heads/main"));
        assert!(!is_ref(".git/worktrees/w/logs/HEAD", "refs/heads/main"));
    }

    // SPEC R14
    #[test]
    fn links_are_found_at_every_depth_but_not_among_objects() {
        let top = tempfile::tempdir().unwrap();
        let stores = ["objects/ab", "lfs/objects/ab/cd", "modules/m/objects/ab", "modules/a/b/lfs/objects/ab"];
        let others = [
            "logs/objects/ab",
            "logs/refs/heads/a/b",
            // The submodules `objects/ab` and `not/objects/ab`.
            "modules/objects/ab/logs",
            "modules/not/objects/ab/logs",
            "modules/m/logs/refs/heads/objects/ab",
            "objects/info",
            "refs/heads/objects/ab",
            "rr-cache/objects/ab",
            "worktrees/w",
        ];
        for folder in stores.into_iter().chain(others) {
            std::fs::create_dir_all(top.path().join(folder)).unwrap();
            std::os::unix::fs::symlink("x", top.path().join(folder).join("link")).unwrap();
        }
        for git_dir in ["modules/m", "modules/a/b"] {
            std::fs::create_dir_all(top.path().join(git_dir).join("refs")).unwrap();
            std::fs::create_dir_all(top.path().join(git_dir).join("objects")).unwrap();
            std::fs::write(top.path().join(git_dir).join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }
        std::os::unix::fs::symlink("x", top.path().join("objects/cd")).unwrap();
        let found = search(&Host::at(top.path()), &AbsPath::root());
        let names: Vec<String> = found.links.keys().map(ToString::to_string).collect();
        let mut expected: Vec<String> = others.iter().map(|folder| format!("/{folder}/link")).collect();
        expected.push("/objects/cd".to_owned());
        expected.sort();
        assert_eq!(names, expected);
        assert!(found.closed.is_empty() && !found.is_overfull);
    }

    /// The target may be unreadable only for a moment. At the start of a run,
    /// [`GitDirLinks::start`] returns such an error in `unclear`.
    // SPEC R14
    #[test]
    fn a_link_that_cannot_be_read_is_reported_with_its_folder() {
        let top = tempfile::tempdir().unwrap();
        let listed = || DirEntry { name: "link".into(), kind: FileKind::File, is_symlink: true, is_socket: false };
        let found = search_by(&Host::at(top.path()), &AbsPath::root(), |_| Ok(vec![listed()]));
        assert_eq!(found.links.keys().map(ToString::to_string).collect::<Vec<_>>(), ["/link"]);
        assert_eq!(found.closed.iter().map(|(folder, _)| folder.to_string()).collect::<Vec<_>>(), ["/"]);
    }

    // SPEC R14
    #[test]
    fn folders_that_are_nested_too_deep_are_not_searched_to_their_end() {
        let top = tempfile::tempdir().unwrap();
        let name = "d".repeat(200);
        let inner =
            || DirEntry { name: name.clone().into(), kind: FileKind::Directory, is_symlink: false, is_socket: false };
        let looked = std::cell::Cell::new(0);
        let found = search_by(&Host::at(top.path()), &AbsPath::root(), |_| {
            looked.set(looked.get() + 1);
            Ok(vec![inner()])
        });
        assert!(found.is_overfull);
        assert_eq!(looked.get(), LONGEST_SEARCHED / 201 + 1);
    }

    /// The git directory of a linked worktree is the root of a mount: the command cannot replace
    /// it, but can fill it.
    // SPEC R14
    #[test]
    fn a_search_without_an_end_is_reported_wherever_the_git_directory_is() {
        let top = tempfile::tempdir().unwrap();
        let host = Host::at(top.path());
        for number in 0..=MOST_FOLDERS {
            std::fs::create_dir(top.path().join(number.to_string())).unwrap();
        }
        let links = GitDirLinks { git_dirs: BTreeSet::from([AbsPath::root()]), known: BTreeMap::new(), unclear: None };
        let mut said = Diagnostics::default();
        links.check(&|_| false, Closed::All, &mut Held { host: &host, said: &mut said, paths: BTreeSet::new() });
        let said: Vec<&str> = said.iter().map(|said| said.message.as_str()).collect();
        let message = "symlinks that this run made in `/` are not known: \
                       it holds more than 20000 folders, or they are nested too deep";
        assert_eq!(said, [message]);
        assert_eq!(doubts(&host, &AbsPath::root()), ["more folders than can be searched"]);
    }
}
