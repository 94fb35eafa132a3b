//! What a host remembers: see [`super::Host::remembering`].

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use rustix::fs::FileType;

use crate::policy::path::AbsPath;

pub(crate) type Seen = Mutex<Answers>;

/// What questions were answered by. Paths are asked for by their bytes: `Path` takes components apart to hash them.
#[derive(Default)]
pub(crate) struct Answers {
    pub folders: HashMap<OsString, Folder>,
    pub is_writable: HashMap<OsString, bool>,
    /// What could not be read, and should not be taken for absent.
    pub deferred_errors: Vec<(AbsPath, io::Error)>,
}

/// What is known of the names in one directory.
#[derive(Default)]
pub(crate) struct Folder {
    /// A path led here, and no symlink does: what lies in it need not be followed from the root.
    pub is_reached: bool,
    /// `None` is nothing.
    found: HashMap<OsString, Option<Found>>,
}

/// What of a file's metadata anybody asks for: all of it is ten times as much.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub file_type: FileType,
    /// Means something only for what is no directory.
    pub names: u64,
    pub is_empty: bool,
}

impl Folder {
    /// A folder of which nothing else is known yet.
    pub(crate) fn reached() -> Self {
        Self { is_reached: true, ..Self::default() }
    }

    pub(crate) fn known(&self, name: &OsStr) -> Option<Option<Found>> {
        self.found.get(name).copied()
    }

    pub(crate) fn note(&mut self, name: &OsStr, found: Option<Found>) {
        self.found.insert(name.to_owned(), found);
    }
}

/// The folder that `path` lies in, which is in normal form, and its name there.
pub(crate) fn split(path: &Path) -> (&OsStr, &OsStr) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    let (folder, name) = (&bytes[..end.max(1).min(bytes.len())], bytes.get(end + 1..).unwrap_or_default());
    (OsStr::from_bytes(folder), OsStr::from_bytes(name))
}
