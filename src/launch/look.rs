//! The identities of the files and directories that are sources or targets of mounts. The
//! supervisor records them before bwrap starts, and compares them before the command starts, after
//! the guard has compared its mounts (SPEC C14). So the supervisor notices a file that another
//! process replaced in the meantime, even under a mask, where the guard cannot see it.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::{Access, StatxFlags, access};
use rustix::io::Errno;

use crate::compile::guard_plan::{Expectation, Expected, GuardPlan};
use crate::compile::lower::Argv;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{FileBirth, Host, Identity, LastParent, PathError};
use crate::policy::{AbsPath, places};

/// Seconds and nanoseconds.
type Moment = (i64, u32);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The targets, in the order of their paths.
    targets: Vec<MountTarget>,
    /// The directories above the targets that a command can write, each with its ctime. The ctime
    /// changes when an entry is made, removed or renamed. No program can set it.
    directories: Vec<(AbsPath, Option<Moment>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MountTarget {
    path: AbsPath,
    /// The policy restricts access to this path.
    is_closed: bool,
    /// `None` if nothing is there.
    found: Option<FileBirth>,
}

/// The first difference between two looks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference<'l> {
    /// The policy restricts access to this path, whose file or directory was replaced or removed.
    Closed(&'l AbsPath),
    /// The policy gives access to this path, whose file or directory was replaced or removed.
    Opened(&'l AbsPath),
    /// A file may have been moved away from this directory and back again.
    Directory(&'l AbsPath),
}

impl Look {
    /// Records the present state of all paths of a plan. A symlink on the way to one is an error:
    /// there was none when the rule was resolved.
    pub fn now(host: &Host, plan: &GuardPlan) -> Result<Self, PathError> {
        let directories = directories(host, plan).into_iter().map(|path| (path, None)).collect();
        Self { targets: targets(plan), directories }.again(host)
    }

    pub(super) fn again(&self, host: &Host) -> Result<Self, PathError> {
        let mut look = self.clone();
        let mut parent = LastParent::default();
        let mut stat = |path: &AbsPath| match parent.statx(&host.real(path), FileBirth::WANTED | StatxFlags::CTIME) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(PathError::at(path)(e.into())),
        };
        for target in &mut look.targets {
            target.found = stat(&target.path)?.map(|found| FileBirth::of(&found));
        }
        for (path, moment) in &mut look.directories {
            *moment = stat(path)?.map(|found| (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec));
        }
        Ok(look)
    }

    /// The identities that the guard compares. Masked files are left out, because the guard cannot
    /// see them.
    pub fn identities(&self, plan: &GuardPlan) -> Vec<(AbsPath, Identity)> {
        let shows_host = |expected: &Expected| matches!(expected.access, Expectation::Rw | Expectation::Ro);
        let noted = |expected: Expected| {
            let at = self.targets.binary_search_by(|target| target.path.cmp(expected.host_path())).ok()?;
            Some((expected.path, self.targets[at].found?.identity))
        };
        plan.all_expected().filter(shows_host).filter_map(noted).collect()
    }

    /// A path to which the policy restricts access and that is gone. bwrap would make a mount
    /// point there.
    pub fn missing(&self) -> Option<&AbsPath> {
        self.targets.iter().find(|target| target.is_closed && target.found.is_none()).map(|target| &target.path)
    }

    /// Compares with a later look at the same paths.
    pub(super) fn difference(&self, later: &Self) -> Option<Difference<'_>> {
        let differs = |(before, later): &(&MountTarget, &MountTarget)| before != later;
        match self.targets.iter().zip(&later.targets).find(differs) {
            Some((MountTarget { path, is_closed: true, .. }, _)) => Some(Difference::Closed(path)),
            Some((MountTarget { path, .. }, _)) => Some(Difference::Opened(path)),
            None => {
                let mut directories = self.directories.iter().zip(&later.directories);
                directories.find(|(before, later)| before != later).map(|((path, _), _)| Difference::Directory(path))
            }
        }
    }
}

/// The paths to which the policy gives or restricts access. Whole parts of the host that every
/// sandbox shows (`/`, and folders in `/run`) belong to no rule, so they are left out.
fn targets(plan: &GuardPlan) -> Vec<MountTarget> {
    let run = places::at(places::RUN);
    let matters = |expected: &Expected| match expected.access {
        Expectation::Rw => true,
        Expectation::Ro => expected.required || !expected.path.is_root() && !expected.path.is_within(&run),
        Expectation::Hidden | Expectation::Content => expected.required,
        Expectation::Own => false,
    };
    let target = |path: &AbsPath, is_closed| MountTarget { path: path.clone(), is_closed, found: None };
    let links = plan.links.iter().map(|link| &link.path);
    let pins = plan.all_pins().chain(links).map(|path| target(path, true));
    let expected = plan.all_expected().filter(matters);
    let expected = expected.map(|expected| target(expected.host_path(), expected.required));
    // The mount point of an injection is not the path of its source.
    let elsewhere = plan.expect.iter().filter(|expected| expected.source.is_some() && expected.required);
    let elsewhere = elsewhere.map(|expected| target(&expected.path, true));
    let mut targets: Vec<MountTarget> = pins.chain(expected).chain(elsewhere).collect();
    targets.sort_by(|a, b| a.path.cmp(&b.path).then(b.is_closed.cmp(&a.is_closed)));
    targets.dedup_by(|later, first| later.path == first.path);
    targets
}

/// The directories above restricted paths that a command could write. A command in another sandbox
/// may write where this policy forbids it, but only where the user can write.
fn directories(host: &Host, plan: &GuardPlan) -> BTreeSet<AbsPath> {
    let expected: BTreeMap<AbsPath, Expected> =
        plan.all_expected().map(|expected| (expected.path.clone(), expected)).collect();
    let is_writable = |directory: &AbsPath| {
        let governing = directory.ancestors().find_map(|at| expected.get(&at));
        governing.is_some_and(|expected| expected.access == Expectation::Rw)
            || access(host.real(directory), Access::WRITE_OK).is_ok()
    };
    let closed = expected.values().filter(|expected| expected.required).map(|expected| &expected.path);
    let mut directories = BTreeSet::new();
    for path in closed.chain(plan.all_pins()) {
        for directory in path.ancestors().skip(1) {
            // The ancestors of a known directory are known.
            if directories.contains(&directory) || !is_writable(&directory) {
                break;
            }
            directories.insert(directory);
        }
    }
    directories
}

/// Records the state of all paths of the guard's plan. This is the last step before bwrap starts:
/// the guard and the supervisor notice every later change. Without a guard, no process compares,
/// so nothing is recorded.
pub(super) fn look(host: &Host, argv: &Argv) -> Result<Look, Diagnostic> {
    let Some(guard) = &argv.guard else { return Ok(Look::default()) };
    Look::now(host, &guard.plan).map_err(|PathError { path, error }| {
        Diagnostic::new(Code::StartFailed, format!("`{path}` has changed since it was examined: {}", reason(&error)))
            .help("start again; if it changes again, find the program that changes it")
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
            links: Vec::new(),
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
            changes: true,
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
            Err(PathError { path, .. }) => format!("error {path}"),
            Ok(later) => match before.difference(later) {
                None => "none".to_owned(),
                Some(Difference::Closed(path) | Difference::Opened(path)) => format!("target {path}"),
                Some(Difference::Directory(path)) => format!("directory {path}"),
            },
        }
    }

    // SPEC C14
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
        // With this policy `/home` is not writable, but another sandbox of the user may write
        // there.
        let swap = |root: &Path| {
            fs::rename(root.join("home/key"), root.join("home/away")).unwrap();
            fs::rename(root.join("home/away"), root.join("home/key")).unwrap();
        };
        assert_eq!(after(swap), "directory /home");
    }

    // SPEC C14
    #[test]
    fn a_file_that_is_moved_away_and_back_changes_its_directory() {
        let root = tree();
        let host = Host::at(root.path());
        let before = Look::now(&host, &plan()).unwrap();
        let (here, there) = (root.path().join("project/a/.env"), root.path().join("project/a/x"));
        loop {
            fs::rename(&here, &there).unwrap();
            fs::rename(&there, &here).unwrap();
            // Repeat until the clock of the file system has ticked.
            if let Some(difference) = before.difference(&Look::now(&host, &plan()).unwrap()) {
                assert_eq!(difference, Difference::Directory(&abs("/project/a")));
                return;
            }
        }
    }

    #[test]
    fn the_guard_compares_the_files_that_it_can_see() {
        let root = tree();
        let look = Look::now(&Host::at(root.path()), &plan()).unwrap();
        let paths: Vec<AbsPath> = look.identities(&plan()).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, [abs("/project")]);
    }
}
