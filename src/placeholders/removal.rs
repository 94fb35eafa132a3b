//! Removing the placeholders of this run and of killed runs.

use crate::host::Host;
use crate::host::journal::{Intent, PlaceholderRecord, is_unchanged};
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Point};

use super::place::{self, RemovalOutcome};
use super::runs::OtherRun;

pub(crate) type Outcomes = Vec<(AbsPath, RemovalOutcome)>;

/// Removes the placeholders and the journals of killed runs. `own` are the records of this run.
pub(crate) fn sweep_dead(host: &Host, others: &[OtherRun], own: &[PlaceholderRecord]) -> Outcomes {
    let mut outcomes = Vec::new();
    for dead in others.iter().filter(|other| !other.is_alive && !must_stay(other, others)) {
        let is_clean = remove_temporary(host, &dead.journal.intents);
        let removed = remove_all(host, &dead.journal.records, others, own);
        let unfinished = unfinished(&dead.journal.records, &removed);
        outcomes.extend(removed);
        if is_clean && unfinished.is_empty() {
            dead.forget(host);
        } else if unfinished.len() < dead.journal.records.len() {
            dead.note(unfinished);
        }
    }
    outcomes
}

/// Whether the placeholders of a run that has ended must stay until no other run is alive.
fn must_stay(dead: &OtherRun, others: &[OtherRun]) -> bool {
    dead.journal.is_held && others.iter().any(|other| other.is_alive)
}

/// Removes everything with a temporary name. Returns `false` if the next attempt may remove more.
pub(crate) fn remove_temporary(host: &Host, intents: &[Intent]) -> bool {
    let paths = intents.iter().flat_map(|intent| intent.paths().into_iter().rev());
    paths.fold(true, |is_clean, (path, content)| place::remove_named(host, &path, content) && is_clean)
}

/// The records of placeholders that could not be removed.
pub(crate) fn unfinished(records: &[PlaceholderRecord], outcomes: &Outcomes) -> Vec<PlaceholderRecord> {
    let is_stuck = |record: &&PlaceholderRecord| stuck(outcomes).any(|path| *path == record.path);
    records.iter().filter(is_stuck).cloned().collect()
}

fn stuck(outcomes: &Outcomes) -> impl Iterator<Item = &AbsPath> {
    outcomes.iter().filter(|(_, outcome)| matches!(outcome, RemovalOutcome::Stuck(_))).map(|(path, _)| path)
}

/// Removes the placeholders of `records`, children first, except those that a live run or this run
/// relies on.
pub(crate) fn remove_all(
    host: &Host,
    records: &[PlaceholderRecord],
    others: &[OtherRun],
    own: &[PlaceholderRecord],
) -> Outcomes {
    let counts = |other: &&OtherRun| other.is_alive || must_stay(other, others);
    let used = || others.iter().filter(counts).flat_map(|other| &other.journal.records).chain(own);
    let is_used =
        |record: &PlaceholderRecord| used().any(|used| used.path == record.path && used.identity == record.identity);
    // A killed run may have noted a placeholder that it could not rename, because another run had
    // put up its own.
    let is_of_another = |record: &PlaceholderRecord| {
        let all = others.iter().flat_map(|other| &other.journal.records).chain(own);
        let mut others = all.filter(|other| other.path == record.path && other.identity != record.identity);
        others.any(|other| is_unchanged(host, other))
    };
    let mut outcomes = Vec::new();
    for record in records.iter().rev() {
        let mut outcome = if is_used(record) {
            RemovalOutcome::InUse
        } else if is_of_another(record) {
            RemovalOutcome::Gone
        } else {
            place::remove(host, record)
        };
        ablate::pause(Point::Placeholders("first-removed"));
        // The directory is not empty because of the stuck placeholder in it, and goes with that.
        let is_kept = matches!(outcome, RemovalOutcome::Filled | RemovalOutcome::Left(_));
        if is_kept && stuck(&outcomes).any(|path| path.is_below(&record.path)) {
            outcome = RemovalOutcome::Stuck("something in it could not be removed".to_owned());
        }
        outcomes.push((record.path.clone(), outcome));
    }
    outcomes
}
