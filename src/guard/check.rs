//! Whether the mounts are those that were planned. A path may have changed between compiling and mounting, and bwrap may have
//! been replaced: whatever the cause, nothing starts on other mounts than those that were printed.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::mount::MountFlags;

use super::mounts;
use crate::ablate::{self, Mitigation};
use crate::guard_plan::{Expectation, Expected};
use crate::identity::Identity;
use crate::mountinfo::{self, MountEntry};
use crate::path::PathMap;

/// What is seen at a mount point.
struct Seen<'e> {
    entry: &'e MountEntry,
    identity: Identity,
}

/// Makes every mount writable or read-only as planned, and refuses what is not as planned. The sentence says what is wrong.
pub(super) fn check(expected: &[Expected]) -> Result<(), String> {
    let table = fs::read("/proc/self/mountinfo").map_err(|e| format!("the mounts cannot be read: {e}"))?;
    let entries = mountinfo::parse_all(&table)
        .map_err(|line| format!("the list of mounts has a line of another form, `{line}`"))?;
    let plan: PathMap<&Expected> = expected.iter().map(|expected| (expected.path.clone(), expected)).collect();
    let mut seen = BTreeMap::new();
    for entry in &entries {
        let point = &entry.point;
        let governing = plan.nearest(point).map(|(_, expected)| *expected);
        let change = change(entry, governing);
        let is_expected = governing.is_some_and(|expected| expected.path == *point);
        if change.is_none() && !is_expected {
            continue;
        }
        let Some(found) = look(entry).map_err(|e| format!("`{point}` cannot be looked at: {e}"))? else { continue };
        if let Some(change) = change {
            settle(entry, change).map_err(|e| format!("`{point}` cannot be made {}: {e}", change.word()))?;
        }
        seen.insert(point, found);
    }
    if ablate::is_off(Mitigation::GuardCheck) {
        return Ok(());
    }
    expected.iter().try_for_each(|expected| {
        let found = seen.get(&expected.path);
        compare(expected, found).map_err(|problem| format!("`{}` {problem}", expected.path))
    })
}

/// `None` for a mount that another one covers: it cannot be reached.
fn look(entry: &MountEntry) -> io::Result<Option<Seen<'_>>> {
    // By its path, in one call: a symlink on the way, which was put there a moment ago, leads to this mount or to another one.
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found =
        match statx(CWD, entry.point.as_path(), flags, StatxFlags::INO | StatxFlags::MNT_ID).map_err(io::Error::from) {
            Ok(found) => found,
            // What we may not search, the command, with the same rights and fewer capabilities, may not either. What must be there is missed
            // in `compare`.
            Err(e) if is_out_of_reach(&e) => return Ok(None),
            Err(e) => return Err(e),
        };
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    let identity = Identity { device, inode: found.stx_ino };
    Ok((found.stx_mnt_id == entry.id).then_some(Seen { entry, identity }))
}

fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

#[derive(Clone, Copy)]
enum Change {
    Open,
    Close,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Change::Open => "writable",
            Change::Close => "read-only",
        }
    }
}

/// A mount that the host has, or made a moment ago, is writable or not as what it lies in. Ours are as they were made.
fn change(entry: &MountEntry, governing: Option<&Expected>) -> Option<Change> {
    let access = governing.map_or(Expectation::Ro, |expected| expected.access);
    match (access, entry.has("ro")) {
        (Expectation::Rw, true) => Some(Change::Open),
        (Expectation::Hidden, false) if ablate::is_off(Mitigation::MaskSealed) => None,
        (Expectation::Ro | Expectation::Hidden, false) => Some(Change::Close),
        _ => None,
    }
}

fn settle(entry: &MountEntry, change: Change) -> io::Result<()> {
    let (mount, flags) = (mounts::open(&entry.point)?, flags_of(entry));
    match change {
        Change::Open => mounts::unless_locked(mounts::remount(&mount, flags)),
        Change::Close => mounts::remount(&mount, flags | MountFlags::RDONLY),
    }
}

fn compare(expected: &Expected, found: Option<&Seen>) -> Result<(), &'static str> {
    let Some(Seen { entry, identity }) = found else {
        let must_be_there = expected.required || expected.identity.is_some();
        return if must_be_there { Err("is not mounted") } else { Ok(()) };
    };
    // A tmpfs, or one file of a device file system: `/dev/null`, or what bwrap was given to show instead.
    if expected.access == Expectation::Hidden && !["tmpfs", "devtmpfs"].contains(&entry.kind.as_str()) {
        return Err("is not hidden");
    }
    // That of what it hides was compared when it was hidden.
    match expected.identity.filter(|_| expected.access != Expectation::Hidden) {
        Some(meant) if meant != *identity => Err("is no longer the file or folder that it was"),
        _ => Ok(()),
    }
}

/// The flags that a remount has to repeat, because they are locked.
fn flags_of(entry: &MountEntry) -> MountFlags {
    const FLAGS: [(&str, MountFlags); 6] = [
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("noatime", MountFlags::NOATIME),
        ("nodiratime", MountFlags::NODIRATIME),
        ("relatime", MountFlags::RELATIME),
    ];
    let named =
        FLAGS.iter().filter(|(name, _)| entry.has(name)).fold(MountFlags::empty(), |all, (_, flag)| all | *flag);
    // The kernel shows nothing for strict times, and takes their absence as a wish for relative ones.
    if entry.has("noatime") || entry.has("relatime") { named } else { named | MountFlags::STRICTATIME }
}
