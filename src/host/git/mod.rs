//! The git repository that a project belongs to, read from git's own files.
//!
//! The sandbox makes a git directory writable, and the `.git` that names it may have been written by the sandboxed
//! command. So a `.git` that leads out of the project is only a claim; it is believed where the place that it
//! names makes the same claim back, in a file that the command could not have written without having had
//! access to that place before. Nothing here starts `git`: its configuration can name programs to run.

pub(crate) mod config;
pub(crate) mod index;
mod named;
pub(crate) mod nested;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host};
use crate::policy::path::{AbsPath, escape_for_display};

/// Pointers, `HEAD` and the configuration are a few lines; a `.git` of gigabytes is no pointer.
pub(crate) const SMALL_FILE: u64 = 1 << 20;

pub use named::{Named, named};
pub use nested::{Nested, NestedRepositories};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// What is git's for this work tree alone: `HEAD`, `index`. Holds no symlinks.
    pub git_dir: AbsPath,
    /// What is shared between work trees: `objects`, `refs`, `hooks`, `config`. Equal to `git_dir` except in a
    /// linked worktree. Holds no symlinks.
    pub common_dir: AbsPath,
    /// The branch that is checked out (`feature/x`); `None` when detached, or not certainly a branch.
    ///
    /// `HEAD` is writable inside the sandbox, so the name is text from the command. It is guaranteed to be valid
    /// for `git check-ref-format`, without control characters and glob metacharacters (`*?[]{}\`): below
    /// `refs/heads` it names a path that stays there, and means itself when read as a pattern.
    pub current_branch: Option<String>,
}

/// The repository that `root` belongs to: that of the nearest of `candidates` with a `.git`.
///
/// `candidates` are `root`, then the ancestors that may be searched, nearest first. The nearest `.git` settles it,
/// good or bad. (git skips an invalid directory and looks further up; if we did, emptying the repository of a
/// project would open the one around it.)
pub fn discover(
    host: &Host,
    root: &AbsPath,
    candidates: &[AbsPath],
    diagnostics: &mut Diagnostics,
) -> Option<Repository> {
    for folder in candidates {
        match repository_at(host, root, folder) {
            Ok(None) => {}
            Ok(Some(repository)) => return Some(repository),
            Err(doubt) => {
                diagnostics.push(doubt.into_diagnostic(&folder.child(".git")));
                return None;
            }
        }
    }
    None
}

/// Why a `.git` is not believed.
struct Doubt {
    /// Continues a sentence that begins with the `.git`.
    reason: String,
    help: String,
}

impl Doubt {
    fn new(reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason: reason.into(), help: help.into() }
    }

    fn into_diagnostic(self, dot_git: &AbsPath) -> Diagnostic {
        let message = format!("`{dot_git}` {}: `@git` opens nothing there", self.reason);
        Diagnostic::new(Code::UnverifiedGitPointer, message).help(self.help)
    }
}

impl From<io::Error> for Doubt {
    fn from(error: io::Error) -> Self {
        Doubt::new(
            format!("cannot be followed ({})", reason(&error)),
            "make it readable for you, or remove it if it is not yours",
        )
    }
}

fn repository_at(host: &Host, root: &AbsPath, folder: &AbsPath) -> Result<Option<Repository>, Doubt> {
    let root = host.resolve(root.as_path())?.path;
    let folder = host.resolve(folder.as_path())?.path;
    let dot_git = host.resolve(folder.child(".git").as_path())?;
    let is_link = !dot_git.links.is_empty();

    match dot_git.kind {
        None if !is_link => Ok(None),
        Some(FileKind::Directory) if !is_link => plain(host, &root, &folder, dot_git.path).map(Some),
        // git itself never makes `.git` a link; other tools do (`repo`). It says no more than a pointer says.
        Some(FileKind::Directory) => {
            let pointer = Pointer { root, folder, target: dot_git.path };
            pointer.follow(host, PointerForm::Link).map(Some)
        }
        Some(FileKind::File) if !is_link => {
            let target = pointed_at(host, &folder, &dot_git.path)?;
            let pointer = Pointer { root, folder, target };
            pointer.follow(host, PointerForm::File).map(Some)
        }
        None | Some(FileKind::File | FileKind::Device) => Err(Doubt::new(
            format!("leads to `{}`, which is not a git directory", dot_git.path),
            "let it be a directory, or a file that git wrote",
        )),
    }
}

/// A `.git` directory belongs to its folder without further proof, since it lies in it. A `commondir` in it is
/// not followed: git never puts one there, and the command could.
///
/// In the project itself even a broken one counts: it is in the project anyway, so nothing is opened, and
/// otherwise `rm .git/HEAD` would leave the hooks of the next run unprotected.
fn plain(host: &Host, root: &AbsPath, folder: &AbsPath, git_dir: AbsPath) -> Result<Repository, Doubt> {
    if folder != root && !is_git_directory(host, &git_dir)? {
        return Err(Doubt::new(
            "is a directory without `HEAD` and `objects`",
            "remove it if it is left over, or repair the repository",
        ));
    }
    Ok(repository(host, git_dir.clone(), git_dir))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PointerForm {
    File,
    Link,
}

struct Pointer {
    root: AbsPath,
    folder: AbsPath,
    target: AbsPath,
}

impl Pointer {
    fn follow(self, host: &Host, form: PointerForm) -> Result<Repository, Doubt> {
        // Only a `.git` file can be what a worktree's `gitdir` names; a link would resolve to its own target.
        // One that says `./` names the directory itself, as if it were not there: that is our own placeholder.
        let names_another = |common: Option<Vec<u8>>| common.is_some_and(|common| common != b"./");
        let is_worktree = form == PointerForm::File && names_another(read_path(host, &self.target.child("commondir"))?);
        let common_dir = if is_worktree { self.verified_worktree(host) } else { self.verified_by_configuration(host) };
        match common_dir {
            Ok(common_dir) => Ok(repository(host, self.target, common_dir)),
            // What lies in the project (`gitdir: ./.bare`, a usual layout for several worktrees) needs no
            // proof: nothing is opened that the project does not cover, and its hooks need protection.
            Err(_) if self.target.is_below(&self.root) && is_git_directory(host, &self.target)? => {
                Ok(repository(host, self.target.clone(), self.target))
            }
            Err(doubt) => Err(doubt),
        }
    }

    /// The common directory of a linked worktree.
    ///
    /// The place `<common>/worktrees/<name>` is part of the proof: without it the command could write a directory
    /// of its own whose `commondir` names any repository.
    fn verified_worktree(&self, host: &Host) -> Result<AbsPath, Doubt> {
        let Self { folder, target, .. } = self;
        let dot_git = folder.child(".git");
        let help = format!("if `{folder}` is a worktree of yours, run `git worktree repair` in it");

        let back = read_path(host, &target.child("gitdir"))?.ok_or_else(|| {
            Doubt::new(format!("points to `{target}`, which has no `gitdir` that points back"), &help)
        })?;
        if !self.names(host, &back, &dot_git)? {
            let named = escape_for_display(OsStr::from_bytes(&back));
            return Err(Doubt::new(format!("points to `{target}`, whose `gitdir` names `{named}` instead"), help));
        }

        let common = read_path(host, &target.child("commondir"))?.unwrap_or_default();
        let common = host.resolve(&target.as_path().join(OsStr::from_bytes(&common)))?.path;
        let in_its_place = target.parent() == Some(common.child("worktrees"));
        if !in_its_place || !has(host, target, "HEAD", FileKind::File)? || !is_git_directory(host, &common)? {
            return Err(Doubt::new(
                format!("points to `{target}`, which is no worktree of the repository `{common}`"),
                help,
            ));
        }
        Ok(common)
    }

    /// The common directory of a submodule, or of any repository whose configuration names this folder.
    fn verified_by_configuration(&self, host: &Host) -> Result<AbsPath, Doubt> {
        let Self { folder, target, .. } = self;
        if !is_git_directory(host, target)? {
            return Err(Doubt::new(
                format!("points to `{target}`, which is not a git directory"),
                "if the repository was moved, run `git worktree repair` in it, or `git submodule update` in \
                 the project around a submodule; if it is gone, remove the `.git`",
            ));
        }
        let help = format!(
            "if `{target}` is the repository of this folder, say so in it: \
             `git --git-dir={target} config core.worktree {folder}`"
        );
        match core_worktree(host, target)? {
            None => Err(Doubt::new(
                format!("points to `{target}`, whose `config` has no `core.worktree` that points back"),
                help,
            )),
            Some(back) if self.names(host, &back, folder)? => Ok(target.clone()),
            Some(back) => {
                let named = escape_for_display(OsStr::from_bytes(&back));
                Err(Doubt::new(format!("points to `{target}`, whose `core.worktree` names `{named}` instead"), help))
            }
        }
    }

    /// Whether the path `back`, written in the target, is `expected` once resolved.
    ///
    /// A symlink in the project proves nothing: where a worktree once lay in it, the command could put a link
    /// to the project itself in its place.
    fn names(&self, host: &Host, back: &[u8], expected: &AbsPath) -> Result<bool, Doubt> {
        let resolved = host.resolve(&self.target.as_path().join(OsStr::from_bytes(back)))?;
        let by_project = |link: &AbsPath| link.is_within(&self.folder) || link.is_within(&self.root);
        Ok(resolved.path == *expected && !resolved.links.iter().any(by_project))
    }
}

/// Where a `.git` file says the git directory is, resolved.
fn pointed_at(host: &Host, folder: &AbsPath, file: &AbsPath) -> Result<AbsPath, Doubt> {
    let text = read_path(host, file)?.unwrap_or_default();
    let Some(path) = pointer_path(&text) else {
        return Err(Doubt::new("is a file that does not say `gitdir: PATH`", "remove it, or restore what git wrote"));
    };
    Ok(host.resolve(&folder.as_path().join(path))?.path)
}

/// The path in the text of a `.git` file.
pub(crate) fn pointer_path(text: &[u8]) -> Option<&Path> {
    let path = text.strip_prefix(b"gitdir: ")?;
    let path = without_line_end(path);
    (!path.is_empty()).then(|| Path::new(OsStr::from_bytes(path)))
}

/// The content of a file that holds one path. Like git, only the end of the line is removed: a
/// path may end in a space.
pub(crate) fn read_path(host: &Host, file: &AbsPath) -> io::Result<Option<Vec<u8>>> {
    let text = host.noting_closed(file.as_path(), host.read_regular(file, SMALL_FILE))?;
    Ok(text.map(|text| without_line_end(&text).to_vec()))
}

fn without_line_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    until_nul(text.get(..end).unwrap_or_default())
}

/// For git, a path ends there, whatever follows in the file.
fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// `core.worktree` as git would read it. With `extensions.worktreeConfig` it has moved to a file of its own, which
/// `git sparse-checkout` does to submodules.
fn core_worktree(host: &Host, git_dir: &AbsPath) -> Result<Option<Vec<u8>>, Doubt> {
    let shared = read_config(host, &git_dir.child("config"))?;
    let own = match config::last_value(&shared, "extensions", "worktreeconfig")? {
        Some(value) if config::is_true(&value) => read_config(host, &git_dir.child("config.worktree"))?,
        _ => Vec::new(),
    };
    Ok(match config::last_value(&own, "core", "worktree")? {
        Some(value) => Some(value),
        None => config::last_value(&shared, "core", "worktree")?,
    })
}

pub(crate) fn read_config(host: &Host, file: &AbsPath) -> io::Result<Vec<u8>> {
    Ok(host.noting_closed(file.as_path(), host.read_regular(file, SMALL_FILE))?.unwrap_or_default())
}

/// The marks by which git knows a repository, without the work that it does to be sure.
fn is_git_directory(host: &Host, path: &AbsPath) -> io::Result<bool> {
    Ok(has(host, path, "HEAD", FileKind::File)? && has(host, path, "objects", FileKind::Directory)?)
}

fn has(host: &Host, folder: &AbsPath, name: &str, kind: FileKind) -> io::Result<bool> {
    Ok(host.resolve(folder.child(name).as_path())?.kind == Some(kind))
}

fn repository(host: &Host, git_dir: AbsPath, common_dir: AbsPath) -> Repository {
    let head = host.read_regular(&git_dir.child("HEAD"), SMALL_FILE).ok().flatten();
    let current_branch = head.and_then(|text| branch_of(&text));
    Repository { git_dir, common_dir, current_branch }
}

fn branch_of(head: &[u8]) -> Option<String> {
    let target = std::str::from_utf8(head).ok()?.strip_prefix("ref:")?.trim_ascii();
    let name = target.strip_prefix("refs/heads/")?;
    is_branch_name(name).then(|| name.to_owned())
}

/// The rules of `git check-ref-format`, and no `{`, `}` or `]`: they are legal in a branch and special in a glob.
fn is_branch_name(name: &str) -> bool {
    let special = |c: char| c.is_control() || " ~^:?*[]{}\\".contains(c);
    let bad_component =
        |component: &str| component.is_empty() || component.starts_with('.') || component.ends_with(".lock");
    name != "@"
        && !name.contains(special)
        && !name.contains("..")
        && !name.ends_with('.')
        && !name.split('/').any(bad_component)
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
