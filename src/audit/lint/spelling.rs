//! Suggestions for misspelled paths: existing names that are similar to a missing one.

use std::collections::HashMap;

use crate::diagnostic::nearest;
use crate::host::Host;
use crate::policy::AbsPath;

/// The shortest name that gets a suggestion. Any two shorter names differ by few letters.
const SHORTEST_MISSPELLED: usize = 3;

/// The most names that one run compares, because a command can fill a folder, and a policy can
/// name many missing paths. Later rules get no suggestion.
const MOST_COMPARED: usize = 200_000;

/// Finds the existing path that the user meant by a missing one. Each folder is read once.
pub(super) struct Spelling<'h> {
    host: &'h Host,
    /// For each folder that was asked for: this folder, or the existing one with a similar name.
    folders: HashMap<AbsPath, Option<AbsPath>>,
    names: HashMap<AbsPath, Vec<String>>,
    left: usize,
}

impl<'h> Spelling<'h> {
    pub(super) fn new(host: &'h Host) -> Self {
        Self { host, folders: HashMap::new(), names: HashMap::new(), left: MOST_COMPARED }
    }

    /// The existing path whose spelling is nearest to that of the missing `path`.
    pub(super) fn meant(&mut self, path: &AbsPath) -> Option<AbsPath> {
        let folder = self.folder(&path.parent()?)?;
        let name = path.file_name()?.to_str()?;
        // If only a folder above is misspelled, the rest of the path exists.
        let child = folder.child(name);
        if self.host.kind(&child).ok()?.is_some() {
            return Some(child);
        }
        let names = self.names.entry(folder.clone()).or_insert_with(|| names(self.host, &folder));
        self.left = self.left.checked_sub(names.len())?;
        let found = nearest(name, names.iter().map(String::as_str));
        let found = found.filter(|_| name.chars().count() >= SHORTEST_MISSPELLED)?;
        Some(folder.child(found))
    }

    /// The folder at `path`, or the existing one with a similar name.
    fn folder(&mut self, path: &AbsPath) -> Option<AbsPath> {
        if let Some(known) = self.folders.get(path) {
            return known.clone();
        }
        let exists = self.host.kind(path).ok()?.is_some();
        let folder = if exists { Some(path.clone()) } else { self.meant(path) };
        self.folders.insert(path.clone(), folder.clone());
        folder
    }
}

fn names(host: &Host, folder: &AbsPath) -> Vec<String> {
    let entries = host.read_dir(folder).unwrap_or_default();
    entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    // SPEC N11
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test prepares its own folder")]
    fn a_folder_is_read_once_and_names_are_compared_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..1000 {
            fs::write(folder.path().join(format!("name{index:04}")), "").unwrap();
        }
        let reads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reads);
        let listener = Arc::new(move |_: &AbsPath| _ = count.fetch_add(1, Ordering::Relaxed));
        let host = Host::system().with_progress(listener);
        let mut spelling = Spelling::new(&host);
        let root = AbsPath::normalize(folder.path()).unwrap();
        let meant = |index: usize| root.child(format!("nbme{index:04}"));
        let most = MOST_COMPARED / 1000;
        for index in 0..most {
            assert_eq!(spelling.meant(&meant(index)), Some(root.child(format!("name{index:04}"))));
        }
        assert_eq!(spelling.meant(&meant(most)), None, "the limit is reached");
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }
}
