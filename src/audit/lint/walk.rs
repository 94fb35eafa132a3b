//! A bounded walk over the files of a project.

use crate::host::{DirEntry, FileKind, Host};
use crate::policy::path::AbsPath;

/// Limit of a walk, third-party code not counted.
const MOST_ENTRIES: usize = 100_000;

/// Calls `see` for every entry below `start` that is no directory, in a fixed order, parents first.
/// The walk follows no symlinks, and enters no directory that is named in `skip` or that `enters`
/// refuses. Returns false if it reached the limit.
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
        // The command cannot read a folder that we cannot read.
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
