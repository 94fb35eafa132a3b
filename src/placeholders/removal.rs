//! Taking away what runs have put up: their own, and that of runs that were killed.

use crate::host::Host;
use crate::host::journal::{Intent, Record, is_unchanged};
use crate::host::nofollow::Folders;
use crate::policy::path::AbsPath;

use super::parked::Parked;
use super::place::{self, RemovalOutcome};
use super::runs::OtherRun;

pub(crate) fn sweep_dead(host: &Host, others: &[OtherRun], own: &[Record]) -> Vec<(AbsPath, RemovalOutcome)> {
    let mut outcomes = Vec::new();
    for dead in others.iter().filter(|other| !other.is_live && !must_stay(other, others)) {
        let is_clean = remove_temporary(host, &dead.journal.intents);
        let removal = remove_all(host, &dead.journal.records, others, own, None);
        outcomes.extend(removal.outcomes);
        if is_clean && removal.unfinished.is_empty() {
            let _ = std::fs::remove_file(host.real(&dead.path));
        } else if removal.unfinished.len() < dead.journal.records.len() {
            dead.note(removal.unfinished);
        }
    }
    outcomes
}

/// What it has put up is held in place for the sake of a run that may still live.
fn must_stay(dead: &OtherRun, others: &[OtherRun]) -> bool {
    dead.journal.is_held && others.iter().any(|other| other.is_live)
}

/// Removes what was made under names that only one run uses. `false` if something may go at the next attempt.
pub(crate) fn remove_temporary(host: &Host, intents: &[Intent]) -> bool {
    let paths = intents.iter().flat_map(|intent| intent.paths().into_iter().rev());
    paths.fold(true, |is_clean, (path, is_directory)| place::remove_named(host, &path, is_directory) && is_clean)
}

/// What became of records, and which of them still stand only because they could not be removed now, parents first.
pub(crate) struct Removal {
    pub outcomes: Vec<(AbsPath, RemovalOutcome)>,
    pub unfinished: Vec<Record>,
    /// Some of it was not kept: the kernel frees it when the last descriptor is closed.
    pub frees: bool,
}

/// Removes `records`, children first, but for what a living run or this one relies on. What can be used again goes to `parked`.
pub(crate) fn remove_all(
    host: &Host,
    records: &[Record],
    others: &[OtherRun],
    own: &[Record],
    mut parked: Option<&mut Parked>,
) -> Removal {
    let counts = |other: &&OtherRun| other.is_live || must_stay(other, others);
    let live = || others.iter().filter(counts).flat_map(|other| &other.journal.records);
    let is_used = |record: &Record| live().chain(own).any(|used| is_same(used, record));
    // A run that was killed before it put its own in place met one that another run had put there, or made room for it.
    let is_of_another = |record: &Record| {
        let all = others.iter().flat_map(|other| &other.journal.records).chain(own);
        let mut others = all.filter(|other| other.path() == record.path() && other.identity != record.identity);
        others.any(|other| is_unchanged(host, other))
    };
    let mut removal = Removal { outcomes: Vec::new(), unfinished: Vec::new(), frees: false };
    let mut folders = Folders::default();
    let paths: Vec<AbsPath> = records.iter().filter_map(Record::path).collect();
    // What stands in another is made with it.
    let is_alone = |path: &AbsPath| !paths.iter().any(|other| other.is_below(path) || path.is_below(other));
    let mut is_kept = |path: &AbsPath, record: &Record, folders: &mut Folders| match &mut parked {
        Some(parked) if !record.is_parent && is_alone(path) => parked.take_in(host, path, record, folders),
        _ => false,
    };
    for record in records.iter().rev() {
        let Some(path) = record.path() else { continue };
        let mut outcome = match is_used(record) {
            true => RemovalOutcome::InUse,
            false if is_of_another(record) => RemovalOutcome::Gone,
            false if is_kept(&path, record, &mut folders) => RemovalOutcome::Removed,
            false => {
                removal.frees = true;
                place::remove(host, record, &mut folders)
            }
        };
        // It is not empty because of what is stuck in it, and goes with that.
        let holds_stuck = removal.unfinished.iter().filter_map(Record::path).any(|stuck| stuck.is_below(&path));
        if holds_stuck && matches!(outcome, RemovalOutcome::Filled | RemovalOutcome::Left(_)) {
            outcome = RemovalOutcome::Stuck("something in it could not be removed".to_owned());
        }
        if matches!(outcome, RemovalOutcome::Stuck(_)) {
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
