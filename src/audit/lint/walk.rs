//! A look at all files of a project that ends in any case.

use crate::host::{DirEntry, FileKind, Host};
use crate::policy::path::AbsPath;

/// A project with more files than this, besides third-party code, is looked at in part.
pub(crate) const MOST_ENTRIES: usize = 100_000;

/// Calls `see` for everything below `start` that is no directory, in a fixed order: parents before what is in them. Symlinks
/// are not followed, and neither directories called one of `skip` nor those that `enters` refuses are entered. False when
/// there was more than could be looked at.
pub(crate) fn walk(
    host: &Host,
    start: &AbsPath,
    skip: &[String],
    enters: impl Fn(&AbsPath) -> bool,
    mut see: impl FnMut(AbsPath, &DirEntry),
) -> bool {
    let mut left = MOST_ENTRIES;
    let mut folders = vec![start.clone()];
    while let Some(folder) = folders.pop() {
        // What we may not read, the command may not either.
        let mut entries = host.read_dir(&folder).unwrap_or_default();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        for entry in entries {
            let Some(fewer) = left.checked_sub(1) else { return false };
            left = fewer;
            let path = folder.child(&entry.name);
            if entry.kind != FileKind::Directory {
                see(path, &entry);
            } else if !skip.iter().any(|name| entry.name == name.as_str()) && enters(&path) {
                below.push(path);
            }
        }
        folders.extend(below.into_iter().rev());
    }
    true
}
