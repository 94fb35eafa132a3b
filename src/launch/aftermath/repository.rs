//! Puts back the parts of the project's repository without which git does not accept it. git would
//! then take the work tree for a bare repository, if the command made it look like one, with hooks
//! and settings of the command's choice.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, accessat, chmodat, mkdirat, openat, readlinkat, renameat, statat,
    symlinkat,
};
use rustix::io::Errno;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, reason};
use crate::host::Host;
use crate::host::git::Repository;
use crate::host::nofollow::{open_folder, open_parent};
use crate::policy::path::AbsPath;

/// More than any name of a branch.
const LARGEST_HEAD: u64 = 1 << 16;
/// git ignores the rest of `HEAD`.
const READ_BY_GIT: usize = 255;
const HEAD: &str = "HEAD";
const OPEN_MODE: Mode = Mode::from_raw_mode(0o755);

/// The parts of the repository at the start, each with the git directory that holds it.
pub(super) struct RepositoryWatch {
    parts: Vec<(AbsPath, Part)>,
}

/// A part that git needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Head(Vec<u8>),
    /// An older form of `HEAD`, which git still reads.
    HeadLink(OsString),
    Directory(&'static str),
}

impl RepositoryWatch {
    pub(super) fn start(host: &Host, repository: &Repository) -> Self {
        let mut parts = Vec::new();
        let mut git_dirs = vec![&repository.git_dir, &repository.common_dir];
        git_dirs.dedup();
        for git_dir in git_dirs {
            let Ok(folder) = open_folder(host, git_dir) else { continue };
            parts.extend(valid_head(&folder).ok().flatten().map(|head| (git_dir.clone(), head)));
            let names = ["objects", "refs"].into_iter().filter(|_| *git_dir == repository.common_dir);
            let names = names.filter(|name| is_directory(&folder, name));
            parts.extend(names.map(|name| (git_dir.clone(), Part::Directory(name))));
        }
        Self { parts }
    }

    /// Puts back the parts that are missing or invalid, and reports them.
    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        let (mut repaired, mut failed) = (Vec::new(), Vec::new());
        for (git_dir, part) in &self.parts {
            let path = git_dir.child(part.name());
            match open_again(host, git_dir).and_then(|folder| part.put_back(&folder)) {
                Ok(false) => {}
                Ok(true) => repaired.push(format!("`{path}`")),
                Err(e) => failed.push(format!("`{path}` ({})", reason(&e))),
            }
        }
        let help =
            "see what the run has put into the project: without it, git would have taken settings and hooks from there";
        for (outcome, paths) in [("put back", repaired), ("cannot be put back", failed)] {
            if !paths.is_empty() {
                let message = format!("the run broke the repository; {outcome}: {}", listed(paths.into_iter(), "and"));
                said.push(Diagnostic::new(Code::RepositoryRepaired, message).help(help));
            }
        }
    }
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Part::Head(_) | Part::HeadLink(_) => HEAD,
            Part::Directory(name) => name,
        }
    }

    /// Makes the part anew where git does not accept it. Returns whether that was necessary.
    fn put_back(&self, folder: &OwnedFd) -> io::Result<bool> {
        let temporary = format!("HEAD.agent-sandbox-{}", super::unpredictable_suffix());
        match self {
            Part::Directory(name) => return put_back_directory(folder, name),
            Part::Head(_) | Part::HeadLink(_) if matches!(valid_head(folder), Ok(Some(_))) => return Ok(false),
            Part::HeadLink(target) => {
                super::make_writable(folder)?;
                symlinkat(target, folder, &temporary)?;
            }
            Part::Head(content) => {
                super::make_writable(folder)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = openat(folder, &temporary, flags, Mode::from_raw_mode(0o644))?;
                std::fs::File::from(file).write_all(content)?;
            }
        }
        make_room(folder, HEAD)?;
        renameat(folder, &temporary, folder, HEAD)?;
        Ok(true)
    }
}

fn put_back_directory(folder: &OwnedFd, name: &str) -> io::Result<bool> {
    if is_directory(folder, name) {
        return Ok(false);
    }
    // If it is only closed, its content is the repository.
    let exists = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if !exists || !reopen(folder, OsStr::new(name))? {
        super::make_writable(folder)?;
        make_room(folder, name)?;
        mkdirat(folder, name, OPEN_MODE)?;
    }
    Ok(true)
}

/// Opens a git directory, which the run may have closed to make git look elsewhere.
fn open_again(host: &Host, path: &AbsPath) -> io::Result<OwnedFd> {
    if let Ok(folder) = open_folder(host, path)
        && is_directory(&folder, ".")
    {
        return Ok(folder);
    }
    let (parent, name) = open_parent(host, path)?;
    reopen(&parent, name)?;
    open_folder(host, path)
}

/// Moves aside what a rename cannot replace. Nothing is deleted, because it may be the user's work.
fn make_room(folder: &OwnedFd, name: &str) -> io::Result<()> {
    if statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        renameat(folder, name, folder, format!("{name}.broken-{}", super::unpredictable_suffix()))?;
    }
    Ok(())
}

/// `HEAD`, if git accepts it (`validate_headref` in git). A `HEAD` that cannot be read is an error.
pub(super) fn valid_head(folder: &OwnedFd) -> io::Result<Option<Part>> {
    let found = match statat(folder, HEAD, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => FileType::from_raw_mode(found.st_mode),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    if found.is_symlink() {
        let target = readlinkat(folder, HEAD, Vec::new())?.into_bytes();
        return Ok(target.starts_with(b"refs/").then(|| Part::HeadLink(OsString::from_vec(target))));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(folder, HEAD, flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(LARGEST_HEAD).read_to_end(&mut content)?;
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

/// Whether git can use `name` as a directory. Like git, this follows symlinks: some layouts share
/// objects by one. git cannot use a directory that cannot be searched.
fn is_directory(folder: &OwnedFd, name: &str) -> bool {
    let is_directory =
        statat(folder, name, AtFlags::empty()).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
    is_directory && accessat(folder, name, Access::EXEC_OK, AtFlags::empty()).is_ok()
}

/// Gives a closed directory its usual mode. Returns whether `name` is a directory itself: `chmod`
/// follows a symlink.
fn reopen(folder: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_directory = FileType::from_raw_mode(found.st_mode).is_dir();
    if is_directory {
        chmodat(folder, name, OPEN_MODE, AtFlags::empty())?;
    }
    Ok(is_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

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
