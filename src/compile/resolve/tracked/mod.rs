//! Finds the files that the git index holds with exactly the content that they have now (SPEC P6).
//!
//! A tracked file is left unmasked, so a wrong `true` shows a secret. The sandboxed command may
//! have written the index, and the `.git` that leads to it, so neither is trusted. The content is
//! the proof:
//!
//! - To name the blob of a file, the command must know the hash of its content. It learns the hash
//!   from the content, or from a repository that has the content; then unmasking the file tells it
//!   nothing new. Another content with the same hash does not help: the entry must match the file,
//!   which the command did not write.
//! - A forged `.git` file leads to another index, but the proof is the same. So a `.git` file
//!   needs no back-pointer.
//! - A match that the command guessed confirms the guess, at the cost of one start of the sandbox
//!   for each guess and file. An index that holds a name twice would let a command test many
//!   guesses at once, so it is refused. A mask does not keep a secret that is short enough to be
//!   guessed that way.
//! - The bytes are compared without git's filters. With git-crypt the index holds the cipher text
//!   and the work tree the plain text; they differ, and the file stays masked.
//! - A limit: the command may know the full hash of a content that it does not know (a hash printed
//!   somewhere, a partial clone without that blob). An abbreviated hash is not enough.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::host::git::index::{self, HashKind, Index};
use crate::host::git::nested::{common_dir_of, git_dir_in};
use crate::host::{FileKind, Host};
use crate::policy::AbsPath;

/// The largest file that is hashed. Larger files stay masked.
const LARGEST_FILE: u64 = 16 << 20;

fn blob_id(kind: HashKind, content: &[u8]) -> Vec<u8> {
    let header = format!("blob {}\0", content.len());
    match kind {
        HashKind::Sha1 => Sha1::new().chain_update(header).chain_update(content).finalize().to_vec(),
        HashKind::Sha256 => Sha256::new().chain_update(header).chain_update(content).finalize().to_vec(),
    }
}

/// Reads the index of each repository once.
pub(crate) struct TrackedFiles<'h> {
    host: &'h Host,
    /// The indexes by work tree. `None` if the index of a repository is of no use.
    indexes: BTreeMap<AbsPath, Option<Index>>,
}

impl<'h> TrackedFiles<'h> {
    pub(crate) fn new(host: &'h Host) -> Self {
        Self { host, indexes: BTreeMap::new() }
    }

    /// Whether the index of the nearest repository around `path` has it as a regular file with its
    /// present content. `path` holds no symlinks.
    ///
    /// Returns `false` in every doubtful case: no repository, an index that cannot be read or
    /// understood, a symlink on the way, an entry that is unmerged, skipped in the work tree or
    /// only intended.
    pub(crate) fn holds(&mut self, path: &AbsPath) -> bool {
        self.is_held(path).unwrap_or(false)
    }

    /// Whether the index of the nearest repository has a plain entry for `path`, merged and meant
    /// to be in the work tree. Its content does not matter. Use the answer for advice only.
    pub(crate) fn names(&mut self, path: &AbsPath) -> bool {
        self.entry(path).is_ok_and(|entry| entry.is_some())
    }

    /// Whether the index of the nearest repository could be read, and has no entry of any kind for
    /// `path`.
    pub(crate) fn lacks(&mut self, path: &AbsPath) -> bool {
        let found = self.index_around(path);
        found.is_ok_and(|found| found.is_some_and(|(index, name)| !index.has(&name)))
    }

    /// The plain entries at `path` and below it, with their blobs: at most `most`. The entries
    /// below are from the index of the nearest repository around `path` itself.
    pub(crate) fn blobs_within(&mut self, path: &AbsPath, most: usize) -> Vec<(AbsPath, Vec<u8>)> {
        let Ok(Some((index, name))) = self.index_around(path) else { return Vec::new() };
        let itself = index.blob_id(&name).map(|blob| (path.clone(), blob.to_vec()));
        let below = index.blobs_below(&name).filter_map(|(below, blob)| {
            let rest = below.get(name.len() + 1..).filter(|rest| !rest.is_empty())?;
            Some((path.join(OsStr::from_bytes(rest)), blob.to_vec()))
        });
        itself.into_iter().chain(below).take(most).collect()
    }

    /// Whether the file at `path` has the content of this blob.
    pub(crate) fn has_content(&mut self, path: &AbsPath, blob: &[u8]) -> bool {
        let host = self.host;
        let Ok(Some((index, _))) = self.index_around(path) else { return false };
        let content = host.read_regular(path, LARGEST_FILE);
        content.is_ok_and(|content| content.is_some_and(|content| blob_id(index.hash_kind, &content) == blob))
    }

    fn is_held(&mut self, path: &AbsPath) -> io::Result<bool> {
        let resolved = self.host.resolve(path.as_path())?;
        if !resolved.links.is_empty() || resolved.kind != Some(FileKind::File) {
            return Ok(false);
        }
        let host = self.host;
        let Some((kind, id)) = self.entry(path)? else { return Ok(false) };
        let Some(content) = host.read_regular(path, LARGEST_FILE)? else { return Ok(false) };
        Ok(blob_id(kind, &content) == id)
    }

    /// The blob that the index of the nearest repository has for `path`.
    fn entry(&mut self, path: &AbsPath) -> io::Result<Option<(HashKind, &[u8])>> {
        let Some((index, name)) = self.index_around(path)? else { return Ok(None) };
        Ok(index.blob_id(&name).map(|id| (index.hash_kind, id)))
    }

    /// The index of the nearest repository around `path`, and the name of `path` in this index.
    fn index_around(&mut self, path: &AbsPath) -> io::Result<Option<(&Index, Vec<u8>)>> {
        let Some(work_tree) = self.work_tree_around(path)? else { return Ok(None) };
        let Some(name) = path.relative_to(&work_tree).map(|name| name.as_os_str().as_bytes().to_vec()) else {
            return Ok(None);
        };
        let host = self.host;
        let index =
            self.indexes.entry(work_tree).or_insert_with_key(|work_tree| read_index(host, work_tree).ok().flatten());
        Ok(index.as_ref().map(|index| (index, name)))
    }

    /// The nearest directory above `path` with anything named `.git`, valid or not. A broken
    /// `.git` is a doubt, and a repository further up tracks no file of a repository below it.
    fn work_tree_around(&self, path: &AbsPath) -> io::Result<Option<AbsPath>> {
        for folder in path.ancestors().skip(1) {
            if self.host.exists(&folder.child(".git"))? {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }
}

fn read_index(host: &Host, work_tree: &AbsPath) -> io::Result<Option<Index>> {
    let Some((git_dir, _)) = git_dir_in(host, work_tree)? else { return Ok(None) };
    index::read(host, &git_dir, &common_dir_of(host, &git_dir)?)
}

#[cfg(test)]
mod tests;
