//! Removes the placeholders of this run and of killed runs.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;

use crate::host::Host;
use crate::host::journal::{Intent, PlaceholderRecord, is_unchanged};
use crate::policy::path::AbsPath;
use crate::sys::ablate;

use super::place::{self, RemovalOutcome};
use super::runs::{OtherRun, RecordsByPath};

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
    let is_stuck = |outcome: &RemovalOutcome| matches!(outcome, RemovalOutcome::Stuck(_));
    let stuck = outcomes.iter().filter(|(_, outcome)| is_stuck(outcome)).map(|(path, _)| path);
    let stuck: HashSet<&AbsPath> = stuck.collect();
    records.iter().filter(|record| stuck.contains(&record.path)).cloned().collect()
}

/// Removes the placeholders of `records`, children first, except those that a live run or this run
/// relies on.
pub(crate) fn remove_all<'a>(
    host: &Host,
    records: &[PlaceholderRecord],
    others: &'a [OtherRun],
    own: &'a [PlaceholderRecord],
) -> Outcomes {
    let a_run_is_alive = others.iter().any(|other| other.is_alive);
    let counts = |other: &&OtherRun| other.is_alive || other.journal.is_held && a_run_is_alive;
    let of_others = |other: &'a OtherRun| &other.journal.records;
    let used = RecordsByPath::new(others.iter().filter(counts).flat_map(of_others).chain(own));
    let all = RecordsByPath::new(others.iter().flat_map(of_others).chain(own));
    let is_used =
        |record: &PlaceholderRecord| used.at(&record.path).iter().any(|used| used.identity == record.identity);
    // A killed run may have noted a placeholder that it could not rename, because another run had
    // created its own there.
    let is_of_another = |record: &PlaceholderRecord| {
        let mut others = all.at(&record.path).iter().filter(|other| other.identity != record.identity);
        others.any(|other| is_unchanged(host, other))
    };
    let mut stuck: BTreeSet<&AbsPath> = BTreeSet::new();
    let mut outcomes = Vec::new();
    for record in records.iter().rev() {
        let mut outcome = if is_used(record) {
            RemovalOutcome::InUse
        } else if is_of_another(record) {
            RemovalOutcome::Gone
        } else {
            place::remove(host, record)
        };
        ablate::pause("placeholders:first-removed");
        // The stuck placeholder keeps the directory from being removed. A later sweep removes
        // both.
        let is_kept = matches!(outcome, RemovalOutcome::Filled | RemovalOutcome::Left(_));
        if is_kept && holds_one_of(&record.path, &stuck) {
            outcome = RemovalOutcome::Stuck("something in it could not be removed".to_owned());
        }
        if matches!(outcome, RemovalOutcome::Stuck(_)) {
            stuck.insert(&record.path);
        }
        outcomes.push((record.path.clone(), outcome));
    }
    outcomes
}

/// Whether one of `paths` lies below `directory`. Paths below `directory` follow it directly in the
/// order of paths.
pub(crate) fn holds_one_of(directory: &AbsPath, paths: &BTreeSet<&AbsPath>) -> bool {
    let mut after = paths.range::<AbsPath, _>((Bound::Excluded(directory), Bound::Unbounded));
    after.next().is_some_and(|next| next.is_below(directory))
}
