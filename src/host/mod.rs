//! The file system that a policy is compiled for. All reading of it goes through here.
//!
//! The host is a real directory tree with a root. In production the root is `/`; a test builds a
//! tree in a temporary directory and compiles for that, so that no mock is needed and snapshots hold stable
//! absolute paths. An absolute symlink therefore starts at the host's root, not at `/`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use rustix::fs::{Access, FileType, access};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::policy::path::AbsPath;

mod cache;
mod dir;
pub mod git;
pub mod identity;
pub mod journal;
mod lists;
pub mod mountinfo;
pub(crate) mod nofollow;
mod read;
pub mod session;
pub(crate) mod state_dir;
pub(crate) mod unix_sockets;

use cache::{Folder, Found, Seen};
pub use dir::{DirEntry, Directory};
pub use lists::Lists;
use lists::MOST_LISTED;
pub use read::MOUNT_TABLE;
pub(crate) use read::is_for_now;

/// Linux gives up after 40 links (`MAXSYMLINKS`); so do we, and call it a loop.
const MAX_LINKS: usize = 40;

#[derive(Clone)]
pub struct Host {
    root: PathBuf,
    /// Who wants to know which directories are read.
    listener: Option<Arc<Listener>>,
    /// What is at a path, for who compiles: see [`Host::remembering`].
    seen: Option<Arc<Seen>>,
    /// See [`Host::listing`].
    lists: Option<Arc<Lists>>,
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

/// Where a path leads after all symlinks are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub path: AbsPath,
    /// The symlinks that were followed, in order.
    pub links: Vec<AbsPath>,
    /// `None`: nothing is there (yet).
    pub kind: Option<FileKind>,
    /// How many names a file has; means something only for what is no directory.
    pub names: u64,
}

impl Host {
    pub fn system() -> Self {
        Self::at("/")
    }

    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), listener: None, seen: None, lists: None }
    }

    /// This host with a cache: each path is looked at once, so that all rules get one answer. A
    /// cache that is there already is shared. Only for callers that change nothing.
    #[must_use]
    pub fn with_cache(&self) -> Self {
        Self { seen: Some(self.seen.clone().unwrap_or_default()), ..self.clone() }
    }

    /// The same host, with the same memory, for who will ask for many directories in each of these folders: they are read at once. Who
    /// walks through one later need not read it again: see [`Host::lists`].
    pub fn listing(&self, folders: &[PathBuf]) -> Self {
        let list = |folder: &PathBuf| Directory::read(self.open(folder).ok()?, MOST_LISTED).ok()?;
        Self { lists: Some(Arc::new(Lists::read(folders, list))), ..self.clone() }
    }

    /// The folders that were listed.
    pub fn lists(&self) -> Option<&Lists> {
        self.lists.as_deref()
    }

    /// The same host; each directory that is read is named to `listener`, by any thread.
    #[must_use]
    pub fn telling(self, listener: Arc<Listener>) -> Self {
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

    /// Follows `path` component by component. A component that does not exist, or lies below something that is
    /// no directory, leaves the rest as spelled.
    pub fn resolve(&self, path: &Path) -> io::Result<Resolved> {
        self.resolve_from(&AbsPath::root(), path)
    }

    /// The same for a path that may be relative to `directory`, which is one, and which no symlink leads to.
    pub fn resolve_from(&self, directory: &AbsPath, path: &Path) -> io::Result<Resolved> {
        match self.in_known_folder(directory, path)? {
            Some(resolved) => Ok(resolved),
            None => self.follow(directory, path, &mut PathBuf::new()),
        }
    }

    /// The folder on the way to `path` that we may not search, if one is.
    pub fn refused_by(&self, path: &Path) -> Option<AbsPath> {
        let mut at = PathBuf::new();
        let unknowing = Self { seen: None, lists: None, ..self.clone() };
        let error = unknowing.follow(&AbsPath::root(), path, &mut at).err()?;
        let is_refused = error.raw_os_error() == Some(Errno::ACCESS.raw_os_error());
        is_refused.then(|| at.parent().map(AbsPath::from_normal))?
    }

    /// `at` is where it has come to, also when it fails.
    fn follow(&self, directory: &AbsPath, path: &Path, at: &mut PathBuf) -> io::Result<Resolved> {
        let start = if path.is_absolute() { Path::new("/") } else { directory.as_path() };
        let mut from;
        (*at, from) = self.nearest_known(path).unwrap_or_else(|| (start.to_path_buf(), 0));
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
                // What `..` returns to was reached before, but may itself be missing: `missing/../x`.
                kind = self.found(at)?.map(|found| FileKind::of(found.file_type));
                continue;
            }
            let above = kind;
            if above == Some(FileKind::Directory) {
                self.remember_folder(at);
            }
            at.push(name);
            kind = None;
            if above != Some(FileKind::Directory) {
                continue;
            }
            let Some(found) = self.found(at)? else { continue };
            if !found.file_type.is_symlink() {
                kind = Some(FileKind::of(found.file_type));
                names = found.names;
                continue;
            }
            if links.len() == MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = fs::read_link(self.reached(at))?.into_os_string();
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
        // What is not there has no other names; `names` is still that of a folder on the way.
        let names = if kind.is_some() { names } else { 1 };
        Ok(Resolved { path: AbsPath::from_normal(std::mem::take(at)), links, kind, names })
    }

    /// The same for what lies in a folder that an earlier path led to, and is no symlink.
    fn in_known_folder(&self, directory: &AbsPath, path: &Path) -> io::Result<Option<Resolved>> {
        let Some(seen) = &self.seen else { return Ok(None) };
        let whole = if path.is_absolute() { Cow::Borrowed(path) } else { Cow::Owned(directory.as_path().join(path)) };
        let (folder, name) = cache::split(&whole);
        if matches!(name.as_bytes(), b"" | b"." | b"..") {
            return Ok(None);
        }
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Only what has normal form is among them, so `whole` has it, too.
        let Some(known) = seen.folders.get_mut(folder).filter(|folder| folder.is_reached) else { return Ok(None) };
        let found = self.found_in(known, &whole, name)?;
        if found.is_some_and(|found| found.file_type.is_symlink()) {
            return Ok(None);
        }
        let (kind, names) = found.map(|found| (FileKind::of(found.file_type), found.names)).unzip();
        let path = AbsPath::from_normal(&whole);
        Ok(Some(Resolved { path, links: Vec::new(), kind, names: names.unwrap_or(1) }))
    }

    /// The deepest folder on the way to an absolute path that an earlier one led to, and where the rest begins.
    fn nearest_known(&self, path: &Path) -> Option<(PathBuf, usize)> {
        let bytes = path.as_os_str().as_bytes();
        let seen = self.seen.as_ref().filter(|_| path.is_absolute())?.lock().unwrap_or_else(PoisonError::into_inner);
        // Only what has normal form is among them, so that much of the path has it, too.
        let is_known = |folder: &OsStr| seen.folders.get(folder).is_some_and(|folder| folder.is_reached);
        let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let end = ends.take_while(|end| *end > 0).find(|end| is_known(OsStr::from_bytes(&bytes[..*end])))?;
        let mut folder = PathBuf::with_capacity(bytes.len());
        folder.push(OsStr::from_bytes(&bytes[..end]));
        Some((folder, end + 1))
    }

    fn remember_folder(&self, folder: &Path) {
        if let Some(seen) = &self.seen {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match seen.folders.get_mut(folder.as_os_str()) {
                Some(known) => known.is_reached = true,
                None => {
                    seen.folders.insert(folder.into(), Folder::reached());
                }
            }
        }
    }

    /// What is at `path`, which holds no symlinks; `None` when nothing is.
    pub fn kind(&self, path: &AbsPath) -> io::Result<Option<FileKind>> {
        self.found(path.as_path()).map(|found| found.map(|found| FileKind::of(found.file_type)))
    }

    /// The answer that was given before, or else a new one. An error is no answer.
    fn found(&self, path: &Path) -> io::Result<Option<Found>> {
        let Some(seen) = &self.seen else { return self.look(path) };
        let (folder, name) = cache::split(path);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.folders.get_mut(folder) {
            return self.found_in(known, path, name);
        }
        let mut unknown = Folder::default();
        let found = self.found_in(&mut unknown, path, name)?;
        seen.folders.insert(folder.to_owned(), unknown);
        Ok(found)
    }

    /// The same for `name` in `folder`, which is at `path`.
    fn found_in(&self, folder: &mut Folder, path: &Path, name: &OsStr) -> io::Result<Option<Found>> {
        if let Some(known) = folder.known(name) {
            return Ok(known);
        }
        let found = self.look(path)?;
        folder.note(name, found);
        // What can be listed need not be open to questions; where one was answered, all would be.
        if let Some(lists) = &self.lists
            && found.is_some()
            && folder.entries.is_none()
        {
            folder.entries = lists.of(cache::split(path).0).cloned();
        }
        Ok(found)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Found>> {
        match fs::symlink_metadata(self.reached(path)) {
            Ok(found) => Ok(Some(Found {
                file_type: FileType::from_raw_mode(found.mode()),
                names: if found.is_dir() { 1 } else { found.nlink() },
                is_empty: found.is_file() && found.len() == 0,
            })),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// How many names (hard links) the file at `path` has, which holds no symlinks; `None` when nothing is there.
    pub fn names(&self, path: &AbsPath) -> io::Result<Option<u64>> {
        self.found(path.as_path()).map(|found| found.map(|found| found.names))
    }

    /// Whether a socket is at `path`, which holds no symlinks.
    pub fn is_socket(&self, path: &AbsPath) -> io::Result<bool> {
        self.found(path.as_path()).map(|found| found.is_some_and(|found| found.file_type.is_socket()))
    }

    /// Whether an empty regular file is at `path`, which holds no symlinks.
    pub fn is_empty_file(&self, path: &AbsPath) -> bool {
        self.found(path.as_path()).is_ok_and(|found| found.is_some_and(|found| found.is_empty))
    }

    /// Whether anything is at `path`, a dangling symlink included.
    pub fn exists(&self, path: &AbsPath) -> io::Result<bool> {
        Ok(self.kind(path)?.is_some())
    }

    /// Whether this process may create something at `path`: whether it can write the nearest ancestor that exists.
    pub fn can_create(&self, path: &AbsPath) -> bool {
        self.nearest_folder(path).is_some_and(|folder| self.is_writable(folder))
    }

    /// Whether the command, which runs with our rights, could create something at `path`: what is closed and ours it can open.
    pub fn could_be_created(&self, path: &AbsPath) -> bool {
        // Not where the file system is read-only, say: only a mode can be changed.
        let is_closed = |folder: &Path| access(&*self.reached(folder), Access::WRITE_OK) == Err(Errno::ACCESS);
        let can_open = |folder: &Path| is_closed(folder) && self.is_ours(folder);
        self.nearest_folder(path).is_some_and(|folder| self.is_writable(folder) || can_open(folder))
    }

    /// The nearest ancestor that exists, if it is a directory.
    fn nearest_folder<'p>(&self, path: &'p AbsPath) -> Option<&'p Path> {
        let existing = path.as_path().ancestors().skip(1).find_map(|at| Some((at, self.found(at).ok()??)));
        existing.filter(|(_, found)| found.file_type.is_dir()).map(|(at, _)| at)
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

    /// The owner of what is at `path`, of a symlink itself.
    pub fn owner(&self, path: &AbsPath) -> io::Result<u32> {
        Ok(fs::symlink_metadata(self.real(path))?.uid())
    }
}

impl FileKind {
    /// Of what is no symlink; a symlink itself counts as a file.
    fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::Directory => FileKind::Directory,
            FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
            _ => FileKind::File,
        }
    }
}

/// Absent is only what cannot be there. Every other error (EACCES above all) is not an answer.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
