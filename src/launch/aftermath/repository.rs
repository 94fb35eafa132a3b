//! Puts back the parts of the project's repositories that git requires. If a part is missing, and
//! the command made the work tree look like a bare repository, git uses the work tree as one, with
//! hooks and settings of the command's choice.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags};

use crate::compile::layers::Project;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, reason};
use crate::host::git::nested::{FoundBy, common_dir_of};
use crate::host::{Host, OpenDir};
use crate::policy::path::AbsPath;
use crate::sys::ablate;

/// The largest `HEAD` that is read. It is larger than any `HEAD` that names a branch.
const LARGEST_HEAD: u64 = 1 << 16;
/// The number of bytes of `HEAD` that git reads.
const READ_BY_GIT: usize = 255;
const HEAD: &str = "HEAD";
const OPEN_MODE: Mode = Mode::from_raw_mode(0o755);

/// The file in the git directory of a worktree that names the worktree's `.git`. git forgets a
/// worktree without this file.
const GITDIR: &str = "gitdir";

/// The parts of the repositories at the start, each with the git directory that holds it.
pub(super) struct RepositoryWatch {
    parts: Vec<(AbsPath, Part)>,
    /// The parts of the repositories of SPEC P11. The user may have removed a whole repository.
    of_nested: Vec<(AbsPath, Part)>,
    /// The parts of other worktrees. A `git worktree remove` inside may have removed some before a
    /// mount stopped it.
    of_worktrees: Vec<(AbsPath, Part)>,
}

/// A part that git needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Head(Vec<u8>),
    /// An older form of `HEAD`, which git still reads.
    HeadLink(OsString),
    /// `gitdir` of a worktree.
    Place(Vec<u8>),
    Directory(&'static str),
}

impl RepositoryWatch {
    /// `is_open` tells whether the command can replace a path.
    pub(super) fn start(host: &Host, project: &Project, is_open: impl Fn(&AbsPath) -> bool) -> Self {
        let host = &host.with_cache();
        let own = project.repository.as_ref();
        let worktrees = own.map(|own| own.common_dir.child("worktrees"));
        let is_worktree = |git_dir: &AbsPath| worktrees.is_some() && git_dir.parent() == worktrees;
        let kept_within = project.git_nested.kept_within.iter();
        let (kept_worktrees, kept_modules): (Vec<_>, Vec<_>) = kept_within.partition(|git_dir| is_worktree(git_dir));
        let nested = project.git_nested.found.iter().filter(|found| found.found_by != FoundBy::Worktrees);
        let nested: BTreeSet<&AbsPath> = nested.map(|found| &found.git_dir).chain(kept_modules).collect();
        let git_dirs: BTreeSet<&AbsPath> = own.into_iter().flat_map(|own| [&own.git_dir, &own.common_dir]).collect();
        let parts_of = |git_dir: &AbsPath, also_place: bool| {
            let is_common = own.is_some_and(|own| own.common_dir == *git_dir)
                || common_dir_of(host, git_dir).is_ok_and(|common_dir| common_dir == *git_dir);
            let found = is_open(&git_dir.child(HEAD)).then(|| parts(host, git_dir, is_common, also_place));
            let git_dir = git_dir.clone();
            found.into_iter().flatten().map(move |part| (git_dir.clone(), part))
        };
        Self {
            parts: git_dirs.iter().flat_map(|git_dir| parts_of(git_dir, false)).collect(),
            of_nested: nested.difference(&git_dirs).flat_map(|git_dir| parts_of(git_dir, false)).collect(),
            of_worktrees: kept_worktrees.into_iter().flat_map(|git_dir| parts_of(git_dir, true)).collect(),
        }
    }

    /// Puts back the parts that are missing or invalid, and reports them.
    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        // Mounts keep the command from removing a whole git directory. If one is missing, the user
        // has removed it.
        let is_there = |(git_dir, _): &&(AbsPath, Part)| !matches!(host.kind(git_dir), Ok(None));
        let help = "look at the files that the run put into the project: without the repair, git would have obeyed settings and hooks from there";
        put_back(host, self.parts.iter(), "repository", help, said);
        put_back(host, self.of_nested.iter().filter(is_there), "repository", help, said);
        let help = "list the missing files with `git status` in the worktree, or remove the worktree outside with `git \
                    worktree remove --force PATH`";
        put_back(host, self.of_worktrees.iter().filter(is_there), "list of worktrees", help, said);
    }
}

/// The parts of `git_dir` that git accepts, with `objects` and `refs` if `is_common`.
fn parts(host: &Host, git_dir: &AbsPath, is_common: bool, also_place: bool) -> Vec<Part> {
    let Ok(folder) = OpenDir::open(host, git_dir) else { return Vec::new() };
    let head = valid_head(&folder).ok().flatten();
    let place = also_place.then(|| folder.read(GITDIR, LARGEST_HEAD).ok().flatten()).flatten().map(Part::Place);
    let names = ["objects", "refs"].into_iter().filter(|name| is_common && folder.leads_to_directory(name));
    head.into_iter().chain(place).chain(names.map(Part::Directory)).collect()
}

fn put_back<'p>(
    host: &Host,
    parts: impl Iterator<Item = &'p (AbsPath, Part)>,
    what: &str,
    help: &str,
    said: &mut Diagnostics,
) {
    let (mut repaired, mut emptied, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (git_dir, part) in parts {
        let path = git_dir.child(part.name());
        match open_again(host, git_dir).and_then(|folder| part.put_back(&folder)) {
            Ok(Repair::Unneeded) => {}
            Ok(Repair::PutBack) => repaired.push(format!("`{path}`")),
            Ok(Repair::Emptied) => emptied.push(format!("`{path}`")),
            Err(e) => failed.push(format!("`{path}` ({})", reason(&e))),
        }
    }
    let lost = "get the files that the run removed from there from a backup, a clone or a remote";
    let outcomes = [
        ("put back", repaired, help),
        ("put back empty, without the history", emptied, lost),
        ("cannot be put back", failed, help),
    ];
    for (outcome, paths, help) in outcomes {
        if !paths.is_empty() {
            let message = format!("the run broke the {what}; {outcome}: {}", listed(paths.into_iter(), "and"));
            said.push(Diagnostic::new(Code::RepositoryRepaired, message).help(help));
        }
    }
}

/// The result for one part.
enum Repair {
    Unneeded,
    PutBack,
    /// The run removed the folder, and an empty one is in its place.
    Emptied,
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Part::Head(_) | Part::HeadLink(_) => HEAD,
            Part::Place(_) => GITDIR,
            Part::Directory(name) => name,
        }
    }

    /// Makes the part again if git does not accept the present one.
    fn put_back(&self, folder: &OpenDir) -> io::Result<Repair> {
        let temporary = format!("HEAD.agent-sandbox-{}", super::unpredictable_suffix());
        match self {
            Part::Directory(name) => return put_back_directory(folder, name),
            Part::Place(content) => return put_back_place(folder, content),
            Part::Head(_) | Part::HeadLink(_) if matches!(valid_head(folder), Ok(Some(_))) => {
                return Ok(Repair::Unneeded);
            }
            Part::HeadLink(target) => {
                super::make_writable(folder)?;
                folder.make_link(&temporary, target)?;
            }
            Part::Head(content) => {
                super::make_writable(folder)?;
                let mode = Mode::from_raw_mode(0o644);
                folder.make_file(&temporary, OFlags::WRONLY, mode)?.write_all(content)?;
            }
        }
        make_room(folder, HEAD)?;
        folder.rename(&temporary, folder, HEAD)?;
        Ok(Repair::PutBack)
    }
}

/// Puts the file back only if it is missing, because git itself may have changed its content.
fn put_back_place(folder: &OpenDir, content: &[u8]) -> io::Result<Repair> {
    if folder.stat(GITDIR)?.is_some() {
        return Ok(Repair::Unneeded);
    }
    super::make_writable(folder)?;
    folder.make_file(GITDIR, OFlags::WRONLY, Mode::from_raw_mode(0o644))?.write_all(content)?;
    Ok(Repair::PutBack)
}

fn put_back_directory(folder: &OpenDir, name: &str) -> io::Result<Repair> {
    // Like git, this follows symlinks, because some layouts share objects through one.
    if folder.leads_to_directory(name) {
        return Ok(Repair::Unneeded);
    }
    ablate::pause(format_args!("put-back:{name}"));
    match folder.child(name) {
        // If the directory only lacks rights, its content is still the repository's.
        Ok(closed) => closed.set_mode(OPEN_MODE).map(|()| Repair::PutBack),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            super::make_writable(folder)?;
            make_room(folder, name)?;
            folder.make_dir(name, OPEN_MODE)?;
            Ok(Repair::Emptied)
        }
        Err(e) => Err(e),
    }
}

/// Opens a git directory. The command may have removed its rights so that git uses another one.
fn open_again(host: &Host, path: &AbsPath) -> io::Result<OpenDir> {
    let folder = OpenDir::open(host, path)?;
    if !folder.is_searchable() {
        folder.set_mode(OPEN_MODE)?;
    }
    Ok(folder)
}

/// Moves aside a file or folder that a rename cannot replace. It is not deleted, because it may be
/// the user's work.
fn make_room(folder: &OpenDir, name: &str) -> io::Result<()> {
    match folder.rename(name, folder, format!("{name}.broken-{}", super::unpredictable_suffix())) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// `HEAD`, if git accepts it (`validate_headref` in git). A `HEAD` that cannot be read is an error.
pub(super) fn valid_head(folder: &OpenDir) -> io::Result<Option<Part>> {
    let Some(found) = folder.stat(HEAD)? else { return Ok(None) };
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind.is_symlink() {
        let target = folder.link_target(HEAD)?;
        return Ok(target.as_bytes().starts_with(b"refs/").then_some(Part::HeadLink(target)));
    }
    if !kind.is_file() {
        return Ok(None);
    }
    let Some(content) = folder.read(HEAD, LARGEST_HEAD)? else { return Ok(None) };
    Ok(is_valid(&content[..content.len().min(READ_BY_GIT)]).then_some(Part::Head(content)))
}

fn is_valid(head: &[u8]) -> bool {
    if let Some(target) = head.strip_prefix(b"ref:") {
        // Unlike `u8::is_ascii_whitespace`, git knows no form feed.
        let start = target.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        return start.is_some_and(|start| target[start..].starts_with(b"refs/"));
    }
    head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count() >= 40
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC R2
    #[test]
    fn a_head_is_valid_where_git_says_so() {
        let id = "0123456789abcdef0123456789ABCDEF01234567";
        for good in ["ref: refs/heads/main\n", "ref:refs/x", "ref: \t refs/heads/a b", id, &format!("{id}\n")] {
            assert!(is_valid(good.as_bytes()), "{good:?}");
        }
        for bad in ["", "\n", "ref: heads/main", "refs/heads/main", "ref: ../refs/x", &id[1..], " ref: refs/x"] {
            assert!(!is_valid(bad.as_bytes()), "{bad:?}");
        }
    }
}
