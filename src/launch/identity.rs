//! Which files and folders a plan means, right before the start. The guard compares: whatever is swapped from here on, between our look
//! and bwrap's mount, is noticed before the command runs.

use std::io;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::guard_plan::{Expectation, Expected};
use crate::host::Host;
use crate::identity::Identity;
use crate::path::AbsPath;

/// Notes what is at each path where another file would matter: what can be written, and what is narrower than its surroundings; if `thorough`,
/// also what is to be hidden.
pub(super) fn note(host: &Host, expected: &mut [Expected], thorough: bool) -> Result<(), (AbsPath, io::Error)> {
    for expected in expected {
        let counts = match expected.access {
            Expectation::Rw => true,
            Expectation::Ro => expected.required,
            Expectation::Hidden => thorough,
            Expectation::Own => false,
        };
        if counts {
            let path = expected.source.as_ref().unwrap_or(&expected.path);
            expected.identity = identity(host, path).map_err(|e| (path.clone(), e))?;
        }
    }
    Ok(())
}

/// `None` for what has gone: bwrap decides whether it can start without. A symlink on the way is an error: there was none when the
/// rule was resolved.
fn identity(host: &Host, path: &AbsPath) -> io::Result<Option<Identity>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = match openat2(CWD, host.real(path), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(opened) => opened,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let found = rustix::fs::statat(&opened, c"", AtFlags::EMPTY_PATH)?;
    Ok(Some(Identity::of_stat(&found)))
}
