//! The file system that a policy is compiled for. All reading of it goes through here.
//!
//! The host is a real directory tree with a root. In production the root is `/`. A test compiles
//! for a tree in a temporary directory, so that it needs no mock and its snapshots hold stable
//! paths. An absolute symlink therefore starts at the host's root.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Access, AtFlags, FileType, access, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::policy::{AbsPath, places};

mod byte_budget;
mod cache;
pub(crate) mod commands;
mod dir;
pub mod git;
pub mod identity;
pub mod journal;
pub(crate) mod last_parent;
pub(crate) mod long_path;
pub mod mountinfo;
mod mounts;
pub(crate) mod nofollow;
pub(crate) mod open_dir;
pub(crate) mod passwd;
mod path_error;
mod read;
pub mod session;
pub(crate) mod state_dir;
pub(crate) mod unix_sockets;

use byte_budget::ByteBudget;
use cache::{EntryFacts, Seen};
pub use dir::{DirEntry, Directory};
pub use identity::{FileBirth, Identity};
pub(crate) use last_parent::LastParent;
use long_path::Reached;
pub(crate) use mounts::is_of_the_sandbox;
pub use mounts::{AliasOf, Mounts};
pub(crate) use open_dir::OpenDir;
pub use path_error::PathError;
pub use read::MOUNT_TABLE;
pub(crate) use read::is_transient;
pub use session::Session;

/// The most symlinks that a search follows before it returns ELOOP, as Linux does (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

#[derive(Clone)]
pub struct Host {
    root: PathBuf,
    /// Called with each directory that is read.
    listener: Option<Arc<Listener>>,
    seen: Option<Arc<Seen>>,
    /// The sizes of git's files that were read so far.
    git_bytes: Arc<Mutex<ByteBudget>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    Directory,
    /// A regular file, socket or FIFO: anything that one file mount can cover.
    File,
    Device,
}

pub type Listener = dyn Fn(&AbsPath) + Send + Sync;

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.root).finish()
    }
}

/// The target of a path after all symlinks are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub path: AbsPath,
    /// The symlinks that were followed, in order.
    pub links: Vec<AbsPath>,
    /// `None`: nothing is there (yet).
    pub kind: Option<FileKind>,
    /// Number of names (hard links) of a file; 1 for a directory.
    pub names: u64,
}

impl Host {
    pub fn system() -> Self {
        Self::at("/")
    }

    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), listener: None, seen: None, git_bytes: Arc::default() }
    }

    /// Returns this host with a cache. Each path is examined once, so that all rules get the same
    /// answer. If this host already has a cache, both share it. The caller must change no files.
    #[must_use]
    pub fn with_cache(&self) -> Self {
        Self { seen: Some(self.seen.clone().unwrap_or_default()), ..self.clone() }
    }

    /// Returns this host with a listener. Any thread calls it with a directory before reading that
    /// directory.
    #[must_use]
    pub fn with_progress(self, listener: Arc<Listener>) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// The path under which this process reaches `path`.
    pub fn real(&self, path: &AbsPath) -> PathBuf {
        self.reached(path.as_path()).into_owned()
    }

    fn reached<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        if self.root.as_os_str() == "/" {
            return Cow::Borrowed(path);
        }
        path.strip_prefix("/").map_or(Cow::Borrowed(path), |relative| Cow::Owned(self.root.join(relative)))
    }

    /// Follows `path` component by component. The rest after a missing component, or after one that
    /// is no directory, stays as spelled.
    pub fn resolve(&self, path: &Path) -> io::Result<Resolved> {
        self.resolve_from(&AbsPath::root(), path)
    }

    /// Follows a path that may be relative to `directory`, which holds no symlinks.
    pub fn resolve_from(&self, directory: &AbsPath, path: &Path) -> io::Result<Resolved> {
        // Most rules start at the project or at the home, which an earlier search has reached.
        if !path.is_absolute() && self.is_reached(directory.as_os_str()) {
            return self.follow(directory.as_path(), path, &mut PathBuf::new());
        }
        let whole = if path.is_absolute() { Cow::Borrowed(path) } else { directory.as_path().join(path).into() };
        let (folder, rest) = self.nearest_known(&whole);
        self.follow(folder, rest, &mut PathBuf::new())
    }

    /// The folder on the way to `path` that this process may not search, if there is one.
    pub fn refused_by(&self, path: &Path) -> Option<AbsPath> {
        let mut at = PathBuf::new();
        let uncached = Self { seen: None, ..self.clone() };
        let error = uncached.follow(Path::new("/"), path, &mut at).err()?;
        let is_refused = error.raw_os_error() == Some(Errno::ACCESS.raw_os_error());
        is_refused.then(|| at.parent().map(AbsPath::from_normal))?
    }

    /// Follows `path` from `folder`, which holds no symlinks. After an error, `at` is the path at
    /// which the search failed.
    fn follow(&self, folder: &Path, path: &Path, at: &mut PathBuf) -> io::Result<Resolved> {
        at.reserve(folder.as_os_str().len() + path.as_os_str().len() + 1);
        at.push(folder);
        let mut from = 0;
        let mut links = Vec::new();
        let mut kind = Some(FileKind::Directory);
        let mut names = 1;
        let mut ahead = Cow::Borrowed(path.as_os_str().as_bytes());
        while from < ahead.len() {
            let length = ahead[from..].iter().position(|byte| *byte == b'/').unwrap_or(ahead.len() - from);
            let name = OsStr::from_bytes(&ahead[from..from + length]);
            from += length + 1;
            if name.is_empty() || name == "." {
                continue;
            }
            if name == ".." {
                at.pop();
                // This folder may be missing as well: `missing/../x`.
                kind = self.found(at)?.map(|found| FileKind::of(found.file_type));
                continue;
            }
            let above = kind;
            at.push(name);
            kind = None;
            if above != Some(FileKind::Directory) {
                continue;
            }
            let Some(found) = self.found_by(at, true)? else { continue };
            if !found.file_type.is_symlink() {
                kind = Some(FileKind::of(found.file_type));
                names = found.names;
                continue;
            }
            // Links in `/proc`, such as `/proc/self/cwd`, have another target for each process.
            if links.len() == MAX_LINKS || at.starts_with(places::PROC) {
                return Err(Errno::LOOP.into());
            }
            let reached = Reached::open(self.reached(at))?;
            let target = readlinkat(reached.folder(), &*reached.rest, Vec::new())?;
            drop(reached);
            links.push(AbsPath::from_normal(&*at));
            if target.as_bytes().starts_with(b"/") {
                *at = PathBuf::from("/");
            } else {
                at.pop();
            }
            kind = Some(FileKind::Directory);
            let rest = ahead.get(from..).unwrap_or_default();
            ahead = Cow::Owned([target.as_bytes(), b"/", rest].concat());
            from = 0;
        }
        // For a missing path, `names` is that of a folder on the way.
        let names = if kind.is_some() { names } else { 1 };
        Ok(Resolved { path: AbsPath::from_normal(std::mem::take(at)), links, kind, names })
    }

    /// The deepest folder on the way to `path` that an earlier search reached, and the rest of
    /// `path`. Only paths in normal form are recorded, so the folder that is found is in normal
    /// form.
    fn nearest_known<'p>(&self, path: &'p Path) -> (&'p Path, &'p Path) {
        let bytes = path.as_os_str().as_bytes();
        let part = |bytes: &'p [u8]| OsStr::from_bytes(bytes);
        let mut ends = (1..bytes.len()).rev().filter(|end| bytes[*end] == b'/');
        match ends.find(|end| self.is_reached(part(&bytes[..*end]))) {
            Some(end) => (Path::new(part(&bytes[..end])), Path::new(part(&bytes[end + 1..]))),
            None => (Path::new("/"), path),
        }
    }

    fn is_reached(&self, folder: &OsStr) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.folders.get(folder).is_some_and(|folder| folder.is_reached)
        })
    }

    /// The kind of the file at `path`, which holds no symlinks; `None` if nothing exists there.
    pub fn kind(&self, path: &AbsPath) -> io::Result<Option<FileKind>> {
        self.found(path.as_path()).map(|found| found.map(|found| FileKind::of(found.file_type)))
    }

    fn found(&self, path: &Path) -> io::Result<Option<EntryFacts>> {
        self.found_by(path, false)
    }

    /// Returns the cached answer, or else a new one, which is cached unless it is an error. If a
    /// search has `reached` the folder of `path`, marks the folder for later searches.
    fn found_by(&self, path: &Path, reached: bool) -> io::Result<Option<EntryFacts>> {
        let Some(seen) = &self.seen else { return self.look(path) };
        let (folder, name) = cache::split(path);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match seen.folders.get_mut(folder) {
            Some(known) => known,
            None => seen.folders.entry(folder.to_owned()).or_default(),
        };
        known.is_reached |= reached;
        known.answer(name, || self.look(path))
    }

    // The type of this field differs between architectures.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    fn look(&self, path: &Path) -> io::Result<Option<EntryFacts>> {
        let found = Reached::open(self.reached(path))
            .and_then(|reached| statat(reached.folder(), &*reached.rest, AtFlags::SYMLINK_NOFOLLOW));
        let found = match found {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let file_type = FileType::from_raw_mode(found.st_mode);
        Ok(Some(EntryFacts {
            file_type,
            names: if file_type.is_dir() { 1 } else { found.st_nlink as u64 },
            is_empty: file_type.is_file() && found.st_size == 0,
        }))
    }

    /// Number of names (hard links) of the file at `path`, which holds no symlinks; `None` if
    /// nothing exists there.
    pub fn names(&self, path: &AbsPath) -> io::Result<Option<u64>> {
        self.found(path.as_path()).map(|found| found.map(|found| found.names))
    }

    /// Whether a socket is at `path`, which holds no symlinks.
    pub fn is_socket(&self, path: &AbsPath) -> io::Result<bool> {
        self.found(path.as_path()).map(|found| found.is_some_and(|found| found.file_type.is_socket()))
    }

    /// Whether a regular file is at `path`, which holds no symlinks.
    pub fn is_regular(&self, path: &AbsPath) -> bool {
        self.found(path.as_path()).is_ok_and(|found| found.is_some_and(|found| found.file_type.is_file()))
    }

    /// Whether an empty regular file is at `path`, which holds no symlinks.
    pub fn is_empty_file(&self, path: &AbsPath) -> bool {
        self.found(path.as_path()).is_ok_and(|found| found.is_some_and(|found| found.is_empty))
    }

    /// Whether anything is at `path`, a dangling symlink included.
    pub fn exists(&self, path: &AbsPath) -> io::Result<bool> {
        Ok(self.kind(path)?.is_some())
    }

    /// Whether this process may create `path`: it can write the nearest ancestor that exists.
    pub fn can_create(&self, path: &AbsPath) -> bool {
        self.nearest_folder(path).is_some_and(|folder| self.is_writable(folder))
    }

    /// Whether the command could create `path`. It runs with the caller's user id, so it can
    /// change the mode of a folder that the caller owns.
    pub fn could_be_created(&self, path: &AbsPath) -> bool {
        // A change of the mode helps only after EACCES, not after EROFS, for example.
        let is_closed = |folder: &Path| access(&*self.reached(folder), Access::WRITE_OK) == Err(Errno::ACCESS);
        let can_open = |folder: &Path| is_closed(folder) && self.is_ours(folder);
        self.nearest_folder(path).is_some_and(|folder| self.is_writable(folder) || can_open(folder))
    }

    /// The nearest ancestor that exists, if it is a directory.
    fn nearest_folder<'p>(&self, path: &'p AbsPath) -> Option<&'p Path> {
        let existing = path.as_path().ancestors().skip(1).find_map(|at| Some((at, self.found(at).ok()??)));
        existing.filter(|(_, found)| found.file_type.is_dir()).map(|(at, _)| at)
    }

    /// Whether root without capabilities cannot enter this directory: it belongs to another user,
    /// and its mode lets neither the group nor others search it.
    pub fn is_closed_to_root(&self, folder: &AbsPath) -> bool {
        let found = fs::symlink_metadata(self.reached(folder.as_path()));
        found.is_ok_and(|found| found.uid() != 0 && found.mode() & 0o011 == 0)
    }

    fn is_ours(&self, path: &Path) -> bool {
        fs::symlink_metadata(self.reached(path)).is_ok_and(|found| found.uid() == geteuid().as_raw())
    }

    fn is_writable(&self, path: &Path) -> bool {
        let ask = || access(&*self.reached(path), Access::WRITE_OK).is_ok();
        let Some(seen) = &self.seen else { return ask() };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.is_writable.get(path.as_os_str()) {
            return *known;
        }
        let answer = ask();
        seen.is_writable.insert(path.into(), answer);
        answer
    }

    /// Whether this process may write the file or folder at `path`.
    pub(crate) fn can_write(&self, path: &AbsPath) -> bool {
        self.is_writable(path.as_path())
    }

    /// Whether this process may read the file at `path`.
    pub fn can_read(&self, path: &AbsPath) -> bool {
        access(&*self.reached(path.as_path()), Access::READ_OK).is_ok()
    }

    /// The file that `path` leads to, if this process may execute it.
    pub fn program(&self, path: &Path) -> Option<Resolved> {
        let found = self.resolve(path).ok().filter(|found| found.kind == Some(FileKind::File))?;
        access(&*self.reached(found.path.as_path()), Access::EXEC_OK).is_ok().then_some(found)
    }

    /// Whether a folder of PATH has a program of this name.
    pub fn is_on_path(&self, session: &Session, name: &str) -> bool {
        session.path_folders().any(|folder| self.program(&folder.join(name)).is_some())
    }

    /// The text of the symlink at `path`.
    pub fn link_target(&self, path: &AbsPath) -> io::Result<PathBuf> {
        self.noting(path, fs::read_link(self.real(path)))
    }

    /// The owner of the file at `path`, or of a symlink itself.
    pub fn owner(&self, path: &AbsPath) -> io::Result<u32> {
        Ok(fs::symlink_metadata(self.real(path))?.uid())
    }
}

impl FileKind {
    /// A symlink itself counts as a file.
    fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::Directory => FileKind::Directory,
            FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
            _ => FileKind::File,
        }
    }
}

/// The result for a path that may be missing.
pub(crate) fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Whether the error proves that the path does not exist. EACCES, for example, does not.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
