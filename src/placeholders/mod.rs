//! Placeholders: files and directories that a run puts on the host at blocked paths and removes
//! again (SPEC M4–M7).
//!
//! A run can be killed between any two steps, so it keeps this order:
//!
//! 1. The journal names everything that will be made, under names that only this run uses.
//! 2. Everything is made under its temporary name. It then has an identity (device and inode).
//! 3. The journal notes the path and the identity of everything.
//! 4. Everything is renamed to its path, without replacing anything.
//!
//! So a file at a blocked path is either in a journal, or not ours.

mod messages;
mod place;
mod removal;
mod run_placeholders;
mod runs;
mod temporary;
#[cfg(test)]
mod tests;
mod trees;

use std::collections::{BTreeSet, HashSet};
use std::io;

use crate::compile::Compiled;
use crate::compile::lower::Argv;
use crate::compile::placeholder::{self, PlaceholderItem};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::host::journal::{self, PlaceholderRecord, is_in_place};
use crate::host::nofollow::look;
use crate::host::{Host, PathError};
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Mitigation};
use crate::sys::fd;

use messages::{cannot_create_placeholder, held, report_left};
use removal::{Outcomes, sweep_dead};
use run_placeholders::RunPlaceholders;

pub use place::RemovalOutcome;
pub use temporary::{Traces, leave_nothing};

/// The placeholders of a run. Dropping the value removes them without a report.
pub struct ActivePlaceholders {
    host: Host,
    state: AbsPath,
    /// `None` for a run that has neither placeholders nor a journal.
    run: Option<RunPlaceholders>,
    /// The paths of the placeholders of `run`.
    paths: HashSet<AbsPath>,
    said: Diagnostics,
}

/// Creates the placeholders of `argv` and removes those of killed runs. The caller starts bwrap
/// directly afterwards.
pub fn create_placeholders(host: &Host, compiled: &Compiled, argv: &Argv) -> Result<ActivePlaceholders, Diagnostic> {
    let state = compiled.layers.state.clone();
    let mut said = Diagnostics::default();
    let protective = compiled.decisions.iter().filter(|(_, decision)| decision.access.is_protective());
    let relied_on: BTreeSet<&AbsPath> = protective.map(|(path, _)| path).collect();
    let items = placeholder::items(&argv.placeholders);
    let _ = fd::raise_file_limit();
    let run = create_placeholder_items(host, &state, &items, &relied_on, &mut said);
    let run = run.map_err(|error| cannot_create_placeholder(compiled, &error))?;
    ablate::pause("placeholders:put-up");
    let paths = run.iter().flat_map(|run| &run.records).map(|record| record.path.clone()).collect();
    Ok(ActivePlaceholders { host: host.clone(), state, run, paths, said })
}

impl ActivePlaceholders {
    /// Removes the placeholders and reports those that stay.
    pub fn finish(mut self) -> Diagnostics {
        let mut said = std::mem::take(&mut self.said);
        report_left(&self.remove(), &mut said);
        said
    }

    /// Removes the placeholders while another run may be alive. The command of that run may hold a
    /// directory of this sandbox open. `close(true)` must make the mounts of this sandbox
    /// read-only. If it fails, the placeholders stay until no other run is alive. After `close` no
    /// mount of this sandbox should be left: the kernel takes 30 µs to remove a file that is
    /// covered somewhere.
    pub fn finish_while_others_run(mut self, close: impl FnOnce(bool) -> io::Result<()>) -> Diagnostics {
        let has_placeholders = self.run.as_ref().is_some_and(|run| !run.records.is_empty());
        let must_close = has_placeholders && self.another_run_is_alive() && !ablate::is_off(Mitigation::ClosedMounts);
        let Err(error) = close(must_close) else { return self.finish() };
        let noted = self.run.take().map(|run| run.leave_held(&self.host, &self.state));
        let mut said = self.finish();
        said.push(held(&error, noted.and_then(Result::err).as_ref()));
        said
    }

    /// Whether another run of this user may be alive. [`create_placeholders`] removed the journals
    /// of killed runs. If the folder of journals cannot be read, the answer is yes.
    pub fn another_run_is_alive(&self) -> bool {
        let own = self.run.as_ref().map(|run| &run.journal.path);
        journal::journals(&self.host, &self.state)
            .map_or(true, |journals| journals.iter().any(|journal| Some(journal) != own))
    }

    /// Whether a placeholder of this run, or one that it shares with another run, is at `path`.
    pub fn includes(&self, path: &AbsPath) -> bool {
        self.run.is_some() && self.paths.contains(path)
    }

    fn remove(&mut self) -> Outcomes {
        self.run.take().map(|run| run.remove(&self.host, &self.state)).unwrap_or_default()
    }
}

impl Drop for ActivePlaceholders {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes the placeholders of killed runs, and returns the outcome for each path.
pub fn sweep(host: &Host, state: &AbsPath) -> io::Result<Vec<(AbsPath, RemovalOutcome)>> {
    if journal::journals(host, state).unwrap_or_default().is_empty() {
        return Ok(Vec::new());
    }
    let _locked = runs::lock(host, state)?;
    let others = runs::others(host, state, None)?;
    Ok(sweep_dead(host, &others, &[]))
}

/// Creates `items`, or joins the placeholders of other runs at these paths. Also joins the
/// placeholders that another run has created at a path of `relied_on` since the policy was
/// compiled.
///
/// A run without placeholders has a journal, too, so that other runs know that it is alive. If no
/// journal can be written, the run has none.
fn create_placeholder_items(
    host: &Host,
    state: &AbsPath,
    items: &[PlaceholderItem],
    relied_on: &BTreeSet<&AbsPath>,
    said: &mut Diagnostics,
) -> Result<Option<RunPlaceholders>, PathError> {
    let locked = runs::lock(host, state).and_then(|locked| Ok((locked, runs::others(host, state, None)?)));
    let (_locked, others) = match locked {
        Err(_) if items.is_empty() => return Ok(None),
        locked => locked.map_err(PathError::at(state))?,
    };
    let items = &with_missing_parents(host, items)?;
    let known: HashSet<&AbsPath> = items.iter().map(|item| &item.path).collect();
    let is_new = |record: &&PlaceholderRecord| relied_on.contains(&record.path) && !known.contains(&record.path);
    let alive = others.iter().filter(|other| other.is_alive).flat_map(|other| &other.journal.records);
    let mut joined = Vec::new();
    for record in alive.filter(is_new) {
        if is_in_place(host, record).map_err(PathError::at(&record.path))? {
            joined.push(record.joined(false));
        }
    }
    let needs_journal = !items.is_empty() || !joined.is_empty();
    let run = match RunPlaceholders::new(host, state, items, joined, &others) {
        Err(_) if !needs_journal => None,
        run => Some(run?),
    };
    let own = run.as_ref().map_or(&[][..], |run| &run.records);
    report_left(&sweep_dead(host, &others, own), said);
    Ok(run)
}

/// Adds the directories that have gone since the policy was compiled, because the run that had made
/// them has ended. The caller holds the lock of the journals.
fn with_missing_parents(host: &Host, items: &[PlaceholderItem]) -> Result<Vec<PlaceholderItem>, PathError> {
    let mut all = items.to_vec();
    let mut known: HashSet<AbsPath> = items.iter().map(|item| item.path.clone()).collect();
    for item in items {
        for path in item.path.ancestors().skip(1) {
            let is_known = !known.insert(path.clone());
            if is_known || look(host, &path).map_err(PathError::at(&item.path))?.is_some() {
                break;
            }
            all.push(PlaceholderItem { path, content: None, is_parent: true });
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}
