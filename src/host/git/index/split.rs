//! The entries of a split index (`link` in gitformat-index(5)): one file holds changes to another.

use super::{Index, IndexCursor};

const WORD: usize = u64::BITS as usize;

impl Index {
    /// Calls `on_hidden` with the name of each file whose changes git does not show, in this file
    /// or in the `shared` one. `None` if git refuses the changes.
    pub(super) fn hidden_in_split(&self, shared: &Index, on_hidden: &mut dyn FnMut(&[u8])) -> Option<()> {
        let [deleted, replaced] = self.changes(shared.entries.len())?;
        // The first entries of this file replace entries of `shared` and get their names.
        if replaced.len() > self.entries.len() {
            return None;
        }
        let (replacing, added) = self.entries.split_at(replaced.len());
        if replacing.iter().any(|entry| !entry.name.is_empty()) || added.iter().any(|entry| entry.name.is_empty()) {
            return None;
        }
        let mut is_shared = vec![true; shared.entries.len()];
        deleted.iter().chain(&replaced).for_each(|position| is_shared[*position] = false);
        let unchanged = shared.entries.iter().zip(&is_shared).filter(|(_, is_shared)| **is_shared);
        let unchanged = unchanged.map(|(entry, _)| (shared.name_of(entry), entry));
        let replaced = replaced.iter().zip(replacing).map(|(at, entry)| (shared.name_of(&shared.entries[*at]), entry));
        let added = added.iter().map(|entry| (self.name_of(entry), entry));
        for (name, _) in unchanged.chain(replaced).chain(added).filter(|(_, entry)| entry.hides_a_file()) {
            on_hidden(name);
        }
        Some(())
    }

    /// The positions of the deleted and of the replaced entries in the shared file, which has
    /// `count` entries.
    fn changes(&self, count: usize) -> Option<[Vec<usize>; 2]> {
        let (_, link) = self.extensions().flatten().filter(|(name, _)| *name == b"link").last()?;
        let mut cursor = IndexCursor { bytes: link, at: self.hash_kind.length() };
        if cursor.at == link.len() {
            return Some(Default::default());
        }
        let changes = [cursor.bitmap(count)?, cursor.bitmap(count)?];
        (cursor.at == link.len()).then_some(changes)
    }
}

impl IndexCursor<'_> {
    /// The numbers below `count` that a compressed bitmap holds (`ewah/ewah_bitmap.c` in git). A
    /// marker word gives the number of equal words and the number of literal words that follow.
    fn bitmap(&mut self, count: usize) -> Option<Vec<usize>> {
        self.be32()?;
        let words = self.size()?;
        let (words, _) = self.take(words.checked_mul(8)?)?.as_chunks();
        self.be32()?;
        let mut words = words.iter().copied().map(u64::from_be_bytes);
        let (mut found, mut at) = (Vec::new(), 0_usize);
        while let Some(word) = words.next() {
            let end = at.checked_add(usize::try_from(word >> 1 & 0xffff_ffff).ok()?.checked_mul(WORD)?)?;
            if word & 1 == 1 {
                if end > count {
                    return None;
                }
                found.extend(at..end);
            }
            at = end;
            for _ in 0..word >> 33 {
                let literal = words.next()?;
                found.extend((0..WORD).filter(|bit| literal >> bit & 1 == 1).map(|bit| at + bit));
                at = at.checked_add(WORD)?;
            }
        }
        found.iter().all(|position| *position < count).then_some(found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::host::git::index;
    use crate::host::git::tests::fixture::Fixture;

    // SPEC R11
    #[test]
    fn marks_in_a_split_index_have_the_names_that_git_gives_them() {
        let fixture = Fixture::new();
        fixture.init("repo", &[]);
        let git =
            |arguments: &[&str]| fixture.git("repo", &[&["-c", "splitIndex.maxPercentChange=100"], arguments].concat());
        let names: Vec<String> = (0..200).map(|number| format!("f{number:03}")).collect();
        for name in &names {
            fixture.write(&format!("repo/{name}"), name);
        }
        git(&["add", "."]);
        git(&["update-index", "--skip-worktree", "f003", "f004", "f005"]);
        git(&["update-index", "--split-index"]);
        let git_dir = fixture.abs("repo/.git");
        let check = |state: &str| {
            let mut hidden = Vec::new();
            let mut note = |name: &[u8]| hidden.push(String::from_utf8(name.to_vec()).unwrap());
            let found = index::submodules(&Host::system(), &git_dir, &git_dir, &mut note).unwrap();
            assert!(found.is_some(), "{state}");
            hidden.sort();
            let listed = git(&["ls-files", "-v"]);
            // `H` is an ordinary file.
            let expected: Vec<&str> =
                listed.lines().filter(|line| !line.starts_with('H')).map(|line| &line[2..]).collect();
            assert_eq!(hidden, expected, "{state}");
            assert!(!hidden.is_empty(), "{state}");
        };
        check("nothing has changed");
        git(&["update-index", "--skip-worktree", "f000", "f100"]);
        git(&["update-index", "--assume-unchanged", "f199"]);
        check("marked");
        git(&["update-index", "--no-skip-worktree", "f003"]);
        git(&["rm", "-q", "--cached", "--sparse", "f004"]);
        fixture.write("repo/new", "new");
        git(&["add", "new"]);
        git(&["update-index", "--assume-unchanged", "new"]);
        check("unmarked, deleted and added");
        let others: Vec<&str> = names[50..190].iter().map(String::as_str).collect();
        git(&[&["update-index", "--assume-unchanged"], &others[..]].concat());
        check("a run of whole words");
    }

    // SPEC R11
    #[test]
    fn changes_that_git_refuses_are_none() {
        let bitmap = |words: &[u64]| {
            let count = u32::try_from(words.len()).unwrap();
            let mut bytes = [64_u32.to_be_bytes(), count.to_be_bytes()].concat();
            bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            bytes.extend([0; 4]);
            bytes
        };
        let read = |bytes: &[u8], count| IndexCursor { bytes, at: 0 }.bitmap(count);
        let literal = 1 << 33;
        assert_eq!(read(&bitmap(&[literal, 0b101]), 3), Some(vec![0, 2]));
        assert_eq!(read(&bitmap(&[literal, 0b101]), 2), None);
        assert_eq!(read(&bitmap(&[1 << 1 | literal, 1]), 65), Some(vec![64]));
        assert_eq!(read(&bitmap(&[1 << 1 | 1]), 64), Some((0..64).collect()));
        assert_eq!(read(&bitmap(&[1 << 1 | 1]), 63), None);
        assert_eq!(read(&bitmap(&[u64::MAX]), 100), None);
        assert_eq!(read(&bitmap(&[literal]), 100), None);
        let bytes = bitmap(&[literal, 1]);
        assert_eq!(read(&bytes[..bytes.len() - 1], 100), None);
    }
}
