//! The directories that a walk has read, and whether they have changed since. While the walk runs,
//! another sandbox may move a directory from a place that the walk has not read yet to one that it
//! has already read. The walk then misses the directory.

use rustix::fs::{AtFlags, CWD, FileType, statat};

use crate::host::Host;
use crate::policy::AbsPath;
use crate::sys::clock;

#[derive(Clone, Debug, Default)]
pub struct WalkSnapshot {
    /// The time in seconds and nanoseconds at which the walk began. `None` if there was none.
    began: Option<(i64, i64)>,
    directories: Vec<AbsPath>,
    /// Paths at which a pattern starts and at which there was no directory.
    missing: Vec<AbsPath>,
}

impl WalkSnapshot {
    pub(super) fn begin() -> Self {
        Self { began: Some(clock::coarse_now()), ..Self::default() }
    }

    pub(super) fn note(&mut self, directory: AbsPath, existed: bool) {
        if existed { &mut self.directories } else { &mut self.missing }.push(directory);
    }

    /// Adds the directories that another thread has read.
    pub(super) fn add(&mut self, other: Self) {
        self.directories.extend(other.directories);
        self.missing.extend(other.missing);
    }

    /// A directory in which a name was added, removed or renamed since the walk began, or which was
    /// itself replaced. `None` means that there was a moment at which all directories were as the
    /// walk found them.
    pub fn changed<'v>(&'v self, host: &Host) -> Option<&'v AbsPath> {
        let began = self.began?;
        let look = |path: &AbsPath| statat(CWD, host.real(path), AtFlags::SYMLINK_NOFOLLOW);
        // No process can set the ctime. A rename updates it for both directories and for the file.
        let is_older = |directory: &AbsPath| {
            look(directory).is_ok_and(|found| (found.st_ctime, found.st_ctime_nsec.cast_signed()) < began)
        };
        let is_directory =
            |path: &AbsPath| look(path).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir());
        let changed = self.directories.iter().find(|directory| !is_older(directory));
        changed.or_else(|| self.missing.iter().find(|path| is_directory(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Waits until the clock has ticked, so that earlier files are older than later ones. File
    /// systems may report the exact time (Linux 6.13), so the coarse clock must pass the exact one.
    fn tick() {
        let exact = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let before = (exact.as_secs().try_into().unwrap(), exact.subsec_nanos().into());
        while clock::coarse_now() <= before {
            std::thread::yield_now();
        }
    }

    // SPEC C12
    #[test]
    fn each_kind_of_change_is_seen() {
        type Change = fn(&std::path::Path);
        let changes: [(&str, Change); 7] = [
            ("nothing", |_| {}),
            ("a folder where there was none", |at| fs::create_dir(at.join("c")).unwrap()),
            ("a new file", |at| fs::write(at.join("a/new"), "").unwrap()),
            ("a file that went", |at| fs::remove_file(at.join("a/file")).unwrap()),
            ("a folder that came", |at| fs::rename(at.join("elsewhere/moved"), at.join("a/b/moved")).unwrap()),
            ("a folder that went", |at| fs::rename(at.join("a/b"), at.join("elsewhere/b")).unwrap()),
            ("there and back again", |at| {
                fs::rename(at.join("a/b"), at.join("elsewhere/b")).unwrap();
                fs::rename(at.join("elsewhere/b"), at.join("a/b")).unwrap();
            }),
        ];
        for (name, change) in changes {
            let folder = tempfile::tempdir().unwrap();
            for path in ["a/b", "elsewhere/moved"] {
                fs::create_dir_all(folder.path().join(path)).unwrap();
            }
            fs::write(folder.path().join("a/file"), "").unwrap();
            tick();
            let mut visited = WalkSnapshot::begin();
            for (path, was_there) in [("/a", true), ("/a/b", true), ("/c", false)] {
                visited.note(AbsPath::normalize(path).unwrap(), was_there);
            }
            change(folder.path());
            assert_eq!(visited.changed(&Host::at(folder.path())).is_some(), name != "nothing", "{name}");
        }
    }

    #[test]
    fn without_a_walk_nothing_changes() {
        assert_eq!(WalkSnapshot::default().changed(&Host::system()), None);
    }
}
