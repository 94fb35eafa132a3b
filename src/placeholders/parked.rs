//! Placeholders that were taken away, kept to stand in the same place at the next run.
//!
//! A file system takes longer to make and to free a directory than to move one: on ext4 100 to 250 µs against 10. So they are moved
//! into a folder of our own, and out again. Nothing depends on it: where it cannot be done, they are made and removed.
//!
//! Each returns only to the folder and the name that it had. Who still has it open (a command of another sandbox, in which
//! nothing covered it) can write into it wherever it stands, and there he could before.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, StatxFlags, fchmod, flistxattr, flock,
    fstat, ftruncate, lgetxattr_query, openat, renameat_with, statx, unlinkat,
};
use rustix::io::{Errno, pread};

use crate::compile::placeholder::Item;
use crate::host::Host;
use crate::host::identity::Identity;
use crate::host::journal::Record;
use crate::host::nofollow::{Folders, names, open_parent};
use crate::host::state_dir::Kind;
use crate::policy::path::AbsPath;

use super::leaving::Leaving;

const PARKED: Kind = Kind { folder: "parked", max_bytes: 0 };

/// As many as a handful of projects need. More would be litter of projects that are gone.
pub(crate) const MOST: usize = 128;

/// The file that was a journal and becomes one again. It stays among the journals: to the folder of placeholders `..` leads out of one that a command holds open.
const SPARE: &str = "spare";

/// A FIFO would block a plain open for ever.
pub(crate) const TO_LOOK: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The mode of what is kept: nobody but root can make or find anything in a directory, or open a file to write. It can be listed, or read; and
/// without the right to write its owner could not move a directory to another folder, because its `..` changes.
pub(crate) fn closed(content: Option<&[u8]>) -> Mode {
    if content.is_none() { Mode::RUSR | Mode::WUSR } else { Mode::RUSR }
}

/// The folder. Whoever uses it holds the lock of the journals.
pub(crate) struct Parked {
    pub folder: OwnedFd,
    /// Nothing moves from one mount to another, not even within a file system.
    mount: u64,
    device: u64,
    user: (u32, u32),
    /// What a new file would not get of its mode.
    umask: Mode,
    /// What the names of things begin with that have stood in a folder; `None` where nothing is moved.
    prefixes: Vec<(AbsPath, Option<String>)>,
    /// How many more may be taken in.
    room: usize,
}

/// Something that can be used.
pub(crate) struct Found {
    name: OsString,
    open: OwnedFd,
    pub identity: Identity,
}

impl Parked {
    /// `None` where there is none, where it cannot be believed, and for root: modes do not stop him.
    pub(crate) fn open(host: &Host, state: &AbsPath, umask: Mode) -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        (!is_root).then(|| Self::read(host, state, umask).ok()).flatten()
    }

    /// The same, made if it is missing.
    pub(crate) fn make(host: &Host, state: &AbsPath) -> Option<Self> {
        let open = || Self::open(host, state, Mode::empty());
        let make = || DirBuilder::new().mode(0o700).create(host.real(&state.child(PARKED.folder)));
        let is_root = rustix::process::geteuid().is_root();
        open().or_else(|| if is_root || make().is_err() { None } else { open() })
    }

    pub(crate) fn read(host: &Host, state: &AbsPath, umask: Mode) -> io::Result<Self> {
        let folder = PARKED.open_folder(host, state)?;
        let device = Identity::of_stat(&fstat(&folder)?).device;
        let mount = statx(&folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        if mount.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return Err(Errno::NOSYS.into());
        }
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Ok(Self { folder, mount: mount.stx_mnt_id, device, user, umask, prefixes: Vec::new(), room: 0 })
    }

    /// What may stand for `item`. What can never is removed.
    pub(crate) fn find(&mut self, host: &Host, item: &Item, folders: &mut Folders) -> Option<Found> {
        let name = self.name(host, &item.path, folders)?;
        let found = match openat(&self.folder, &name, TO_LOOK, Mode::empty()) {
            Ok(open) => self.fit(&open, item.content).ok()?.map(|identity| (open, identity)),
            // A symlink, a socket, or closed by somebody.
            Err(Errno::LOOP | Errno::NXIO | Errno::ACCESS) => None,
            Err(_) => return None,
        };
        if found.is_none() {
            self.discard(&name);
        }
        found.map(|(open, identity)| Found { name, open, identity })
    }

    /// Moves it to where it is needed, unless something is there.
    pub(crate) fn put(&self, found: &Found, host: &Host, item: &Item, folders: &mut Folders) -> io::Result<()> {
        let (folder, name) = folders.parent(host, &item.path)?;
        fchmod(&found.open, self.opened(item.content))?;
        let moved = renameat_with(&self.folder, &found.name, folder, name, RenameFlags::NOREPLACE);
        match moved {
            Ok(()) => {}
            // If that fails, it is not as it should be, and goes at the next attempt.
            Err(Errno::EXIST) => drop(fchmod(&found.open, closed(item.content))),
            // What is made in its stead may be kept better.
            Err(_) => self.discard(&found.name),
        }
        Ok(moved?)
    }

    /// Opens what a run had closed that was killed before it could move it.
    pub(crate) fn open_again(&self, host: &Host, record: &Record) -> io::Result<()> {
        let path = record.path().ok_or(io::ErrorKind::InvalidInput)?;
        let (folder, name) = open_parent(host, &path)?;
        let open = openat(&folder, name, TO_LOOK, Mode::empty())?;
        let found = fstat(&open)?;
        if Identity::of_stat(&found) == record.identity && self.is_ours(&found, closed(record.content())) {
            fchmod(&open, self.opened(record.content()))?;
        }
        Ok(())
    }

    /// Takes in what `record` names, instead of removing it. `false` where nothing has changed.
    pub(crate) fn take_in(&mut self, host: &Host, path: &AbsPath, record: &Record, folders: &mut Folders) -> bool {
        let Some(name) = self.name(host, path, folders).filter(|_| self.room > 0) else { return false };
        let Ok((folder, at)) = folders.parent(host, path) else { return false };
        let Ok(leaving) = Leaving::begin(self, folder, at, name, record) else { return false };
        let is_in = leaving.through(|| {});
        self.room -= usize::from(is_in);
        is_in
    }

    /// Removes what is there until so many more have room, or nothing is left to remove. Until this is called nothing is taken in.
    pub(crate) fn make_room(&mut self, count: usize) {
        let Ok(before) = names(&self.folder, usize::MAX) else { return };
        let too_many = (before.len() + count).saturating_sub(MOST);
        before.iter().take(too_many).for_each(|name| self.discard(name));
        let left =
            if too_many == 0 { before.len() } else { names(&self.folder, usize::MAX).map_or(MOST, |left| left.len()) };
        self.room = MOST.saturating_sub(left);
    }

    /// A locked and empty file, which becomes the journal at `path`.
    pub(crate) fn journal(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let spare = path.with_file_name(SPARE);
        let file = openat(CWD, &spare, flags, Mode::empty())?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let found = fstat(&file)?;
        if !self.is_ours(&found, Mode::RUSR | Mode::WUSR) || !is_plain(&found) {
            let _ = unlinkat(CWD, &spare, AtFlags::empty());
            return Err(io::ErrorKind::InvalidData.into());
        }
        if found.st_size > 0 {
            // Its run was killed before it could.
            ftruncate(&file, 0)?;
        }
        renameat_with(CWD, &spare, CWD, path, RenameFlags::NOREPLACE)?;
        Ok(File::from(file))
    }

    /// Keeps the journal of a run that has ended. What it said does not stay.
    pub(crate) fn keep_journal(&self, path: &Path, file: &File) -> io::Result<()> {
        renameat_with(CWD, path, CWD, path.with_file_name(SPARE), RenameFlags::NOREPLACE)?;
        Ok(ftruncate(file, 0)?)
    }

    /// What it is called here, if it can be moved here and back.
    pub(crate) fn name(&mut self, host: &Host, path: &AbsPath, folders: &mut Folders) -> Option<OsString> {
        let around = path.parent()?;
        let at = match self.prefixes.iter().position(|(folder, _)| *folder == around) {
            Some(at) => at,
            None => {
                let (folder, _) = folders.parent(host, path).ok()?;
                let prefix = self.prefix(host, &around, folder);
                self.prefixes.push((around, prefix));
                self.prefixes.len() - 1
            }
        };
        let mut name = OsString::from(self.prefixes[at].1.as_ref()?);
        name.push(path.file_name()?);
        Some(name)
    }

    fn prefix(&self, host: &Host, around: &AbsPath, folder: BorrowedFd) -> Option<String> {
        let mount = statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
        let found = fstat(folder).ok()?;
        let Identity { device, inode } = Identity::of_stat(&found);
        // What is made there gets a group or rights from the folder, and what is moved does not.
        let inherits = Mode::from_raw_mode(found.st_mode).contains(Mode::SGID)
            || !matches!(
                lgetxattr_query(host.real(around), "system.posix_acl_default"),
                Err(Errno::NODATA | Errno::NOTSUP)
            );
        let can_move = mount.stx_mnt_id == self.mount && device == self.device && !inherits;
        can_move.then(|| format!("{device:x}-{inode:x}-"))
    }

    /// What it is, if it is closed, ours, and nobody has put anything into it or given it another name.
    pub(crate) fn fit(&self, open: &OwnedFd, content: Option<&[u8]>) -> io::Result<Option<Identity>> {
        let found = fstat(open)?;
        let is_fit = self.is_ours(&found, closed(content)) && is_unfilled(open, &found, content)?;
        Ok(is_fit.then(|| Identity::of_stat(&found)))
    }

    /// The mode that a new one would have.
    fn opened(&self, content: Option<&[u8]>) -> Mode {
        Mode::from_raw_mode(if content.is_none() { 0o755 } else { 0o644 }).difference(self.umask)
    }

    fn is_ours(&self, found: &Stat, mode: Mode) -> bool {
        let Identity { device, .. } = Identity::of_stat(found);
        let is_at_home = device == self.device && (found.st_uid, found.st_gid) == self.user;
        is_at_home && Mode::from_raw_mode(found.st_mode) == mode
    }

    /// A directory that somebody has put something into stays, for him to find.
    fn discard(&self, name: &OsStr) {
        if unlinkat(&self.folder, name, AtFlags::REMOVEDIR) == Err(Errno::NOTDIR) {
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

/// A regular file with one name.
fn is_plain(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode).is_file() && found.st_nlink == 1
}

/// Whether it is an empty directory, or a file with this content and one name.
pub(crate) fn is_unfilled(open: &OwnedFd, found: &Stat, content: Option<&[u8]>) -> io::Result<bool> {
    let Some(content) = content else {
        return Ok(FileType::from_raw_mode(found.st_mode).is_dir() && names(open, 1)?.is_empty());
    };
    if !is_plain(found) || usize::try_from(found.st_size) != Ok(content.len()) {
        return Ok(false);
    }
    let mut read = vec![0; content.len()];
    Ok(content.is_empty() || (pread(open, &mut read[..], 0)? == content.len() && read == content))
}

/// Whether somebody has set rights beyond the mode, or noted something. What the system notes of every file does not count.
pub(crate) fn is_labelled(open: &OwnedFd) -> io::Result<bool> {
    let mut list = [0; 1024];
    match flistxattr(open, &mut list[..]) {
        Ok(length) => {
            let mut names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
            Ok(names.any(|name| !name.starts_with(b"security.")))
        }
        Err(Errno::NOTSUP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
