//! What is in folders that many rules name something in, read before any of them is asked for.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use super::dir::{DirEntry, Directory};

/// More names than this are not read for the sake of a few directories.
pub(crate) const MOST_LISTED: usize = 512;

/// Below this many folders a second thread costs more than it saves.
const FOLDERS_BEFORE_THREADS: usize = 64;
const MAX_THREADS: usize = 8;

/// The names in some folders, each in their order.
#[derive(Default)]
pub struct Lists(HashMap<OsString, Arc<[DirEntry]>>);

impl Lists {
    /// What cannot be read, or is too much, is left out.
    pub(crate) fn read(folders: &[PathBuf], read: impl Fn(&PathBuf) -> Option<Directory> + Sync) -> Self {
        let sorted = |folder: &PathBuf| {
            let mut entries = read(folder)?.entries;
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Some((folder.clone().into_os_string(), Arc::from(entries)))
        };
        let all = |part: &[PathBuf]| part.iter().filter_map(sorted).collect::<Vec<_>>();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let threads = if folders.len() < FOLDERS_BEFORE_THREADS { 1 } else { threads };
        let (own, others) = folders.split_at(folders.len() / threads);
        let lists = thread::scope(|scope| {
            let parts = others.chunks(folders.len().div_ceil(threads).max(1));
            let workers: Vec<_> = parts.map(|part| scope.spawn(move || all(part))).collect();
            let mut lists: HashMap<_, _> = all(own).into_iter().collect();
            for worker in workers {
                // A worker cannot panic short of a bug; `join` then passes the panic on.
                lists.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            lists
        });
        Self(lists)
    }

    /// What is in `folder`, if it was listed.
    pub fn of(&self, folder: &OsStr) -> Option<&Arc<[DirEntry]>> {
        self.0.get(folder)
    }
}
