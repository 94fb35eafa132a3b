//! Expands all globs with one walk, which reads each directory once.
//!
//! A pattern is a small automaton over path components. A directory carries the live states of all
//! patterns, and is entered only if it has one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;

use crate::host::long_path::LONGEST_SEARCHED;
use crate::host::{DirEntry, Directory, FileKind, Host, Resolved};
use crate::policy::{AbsPath, Access, Exactness, PathMap, Precedence, Refinements, Rule, places};

use super::pattern::{self, Component, KnownByte};
use super::walk_snapshot::WalkSnapshot;

/// The number of directories from which on several threads read them. With fewer, a second thread
/// costs more than it saves.
const DIRECTORIES_BEFORE_THREADS: usize = 64;
const MAX_THREADS: usize = 8;

/// Bytes of the path that a diagnostic names for folders that are nested too deep.
const LONGEST_NAMED: usize = 512;

/// File systems of which the sandbox has its own. No rule applies there.
const OWN_FILE_SYSTEMS: [&str; 2] = [places::PROC, places::DEV];

#[derive(Debug)]
pub(super) struct WalkPattern {
    pub rule: Arc<Rule>,
    pub prefix: AbsPath,
    /// The symlinks on the way to `prefix`.
    pub links: Vec<AbsPath>,
    pub components: Vec<Component>,
    /// A file that has the text of the pattern as its name (SPEC G4).
    pub literal: Option<Resolved>,
}

#[derive(Debug)]
pub(super) struct Hit {
    pub pattern: usize,
    pub path: AbsPath,
    pub kind: FileKind,
    pub is_symlink: bool,
    /// The number of hard links of a file. Only protective rules need it, and it costs a call.
    pub names: io::Result<u64>,
}

#[derive(Default)]
pub(super) struct Walked {
    pub hits: Vec<Hit>,
    /// Patterns, and the directories that they needed and that could not be read.
    pub unreadable: Vec<(usize, AbsPath, io::Error)>,
    pub snapshot: WalkSnapshot,
    /// The start directories that a walk from further up has reached.
    entered: BTreeSet<AbsPath>,
    next: Vec<Task>,
}

impl Walked {
    fn add(&mut self, part: Self) {
        self.hits.extend(part.hits);
        self.unreadable.extend(part.unreadable);
        self.snapshot.add(part.snapshot);
        self.entered.extend(part.entered);
        self.next.extend(part.next);
    }
}

/// The next name must match the component `at` of `pattern`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    pattern: usize,
    at: usize,
}

struct Task {
    directory: AbsPath,
    states: Vec<State>,
    /// The excluded directory around this one, which was entered because something in it may be
    /// re-opened.
    excluded: Option<AbsPath>,
}

/// Walks all patterns. `exact` are the winners of exact rules: the walk does not enter directories
/// that they hide as a whole. With `within` it enters only these directories, and those on the way
/// to them.
pub(super) fn walk(
    host: &Host,
    patterns: &[&WalkPattern],
    exact: &PathMap<Precedence>,
    within: Option<&[AbsPath]>,
) -> Walked {
    let state = |(index, pattern): (usize, &&WalkPattern)| (pattern.prefix.clone(), State { pattern: index, at: 0 });
    let mut starts: PathMap<Vec<State>> = PathMap::default();
    for (prefix, state) in patterns.iter().enumerate().map(state) {
        starts.entry(prefix).or_default().push(state);
    }
    let literals = patterns.iter().filter_map(|pattern| pattern.literal.as_ref());
    let literals = literals.map(|literal| (literal.path.clone(), ())).collect();
    let within = within.map(|places| places.iter().map(|place| (place.clone(), ())).collect());
    let walker = Walker { host, patterns, exact, starts: &starts, within, literals };
    let mut walked = Walked::default();
    // Parents first: a walk from further up also reaches a start below it, unless no pattern led
    // there.
    for (prefix, states) in starts.iter() {
        if !walked.entered.contains(prefix) && walker.leads_within(prefix) {
            let governing = exact.nearest(prefix).filter(|(_, winner)| winner.access == Access::Exclude);
            let excluded = governing.map(|(at, _)| at.clone());
            walked.next.push(Task { directory: prefix.clone(), states: states.clone(), excluded });
            walker.run(&mut walked);
        }
    }
    walked.hits.sort_by(|a, b| (a.pattern, &a.path).cmp(&(b.pattern, &b.path)));
    walked.unreadable.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    walked
}

struct Walker<'w> {
    host: &'w Host,
    patterns: &'w [&'w WalkPattern],
    exact: &'w PathMap<Precedence>,
    /// The states of the patterns that start at a directory.
    starts: &'w PathMap<Vec<State>>,
    within: Option<PathMap<()>>,
    /// Files that have the text of a pattern as their name. The pattern need not match them.
    literals: PathMap<()>,
}

impl Walker<'_> {
    /// Reads the directories depth by depth. Several threads share the directories of one depth.
    fn run(&self, walked: &mut Walked) {
        while !walked.next.is_empty() {
            let tasks = std::mem::take(&mut walked.next);
            let threads = match tasks.len() {
                ..DIRECTORIES_BEFORE_THREADS => 1,
                _ => thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
            };
            let mut parts = tasks.chunks(tasks.len().div_ceil(threads));
            let own = parts.next().unwrap_or_default();
            thread::scope(|scope| {
                let workers: Vec<_> = parts.map(|part| scope.spawn(|| self.visit_all(part))).collect();
                walked.add(self.visit_all(own));
                for worker in workers {
                    walked.add(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                }
            });
        }
    }

    fn visit_all(&self, tasks: &[Task]) -> Walked {
        let mut walked = Walked::default();
        for task in tasks {
            let existed = self.visit(task, &mut walked);
            walked.snapshot.note(task.directory.clone(), existed);
        }
        walked
    }

    /// Reads one directory. Returns whether it exists.
    fn visit(&self, task: &Task, walked: &mut Walked) -> bool {
        if self.starts.get(&task.directory).is_some() {
            walked.entered.insert(task.directory.clone());
        }
        match self.host.open_dir(&task.directory) {
            Ok(directory) => {
                let starts_below = self.starts.below(&task.directory).next().is_some();
                let glance = Glance::new(self.patterns, &task.states);
                let is_of_interest =
                    |entry: &&DirEntry| entry.kind == FileKind::Directory || glance.may_match(&entry.name);
                for entry in directory.entries.iter().filter(is_of_interest) {
                    self.step(task, entry, &directory, starts_below, walked);
                }
                true
            }
            // The directory was removed after its parent was read, or it is a prefix that does not
            // exist.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => false,
            Err(error) => {
                let patterns: BTreeSet<usize> = task.states.iter().map(|state| state.pattern).collect();
                let copy = || error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
                let failure = |pattern| (pattern, task.directory.clone(), copy());
                walked.unreadable.extend(patterns.into_iter().map(failure));
                true
            }
        }
    }

    /// Advances all states over one name.
    fn step(&self, task: &Task, entry: &DirEntry, directory: &Directory, starts_below: bool, walked: &mut Walked) {
        let is_directory = entry.kind == FileKind::Directory;
        let mut next: Vec<State> = Vec::new();
        let mut hit: Vec<usize> = Vec::new();
        for state in &task.states {
            let pattern = &self.patterns[state.pattern];
            let refinements = &pattern.rule.refinements;
            let enterable = || is_directory && !is_skipped(refinements, entry, &directory.entries);
            for at in pattern::advance(&pattern.components, state.at, &entry.name) {
                let state = State { at, ..*state };
                if at < pattern.components.len() {
                    if !next.contains(&state) && enterable() {
                        next.push(state);
                    }
                } else if !pattern.rule.excepts(&entry.name) && !hit.contains(&state.pattern) {
                    hit.push(state.pattern);
                }
            }
        }
        let enter = is_directory && (starts_below || !next.is_empty());
        if hit.is_empty() && !enter {
            return;
        }
        let path = task.directory.child(&entry.name);
        if enter {
            // A pattern is done with a directory that it matches (SPEC G2).
            next.retain(|state| !hit.contains(&state.pattern));
            match self.enter(task, &path, next, &hit) {
                Some(task) if path.as_os_str().len() > LONGEST_SEARCHED => walked.unreadable.extend(too_deep(&task)),
                entered => walked.next.extend(entered),
            }
        }
        let is_file = entry.kind == FileKind::File && !entry.is_symlink;
        let counts = |pattern: usize| is_file && self.patterns[pattern].rule.access.is_protective();
        walked.hits.extend(hit.into_iter().map(|pattern| Hit {
            pattern,
            path: path.clone(),
            kind: entry.kind,
            is_symlink: entry.is_symlink,
            names: if counts(pattern) { directory.names(&entry.name) } else { Ok(1) },
        }));
    }

    fn enter(&self, task: &Task, path: &AbsPath, mut states: Vec<State>, hit: &[usize]) -> Option<Task> {
        if OWN_FILE_SYSTEMS.iter().any(|own| path.as_os_str() == *own) || !self.leads_within(path) {
            return None;
        }
        states.extend(self.starts.get(path).into_iter().flatten());
        let excluded = self.excluded_at(task, path, hit);
        let is_open = excluded.as_ref().is_none_or(|excluded| self.may_reopen(excluded, path, &states));
        (!states.is_empty() && is_open).then(|| Task { directory: path.clone(), states, excluded })
    }

    fn leads_within(&self, path: &AbsPath) -> bool {
        let leads = |places: &PathMap<()>| places.nearest(path).is_some() || places.below(path).next().is_some();
        self.within.as_ref().is_none_or(leads)
    }

    /// The excluded directory that governs `path`, as `decide` will see it. Exact rules beat globs,
    /// so the exact winner is final. All globs that can match `path` are known here, because one
    /// walk carries every pattern.
    fn excluded_at(&self, task: &Task, path: &AbsPath, hit: &[usize]) -> Option<AbsPath> {
        let of = |access: Access| (access == Access::Exclude).then(|| path.clone());
        if let Some(winner) = self.exact.get(path) {
            return of(winner.access);
        }
        if self.literals.get(path).is_some() {
            return None;
        }
        // A rule that only tightens (SPEC G5, P12) may turn out not to count, so it neither hides a
        // directory from the walk nor re-opens one.
        let only_tightens = |pattern: &WalkPattern| {
            pattern.rule.is_preset_ro() || (!pattern.links.is_empty() && pattern.rule.access.is_protective())
        };
        let patterns = hit.iter().map(|pattern| self.patterns[*pattern]).filter(|pattern| !only_tightens(pattern));
        let Some(winner) = patterns.max_by_key(|pattern| pattern.rule.precedence(Exactness::Glob)) else {
            return task.excluded.clone();
        };
        match &task.excluded {
            // The winner is out of reach (SPEC G3), so it opens nothing.
            Some(excluded) if !winner.prefix.is_within(excluded) && winner.rule.access != Access::Exclude => {
                Some(excluded.clone())
            }
            _ => of(winner.rule.access),
        }
    }

    /// Whether anything in the directory `path` may be re-opened: by an exact rule, or by a glob
    /// that names a place in the excluded directory. Only then do the other globs matter there.
    fn may_reopen(&self, excluded: &AbsPath, path: &AbsPath, states: &[State]) -> bool {
        self.exact.below(path).next().is_some()
            || self.starts.below(path).next().is_some()
            || self.literals.below(path).next().is_some()
            || states.iter().any(|state| self.patterns[state.pattern].prefix.is_within(excluded))
    }
}

/// The first and last bytes of the names that the patterns of a directory may match. These bytes
/// rule out most names, so that few names are compared with each pattern.
struct Glance {
    first: [bool; 256],
    last: [bool; 256],
    /// Whether a pattern exists of which neither byte is known.
    any: bool,
}

impl Glance {
    fn new(patterns: &[&WalkPattern], states: &[State]) -> Self {
        let mut glance = Self { first: [false; 256], last: [false; 256], any: false };
        for state in states {
            match pattern::known_byte(&patterns[state.pattern].components, state.at) {
                KnownByte::First(byte) => glance.first[usize::from(byte)] = true,
                KnownByte::Last(byte) => glance.last[usize::from(byte)] = true,
                KnownByte::None => glance.any = true,
            }
        }
        glance
    }

    fn may_match(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        let has = |known: &[bool; 256], byte: Option<&u8>| byte.is_some_and(|byte| known[usize::from(*byte)]);
        self.any || has(&self.first, name.first()) || has(&self.last, name.last())
    }
}

/// Reports directories that are nested too deep. Names one near the top, whose path people can
/// read.
fn too_deep(task: &Task) -> Vec<(usize, AbsPath, io::Error)> {
    let error = || io::Error::from_raw_os_error(rustix::io::Errno::NAMETOOLONG.raw_os_error());
    let top = task.directory.ancestors().find(|above| above.as_os_str().len() < LONGEST_NAMED);
    let patterns: BTreeSet<usize> = task.states.iter().map(|state| state.pattern).collect();
    patterns.into_iter().map(|pattern| (pattern, top.clone().unwrap_or_else(AbsPath::root), error())).collect()
}

fn is_skipped(refinements: &Refinements, entry: &DirEntry, siblings: &[DirEntry]) -> bool {
    let has_sibling = |name: &str| siblings.iter().any(|other| other.name == name);
    refinements.skip_directories.iter().any(|skip| entry.name == *skip)
        && refinements.skip_beside.is_none_or(has_sibling)
}
