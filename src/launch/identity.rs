//! Which files and folders a plan means, right before the start. The guard compares: whatever is swapped from here on, between our look
//! and bwrap's mount, is noticed before the command runs.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, openat2, statat};
use rustix::io::Errno;

use crate::guard_plan::{Expectation, Expected};
use crate::host::Host;
use crate::identity::Identity;
use crate::path::AbsPath;

/// Notes what is at each path where another file would matter: what can be written, and what is narrower than its surroundings; if `thorough`,
/// also what is to be hidden.
pub(super) fn note(host: &Host, expected: &mut [Expected], thorough: bool) -> Result<(), (AbsPath, io::Error)> {
    let mut lookup = Lookup { host, folder: None };
    for expected in expected {
        let counts = match expected.access {
            Expectation::Rw => true,
            Expectation::Ro => expected.required,
            Expectation::Hidden => thorough,
            Expectation::Own => false,
        };
        if counts {
            let path = expected.source.as_ref().unwrap_or(&expected.path);
            expected.identity = lookup.identity(path).map_err(|e| (path.clone(), e))?;
        }
    }
    Ok(())
}

/// Looks at one path after the other. Most lie in the folder of the one before, which stays open.
struct Lookup<'h> {
    host: &'h Host,
    folder: Option<(AbsPath, OwnedFd)>,
}

impl Lookup<'_> {
    /// `None` for what has gone: bwrap decides whether it can start without. A symlink on the way is an error: there was none when the
    /// rule was resolved.
    fn identity(&mut self, path: &AbsPath) -> io::Result<Option<Identity>> {
        match self.look(path) {
            Ok(found) => Ok(Some(Identity::of_stat(&found))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn look(&mut self, path: &AbsPath) -> rustix::io::Result<Stat> {
        let (folder, name) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => (folder, name),
            _ => (path.clone(), OsStr::new(".")),
        };
        let opened = match self.folder.take().filter(|(at, _)| *at == folder) {
            Some((_, opened)) => opened,
            None => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                openat2(CWD, self.host.real(&folder), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?
            }
        };
        let found = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW);
        self.folder = Some((folder, opened));
        found
    }
}
