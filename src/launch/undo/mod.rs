//! What a run puts on the host and takes away again: placeholders at blocked paths (SPEC M4–M7), and what is said after it.
//!
//! Order is everything here, because a run can be killed between any two steps. What will be made is noted first; it is
//! made under a name that only this run uses, so that its identity can be noted before it has its own name; then it is moved into
//! place. So what stands at a blocked path is either in a journal, or not ours.

mod place;
mod runs;
mod temporary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::fs::Mode;
use rustix::process::umask;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::Host;
use crate::journal::{Intent, Line, Record};
use crate::lower::Argv;
use crate::path::AbsPath;
use crate::pipeline::Compiled;
use crate::placeholder::{self, Item};
use crate::session::Session;

use crate::identity::Identity;
use crate::journal::is_unchanged;
use crate::unfollowed::{Folders, look};

use super::aftermath::Watch;
use runs::{Other, Own};

pub use place::Outcome;
pub use temporary::{Traces, leave_nothing};

/// Of a thread that only closes descriptors.
const SMALL_STACK: usize = 64 << 10;

/// What has to be done when the command has ended. Dropping it takes placeholders away without a word.
pub struct Undo {
    host: Host,
    state: AbsPath,
    standing: Option<Standing>,
    watch: Watch,
    said: Diagnostics,
}

/// The placeholders of this run.
struct Standing {
    journal: Own,
    records: Vec<Record>,
    /// What was made under another name first.
    intents: Vec<Intent>,
    /// Each of them, open: as long as it is, its inode is not given to another file.
    held: Vec<OwnedFd>,
}

/// Puts up the placeholders, removes those of runs that were killed, and remembers what the reports compare with. To
/// be called directly before the start.
pub fn prepare(host: &Host, _session: &Session, compiled: &Compiled, argv: &Argv) -> Result<Undo, Diagnostic> {
    let state = compiled.layers.state.clone();
    let mut said = Diagnostics::default();
    let protective = compiled.decisions.iter().filter(|(_, decision)| decision.access.is_protective());
    let relied_on: BTreeSet<&AbsPath> = protective.map(|(path, _)| path).collect();
    let items = placeholder::items(&argv.placeholders);
    let standing = with_own_rights(|| put_up(host, &state, &items, &relied_on, &mut said))
        .map_err(|(path, e)| cannot_put_up(compiled, &path, &e))?;
    let mut watch = Watch::of(compiled);
    watch.start(host);
    Ok(Undo { host: host.clone(), state, standing, watch, said })
}

/// What a caller's umask takes away from himself as well, he could neither remove afterwards nor have read by his git.
fn with_own_rights<T>(work: impl FnOnce() -> T) -> T {
    let before = umask(Mode::empty());
    umask(before.difference(Mode::RWXU));
    let done = work();
    umask(before);
    done
}

impl Undo {
    /// Takes away what was put up, and says what the command left behind.
    pub fn finish(mut self) -> Diagnostics {
        let mut said = std::mem::take(&mut self.said);
        let (outcomes, held) = self.take_away();
        // The kernel frees a folder that was removed when the last descriptor is closed, and ext4 takes longer for that than all looks together.
        let free = || thread::Builder::new().stack_size(SMALL_STACK).spawn(move || drop(held));
        let freeing = (!outcomes.is_empty()).then(free);
        for (path, outcome) in outcomes {
            left(&path, &outcome).into_iter().for_each(|diagnostic| said.push(diagnostic));
        }
        self.watch.finish(&self.host, &mut said);
        // Who cannot have a thread has freed them himself.
        let _ = freeing.map(|thread| thread.map(thread::JoinHandle::join));
        said
    }

    /// Whether there is another run of this user that may be alive: one that has put something up. What killed runs left was swept when
    /// this one was prepared.
    pub fn has_company(&self) -> bool {
        let own = self.standing.as_ref().map(|standing| &standing.journal.path);
        crate::journal::names(&self.host, &self.state).iter().any(|name| Some(name) != own)
    }

    /// What became of each placeholder, and what still holds them.
    fn take_away(&mut self) -> (Vec<(AbsPath, Outcome)>, Vec<OwnedFd>) {
        self.standing.take().map_or_else(Default::default, |mut standing| {
            let held = std::mem::take(&mut standing.held);
            (take_away(&self.host, &self.state, standing), held)
        })
    }
}

/// The last one out removes what stands. What cannot be removed stays in the journal, for the next run or sweep.
fn take_away(host: &Host, state: &AbsPath, standing: Standing) -> Vec<(AbsPath, Outcome)> {
    let Standing { mut journal, records, .. } = standing;
    let locked =
        runs::lock(host, state).and_then(|locked| Ok((locked, runs::others(host, state, Some(&journal.path))?)));
    let (_locked, others) = match locked {
        Ok(locked) => locked,
        // Who cannot tell what others rely on removes nothing.
        Err(e) => {
            let stuck = || Outcome::Stuck(format!("the journals in `{state}` cannot be read: {}", reason(&e)));
            return records.iter().filter_map(Record::path).map(|path| (path, stuck())).collect();
        }
    };
    let Removal { outcomes, unfinished } = remove_all(host, &records, &others, &[]);
    journal.close(host, unfinished);
    outcomes
}

impl Drop for Undo {
    fn drop(&mut self) {
        self.take_away();
    }
}

/// Removes what runs that were killed have left: each path, and what became of it.
pub fn sweep(host: &Host, state: &AbsPath) -> io::Result<Vec<(AbsPath, Outcome)>> {
    if crate::journal::names(host, state).is_empty() {
        return Ok(Vec::new());
    }
    let _locked = runs::lock(host, state)?;
    let others = runs::others(host, state, None)?;
    Ok(sweep_dead(host, &others, &[]))
}

fn sweep_dead(host: &Host, others: &[Other], own: &[Record]) -> Vec<(AbsPath, Outcome)> {
    let mut outcomes = Vec::new();
    for dead in others.iter().filter(|other| !other.is_live) {
        let is_clean = remove_temporary(host, &dead.journal.intents);
        let removal = remove_all(host, &dead.journal.records, others, own);
        outcomes.extend(removal.outcomes);
        if is_clean && removal.unfinished.is_empty() {
            let _ = std::fs::remove_file(host.real(&dead.path));
        } else if removal.unfinished.len() < dead.journal.records.len() {
            dead.note(removal.unfinished);
        }
    }
    outcomes
}

/// Removes what was made under names that only one run uses. `false` if something may go at the next attempt.
fn remove_temporary(host: &Host, intents: &[Intent]) -> bool {
    let paths = intents.iter().flat_map(|intent| intent.paths().into_iter().rev());
    paths.fold(true, |is_clean, (path, is_directory)| place::remove_named(host, &path, is_directory) && is_clean)
}

/// What became of records, and which of them still stand only because they could not be removed now, parents first.
struct Removal {
    outcomes: Vec<(AbsPath, Outcome)>,
    unfinished: Vec<Record>,
}

/// Removes `records`, children first, but for what a living run or this one relies on.
fn remove_all(host: &Host, records: &[Record], others: &[Other], own: &[Record]) -> Removal {
    let live = || others.iter().filter(|other| other.is_live).flat_map(|other| &other.journal.records);
    let is_used = |record: &Record| live().chain(own).any(|used| is_same(used, record));
    // A run that was killed before it put its own in place met one that another run had put there, or made room for it.
    let is_of_another = |record: &Record| {
        let all = others.iter().flat_map(|other| &other.journal.records).chain(own);
        let mut others = all.filter(|other| other.path() == record.path() && other.identity != record.identity);
        others.any(|other| is_unchanged(host, other))
    };
    let mut removal = Removal { outcomes: Vec::new(), unfinished: Vec::new() };
    let mut folders = Folders::default();
    for record in records.iter().rev() {
        let Some(path) = record.path() else { continue };
        let mut outcome = match is_used(record) {
            true => Outcome::InUse,
            false if is_of_another(record) => Outcome::Gone,
            false => place::remove(host, record, &mut folders),
        };
        // It is not empty because of what is stuck in it, and goes with that.
        let holds_stuck = removal.unfinished.iter().filter_map(Record::path).any(|stuck| stuck.is_below(&path));
        if holds_stuck && matches!(outcome, Outcome::Filled | Outcome::Left(_)) {
            outcome = Outcome::Stuck("something in it could not be removed".to_owned());
        }
        if matches!(outcome, Outcome::Stuck(_)) {
            removal.unfinished.push(record.clone());
        }
        removal.outcomes.push((path, outcome));
    }
    removal.unfinished.reverse();
    removal
}

fn is_same(one: &Record, other: &Record) -> bool {
    one.identity == other.identity && one.path() == other.path()
}

type Failed = (AbsPath, io::Error);

/// Puts up `items`, or joins those of other runs; and joins what another run has put up since we looked, where the policy relies on
/// it as if it had always been there.
fn put_up(
    host: &Host,
    state: &AbsPath,
    items: &[Item],
    relied_on: &BTreeSet<&AbsPath>,
    said: &mut Diagnostics,
) -> Result<Option<Standing>, Failed> {
    // The common case of a run without placeholders leaves no trace in the home.
    if items.is_empty() && crate::journal::names(host, state).is_empty() {
        return Ok(None);
    }
    let in_state = |e| (state.clone(), e);
    let locked = match runs::lock(host, state) {
        // It only matters to the sweep, which the next run can do as well.
        Err(_) if items.is_empty() => return Ok(None),
        locked => locked.map_err(in_state)?,
    };
    let others = match runs::others(host, state, None) {
        Err(_) if items.is_empty() => return Ok(None),
        others => others.map_err(in_state)?,
    };
    let is_new = |record: &&Record| {
        let path = record.path();
        path.as_ref().is_some_and(|path| relied_on.contains(path) && !items.iter().any(|item| item.path == *path))
    };
    let living = others.iter().filter(|other| other.is_live).flat_map(|other| &other.journal.records);
    let joined: Vec<Record> =
        living.filter(is_new).filter(|record| is_unchanged(host, record)).map(|record| record.joined(false)).collect();
    let standing = match items {
        [] if joined.is_empty() => None,
        items => Some(Standing::new(host, state, items, joined, &others)?),
    };
    let own = standing.as_ref().map_or(&[][..], |standing| &standing.records);
    for (path, outcome) in sweep_dead(host, &others, own) {
        left(&path, &outcome).into_iter().for_each(|diagnostic| said.push(diagnostic));
    }
    drop(locked);
    Ok(standing)
}

impl Standing {
    fn new(
        host: &Host,
        state: &AbsPath,
        items: &[Item],
        joined: Vec<Record>,
        others: &[Other],
    ) -> Result<Self, Failed> {
        let mut records = joined;
        let mut missing = Vec::new();
        for item in items {
            let known = others.iter().flat_map(|other| &other.journal.records);
            let known = known.filter(|record| record.path().as_ref() == Some(&item.path));
            match known.into_iter().find(|record| is_unchanged(host, record)) {
                Some(record) => records.push(record.joined(item.is_parent)),
                None => missing.push(item),
            }
        }
        let in_state = |e| (state.clone(), e);
        let journal = Own::create(host, state).map_err(in_state)?;
        let joined = records.iter().filter_map(Record::path);
        let held = joined.filter_map(|path| place::hold(host, &path).ok()).collect();
        let mut standing = Self { journal, records, intents: Vec::new(), held };
        if let Err(failed) = standing.make(host, &missing) {
            let Self { mut journal, records, intents, .. } = standing;
            let unfinished = remove_all(host, &records, others, &[]).unfinished;
            if remove_temporary(host, &intents) {
                journal.close(host, unfinished);
            }
            return Err(failed);
        }
        Ok(standing)
    }

    /// Makes what is missing, each tree under a temporary name first. What appeared since we looked stays as it is.
    fn make(&mut self, host: &Host, missing: &[&Item]) -> Result<(), Failed> {
        let trees = trees(host, missing, &self.journal.tag)?;
        self.intents = trees.iter().map(Tree::intent).collect();
        let journal_path = self.journal.path.clone();
        let in_journal = |e| (journal_path.clone(), e);
        self.journal.write(&Line::WillMake(self.intents.clone())).map_err(in_journal)?;
        let mut folders = Folders::default();
        let made = trees.iter().try_for_each(|tree| tree.make(host, &mut self.records, &mut folders));
        // Also what was made before a failure, so that it can be taken away.
        self.journal.write(&Line::Made(self.records.clone())).map_err(in_journal)?;
        let noted = self.records.clone();
        let place = |tree: &Tree| tree.place(host, &mut self.records, &mut self.held, &mut folders);
        let placed = made.and_then(|()| trees.iter().try_for_each(place));
        if self.records != noted {
            self.journal.write(&Line::Made(self.records.clone())).map_err(in_journal)?;
        }
        placed
    }
}

/// Something to make in an existing folder, with all that belongs into it.
struct Tree<'i> {
    temporary: AbsPath,
    items: Vec<&'i Item>,
}

/// Groups the items, parents first, by the outermost that has to be made.
fn trees<'i>(host: &Host, missing: &[&'i Item], tag: &str) -> Result<Vec<Tree<'i>>, Failed> {
    let mut trees: BTreeMap<AbsPath, Tree<'i>> = BTreeMap::new();
    for item in missing {
        let around = item.path.ancestors().skip(1).find(|ancestor| trees.contains_key(ancestor));
        if let Some(tree) = around.and_then(|top| trees.get_mut(&top)) {
            tree.items.push(item);
            continue;
        }
        match look(host, &item.path) {
            Ok(None) => {
                let name = format!(".agent-sandbox-{tag}-{}", trees.len());
                let temporary = item.path.parent().unwrap_or_else(AbsPath::root).child(name);
                trees.insert(item.path.clone(), Tree { temporary, items: vec![item] });
            }
            // Somebody made it since the policy was compiled: it is mounted like everything that exists.
            Ok(Some(found)) if !rustix::fs::FileType::from_raw_mode(found.st_mode).is_symlink() => {}
            Ok(Some(_)) => return Err((item.path.clone(), rustix::io::Errno::LOOP.into())),
            Err(e) => return Err((item.path.clone(), e)),
        }
    }
    Ok(trees.into_values().collect())
}

impl Tree<'_> {
    fn top(&self) -> &AbsPath {
        &self.items[0].path
    }

    fn intent(&self) -> Intent {
        let inside = self
            .items
            .iter()
            .filter_map(|item| Some((item.path.relative_to(self.top())?.to_path_buf(), item.content.is_none())));
        Intent::new(&self.temporary, inside)
    }

    fn make(&self, host: &Host, records: &mut Vec<Record>, folders: &mut Folders) -> Result<(), Failed> {
        for item in &self.items {
            let Some(relative) = item.path.relative_to(self.top()) else { continue };
            let temporary = self.temporary.join(relative);
            let made = place::make(host, &temporary, item.content, folders);
            let identity = made.map_err(|e| (item.path.clone(), e))?;
            records.push(Record::new(&item.path, identity, item.content, item.is_parent));
        }
        Ok(())
    }

    /// Moves it to where it belongs. `records` then holds what stands, and `held` keeps it.
    fn place(
        &self,
        host: &Host,
        records: &mut Vec<Record>,
        held: &mut Vec<OwnedFd>,
        folders: &mut Folders,
    ) -> Result<(), Failed> {
        let top = self.top();
        let failed = |e: io::Error| (top.clone(), e);
        let is_ours = |record: &Record| record.path().is_some_and(|path| path.is_within(top));
        match place::put_in_place(host, &self.temporary, top, folders) {
            Ok(()) => {
                // A command of another run may have been faster than the rename.
                let stands = place::hold(host, top).map_err(failed)?;
                let found = rustix::fs::fstat(&stands).map_err(|e| failed(e.into()))?;
                let expected = records.iter().find(|record| record.path().as_ref() == Some(top));
                if expected.map(|record| record.identity) != Some(Identity::of_stat(&found)) {
                    return Err(failed(io::ErrorKind::AlreadyExists.into()));
                }
                held.push(stands);
                let inside = self.items.iter().skip(1);
                held.extend(inside.filter_map(|item| place::hold(host, &item.path).ok()));
                Ok(())
            }
            // The same as if it had been there before.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                records.retain(|record| !is_ours(record));
                self.remove_temporary(host);
                Ok(())
            }
            // A file system that cannot move without replacing: the next best is to make it in place.
            Err(e) if place::is_unsupported(&e) => {
                records.retain(|record| !is_ours(record));
                self.remove_temporary(host);
                for item in &self.items {
                    let identity = place::make(host, &item.path, item.content, folders).map_err(failed)?;
                    records.push(Record::new(&item.path, identity, item.content, item.is_parent));
                    held.extend(place::hold(host, &item.path));
                }
                Ok(())
            }
            Err(e) => Err(failed(e)),
        }
    }

    fn remove_temporary(&self, host: &Host) {
        // What stays is in the journal.
        remove_temporary(host, &[self.intent()]);
    }
}

fn cannot_put_up(compiled: &Compiled, path: &AbsPath, error: &io::Error) -> Diagnostic {
    let concerned =
        |path: &AbsPath| compiled.plan.placeholders.iter().find(|one| one.path == *path || one.parents.contains(path));
    let message = format!("cannot put a placeholder at `{path}`: {}", reason(error));
    match concerned(path) {
        Some(placeholder) => Diagnostic::new(Code::PlaceholderFailed, message)
            .at(&placeholder.origin)
            .help("see that the folder can be written, or take `if-missing = \"block\"` out of the rule"),
        None => {
            let message = format!("cannot note what is put up for the run in `{path}`: {}", reason(error));
            Diagnostic::new(Code::PlaceholderFailed, message)
                .help("make the folder writable, or name another with XDG_STATE_HOME")
        }
    }
}

/// What to say of something that is still there.
fn left(path: &AbsPath, outcome: &Outcome) -> Option<Diagnostic> {
    let (message, help) = match outcome {
        Outcome::Left(why) => (
            format!("what stood at `{path}` during a run is not removed: {why}"),
            "look at it, and remove it if it is not yours",
        ),
        Outcome::Stuck(why) => (
            format!("what stood at `{path}` during a run could not be removed: {why}"),
            "see to the cause: the next start removes it, or `agent-sandbox sweep`",
        ),
        Outcome::Removed | Outcome::Gone | Outcome::InUse | Outcome::Filled => return None,
    };
    Some(Diagnostic::new(Code::PlaceholderLeft, message).help(help))
}
