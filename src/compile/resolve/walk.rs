//! One walk for all globs. Each directory is read once, by several threads if there are many.
//!
//! A pattern is a small automaton over path components. A directory carries the live states of all
//! patterns, and is entered only if it has one.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::host::{DirEntry, FileKind, Host, Resolved};
use crate::policy::path::{AbsPath, PathMap};
use crate::policy::places;
use crate::policy::rule::{Access, Exactness, Precedence, Refinements, Rule};

use super::pattern::Component;
use super::walk_snapshot::Visited;

/// Below this many directories a second thread costs more than it saves.
const DIRECTORIES_BEFORE_THREADS: usize = 64;
const MAX_THREADS: usize = 8;

/// The sandbox has its own `/proc` and `/dev`, and no rule applies there.
const OWN_FILE_SYSTEMS: [&str; 2] = [places::PROC, places::DEV];

/// A glob, ready to walk.
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
    /// How many names (hard links) a file has. Counted for protective rules only: a listing does
    /// not tell.
    pub names: io::Result<u64>,
}

/// A directory that could not be read, and the pattern that needed it.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub pattern: usize,
    pub path: AbsPath,
    pub error: io::Error,
}

#[derive(Default)]
pub(super) struct Walked {
    pub hits: Vec<Hit>,
    pub unreadable: Vec<Unreadable>,
    pub visited: Visited,
    /// The starts that a walk from above has reached.
    entered: BTreeSet<AbsPath>,
}

impl Walked {
    /// Adds the results of another worker.
    fn add(&mut self, part: Self) {
        self.hits.extend(part.hits);
        self.unreadable.extend(part.unreadable);
        self.entered.extend(part.entered);
        self.visited.add(part.visited);
    }
}

/// `pattern` waits for its component number `at`.
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
    let within: Option<PathMap<()>> = within.map(|places| places.iter().map(|place| (place.clone(), ())).collect());
    let within = within.as_ref();
    let walker = Walker { host, patterns, exact, starts: &starts, within, literals: &literals };
    let mut walked = Walked::default();
    // Parents first: a start below another is met on the way, unless nothing led there.
    for (prefix, states) in starts.iter() {
        if !walked.entered.contains(prefix) && walker.leads_within(prefix) {
            let governing = exact.nearest(prefix).filter(|(_, winner)| winner.access == Access::Exclude);
            let excluded = governing.map(|(at, _)| at.clone());
            let (directory, states) = (prefix.clone(), states.clone());
            walker.run(Task { directory, states, excluded }, &mut walked);
        }
    }
    walked.hits.sort_by(|a, b| (a.pattern, &a.path).cmp(&(b.pattern, &b.path)));
    walked.unreadable.sort_by(|a, b| (a.pattern, &a.path).cmp(&(b.pattern, &b.path)));
    walked
}

struct Walker<'w> {
    host: &'w Host,
    patterns: &'w [&'w WalkPattern],
    /// The winners of exact rules.
    exact: &'w PathMap<Precedence>,
    /// The patterns that start at each path.
    starts: &'w PathMap<Vec<State>>,
    within: Option<&'w PathMap<()>>,
    /// Files that have the text of a pattern as their name, and which no pattern need match.
    literals: &'w PathMap<()>,
}

/// Returns how many names (hard links) a file has.
type Names<'n> = dyn Fn(&OsStr) -> io::Result<u64> + 'n;

/// The listing of a task's directory.
struct Read<'r> {
    entries: &'r [DirEntry],
    names: &'r Names<'r>,
    /// Whether patterns start below it.
    starts_below: bool,
}

/// Tasks for idle workers. Each worker keeps the tasks that it finds while all are busy.
struct Queue {
    shared: Mutex<Shared>,
    wake: Condvar,
    /// How many wait for something to do.
    idle: AtomicUsize,
}

struct Shared {
    tasks: Vec<Task>,
    working: usize,
}

impl Queue {
    /// Half of what is left, for one of those that work; `None` when all is done.
    fn take(&self) -> Option<Vec<Task>> {
        let mut shared = lock(&self.shared);
        shared.working -= 1;
        while shared.tasks.is_empty() {
            if shared.working == 0 {
                self.wake.notify_all();
                return None;
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            shared = self.wake.wait(shared).unwrap_or_else(PoisonError::into_inner);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
        shared.working += 1;
        let half = shared.tasks.len() / 2;
        Some(shared.tasks.split_off(half))
    }

    /// Gives away half of `tasks` where somebody waits: the oldest, which lead to the most.
    fn share(&self, tasks: &mut Vec<Task>) {
        if tasks.len() > 1 && self.idle.load(Ordering::Relaxed) > 0 {
            lock(&self.shared).tasks.extend(tasks.drain(..tasks.len() / 2));
            self.wake.notify_all();
        }
    }
}

impl<'w> Walker<'w> {
    fn run(&self, first: Task, walked: &mut Walked) {
        let mut tasks = vec![first];
        for _ in 0..DIRECTORIES_BEFORE_THREADS {
            let Some(task) = tasks.pop() else { return };
            let was_there = self.visit(&task, &mut tasks, walked);
            walked.visited.note(task.directory, was_there);
        }
        if tasks.is_empty() {
            return;
        }
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let shared = Mutex::new(Shared { tasks, working: threads });
        let queue = Queue { shared, wake: Condvar::new(), idle: AtomicUsize::new(0) };
        thread::scope(|scope| {
            // This thread is one of them.
            let work = || {
                let mut part = Walked::default();
                self.work(&queue, &mut part);
                part
            };
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            self.work(&queue, walked);
            for worker in workers {
                // A worker cannot panic short of a bug; `join` then passes the panic on.
                match worker.join() {
                    Ok(part) => walked.add(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }

    fn work(&self, queue: &Queue, walked: &mut Walked) {
        while let Some(mut tasks) = queue.take() {
            while let Some(task) = tasks.pop() {
                let was_there = self.visit(&task, &mut tasks, walked);
                walked.visited.note(task.directory, was_there);
                queue.share(&mut tasks);
            }
        }
    }

    /// Whether there was such a directory.
    fn visit(&self, task: &Task, tasks: &mut Vec<Task>, walked: &mut Walked) -> bool {
        if self.starts.contains_key(&task.directory) {
            walked.entered.insert(task.directory.clone());
        }
        // Read already, when rules were asked for.
        if let Some(entries) = self.host.lists().and_then(|lists| lists.of(task.directory.as_os_str())) {
            let names = |name: &OsStr| Ok(self.host.names(&task.directory.child(name))?.unwrap_or(1));
            self.steps(task, entries, &names, tasks, walked);
            return true;
        }
        let directory = match self.host.open_dir(&task.directory) {
            Ok(directory) => directory,
            // Gone since it was listed, or a prefix that does not exist: nothing is there to match.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return false,
            Err(error) => {
                self.report_unreadable(task, &error, walked);
                return true;
            }
        };
        self.steps(task, &directory.entries, &|name| directory.names(name), tasks, walked);
        true
    }

    fn steps(&self, task: &Task, entries: &[DirEntry], names: &Names, tasks: &mut Vec<Task>, walked: &mut Walked) {
        let starts_below = self.starts.below(&task.directory).next().is_some();
        let read = Read { entries, names, starts_below };
        for entry in entries {
            self.step(task, entry, &read, tasks, walked);
        }
    }

    fn report_unreadable(&self, task: &Task, error: &io::Error, walked: &mut Walked) {
        let mut patterns: Vec<usize> = task.states.iter().map(|state| state.pattern).collect();
        patterns.dedup();
        walked.unreadable.extend(patterns.into_iter().map(|pattern| Unreadable {
            pattern,
            path: task.directory.clone(),
            error: error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error),
        }));
    }

    /// Advances all states over one name.
    fn step(&self, task: &Task, entry: &DirEntry, read: &Read, tasks: &mut Vec<Task>, walked: &mut Walked) {
        let mut next: Vec<State> = Vec::new();
        let mut hit: Vec<usize> = Vec::new();
        for state in &task.states {
            self.advance(*state, entry, read.entries, &mut next, &mut hit);
        }
        let enter = is_directory(entry) && (read.starts_below || !next.is_empty());
        if hit.is_empty() && !enter {
            return;
        }
        let path = task.directory.child(&entry.name);
        if enter {
            // A pattern is done with a directory that it matches (SPEC G2).
            next.retain(|state| !hit.contains(&state.pattern));
            self.enter(task, &path, next, &hit, tasks);
        }
        let is_file = entry.kind == FileKind::File && !entry.is_symlink;
        let counts = |pattern: usize| is_file && self.patterns[pattern].rule.access.is_protective();
        let hits = hit.into_iter().map(|pattern| Hit {
            pattern,
            path: path.clone(),
            kind: entry.kind,
            is_symlink: entry.is_symlink,
            names: if counts(pattern) { (read.names)(&entry.name) } else { Ok(1) },
        });
        walked.hits.extend(hits);
    }

    fn advance(
        &self,
        state: State,
        entry: &DirEntry,
        beside: &[DirEntry],
        next: &mut Vec<State>,
        hit: &mut Vec<usize>,
    ) {
        let pattern = &self.patterns[state.pattern];
        let refinements = &pattern.rule.refinements;
        let last = pattern.components.len() - 1;
        let enterable = is_directory(entry) && !is_skipped(refinements, entry, beside);
        let mut push = |at: usize| {
            let state = State { at, ..state };
            if enterable && !next.contains(&state) {
                next.push(state);
            }
        };
        let mut at = state.at;
        if matches!(pattern.components[at], Component::AnyDepth) {
            push(at);
            // `**` also matches no directory at all; as the last component it matches every name.
            at = (at + 1).min(last);
        }
        if !pattern.components[at].matches(&entry.name) {
            return;
        }
        if at < last {
            push(at + 1);
        } else if !refinements.except.contains(&entry.name) && !hit.contains(&state.pattern) {
            hit.push(state.pattern);
        }
    }

    fn enter(&self, task: &Task, path: &AbsPath, mut states: Vec<State>, hit: &[usize], tasks: &mut Vec<Task>) {
        if OWN_FILE_SYSTEMS.iter().any(|own| path.as_os_str() == *own) || !self.leads_within(path) {
            return;
        }
        states.extend(self.starts.get(path).into_iter().flatten());
        let excluded = self.excluded_at(task, path, hit);
        let next = Task { directory: path.clone(), states, excluded };
        if !next.states.is_empty() && next.excluded.as_ref().is_none_or(|excluded| self.may_reopen(excluded, &next)) {
            tasks.push(next);
        }
    }

    fn leads_within(&self, path: &AbsPath) -> bool {
        let leads = |places: &PathMap<()>| places.nearest(path).is_some() || places.below(path).next().is_some();
        self.within.is_none_or(leads)
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
            // Out of reach (SPEC G3), so it opens nothing.
            Some(excluded) if !winner.prefix.is_within(excluded) && winner.rule.access != Access::Exclude => {
                Some(excluded.clone())
            }
            _ => of(winner.rule.access),
        }
    }

    /// Whether anything in the directory of `next` may be re-opened: by an exact rule, or by a glob
    /// that names a place in the excluded directory. Only then do the other globs matter there.
    fn may_reopen(&self, excluded: &AbsPath, next: &Task) -> bool {
        let path = &next.directory;
        self.exact.below(path).next().is_some()
            || self.starts.below(path).next().is_some()
            || self.literals.below(path).next().is_some()
            || next.states.iter().any(|state| self.patterns[state.pattern].prefix.is_within(excluded))
    }
}

fn is_skipped(refinements: &Refinements, entry: &DirEntry, beside: &[DirEntry]) -> bool {
    let lies_beside = |name: &String| beside.iter().any(|other| other.name == name.as_str());
    refinements.skip_directories.iter().any(|skip| entry.name == skip.as_str())
        && refinements.skip_beside.as_ref().is_none_or(lies_beside)
}

fn is_directory(entry: &DirEntry) -> bool {
    entry.kind == FileKind::Directory
}

/// A poisoned lock means that another worker panicked; its panic is passed on by `join`.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
