//! The git index file, as far as names, blob ids and submodules go (gitformat-index(5), versions 2 to 4).
//!
//! The checksum at the end is not verified: whoever can write the file can write a checksum, and a damaged entry
//! cannot match the content of a file.

use std::ffi::CStr;
use std::fmt::Write;
use std::io;

use super::{config, read_config};
use crate::host::Host;
use crate::policy::path::AbsPath;

/// The index of a repository with a million files has about 100 MB.
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

    /// What the settings in `common_dir` say; `None` for what we do not know.
    fn of(host: &Host, common_dir: &AbsPath) -> io::Result<Option<Self>> {
        let settings = read_config(host, &common_dir.child("config"))?;
        Ok(match config::last_value(&settings, "extensions", "objectformat")?.as_deref() {
            None | Some(b"sha1") => Some(HashKind::Sha1),
            Some(b"sha256") => Some(HashKind::Sha256),
            Some(_) => None,
        })
    }
}

/// The index in `git_dir`; `None` where there is none, or anything in it is not understood.
pub(crate) fn read(host: &Host, git_dir: &AbsPath, common_dir: &AbsPath) -> io::Result<Option<Index>> {
    let Some(hash_kind) = HashKind::of(host, common_dir)? else { return Ok(None) };
    let bytes = host.read_regular(&git_dir.child("index"), LARGEST_INDEX)?;
    Ok(bytes.and_then(|bytes| Index::parse(bytes, hash_kind)))
}

/// What an index says of submodules.
#[derive(Default)]
pub(crate) struct Links {
    /// The names of all that it holds as one, and perhaps some more.
    pub(crate) names: Vec<Vec<u8>>,
    /// Folders that it holds as one entry each (a sparse index): what is in them, only the objects tell.
    pub(crate) folders: Vec<Vec<u8>>,
}

/// What the index in `git_dir` says of submodules; `None` where it cannot be told. What git refuses to read may be understood here,
/// and not the other way round.
pub(crate) fn gitlinks(host: &Host, git_dir: &AbsPath, common_dir: &AbsPath) -> io::Result<Option<Links>> {
    let index = git_dir.child("index");
    let Some(bytes) = host.noting_closed(index.as_path(), host.read_regular(&index, LARGEST_INDEX))? else {
        return Ok(Some(Links::default()));
    };
    let Some(hash_kind) = HashKind::of(host, common_dir)? else { return Ok(None) };
    let Some(index) = Index::parse_part(bytes, hash_kind) else { return Ok(None) };
    let mut names: Vec<Vec<u8>> = index.gitlinks().map(<[u8]>::to_vec).collect();
    let mut folders = index.folders();
    if !index.tables_are_true() {
        return Ok(None);
    }
    let Some(id) = index.shared_id() else { return Ok(Some(Links { names, folders })) };
    let mut shared = String::from("sharedindex.");
    for byte in id {
        // Writing to a string cannot fail.
        let _ = write!(shared, "{byte:02x}");
    }
    let bytes = host.read_regular(&git_dir.child(&shared), LARGEST_INDEX)?;
    let shared = bytes.and_then(|bytes| Index::parse_part(bytes, hash_kind));
    let Some(shared) = shared.filter(Index::tables_are_true) else { return Ok(None) };
    // An entry without a name takes the place of one in the shared file. A bitmap says of which; any will do here.
    let is_replaced = index.gitlinks().any(<[u8]>::is_empty);
    let of_shared = shared.entries.iter().filter(|entry| is_replaced || entry.is_gitlink);
    names.extend(of_shared.map(|entry| shared.name_of(entry).to_vec()));
    names.retain(|name| !name.is_empty());
    folders.extend(shared.folders());
    Ok(Some(Links { names, folders }))
}

const HEADER: usize = 12;
/// Times, device, inode, mode, owner, group and size.
const STAT: usize = 40;
const MODE: usize = 24;
const FILE_TYPE: u32 = 0o170_000;
const GITLINK: u32 = 0o160_000;
const FOLDER: u32 = 0o040_000;

/// A small file of version 4 can spell names of terabytes; no real index comes near this.
const MOST_NAME_BYTES: usize = 256 << 20;

const STAGE: u16 = 0x3000;
const EXTENDED: u16 = 0x4000;
const NAME_LENGTH: u16 = 0x0fff;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

pub(crate) struct Index {
    hash_kind: HashKind,
    bytes: Vec<u8>,
    /// All names, one after the other: version 4 stores only how each differs from the one before it.
    names: Vec<u8>,
    /// Sorted by name.
    entries: Vec<Entry>,
    /// Where the extensions start.
    entries_end: usize,
}

struct Entry {
    name_start: usize,
    name_end: usize,
    id_start: usize,
    stage: u16,
    /// A regular file, merged, and meant to be in the work tree.
    is_plain: bool,
    /// A commit of another repository: a submodule.
    is_gitlink: bool,
    /// A whole folder of a sparse index.
    is_folder: bool,
}

impl Index {
    /// `None` when anything in it is not understood.
    pub(crate) fn parse(bytes: Vec<u8>, hash_kind: HashKind) -> Option<Self> {
        let index = Self::parse_part(bytes, hash_kind)?;
        // An empty name is a change to a shared index, see `link` below.
        let has_names = index.entries.iter().all(|entry| entry.name_end > entry.name_start);
        // git keeps the entries sorted by name and stage, and refuses an index that is not.
        let is_sorted = index.entries.is_sorted_by(|a, b| match index.name_of(a).cmp(index.name_of(b)) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => a.stage < b.stage,
            std::cmp::Ordering::Greater => false,
        });
        (has_names && is_sorted && index.extensions_are_understood()?).then_some(index)
    }

    /// The same for a file that may be one of two which make up an index.
    fn parse_part(bytes: Vec<u8>, hash_kind: HashKind) -> Option<Self> {
        if bytes.get(..4)? != b"DIRC" {
            return None;
        }
        let version = be32(&bytes, 4)?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let count = usize::try_from(be32(&bytes, 8)?).ok()?;
        // The count is only a claim until the entries are there.
        let most = bytes.len() / (STAT + hash_kind.length());
        let entries = Vec::with_capacity(count.min(most));
        let mut index = Self { hash_kind, bytes, names: Vec::new(), entries, entries_end: HEADER };
        for _ in 0..count {
            index.entries_end = index.parse_entry(index.entries_end, version)?;
        }
        Some(index)
    }

    fn gitlinks(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().filter(|entry| entry.is_gitlink).map(|entry| self.name_of(entry))
    }

    fn folders(&self) -> Vec<Vec<u8>> {
        self.entries.iter().filter(|entry| entry.is_folder).map(|entry| self.name_of(entry).to_vec()).collect()
    }

    pub(crate) fn hash_kind(&self) -> HashKind {
        self.hash_kind
    }

    /// The id of the blob that the regular file `name` has in the index.
    pub(crate) fn blob_id(&self, name: &[u8]) -> Option<&[u8]> {
        let first = self.entries.partition_point(|entry| self.name_of(entry) < name);
        let mut same = self.entries.get(first..)?.iter().take_while(|entry| self.name_of(entry) == name);
        let entry = same.next().filter(|entry| entry.is_plain)?;
        // A second entry: unmerged, whatever the first one says.
        if same.next().is_some() {
            return None;
        }
        self.bytes.get(entry.id_start..)?.get(..self.hash_kind.length())
    }

    fn name_of(&self, entry: &Entry) -> &[u8] {
        self.names.get(entry.name_start..entry.name_end).unwrap_or_default()
    }

    /// Reads the entry at `start`; gives where the next one starts.
    fn parse_entry(&mut self, start: usize, version: u32) -> Option<usize> {
        let mode = be32(&self.bytes, start.checked_add(MODE)?)?;
        let id_start = start.checked_add(STAT)?;
        let flags_start = id_start.checked_add(self.hash_kind.length())?;
        let flags = be16(&self.bytes, flags_start)?;
        let mut at = flags_start.checked_add(2)?;
        let mut more_flags = 0;
        if flags & EXTENDED != 0 {
            if version < 3 {
                return None;
            }
            more_flags = be16(&self.bytes, at)?;
            at = at.checked_add(2)?;
        }

        let name_start = self.names.len();
        if version == 4 {
            let removed;
            (removed, at) = varint(&self.bytes, at)?;
            let previous = self.entries.last().map_or(0..0, |last| last.name_start..last.name_end);
            let kept = previous.len().checked_sub(removed)?;
            if name_start.checked_add(kept)? > MOST_NAME_BYTES {
                return None;
            }
            let prefix = previous.start..previous.start.checked_add(kept)?;
            self.names.extend_from_within(prefix);
        }
        let suffix = until_nul(&self.bytes, at)?;
        self.names.extend_from_slice(suffix);
        let name_end = self.names.len();
        let name_length = name_end.checked_sub(name_start)?;
        if name_length.min(NAME_LENGTH.into()) != usize::from(flags & NAME_LENGTH) {
            return None;
        }

        at = at.checked_add(suffix.len())?;
        let next = if version == 4 {
            at.checked_add(1)?
        } else {
            // One to eight NULs, so that the length is a multiple of eight.
            let length = at.checked_sub(start)?;
            start.checked_add(length.checked_add(8)? & !7)?
        };
        let stage = flags & STAGE;
        let is_plain =
            matches!(mode, 0o100_644 | 0o100_755) && stage == 0 && more_flags & (SKIP_WORKTREE | INTENT_TO_ADD) == 0;
        let is_gitlink = mode & FILE_TYPE == GITLINK;
        let is_folder = mode & FILE_TYPE == FOLDER;
        self.entries.push(Entry { name_start, name_end, id_start, stage, is_plain, is_gitlink, is_folder });
        Some(next)
    }

    /// Walks the extensions between the entries and the checksum. One that begins with a lower-case letter changes what
    /// the entries mean: `link` says that the rest of them is in another file. `sdir` (whole directories as one entry) is
    /// harmless here: the mode of such an entry is not that of a file.
    fn extensions_are_understood(&self) -> Option<bool> {
        let mut is_understood = true;
        self.each_extension(|name, _| {
            is_understood &= name.first().is_some_and(u8::is_ascii_uppercase) || name == b"sdir";
        })?;
        Some(is_understood)
    }

    /// The id of the file that holds the rest of the entries.
    fn shared_id(&self) -> Option<Vec<u8>> {
        let mut shared = None;
        self.each_extension(|name, content| {
            if name == b"link" {
                shared = content.get(..self.hash_kind.length()).map(<[u8]>::to_vec);
            }
        })?;
        shared.filter(|id| id.iter().any(|byte| *byte != 0))
    }

    /// Whether git, which reads a large index by several threads at once, starts each of them at an entry (`IEOT`), and
    /// looks for extensions where the entries end (`EOIE`). Otherwise it may read other entries than we do.
    fn tables_are_true(&self) -> bool {
        let mut are_true = true;
        let walked = self.each_extension(|name, content| match name {
            b"EOIE" => are_true &= be32(content, 0).is_some_and(|end| usize::try_from(end) == Ok(self.entries_end)),
            b"IEOT" => {
                let mut entry = 0_usize;
                for block in content.get(4..).unwrap_or_default().chunks(8) {
                    let (start, count) = (be32(block, 0), be32(block, 4));
                    let expected = self.entries.get(entry).map(|entry| entry.id_start - STAT);
                    are_true &= expected.is_some() && start.and_then(|start| usize::try_from(start).ok()) == expected;
                    entry = entry.saturating_add(count.map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX)));
                }
                are_true &= entry == self.entries.len();
            }
            _ => {}
        });
        are_true && walked.is_some()
    }

    /// `None` where they do not end with the checksum.
    fn each_extension(&self, mut look: impl FnMut(&[u8], &[u8])) -> Option<()> {
        let mut at = self.entries_end;
        let end = self.bytes.len().checked_sub(self.hash_kind.length())?;
        while at < end {
            let name = self.bytes.get(at..)?.get(..4)?;
            let size = usize::try_from(be32(&self.bytes, at.checked_add(4)?)?).ok()?;
            at = at.checked_add(8)?;
            look(name, self.bytes.get(at..)?.get(..size)?);
            at = at.checked_add(size)?;
        }
        (at == end).then_some(())
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

fn until_nul(bytes: &[u8], at: usize) -> Option<&[u8]> {
    // Looks at a word at a time, which an iterator does not.
    CStr::from_bytes_until_nul(bytes.get(at..)?).ok().map(CStr::to_bytes)
}

/// git's variable-width number: seven bits a byte, most significant first, and each further byte adds one
/// so that no number has two spellings. Also gives where it ends.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at = at.checked_add(1)?;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(0x80)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some((value, at.checked_add(1)?))
}
