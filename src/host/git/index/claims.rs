//! Checks of names and folder ids in an index. git writes no false ones, but reads them unchecked.

use std::collections::HashMap;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{FILE_TYPE, FOLDER, HashKind, INTENT_TO_ADD, Index, IndexCursor, STAT};
use crate::host::long_path::LONGEST;

const SYMLINK: u32 = 0o120_000;

impl Index {
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.name_of(entry))
    }

    /// A name in the index that git refuses to add to one (`verify_path` in git). git does not
    /// check names when it reads an index, so with such a name `git checkout .` writes outside of
    /// the work tree, or into `.git`.
    pub(crate) fn refused_name(&self) -> Option<&[u8]> {
        let is_part = self.shared_file().is_some();
        // An entry without a name changes an entry of the shared file.
        let entries = self.entries.iter().filter(|entry| !(is_part && entry.name.is_empty()));
        entries.map(|entry| (self.name_of(entry), entry.mode)).find(|(name, mode)| is_refused(name, *mode)).map(|f| f.0)
    }

    /// Whether the folder ids in the extension `TREE` match the entries. `git commit` uses such an
    /// id as the content of the folder. The ids in a split index are not compared.
    pub(crate) fn has_true_trees(&self) -> bool {
        let tables: Vec<&[u8]> =
            self.extensions().flatten().filter(|(name, _)| *name == b"TREE").map(|found| found.1).collect();
        if tables.is_empty() || self.shared_file().is_some() {
            return true;
        }
        let Some(trees) = self.trees() else { return false };
        tables.into_iter().all(|table| agrees(table, &trees, self.hash_kind.length()).unwrap_or(false))
    }

    /// The folders of the entries, by their paths with a slash at the end. `None` if the entries
    /// are not sorted, or if a path is longer than any that git can use.
    fn trees(&self) -> Option<HashMap<&[u8], Tree>> {
        let mut closed = HashMap::new();
        let mut open = vec![OpenTree::default()];
        for entry in &self.entries {
            let name = self.name_of(entry);
            let is_folder = entry.mode & FILE_TYPE == FOLDER;
            let file = if is_folder { name.strip_suffix(b"/")? } else { name };
            if name.len() > LONGEST {
                return None;
            }
            while !name.starts_with(open.last()?.path) {
                close(self.hash_kind, &mut open, &mut closed)?;
            }
            while let Some(slash) = file.get(open.last()?.path.len()..)?.iter().position(|byte| *byte == b'/') {
                let path = &name[..open.last()?.path.len() + slash + 1];
                open.push(OpenTree { path, ..OpenTree::default() });
            }
            let id = self.bytes.get(entry.start + STAT..)?.get(..self.hash_kind.length())?;
            let around = open.last_mut()?;
            around.add(entry.mode, file.get(around.path.len()..)?, id);
            around.count += 1;
            // git stores no id for the folders that contain such an entry.
            around.has_none |= entry.stage != 0 || entry.extended_flags & INTENT_TO_ADD != 0;
            if is_folder && closed.insert(name, Tree { count: 1, id: Some(id.to_vec()) }).is_some() {
                return None;
            }
        }
        while !open.is_empty() {
            close(self.hash_kind, &mut open, &mut closed)?;
        }
        Some(closed)
    }
}

fn is_refused(name: &[u8], mode: u32) -> bool {
    let kind = mode & FILE_TYPE;
    let path = if kind == FOLDER { name.strip_suffix(b"/").unwrap_or(name) } else { name };
    path.split(|byte| *byte == b'/').any(|component| {
        matches!(component, b"" | b"." | b"..")
            || component.split(|byte| *byte == b'\\').any(is_dot_git)
            || kind == SYMLINK && component.eq_ignore_ascii_case(b".gitmodules")
    })
}

/// Whether a file system may treat the name as `.git`, as NTFS does (`is_ntfs_dotgit` in git).
fn is_dot_git(name: &[u8]) -> bool {
    let rest = [&b".git"[..], b"git~1"].into_iter().find_map(|known| {
        let (first, rest) = name.split_at_checked(known.len())?;
        first.eq_ignore_ascii_case(known).then_some(rest)
    });
    rest.is_some_and(|rest| rest.iter().take_while(|byte| **byte != b':').all(|byte| matches!(byte, b' ' | b'.')))
}

/// A folder of the index.
struct Tree {
    /// The number of entries below it.
    count: usize,
    id: Option<Vec<u8>>,
}

/// A folder whose entries are not all read yet.
#[derive(Default)]
struct OpenTree<'i> {
    path: &'i [u8],
    content: Vec<u8>,
    count: usize,
    has_none: bool,
}

impl OpenTree<'_> {
    fn add(&mut self, mode: u32, name: &[u8], id: &[u8]) {
        self.content.extend(format!("{mode:o} ").into_bytes());
        self.content.extend([name, b"\0", id].concat());
    }
}

/// Computes the id of the last folder of `open`, and moves the folder to `closed`.
fn close<'i>(kind: HashKind, open: &mut Vec<OpenTree<'i>>, closed: &mut HashMap<&'i [u8], Tree>) -> Option<()> {
    let OpenTree { path, content, count, has_none } = open.pop()?;
    let header = format!("tree {}\0", content.len());
    let id = match kind {
        HashKind::Sha1 => Sha1::new().chain_update(header).chain_update(content).finalize().to_vec(),
        HashKind::Sha256 => Sha256::new().chain_update(header).chain_update(content).finalize().to_vec(),
    };
    if let Some(around) = open.last_mut() {
        let name = path.strip_suffix(b"/")?.get(around.path.len()..)?;
        around.add(FOLDER, name, &id);
        around.count += count;
        around.has_none |= has_none;
    }
    let is_new = closed.insert(path, Tree { count, id: (!has_none).then_some(id) }).is_none();
    is_new.then_some(())
}

/// Whether each id in the extension `TREE` matches its folder in `trees`. The extension is a list
/// of nodes: a name, the number of entries, the number of child nodes, and an id unless the first
/// number is negative.
fn agrees(table: &[u8], trees: &HashMap<&[u8], Tree>, length: usize) -> Option<bool> {
    let mut cursor = IndexCursor { bytes: table, at: 0 };
    let mut path = Vec::new();
    // For each enclosing node: the length of its path, and the number of child nodes left to read.
    let mut around: Vec<(usize, usize)> = Vec::new();
    loop {
        let name = cursor.until_nul()?;
        if let Some((start, left)) = around.last_mut() {
            *left -= 1;
            path.truncate(*start);
            path.extend([name, b"/"].concat());
        }
        let line = cursor.bytes.get(cursor.at..)?;
        let line = &line[..line.iter().position(|byte| *byte == b'\n')?];
        cursor.at += line.len() + 1;
        let (count, nodes) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        if path.len() > LONGEST || around.is_empty() && !name.is_empty() {
            return Some(false);
        }
        if !count.starts_with('-') {
            let tree = trees.get(&*path)?;
            if count.parse() != Ok(tree.count) || tree.id.as_deref() != Some(cursor.take(length)?) {
                return Some(false);
            }
        }
        around.push((path.len(), nodes.parse().ok()?));
        while around.pop_if(|(_, left)| *left == 0).is_some() {}
        if around.is_empty() {
            return Some(cursor.at == table.len());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::host::git::index;
    use crate::host::git::tests::fixture::Fixture;

    // SPEC R16
    #[test]
    fn a_name_is_refused_where_git_says_so() {
        let bad = [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "./a",
            "a/./b",
            "..",
            "../a",
            "a/..",
            ".git",
            ".GIT/config",
            "a/.Git/x",
            "git~1/config",
            "GIT~1",
            ".git ",
            ".git. ./x",
            ".git:x/y",
            "a\\.git\\x",
            ".git\\x",
        ];
        for name in bad {
            assert!(is_refused(name.as_bytes(), 0o100_644), "{name:?}");
        }
        for name in
            ["a", ".gita", "git", ".gitmodules", "...", "a/..b", ".github/x", "git~2", ".git~1", "a\\b", ".gitx "]
        {
            assert!(!is_refused(name.as_bytes(), 0o100_644), "{name:?}");
        }
        assert!(is_refused(b"a/.GitModules", SYMLINK));
        assert!(!is_refused(b"sparse/", FOLDER) && is_refused(b"sparse//", FOLDER));
    }

    fn index_of(fixture: &Fixture) -> Index {
        let git_dir = fixture.abs("repo/.git");
        let mut parts = index::parts(&Host::system(), &git_dir, &git_dir).unwrap().unwrap();
        parts.swap_remove(0)
    }

    // SPEC R16
    #[test]
    fn the_trees_of_git_are_true_in_every_state_and_others_are_not() {
        for format in ["sha1", "sha256"] {
            let fixture = Fixture::new();
            fixture.init("repo", &["--object-format", format]);
            let git = |arguments: &[&str]| fixture.git("repo", arguments);
            let check = |state: &str| assert!(index_of(&fixture).has_true_trees(), "{format}, {state}");
            for name in ["a-b", "a.b/x", "a/b/c/d", "a/b/e", "a0/x", "z/y/x", "ab", "z/link"] {
                fixture.write(&format!("repo/{name}"), name);
            }
            git(&["add", "."]);
            git(&["commit", "-qm", "two"]);
            check("committed");
            fixture.write("repo/a/b/e", "changed");
            git(&["add", "."]);
            check("a part is not valid");
            fixture.write("repo/z/new", "");
            git(&["add", "-N", "z/new"]);
            git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},a/sub", git(&["rev-parse", "HEAD"]))]);
            git(&["write-tree"]);
            check("with an intention and a submodule");
            git(&["commit", "-qam", "three"]);
            git(&["mv", "a", "moved"]);
            git(&["rm", "-qr", "z"]);
            git(&["write-tree"]);
            check("moved and removed");
            git(&["update-index", "--index-version", "4"]);
            check("version 4");
            git(&["reset", "-q", "--hard"]);
            git(&["sparse-checkout", "set", "--cone", "--sparse-index", "a.b"]);
            assert!(index_of(&fixture).names().any(|name| name == b"a/"));
            check("sparse");
            git(&["sparse-checkout", "disable"]);
            git(&["checkout", "-q", "-b", "other", "HEAD~1"]);
            fixture.write("repo/a/b/c/d", "theirs");
            git(&["commit", "-qam", "theirs"]);
            git(&["checkout", "-q", "main"]);
            fixture.write("repo/a/b/c/d", "ours");
            git(&["commit", "-qam", "ours"]);
            assert!(
                !std::process::Command::new("git")
                    .args(["merge", "-q", "other"])
                    .env("HOME", fixture.real(""))
                    .current_dir(fixture.real("repo"))
                    .output()
                    .unwrap()
                    .status
                    .success()
            );
            check("unmerged");
            git(&["reset", "-q", "--hard"]);

            let index = index_of(&fixture);
            let at = index.bytes.windows(4).position(|found| found == b"TREE").unwrap();
            let id = index.bytes[at..].iter().position(|byte| *byte == b'\n').unwrap() + at + 1;
            let with = |change: &dyn Fn(&mut Vec<u8>)| {
                let mut bytes = index.bytes.clone();
                change(&mut bytes);
                Index::parse(bytes, index.hash_kind).unwrap().has_true_trees()
            };
            assert!(with(&|_| {}));
            assert!(!with(&|bytes| bytes[id] ^= 1), "the root");
            assert!(!with(&|bytes| bytes[at + 9] += 1), "its number of entries");
            let last = index.bytes[at..].windows(3).rposition(|found| found == b" 0\n").unwrap() + at + 3;
            assert!(!with(&|bytes| bytes[last] ^= 1), "the last folder");
            assert!(!with(&|bytes| bytes[index.entries[0].start + STAT] ^= 1), "a file");
        }
    }
}
