//! The journals of runs, as they are written and locked.
//!
//! A run holds a lock on its own journal until it ends, however it ends. Whatever changes journals or placeholders holds
//! the one lock of the folder meanwhile, so nobody meets a half-made state; it is held for as long as a few directories
//! take to make.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock};
use rustix::io::Errno;

use crate::host::identity::Identity;
use crate::host::journal::{self, Journal, Line, RUNS, Record, SUFFIX};
use crate::host::{Host, is_transient};
use crate::policy::path::AbsPath;

use super::parked::Parked;

pub(crate) const LOCK: &str = "lock";

/// The lock of the folder, until it is dropped.
pub(crate) struct Locked {
    _lock: File,
}

/// Waits for the lock. The folder is made if it is missing.
pub(crate) fn lock(host: &Host, state: &AbsPath) -> io::Result<Locked> {
    let folder = state.child(RUNS);
    let path = folder.child(LOCK);
    loop {
        let lock = match lock_options().open(host.real(&path)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(host.real(&folder))?;
                lock_options().open(host.real(&path))?
            }
            lock => lock?,
        };
        if lock.metadata()?.mode() & 0o7777 != LOCK_MODE {
            fchmod(&lock, Mode::from_raw_mode(LOCK_MODE))?;
        }
        flock(&lock, FlockOperation::LockExclusive)?;
        if is_at(host, &path, &lock)? {
            return Ok(Locked { _lock: lock });
        }
    }
}

/// A command inside sees this folder, read-only. Who can open a file to read can lock it, or have a lease on it, and let everybody wait.
const LOCK_MODE: u32 = 0o200;

fn lock_options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.write(true).create(true).mode(LOCK_MODE).custom_flags(flags.bits().cast_signed());
    options
}

fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).write(true).mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

/// Whether `file` is still what the path names: it may have been removed between opening and locking.
fn is_at(host: &Host, path: &AbsPath, file: &File) -> io::Result<bool> {
    match fs::symlink_metadata(host.real(path)) {
        Ok(found) => Ok(Identity::of(&found) == Identity::of(&file.metadata()?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// The journal of this run.
pub(crate) struct Own {
    pub path: AbsPath,
    /// No other run has it: process ids come back, in a container soon.
    pub tag: String,
    file: File,
}

impl Own {
    /// A new one, locked. The lock of the folder must be held.
    pub(crate) fn create(host: &Host, state: &AbsPath, parked: Option<&Parked>) -> io::Result<Self> {
        let process = std::process::id();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        for number in 0..u32::MAX {
            let tag = format!("{process}-{now:x}-{number}");
            let path = state.child(RUNS).child(format!("{tag}{SUFFIX}"));
            let kept = parked.and_then(|parked| parked.journal(&host.real(&path)).ok());
            if let Some(file) = kept {
                return Ok(Self { path, tag, file });
            }
            match options().create_new(true).open(host.real(&path)) {
                Ok(file) => {
                    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                        Ok(()) => return Ok(Self { path, tag, file }),
                        // A command sees the folder, and who can open a file to read can lock it.
                        Err(Errno::WOULDBLOCK) => fs::remove_file(host.real(&path))?,
                        Err(e) => return Err(e.into()),
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }

    /// The end of this run: the journal goes, unless something still stands. Then it counts as that of a killed run.
    pub(crate) fn close(mut self, host: &Host, unfinished: Vec<Record>, parked: Option<&Parked>) {
        if unfinished.is_empty() {
            let path = host.real(&self.path);
            let is_kept = parked.is_some_and(|parked| parked.keep_journal(&path, &self.file).is_ok());
            if !is_kept {
                let _ = fs::remove_file(path);
            }
        } else {
            // If it cannot be noted that some of it is gone, the next sweep finds that out.
            let _ = self.write(&Line::Made(unfinished));
        }
    }
}

/// The journal of another run.
pub(crate) struct Other {
    pub path: AbsPath,
    pub journal: Journal,
    pub is_live: bool,
    /// Holds the lock, if the run has ended.
    file: Option<File>,
}

impl Other {
    /// Notes that only this still stands.
    pub(crate) fn note(&self, unfinished: Vec<Record>) {
        if let (Some(mut file), Ok(mut text)) = (self.file.as_ref(), serde_json::to_vec(&Line::Made(unfinished))) {
            // Its last line may be torn.
            text.insert(0, b'\n');
            text.push(b'\n');
            let _ = file.write_all(&text);
        }
    }
}

/// All journals but `own`. The lock of the folder must be held.
///
/// An error where one cannot be read now: whoever took it for absent would remove what another run relies on.
pub(crate) fn others(host: &Host, state: &AbsPath, own: Option<&AbsPath>) -> io::Result<Vec<Other>> {
    let names = journal::read_names(host, state)?.into_iter().filter(|name| Some(name) != own);
    names.filter_map(|name| other(host, name).transpose()).collect()
}

/// `None` for one that has gone meanwhile. One that belongs to somebody else counts as alive, whatever it holds.
fn other(host: &Host, path: AbsPath) -> io::Result<Option<Other>> {
    match read_other(host, path.clone()) {
        Ok(other) => Ok(Some(other)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if is_transient(&e) => Err(e),
        Err(_) => {
            let text = fs::read(host.real(&path)).unwrap_or_default();
            Ok(Some(Other { journal: Journal::parse(&text), path, is_live: true, file: None }))
        }
    }
}

fn read_other(host: &Host, path: AbsPath) -> io::Result<Other> {
    let mut file = options().open(host.real(&path))?;
    let is_live = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(Other { path, journal: Journal::parse(&text), is_live, file: Some(file) })
}
