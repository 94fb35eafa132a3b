//! The cache of a host: see [`super::Host::with_cache`].

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use foldhash::HashMap;
use rustix::fs::FileType;

use crate::policy::AbsPath;

pub(crate) type Seen = Mutex<HostCache>;

/// Paths are keys by their bytes: `Path` parses components to hash them.
#[derive(Default)]
pub(crate) struct HostCache {
    pub folders: HashMap<OsString, Folder>,
    pub is_writable: HashMap<OsString, bool>,
    /// Paths that could not be read and must not count as absent.
    pub deferred_errors: Vec<(AbsPath, io::Error)>,
}

#[derive(Default)]
pub(crate) struct Folder {
    /// A search reached this directory, and no symlink leads to it.
    pub is_reached: bool,
    /// `None`: the name does not exist.
    found: HashMap<OsString, Option<EntryFacts>>,
}

/// The parts of the metadata that rules need. They take a tenth of its memory.
#[derive(Clone, Copy)]
pub(crate) struct EntryFacts {
    pub file_type: FileType,
    /// Number of names (hard links); 1 for a directory.
    pub names: u64,
    pub is_empty: bool,
}

impl Folder {
    /// Returns the cached answer for `name`, or else calls `look` and caches its answer. Errors
    /// are not cached.
    pub(crate) fn answer(
        &mut self,
        name: &OsStr,
        look: impl FnOnce() -> io::Result<Option<EntryFacts>>,
    ) -> io::Result<Option<EntryFacts>> {
        if let Some(known) = self.found.get(name) {
            return Ok(*known);
        }
        let found = look()?;
        self.found.insert(name.to_owned(), found);
        Ok(found)
    }
}

/// The folder and the name of `path`, which has normal form.
pub(crate) fn split(path: &Path) -> (&OsStr, &OsStr) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    let (folder, name) = (&bytes[..end.max(1).min(bytes.len())], bytes.get(end + 1..).unwrap_or_default());
    (OsStr::from_bytes(folder), OsStr::from_bytes(name))
}
