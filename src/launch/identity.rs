//! Which files and folders a plan means, right before the start. The guard compares: whatever is swapped between our look and the mount
//! is noticed before the command runs.

use std::io;

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use crate::guard_plan::{Expectation, Expected};
use crate::host::Host;
use crate::identity::Identity;
use crate::path::AbsPath;
use crate::unfollowed::Folders;

/// Notes what is at each path where another file would matter and which has not been noted: what can be written, and what is narrower than its
/// surroundings; if `thorough`, also what is to be hidden. `stands`: whether it is there already.
pub(super) fn note(
    host: &Host,
    expected: &mut [Expected],
    thorough: bool,
    stands: impl Fn(&AbsPath) -> bool,
) -> Result<(), (AbsPath, io::Error)> {
    let mut folders = Folders::default();
    for expected in expected.iter_mut().filter(|expected| expected.identity.is_none()) {
        let counts = match expected.access {
            Expectation::Rw => true,
            Expectation::Ro => expected.required,
            Expectation::Hidden => thorough,
            Expectation::Own => false,
        };
        let path = expected.source.as_ref().unwrap_or(&expected.path);
        if counts && stands(path) {
            expected.identity = identity(host, path, &mut folders).map_err(|e| (path.clone(), e))?;
        }
    }
    Ok(())
}

/// `None` for what has gone: who mounts it decides whether it can start without. A symlink on the way is an error: there was none when the
/// rule was resolved.
fn identity(host: &Host, path: &AbsPath, folders: &mut Folders) -> io::Result<Option<Identity>> {
    let found = folders.parent(host, path).and_then(|(folder, name)| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW));
    match found {
        Ok(found) => Ok(Some(Identity::of_stat(&found))),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
