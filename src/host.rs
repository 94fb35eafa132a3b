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
use std::mem::{self, MaybeUninit};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RawDir, access, openat, statat};
use rustix::io::Errno;

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

/// What a question was answered by, for each path. By its bytes: `Path` takes components apart to hash them.
#[derive(Default)]
struct Answers {
    /// `None` is nothing.
    found: HashMap<OsString, Option<Found>>,
    is_writable: HashMap<OsString, bool>,
    /// Directories that a path led to, and no symlink does: what lies in one need not be followed from the root.
    folders: HashSet<OsString>,
}

type Seen = Mutex<Answers>;

/// What of a file's metadata anybody asks for: all of it is ten times as much.
#[derive(Clone, Copy)]
struct Found {
    file_type: fs::FileType,
    names: u64,
    is_empty: bool,
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
        let start = || if path.is_absolute() { AbsPath::root() } else { directory.clone() };
        let known = self.in_known_folder(directory, path);
        let is_known = known.is_some();
        let (mut at, mut from) = known.unwrap_or_else(|| (start(), 0));
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
                at = at.parent().unwrap_or(at);
                // What `..` returns to was reached before, but may itself be missing: `missing/../x`.
                kind = self.kind(&at)?;
                continue;
            }
            let above = kind;
            if from >= ahead.len() && !is_known && above == Some(FileKind::Directory) {
                self.remember_folder(&at);
            }
            at.push(name);
            kind = None;
            if above != Some(FileKind::Directory) {
                continue;
            }
            let Some(found) = self.found(at.as_path())? else { continue };
            if !found.file_type.is_symlink() {
                kind = Some(kind_of(found.file_type));
                names = found.names;
                continue;
            }
            if links.len() == MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = fs::read_link(self.reached(at.as_path()))?.into_os_string();
            let parent = if target.as_bytes().starts_with(b"/") { None } else { at.parent() };
            links.push(mem::replace(&mut at, parent.unwrap_or_else(AbsPath::root)));
            kind = Some(FileKind::Directory);
            let rest = ahead.get(from..).unwrap_or_default();
            ahead = Cow::Owned([target.as_bytes(), b"/", rest].concat());
            from = 0;
        }
        // What is not there has no other names; `names` is still that of a folder on the way.
        let names = if kind.is_some() { names } else { 1 };
        Ok(Resolved { path: at, links, kind, names })
    }

    /// The folder that `path` names something in, if an earlier path led there, and where the name begins.
    fn in_known_folder(&self, directory: &AbsPath, path: &Path) -> Option<(AbsPath, usize)> {
        let bytes = path.as_os_str().as_bytes();
        let end = bytes.iter().rposition(|byte| *byte == b'/')?;
        let folder = directory.as_path().join(OsStr::from_bytes(&bytes[..end]));
        let seen = self.seen.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        seen.folders.contains(folder.as_os_str()).then(|| (AbsPath::from_normal(folder), end + 1))
    }

    fn remember_folder(&self, folder: &AbsPath) {
        if let Some(seen) = &self.seen {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.folders.insert(folder.as_os_str().to_owned());
        }
    }

    /// What is at `path`, which holds no symlinks; `None` when nothing is.
    pub fn kind(&self, path: &AbsPath) -> io::Result<Option<FileKind>> {
        self.found(path.as_path()).map(|found| found.map(|found| kind_of(found.file_type)))
    }

    fn found(&self, path: &Path) -> io::Result<Option<Found>> {
        let find = || match fs::symlink_metadata(self.reached(path)) {
            Ok(found) => {
                let is_empty = found.is_file() && found.len() == 0;
                Ok(Some(Found { file_type: found.file_type(), names: found.nlink(), is_empty }))
            }
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        };
        self.once(path, |answers| &mut answers.found, find)
    }

    /// The answer that was given before, or else a new one. An error is no answer.
    fn once<T: Copy>(
        &self,
        path: &Path,
        kind: impl Fn(&mut Answers) -> &mut HashMap<OsString, T>,
        ask: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(seen) = &self.seen else { return ask() };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kind(&mut seen);
        if let Some(answer) = known.get(path.as_os_str()) {
            return Ok(*answer);
        }
        let answer = ask()?;
        known.insert(path.into(), answer);
        Ok(answer)
    }

    /// What the kernel tells in a file below `/proc`; `None` where it has none. Nobody else can write there, so links are
    /// followed as they are.
    pub fn kernel_file(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let read = |mut file: fs::File| {
            // It does not say how long it is, and is put together anew for each call.
            let mut content = Vec::with_capacity(4096);
            file.read_to_end(&mut content).map(|_| Some(content))
        };
        match fs::File::open(self.real(&AbsPath::root().join(path))).and_then(read) {
            Err(e) if is_absent(&e) => Ok(None),
            outcome => outcome,
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
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return unfit("not a regular file");
        }
        // With room to see the end, so that it is read at once.
        let length = metadata.len().min(limit).saturating_add(64);
        let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        let taken = file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
        if taken as u64 > limit { unfit("too large") } else { Ok(Some(content)) }
    }

    /// Whether this process may create something at `path`: whether it can write the nearest ancestor that exists.
    pub fn can_create(&self, path: &AbsPath) -> bool {
        let existing = path.as_path().ancestors().skip(1).find_map(|at| Some((at, self.found(at).ok()??)));
        let is_writable = |at| Ok(access(&*self.reached(at), Access::WRITE_OK).is_ok());
        existing.is_some_and(|(at, found)| {
            let asked = || self.once(at, |answers| &mut answers.is_writable, || is_writable(at));
            found.file_type.is_dir() && asked().unwrap_or(false)
        })
    }

    /// The owner of what is at `path`, of a symlink itself.
    pub fn owner(&self, path: &AbsPath) -> io::Result<u32> {
        Ok(fs::symlink_metadata(self.real(path))?.uid())
    }

    /// The names in a directory, in no particular order.
    pub fn read_dir(&self, path: &AbsPath) -> io::Result<Vec<DirEntry>> {
        self.open_dir(path).map(|directory| directory.entries)
    }

    /// The same, for who has more questions about them.
    pub fn open_dir(&self, path: &AbsPath) -> io::Result<Directory> {
        if let Some(listener) = &self.listener {
            listener(path);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let directory = openat(CWD, &*self.reached(path.as_path()), flags, Mode::empty())?;
        // The library's way to read a directory has a buffer of this size allocated for each, and asks for its metadata.
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 32 * 1024];
        let mut names = RawDir::new(&directory, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = names.next() {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let file_type = match entry.file_type() {
                // Not every file system tells.
                FileType::Unknown => match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    // It alone has gone. As an error, this would be that of a directory which is not there.
                    Err(Errno::NOENT) => continue,
                    Err(e) => return Err(e.into()),
                },
                file_type => file_type,
            };
            let kind = match file_type {
                FileType::Directory => FileKind::Directory,
                FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
                _ => FileKind::File,
            };
            let (is_symlink, is_socket) = (file_type.is_symlink(), file_type.is_socket());
            entries.push(DirEntry { name: OsStr::from_bytes(name.to_bytes()).to_owned(), kind, is_symlink, is_socket });
        }
        Ok(Directory { handle: directory, entries })
    }
}

/// A directory that is open, and what was in it.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    pub entries: Vec<DirEntry>,
}

impl Directory {
    /// How many names (hard links) the file `name` has; one when it has gone.
    // The type of this field differs between architectures.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    pub fn names(&self, name: &OsStr) -> io::Result<u64> {
        match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(found.st_nlink as u64),
            Err(Errno::NOENT) => Ok(1),
            Err(e) => Err(e.into()),
        }
    }
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
