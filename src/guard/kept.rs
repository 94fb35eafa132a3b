//! Folders that something was mounted at, kept open. What is mounted next often lies in them, and is found from there: a short walk instead of one from the
//! root.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use super::mounts::{open, open_in};
use crate::path::AbsPath;

/// Each lies in the one before, and is what its path leads to, as long as who mounts something says so ([`Kept::cover`]).
#[derive(Default)]
pub(super) struct Kept(Vec<Folder>);

struct Folder {
    path: AbsPath,
    opened: Rc<OwnedFd>,
    is_ours: bool,
}

impl Kept {
    /// Something will be mounted at `path`: what is open there, or below, is not what its path leads to any more.
    pub(super) fn cover(&mut self, path: &AbsPath) {
        self.0.retain(|folder| !folder.path.is_within(path));
    }

    /// `opened` is what `path` leads to. `is_ours`: in a file system of the sandbox's own.
    pub(super) fn keep(&mut self, path: AbsPath, opened: OwnedFd, is_ours: bool) -> Rc<OwnedFd> {
        let opened = Rc::new(opened);
        self.0.retain(|folder| path.is_below(&folder.path));
        self.0.push(Folder { path, opened: opened.clone(), is_ours });
        opened
    }

    /// What `path` leads to, where no link is on the way. What was mounted below a kept folder is met on the way from there.
    pub(super) fn open(&self, path: &AbsPath) -> io::Result<OwnedFd> {
        match self.0.iter().rev().find(|folder| path.is_below(&folder.path)) {
            Some(folder) => open_in(&folder.opened, path.relative_to(&folder.path).unwrap_or(path.as_path())),
            None => open(path),
        }
    }

    /// The folder around `path`, if it is kept, and ours.
    pub(super) fn ours_around(&self, path: &AbsPath) -> Option<Rc<OwnedFd>> {
        let around = path.folders().next()?;
        let folder = self.0.iter().rev().find(|folder| folder.path.as_path() == around)?;
        folder.is_ours.then(|| folder.opened.clone())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use rustix::fs::fstat;

    use super::*;

    /// Whether `path` is opened as by its whole name.
    fn is_found(kept: &Kept, path: &AbsPath) -> bool {
        let inode = |opened: io::Result<OwnedFd>| opened.ok().map(|opened| fstat(opened).unwrap().st_ino);
        inode(kept.open(path)) == inode(open(path))
    }

    #[test]
    fn a_folder_is_kept_until_it_is_covered_or_left() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| AbsPath::normalize(fs::canonicalize(place.path()).unwrap().join(name)).unwrap();
        fs::create_dir_all(at("a/b/c")).unwrap();
        fs::create_dir_all(at("other/b/c")).unwrap();
        fs::write(at("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink("b", at("a/link")).unwrap();
        let mut kept = Kept::default();
        kept.keep(at("a"), open(&at("a")).unwrap(), false);
        for name in ["a", "a/b", "a/b/c", "a/b/file", "a/none", "a/link", "a/link/file", "other", "other/b"] {
            assert!(is_found(&kept, &at(name)), "{name}");
        }
        assert!(kept.open(&at("a/link/file")).is_err(), "no link is followed from there either");
        assert!(kept.ours_around(&at("a/b")).is_none());
        kept.keep(at("a/b"), open(&at("a/b")).unwrap(), true);
        assert!(kept.ours_around(&at("a/b/new")).is_some() && kept.ours_around(&at("a/b/c/new")).is_none());
        // As if something had been mounted on it: it is found by its name, and not where it was.
        fs::rename(at("a/b"), at("a/old")).unwrap();
        fs::rename(at("other/b"), at("a/b")).unwrap();
        assert!(!is_found(&kept, &at("a/b/c")));
        kept.cover(&at("a/b"));
        assert!(is_found(&kept, &at("a/b/c")) && kept.ours_around(&at("a/b/new")).is_none());
        kept.keep(at("a/b"), open(&at("a/b")).unwrap(), true);
        kept.cover(&at("a"));
        assert!(kept.0.is_empty(), "what lies above covers it, too");
        kept.keep(at("a"), open(&at("a")).unwrap(), false);
        kept.keep(at("other"), open(&at("other")).unwrap(), false);
        assert_eq!(kept.0.len(), 1, "no more are held open than lie in each other");
    }
}
