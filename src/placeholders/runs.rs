//! Writes and locks the journals of runs.
//!
//! A run holds a lock on its own journal until it ends, however it ends. A process holds the lock
//! of the folder while it changes journals or placeholders, so no other process sees a half-made
//! state.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, fstat};
use rustix::io::Errno;

use crate::host::journal::{self, Journal, JournalLine, MAX_BYTES, PlaceholderRecord, RUNS, SUFFIX};
use crate::host::open_dir::read_regular;
use crate::host::{Host, Identity, OpenDir, is_transient};
use crate::policy::path::AbsPath;

pub(crate) const LOCK: &str = "lock";

/// The mode of the lock file. A command inside can see the folder. If the command could read the
/// lock file, it could lock the file, or take a lease on it, and make every run wait.
const LOCK_MODE: Mode = Mode::WUSR;

/// The lock of the folder, until the value is dropped.
pub(crate) struct Locked {
    _lock: File,
}

/// Waits for the lock of the folder. Creates the folder if it is missing.
pub(crate) fn lock(host: &Host, state: &AbsPath) -> io::Result<Locked> {
    loop {
        // Another run may have removed the folder, so it is opened again.
        let folder = OpenDir::create_all(host, &state.child(RUNS))?;
        let lock = match folder.open_file(LOCK, OFlags::WRONLY) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => folder.make_file(LOCK, OFlags::WRONLY, LOCK_MODE),
            lock => lock,
        };
        let lock = match lock {
            // Another run has made or removed the lock file since.
            Err(e) if matches!(e.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => continue,
            lock => lock?,
        };
        if Mode::from_raw_mode(fstat(&lock)?.st_mode) != LOCK_MODE {
            fchmod(&lock, LOCK_MODE)?;
        }
        flock(&lock, FlockOperation::LockExclusive)?;
        if is_at(&folder, &lock)? {
            return Ok(Locked { _lock: lock });
        }
    }
}

/// Whether `lock` still has its name. It may have been removed between opening and locking.
fn is_at(folder: &OpenDir, lock: &File) -> io::Result<bool> {
    let found = folder.stat(LOCK)?.map(|found| Identity::of_stat(&found));
    Ok(found == Some(Identity::of_stat(&fstat(lock)?)))
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
        let folder = OpenDir::open(host, &state.child(RUNS))?;
        for number in 0..u32::MAX {
            let tag = format!("{process}-{now:x}-{number}");
            let name = format!("{tag}{SUFFIX}");
            let path = state.child(RUNS).child(&name);
            let file = match folder.make_file(&name, OFlags::RDWR, Mode::RUSR | Mode::WUSR) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { path, tag, file }),
                // A command inside can see the folder, and can lock a file that it can read.
                Err(Errno::WOULDBLOCK) => folder.remove_file(&name)?,
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
            remove(host, &self.path);
        } else {
            // If this fails, the next sweep finds out which placeholders are gone.
            let _ = self.write(&JournalLine::Made(unfinished));
        }
    }
}

fn remove(host: &Host, journal: &AbsPath) {
    let _ = OpenDir::parent_of(host, journal).and_then(|(folder, name)| folder.remove_file(name));
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

    /// Removes the journal. Nothing that it names is left on the host.
    pub(crate) fn forget(&self, host: &Host) {
        remove(host, &self.path);
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
/// Fails if a journal cannot be read at the moment. A caller that treated such a journal as absent
/// would remove placeholders that another run relies on.
pub(crate) fn others(host: &Host, state: &AbsPath, own: Option<&AbsPath>) -> io::Result<Vec<OtherRun>> {
    let journals = journal::journals(host, state)?.into_iter().filter(|path| Some(path) != own);
    journals.filter_map(|path| other(host, path).transpose()).collect()
}

/// `None` for a journal that another run has removed. A journal of another user counts as one of a
/// live run.
fn other(host: &Host, path: AbsPath) -> io::Result<Option<OtherRun>> {
    let (folder, name) = OpenDir::parent_of(host, &path)?;
    let read = || -> io::Result<_> {
        let file = folder.open_file(name, OFlags::RDWR)?;
        let is_alive = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
        Ok((read_regular(&file, MAX_BYTES)?, is_alive, Some(file)))
    };
    let (text, is_alive, file) = match read() {
        Ok(read) => read,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if is_transient(&e) => return Err(e),
        Err(_) => (folder.read(name, MAX_BYTES).ok().flatten().unwrap_or_default(), true, None),
    };
    Ok(Some(OtherRun { path, journal: Journal::parse(&text), is_alive, file }))
}
