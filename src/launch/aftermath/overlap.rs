//! Runs of one project at the same time. The command of a first run could plant a file. A second
//! run that starts later treats this file as known. Its command could hide the file while the
//! first run ends, and put it back afterwards. So each run records in the state folder the facts
//! that it knew at its start. At its end, a run compares them with the facts of the runs that were
//! alive at its start and have ended since. It forgets each fact that one of these did not know. A
//! run that is still alive makes its own comparison later.
//!
//! `NAME.facts` has the hashes of all facts. `NAME.run` is locked as long as the run lasts, and
//! `NAME.open` until the run begins to examine the host at its end.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat};
use sha2::{Digest, Sha256};

use crate::compile::Compiled;
use crate::host::journal::RUNS;
use crate::host::{Host, OpenDir};
use crate::policy::path::AbsPath;
use crate::policy::sha256;
use crate::sys::ablate::{self, Mitigation};

const FACTS: &str = ".facts";
const RUN: &str = ".run";
const OPEN: &str = ".open";

/// The largest file of facts. It is enough for half a million facts.
const MOST_BYTES: u64 = 16 << 20;

/// The mode of the locked files. A command in the sandbox can see the folder. If it could read a
/// file there, it could lock it.
const LOCK_MODE: Mode = Mode::WUSR;

/// The hash of a kind, a path and a detail.
type Fact = [u8; 32];

fn fact(kind: &str, path: &AbsPath, detail: &[u8]) -> Fact {
    // No kind and no path holds a NUL.
    let parts = [kind.as_bytes(), b"\0", path.bytes(), b"\0", detail];
    parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize().into()
}

/// The operation on the facts that a run knew at its start.
pub(super) enum Facts<'f> {
    /// Records them for other runs.
    Note(&'f mut HashSet<Fact>),
    /// Keeps each fact that all these runs knew as well.
    Keep(&'f [HashSet<Fact>]),
}

impl Facts<'_> {
    /// Whether the fact stays known.
    pub(super) fn keep(&mut self, kind: &str, path: &AbsPath, detail: impl AsRef<[u8]>) -> bool {
        self.keep_or(kind, path, detail.as_ref(), None)
    }

    /// As [`Facts::keep`], but it is enough if a run knew the fact `or` instead.
    pub(super) fn keep_or(&mut self, kind: &str, path: &AbsPath, detail: &[u8], or: Option<(&str, &[u8])>) -> bool {
        let this = fact(kind, path, detail);
        match self {
            Facts::Note(all) => {
                all.insert(this);
                true
            }
            Facts::Keep(runs) => {
                let other = or.map(|(kind, detail)| fact(kind, path, detail));
                runs.iter().all(|run| run.contains(&this) || other.is_some_and(|other| run.contains(&other)))
            }
        }
    }
}

/// The other runs of the project that were alive at the start of this run, and the note that this
/// run wrote.
#[derive(Default)]
pub(super) struct Overlap {
    /// The facts of each run, and its file `NAME.open`, which it unlocks when it begins to examine
    /// the host at its end.
    others: Vec<(HashSet<Fact>, File)>,
    note: Option<Note>,
}

struct Note {
    folder: OpenDir,
    name: String,
    open: File,
    _run: File,
}

impl Overlap {
    /// Finds the other runs, and records the facts that this run knows. Must be called after the
    /// host was examined. If the examination saw a change of another command, the run of that
    /// command has already written its note, so this function finds it.
    pub(super) fn start(host: &Host, compiled: &Compiled, mut known: HashSet<Fact>) -> Self {
        if ablate::is_off(Mitigation::Overlap) {
            return Self::default();
        }
        let Ok(folder) = OpenDir::open(host, &compiled.layers.state.child(RUNS)) else { return Self::default() };
        let project = sha256(compiled.layers.project.root.bytes());
        let others: Vec<_> = living(&folder, &project).unwrap_or_default();
        // Only facts that all these runs knew are recorded, so later runs compare with the oldest.
        known.retain(|fact| others.iter().all(|(facts, _)| facts.contains(fact)));
        let note = Note::make(folder, &project, &known).ok();
        Self { others, note }
    }

    /// Returns the facts of the runs that have ended or have begun to examine the host at their
    /// end. From now on, other runs count this run as one of those.
    pub(super) fn end(&mut self) -> Vec<HashSet<Fact>> {
        // Closing the file would not be enough: a forked process may keep it open, and the lock
        // with it.
        let _ = self.note.as_ref().map(|note| flock(&note.open, FlockOperation::Unlock));
        let has_ended = |open: &File| flock(open, FlockOperation::NonBlockingLockShared).is_ok();
        let others = std::mem::take(&mut self.others).into_iter();
        others.filter(|(_, open)| has_ended(open)).map(|(facts, _)| facts).collect()
    }
}

impl Note {
    fn make(folder: OpenDir, project: &str, known: &HashSet<Fact>) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let name = format!("{project}-{}-{now:x}", std::process::id());
        match Self::write(&folder, &name, known) {
            Ok((open, run)) => Ok(Self { folder, name, open, _run: run }),
            Err(e) => {
                remove(&folder, &name);
                Err(e)
            }
        }
    }

    /// Writes the three files, and returns the two locked ones.
    fn write(folder: &OpenDir, name: &str, known: &HashSet<Fact>) -> io::Result<(File, File)> {
        // This file is made first: it shows other runs the leftovers of a killed run. It gets its
        // final name only after it is locked.
        let run = locked(folder, &format!(".{name}{RUN}"))?;
        folder.rename(format!(".{name}{RUN}"), folder, format!("{name}{RUN}"))?;
        let facts: Vec<u8> = known.iter().flatten().copied().collect();
        let mode = Mode::RUSR | Mode::WUSR;
        folder.make_file(format!("{name}{FACTS}"), OFlags::WRONLY, mode)?.write_all(&facts)?;
        // This file is made last: other runs ignore a note without it.
        let open = locked(folder, &format!("{name}{OPEN}"))?;
        Ok((open, run))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        remove(&self.folder, &self.name);
    }
}

/// Makes a file and locks it. Until it is locked, another run may remove it as the leftover of a
/// killed run. In that case this function tries again.
fn locked(folder: &OpenDir, name: &str) -> io::Result<File> {
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let file = folder.make_file(name, OFlags::WRONLY, LOCK_MODE)?;
        flock(&file, FlockOperation::LockExclusive)?;
        if fstat(&file)?.st_nlink == 1 {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn remove(folder: &OpenDir, name: &str) {
    for suffix in [RUN, OPEN, FACTS] {
        let _ = folder.remove_file(format!("{name}{suffix}"));
    }
}

/// The runs of a project that are alive. Removes the notes of killed runs.
fn living(folder: &OpenDir, project: &str) -> io::Result<Vec<(HashSet<Fact>, File)>> {
    let mut living = Vec::new();
    for name in folder.names()? {
        let file = name.to_string_lossy();
        let name = file.strip_prefix('.').unwrap_or(&file);
        let Some(name) = name.strip_suffix(RUN).filter(|name| name.starts_with(project)) else { continue };
        let Ok(run) = folder.open_file(&*file, OFlags::WRONLY) else { continue };
        if flock(&run, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = folder.remove_file(&*file);
            remove(folder, name);
            continue;
        }
        // A run without this file has not started its command yet, or is already at its end.
        let Ok(open) = folder.open_file(format!("{name}{OPEN}"), OFlags::WRONLY) else { continue };
        // If its facts cannot be read, the run counts as one that knew nothing.
        let facts = folder.read(format!("{name}{FACTS}"), MOST_BYTES).ok().flatten().unwrap_or_default();
        let facts = facts.chunks_exact(32).filter_map(|fact| fact.first_chunk().copied()).collect();
        living.push((facts, open));
    }
    Ok(living)
}

/// Forgets the doubts about each folder that do not stay known.
pub(super) fn keep_doubts(kind: &str, known: &mut BTreeMap<AbsPath, Vec<String>>, facts: &mut Facts<'_>) {
    for (folder, doubts) in known {
        doubts.retain(|doubt| facts.keep(kind, folder, doubt));
    }
}
