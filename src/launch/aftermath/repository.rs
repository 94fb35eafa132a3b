//! The repository is still one for git. Where it is not, git takes the work tree itself for a bare repository if a command
//! has made it look like one, with hooks and settings of the command's choice.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, accessat, chmodat, mkdirat, openat, readlinkat, renameat, statat,
    symlinkat,
};

use crate::diagnostic::{Code, Diagnostic, Diagnostics, listed, reason};
use crate::host::Host;
use crate::policy::path::AbsPath;

use crate::host::nofollow::open_folder;

/// More than any name of a branch.
const LARGEST_HEAD: u64 = 1 << 16;
const HEAD: &str = "HEAD";
/// Without these it is no repository either.
const DIRECTORIES: [&str; 2] = ["objects", "refs"];

pub(super) struct Repository {
    common_dir: AbsPath,
    /// That of this work tree, and that of the main one where they differ: both directories are writable.
    heads: Vec<(AbsPath, Option<Head>)>,
    directories: Vec<&'static str>,
}

/// Of `HEAD`; what follows does not count.
const READ_BY_GIT: usize = 255;

/// `HEAD`, as git accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Head {
    File(Vec<u8>),
    /// As git wrote it once, and still reads it.
    Link(OsString),
}

impl Repository {
    pub(super) fn new(git_dir: &AbsPath, common_dir: &AbsPath) -> Self {
        let mut folders = vec![git_dir.clone(), common_dir.clone()];
        folders.dedup();
        let heads = folders.into_iter().map(|folder| (folder, None)).collect();
        Self { common_dir: common_dir.clone(), heads, directories: Vec::new() }
    }

    pub(super) fn start(&mut self, host: &Host) {
        for (path, head) in &mut self.heads {
            let Ok(folder) = open_folder(host, path) else { continue };
            *head = valid_head(&folder);
            if *path == self.common_dir {
                self.directories = DIRECTORIES.into_iter().filter(|name| is_directory(&folder, name)).collect();
            }
        }
    }

    /// Puts back what was there and is not.
    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        let mut repaired = Vec::new();
        let mut failed = Vec::new();
        let mut note = |path: AbsPath, put_back: io::Result<bool>| match put_back {
            Ok(false) => {}
            Ok(true) => repaired.push(format!("`{path}`")),
            Err(e) => failed.push(format!("`{path}` ({})", reason(&e))),
        };
        for (path, head) in &self.heads {
            let directories = self.directories.iter().filter(|_| *path == self.common_dir);
            if head.is_none() && directories.clone().next().is_none() {
                continue;
            }
            let folder = open_again(host, path);
            let again = |e: &io::Error| e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
            let in_folder = || folder.as_ref().map_err(again);
            if let Some(head) = head {
                note(path.child(HEAD), in_folder().and_then(|folder| put_back_head(folder, head)));
            }
            for name in directories {
                note(path.child(name), in_folder().and_then(|folder| put_back_directory(folder, name)));
            }
        }
        let help =
            "see what the run has put into the project: without it, git would have taken settings and hooks from there";
        if !repaired.is_empty() {
            let message = format!("the run broke the repository; put back: {}", listed(repaired.into_iter(), "and"));
            said.push(Diagnostic::new(Code::RepositoryRepaired, message).help(help));
        }
        if !failed.is_empty() {
            let message =
                format!("the run broke the repository; cannot be put back: {}", listed(failed.into_iter(), "and"));
            said.push(Diagnostic::new(Code::RepositoryRepaired, message).help(help));
        }
    }
}

/// Opens a git directory, which the run may have closed to make git look elsewhere.
fn open_again(host: &Host, path: &AbsPath) -> io::Result<OwnedFd> {
    let folder = open_folder(host, path);
    match folder {
        Ok(folder) if is_directory(&folder, ".") => return Ok(folder),
        _ => {}
    }
    let parent = open_folder(host, &path.parent().unwrap_or_else(AbsPath::root))?;
    let name = path.file_name().unwrap_or_default();
    // Of the directory itself: `chmod` has no other way not to follow a link.
    if FileType::from_raw_mode(statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode).is_dir() {
        chmodat(&parent, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
    }
    open_folder(host, path)
}

fn put_back_head(folder: &OwnedFd, head: &Head) -> io::Result<bool> {
    if valid_head(folder).is_some() {
        return Ok(false);
    }
    super::open_up(folder)?;
    let temporary = format!("HEAD.agent-sandbox-{}", super::unforeseen());
    match head {
        Head::Link(target) => symlinkat(target, folder, &temporary)?,
        Head::File(content) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(folder, &temporary, flags, Mode::from_raw_mode(0o644))?;
            std::fs::File::from(file).write_all(content)?;
        }
    }
    make_room(folder, HEAD)?;
    renameat(folder, &temporary, folder, HEAD)?;
    Ok(true)
}

fn put_back_directory(folder: &OwnedFd, name: &str) -> io::Result<bool> {
    if is_directory(folder, name) {
        return Ok(false);
    }
    // The directory itself, if it was only closed: what is in it is the repository.
    let is_closed = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
    if is_closed {
        chmodat(folder, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
        return Ok(true);
    }
    super::open_up(folder)?;
    make_room(folder, name)?;
    mkdirat(folder, name, Mode::from_raw_mode(0o755))?;
    Ok(true)
}

/// Moves aside what cannot be replaced by a rename. Nothing is deleted: it may be work.
fn make_room(folder: &OwnedFd, name: &str) -> io::Result<()> {
    if statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        renameat(folder, name, folder, format!("{name}.broken-{}", super::unforeseen()))?;
    }
    Ok(())
}

/// As git judges it (`validate_headref`).
fn valid_head(folder: &OwnedFd) -> Option<Head> {
    let found = statat(folder, HEAD, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(found.st_mode).is_symlink() {
        let target = readlinkat(folder, HEAD, Vec::new()).ok()?;
        let target = OsStr::from_bytes(target.to_bytes());
        return target.as_bytes().starts_with(b"refs/").then(|| Head::Link(target.to_owned()));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(openat(folder, HEAD, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    file.take(LARGEST_HEAD).read_to_end(&mut content).ok()?;
    is_valid(&content[..content.len().min(READ_BY_GIT)]).then_some(Head::File(content))
}

fn is_valid(head: &[u8]) -> bool {
    if let Some(target) = head.strip_prefix(b"ref:") {
        // Not what Rust calls white space: git knows no form feed.
        let start = target.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        return start.is_some_and(|start| target[start..].starts_with(b"refs/"));
    }
    let digits = head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    digits >= 40
}

fn is_directory(folder: &OwnedFd, name: &str) -> bool {
    // Through links, as git looks: some layouts share objects by one. And one that cannot be searched is none for git.
    let is_directory =
        statat(folder, name, AtFlags::empty()).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
    is_directory && accessat(folder, name, Access::EXEC_OK, AtFlags::empty()).is_ok()
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
