//! A search of the project for repositories at any depth and for files `.gitignore`. git enters a
//! repository as soon as an index names it, and an ordinary `git merge` or `git checkout` writes
//! the index.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use crate::diagnostic::reason;
use crate::host::git::nested::MOST_PROTECTED;
use crate::host::long_path::LONGEST_SEARCHED;
use crate::host::{FileKind, Host, is_absent};
use crate::policy::path::AbsPath;

/// At most so many folders are searched, those near the root first. On an idle machine with two
/// processors this takes a tenth of a second.
const MOST_FOLDERS: usize = 20_000;
/// At most so many files `.gitignore` are read.
const MOST_IGNORE_FILES: usize = 1_000;
const IGNORE_FILE: &str = ".gitignore";
/// Below this many folders a second thread costs more than it saves.
const FOLDERS_BEFORE_THREADS: usize = 64;
const MOST_THREADS: usize = 8;

#[derive(Default)]
pub(super) struct Folders {
    /// The folders below the root that have a `.git`.
    pub repositories: BTreeSet<AbsPath>,
    /// The files `.gitignore`, those near the root first.
    pub ignore_files: Vec<AbsPath>,
    /// The folders that could not be searched, with the reasons.
    pub unclear: BTreeMap<AbsPath, String>,
    /// Whether there are more folders or repositories than are searched for.
    pub has_more: bool,
    /// Whether there are more files `.gitignore` than are read.
    pub has_more_ignore_files: bool,
}

/// The parts of one folder that the search needs.
struct Searched {
    has_dot_git: bool,
    has_ignore_file: bool,
    folders: Vec<AbsPath>,
}

impl Folders {
    pub(super) fn of(host: &Host, root: &AbsPath) -> Self {
        let mut found = Self::default();
        let mut waiting = vec![root.clone()];
        let mut left = MOST_FOLDERS;
        while !waiting.is_empty() {
            found.has_more |= waiting.len() > left;
            waiting.truncate(left);
            left -= waiting.len();
            let searched = search_all(host, &waiting);
            let mut next = Vec::new();
            for (folder, searched) in waiting.into_iter().zip(searched) {
                match searched {
                    Ok(Searched { has_dot_git, has_ignore_file, folders }) => {
                        next.extend(folders);
                        if has_ignore_file {
                            found.ignore_files.push(folder.child(IGNORE_FILE));
                        }
                        if has_dot_git && folder != *root {
                            found.repositories.insert(folder);
                        }
                    }
                    Err(e) if is_absent(&e) => {}
                    Err(e) => {
                        found.unclear.insert(folder, reason(&e));
                    }
                }
            }
            waiting = next;
        }
        found.has_more_ignore_files = found.ignore_files.len() > MOST_IGNORE_FILES;
        found.ignore_files.truncate(MOST_IGNORE_FILES);
        while found.repositories.len() > MOST_PROTECTED {
            found.repositories.pop_last();
            found.has_more = true;
        }
        found
    }
}

/// Searches the folders in several threads. The results are in the order of the folders.
fn search_all(host: &Host, folders: &[AbsPath]) -> Vec<std::io::Result<Searched>> {
    let threads = match folders.len() {
        ..FOLDERS_BEFORE_THREADS => 1,
        _ => thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
    };
    let search_part = |part: &[AbsPath]| part.iter().map(|folder| search(host, folder)).collect::<Vec<_>>();
    thread::scope(|scope| {
        let mut parts = folders.chunks(folders.len().div_ceil(threads).max(1));
        let own = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|part| scope.spawn(|| search_part(part))).collect();
        let mut all = search_part(own);
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

fn search(host: &Host, folder: &AbsPath) -> std::io::Result<Searched> {
    if folder.as_os_str().len() > LONGEST_SEARCHED {
        return Err(rustix::io::Errno::NAMETOOLONG.into());
    }
    let entries = host.read_dir(folder)?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    let (has_dot_git, has_ignore_file) = (has(".git"), has(IGNORE_FILE));
    let is_entered = |kind: FileKind, name: &std::ffi::OsStr| kind == FileKind::Directory && name != ".git";
    let folders = entries.iter().filter(|entry| is_entered(entry.kind, &entry.name));
    Ok(Searched { has_dot_git, has_ignore_file, folders: folders.map(|entry| folder.child(&entry.name)).collect() })
}
