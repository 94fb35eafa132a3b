//! Files in git directories whose contents git does not check, such as `MERGE_RR` and the names in
//! an index. They can make git read, write or delete files that the command could not. Such a file
//! is moved aside. This is safe, because git itself does not write such content, or because the
//! user loses little.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sha2::{Digest, Sha256};

use crate::compile::layers::Project;
use crate::compile::plan::{Plan, View};
use crate::diagnostic::{Code, Diagnostic};
use crate::host::git::nested::{self, Families, common_dir_of};
use crate::host::git::{Nested, Repository, index};
use crate::host::identity::Identity;
use crate::host::long_path::LONGEST_SEARCHED;
use crate::host::{FileKind, Host, OpenDir};
use crate::policy::path::{AbsPath, escape_for_display};

use super::held::{self, Held, HeldReport};
use super::modules::NOT_ENTERED;
use super::overlap::Facts;
use super::{is_there, name_in};

/// The largest number of folders that are searched in all git directories together.
const MOST_FOLDERS: usize = 20_000;
/// The size of the largest file that is read. The files have one line for each conflict, object
/// store or table of refs.
const LARGEST: u64 = 1 << 20;
/// The number of names in one sentence.
const MOST_NAMED: usize = 5;

const MERGE_RR: &str = "MERGE_RR";
const MERGE_AUTOSTASH: &str = "MERGE_AUTOSTASH";
const ALTERNATES: &str = "objects/info/alternates";
const TABLES: &str = "reftable/tables.list";

const RESET: &str = "run `git reset`, which makes it anew from the last commit";
const REMOVE_INDEX: &str = "remove it before you use git in this project, and run `git reset`";

pub(super) struct GitStateWatch {
    root: AbsPath,
    /// The git directories at the start. Some are inside others.
    git_dirs: Vec<AbsPath>,
    before: Found,
    /// The paths that the run cannot see.
    hidden: Vec<AbsPath>,
    /// The indexes of known work trees. `nested` handles indexes that cannot be read.
    indexes: Vec<HiddenEntries>,
}

impl GitStateWatch {
    /// `git_dirs` are those of all work trees, and `hidden` the paths that the run cannot see.
    pub(super) fn start(host: &Host, project: &Project, mut git_dirs: BTreeSet<AbsPath>, hidden: &[AbsPath]) -> Self {
        let known = &project.git_nested;
        git_dirs.extend(known.kept_within.iter().cloned());
        let git_dirs: Vec<AbsPath> = git_dirs.into_iter().collect();
        let before = search(host, &git_dirs);
        let mut repositories: Vec<Repository> = known.found.iter().flat_map(|found| found.repositories(host)).collect();
        if let Some(own) = &project.repository {
            repositories.push(own.clone());
            let others = nested::work_trees(host, own).into_iter().filter(|tree| tree.git_dir != own.git_dir);
            let others = others.filter_map(|tree| Some((tree.folder?, tree.git_dir)));
            repositories.extend(others.map(|(work_tree, git_dir)| Repository { work_tree, git_dir, ..own.clone() }));
        }
        let indexes = repositories.into_iter().map(|repository| HiddenEntries::start(host, repository, hidden));
        let indexes = indexes.collect();
        Self { root: project.root.clone(), git_dirs, before, hidden: hidden.to_vec(), indexes }
    }

    pub(super) fn facts(&mut self, facts: &mut Facts<'_>) {
        self.before.files.retain(|path, hash| facts.keep("file", path, hash));
        self.before.indexes.retain(|git_dir, stamps| facts.keep("index", git_dir, format!("{stamps:?}")));
        for HiddenEntries { repository, before, .. } in &mut self.indexes {
            let git_dir = repository.git_dir.bytes();
            before.iter_mut().for_each(|entries| entries.retain(|path| facts.keep("entry", path, git_dir)));
        }
    }

    /// Moves aside or reports the files by which the command could mislead git.
    pub(super) fn finish(&self, plan: &Plan, held: &mut Held) {
        self.check(search(held.host, &self.git_dirs), &[], plan, held);
    }

    /// Moves aside or reports such files in the git directories that did not exist at the start.
    /// `families` are the repositories after the run.
    pub(super) fn finish_new(&self, families: &Families, git_dirs: &BTreeSet<AbsPath>, plan: &Plan, held: &mut Held) {
        let is_known = |git_dir: &AbsPath| self.git_dirs.binary_search(git_dir).is_ok();
        let is_new = |git_dir: &AbsPath| !git_dir.ancestors().any(|around| is_known(&around));
        let new: Vec<AbsPath> = git_dirs.iter().filter(|git_dir| is_new(git_dir)).cloned().collect();
        let repositories = families.repositories().filter(|repository| is_new(&repository.git_dir));
        let indexes: Vec<HiddenEntries> =
            repositories.map(|repository| HiddenEntries::of(held.host, repository, &self.hidden)).collect();
        self.check(search(held.host, &new), &indexes, plan, held);
    }

    /// `indexes` are those of work trees that the run has made.
    fn check(&self, now: Found, indexes: &[HiddenEntries], plan: &Plan, held: &mut Held) {
        let can_be_written = |path: &AbsPath| plan.view_around(path) == View::HostRw;
        for (git_dir, stamps) in &now.indexes {
            let index = git_dir.child("index");
            if can_be_written(&index)
                && let Some(report) =
                    self.judge(held.host, plan, git_dir, indexes, self.before.indexes.get(git_dir) == Some(stamps))
            {
                held.hold(&index, report);
            }
        }
        let is_new = |(path, hash): &(&AbsPath, &[u8; 32])| self.before.files.get(*path) != Some(hash);
        for (path, _) in now.files.iter().filter(is_new).filter(|(path, _)| can_be_written(path)) {
            report_file(path, held);
        }
        if now.is_cut && !self.before.is_cut {
            let message = format!("the git directories of `{}` hold more folders than can be searched", self.root);
            let help = "look for a new `MERGE_RR` and `index` in them before you use git: git obeys both";
            held.say(&self.root, message, help);
        }
    }

    /// The report, if there is a reason to move the index of `git_dir` aside.
    fn judge(
        &self,
        host: &Host,
        plan: &Plan,
        git_dir: &AbsPath,
        indexes: &[HiddenEntries],
        is_as_before: bool,
    ) -> Option<HeldReport> {
        let index = git_dir.child("index");
        let report = |finding: String, help_if_moved| HeldReport {
            finding,
            subject: "it".to_owned(),
            help_if_moved,
            help_if_not: REMOVE_INDEX,
        };
        let known = || self.indexes.iter().chain(indexes).filter(|known| known.repository.git_dir == *git_dir);
        let common_dir = common_dir_of(host, git_dir).unwrap_or_else(|_| git_dir.clone());
        let Ok(Some(parts)) = index::parts(host, git_dir, &common_dir) else {
            let is_new = !is_as_before && known().next().is_none();
            return is_new.then(|| report(format!("since this run the names in `{index}` are not known"), RESET));
        };
        if let Some(name) = parts.iter().find_map(index::Index::refused_name) {
            let name = escape_for_display(OsStr::from_bytes(name));
            let finding =
                format!("`{index}` names `{name}`, by which git would write and delete outside of the work tree");
            return Some(report(finding, RESET));
        }
        if is_as_before {
            return None;
        }
        if !parts.iter().all(index::Index::has_true_trees) {
            let finding = format!("since this run `{index}` makes git commit other contents than its entries have");
            return Some(report(finding, RESET));
        }
        let new: Vec<String> = known()
            .flat_map(|known| known.added(&parts))
            .filter(|path| {
                matches!(plan.view(path), View::Masked | View::Redacted | View::Fresh) && is_there(host, path)
            })
            .chain(known().flat_map(|known| known.moved(host, &parts)))
            .map(|path| format!("`{}`", name_in(&self.root, &path)))
            .collect();
        if new.is_empty() {
            return None;
        }
        let names = held::shortened(new, MOST_NAMED);
        let finding = format!(
            "since this run `{index}` names {names}, hidden from the run: your next `git commit -a` would commit it"
        );
        let help = "run `git reset`; if `git ls-files FILE` names it even then, the run has committed it: run \
                    `git rm --cached FILE` before you commit";
        Some(report(finding, help))
    }
}

/// The doubts about a new repository.
pub(super) fn doubts(host: &Host, found: &Nested) -> Vec<String> {
    let mut doubts = Vec::new();
    for name in [MERGE_RR, MERGE_AUTOSTASH] {
        if content_of(host, &found.git_dir.child(name)).is_some() {
            doubts.push(format!("a `{name}`"));
        }
    }
    // The module `nested` reports an index that cannot be read.
    let parts = index::parts(host, &found.git_dir, &found.common_dir).ok().flatten().unwrap_or_default();
    if let Some(name) = parts.iter().find_map(index::Index::refused_name) {
        doubts.push(format!("the name `{}` in its index", escape_for_display(OsStr::from_bytes(name))));
    }
    if !parts.iter().all(index::Index::has_true_trees) {
        doubts.push("an index by which git commits other contents than its entries have".to_owned());
    }
    doubts
}

fn report_file(path: &AbsPath, held: &mut Held) {
    let (finding, help_if_moved, help_if_not) = if path.as_path().ends_with(MERGE_RR) {
        (
            "makes git copy or write the files that it names, at the next commit",
            "run `git rerere` after a conflict, before you resolve it, so that git records the resolution",
            "remove it before you commit or merge",
        )
    } else if path.as_path().ends_with(MERGE_AUTOSTASH) {
        (
            "makes git apply a stash at the next commit",
            "make it a stash with `git stash store $(cat FILE)`, and look at it with `git stash show -p` before you \
             apply it",
            "remove it before you commit",
        )
    } else if path.as_path().ends_with(ALTERNATES) {
        let content = content_of(held.host, path).unwrap_or_default();
        let first = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let place = escape_for_display(OsStr::from_bytes(first));
        let message = format!("since this run git takes objects from `{place}`, too, because of `{path}`");
        let help = "remove the file unless you know that place, and check with `git fsck` that no object is missing";
        return held.said.push(Diagnostic::new(Code::HiddenFromGit, message).paths([path.clone()]).help(help));
    } else {
        let message = format!("since this run `{path}` names tables outside of its folder, which git would delete");
        return held.say(path, message, "remove the lines with a slash before you use git in this project");
    };
    let report = HeldReport {
        finding: format!("since this run `{path}` {finding}"),
        subject: "it".to_owned(),
        help_if_moved,
        help_if_not,
    };
    held.hold(path, report);
}

/// The entries of one index for files that the run cannot see.
struct HiddenEntries {
    repository: Repository,
    /// The hidden files and folders, by their names in the index.
    hidden: HashSet<Vec<u8>>,
    /// The entries at the start; `None` if the index could not be read.
    before: Option<BTreeSet<AbsPath>>,
    /// The identities of the hidden files and folders. They show whether the command has moved one
    /// together with the folder around it.
    identities: HashMap<AbsPath, Identity>,
}

impl HiddenEntries {
    fn start(host: &Host, repository: Repository, hidden_paths: &[AbsPath]) -> Self {
        let mut watch = Self::of(host, repository, hidden_paths);
        if !watch.hidden.is_empty() {
            let Repository { git_dir, common_dir, .. } = &watch.repository;
            let parts = index::parts(host, git_dir, common_dir).ok().flatten();
            watch.before = parts.map(|parts| watch.entries(&parts).collect());
        }
        watch
    }

    /// The value for an index that had no entries at the start.
    fn of(host: &Host, repository: Repository, hidden_paths: &[AbsPath]) -> Self {
        let names = hidden_paths.iter().filter_map(|path| path.relative_to(&repository.work_tree));
        let hidden: HashSet<Vec<u8>> = names.map(|name| name.as_os_str().as_bytes().to_vec()).collect();
        let inside = |path: &&AbsPath| path.is_below(&repository.work_tree);
        let identities =
            hidden_paths.iter().filter(inside).filter_map(|path| Some((path.clone(), identity(host, path)?)));
        let identities = identities.collect();
        Self { repository, hidden, before: Some(BTreeSet::new()), identities }
    }

    /// The entries in `parts` for a hidden file, or for a file in a hidden folder, that the
    /// command has moved together with a folder around it.
    fn moved(&self, host: &Host, parts: &[index::Index]) -> Vec<AbsPath> {
        let has_left = |(path, known): &(&AbsPath, &Identity)| identity(host, path).as_ref() != Some(*known);
        let moved: Vec<Identity> = self.identities.iter().filter(has_left).map(|(_, known)| *known).collect();
        if moved.is_empty() {
            return Vec::new();
        }
        let mut seen: HashMap<AbsPath, bool> = HashMap::new();
        let names = parts.iter().flat_map(index::Index::names).filter(|name| !name.is_empty());
        let paths = names.map(|name| self.repository.work_tree.join(OsStr::from_bytes(name)));
        let mut is_moved = |path: &AbsPath| {
            let inside = path.ancestors().take_while(|at| at.is_below(&self.repository.work_tree));
            inside.collect::<Vec<_>>().into_iter().any(|at| {
                let look = || identity(host, &at).is_some_and(|found| moved.contains(&found));
                *seen.entry(at.clone()).or_insert_with(look)
            })
        };
        paths.filter(|path| is_moved(path)).collect()
    }

    /// The entries in `parts` that were not there at the start.
    fn added<'i>(&'i self, parts: &'i [index::Index]) -> impl Iterator<Item = AbsPath> + 'i {
        let before = self.before.iter();
        before.flat_map(|before| self.entries(parts).filter(|path| !before.contains(path)))
    }

    fn entries<'i>(&'i self, parts: &'i [index::Index]) -> impl Iterator<Item = AbsPath> + 'i {
        let is_hidden = |name: &&[u8]| {
            let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            ends.chain([name.len()]).any(|end| self.hidden.contains(&name[..end]))
        };
        let names =
            parts.iter().flat_map(index::Index::names).filter(move |name| !self.hidden.is_empty() && is_hidden(name));
        names.map(|name| self.repository.work_tree.join(OsStr::from_bytes(name)))
    }
}

fn identity(host: &Host, path: &AbsPath) -> Option<Identity> {
    let (folder, name) = OpenDir::parent_of(host, path).ok()?;
    folder.stat(name).ok().flatten().map(|found| Identity::of_stat(&found))
}

/// The name, inode number and ctime of a file. No program can set the ctime.
type Stamp = (std::ffi::OsString, u64, i64, i64);

#[derive(Default)]
struct Found {
    /// The hashes of those files that git does not check and that are not empty.
    files: BTreeMap<AbsPath, [u8; 32]>,
    /// The git directories with an index, and the state of its files.
    indexes: BTreeMap<AbsPath, BTreeSet<Stamp>>,
    /// Whether the search left out some folders.
    is_cut: bool,
}

/// Searches `git_dirs`, and the git directories of worktrees and submodules in them. The module
/// `git_dir_links` has already made unreadable folders readable or reported them.
fn search(host: &Host, git_dirs: &[AbsPath]) -> Found {
    let mut found = Found::default();
    let mut waiting = git_dirs.to_vec();
    let mut seen = HashSet::new();
    while let Some(folder) = waiting.pop() {
        if seen.len() == MOST_FOLDERS {
            found.is_cut = true;
            break;
        }
        if folder.as_os_str().len() > LONGEST_SEARCHED {
            found.is_cut = true;
            continue;
        }
        if !seen.insert(folder.clone()) {
            continue;
        }
        let entries = host.read_dir(&folder).unwrap_or_default();
        let is_git_dir = entries.iter().any(|entry| entry.name == "HEAD");
        for entry in &entries {
            let path = folder.child(&entry.name);
            let name = entry.name.as_bytes();
            if entry.kind == FileKind::Directory {
                if !is_git_dir || !NOT_ENTERED.iter().any(|known| entry.name == *known) {
                    waiting.push(path);
                }
            } else if name == MERGE_RR.as_bytes() || name == MERGE_AUTOSTASH.as_bytes() {
                found.files.extend(content_of(host, &path).map(|content| (path, Sha256::digest(content).into())));
            } else if name == b"index" || name.starts_with(b"sharedindex.") {
                found.indexes.entry(folder.clone()).or_default().extend(stamp(host, &folder, &entry.name));
            }
        }
        if is_git_dir {
            let path = folder.join(ALTERNATES);
            found.files.extend(content_of(host, &path).map(|content| (path, Sha256::digest(content).into())));
            let path = folder.join(TABLES);
            let tables = content_of(host, &path).filter(|content| content.contains(&b'/'));
            found.files.extend(tables.map(|content| (path, Sha256::digest(content).into())));
        }
    }
    found
}

/// The content of a file, or the reason why it cannot be read; `None` if it is empty or missing.
fn content_of(host: &Host, path: &AbsPath) -> Option<Vec<u8>> {
    match host.read_git_file(path, LARGEST) {
        Ok(content) => content.filter(|content| !content.is_empty()),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => None,
        Err(e) => Some(e.kind().to_string().into_bytes()),
    }
}

// The types of these fields differ between architectures.
#[allow(clippy::unnecessary_cast, clippy::cast_lossless, clippy::cast_possible_wrap)]
fn stamp(host: &Host, folder: &AbsPath, name: &OsStr) -> Option<Stamp> {
    let found = OpenDir::open(host, folder).and_then(|folder| folder.stat(name)).ok().flatten()?;
    Some((name.to_owned(), found.st_ino as u64, found.st_ctime as i64, found.st_ctime_nsec as i64))
}
