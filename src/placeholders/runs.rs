//! Writing and locking the journals of runs.
//!
//! A run holds a lock on its own journal until it ends, however it ends. A process that changes
//! journals or placeholders holds the lock of the folder meanwhile, so no other process sees a
//! half-made state.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock};
use rustix::io::Errno;

use crate::host::identity::Identity;
use crate::host::journal::{self, Journal, JournalLine, PlaceholderRecord, RUNS, SUFFIX};
use crate::host::{Host, is_transient};
use crate::policy::path::AbsPath;

pub(crate) const LOCK: &str = "lock";

/// A command inside can see the folder. With the right to read the lock file it could lock it, or
/// take a lease on it, and make every run wait.
const LOCK_MODE: u32 = 0o200;

/// The lock of the folder, until the value is dropped.
pub(crate) struct Locked {
    _lock: File,
}

/// Waits for the lock of the folder, which is made if it is missing.
pub(crate) fn lock(host: &Host, state: &AbsPath) -> io::Result<Locked> {
    let folder = state.child(RUNS);
    let path = folder.child(LOCK);
    let open = || write_options(LOCK_MODE).create(true).open(host.real(&path));
    loop {
        let lock = match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(host.real(&folder))?;
                open()?
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

fn write_options(mode: u32) -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.write(true).mode(mode).custom_flags(flags.bits().cast_signed());
    options
}

/// Whether `path` still names `file`, which may have been removed between opening and locking.
fn is_at(host: &Host, path: &AbsPath, file: &File) -> io::Result<bool> {
    match fs::symlink_metadata(host.real(path)) {
        Ok(found) => Ok(Identity::of(&found) == Identity::of(&file.metadata()?)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// The journal of this run.
pub(crate) struct RunJournal {
    pub path: AbsPath,
    /// Unlike a process id, which the kernel uses again, the tag belongs to this run alone.
    pub tag: String,
    file: File,
}

impl RunJournal {
    /// Makes and locks a journal. The caller holds the lock of the folder.
    pub(crate) fn create(host: &Host, state: &AbsPath) -> io::Result<Self> {
        let process = std::process::id();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        for number in 0..u32::MAX {
            let tag = format!("{process}-{now:x}-{number}");
            let path = state.child(RUNS).child(format!("{tag}{SUFFIX}"));
            let file = match write_options(0o600).read(true).create_new(true).open(host.real(&path)) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { path, tag, file }),
                // A command inside can see the folder, and can lock a file that it can read.
                Err(Errno::WOULDBLOCK) => fs::remove_file(host.real(&path))?,
                Err(e) => return Err(e.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn write(&self, line: &JournalLine) -> io::Result<()> {
        append(&self.file, line)
    }

    /// Removes the journal at the end of the run. If some placeholders could not be removed, it
    /// stays, and counts as the journal of a killed run.
    pub(crate) fn close(self, host: &Host, unfinished: Vec<PlaceholderRecord>) {
        if unfinished.is_empty() {
            let _ = fs::remove_file(host.real(&self.path));
        } else {
            // If this fails, the next sweep finds out which placeholders are gone.
            let _ = self.write(&JournalLine::Made(unfinished));
        }
    }
}

/// Writes `line` after the present end, which may be a torn line.
fn append(mut journal: &File, line: &JournalLine) -> io::Result<()> {
    journal.write_all(format!("\n{}\n", serde_json::to_string(line)?).as_bytes())
}

/// The journal of another run.
pub(crate) struct OtherRun {
    pub path: AbsPath,
    pub journal: Journal,
    pub is_alive: bool,
    /// Holds the lock of the journal, if the run has ended.
    file: Option<File>,
}

impl OtherRun {
    /// Notes that only `unfinished` is left.
    pub(crate) fn note(&self, unfinished: Vec<PlaceholderRecord>) {
        if let Some(file) = &self.file {
            let _ = append(file, &JournalLine::Made(unfinished));
        }
    }
}

/// Records by their path. A command can cause thousands, by planting worktrees and modules.
pub(crate) struct RecordsByPath<'r>(HashMap<&'r AbsPath, Vec<&'r PlaceholderRecord>>);

impl<'r> RecordsByPath<'r> {
    pub(crate) fn new(records: impl Iterator<Item = &'r PlaceholderRecord>) -> Self {
        let mut by_path: HashMap<&AbsPath, Vec<&PlaceholderRecord>> = HashMap::new();
        records.for_each(|record| by_path.entry(&record.path).or_default().push(record));
        Self(by_path)
    }

    /// The records of `path`, in their order.
    pub(crate) fn at(&self, path: &AbsPath) -> &[&'r PlaceholderRecord] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }
}

/// All journals except `own`. The caller holds the lock of the folder.
///
/// An error if one cannot be read now. A caller that took it for absent would remove placeholders
/// that another run relies on.
pub(crate) fn others(host: &Host, state: &AbsPath, own: Option<&AbsPath>) -> io::Result<Vec<OtherRun>> {
    let journals = journal::journals(host, state)?.into_iter().filter(|path| Some(path) != own);
    journals.filter_map(|path| other(host, path).transpose()).collect()
}

/// `None` for a journal that has gone meanwhile. A journal of another user counts as one of a live
/// run.
fn other(host: &Host, path: AbsPath) -> io::Result<Option<OtherRun>> {
    let read = || -> io::Result<_> {
        let mut file = write_options(0).read(true).open(host.real(&path))?;
        let is_alive = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok((text, is_alive, Some(file)))
    };
    let (text, is_alive, file) = match read() {
        Ok(read) => read,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if is_transient(&e) => return Err(e),
        Err(_) => (fs::read(host.real(&path)).unwrap_or_default(), true, None),
    };
    Ok(Some(OtherRun { path, journal: Journal::parse(&text), is_alive, file }))
}
