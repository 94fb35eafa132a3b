//! A limit for the total size of git's files that this process reads.

use std::collections::HashMap;

use crate::policy::AbsPath;

/// The largest total size. An index with a million files has 100 MB. Its parsed form takes up to
/// three times as much.
const MOST_BYTES: u64 = 256 << 20;

/// Each file counts once, with the greatest size that was seen. So the files that were read at the
/// start of a run can be read again at its end, even if the command has added others.
#[derive(Default)]
pub(super) struct ByteBudget {
    sizes: HashMap<AbsPath, u64>,
    spent: u64,
}

impl ByteBudget {
    /// Adds the size of the file at `path`. Returns whether the file may be read.
    pub(super) fn pay(&mut self, path: &AbsPath, size: u64) -> bool {
        let known = self.sizes.get(path).copied().unwrap_or_default();
        let spent = self.spent.saturating_add(size.saturating_sub(known));
        if spent > MOST_BYTES {
            return false;
        }
        if size > known {
            self.spent = spent;
            self.sizes.insert(path.clone(), size);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC R5
    #[test]
    fn a_file_counts_once_and_all_files_have_a_limit() {
        let mut budget = ByteBudget::default();
        let [known, large, other] = ["known", "large", "other"].map(|name| AbsPath::root().child(name));
        assert!(budget.pay(&known, 10) && budget.pay(&large, MOST_BYTES - 10) && budget.pay(&known, 10));
        assert!(!budget.pay(&other, 1) && !budget.pay(&known, 11) && !budget.pay(&other, u64::MAX));
        assert!(budget.pay(&known, 9) && budget.pay(&large, MOST_BYTES - 10));
    }
}
