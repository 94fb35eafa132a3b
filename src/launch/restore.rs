//! Covers a file again that a program on the host has replaced while the command runs (SPEC
//! section 23).
//!
//! `git config` and most editors replace a file by a rename. The kernel then removes every mount
//! that covered the file, in all sandboxes. So the supervisor watches the directories of protected
//! files with inotify, and mounts again when a file appears under a protected name. Like the
//! guard, it can only tighten.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{fstat, inotify};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::compile::Compiled;
use crate::compile::plan::{Mount, PlannedMount, Purpose, View};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host, Identity, OpenDir};
use crate::policy::private::link_of;
use crate::policy::{AbsPath, Access};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::fd;
use crate::sys::late_mounts::{Cover, Covered};
use crate::sys::namespaces::Namespaces;

use super::aftermath::{Gap, during_run};

/// The largest number of directories that are watched. The kernel limits the watches of a user,
/// whose other programs need some. A command can create any number of files that a pattern
/// protects.
const MOST_DIRECTORIES: usize = 1024;

/// Watches protected files and covers them again.
pub(super) struct Restorer {
    inotify: OwnedFd,
    directories: Vec<WatchedDirectory>,
    /// The positions of files that could not be covered yet.
    pending: BTreeSet<Position>,
    gaps: BTreeMap<AbsPath, Gap>,
}

/// The indexes of a directory in `Restorer::directories` and of a file in its `files`.
type Position = (usize, usize);

struct WatchedDirectory {
    /// The watch descriptor. If two paths lead to one directory, they share it.
    watch: i32,
    /// The directory as the command sees it.
    inside: OwnedFd,
    files: Vec<ProtectedFile>,
}

/// A file that one mount covers.
struct ProtectedFile {
    path: AbsPath,
    name: CString,
    cover: Cover,
}

impl Restorer {
    /// Watches the files that the policy protects. The caller must call this before it compares
    /// the host again, and so before the command starts. Then no replacement is missed. The
    /// warning names files that are not watched.
    pub(super) fn start(
        host: &Host,
        compiled: &Compiled,
        namespaces: Option<&Namespaces>,
    ) -> (Option<Self>, Option<Diagnostic>) {
        let directories = protected(compiled);
        if directories.is_empty() || ablate::is_off(Mitigation::Restore) {
            return (None, None);
        }
        let paths: Vec<AbsPath> =
            directories.iter().flat_map(|(_, files)| files).map(|file| file.path.clone()).collect();
        let no_namespaces = || io::Error::other("the supervisor may not enter the sandbox, as with a setuid bwrap");
        let watched = namespaces.ok_or_else(no_namespaces).and_then(|inside| Self::watch(host, directories, inside));
        match watched {
            Ok((restorer, unwatched)) => (Some(restorer), not_watched(unwatched)),
            Err(e) => (None, not_watched((paths, Some(e)))),
        }
    }

    fn watch(host: &Host, directories: ByDirectory, namespaces: &Namespaces) -> io::Result<(Self, Unwatched)> {
        let _ = fd::raise_file_limit();
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let mut unwatched = Unwatched::default();
        let mut watched = Vec::new();
        let too_many = || io::Error::other(format!("more than {MOST_DIRECTORIES} directories have such files"));
        for (number, (path, files)) in directories.into_iter().enumerate() {
            let is_one_more = number >= MOST_DIRECTORIES;
            let inside = if is_one_more { Err(too_many()) } else { namespaces.open_directory(path.as_path()) };
            // The command cannot open the directory either: it has no more rights than the
            // supervisor.
            if inside.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied) {
                continue;
            }
            match inside.and_then(|inside| Ok((watch_directory(host, &inotify, &path, &inside)?, inside))) {
                Ok((Some(watch), inside)) => watched.push(WatchedDirectory { watch, inside, files }),
                Ok((None, _)) => {}
                Err(e) => {
                    unwatched.0.extend(files.into_iter().map(|file| file.path));
                    unwatched.1.get_or_insert(e);
                }
            }
        }
        Ok((Self { inotify, directories: watched, pending: BTreeSet::new(), gaps: BTreeMap::new() }, unwatched))
    }

    /// A descriptor that is readable after an entry appeared in a watched directory.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Whether a file could not be covered. The caller then tries again a little later.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Covers the files that were replaced. Returns notes, once for each file and outcome.
    pub(super) fn cover_again(&mut self, root: &AbsPath, namespaces: &Namespaces) -> Diagnostics {
        let mut news = BTreeSet::new();
        for position in self.appeared().into_iter().chain(std::mem::take(&mut self.pending)) {
            ablate::pause("cover-again");
            let WatchedDirectory { inside, files, .. } = &self.directories[position.0];
            let file = &files[position.1];
            let Some(gap) = file.cover(inside.as_fd(), namespaces) else { continue };
            if matches!(gap, Gap::Open(_)) {
                self.pending.insert(position);
            }
            if self.gaps.get(&file.path) != Some(&gap) {
                self.gaps.insert(file.path.clone(), gap);
                news.insert(file.path.clone());
            }
        }
        during_run(root, self.gaps.iter().filter(|(path, _)| news.contains(*path)))
    }

    /// The positions of the files under whose names an entry appeared. Reads as many events as one
    /// buffer holds, because a command can cause them without end.
    fn appeared(&self) -> BTreeSet<Position> {
        let mut buffer = [MaybeUninit::uninit(); 1 << 14];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut appeared = BTreeSet::new();
        while let Ok(event) = events.next() {
            let (watch, name) = (event.wd(), event.file_name());
            let is_lost = event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
            for (number, directory) in self.directories.iter().enumerate() {
                if is_lost || directory.watch == watch {
                    let is_meant = |file: &ProtectedFile| is_lost || Some(file.name.as_c_str()) == name;
                    let files = directory.files.iter().enumerate().filter(|(_, file)| is_meant(file));
                    appeared.extend(files.map(|(file, _)| (number, file)));
                }
            }
            if events.is_buffer_empty() {
                break;
            }
        }
        appeared
    }

    /// Ends the watch, and closes the directories inside. Returns the files that were replaced,
    /// each with the result.
    ///
    /// The caller keeps this value until its other work is done: closing an inotify takes some 10
    /// ms (measured) if its watches were not removed a little earlier.
    pub(super) fn end(&mut self) -> BTreeMap<AbsPath, Gap> {
        for directory in self.directories.drain(..) {
            // Two paths of one directory share a watch, so the second removal fails.
            let _ = inotify::remove_watch(&self.inotify, directory.watch);
        }
        std::mem::take(&mut self.gaps)
    }
}

impl ProtectedFile {
    /// Covers the file if it is there and nothing covers it.
    fn cover(&self, directory: BorrowedFd, namespaces: &Namespaces) -> Option<Gap> {
        let attempt = || namespaces.cover(directory, &self.name, &self.cover);
        let covered = match attempt() {
            // The file was replaced again after it was opened.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => attempt(),
            covered => covered,
        };
        match covered {
            Ok(Covered::Before) => None,
            Ok(Covered::AsAsked) => Some(Gap::Covered),
            Ok(Covered::ReadOnly) => Some(Gap::ReadOnly),
            Ok(Covered::Hidden) => Some(Gap::Hidden),
            // The new file is gone again.
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => Some(Gap::Open(reason(&e))),
        }
    }
}

/// Directories in the order in which they are watched, with the protected files in them.
type ByDirectory = Vec<(AbsPath, Vec<ProtectedFile>)>;

/// Files that are not watched, and the reason for the first of them.
type Unwatched = (Vec<AbsPath>, Option<io::Error>);

/// The files that the command could access without the mounts that cover them. Directories near
/// the root come first, because a command can create more directories than are watched.
fn protected(compiled: &Compiled) -> ByDirectory {
    let plan = &compiled.plan;
    let by_rules = compiled.decisions.iter().filter_map(|(path, decision)| {
        let is_linked = || plan.links.iter().any(|link| link.path == *path);
        let cover = match (decision.access, plan.view_around(path)) {
            _ if decision.kind == FileKind::Directory => return None,
            (_, View::HostRw | View::HostRo) if decision.injected.is_some() => Cover::Mask,
            (Access::Exclude, View::HostRw | View::HostRo) => Cover::Mask,
            (Access::Ro, View::HostRw) if is_linked() => Cover::Link(c_string(link_of(path).as_os_str()).ok()?),
            (Access::Ro, View::HostRw) => Cover::ReadOnly,
            _ => return None,
        };
        Some((path, cover))
    });
    let is_generated =
        |planned: &&PlannedMount| planned.purpose == Purpose::Base && matches!(planned.mount, Mount::DataFile { .. });
    let generated = plan.mounts.iter().filter(is_generated).map(|planned| (&planned.path, Cover::ReadOnly));
    let mut directories: BTreeMap<(usize, AbsPath), Vec<ProtectedFile>> = BTreeMap::new();
    for (path, cover) in by_rules.chain(generated) {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let Ok(name) = c_string(name) else { continue };
        let depth = directory.ancestors().count();
        let files = directories.entry((depth, directory)).or_default();
        if files.iter().all(|file| file.path != *path) {
            files.push(ProtectedFile { path: path.clone(), name, cover });
        }
    }
    directories.into_iter().map(|((_, directory), files)| (directory, files)).collect()
}

/// Watches the directory at `path`. `inside` is the directory that the sandbox shows there. `None`
/// if the sandbox has its own directory there, which keeps its mounts. `None` also if neither the
/// user nor the command may read the directory.
fn watch_directory(host: &Host, inotify: &OwnedFd, path: &AbsPath, inside: &OwnedFd) -> io::Result<Option<i32>> {
    let (found, of_host) = (fstat(inside)?, OpenDir::open(host, path)?.status()?);
    if Identity::of_stat(&found) != Identity::of_stat(&of_host) {
        return Ok(None);
    }
    let appears = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
    match inotify::add_watch(inotify, format!("/proc/self/fd/{}", inside.as_raw_fd()), appears) {
        Err(Errno::ACCESS) if found.st_uid != geteuid().as_raw() => Ok(None),
        watch => Ok(Some(watch?)),
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn not_watched((paths, error): Unwatched) -> Option<Diagnostic> {
    let error = error?;
    let message = match paths.as_slice() {
        [path] => format!("`{path}` is not covered again if the host replaces it"),
        _ => "protected files are not covered again if the host replaces them".to_owned(),
    };
    let message = format!("{message}: {}", reason(&error));
    let help = match Errno::from_io_error(&error) {
        Some(Errno::NOSPC | Errno::MFILE) => {
            "raise `fs.inotify.max_user_watches` and `fs.inotify.max_user_instances` with `sudo sysctl`"
        }
        _ => "change protected files outside while no sandbox runs",
    };
    Some(Diagnostic::new(Code::NotCoveredAgain, message).paths(paths).help(help))
}
