//! The placeholders of one run.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;

use crate::compile::placeholder::PlaceholderItem;
use crate::diagnostic::reason;
use crate::host::journal::{Intent, JournalLine, PlaceholderRecord, is_in_place};
use crate::host::nofollow::{look, open_itself};
use crate::host::{Host, Identity, PathError};
use crate::policy::path::AbsPath;
use crate::sys::ablate;

use super::place::{self, RemovalOutcome};
use super::removal::{Outcomes, holds_one_of, remove_all, remove_temporary, unfinished};
use super::runs::{self, OtherRun, RecordsByPath, RunJournal};
use super::trees::{Tree, trees};

/// The placeholders of this run and their journal.
pub(crate) struct RunPlaceholders {
    pub journal: RunJournal,
    pub records: Vec<PlaceholderRecord>,
    /// The identities of those records that this run has made.
    pub made: HashMap<AbsPath, Identity>,
    /// Everything that was made under a temporary name.
    pub intents: Vec<Intent>,
    /// A descriptor of each placeholder. The kernel gives the inode number of an open file to no
    /// other file.
    pub held: Vec<OwnedFd>,
}

impl RunPlaceholders {
    pub(crate) fn new(
        host: &Host,
        state: &AbsPath,
        items: &[PlaceholderItem],
        joined: Vec<PlaceholderRecord>,
        others: &[OtherRun],
    ) -> Result<Self, PathError> {
        let mut records = joined;
        let mut missing = Vec::new();
        let of_others = RecordsByPath::new(others.iter().flat_map(|other| &other.journal.records));
        for item in items {
            match find_in_place(host, of_others.at(&item.path)).map_err(PathError::at(&item.path))? {
                Some(record) => records.push(record.joined(item.is_parent)),
                None => missing.push(item),
            }
        }
        join_parents(host, &mut records, &missing, others)?;
        let journal = RunJournal::create(host, state).map_err(PathError::at(state))?;
        ablate::pause("placeholders:journal-created");
        let held = records.iter().filter_map(|record| open_itself(host, &record.path).ok()).collect();
        let mut run = Self { journal, records, made: HashMap::new(), intents: Vec::new(), held };
        if let Err(error) = run.create_placeholders(host, &missing) {
            let outcomes = remove_all(host, &run.records, others, &[]);
            if remove_temporary(host, &run.intents) {
                run.journal.close(host, unfinished(&run.records, &outcomes));
            }
            return Err(error);
        }
        Ok(run)
    }

    fn create_placeholders(&mut self, host: &Host, missing: &[&PlaceholderItem]) -> Result<(), PathError> {
        let trees = trees(host, missing, &self.journal.tag)?;
        if trees.is_empty() {
            return self.note();
        }
        self.announce(&trees)?;
        ablate::pause("placeholders:announced");
        let made = trees.iter().try_for_each(|tree| self.make(host, tree));
        ablate::pause("placeholders:made");
        // Written even after a failure: the records name the paths to remove.
        self.note()?;
        ablate::pause("placeholders:noted");
        let noted = self.records.clone();
        let placed = made.and_then(|()| trees.iter().try_for_each(|tree| self.place(host, tree)));
        if self.records != noted {
            self.note()?;
        }
        placed
    }

    /// Notes the temporary names before anything is made.
    pub(crate) fn announce(&mut self, trees: &[Tree]) -> Result<(), PathError> {
        self.intents = trees.iter().map(Tree::intent).collect();
        self.write(&JournalLine::WillMake(self.intents.clone()))
    }

    /// Makes `tree` under its temporary name.
    pub(crate) fn make(&mut self, host: &Host, tree: &Tree) -> Result<(), PathError> {
        tree.items.iter().try_for_each(|item| self.make_item(host, item, &tree.temporary_path(item)))
    }

    fn make_item(&mut self, host: &Host, item: &PlaceholderItem, at: &AbsPath) -> Result<(), PathError> {
        let (identity, held) = place::make(host, at, item.content).map_err(PathError::at(&item.path))?;
        self.records.push(PlaceholderRecord::new(&item.path, identity, item.content, item.is_parent));
        self.made.insert(item.path.clone(), identity);
        self.held.push(held);
        Ok(())
    }

    /// Notes all placeholders.
    pub(crate) fn note(&mut self) -> Result<(), PathError> {
        self.write(&JournalLine::Made(self.records.clone()))
    }

    /// Renames `tree` to its path. If a file has appeared there since the policy was compiled, that
    /// file stays, and is mounted like everything that exists.
    pub(crate) fn place(&mut self, host: &Host, tree: &Tree) -> Result<(), PathError> {
        let top = tree.top();
        let failed = PathError::at(top);
        let error = match place::rename_without_replacing(host, &tree.temporary, top) {
            Ok(()) => {
                ablate::pause("placeholders:first-placed");
                return self.check_placed(host, top).map_err(failed);
            }
            Err(error) => error,
        };
        let exists = error.kind() == io::ErrorKind::AlreadyExists;
        if !exists && !place::is_unsupported(&error) {
            return Err(failed(error));
        }
        self.records.retain(|record| !record.path.is_within(top));
        // A temporary file that stays is in the journal.
        remove_temporary(host, &[tree.intent()]);
        if exists {
            return Ok(());
        }
        // A file system without RENAME_NOREPLACE.
        tree.items.iter().try_for_each(|item| self.make_item(host, item, &item.path))
    }

    /// A command of another run may have replaced the file before or after the rename.
    fn check_placed(&self, host: &Host, top: &AbsPath) -> io::Result<()> {
        let found = look(host, top)?.map(|found| Identity::of_stat(&found));
        let is_ours = found.is_some() && self.made.get(top).copied() == found;
        if is_ours { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
    }

    fn write(&self, line: &JournalLine) -> Result<(), PathError> {
        self.journal.write(line).map_err(PathError::at(&self.journal.path))
    }

    /// Ends the run and leaves its placeholders until no other run is alive.
    pub(crate) fn leave_held(self, host: &Host, state: &AbsPath) -> io::Result<()> {
        let _locked = runs::lock(host, state)?;
        self.journal.write(&JournalLine::Held)
    }

    /// Ends the run and removes its placeholders, except those that other runs rely on.
    /// Placeholders that cannot be removed stay in the journal, for the next run or sweep.
    pub(crate) fn remove(self, host: &Host, state: &AbsPath) -> Outcomes {
        let others = |locked| Ok((locked, runs::others(host, state, Some(&self.journal.path))?));
        let (_locked, others) = match runs::lock(host, state).and_then(others) {
            Ok(locked) => locked,
            Err(e) => {
                let why = format!("the journals in `{state}` cannot be read: {}", reason(&e));
                let stuck = |record: &PlaceholderRecord| (record.path.clone(), RemovalOutcome::Stuck(why.clone()));
                return self.records.iter().map(stuck).collect();
            }
        };
        let outcomes = remove_all(host, &self.records, &others, &[]);
        ablate::pause("placeholders:all-removed");
        self.journal.close(host, unfinished(&self.records, &outcomes));
        outcomes
    }
}

/// Joins the directories that other runs have made on the way to the placeholders of this run. A
/// policy that was compiled while they existed does not name them.
fn join_parents(
    host: &Host,
    records: &mut Vec<PlaceholderRecord>,
    missing: &[&PlaceholderItem],
    others: &[OtherRun],
) -> Result<(), PathError> {
    let own: Vec<AbsPath> = records.iter().map(|record| record.path.clone()).collect();
    let mut paths: BTreeSet<&AbsPath> = own.iter().chain(missing.iter().map(|item| &item.path)).collect();
    for parent in others.iter().flat_map(|other| &other.journal.records).filter(|record| record.is_parent) {
        let is_needed = !paths.contains(&parent.path) && holds_one_of(&parent.path, &paths);
        if is_needed && is_in_place(host, parent).map_err(PathError::at(&parent.path))? {
            paths.insert(&parent.path);
            records.push(parent.clone());
        }
    }
    // Parents first.
    records.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// Finds the record whose placeholder is in its place. All `records` are about one path.
fn find_in_place<'r>(host: &Host, records: &[&'r PlaceholderRecord]) -> io::Result<Option<&'r PlaceholderRecord>> {
    for record in records {
        if is_in_place(host, record)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
