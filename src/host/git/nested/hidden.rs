//! Files whose changes git does not show: the index marks them `assume-unchanged` or
//! `skip-worktree`.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::policy::path::AbsPath;

/// The largest number of new files that are recorded after a run. A command can name millions that
/// do not exist.
const MOST_NEW: usize = 100_000;

/// A sparse checkout may have millions of such files, so only a hash of each is remembered.
type NameHash = [u8; 16];

fn hash_of(work_tree: &AbsPath, name: &[u8]) -> NameHash {
    let hash = Sha256::new().chain_update(work_tree.bytes()).chain_update(b"\0").chain_update(name).finalize();
    hash.first_chunk().copied().unwrap_or_default()
}

/// Overlapping runs compare their hidden files only if there are no more of them than this.
const MOST_COMPARED: usize = 100_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenFiles {
    /// The hashes of all hidden files. For a search after a run, the hashes of the files that were
    /// hidden at its start.
    known: Arc<HashSet<NameHash>>,
    /// Whether this is a search after a run.
    compares: bool,
    /// The files that were not hidden at the start.
    pub new: BTreeSet<AbsPath>,
    /// Whether there are more new files than `new` holds.
    pub has_more: bool,
}

impl HiddenFiles {
    /// An empty collection, to be filled after a run and compared with this one.
    pub(super) fn to_compare(&self) -> Self {
        Self { known: Arc::clone(&self.known), compares: true, ..Self::default() }
    }

    /// Forgets files that were hidden at the start, except those for which `keep` returns true.
    pub(crate) fn retain_known(&mut self, keep: &mut dyn FnMut(&NameHash) -> bool) {
        if self.known.len() <= MOST_COMPARED {
            Arc::make_mut(&mut self.known).retain(keep);
        }
    }

    pub(super) fn add(&mut self, work_tree: &AbsPath, name: &[u8]) {
        let hash = hash_of(work_tree, name);
        if !self.compares {
            Arc::make_mut(&mut self.known).insert(hash);
        } else if !self.known.contains(&hash) {
            if self.new.len() < MOST_NEW {
                self.new.insert(work_tree.join(OsStr::from_bytes(name)));
            } else {
                self.has_more = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command can name any number of files that do not exist, and one that does.
    // SPEC R11
    #[test]
    fn a_new_hidden_file_is_found_among_any_number_of_names() {
        let root = AbsPath::root();
        let mut before = HiddenFiles::default();
        for number in 0..20_000 {
            before.add(&root, format!("sparse/{number}").as_bytes());
        }
        let mut now = before.to_compare();
        for number in 0..20_000 {
            now.add(&root, format!("sparse/{number}").as_bytes());
            now.add(&root, format!("phantom/{number}").as_bytes());
        }
        now.add(&root, b"real");
        assert_eq!((now.new.len(), now.has_more), (20_001, false));
        assert!(now.new.contains(&root.child("real")));
        for number in 20_000..=MOST_NEW {
            now.add(&root, format!("phantom/{number}").as_bytes());
        }
        assert!(now.has_more);
    }
}
