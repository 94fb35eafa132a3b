//! The git repository that a project belongs to, read from git's own files.
//!
//! The sandbox makes a git directory writable, and the command may have written the `.git` that
//! names it. So a `.git` that leads out of the project is only a claim. The claim is accepted if a
//! file in the git directory that it names points back. The command cannot write that file without
//! access to the git directory. Nothing here starts `git`, whose configuration can name programs.

pub(crate) mod config;
pub(crate) mod ignore;
pub(crate) mod index;
mod named;
pub(crate) mod nested;
pub(crate) mod program;
pub(crate) mod remote;
mod scopes;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host};
use crate::policy::path::{AbsPath, escape_for_display};

/// The largest pointer or `HEAD`. Both have a few lines, and a `.git` of gigabytes is no pointer.
const SMALL_FILE: u64 = 1 << 20;

pub use named::{Named, named};
pub use nested::{Nested, NestedRepositories};
pub use scopes::Scopes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The folder whose `.git` leads to the git directory. Holds no symlinks.
    pub work_tree: AbsPath,
    /// The files of this work tree alone: `HEAD`, `index`. Holds no symlinks.
    pub git_dir: AbsPath,
    /// The files that work trees share: `objects`, `refs`, `hooks`, `config`. Equal to `git_dir`
    /// except in a linked worktree. Holds no symlinks.
    pub common_dir: AbsPath,
    /// The branch that is checked out (`feature/x`); `None` if detached or not certainly a branch.
    ///
    /// The command can write `HEAD`. The name is valid for `git check-ref-format`, and has no
    /// control characters and glob metacharacters (`*?[]{}\`): below `refs/heads` it names a path
    /// that stays there, and it means itself when read as a pattern.
    pub current_branch: Option<String>,
}

/// The repository of the nearest of `candidates` with a `.git`: `root`, then the ancestors that may
/// be searched, nearest first.
///
/// The nearest `.git` decides, even if it is invalid. git would search further up. Doing so here
/// would be wrong: a command that empties the project's repository would get access to the
/// repository around the project.
pub fn discover(
    host: &Host,
    root: &AbsPath,
    candidates: &[AbsPath],
    diagnostics: &mut Diagnostics,
) -> Option<Repository> {
    let (folder, found) =
        candidates.iter().find_map(|folder| Some((folder, repository_at(host, root, folder).transpose()?)))?;
    found.map_err(|doubt| diagnostics.push(doubt.into_diagnostic(&folder.child(".git")))).ok()
}

/// The reason not to follow a `.git`.
struct Doubt {
    /// Continues a sentence that begins with the path of the `.git`.
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
    let target = match dot_git.kind {
        None if !is_link => return Ok(None),
        Some(FileKind::Directory) if !is_link => return plain(host, &root, &folder, dot_git.path).map(Some),
        // git itself never makes `.git` a link; other tools do (`repo`). A link proves as little
        // as a file.
        Some(FileKind::Directory) => dot_git.path,
        Some(FileKind::File) if !is_link => read_pointer(host, &folder, &dot_git.path)?.ok_or_else(|| {
            Doubt::new("is a file that does not say `gitdir: PATH`", "remove it, or restore git's version")
        })?,
        None | Some(FileKind::File | FileKind::Device) => {
            return Err(Doubt::new(
                format!("leads to `{}`, which is not a git directory", dot_git.path),
                "replace it by a directory, or by a file that git wrote",
            ));
        }
    };
    Pointer { root, folder, target, is_link }.follow(host).map(Some)
}

/// A `.git` directory belongs to the folder that it lies in, without further proof. A `commondir`
/// in it is not followed: git never puts one there, and the command could.
///
/// In the project's own folder even a broken `.git` counts. The command can write there anyway,
/// and after `rm .git/HEAD` the next run must still protect the hooks.
fn plain(host: &Host, root: &AbsPath, folder: &AbsPath, git_dir: AbsPath) -> Result<Repository, Doubt> {
    if folder != root && !is_git_directory(host, &git_dir)? {
        return Err(Doubt::new(
            "is a directory without `HEAD` and `objects`",
            "remove it if it is left over, or repair the repository",
        ));
    }
    Ok(repository(host, folder.clone(), git_dir.clone(), git_dir))
}

/// A `.git` that leads elsewhere.
struct Pointer {
    root: AbsPath,
    folder: AbsPath,
    target: AbsPath,
    is_link: bool,
}

impl Pointer {
    fn follow(self, host: &Host) -> Result<Repository, Doubt> {
        // The `gitdir` of a worktree can only name a file, and a link is resolved to its target. A
        // `commondir` of `./` is our own placeholder, and means the directory itself.
        let names_another = |common: Option<Vec<u8>>| common.is_some_and(|common| common != b"./");
        let is_worktree = !self.is_link && names_another(read_path(host, &self.target.child("commondir"))?);
        let common_dir = if is_worktree { self.verified_worktree(host) } else { self.verified_by_configuration(host) };
        match common_dir {
            Ok(common_dir) => Ok(repository(host, self.folder, self.target, common_dir)),
            // A git directory in the project (`gitdir: ./.bare`, usual with several worktrees)
            // needs no proof: it is part of the project, and its hooks need protection.
            Err(_) if self.target.is_below(&self.root) && is_git_directory(host, &self.target)? => {
                Ok(repository(host, self.folder, self.target.clone(), self.target))
            }
            Err(doubt) => Err(doubt),
        }
    }

    /// The common directory of a linked worktree.
    ///
    /// The git directory must be `<common>/worktrees/<name>`. Elsewhere, the command could write a
    /// directory with a `commondir` that names any repository.
    fn verified_worktree(&self, host: &Host) -> Result<AbsPath, Doubt> {
        let Self { folder, target, .. } = self;
        let doubt = |problem: String| {
            let help = format!("run `git worktree repair` in `{folder}` if it is a worktree of yours");
            Doubt::new(format!("points to `{target}`, {problem}"), help)
        };
        let back = read_path(host, &target.child("gitdir"))?
            .ok_or_else(|| doubt("which has no `gitdir` that points back".to_owned()))?;
        if !self.names(host, &back, &folder.child(".git"))? {
            return Err(doubt(format!(
                "whose `gitdir` names `{}` instead",
                escape_for_display(OsStr::from_bytes(&back))
            )));
        }
        let common = nested::common_dir_of(host, target)?;
        let in_its_place = target.parent() == Some(common.child("worktrees"));
        if !in_its_place || !has(host, target, "HEAD", FileKind::File)? || !is_git_directory(host, &common)? {
            return Err(doubt(format!("which is no worktree of the repository `{common}`")));
        }
        Ok(common)
    }

    /// The common directory of a submodule, or of any repository whose configuration names this
    /// folder.
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
            "name this folder in `{target}` if it is the repository of this folder: `git --git-dir={target} config \
             core.worktree {folder}`"
        );
        let problem = match core_worktree(host, target)? {
            None => "`config` has no `core.worktree` that points back".to_owned(),
            Some(back) if self.names(host, &back, folder)? => return Ok(target.clone()),
            Some(back) => format!("`core.worktree` names `{}` instead", escape_for_display(OsStr::from_bytes(&back))),
        };
        Err(Doubt::new(format!("points to `{target}`, whose {problem}"), help))
    }

    /// Whether the path `back`, which a file in the target holds, resolves to `expected`.
    ///
    /// A symlink in the project proves nothing: the command could replace a former worktree in it
    /// by a link to the project itself.
    fn names(&self, host: &Host, back: &[u8], expected: &AbsPath) -> Result<bool, Doubt> {
        let resolved = host.resolve(&self.target.as_path().join(OsStr::from_bytes(back)))?;
        let by_project = |link: &AbsPath| link.is_within(&self.folder) || link.is_within(&self.root);
        Ok(resolved.path == *expected && !resolved.links.iter().any(by_project))
    }
}

/// The git directory that the `.git` file `file` names, resolved from `folder`; `None` if it names
/// none.
fn read_pointer(host: &Host, folder: &AbsPath, file: &AbsPath) -> io::Result<Option<AbsPath>> {
    let text = read_path(host, file)?.unwrap_or_default();
    match text.strip_prefix(b"gitdir: ").filter(|path| !path.is_empty()) {
        Some(path) => Ok(Some(host.resolve(&folder.as_path().join(OsStr::from_bytes(path)))?.path)),
        None => Ok(None),
    }
}

/// The path in a file that holds one path. Like git, this removes only the end of the line: a path
/// may end in a space.
pub(crate) fn read_path(host: &Host, file: &AbsPath) -> io::Result<Option<Vec<u8>>> {
    let Some(text) = read_small(host, file)? else { return Ok(None) };
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    Ok(Some(until_nul(text.get(..end).unwrap_or_default()).to_vec()))
}

/// The content of a pointer or configuration file; `None` if it does not exist.
pub(crate) fn read_small(host: &Host, file: &AbsPath) -> io::Result<Option<Vec<u8>>> {
    host.noting_closed(file.as_path(), host.read_regular(file, SMALL_FILE))
}

/// The largest file with settings. Settings with thousands of remotes and branches have a megabyte.
const LARGEST_SETTINGS: u64 = 64 << 20;

/// The content of a file with settings; `None` if it does not exist.
fn read_settings(host: &Host, file: &AbsPath) -> io::Result<Option<Vec<u8>>> {
    host.noting_closed(file.as_path(), host.read_regular(file, LARGEST_SETTINGS))
}

/// git treats paths and values as C strings.
fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// `core.worktree` as git reads it. With `extensions.worktreeConfig` (`git sparse-checkout` sets
/// it in submodules), git reads `config.worktree` first.
fn core_worktree(host: &Host, git_dir: &AbsPath) -> io::Result<Option<Vec<u8>>> {
    let shared = read_small(host, &git_dir.child("config"))?.unwrap_or_default();
    if config::last_value(&shared, "extensions", "worktreeconfig")?.is_some_and(|value| config::is_true(&value)) {
        let own = read_small(host, &git_dir.child("config.worktree"))?.unwrap_or_default();
        if let Some(value) = config::last_value(&own, "core", "worktree")? {
            return Ok(Some(value));
        }
    }
    config::last_value(&shared, "core", "worktree")
}

/// Whether `path` has `HEAD` and `objects`. git checks more than that.
fn is_git_directory(host: &Host, path: &AbsPath) -> io::Result<bool> {
    Ok(has(host, path, "HEAD", FileKind::File)? && has(host, path, "objects", FileKind::Directory)?)
}

fn has(host: &Host, folder: &AbsPath, name: &str, kind: FileKind) -> io::Result<bool> {
    Ok(host.resolve(folder.child(name).as_path())?.kind == Some(kind))
}

fn repository(host: &Host, work_tree: AbsPath, git_dir: AbsPath, common_dir: AbsPath) -> Repository {
    let head = host.read_regular(&git_dir.child("HEAD"), SMALL_FILE).ok().flatten();
    let current_branch = head.and_then(|text| branch_of(&text));
    Repository { work_tree, git_dir, common_dir, current_branch }
}

fn branch_of(head: &[u8]) -> Option<String> {
    let target = std::str::from_utf8(head).ok()?.strip_prefix("ref:")?.trim_ascii();
    let name = target.strip_prefix("refs/heads/")?;
    is_branch_name(name).then(|| name.to_owned())
}

/// The rules of `git check-ref-format`, and no `{`, `}` or `]`, which are special in a glob.
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
pub(crate) mod tests;
