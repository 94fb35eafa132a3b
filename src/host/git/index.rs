//! The git index file: names, blob ids and submodules (gitformat-index(5), versions 2 to 4).
//!
//! The checksum at the end is not verified: a command that can write the file can write a checksum,
//! and a damaged entry cannot match the content of a file.

mod claims;
mod split;

use std::ffi::CStr;
use std::io;
use std::ops::Range;

use super::{config, read_small};
use crate::host::Host;
use crate::policy::path::AbsPath;

/// The largest index that is read. The index of a repository with a million files has about 100 MB.
const LARGEST_INDEX: u64 = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashKind {
    Sha1,
    Sha256,
}

impl HashKind {
    pub(crate) fn length(self) -> usize {
        match self {
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
        }
    }

    /// The object format in the settings of `common_dir`; `None` if the format is unknown.
    fn of(host: &Host, common_dir: &AbsPath) -> io::Result<Option<Self>> {
        let settings = read_small(host, &common_dir.child("config"))?.unwrap_or_default();
        Ok(match config::last_value(&settings, "extensions", "objectformat")?.as_deref() {
            None | Some(b"sha1") => Some(HashKind::Sha1),
            Some(b"sha256") => Some(HashKind::Sha256),
            Some(_) => None,
        })
    }
}

/// The index in `git_dir`; `None` if there is no index, or if anything in it is not understood.
pub(crate) fn read(host: &Host, git_dir: &AbsPath, common_dir: &AbsPath) -> io::Result<Option<Index>> {
    let Some(hash_kind) = HashKind::of(host, common_dir)? else { return Ok(None) };
    let bytes = host.read_git_file(&git_dir.child("index"), LARGEST_INDEX)?;
    Ok(bytes.and_then(|bytes| Index::parse(bytes, hash_kind)))
}

/// The submodules that an index names.
#[derive(Default)]
pub(crate) struct IndexedSubmodules {
    /// The names of all submodules, and perhaps of some other entries.
    pub(crate) names: Vec<Vec<u8>>,
    /// Folders that a sparse index stores as one entry each. Their content is not in the index.
    pub(crate) folders: Vec<Vec<u8>>,
}

impl IndexedSubmodules {
    fn add(&mut self, index: &Index, name_all: bool) {
        for entry in &index.entries {
            let name = index.name_of(entry);
            if name_all || entry.mode & FILE_TYPE == SUBMODULE {
                self.names.push(name.to_vec());
            }
            if entry.mode & FILE_TYPE == FOLDER {
                self.folders.push(name.to_vec());
            }
        }
    }
}

/// The submodules in the index of `git_dir`; `None` if the index is not understood. This accepts
/// some indexes that git refuses. It reads each index that git accepts as git does. `on_hidden`
/// gets each file that is marked `assume-unchanged` or `skip-worktree`.
pub(crate) fn submodules(
    host: &Host,
    git_dir: &AbsPath,
    common_dir: &AbsPath,
    on_hidden: &mut dyn FnMut(&[u8]),
) -> io::Result<Option<IndexedSubmodules>> {
    let mut found = IndexedSubmodules::default();
    let index = git_dir.child("index");
    let Some(bytes) = host.noting_closed(index.as_path(), host.read_git_file(&index, LARGEST_INDEX))? else {
        return Ok(Some(found));
    };
    let Some(hash_kind) = HashKind::of(host, common_dir)? else { return Ok(None) };
    let part = |bytes| Index::parse_part(bytes, hash_kind).filter(Index::has_true_tables);
    let Some(index) = part(bytes) else { return Ok(None) };
    found.add(&index, false);
    if let Some(shared) = index.shared_file() {
        let bytes = host.read_git_file(&git_dir.child(shared), LARGEST_INDEX)?;
        let Some(shared) = bytes.and_then(part) else { return Ok(None) };
        if index.hidden_in_split(&shared, on_hidden).is_none() {
            return Ok(None);
        }
        // An entry without a name replaces one in the shared file. A bitmap says which one. This
        // code assumes that it can be any of them.
        let replaces = found.names.iter().any(Vec::is_empty);
        found.add(&shared, replaces);
        found.names.retain(|name| !name.is_empty());
    } else {
        let hidden = index.entries.iter().filter(|entry| entry.hides_a_file());
        hidden.for_each(|entry| on_hidden(index.name_of(entry)));
    }
    Ok(Some(found))
}

/// The names of everything that an index tracks, and whether each is a submodule.
pub(crate) struct TrackedNames(Vec<(Vec<u8>, bool)>);

impl TrackedNames {
    /// Whether the index has an entry for `name`, for a path below it, or for one of its parent
    /// folders. An entry for a submodule does not count as a parent folder: a path below it
    /// belongs to the index of the submodule.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let is_within = |inner: &[u8], outer: &[u8]| {
            inner
                .strip_prefix(outer.strip_suffix(b"/").unwrap_or(outer))
                .is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        self.0
            .iter()
            .any(|(tracked, is_submodule)| is_within(tracked, name) || !is_submodule && is_within(name, tracked))
    }
}

/// The names in the index of `git_dir`. For a split index, they may include deleted names. `None`
/// if the index is not understood.
pub(crate) fn tracked_names(host: &Host, git_dir: &AbsPath, common_dir: &AbsPath) -> io::Result<Option<TrackedNames>> {
    let Some(parts) = parts(host, git_dir, common_dir)? else { return Ok(None) };
    let names = parts.iter().flat_map(|index| {
        let is_submodule = |entry: &IndexEntry| entry.mode & FILE_TYPE == SUBMODULE;
        index.entries.iter().map(move |entry| (index.name_of(entry).to_vec(), is_submodule(entry)))
    });
    // An entry without a name changes an entry of the shared file.
    Ok(Some(TrackedNames(names.filter(|(name, _)| !name.is_empty()).collect())))
}

/// The index in `git_dir`, and the shared file if it is split; `None` if anything in them is not
/// understood. The list is empty if there is no index.
pub(crate) fn parts(host: &Host, git_dir: &AbsPath, common_dir: &AbsPath) -> io::Result<Option<Vec<Index>>> {
    let Some(bytes) = host.read_git_file(&git_dir.child("index"), LARGEST_INDEX)? else { return Ok(Some(Vec::new())) };
    let Some(hash_kind) = HashKind::of(host, common_dir)? else { return Ok(None) };
    let part = |bytes| Index::parse_part(bytes, hash_kind).filter(Index::has_true_tables);
    let Some(index) = part(bytes) else { return Ok(None) };
    let mut parts = vec![index];
    if let Some(shared) = parts[0].shared_file() {
        let Some(shared) = host.read_git_file(&git_dir.child(shared), LARGEST_INDEX)?.and_then(part) else {
            return Ok(None);
        };
        parts.push(shared);
    }
    Ok(Some(parts))
}

/// Bytes from the start of an entry to its blob id: times, device, inode, mode, owner, size.
const STAT: usize = 40;
const MODE: usize = 24;
const FILE_TYPE: u32 = 0o170_000;
const SUBMODULE: u32 = 0o160_000;
const FOLDER: u32 = 0o040_000;

/// The largest total size of names. A small file of version 4 can spell terabytes of names, but no
/// real index comes near this limit.
const MOST_NAME_BYTES: usize = 256 << 20;

/// Bytes of the name and the length of an extension.
const EXTENSION_HEADER: usize = 8;

const ASSUME_UNCHANGED: u16 = 0x8000;
const STAGE: u16 = 0x3000;
const EXTENDED: u16 = 0x4000;
const NAME_LENGTH: u16 = 0x0fff;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

pub(crate) struct Index {
    pub(crate) hash_kind: HashKind,
    bytes: Vec<u8>,
    /// All names, one after the other: version 4 stores only how each differs from the previous
    /// one.
    names: Vec<u8>,
    entries: Vec<IndexEntry>,
    /// The offset at which the extensions start.
    entries_end: usize,
}

struct IndexEntry {
    start: usize,
    /// A range of `Index::names`.
    name: Range<usize>,
    /// Number of bytes at the start of the name that the previous name supplies (version 4).
    kept: usize,
    mode: u32,
    stage: u16,
    extended_flags: u16,
    /// Whether the entry is marked `assume-unchanged` or `skip-worktree`.
    is_hidden: bool,
}

impl IndexEntry {
    /// Whether git shows no change of this file.
    fn hides_a_file(&self) -> bool {
        self.is_hidden && self.mode & FILE_TYPE != FOLDER
    }

    /// Whether this is a regular file, merged, and meant to be in the work tree.
    fn is_plain(&self) -> bool {
        let is_elsewhere = self.extended_flags & (SKIP_WORKTREE | INTENT_TO_ADD) != 0;
        matches!(self.mode, 0o100_644 | 0o100_755) && self.stage == 0 && !is_elsewhere
    }
}

impl Index {
    /// `None` if anything in the file is not understood.
    pub(crate) fn parse(bytes: Vec<u8>, hash_kind: HashKind) -> Option<Self> {
        let index = Self::parse_part(bytes, hash_kind)?;
        // An entry without a name changes an entry of the shared file, see `shared_file`.
        let has_names = index.entries.iter().all(|entry| !entry.name.is_empty());
        // git keeps the entries sorted by name and stage, and refuses an index that is not.
        let order = |entry| (index.name_of(entry), entry.stage);
        let is_sorted = index.entries.is_sorted_by(|a, b| order(a) < order(b));
        // An extension that begins with a lower-case letter changes the meaning of the entries:
        // `link` says that another file has more entries. `sdir` says that some entries are whole
        // folders, for which `is_plain` is false.
        let is_understood = |name: &[u8]| name.first().is_some_and(u8::is_ascii_uppercase) || name == b"sdir";
        let is_readable = index.extensions().all(|found| found.is_some_and(|(name, _)| is_understood(name)));
        (has_names && is_sorted && is_readable).then_some(index)
    }

    /// Parses the entries of an index file, which may be one of the two files of a split index.
    fn parse_part(bytes: Vec<u8>, hash_kind: HashKind) -> Option<Self> {
        let mut cursor = IndexCursor { bytes: &bytes, at: 0 };
        if cursor.take(4)? != b"DIRC" {
            return None;
        }
        let version = cursor.be32()?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let mut names = Vec::new();
        let mut entries: Vec<IndexEntry> = Vec::new();
        for _ in 0..cursor.be32()? {
            let previous = entries.last().map_or(0..0, |last| last.name.clone());
            entries.push(cursor.entry(version, hash_kind, &mut names, previous)?);
        }
        let entries_end = cursor.at;
        Some(Self { hash_kind, bytes, names, entries, entries_end })
    }

    /// The id of the blob that the regular file `name` has in the index.
    pub(crate) fn blob_id(&self, name: &[u8]) -> Option<&[u8]> {
        let mut same = self.entries_from(name).take_while(|entry| self.name_of(entry) == name);
        let entry = same.next().filter(|entry| entry.is_plain())?;
        // A second entry of the name means that the file is unmerged.
        if same.next().is_some() {
            return None;
        }
        self.blob_of(entry)
    }

    /// Whether the index has an entry of this name, of any kind.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.entries_from(name).next().is_some_and(|entry| self.name_of(entry) == name)
    }

    /// The names of the regular files in `folder`, at every depth, and their blobs.
    pub(crate) fn blobs_below(&self, folder: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let start = [folder, b"/"].concat();
        let below = self.entries_from(&start).take_while(move |entry| self.name_of(entry).starts_with(&start));
        let plain = below.filter(|entry| entry.is_plain());
        plain.filter_map(|entry| Some((self.name_of(entry), self.blob_of(entry)?)))
    }

    fn entries_from(&self, name: &[u8]) -> std::slice::Iter<'_, IndexEntry> {
        let first = self.entries.partition_point(|entry| self.name_of(entry) < name);
        self.entries.get(first..).unwrap_or_default().iter()
    }

    fn blob_of(&self, entry: &IndexEntry) -> Option<&[u8]> {
        self.bytes.get(entry.start + STAT..)?.get(..self.hash_kind.length())
    }

    fn name_of(&self, entry: &IndexEntry) -> &[u8] {
        self.names.get(entry.name.clone()).unwrap_or_default()
    }

    /// The file in the git directory that holds the other entries of a split index.
    fn shared_file(&self) -> Option<String> {
        let link = self.extensions().flatten().filter(|(name, _)| *name == b"link").last()?;
        let id = link.1.get(..self.hash_kind.length())?;
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        id.iter().any(|byte| *byte != 0).then(|| format!("sharedindex.{hex}"))
    }

    /// Whether the offsets in the tables `IEOT` and `EOIE` are correct. git reads a large index in
    /// several threads, which start at the offsets in `IEOT`, and looks for extensions at the
    /// offset in `EOIE`. With false offsets, git may read other entries than this code.
    fn has_true_tables(&self) -> bool {
        let are_true = self.extensions().all(|found| match found {
            Some((b"EOIE", content)) => IndexCursor { bytes: content, at: 0 }.size() == Some(self.entries_end),
            Some((b"IEOT", content)) => self.has_offsets(content).unwrap_or(false),
            Some(_) => true,
            None => false,
        });
        // git looks for `EOIE` at a fixed distance from the end, even if the bytes there belong to
        // another extension.
        let hash = self.hash_kind.length();
        let tail = self.bytes.len().checked_sub(EXTENSION_HEADER + 4 + hash + hash);
        let has_tail = tail.and_then(|at| self.bytes.get(at..)?.get(..4)) == Some(b"EOIE");
        let has_last = self.extensions().flatten().last().is_some_and(|(name, _)| name == b"EOIE");
        are_true && (has_last || !has_tail)
    }

    /// Whether each block of the table `IEOT` starts at an entry of `self`. The first entry of a
    /// block must spell its whole name, because git knows no previous name there.
    fn has_offsets(&self, table: &[u8]) -> Option<bool> {
        let mut table = IndexCursor { bytes: table, at: 4 };
        let mut entry = 0_usize;
        while table.at < table.bytes.len() {
            let first = self.entries.get(entry)?;
            if table.size()? != first.start || first.kept > 0 {
                return Some(false);
            }
            entry = entry.checked_add(table.size()?)?;
        }
        Some(entry == self.entries.len())
    }

    /// The names and contents of the extensions; `None` where one does not fit before the checksum.
    fn extensions(&self) -> impl Iterator<Item = Option<(&[u8; 4], &[u8])>> {
        let end = self.bytes.len().saturating_sub(self.hash_kind.length());
        let mut cursor = IndexCursor { bytes: self.bytes.get(..end).unwrap_or_default(), at: self.entries_end };
        std::iter::from_fn(move || {
            let found = (cursor.at != end).then(|| cursor.extension())?;
            if found.is_none() {
                cursor.at = end;
            }
            Some(found)
        })
    }
}

/// Reads forward through the bytes of an index. `None` means that they end too early.
struct IndexCursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> IndexCursor<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let taken = self.bytes.get(self.at..)?.get(..length)?;
        self.at += length;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    fn be16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn be32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.be32()?).ok()
    }

    /// git's variable-width number: seven bits a byte, most significant first. Each further byte
    /// adds one, so that no number has two spellings.
    fn varint(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        loop {
            let [byte] = self.array()?;
            value = value.checked_mul(0x80)?.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?;
        }
    }

    /// The bytes before the next NUL, which is skipped.
    fn until_nul(&mut self) -> Option<&'b [u8]> {
        // `CStr` compares a machine word at a time, which an iterator does not.
        let found = CStr::from_bytes_until_nul(self.bytes.get(self.at..)?).ok()?.to_bytes();
        self.at += found.len() + 1;
        Some(found)
    }

    fn extension(&mut self) -> Option<(&'b [u8; 4], &'b [u8])> {
        let name = self.take(4)?.first_chunk()?;
        let size = self.size()?;
        Some((name, self.take(size)?))
    }

    /// Reads an entry and adds its name to `names`. `previous` is the range of the previous name.
    fn entry(
        &mut self,
        version: u32,
        hash_kind: HashKind,
        names: &mut Vec<u8>,
        previous: Range<usize>,
    ) -> Option<IndexEntry> {
        let start = self.at;
        self.take(MODE)?;
        let mode = self.be32()?;
        self.take(STAT - MODE - 4 + hash_kind.length())?;
        let flags = self.be16()?;
        let extended_flags = match flags & EXTENDED {
            0 => 0,
            _ if version < 3 => return None,
            _ => self.be16()?,
        };

        let name_start = names.len();
        let mut kept = 0;
        if version == 4 {
            kept = previous.len().checked_sub(self.varint()?)?;
            if name_start.checked_add(kept)? > MOST_NAME_BYTES {
                return None;
            }
            names.extend_from_within(previous.start..previous.start + kept);
        }
        names.extend_from_slice(self.until_nul()?);
        let name = name_start..names.len();
        if name.len().min(NAME_LENGTH.into()) != usize::from(flags & NAME_LENGTH) {
            return None;
        }
        if version < 4 {
            // More NULs follow until the length is a multiple of eight.
            let length = self.at - start;
            self.take(length.next_multiple_of(8) - length)?;
        }
        let is_hidden = flags & ASSUME_UNCHANGED != 0 || extended_flags & SKIP_WORKTREE != 0;
        Some(IndexEntry { start, name, kept, mode, stage: flags & STAGE, extended_flags, is_hidden })
    }
}
