//! Files whose changes git does not show: the index marks them `assume-unchanged` or
//! `skip-worktree`.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, LazyLock};

use crate::policy::path::AbsPath;

/// New files that are looked at after a run. A command can name millions that do not exist.
const MOST_NEW: usize = 100_000;

/// A sparse checkout may have millions of such files, so only a hash of each is remembered. The
/// command does not know the key, and finds no two names with one hash.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenFiles {
    /// The hashes of all of them, or of those at the start of the run that has ended.
    known: Arc<HashSet<u64>>,
    /// Whether this is a search after a run.
    compares: bool,
    /// The files that were not hidden at the start.
    pub new: BTreeSet<AbsPath>,
    /// Whether there are more new ones.
    pub has_more: bool,
}

impl HiddenFiles {
    /// An empty collection, to be filled after a run and compared with this one.
    pub(super) fn to_compare(&self) -> Self {
        Self { known: Arc::clone(&self.known), compares: true, ..Self::default() }
    }

    pub(super) fn add(&mut self, work_tree: &AbsPath, name: &[u8]) {
        let hash = KEY.hash_one((work_tree.as_os_str(), name));
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
    fn no_number_of_names_keeps_a_new_one_unseen() {
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
