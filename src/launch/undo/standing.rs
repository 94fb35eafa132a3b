//! The placeholders of one run, from what is missing to what stands.

use std::io;
use std::os::fd::OwnedFd;

use crate::host::Host;
use crate::journal::{Intent, Line, Record, is_unchanged};
use crate::path::AbsPath;
use crate::placeholder::Item;
use crate::unfollowed::Folders;

use super::place;
use super::removal::{remove_all, remove_temporary};
use super::runs::{Other, Own};
use super::trees::{Tree, trees};

/// What could not be put up or noted, and why.
pub(super) type Failed = (AbsPath, io::Error);

/// The placeholders of this run.
pub(super) struct Standing {
    pub journal: Own,
    pub records: Vec<Record>,
    /// What was made under another name first.
    pub intents: Vec<Intent>,
    /// Each of them, open: as long as it is, its inode is not given to another file.
    pub held: Vec<OwnedFd>,
}

impl Standing {
    pub(super) fn new(
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
