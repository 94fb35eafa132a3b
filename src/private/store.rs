//! The copies of private files in the state folder, one folder for each project:
//!
//! - `PROJECT/copies/FILE/NAME` is the copy. The command sees `copies` and can do anything there.
//! - `PROJECT/FILE/` has the host's file as it was, and our notes. The command cannot see it.
//! - `held/FILE` is locked by each run that has a mount over the host's file.
//!
//! PROJECT is the SHA-256 of the project root, FILE a part of that of the host's path.
#![expect(clippy::disallowed_methods, reason = "no command writes our notes; copies go by descriptors")]

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags, fchmod, flock, fstat, mkdirat, openat, openat2, renameat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::compile::layers::Layers;
use crate::host::Host;
use crate::host::state_dir::StateFiles;
use crate::policy::AbsPath;
use crate::policy::private::{MAX_BYTES, copy_id};
use crate::sys::ablate::{self, Mitigation};

use super::formats::Format;

const KIND: StateFiles = StateFiles { folder: Layers::PRIVATE, max_bytes: MAX_BYTES };
const HELD: &str = "held";
const ASIDE: &str = "aside";
const BASE: &str = "base";
const ABOUT: &str = "about.json";
/// The next copy, while it is written.
const NEW: &str = "new";
const OWNER: Mode = Mode::RUSR.union(Mode::WUSR);
/// Names a directory without any right on it.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The private files of one project.
pub(super) struct Store {
    folder: PathBuf,
    /// The folder that the command writes.
    copies: OwnedFd,
    /// Until the value is dropped, no other run changes this project's copies.
    _lock: File,
}

/// Our notes on one private file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct About {
    pub path: AbsPath,
    pub project: AbsPath,
    pub format: Format,
    /// Changes that were reported, each as the SHA-256 of key and values.
    #[serde(default)]
    pub reported: Vec<String>,
}

/// What is found in the place of a copy.
pub(super) enum Copy {
    Missing,
    Text(Vec<u8>),
    /// A file that is not read, for this reason.
    Unfit(&'static str),
}

impl Store {
    /// Opens the folder of a project, makes it if it is missing, and waits for its lock.
    pub(super) fn open(host: &Host, layers: &Layers) -> io::Result<Self> {
        let folder = host.real(&layers.private_folder());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        KIND.open_folder(host, &layers.state)?;
        Self::at(folder)
    }

    /// Opens the folders of all projects. Without any there are none.
    pub(super) fn all(host: &Host, state: &AbsPath) -> io::Result<Vec<Self>> {
        match KIND.open_folder(host, state) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut folders = Vec::new();
        for entry in fs::read_dir(host.real(&state.child(KIND.folder)))? {
            let folder = entry?.path();
            if folder.join("lock").exists() {
                folders.push(folder);
            }
        }
        folders.sort();
        folders.into_iter().map(Self::at).collect()
    }

    fn at(folder: PathBuf) -> io::Result<Self> {
        let lock = open_lock(&folder.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let copies = folder.join("copies");
        DirBuilder::new().recursive(true).mode(0o700).create(&copies)?;
        // The command may have changed the mode of the folder that it sees.
        fs::set_permissions(&copies, fs::Permissions::from_mode(0o700))?;
        let copies = openat(CWD, &copies, DIRECTORY, Mode::empty())?;
        Ok(Self { folder, copies, _lock: lock })
    }

    /// A folder of ours that no command sees.
    pub(super) fn own_folder(&self) -> &PathBuf {
        &self.folder
    }

    /// The host's file as it was when the copy last took its changes over.
    pub(super) fn base(&self, path: &AbsPath) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.folder.join(copy_id(path)).join(BASE)) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) fn about(&self, path: &AbsPath) -> Option<About> {
        serde_json::from_slice(&fs::read(self.folder.join(copy_id(path)).join(ABOUT)).ok()?).ok()
    }

    /// Our notes on all private files, sorted by path.
    pub(super) fn all_about(&self) -> io::Result<Vec<About>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let text = fs::read(entry?.path().join(ABOUT));
            all.extend(text.ok().and_then(|text| serde_json::from_slice::<About>(&text).ok()));
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// Drops a copy and our notes on it. What the command left in its place is moved out of its
    /// sight first.
    pub(super) fn forget(&self, path: &AbsPath) -> io::Result<()> {
        let gone = |removed: io::Result<()>| match removed {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        // Without the notes, the next run starts with the host's file whatever is left here.
        gone(fs::remove_dir_all(self.folder.join(copy_id(path))))?;
        gone(self.set_aside(path).map(|_| ()))?;
        self.place_aside(path).map(|_| ())
    }

    /// Notes the host's file, once the copy has its changes.
    pub(super) fn note(&self, about: &About, base: &[u8]) -> io::Result<()> {
        let folder = self.folder.join(copy_id(&about.path));
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        replace(&folder, ABOUT, &serde_json::to_vec(about)?)?;
        replace(&folder, BASE, base)
    }

    /// Reads a copy. The command may have put anything in its place.
    pub(super) fn read(&self, path: &AbsPath) -> io::Result<Copy> {
        let folder = match self.folder_of_copy(path) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(Copy::Missing),
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Copy::Unfit("its folder is no folder")),
            Err(Errno::ACCESS) => return Ok(Copy::Unfit("its folder cannot be entered")),
            Err(e) => return Err(e.into()),
        };
        let is_checked = !ablate::is_off(Mitigation::PrivateCopyChecks);
        let nofollow = if is_checked { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | nofollow;
        let file = match openat(&folder, name(path), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Copy::Missing),
            Err(Errno::LOOP) => return Ok(Copy::Unfit("it is a symlink")),
            Err(Errno::ACCESS) => return Ok(Copy::Unfit("it cannot be read")),
            Err(Errno::NXIO | Errno::NODEV) => return Ok(Copy::Unfit("it is no regular file")),
            Err(e) => return Err(e.into()),
        };
        let found = fstat(&file)?;
        if is_checked {
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                return Ok(Copy::Unfit("it is no regular file"));
            }
            if found.st_nlink != 1 || found.st_uid != geteuid().as_raw() {
                return Ok(Copy::Unfit("it has another name"));
            }
        }
        let mut text = Vec::new();
        let limit = if is_checked { MAX_BYTES } else { u64::MAX - 1 };
        file.take(limit + 1).read_to_end(&mut text)?;
        Ok(if text.len() as u64 > limit { Copy::Unfit("it is larger than 1 MiB") } else { Copy::Text(text) })
    }

    /// Replaces a copy by a file that is written where no command sees it.
    pub(super) fn write(&self, path: &AbsPath, text: &[u8]) -> io::Result<()> {
        let folder = self.make_folder_of_copy(path)?;
        let new = self.folder.join(NEW);
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        fchmod(&file, OWNER)?;
        Ok(renameat(CWD, &new, &folder, name(path))?)
    }

    /// Moves a copy that cannot be used to a place of ours, and returns the place.
    pub(super) fn set_aside(&self, path: &AbsPath) -> io::Result<PathBuf> {
        let place = self.place_aside(path)?;
        let moved = match self.folder_of_copy(path) {
            Ok(folder) => {
                give_owner_rights(&folder)?;
                // A directory that its owner cannot write cannot be moved.
                if let Ok(copy) = openat(&folder, name(path), DIRECTORY, Mode::empty()) {
                    give_owner_rights(&copy)?;
                }
                renameat(&folder, name(path), CWD, &place)
            }
            // Something else than a folder is there.
            Err(_) => renameat(&self.copies, copy_id(path), CWD, &place),
        };
        moved?;
        Ok(place)
    }

    /// A free place for a copy that is set aside. It takes the place of the last one, unless that
    /// is a directory that cannot be removed as it is.
    fn place_aside(&self, path: &AbsPath) -> io::Result<PathBuf> {
        let aside = self.folder.join(ASIDE);
        DirBuilder::new().recursive(true).mode(0o700).create(&aside)?;
        let first = aside.join(copy_id(path));
        let _ = fs::remove_file(&first).or_else(|_| fs::remove_dir_all(&first));
        let more = (1..).map(|number: u32| aside.join(format!("{}-{number}", copy_id(path))));
        let mut places = std::iter::once(first).chain(more);
        let is_free = |place: &PathBuf| fs::symlink_metadata(place).is_err();
        places.find(is_free).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }

    fn folder_of_copy(&self, path: &AbsPath) -> Result<OwnedFd, Errno> {
        openat2(
            &self.copies,
            copy_id(path),
            DIRECTORY,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
    }

    /// Opens the folder of a copy with the rights that we need, and makes it if it is missing.
    fn make_folder_of_copy(&self, path: &AbsPath) -> io::Result<OwnedFd> {
        let folder = match self.folder_of_copy(path) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => {
                mkdirat(&self.copies, copy_id(path), Mode::RWXU)?;
                self.folder_of_copy(path)?
            }
            Err(e) => return Err(e.into()),
        };
        give_owner_rights(&folder)?;
        Ok(folder)
    }
}

/// Changes the mode of an open directory. A descriptor that only names it takes no `fchmod`; this
/// follows no link of a command.
fn give_owner_rights(directory: &OwnedFd) -> io::Result<()> {
    let by_descriptor = format!("/proc/self/fd/{}", directory.as_raw_fd());
    fs::set_permissions(by_descriptor, fs::Permissions::from_mode(0o700))
}

fn name(path: &AbsPath) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn open_lock(path: &std::path::Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn replace(folder: &std::path::Path, name: &str, content: &[u8]) -> io::Result<()> {
    let new = folder.join(format!(".{name}.{}", std::process::id()));
    fs::write(&new, content).and_then(|()| fs::rename(&new, folder.join(name)))
}

/// While it exists, a run has a mount over the host's file. A file that is replaced loses the
/// mounts on it, so no other run replaces it meanwhile.
pub(super) struct HeldFile {
    pub path: AbsPath,
    lock: File,
}

impl HeldFile {
    /// Waits while another run replaces the file.
    pub(super) fn hold(host: &Host, state: &AbsPath, path: &AbsPath) -> io::Result<Self> {
        let folder = host.real(&state.child(Layers::PRIVATE).child(HELD));
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let lock = open_lock(&folder.join(copy_id(path)))?;
        flock(&lock, FlockOperation::LockShared)?;
        Ok(Self { path: path.clone(), lock })
    }

    /// Whether no other run has a mount over the file. None can start until this value is dropped.
    pub(super) fn is_alone(&self) -> bool {
        flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok() || ablate::is_off(Mitigation::PrivateHeld)
    }
}
