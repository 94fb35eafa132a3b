//! The list of all mounts, for where the access of a whole tree could not be set at once: the host has closed one of its mounts, which cannot be
//! opened here, or the kernel is older than Linux 5.12.

use std::fs;
use std::io;

use rustix::mount::MountFlags;

use super::Seen;
use crate::ablate::{self, Mitigation};
use crate::guard::mounts;
use crate::guard_plan::{Expectation, Expected};
use crate::mountinfo::{self, MountEntry};
use crate::path::PathMap;

/// Makes every mount writable or read-only as planned. The sentence says what is wrong.
pub(super) fn settle(expected: &[Expected]) -> Result<(), String> {
    let table = fs::read("/proc/self/mountinfo").map_err(|e| format!("the mounts cannot be read: {e}"))?;
    let entries = mountinfo::parse_all(&table)
        .map_err(|line| format!("the list of mounts has a line of another form, `{line}`"))?;
    let plan: PathMap<&Expected> = expected.iter().map(|expected| (expected.path.clone(), expected)).collect();
    for entry in &entries {
        let point = &entry.point;
        let Some(change) = change(entry, plan.nearest(point).map(|(_, expected)| *expected)) else { continue };
        let seen = Seen::at(point).map_err(|e| format!("`{point}` cannot be looked at: {e}"))?;
        // One that another covers cannot be reached.
        if seen.is_some_and(|seen| seen.mount == entry.id) {
            apply(entry, change).map_err(|e| format!("`{point}` cannot be made {}: {e}", change.word()))?;
        }
    }
    Ok(())
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

fn apply(entry: &MountEntry, change: Change) -> io::Result<()> {
    let (mount, flags) = (mounts::open(&entry.point)?, flags_of(entry));
    match change {
        Change::Open => mounts::unless_locked(mounts::remount(&mount, flags)),
        Change::Close => mounts::remount(&mount, flags | MountFlags::RDONLY),
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
