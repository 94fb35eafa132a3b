//! The placeholders of one run, from what is missing to what stands.

use std::io;
use std::os::fd::OwnedFd;

use crate::compile::placeholder::Item;
use crate::host::Host;
use crate::host::journal::{Intent, Line, Record, stands};
use crate::host::nofollow::Folders;
use crate::policy::path::AbsPath;

use super::parked::Parked;
use super::place;
use super::removal::{remove_all, remove_temporary};
use super::runs::{self, OtherRun, RunJournal};
use super::trees::{Tree, trees};

/// What could not be put up or noted, and why.
pub(crate) type Failed = (AbsPath, io::Error);

/// The placeholders of this run.
pub(crate) struct RunPlaceholders {
    pub journal: RunJournal,
    pub records: Vec<Record>,
    /// What was made under another name first.
    pub intents: Vec<Intent>,
    /// Each of them, open: as long as it is, its inode is not given to another file.
    pub held: Vec<OwnedFd>,
}

impl RunPlaceholders {
    /// Leaves all of it, until no other run lives.
    pub(crate) fn hold(mut self, host: &Host, state: &AbsPath) -> io::Result<()> {
        let _locked = runs::lock(host, state)?;
        self.journal.write(&Line::Held)
    }

    pub(crate) fn new(
        host: &Host,
        state: &AbsPath,
        items: &[Item],
        joined: Vec<Record>,
        others: &[OtherRun],
        parked: Option<&mut Parked>,
    ) -> Result<Self, Failed> {
        let mut records = joined;
        let mut missing = Vec::new();
        for item in items {
            let known = others.iter().flat_map(|other| &other.journal.records);
            let mut known = known.filter(|record| record.path().as_ref() == Some(&item.path));
            let standing = known.find_map(|record| match stands(host, record) {
                Ok(false) => None,
                stands => Some(stands.map(|_| record)),
            });
            match standing.transpose().map_err(|e| (item.path.clone(), e))? {
                Some(record) => records.push(record.joined(item.is_parent)),
                None => missing.push(item),
            }
        }
        let in_state = |e| (state.clone(), e);
        let journal = RunJournal::create(host, state, parked.as_deref()).map_err(in_state)?;
        if let Some(parked) = &parked {
            // It stands as it is where that fails.
            records.iter().for_each(|record| drop(parked.open_again(host, record)));
        }
        let joined = records.iter().filter_map(Record::path);
        let held = joined.filter_map(|path| place::hold(host, &path).ok()).collect();
        let mut standing = Self { journal, records, intents: Vec::new(), held };
        if let Err(failed) = standing.make(host, &missing, parked) {
            let Self { journal, records, intents, .. } = standing;
            let unfinished = remove_all(host, &records, others, &[], None).unfinished;
            if remove_temporary(host, &intents) {
                journal.close(host, unfinished, None);
            }
            return Err(failed);
        }
        Ok(standing)
    }

    /// Puts up what is missing. What appeared since we looked stays as it is.
    fn make(&mut self, host: &Host, missing: &[&Item], parked: Option<&mut Parked>) -> Result<(), Failed> {
        let trees = trees(host, missing, &self.journal.tag)?;
        let mut folders = Folders::default();
        let rest = match parked {
            Some(parked) => self.use_again(host, &trees, parked, &mut folders)?,
            None => trees.iter().collect(),
        };
        // What was joined is to be noted, too.
        if trees.is_empty() { self.note() } else { self.make_new(host, &rest, &mut folders) }
    }

    /// Moves into place what stood there before. It has its identity already, so it is noted, and needs no other name. What else is to be made
    /// is returned.
    fn use_again<'t, 'i>(
        &mut self,
        host: &Host,
        trees: &'t [Tree<'i>],
        parked: &mut Parked,
        folders: &mut Folders,
    ) -> Result<Vec<&'t Tree<'i>>, Failed> {
        let (mut kept, mut rest) = (Vec::new(), Vec::new());
        for tree in trees {
            match tree.alone().and_then(|item| Some((item, parked.find(host, item, folders)?))) {
                Some((item, found)) => {
                    self.records.push(Record::new(&item.path, found.identity, item.content, false));
                    kept.push((tree, found));
                }
                None => rest.push(tree),
            }
        }
        if kept.is_empty() {
            return Ok(rest);
        }
        self.note()?;
        let noted = self.records.len();
        for (tree, found) in kept {
            if tree.put(host, (parked, &found), &mut self.records, &mut self.held, folders)?.is_none() {
                rest.push(tree);
            }
        }
        if self.records.len() == noted { Ok(rest) } else { self.note().map(|()| rest) }
    }

    /// Makes each tree under a temporary name first.
    fn make_new(&mut self, host: &Host, trees: &[&Tree], folders: &mut Folders) -> Result<(), Failed> {
        if trees.is_empty() {
            return Ok(());
        }
        self.intents = trees.iter().map(|tree| tree.intent()).collect();
        self.write(&Line::WillMake(self.intents.clone()))?;
        let made = trees.iter().try_for_each(|tree| tree.make(host, &mut self.records, folders));
        // Also what was made before a failure, so that it can be taken away.
        self.note()?;
        let noted = self.records.clone();
        let place = |tree: &&Tree| tree.place(host, &mut self.records, &mut self.held, folders);
        let placed = made.and_then(|()| trees.iter().try_for_each(place));
        if self.records != noted {
            self.note()?;
        }
        placed
    }

    fn note(&mut self) -> Result<(), Failed> {
        self.write(&Line::Made(self.records.clone()))
    }

    fn write(&mut self, line: &Line) -> Result<(), Failed> {
        self.journal.write(line).map_err(|e| (self.journal.path.clone(), e))
    }
}
