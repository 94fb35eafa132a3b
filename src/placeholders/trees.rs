//! Placeholders that are made together: one in an existing folder, with all that belongs into it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use crate::compile::placeholder::Item;
use crate::host::Host;
use crate::host::identity::Identity;
use crate::host::journal::{Intent, Record, TEMPORARY};
use crate::host::nofollow::{Folders, look};
use crate::policy::path::AbsPath;

use super::parked::{Found, Parked};
use super::place;
use super::removal;
use super::run_placeholders::Failed;

/// Something to make in an existing folder, with all that belongs into it.
pub(crate) struct Tree<'i> {
    temporary: AbsPath,
    items: Vec<&'i Item>,
}

/// Groups the items, parents first, by the outermost that has to be made.
pub(crate) fn trees<'i>(host: &Host, missing: &[&'i Item], tag: &str) -> Result<Vec<Tree<'i>>, Failed> {
    let mut trees: BTreeMap<AbsPath, Tree<'i>> = BTreeMap::new();
    for item in missing {
        let around = item.path.ancestors().skip(1).find(|ancestor| trees.contains_key(ancestor));
        if let Some(tree) = around.and_then(|top| trees.get_mut(&top)) {
            tree.items.push(item);
            continue;
        }
        match look(host, &item.path) {
            Ok(None) => {
                let name = format!("{TEMPORARY}{tag}-{}", trees.len());
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
    pub(crate) fn top(&self) -> &AbsPath {
        &self.items[0].path
    }

    pub(crate) fn intent(&self) -> Intent {
        let inside = self
            .items
            .iter()
            .filter_map(|item| Some((item.path.relative_to(self.top())?.to_path_buf(), item.content.is_none())));
        Intent::new(&self.temporary, inside)
    }

    pub(crate) fn make(&self, host: &Host, records: &mut Vec<Record>, folders: &mut Folders) -> Result<(), Failed> {
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
    pub(crate) fn place(
        &self,
        host: &Host,
        records: &mut Vec<Record>,
        held: &mut Vec<OwnedFd>,
        folders: &mut Folders,
    ) -> Result<(), Failed> {
        let top = self.top();
        let failed = |e: io::Error| (top.clone(), e);
        match place::put_in_place(host, &self.temporary, top, folders) {
            Ok(()) => self.hold(host, records, held).map_err(failed),
            // The same as if it had been there before.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.forget(records);
                self.remove_temporary(host);
                Ok(())
            }
            // A file system that cannot move without replacing: the next best is to make it in place.
            Err(e) if place::is_unsupported(&e) => {
                self.forget(records);
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

    /// Moves to where it belongs what has stood there before. `None` if it has to be made.
    pub(crate) fn put(
        &self,
        host: &Host,
        (parked, found): (&Parked, &Found),
        records: &mut Vec<Record>,
        held: &mut Vec<OwnedFd>,
        folders: &mut Folders,
    ) -> Result<Option<()>, Failed> {
        match parked.put(found, host, self.items[0], folders) {
            Ok(()) => self.hold(host, records, held).map(Some).map_err(|e| (self.top().clone(), e)),
            Err(e) => {
                self.forget(records);
                // The same as if it had been there before.
                Ok((e.kind() == io::ErrorKind::AlreadyExists).then_some(()))
            }
        }
    }

    /// The only thing there is to put up, if it can be kept after the run and used again.
    pub(crate) fn alone(&self) -> Option<&Item> {
        match self.items[..] {
            [item] if !item.is_parent => Some(item),
            _ => None,
        }
    }

    /// Keeps what stands, if it is what was moved there: a command of another run may have been faster than the rename.
    fn hold(&self, host: &Host, records: &[Record], held: &mut Vec<OwnedFd>) -> io::Result<()> {
        let stands = place::hold(host, self.top())?;
        let found = rustix::fs::fstat(&stands)?;
        let expected = records.iter().find(|record| record.path().as_ref() == Some(self.top()));
        if expected.map(|record| record.identity) != Some(Identity::of_stat(&found)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        held.push(stands);
        let inside = self.items.iter().skip(1);
        held.extend(inside.filter_map(|item| place::hold(host, &item.path).ok()));
        Ok(())
    }

    fn forget(&self, records: &mut Vec<Record>) {
        records.retain(|record| !record.path().is_some_and(|path| path.is_within(self.top())));
    }

    fn remove_temporary(&self, host: &Host) {
        // What stays is in the journal.
        removal::remove_temporary(host, &[self.intent()]);
    }
}
