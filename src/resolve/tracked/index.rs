//! The git index file, as far as names and blob ids go (gitformat-index(5), versions 2 to 4).
//!
//! The checksum at the end is not verified: whoever can write the file can write a checksum, and a damaged entry
//! cannot match the content of a file.

use super::HashKind;

const HEADER: usize = 12;
/// Times, device, inode, mode, owner, group and size.
const STAT: usize = 40;
const MODE: usize = 24;

/// A small file of version 4 can spell names of terabytes; no real index comes near this.
const MOST_NAME_BYTES: usize = 256 << 20;

const STAGE: u16 = 0x3000;
const EXTENDED: u16 = 0x4000;
const NAME_LENGTH: u16 = 0x0fff;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

pub(super) struct Index {
    hash_kind: HashKind,
    bytes: Vec<u8>,
    /// All names, one after the other: version 4 stores only how each differs from the one before it.
    names: Vec<u8>,
    /// Sorted by name.
    entries: Vec<Entry>,
}

struct Entry {
    name_start: usize,
    name_end: usize,
    id_start: usize,
    /// A regular file, merged, and meant to be in the work tree.
    is_plain: bool,
}

impl Index {
    /// `None` when anything in it is not understood.
    pub(super) fn parse(bytes: Vec<u8>, hash_kind: HashKind) -> Option<Self> {
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
        let mut index = Self { hash_kind, bytes, names: Vec::new(), entries: Vec::with_capacity(count.min(most)) };
        let mut at = HEADER;
        let mut previous_key = None;
        for _ in 0..count {
            let stage;
            (at, stage) = index.parse_entry(at, version)?;
            // git keeps the entries sorted by name and stage, and refuses an index that is not.
            let [.., last] = index.entries.as_slice() else { return None };
            let key = (last.name_start..last.name_end, stage);
            if let Some((previous_name, previous_stage)) = previous_key.replace(key.clone()) {
                let (before, now) = (index.names.get(previous_name)?, index.names.get(key.0)?);
                if (before, previous_stage) >= (now, stage) {
                    return None;
                }
            }
        }
        index.extensions_are_understood(at)?.then_some(index)
    }

    pub(super) fn hash_kind(&self) -> HashKind {
        self.hash_kind
    }

    /// The id of the blob that the regular file `name` has in the index.
    pub(super) fn blob_id(&self, name: &[u8]) -> Option<&[u8]> {
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

    /// Reads the entry at `start`; gives where the next one starts, and the stage of this one.
    fn parse_entry(&mut self, start: usize, version: u32) -> Option<(usize, u16)> {
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
        // An empty name is a change to a shared index, see `link` below.
        if name_length == 0 || name_length.min(NAME_LENGTH.into()) != usize::from(flags & NAME_LENGTH) {
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
        self.entries.push(Entry { name_start, name_end, id_start, is_plain });
        Some((next, stage))
    }

    /// Walks the extensions between the entries and the checksum. One that begins with a lower-case letter changes what
    /// the entries mean: `link` says that the rest of them is in another file. `sdir` (whole directories as one entry) is
    /// harmless here: the mode of such an entry is not that of a file.
    fn extensions_are_understood(&self, mut at: usize) -> Option<bool> {
        let end = self.bytes.len().checked_sub(self.hash_kind.length())?;
        while at < end {
            let name = self.bytes.get(at..)?.get(..4)?;
            let is_optional = name.first()?.is_ascii_uppercase();
            if !is_optional && name != b"sdir" {
                return Some(false);
            }
            let size = usize::try_from(be32(&self.bytes, at.checked_add(4)?)?).ok()?;
            at = at.checked_add(8)?.checked_add(size)?;
        }
        Some(at == end)
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_be_bytes(*chunk))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

fn until_nul(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    rest.get(..end)
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
