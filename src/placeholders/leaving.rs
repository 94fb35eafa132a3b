//! The way of a placeholder into the folder of those that are kept.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags, fchmod, fstat, openat, renameat_with, statat};

use crate::host::identity::Identity;
use crate::host::journal::Record;

use super::parked::{Parked, TO_LOOK, closed, is_labelled, is_unfilled};

/// Something on its way into the folder, step by step. `rmdir` leaves alone what is not empty, and a move does not: so it is looked at, nobody can
/// put anything into it any more, and it is looked at again when it has been moved. What has come in between goes back.
pub(crate) struct Leaving<'a> {
    parked: &'a Parked,
    folder: BorrowedFd<'a>,
    at: &'a OsStr,
    name: OsString,
    record: &'a Record,
    open: OwnedFd,
    mode: Mode,
}

impl<'a> Leaving<'a> {
    pub(crate) fn begin(
        parked: &'a Parked,
        folder: BorrowedFd<'a>,
        at: &'a OsStr,
        name: OsString,
        record: &'a Record,
    ) -> io::Result<Self> {
        let open = openat(folder, at, TO_LOOK, Mode::empty())?;
        let found = fstat(&open)?;
        // What somebody uses is never closed to him, not for a moment: this run could be killed in it.
        if Identity::of_stat(&found) != record.identity || !is_unfilled(&open, &found, record.content())? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { parked, folder, at, name, record, open, mode: Mode::from_raw_mode(found.st_mode) })
    }

    /// All steps, and what others do after each of them. `false` where all is as it was.
    pub(crate) fn through(&self, mut meanwhile: impl FnMut()) -> bool {
        let is_closed = self.close();
        meanwhile();
        let is_moved = is_closed && self.shift();
        meanwhile();
        if is_moved && self.has_arrived() {
            return true;
        }
        if is_moved {
            self.give_back();
        }
        self.reopen();
        false
    }

    /// From here on nobody but root puts anything into it: the kernel asks for the mode of a directory, and changes it, under the same lock under which it makes
    /// entries.
    fn close(&self) -> bool {
        fchmod(&self.open, closed(self.record.content())).is_ok() && matches!(is_labelled(&self.open), Ok(false))
    }

    fn shift(&self) -> bool {
        renameat_with(self.folder, self.at, &self.parked.folder, &self.name, RenameFlags::NOREPLACE).is_ok()
    }

    /// Whether this is what was moved, and still nobody has put anything into it.
    fn has_arrived(&self) -> bool {
        let arrived = statat(&self.parked.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        arrived.is_ok_and(|found| Identity::of_stat(&found) == self.record.identity) && self.is_fit()
    }

    fn give_back(&self) {
        // Where something else stands there now, it stays here, is never used, and goes only if it is empty.
        let _ = renameat_with(&self.parked.folder, &self.name, self.folder, self.at, RenameFlags::NOREPLACE);
    }

    fn reopen(&self) {
        // It is ours: who cannot do this has lost the file system.
        let _ = fchmod(&self.open, self.mode);
    }

    fn is_fit(&self) -> bool {
        matches!(self.parked.fit(&self.open, self.record.content()), Ok(Some(_)))
    }
}
