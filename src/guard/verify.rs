//! Compares the mounts with the plan. A path may change between compiling and mounting, and
//! `--ro-bind-try` skips a path that is gone. Whatever the cause, nothing starts on other mounts
//! than those that the argv says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use rustix::mount::MountFlags;

use super::Failure;
use super::mounts;
use crate::compile::guard_plan::{Expectation, Expected, GuardPlan};
use crate::host::identity::Identity;
use crate::host::mountinfo::{self, MountEntry};
use crate::policy::path::AbsPath;
use crate::policy::places;
use crate::sys::ablate::{self, Mitigation};

/// The file or directory that must be mounted at a path.
pub(super) type Identities = BTreeMap<AbsPath, Identity>;

/// All mounts of this namespace.
pub(super) struct Table {
    entries: Vec<MountEntry>,
}

impl Table {
    pub(super) fn read() -> Result<Self, Failure> {
        let cannot = |e: io::Error| Failure::refused("`/proc/self/mountinfo`", e);
        let text = fs::read("/proc/self/mountinfo").map_err(cannot)?;
        let entries = mountinfo::parse_all(&text)
            .map_err(|line| Failure::refused("`/proc/self/mountinfo`", format!("unknown line `{line}`")))?;
        Ok(Self { entries })
    }

    /// Makes read-only every mount that lies in a read-only or hidden place: mounts of the host,
    /// also one that the host made a moment ago, and those that the guard has just bound.
    pub(super) fn close(&self, plan: &GuardPlan) -> Result<(), Failure> {
        let expected: BTreeMap<&AbsPath, &Expected> = by_path(plan);
        for entry in self.entries.iter().filter(|entry| !entry.has("ro")) {
            let point = &entry.point;
            if is_open(entry, &expected) || seen(entry)?.is_none() {
                continue;
            }
            mounts::remount(point, flags_of(entry) | MountFlags::RDONLY)
                .map_err(|e| Failure::refused(&format!("`{point}` cannot be made read-only"), e))?;
        }
        Ok(())
    }

    /// Compares every mount point of the plan with the mount that is seen there.
    pub(super) fn compare(&self, plan: &GuardPlan, identities: &Identities) -> Result<(), Failure> {
        if ablate::is_off(Mitigation::GuardCheck) {
            return Ok(());
        }
        let points: BTreeSet<&AbsPath> = self.entries.iter().map(|entry| &entry.point).collect();
        if let Some(pin) = plan.pins.iter().find(|pin| !points.contains(pin)) {
            return Err(Failure::Changed(format!("`{pin}` is not kept in its place")));
        }
        let expected = by_path(plan);
        let mut visible = BTreeMap::new();
        for entry in &self.entries {
            let is_expected = expected.contains_key(&entry.point);
            let must_be_closed = !entry.has("ro") && !is_open(entry, &expected);
            let Some(seen) = (if is_expected || must_be_closed { seen(entry)? } else { None }) else { continue };
            if must_be_closed {
                return Err(Failure::Changed(format!("`{}` is not read-only", entry.point)));
            }
            visible.insert(&entry.point, seen);
        }
        let masked = identity_of_mask()?;
        plan.expect.iter().try_for_each(|expected| {
            let identity = identities.get(&expected.path).copied();
            match visible.get(&expected.path) {
                None if expected.required || identity.is_some() => Err(differs(expected, "is not mounted")),
                None if expected.access == Expectation::Hidden && look(&expected.path).is_ok() => {
                    Err(Failure::Changed(format!("`{}` is not hidden", expected.path)))
                }
                None => Ok(()),
                Some(seen) => seen.compare(expected, identity, masked),
            }
        })
    }
}

/// Whether a mount may be writable where it lies.
fn is_open(entry: &MountEntry, expected: &BTreeMap<&AbsPath, &Expected>) -> bool {
    let governing = entry.point.ancestors().find_map(|at| expected.get(&at).copied());
    governing.is_some_and(|expected| match expected.access {
        Expectation::Rw | Expectation::Own => true,
        Expectation::Hidden => ablate::is_off(Mitigation::MaskSealed),
        Expectation::Ro | Expectation::Content => false,
    })
}

fn by_path(plan: &GuardPlan) -> BTreeMap<&AbsPath, &Expected> {
    plan.expect.iter().map(|expected| (&expected.path, expected)).collect()
}

/// The file at the place that all masked files show. `None` if the policy masks no file.
fn identity_of_mask() -> Result<Option<Identity>, Failure> {
    let place = places::at(places::MASKED);
    match look(&place) {
        Ok(Looked { identity, .. }) => Ok(Some(identity)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::refused(&format!("`{place}`"), e)),
    }
}

/// A mount that a process can reach by its mount point.
struct Seen<'e> {
    entry: &'e MountEntry,
    identity: Identity,
    kind: FileType,
    mode: u32,
}

/// The modes of a hidden directory: closed, or search-only where a deeper rule re-opens a path.
fn is_mask(mode: u32) -> bool {
    let is_permitted = [0o000, 0o111].contains(&(mode & 0o7777));
    is_permitted || ablate::is_off(Mitigation::MaskDenied) || ablate::is_off(Mitigation::MaskSealed)
}

impl Seen<'_> {
    fn compare(
        &self,
        expected: &Expected,
        identity: Option<Identity>,
        masked: Option<Identity>,
    ) -> Result<(), Failure> {
        let shows_nothing = match self.kind {
            FileType::Directory => self.entry.kind == "tmpfs" && is_mask(self.mode),
            _ => masked == Some(self.identity),
        };
        match expected.access {
            Expectation::Hidden if !shows_nothing => Err(differs(expected, "is not hidden")),
            Expectation::Content if self.kind != FileType::RegularFile => Err(differs(expected, "is no file")),
            _ if identity.is_some_and(|meant| meant != self.identity) => {
                Err(differs(expected, "is no longer the file or directory that it was"))
            }
            _ => Ok(()),
        }
    }
}

/// `None` for a mount that a process cannot reach: another mount covers it, or a directory on the
/// way is closed. The command has the guard's rights and fewer capabilities.
fn seen(entry: &MountEntry) -> Result<Option<Seen<'_>>, Failure> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match look(&entry.point) {
        Ok(Looked { identity, mount, kind, mode }) => {
            Ok((mount == entry.id).then_some(Seen { entry, identity, kind, mode }))
        }
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
        Err(e) => Err(Failure::refused(&format!("`{}`", entry.point), e)),
    }
}

struct Looked {
    identity: Identity,
    /// The identifier of the mount.
    mount: u64,
    kind: FileType,
    mode: u32,
}

/// One call for each of thousands of mounts. A symlink that appeared on the way leads to another
/// mount, so the identifier tells.
fn look(path: &AbsPath) -> io::Result<Looked> {
    let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO | StatxFlags::MNT_ID;
    let found = statx(CWD, path.as_path(), AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, wanted)?;
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Ok(Looked {
        identity: Identity { device, inode: found.stx_ino },
        mount: found.stx_mnt_id,
        kind: FileType::from_raw_mode(found.stx_mode.into()),
        mode: found.stx_mode.into(),
    })
}

/// A path that the policy closes may have come or gone: another start may succeed. A path that the
/// policy opens must be the one that the user's rule meant when the policy was compiled.
fn differs(expected: &Expected, problem: &str) -> Failure {
    let why = format!("`{}` {problem}", expected.path);
    if expected.required { Failure::Changed(why) } else { Failure::Refused(why) }
}

/// The flags that a remount must repeat, because the kernel has locked them.
fn flags_of(entry: &MountEntry) -> MountFlags {
    const FLAGS: [(&str, MountFlags); 6] = [
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("noatime", MountFlags::NOATIME),
        ("nodiratime", MountFlags::NODIRATIME),
        ("relatime", MountFlags::RELATIME),
    ];
    let set = FLAGS.iter().filter(|(name, _)| entry.has(name)).fold(MountFlags::empty(), |all, (_, flag)| all | *flag);
    // mountinfo shows nothing for strict access times, and a remount without a flag means relatime.
    if entry.has("noatime") || entry.has("relatime") { set } else { set | MountFlags::STRICTATIME }
}
