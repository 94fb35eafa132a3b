//! Runs of one project at the same time. A command of the first run could plant something. A second
//! run that starts then knows it from its start: its command could hide it while the first run
//! ends, and put it back afterwards. So each run notes in the state folder the facts that it knew
//! at its start. At its end, a run keeps of its own facts only those that other runs knew, too: the
//! runs that were alive at its start and have ended since. A run that is still alive looks for
//! itself.
//!
//! NAME.facts has the hashes of all facts. NAME.run is locked as long as the run lasts, NAME.open
//! until it begins to look at the host again.

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

/// Half a million facts.
const MOST_BYTES: u64 = 16 << 20;

/// A command inside sees the folder. With the right to read a file it could lock it.
const LOCK_MODE: Mode = Mode::WUSR;

/// The hash of a kind, a path and a detail.
type Fact = [u8; 32];

fn fact(kind: &str, path: &AbsPath, detail: &[u8]) -> Fact {
    // No kind and no path holds a NUL.
    let parts = [kind.as_bytes(), b"\0", path.bytes(), b"\0", detail];
    parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize().into()
}

/// What is done with the facts that a run knew at its start.
pub(super) enum Facts<'f> {
    /// They are noted for other runs.
    Note(&'f mut HashSet<Fact>),
    /// Each is kept if all these runs knew it, too.
    Keep(&'f [HashSet<Fact>]),
}

impl Facts<'_> {
    /// Whether the fact stays known.
    pub(super) fn keep(&mut self, kind: &str, path: &AbsPath, detail: impl AsRef<[u8]>) -> bool {
        self.keep_or(kind, path, detail.as_ref(), None)
    }

    /// As [`Facts::keep`]. A run that knew the other fact instead knew enough.
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

/// The other runs of the project that were alive at the start of this one, and the note about this
/// one.
#[derive(Default)]
pub(super) struct Overlap {
    /// Facts, and the lock that a run gives up when it begins to look at the host again.
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
    /// Finds the other runs, and notes what this one knows. Called after the host was looked at:
    /// what another command did before that, it did after its run had made its note.
    pub(super) fn start(host: &Host, compiled: &Compiled, mut known: HashSet<Fact>) -> Self {
        if ablate::is_off(Mitigation::Overlap) {
            return Self::default();
        }
        let Ok(folder) = OpenDir::open(host, &compiled.layers.state.child(RUNS)) else { return Self::default() };
        let project = sha256(compiled.layers.project.root.bytes());
        let others: Vec<_> = living(&folder, &project).unwrap_or_default();
        // The next run knows what the oldest one knew.
        known.retain(|fact| others.iter().all(|(facts, _)| facts.contains(fact)));
        let note = Note::make(folder, &project, &known).ok();
        Self { others, note }
    }

    /// The facts of the runs that have ended, or look at the host now. From here on this run counts
    /// as one of them.
    pub(super) fn end(&mut self) -> Vec<HashSet<Fact>> {
        // A process that was forked off may hold the file open.
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

    /// Returns the locks.
    fn write(folder: &OpenDir, name: &str, known: &HashSet<Fact>) -> io::Result<(File, File)> {
        // The first one: by it, another run finds what is left of a killed one. It has its name
        // only when it is locked.
        let run = locked(folder, &format!(".{name}{RUN}"))?;
        folder.rename(format!(".{name}{RUN}"), folder, format!("{name}{RUN}"))?;
        let facts: Vec<u8> = known.iter().flatten().copied().collect();
        let mode = Mode::RUSR | Mode::WUSR;
        folder.make_file(format!("{name}{FACTS}"), OFlags::WRONLY, mode)?.write_all(&facts)?;
        // The last one: it makes the note count.
        let open = locked(folder, &format!("{name}{OPEN}"))?;
        Ok((open, run))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        remove(&self.folder, &self.name);
    }
}

/// Makes a file that this process has locked. Another run may take a file that is not locked yet
/// for one of a killed run, and remove it.
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

/// The runs of a project that are alive. Removes the notes of killed ones.
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
        // A run without this file has not started its command yet, or has looked at the host again.
        let Ok(open) = folder.open_file(format!("{name}{OPEN}"), OFlags::WRONLY) else { continue };
        // Without facts, such a run knew nothing.
        let facts = folder.read(format!("{name}{FACTS}"), MOST_BYTES).ok().flatten().unwrap_or_default();
        let facts = facts.chunks_exact(32).filter_map(|fact| fact.first_chunk().copied()).collect();
        living.push((facts, open));
    }
    Ok(living)
}

/// Keeps of the doubts about each folder those that stay known.
pub(super) fn keep_doubts(kind: &str, known: &mut BTreeMap<AbsPath, Vec<String>>, facts: &mut Facts<'_>) {
    for (folder, doubts) in known {
        doubts.retain(|doubt| facts.keep(kind, folder, doubt));
    }
}
