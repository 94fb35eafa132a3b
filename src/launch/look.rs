//! The files and directories that the mounts mean. The supervisor notes them before bwrap starts
//! and compares them after the guard has compared its mounts, before the command starts (SPEC C14).
//! A file that another process swaps in between is noticed, also one that lies under a mask and
//! that the guard cannot see.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::compile::guard_plan::{Expectation, Expected, GuardPlan};
use crate::compile::lower::Argv;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::host::identity::Identity;
use crate::host::nofollow;
use crate::policy::path::AbsPath;
use crate::policy::places;

/// Seconds and nanoseconds.
type Moment = (i64, i64);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The file or directory at each path that is mounted or mounted on. `None` if nothing is there.
    targets: BTreeMap<AbsPath, Option<Identity>>,
    /// When an entry of each directory around them was made, removed or renamed last. No program
    /// can set this time.
    directories: BTreeMap<AbsPath, Moment>,
    /// The targets that the policy closes.
    closed: Vec<AbsPath>,
}

/// The first difference between two looks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference<'l> {
    /// Another file or directory is at this path that the policy closes, or nothing is.
    Closed(&'l AbsPath),
    /// Another file or directory is at this path that the policy opens, or nothing is.
    Opened(&'l AbsPath),
    /// A file may have been moved away from this directory and back again.
    Directory(&'l AbsPath),
}

impl Look {
    /// A symlink on the way to a path is an error: there was none when the rule was resolved.
    pub fn now(host: &Host, plan: &GuardPlan) -> Result<Self, (AbsPath, io::Error)> {
        let closed = plan.expect.iter().filter(|expected| expected.required).map(host_path);
        let mut look = Self { closed: closed.chain(&plan.pins).cloned().collect(), ..Self::default() };
        for path in targets(plan) {
            let found = nofollow::look(host, path).map_err(|e| (path.clone(), e))?;
            look.targets.insert(path.clone(), found.map(|found| Identity::of_stat(&found)));
        }
        for path in directories(plan) {
            let found = nofollow::look(host, &path).map_err(|e| (path.clone(), e))?;
            if let Some(found) = found {
                look.directories.insert(path, (found.st_ctime, found.st_ctime_nsec.cast_signed()));
            }
        }
        Ok(look)
    }

    /// The identities that the guard compares: it sees what is mounted, and not what a mask covers.
    pub fn identities(&self, plan: &GuardPlan) -> Vec<(AbsPath, Identity)> {
        let shows_host = |expected: &&Expected| matches!(expected.access, Expectation::Rw | Expectation::Ro);
        let noted = |expected: &Expected| {
            let identity = self.targets.get(host_path(expected)).copied().flatten()?;
            Some((expected.path.clone(), identity))
        };
        plan.expect.iter().filter(shows_host).filter_map(noted).collect()
    }

    /// A path that the policy closes, and at which nothing is any more. bwrap would make a mount
    /// point there.
    pub fn missing(&self) -> Option<&AbsPath> {
        self.closed.iter().find(|path| self.targets.get(*path) == Some(&None))
    }

    pub(super) fn difference<'l>(&'l self, later: &'l Self) -> Option<Difference<'l>> {
        let differing = |(path, found): (&'l AbsPath, _)| (later.targets.get(path) != Some(found)).then_some(path);
        let target = self.targets.iter().find_map(differing);
        let directory = || {
            let differs = |(path, moment): &(&AbsPath, &Moment)| later.directories.get(*path) != Some(*moment);
            self.directories.iter().find(differs).map(|(path, _)| path)
        };
        match target {
            Some(path) if self.closed.contains(path) => Some(Difference::Closed(path)),
            Some(path) => Some(Difference::Opened(path)),
            None => directory().map(Difference::Directory),
        }
    }
}

/// The paths that the policy opens, shows or closes. Whole parts of the host that every sandbox
/// shows (`/`, and places in `/run`) are no rule's.
fn targets(plan: &GuardPlan) -> impl Iterator<Item = &AbsPath> {
    let run = places::at(places::RUN);
    let matters = move |expected: &&Expected| match expected.access {
        Expectation::Rw => true,
        Expectation::Ro => expected.required || !expected.path.is_root() && !expected.path.is_within(&run),
        Expectation::Hidden | Expectation::Content => expected.required,
        Expectation::Own => false,
    };
    plan.expect.iter().filter(matters).map(host_path).chain(&plan.pins)
}

fn host_path(expected: &Expected) -> &AbsPath {
    expected.source.as_ref().unwrap_or(&expected.path)
}

/// The directories around what the policy closes, as far as a command could write them.
fn directories(plan: &GuardPlan) -> BTreeSet<AbsPath> {
    let expected: BTreeMap<&AbsPath, &Expected> =
        plan.expect.iter().map(|expected| (&expected.path, expected)).collect();
    let is_writable = |directory: &AbsPath| {
        let governing = directory.ancestors().find_map(|at| expected.get(&at).copied());
        governing.is_some_and(|expected| expected.access == Expectation::Rw)
    };
    let closed = plan.expect.iter().filter(|expected| expected.required).map(|expected| &expected.path);
    let mut directories = BTreeSet::new();
    for path in closed.chain(&plan.pins) {
        for directory in path.ancestors().skip(1).take_while(is_writable) {
            // Its own ancestors are there already.
            if !directories.insert(directory) {
                break;
            }
        }
    }
    directories
}

/// Looks at the files and directories that the mounts mean. The last step before bwrap starts:
/// the guard and the supervisor notice every later change. Without a guard nobody compares.
pub(super) fn look(host: &Host, argv: &Argv) -> Result<Look, Diagnostic> {
    let Some(guard) = &argv.guard else { return Ok(Look::default()) };
    Look::now(host, &guard.plan).map_err(|(path, e)| {
        Diagnostic::new(Code::StartFailed, format!("`{path}` has changed since it was looked at: {}", reason(&e)))
            .help("start again; if it stays so, see which program changes it")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn abs(path: &str) -> AbsPath {
        AbsPath::normalize(path).unwrap()
    }

    fn plan() -> GuardPlan {
        let expected = |path: &str, access, required| Expected { path: abs(path), access, required, source: None };
        GuardPlan {
            overflow: Vec::new(),
            expect: vec![
                expected("/", Expectation::Ro, false),
                expected("/home/key", Expectation::Hidden, true),
                expected("/project", Expectation::Rw, false),
                expected("/project/a/.env", Expectation::Hidden, true),
            ],
            pins: Vec::new(),
            proc_read_only: Vec::new(),
            nested: false,
            landlock: true,
            names: true,
            seccomp: true,
        }
    }

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("project/a")).unwrap();
        fs::create_dir_all(root.path().join("home")).unwrap();
        fs::write(root.path().join("project/a/.env"), "secret").unwrap();
        fs::write(root.path().join("home/key"), "secret").unwrap();
        root
    }

    /// The difference that `change` makes, as text.
    fn after(change: fn(&Path)) -> String {
        let root = tree();
        let host = Host::at(root.path());
        let before = Look::now(&host, &plan()).unwrap();
        // The clock of file systems may tick only some hundred times in a second.
        let directory = root.path().join("project/a");
        let changed =
            || fs::symlink_metadata(&directory).map(|found| std::os::unix::fs::MetadataExt::ctime_nsec(&found));
        let first = changed().unwrap();
        while changed().unwrap() == first {
            fs::write(directory.join("tick"), "").unwrap();
            fs::remove_file(directory.join("tick")).unwrap();
        }
        let before = Look { directories: Look::now(&host, &plan()).unwrap().directories, ..before };
        change(root.path());
        let later = Look::now(&host, &plan());
        match &later {
            Err((path, _)) => format!("error {path}"),
            Ok(later) => match before.difference(later) {
                None => "none".to_owned(),
                Some(Difference::Closed(path) | Difference::Opened(path)) => format!("target {path}"),
                Some(Difference::Directory(path)) => format!("directory {path}"),
            },
        }
    }

    #[test]
    fn each_kind_of_change_is_noticed() {
        assert_eq!(after(|_| {}), "none");
        assert_eq!(after(|root| fs::remove_file(root.join("project/a/.env")).unwrap()), "target /project/a/.env");
        let replace = |root: &Path| {
            fs::write(root.join("project/a/new"), "").unwrap();
            fs::rename(root.join("project/a/new"), root.join("project/a/.env")).unwrap();
        };
        assert_eq!(after(replace), "target /project/a/.env");
        let link = |root: &Path| {
            fs::rename(root.join("project/a"), root.join("elsewhere")).unwrap();
            std::os::unix::fs::symlink("../elsewhere", root.join("project/a")).unwrap();
        };
        assert_eq!(after(link), "error /project/a/.env");
        // In a directory that no command can write, only the file itself counts.
        assert_eq!(after(|root| fs::write(root.join("home/other"), "").unwrap()), "none");
    }

    #[test]
    fn a_file_that_is_moved_away_and_back_changes_its_directory() {
        let root = tree();
        let host = Host::at(root.path());
        let before = Look::now(&host, &plan()).unwrap();
        let (here, there) = (root.path().join("project/a/.env"), root.path().join("project/a/x"));
        loop {
            fs::rename(&here, &there).unwrap();
            fs::rename(&there, &here).unwrap();
            // Until the clock of the file system has ticked.
            if let Some(difference) = before.difference(&Look::now(&host, &plan()).unwrap()) {
                assert_eq!(difference, Difference::Directory(&abs("/project/a")));
                return;
            }
        }
    }

    #[test]
    fn the_guard_compares_what_it_can_see() {
        let root = tree();
        let look = Look::now(&Host::at(root.path()), &plan()).unwrap();
        let paths: Vec<AbsPath> = look.identities(&plan()).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, [abs("/project")]);
    }
}
