//! The copies of private files in the state folder, one folder for each project:
//!
//! - `PROJECT/copies/FILE/NAME` is the copy. The command sees `copies` and can do anything there.
//! - `PROJECT/FILE/` has the host's file as it was, our notes, and `run`, which each run that uses
//!   the copy locks. The command cannot see this folder.
//! - `PROJECT/lock` is locked while a process of ours changes the copies.
//! - `held/FILE` is locked by each run that has a mount over the host's file.
//!
//! PROJECT is the SHA-256 of the project root, FILE a part of the SHA-256 of the host's path.
#![expect(clippy::disallowed_methods, reason = "no command writes our notes; copies are reached by descriptors")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::compile::layers::Layers;
use crate::host::state_dir::StateFiles;
use crate::host::{Host, OpenDir, if_there, is_absent};
use crate::policy::private::{MAX_BYTES, copy_id};
use crate::policy::{AbsPath, sha256};
use crate::sys::ablate::{self, Mitigation};

use super::formats::Syntax;

const KIND: StateFiles = StateFiles { folder: Layers::PRIVATE, max_bytes: MAX_BYTES };
const HELD: &str = "held";
/// The lock for all files. A run takes it if it has mounts over more files than it can lock one by
/// one.
const ALL: &str = "all";
const COPIES: &str = "copies";
const ASIDE: &str = "aside";
/// The levels of folders in which large files are cut.
const MOST_LEVELS: usize = 100;
const BASE: &str = "base";
const ABOUT: &str = "about.json";
const LOCK: &str = "lock";
const RUN: &str = "run";
/// The next copy, while it is written.
const NEW: &str = "new";
/// A text that git changes, and git's lock for it.
const FOR_GIT: &str = "git";
const LOCK_OF_GIT: &str = "git.lock";
const OWNER: Mode = Mode::RUSR.union(Mode::WUSR);
/// The largest notes: a hash for each key that was reported.
const MAX_ABOUT: u64 = 4 << 20;
/// The most files that a run locks one by one.
const MOST_HELD: usize = 128;

/// The private files of one project.
pub(super) struct Store {
    folder: OpenDir,
    /// The path of `folder`, for programs.
    path: PathBuf,
    /// The folder that the command writes.
    copies: OpenDir,
    /// Until the value is dropped, no other run changes this project's copies.
    _lock: File,
}

/// Our notes on one private file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct About {
    pub path: AbsPath,
    pub project: AbsPath,
    #[serde(rename = "format")]
    pub syntax: Syntax,
    /// Changes that were reported, each as the SHA-256 of key and values.
    #[serde(default)]
    pub reported: Vec<String>,
}

/// The state of a copy.
pub(super) enum CopyState {
    Missing,
    Text(Vec<u8>),
    /// A file that is not read, for this reason.
    Unfit(&'static str),
}

impl Store {
    /// Opens the folder of a project, makes it if it is missing, and waits for its lock.
    pub(super) fn open(host: &Host, layers: &Layers) -> io::Result<Self> {
        let path = layers.private_folder();
        let folder = child_or_made(&KIND.create_folder(host, &layers.state)?, name(&path))?;
        Self::at(folder, host.real(&path))
    }

    /// Opens the folders of all projects. Empty if there are no notes.
    pub(super) fn all(host: &Host, state: &AbsPath) -> io::Result<Vec<Self>> {
        let Some(private) = if_there(KIND.open_folder(host, state))? else { return Ok(Vec::new()) };
        let mut names = private.names()?;
        names.sort();
        let mut stores = Vec::new();
        for name in names {
            let folder = match private.child(&name) {
                Err(e) if e.kind() == io::ErrorKind::NotADirectory => continue,
                folder => folder?,
            };
            if folder.stat(LOCK)?.is_some() {
                stores.push(Self::at(folder, host.real(&state.child(KIND.folder).child(name)))?);
            }
        }
        Ok(stores)
    }

    fn at(folder: OpenDir, path: PathBuf) -> io::Result<Self> {
        let lock = open_lock(&folder, LOCK)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let copies = child_or_made(&folder, COPIES)?;
        // The command may have changed the mode of the folder that it sees.
        if Mode::from_raw_mode(copies.status()?.st_mode) != Mode::RWXU {
            copies.set_mode(Mode::RWXU)?;
        }
        // A killed run may have left them.
        for leftover in [NEW, FOR_GIT, LOCK_OF_GIT] {
            gone(folder.remove_file(leftover))?;
        }
        Ok(Self { folder, path, copies, _lock: lock })
    }

    /// A folder of ours that no command sees.
    pub(super) fn own_folder(&self) -> &PathBuf {
        &self.path
    }

    /// The file that git changes for us.
    pub(super) fn file_for_git(&self) -> PathBuf {
        self.path.join(FOR_GIT)
    }

    /// Locks a copy for a run. Also returns whether no other run uses it.
    pub(super) fn use_copy(&self, path: &AbsPath) -> io::Result<(UsedCopy, bool)> {
        let lock = open_lock(&child_or_made(&self.folder, copy_id(path))?, RUN)?;
        let used = UsedCopy { path: path.clone(), lock };
        let is_alone = used.is_alone();
        flock(&used.lock, FlockOperation::LockShared)?;
        Ok((used, is_alone))
    }

    /// The host's file as it was when its changes were last applied to the copy.
    pub(super) fn base(&self, path: &AbsPath) -> io::Result<Option<Vec<u8>>> {
        self.notes(path)?.map_or(Ok(None), |notes| notes.read(BASE, MAX_BYTES))
    }

    /// Our notes on a private file. Notes that cannot be parsed count as missing.
    pub(super) fn about(&self, path: &AbsPath) -> io::Result<Option<About>> {
        let text = self.notes(path)?.map_or(Ok(None), |notes| notes.read(ABOUT, MAX_ABOUT))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    fn notes(&self, path: &AbsPath) -> io::Result<Option<OpenDir>> {
        if_there(self.folder.child(copy_id(path)))
    }

    /// The folder `name` of our notes; `None` for a file, or if it has gone. Any other error is
    /// passed on, because a run may be using the copy.
    fn noted(&self, name: &OsStr) -> io::Result<Option<OpenDir>> {
        match self.folder.child(name) {
            Err(e) if is_absent(&e) => Ok(None),
            folder => folder.map(Some),
        }
    }

    /// Our notes on all private files, or the name of a folder whose notes cannot be read.
    pub(super) fn all_about(&self) -> io::Result<Vec<Result<About, OsString>>> {
        let mut all = Vec::new();
        for name in self.folder.names()? {
            let Some(folder) = self.noted(&name)? else { continue };
            if folder.stat(ABOUT)?.is_some() {
                let text = folder.read(ABOUT, MAX_ABOUT).ok().flatten();
                all.push(text.and_then(|text| serde_json::from_slice(&text).ok()).ok_or(name));
            }
        }
        Ok(all)
    }

    /// Drops a copy and our notes on it. The folder of the copy is first moved to a place that the
    /// command cannot see.
    pub(super) fn forget(&self, path: &AbsPath) -> io::Result<()> {
        // Without the notes, the next run starts with the host's file, even if a copy is left here.
        gone(fs::remove_dir_all(self.path.join(copy_id(path))))?;
        gone(self.set_aside(path).map(|_| ()))?;
        self.place_aside(path).map(|_| ())
    }

    /// Whether these are the copies of `project`.
    pub(super) fn is_of(&self, project: &AbsPath) -> bool {
        self.path.file_name().is_some_and(|name| name.as_encoded_bytes() == sha256(project.bytes()).as_bytes())
    }

    /// Whether a run uses one of the copies. No run begins to use one while this `Store` exists.
    pub(super) fn is_used(&self) -> io::Result<bool> {
        for name in self.folder.names()? {
            let Some(folder) = self.noted(&name)? else { continue };
            if folder.stat(RUN)?.is_some() && !is_locked_alone(&open_lock(&folder, RUN)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops all copies and notes. Returns whether there were any. The folder itself stays, with
    /// the lock, for which a run may be waiting.
    pub(super) fn forget_all(&self) -> io::Result<bool> {
        let mut found = !self.copies.names()?.is_empty();
        for name in self.folder.names()?.into_iter().filter(|name| name != LOCK) {
            found |= name != COPIES;
            remove_all(&self.folder, &self.path, &name)?;
        }
        Ok(found)
    }

    /// Notes the host's file as the base. The copy must already have its changes.
    pub(super) fn note(&self, about: &About, base: &[u8]) -> io::Result<()> {
        let folder = child_or_made(&self.folder, copy_id(&about.path))?;
        self.put(&serde_json::to_vec(about)?, &folder, OsStr::new(ABOUT))?;
        self.put(base, &folder, OsStr::new(BASE))
    }

    /// Reads a copy. The command may have put anything in its place.
    pub(super) fn read(&self, path: &AbsPath) -> io::Result<CopyState> {
        let unfit = |why| Ok(CopyState::Unfit(why));
        let folder = match self.copies.child(copy_id(path)) {
            Ok(folder) => folder,
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::NOENT) => return Ok(CopyState::Missing),
                Some(Errno::NOTDIR | Errno::LOOP) => return unfit("the folder of the copy is not a directory"),
                Some(Errno::ACCESS) => return unfit("the folder of the copy cannot be entered"),
                _ => return Err(e),
            },
        };
        let is_checked = !ablate::is_off(Mitigation::PrivateCopyChecks);
        let file = match folder.open_file(name(path), OFlags::RDONLY | OFlags::NOCTTY) {
            Ok(file) => file,
            Err(e) => match Errno::from_io_error(&e) {
                Some(Errno::NOENT) => return Ok(CopyState::Missing),
                Some(Errno::LOOP) if !is_checked => {
                    File::open(self.path.join(COPIES).join(copy_id(path)).join(name(path)))?
                }
                Some(Errno::LOOP) => return unfit("it is a symlink"),
                Some(Errno::ACCESS) => return unfit("it cannot be read"),
                Some(Errno::NXIO | Errno::NODEV) => return unfit("it is no regular file"),
                _ => return Err(e),
            },
        };
        let found = fstat(&file)?;
        if is_checked {
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                return unfit("it is no regular file");
            }
            if found.st_nlink != 1 {
                return unfit("it has another name");
            }
            if found.st_uid != geteuid().as_raw() {
                return unfit("it belongs to another user");
            }
        }
        let mut text = Vec::new();
        let limit = if is_checked { MAX_BYTES } else { u64::MAX - 1 };
        file.take(limit + 1).read_to_end(&mut text)?;
        if text.len() as u64 > limit { unfit("it is larger than 1 MiB") } else { Ok(CopyState::Text(text)) }
    }

    /// Replaces a copy by a file that is written where no command sees it.
    pub(super) fn write(&self, path: &AbsPath, text: &[u8]) -> io::Result<()> {
        let folder = child_or_made(&self.copies, copy_id(path))?;
        folder.set_mode(Mode::RWXU)?;
        self.put(text, &folder, name(path))
    }

    /// Writes a new file, and moves it to `name` in `folder`.
    fn put(&self, text: &[u8], folder: &OpenDir, name: &OsStr) -> io::Result<()> {
        // An earlier attempt may have failed.
        gone(self.folder.remove_file(NEW))?;
        self.folder.make_file(NEW, OFlags::WRONLY, OWNER)?.write_all(text)?;
        self.folder.rename(NEW, folder, name)
    }

    /// Removes the lock file that a killed program, such as git, left beside a copy.
    pub(super) fn remove_lock(&self, path: &AbsPath) {
        let mut lock = name(path).to_owned();
        lock.push(".lock");
        // If it is no file, the command put it there, and it stays.
        let _ = self.copies.child(copy_id(path)).and_then(|folder| folder.remove_file(lock));
    }

    /// Moves the folder of a copy to a folder that no command sees, and cuts large files in it.
    /// Returns its new path, and whether a file was cut.
    pub(super) fn keep_aside(&self, path: &AbsPath) -> io::Result<(PathBuf, io::Result<bool>)> {
        let (aside, place) = self.set_aside(path)?;
        let is_cut = cut_files(&aside, OsStr::new(&place), MOST_LEVELS);
        Ok((self.path.join(ASIDE).join(place), is_cut))
    }

    fn set_aside(&self, path: &AbsPath) -> io::Result<(OpenDir, String)> {
        let place = self.place_aside(path)?;
        // A directory that its owner cannot write cannot be moved.
        if let Ok(folder) = self.copies.child(copy_id(path)) {
            folder.grant(Mode::RWXU)?;
        }
        let aside = self.folder.child(ASIDE)?;
        self.copies.rename(copy_id(path), &aside, &place)?;
        Ok((aside, place))
    }

    /// A free name for a copy that is set aside. Removes the copy that was set aside before, if
    /// possible.
    fn place_aside(&self, path: &AbsPath) -> io::Result<String> {
        let aside = child_or_made(&self.folder, ASIDE)?;
        let _ = remove_all(&aside, &self.path.join(ASIDE), OsStr::new(&copy_id(path)));
        let more = (1..).map(|number: u32| format!("{}-{number}", copy_id(path)));
        for place in std::iter::once(copy_id(path)).chain(more) {
            if aside.stat(&place)?.is_none() {
                return Ok(place);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Removes the entry `name` of `folder`, which is at `path`, even if the owner has no permissions
/// for folders in it.
fn remove_all(folder: &OpenDir, path: &Path, name: &OsStr) -> io::Result<()> {
    let path = path.join(name);
    let remove = || gone(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
    match remove() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            open_all(&folder.child(name)?)?;
            remove()
        }
        removed => removed,
    }
}

/// Cuts the entry `name` of `folder`, and each file below it, to the size that a private file may
/// have. A larger file that has other names, or that cannot be opened, is removed. Returns whether
/// there was one. Another sandbox may hold a folder open and change it meanwhile, so this follows
/// no symlink.
fn cut_files(folder: &OpenDir, name: &OsStr, depth: usize) -> io::Result<bool> {
    let Some(found) = folder.stat(name)? else { return Ok(false) };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory if depth == 0 => Err(Errno::NAMETOOLONG.into()),
        FileType::Directory => {
            let below = folder.child(name)?;
            below.grant(Mode::RWXU)?;
            let cut = below.names()?.into_iter().map(|name| cut_files(&below, &name, depth - 1));
            cut.collect::<io::Result<Vec<bool>>>().map(|cut| cut.contains(&true))
        }
        FileType::RegularFile if u64::try_from(found.st_size).is_ok_and(|size| size > MAX_BYTES) => {
            match folder.open_file(name, OFlags::WRONLY) {
                Ok(file) if file.metadata().is_ok_and(|found| found.is_file() && found.nlink() == 1) => {
                    file.set_len(MAX_BYTES)?;
                }
                Ok(_) | Err(_) => folder.remove_file(name)?,
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Gives the owner all permissions for a folder and the folders below it.
fn open_all(folder: &OpenDir) -> io::Result<()> {
    folder.grant(Mode::RWXU)?;
    for name in folder.names()? {
        match folder.child(&name) {
            Ok(below) => open_all(&below)?,
            Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::NOTDIR | Errno::LOOP)) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Removing a file that is missing is a success.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    if_there(removed).map(|_| ())
}

fn child_or_made(folder: &OpenDir, name: impl AsRef<OsStr>) -> io::Result<OpenDir> {
    if let Some(child) = if_there(folder.child(&name))? {
        return Ok(child);
    }
    match folder.make_dir(&name, Mode::RWXU) {
        // Another run has made it.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => folder.child(name),
        made => made,
    }
}

fn name(path: &AbsPath) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn open_lock(folder: &OpenDir, name: &str) -> io::Result<File> {
    if let Some(lock) = if_there(folder.open_file(name, OFlags::WRONLY))? {
        return Ok(lock);
    }
    match folder.make_file(name, OFlags::WRONLY, OWNER) {
        // Another run has made it.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => folder.open_file(name, OFlags::WRONLY),
        made => made,
    }
}

fn is_locked_alone(lock: &File) -> bool {
    flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok() || ablate::is_off(Mitigation::PrivateHeld)
}

/// While it exists, a run uses the copy of this file.
pub(super) struct UsedCopy {
    pub path: AbsPath,
    lock: File,
}

impl UsedCopy {
    /// Whether no other run uses the copy.
    pub(super) fn is_alone(&self) -> bool {
        is_locked_alone(&self.lock)
    }
}

/// While it exists, a run has mounts over files of the host. A file that is replaced loses the
/// mounts on it, so no other run replaces these files while the value exists.
pub(super) struct HeldFiles {
    files: Vec<(AbsPath, File)>,
    all: File,
}

impl HeldFiles {
    /// Waits while another run replaces one of the files.
    pub(super) fn hold<'p>(
        host: &Host,
        state: &AbsPath,
        paths: impl IntoIterator<Item = &'p AbsPath>,
    ) -> io::Result<Self> {
        let folder = child_or_made(&KIND.create_folder(host, state)?, HELD)?;
        let mut held = Self { files: Vec::new(), all: open_lock(&folder, ALL)? };
        for path in paths {
            if held.files.len() == MOST_HELD {
                flock(&held.all, FlockOperation::LockShared)?;
                break;
            }
            let lock = open_lock(&folder, &copy_id(path))?;
            flock(&lock, FlockOperation::LockShared)?;
            held.files.push((path.clone(), lock));
        }
        Ok(held)
    }

    /// Whether no other run has a mount over the file. No run that mounts over it can start until
    /// this value is dropped.
    pub(super) fn is_alone(&self, path: &AbsPath) -> bool {
        let file = self.files.iter().find(|(held, _)| held == path);
        file.is_some_and(|(_, lock)| is_locked_alone(lock)) && is_locked_alone(&self.all)
    }
}
