//! Whether the mounts are those that were planned. A path may have changed between compiling and mounting, and bwrap may have
//! been replaced: whatever the cause, nothing starts on other mounts than those that were printed.

mod table;

use std::io;

use rustix::fs::{AtFlags, CWD, Statx, StatxAttributes, StatxFlags, statx};

use super::mounts::Made;
use crate::ablate::{self, Mitigation};
use crate::guard_plan::{Expectation, Expected};
use crate::identity::Identity;
use crate::path::AbsPath;

/// Refuses what is not as planned, and makes every mount writable or read-only as planned, where that could not be done when it was made. The
/// sentence says what is wrong.
pub(super) fn check(expected: &[Expected], made: &Made) -> Result<(), String> {
    // The list of all mounts is long where the host has many, and where many are made.
    if !made.settled {
        table::settle(expected)?;
    }
    if ablate::is_off(Mitigation::GuardCheck) {
        return Ok(());
    }
    expected.iter().try_for_each(|expected| {
        let path = &expected.path;
        let seen = Seen::at(path).map_err(|e| format!("`{path}` cannot be looked at: {e}"))?;
        compare(expected, seen, made).map_err(|problem| format!("`{path}` {problem}"))
    })
}

/// What shows at a path.
struct Seen {
    identity: Identity,
    mount: u64,
    is_mounted_here: bool,
}

impl Seen {
    /// `None` where nothing can be seen.
    fn at(path: &AbsPath) -> io::Result<Option<Self>> {
        // By its path, in one call: a symlink on the way, which was put there a moment ago, leads to a mount or to another one.
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match statx(CWD, path.as_path(), flags, StatxFlags::INO | StatxFlags::MNT_ID).map_err(io::Error::from) {
            Ok(found) => Ok(Some(Self::of(&found))),
            // What we may not search, the command, with the same rights and fewer capabilities, may not either. What must be there is missed
            // in `compare`.
            Err(e) if is_out_of_reach(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn of(found: &Statx) -> Self {
        let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        Self {
            identity: Identity { device, inode: found.stx_ino },
            mount: found.stx_mnt_id,
            is_mounted_here: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        }
    }
}

fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

fn compare(expected: &Expected, seen: Option<Seen>, made: &Made) -> Result<(), &'static str> {
    let Some(Seen { identity, .. }) = seen.filter(|seen| seen.is_mounted_here) else {
        let must_be_there = expected.required || expected.identity.is_some();
        return if must_be_there { Err("is not mounted") } else { Ok(()) };
    };
    if expected.access == Expectation::Hidden {
        // The identity that is noted is that of what it hides, and was compared when it was hidden.
        let shows_nothing = made.hidden.contains(&identity) || made.own.contains(&identity.device);
        return if shows_nothing { Ok(()) } else { Err("is not hidden") };
    }
    match expected.identity {
        Some(meant) if meant != identity => Err("is no longer the file or folder that it was"),
        _ => Ok(()),
    }
}
