//! The file system that a policy is compiled for. All reading of it goes through here.
//!
//! The host is a real directory tree with a root. In production the root is `/`; a test builds a
//! tree in a temporary directory and compiles for that, so that no mock is needed and snapshots hold stable
//! absolute paths. An absolute symlink therefore starts at the host's root, not at `/`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, OFlags, access};

use crate::path::AbsPath;

/// Linux gives up after 40 links (`MAXSYMLINKS`); so do we, and call it a loop.
const MAX_LINKS: usize = 40;

#[derive(Clone)]
pub struct Host {
    root: PathBuf,
    /// Who wants to know which directories are read.
    listener: Option<Arc<Listener>>,
    /// What is at a path, for who compiles: see [`Host::remembering`].
    seen: Option<Arc<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    Directory,
    /// A regular file, socket or FIFO: anything that one file mount can cover.
    File,
    Device,
}

#[derive(Default)]
struct Seen {
    /// What was found at each path, `None` being nothing.
    found: Mutex<HashMap<AbsPath, Option<fs::Metadata>>>,
    /// Directories that a path led to, and no symlink does: what lies in one need not be followed from the root.
    folders: Mutex<HashSet<AbsPath>>,
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

/// One name in a directory, as `readdir` tells it: no call per file.
#[derive(Debug)]
pub struct DirEntry {
    pub name: OsString,
    /// Of the entry itself; a symlink counts as a file.
    pub kind: FileKind,
    pub is_symlink: bool,
    pub is_socket: bool,
}

impl Host {
    pub fn system() -> Self {
        Self::at("/")
    }

    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), listener: None, seen: None }
    }

    /// The same host, at one moment: what is at a path is asked once, and every later question has that answer. Some hundred
    /// rules share a few folders, and are to agree about them. Only for who changes nothing.
    pub fn remembering(&self) -> Self {
        Self { seen: Some(Arc::default()), ..self.clone() }
    }

    /// The same host; each directory that is read is named to `listener`, by any thread.
    #[must_use]
    pub fn telling(self, listener: Arc<Listener>) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// The path under which this process reaches `path`.
    pub fn real(&self, path: &AbsPath) -> PathBuf {
        self.reached(path).into_owned()
    }

    fn reached<'p>(&self, path: &'p AbsPath) -> Cow<'p, Path> {
        match path.relative_to(&AbsPath::root()) {
            Some(relative) if self.root.as_os_str() != "/" => Cow::Owned(self.root.join(relative)),
            _ => Cow::Borrowed(path.as_path()),
        }
    }

    /// Follows `path` component by component. A component that does not exist, or lies below something that is
    /// no directory, leaves the rest as spelled.
    pub fn resolve(&self, path: &Path) -> io::Result<Resolved> {
        self.resolve_from(&AbsPath::root(), path)
    }

    /// The same for a path that may be relative to `directory`, which is one, and which no symlink leads to.
    pub fn resolve_from(&self, directory: &AbsPath, path: &Path) -> io::Result<Resolved> {
        let start = || if path.is_absolute() { AbsPath::root() } else { directory.clone() };
        let known = self.in_known_folder(directory, path);
        let is_known = known.is_some();
        let (mut at, mut ahead) = known.unwrap_or_else(|| (start(), components_reversed(path)));
        let mut links = Vec::new();
        let mut kind = Some(FileKind::Directory);
        let mut names = 1;
        while let Some(name) = ahead.pop() {
            if ahead.is_empty() && !is_known && kind == Some(FileKind::Directory) {
                self.remember_folder(&at);
            }
            if name == ".." {
                at = at.parent().unwrap_or(at);
                // What `..` returns to was reached before, but may itself be missing: `missing/../x`.
                kind = self.kind(&at)?;
                continue;
            }
            let next = at.child(&name);
            if kind != Some(FileKind::Directory) {
                at = next;
                kind = None;
                continue;
            }
            match self.metadata(&next)? {
                Some(found) if found.file_type().is_symlink() => {
                    if links.len() == MAX_LINKS {
                        return Err(rustix::io::Errno::LOOP.into());
                    }
                    let target = fs::read_link(self.reached(&next))?;
                    links.push(next);
                    if target.is_absolute() {
                        at = AbsPath::root();
                        kind = Some(FileKind::Directory);
                    }
                    ahead.extend(components_reversed(&target));
                }
                Some(found) => {
                    kind = Some(kind_of(found.file_type()));
                    names = found.nlink();
                    at = next;
                }
                None => {
                    kind = None;
                    at = next;
                }
            }
        }
        // What is not there has no other names; `names` is still that of a folder on the way.
        let names = if kind.is_some() { names } else { 1 };
        Ok(Resolved { path: at, links, kind, names })
    }

    /// The folder that `path` names something in, if an earlier path led there, and the name.
    fn in_known_folder(&self, directory: &AbsPath, path: &Path) -> Option<(AbsPath, Vec<OsString>)> {
        let folders = lock(&self.seen.as_ref()?.folders);
        let (folder, name) = (path.parent()?, path.file_name()?);
        let folder = folders.get(directory.as_path().join(folder).as_path())?;
        Some((folder.clone(), vec![name.to_owned()]))
    }

    fn remember_folder(&self, folder: &AbsPath) {
        if let Some(seen) = &self.seen {
            lock(&seen.folders).insert(folder.clone());
        }
    }

    /// What is at `path`, which holds no symlinks; `None` when nothing is.
    pub fn kind(&self, path: &AbsPath) -> io::Result<Option<FileKind>> {
        self.metadata(path).map(|found| found.map(|found| kind_of(found.file_type())))
    }

    fn metadata(&self, path: &AbsPath) -> io::Result<Option<fs::Metadata>> {
        let seen = || self.seen.as_ref().map(|seen| lock(&seen.found));
        if let Some(known) = seen().and_then(|seen| seen.get(path).cloned()) {
            return Ok(known);
        }
        let found = match fs::symlink_metadata(self.reached(path)) {
            Ok(found) => Some(found),
            Err(e) if is_absent(&e) => None,
            Err(e) => return Err(e),
        };
        if let Some(mut seen) = seen() {
            seen.insert(path.clone(), found.clone());
        }
        Ok(found)
    }

    /// What the kernel tells in a file below `/proc`; `None` where it has none. Nobody else can write there, so links are
    /// followed as they are.
    pub fn kernel_file(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.real(&AbsPath::root().join(path))) {
            Ok(content) => Ok(Some(content)),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// How many names (hard links) the file at `path` has, which holds no symlinks; `None` when nothing is there.
    pub fn names(&self, path: &AbsPath) -> io::Result<Option<u64>> {
        self.metadata(path).map(|found| found.map(|found| found.nlink()))
    }

    /// Whether a socket is at `path`, which holds no symlinks.
    pub fn is_socket(&self, path: &AbsPath) -> io::Result<bool> {
        self.metadata(path).map(|found| found.is_some_and(|found| found.file_type().is_socket()))
    }

    /// Whether an empty regular file is at `path`, which holds no symlinks.
    pub fn is_empty_file(&self, path: &AbsPath) -> bool {
        self.metadata(path).is_ok_and(|found| found.is_some_and(|found| found.is_file() && found.len() == 0))
    }

    /// Whether anything is at `path`, a dangling symlink included.
    pub fn exists(&self, path: &AbsPath) -> io::Result<bool> {
        Ok(self.kind(path)?.is_some())
    }

    /// The content of a regular file of at most `limit` bytes, after symlinks; `None` when there is none.
    ///
    /// For files that the sandboxed command may have written: a FIFO would block a plain read for ever.
    pub fn read_regular(&self, path: &AbsPath, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let resolved = self.resolve(path.as_path())?;
        if resolved.kind.is_none() {
            return Ok(None);
        }
        let unfit = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(self.real(&resolved.path))?;
        if !file.metadata()?.is_file() {
            return unfit("not a regular file");
        }
        let mut content = Vec::new();
        let taken = file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
        if taken as u64 > limit { unfit("too large") } else { Ok(Some(content)) }
    }

    /// Whether this process may create something at `path`: whether it can write the nearest ancestor that exists.
    pub fn can_create(&self, path: &AbsPath) -> bool {
        let existing = path.ancestors().skip(1).find(|ancestor| matches!(self.kind(ancestor), Ok(Some(_))));
        let is_folder = |at: &AbsPath| matches!(self.kind(at), Ok(Some(FileKind::Directory)));
        existing.is_some_and(|at| is_folder(&at) && access(self.real(&at), Access::WRITE_OK).is_ok())
    }

    /// The owner of what is at `path`, of a symlink itself.
    pub fn owner(&self, path: &AbsPath) -> io::Result<u32> {
        Ok(fs::symlink_metadata(self.real(path))?.uid())
    }

    /// The names in a directory, in no particular order.
    pub fn read_dir(&self, path: &AbsPath) -> io::Result<Vec<DirEntry>> {
        if let Some(listener) = &self.listener {
            listener(path);
        }
        fs::read_dir(self.real(path))?
            .map(|entry| {
                let entry = entry?;
                let file_type = entry.file_type()?;
                let (is_symlink, is_socket) = (file_type.is_symlink(), file_type.is_socket());
                Ok(DirEntry { name: entry.file_name(), kind: kind_of(file_type), is_symlink, is_socket })
            })
            .collect()
    }
}

/// What was seen stays so, whoever panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind_of(file_type: fs::FileType) -> FileKind {
    if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_char_device() || file_type.is_block_device() {
        FileKind::Device
    } else {
        FileKind::File
    }
}

/// Absent is only what cannot be there. Every other error (EACCES above all) is not an answer.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn components_reversed(path: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some(OsStr::new("..").to_os_string()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect();
    names.reverse();
    names
}
