//! Compares the mounts with the plan. A path may change between compiling and mounting, and
//! `--ro-bind-try` skips a path that is gone. Nothing starts if the mounts differ from those in the
//! argv, for any cause.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use rustix::fs::{FileType, StatxAttributes, StatxFlags};
use rustix::mount::MountFlags;

use super::mounts;
use super::report::Report;
use crate::compile::guard_plan::{Expectation, Expected, GuardPlan, PrivateLink, RunSheet};
use crate::host::mountinfo::{self, MountEntry};
use crate::host::{Identity, LastParent};
use crate::policy::{AbsPath, places};
use crate::sys::ablate::{self, Mitigation};

/// The mounts that must exist before the command starts.
pub(super) struct Verifier<'p> {
    expected: BTreeMap<AbsPath, Expected>,
    pins: Vec<&'p AbsPath>,
    /// The links that must be mounted over private files.
    links: &'p [PrivateLink],
    /// The file or directory that must be mounted at a path.
    identities: BTreeMap<&'p AbsPath, Identity>,
}

impl<'p> Verifier<'p> {
    pub(super) fn new(plan: &'p GuardPlan, sheet: &'p RunSheet) -> Self {
        let path = places::at(places::MASKED);
        let mask = Expected { path, access: Expectation::Ro, required: false, source: None };
        let is_linked = |expected: &Expected| plan.links.iter().any(|link| link.path == expected.path);
        let expected = plan.all_expected().filter(|expected| !is_linked(expected)).chain([mask]);
        Self {
            expected: expected.map(|expected| (expected.path.clone(), expected)).collect(),
            pins: plan.all_pins().collect(),
            links: &plan.links,
            identities: sheet.identities.iter().map(|(path, identity)| (path, *identity)).collect(),
        }
    }

    /// Makes every mount at or below a read-only or hidden path read-only: mounts of the host,
    /// including one that the host made a moment ago, and mounts that the guard has just bound.
    /// Returns all mounts.
    pub(super) fn close(&self) -> Result<Vec<MountEntry>, Report> {
        let table = table()?;
        let mut has_closed = false;
        for MountEntry { point, flags, .. } in self.open_in_closed_places(&table)? {
            mounts::remount(point, *flags | MountFlags::RDONLY)
                .map_err(|e| Report::refused(&format!("`{point}` cannot be made read-only"), e))?;
            has_closed = true;
        }
        // A path may have been moved away while it was made read-only.
        if has_closed { self::table() } else { Ok(table) }
    }

    pub(super) fn compare_again(&self) -> Result<(), Report> {
        self.compare(&table()?)
    }

    /// Compares every mount point of the plan with the mount that is seen there. Masks that the
    /// guard has made since it read the table need not be in it.
    pub(super) fn compare(&self, table: &[MountEntry]) -> Result<(), Report> {
        if ablate::is_off(Mitigation::GuardCheck) {
            return Ok(());
        }
        if let Some(entry) = self.open_in_closed_places(table)?.first() {
            return Err(Report::Changed(format!("`{}` is not read-only", entry.point)));
        }
        let points: BTreeSet<&AbsPath> = table.iter().map(|entry| &entry.point).collect();
        if let Some(pin) = self.pins.iter().find(|pin| !points.contains(*pin)) {
            return Err(Report::Changed(format!("`{pin}` is not kept in its place")));
        }
        let tmpfs: BTreeSet<u64> = table.iter().filter(|entry| entry.is_tmpfs).map(|entry| entry.id).collect();
        let mut parent = LastParent::default();
        for link in self.links {
            compare_link(link, &mut parent)?;
        }
        let mask = look(&places::at(places::MASKED), &mut parent).ok().map(|seen| seen.identity);
        self.expected.values().try_for_each(|expected| {
            let identity = self.identities.get(&expected.path);
            let seen = match look(&expected.path, &mut parent) {
                Ok(seen) if seen.is_mount => seen,
                _ if expected.required || identity.is_some() => return Err(differs(expected, "is not mounted")),
                Ok(_) if expected.access == Expectation::Hidden => {
                    return Err(Report::Changed(format!("`{}` is not hidden", expected.path)));
                }
                _ => return Ok(()),
            };
            let shows_nothing = match seen.kind {
                FileType::Directory => tmpfs.contains(&seen.mount) && is_mask(seen.mode),
                _ => mask == Some(seen.identity),
            };
            match expected.access {
                Expectation::Hidden if !shows_nothing => Err(differs(expected, "is not hidden")),
                Expectation::Content if seen.kind != FileType::RegularFile => Err(differs(expected, "is no file")),
                _ if identity.is_some_and(|meant| *meant != seen.identity) => {
                    Err(differs(expected, "is no longer the file or directory that it was"))
                }
                _ => Ok(()),
            }
        })
    }

    /// The writable mounts at or below read-only or hidden paths that a process can reach by their
    /// mount points. Another mount may cover such a mount, or the guard may have no access to a
    /// directory on the way. The command then cannot reach it: it has the guard's rights and fewer
    /// capabilities.
    fn open_in_closed_places<'t>(&self, table: &'t [MountEntry]) -> Result<Vec<&'t MountEntry>, Report> {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        let mut parent = LastParent::default();
        let mut is_seen = |entry: &MountEntry| match look(&entry.point, &mut parent) {
            Ok(seen) => Ok(seen.mount == entry.id),
            Err(e) if matches!(e.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(false),
            Err(e) => Err(Report::refused(&format!("`{}`", entry.point), e)),
        };
        let open = table.iter().filter(|entry| !entry.is_read_only() && !self.may_be_writable(&entry.point));
        open.filter_map(|entry| is_seen(entry).map(|is_seen| is_seen.then_some(entry)).transpose()).collect()
    }

    fn may_be_writable(&self, point: &AbsPath) -> bool {
        let governing = point.ancestors().find_map(|at| self.expected.get(&at));
        governing.is_some_and(|expected| match expected.access {
            Expectation::Rw | Expectation::Own => true,
            Expectation::Hidden => ablate::is_off(Mitigation::MaskSealed),
            Expectation::Ro | Expectation::Content => false,
        })
    }
}

fn table() -> Result<Vec<MountEntry>, Report> {
    const PATH: &str = "/proc/self/mountinfo";
    let cannot = |e: &dyn std::fmt::Display| Report::refused(&format!("`{PATH}`"), e);
    let text = fs::read(PATH).map_err(|e| cannot(&e))?;
    mountinfo::parse(&text).collect::<Result<_, _>>().map_err(|e| cannot(&e))
}

/// Whether a directory has the mode of a hidden one: no access, or search-only if a deeper rule
/// re-opens a path.
fn is_mask(mode: u32) -> bool {
    let is_permitted = [0o000, 0o111].contains(&(mode & 0o7777));
    is_permitted || ablate::is_off(Mitigation::MaskDenied) || ablate::is_off(Mitigation::MaskSealed)
}

/// A file or directory, and the mount that shows it.
struct VisibleFile {
    identity: Identity,
    mount: u64,
    /// Something is mounted at the path itself.
    is_mount: bool,
    kind: FileType,
    mode: u32,
}

/// Looks at a path without following a symlink.
fn look(path: &AbsPath, parent: &mut LastParent) -> io::Result<VisibleFile> {
    let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO | StatxFlags::MNT_ID;
    let found = parent.statx(path.as_path(), wanted)?;
    Ok(VisibleFile {
        identity: Identity::of_statx(&found),
        mount: found.stx_mnt_id,
        is_mount: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        kind: FileType::from_raw_mode(found.stx_mode.into()),
        mode: found.stx_mode.into(),
    })
}

/// A file that is not covered by its link could be one that the command may write.
fn compare_link(PrivateLink { path, copy }: &PrivateLink, parent: &mut LastParent) -> Result<(), Report> {
    let is_link = look(path, parent).is_ok_and(|seen| seen.is_mount && seen.kind == FileType::Symlink);
    let leads_to_copy = || fs::read_link(path.as_path()).is_ok_and(|target| target == copy.as_path());
    if is_link && leads_to_copy() { Ok(()) } else { Err(Report::Changed(format!("`{path}` is not private"))) }
}

/// A path that the policy restricts may have appeared or vanished, so another start may succeed. A
/// path that the policy opens must be the one that the user's rule meant when the policy was
/// compiled.
fn differs(expected: &Expected, problem: &str) -> Report {
    let why = format!("`{}` {problem}", expected.path);
    if expected.required { Report::Changed(why) } else { Report::Refused(why) }
}
