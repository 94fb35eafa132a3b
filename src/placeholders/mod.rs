//! What a run puts on the host and takes away again: placeholders at blocked paths (SPEC M4–M7),
//! and what is said after it.
//!
//! Order is everything here, because a run can be killed between any two steps. What will be made
//! is noted first; it is made under a name that only this run uses, so that its identity can be
//! noted before it has its own name; then it is moved into place. What an earlier run took away is
//! kept and has its identity: it is noted and moved. So what stands at a blocked path is either in
//! a journal, or not ours.

mod leaving;
mod messages;
mod parked;
mod place;
mod removal;
mod run_placeholders;
mod runs;
mod temporary;
#[cfg(test)]
mod tests;
mod trees;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::fs::Mode;
use rustix::process::umask;

use crate::compile::Compiled;
use crate::compile::lower::Argv;
use crate::compile::placeholder::{self, Item};
use crate::diagnostic::{Diagnostic, Diagnostics, reason};
use crate::host::Host;
use crate::host::journal::{Record, stands};
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Mitigation};

use messages::{cannot_put_up, held, left};
use parked::Parked;
use removal::{Removal, remove_all, sweep_dead};
use run_placeholders::{Failed, RunPlaceholders};

pub use place::RemovalOutcome;
pub use temporary::{Traces, leave_nothing};

/// Of a thread that only closes descriptors.
const SMALL_STACK: usize = 64 << 10;

/// The placeholders and reports of one run. Dropping it removes the placeholders silently.
pub struct ActivePlaceholders {
    host: Host,
    state: AbsPath,
    standing: Option<RunPlaceholders>,
    /// What is taken away is kept for the next run.
    keeps: bool,
    said: Diagnostics,
}

/// What becomes of placeholders when they are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// They stand in the same place at the next run.
    Kept,
    /// For a run that must [`leave_nothing`], in the folder of our state neither.
    Freed,
}

/// Puts up the placeholders, and removes those of runs that were killed. To be called directly
/// before the start.
pub fn put_up(
    host: &Host,
    compiled: &Compiled,
    argv: &Argv,
    removed: Removed,
) -> Result<ActivePlaceholders, Diagnostic> {
    let keeps = removed == Removed::Kept;
    let state = compiled.layers.state.clone();
    let mut said = Diagnostics::default();
    let protective = compiled.decisions.iter().filter(|(_, decision)| decision.access.is_protective());
    let relied_on: BTreeSet<&AbsPath> = protective.map(|(path, _)| path).collect();
    let items = placeholder::items(&argv.placeholders);
    let standing = with_own_rights(|umask| {
        let mut parked = (keeps && !items.is_empty()).then(|| Parked::open(host, &state, umask)).flatten();
        put_up_items(host, &state, &items, &relied_on, parked.as_mut(), &mut said)
    });
    let standing = standing.map_err(|(path, e)| cannot_put_up(compiled, &path, &e))?;
    Ok(ActivePlaceholders { host: host.clone(), state, standing, keeps, said })
}

/// What a caller's umask takes away from himself as well, he could neither remove afterwards nor
/// have read by his git.
fn with_own_rights<T>(work: impl FnOnce(Mode) -> T) -> T {
    let before = umask(Mode::empty());
    let meanwhile = before.difference(Mode::RWXU);
    umask(meanwhile);
    let done = work(meanwhile);
    umask(before);
    done
}

impl ActivePlaceholders {
    /// Takes away what was put up.
    pub fn finish(mut self) -> Diagnostics {
        let mut said = std::mem::take(&mut self.said);
        let (outcomes, freed) = self.take_away();
        // ext4 takes longer to free a folder than all looks together.
        let freeing = freed.map(|held| thread::Builder::new().stack_size(SMALL_STACK).spawn(move || drop(held)));
        for (path, outcome) in outcomes {
            left(&path, &outcome).into_iter().for_each(|diagnostic| said.push(diagnostic));
        }
        // What is left of the sandbox is taken down meanwhile, with the help of a thread of the
        // kernel that may wait for this very processor: seen by tracepoints, 0.7 ms long.
        thread::yield_now();
        // Who cannot have a thread has freed them himself.
        let _ = freeing.map(|thread| thread.map(thread::JoinHandle::join));
        said
    }

    /// The same, for a run beside which another one may live, in which somebody may hold something
    /// of this one open. `close` must keep him from writing there; if it cannot, what stands stays
    /// until no other run lives.
    pub fn finish_while_others_run(mut self, close: &dyn Fn() -> io::Result<()>) -> Diagnostics {
        let has_placeholders = self.standing.as_ref().is_some_and(|standing| !standing.records.is_empty());
        let must_close = has_placeholders && self.another_run_is_alive() && !ablate::is_off(Mitigation::ClosedMounts);
        let Err(error) = (if must_close { close() } else { Ok(()) }) else { return self.finish() };
        let noted = self.standing.take().map(|standing| standing.hold(&self.host, &self.state));
        let mut said = self.finish();
        said.push(held(&error, noted.and_then(Result::err).as_ref()));
        said
    }

    /// Whether there is another run of this user that may be alive: one that has put something up.
    /// What killed runs left was swept when this one was prepared. Who cannot tell is not alone.
    pub fn another_run_is_alive(&self) -> bool {
        let own = self.standing.as_ref().map(|standing| &standing.journal.path);
        let names = crate::host::journal::read_names(&self.host, &self.state);
        names.map_or(true, |names| names.iter().any(|name| Some(name) != own))
    }

    /// What became of each placeholder; and, where some are to be freed, what still holds them.
    fn take_away(&mut self) -> (Vec<(AbsPath, RemovalOutcome)>, Option<Vec<OwnedFd>>) {
        let Some(mut standing) = self.standing.take() else { return Default::default() };
        let held = std::mem::take(&mut standing.held);
        let mut parked = self.keeps.then(|| Parked::make(&self.host, &self.state)).flatten();
        let (outcomes, frees) = take_away(&self.host, &self.state, standing, parked.as_mut());
        (outcomes, frees.then_some(held))
    }
}

/// The last one out removes what stands. What cannot be removed stays in the journal, for the next
/// run or sweep. Also: whether the kernel frees something when it is not held any more.
fn take_away(
    host: &Host,
    state: &AbsPath,
    standing: RunPlaceholders,
    mut parked: Option<&mut Parked>,
) -> (Vec<(AbsPath, RemovalOutcome)>, bool) {
    let RunPlaceholders { journal, records, .. } = standing;
    let locked =
        runs::lock(host, state).and_then(|locked| Ok((locked, runs::others(host, state, Some(&journal.path))?)));
    let (_locked, others) = match locked {
        Ok(locked) => locked,
        // Who cannot tell what others rely on removes nothing.
        Err(e) => {
            let stuck = || RemovalOutcome::Stuck(format!("the journals in `{state}` cannot be read: {}", reason(&e)));
            return (records.iter().filter_map(Record::path).map(|path| (path, stuck())).collect(), false);
        }
    };
    if let Some(parked) = &mut parked {
        parked.make_room(records.len());
    }
    let Removal { outcomes, unfinished, frees } = remove_all(host, &records, &others, &[], parked.as_deref_mut());
    journal.close(host, unfinished, parked.as_deref());
    (outcomes, frees)
}

impl Drop for ActivePlaceholders {
    fn drop(&mut self) {
        self.take_away();
    }
}

/// Removes what runs that were killed have left: each path, and what became of it.
pub fn sweep(host: &Host, state: &AbsPath) -> io::Result<Vec<(AbsPath, RemovalOutcome)>> {
    if crate::host::journal::names(host, state).is_empty() {
        return Ok(Vec::new());
    }
    let _locked = runs::lock(host, state)?;
    let others = runs::others(host, state, None)?;
    Ok(sweep_dead(host, &others, &[]))
}

/// Puts up `items`, or joins those of other runs; and joins what another run has put up since we
/// looked, where the policy relies on it as if it had always been there.
fn put_up_items(
    host: &Host,
    state: &AbsPath,
    items: &[Item],
    relied_on: &BTreeSet<&AbsPath>,
    parked: Option<&mut Parked>,
    said: &mut Diagnostics,
) -> Result<Option<RunPlaceholders>, Failed> {
    // Every run has a journal, also one without placeholders: other runs must know that it is
    // alive.
    let in_state = |e| (state.clone(), e);
    let locked = match runs::lock(host, state) {
        // A run without placeholders needs none.
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
    let mut joined = Vec::new();
    for record in living.filter(is_new) {
        if stands(host, record).map_err(|e| (record.path().unwrap_or_else(AbsPath::root), e))? {
            joined.push(record.joined(false));
        }
    }
    let needs_none = items.is_empty() && joined.is_empty();
    let standing = match RunPlaceholders::new(host, state, items, joined, &others, parked) {
        // Without placeholders a run does without a journal where none can be written.
        Err(_) if needs_none => None,
        standing => Some(standing?),
    };
    let own = standing.as_ref().map_or(&[][..], |standing| &standing.records);
    for (path, outcome) in sweep_dead(host, &others, own) {
        left(&path, &outcome).into_iter().for_each(|diagnostic| said.push(diagnostic));
    }
    drop(locked);
    Ok(standing)
}
