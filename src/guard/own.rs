//! The sandbox's own file systems, in which the guard makes directories and files. On the host it makes nothing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, chmod, fstat, mkdirat, mknodat, openat, unlinkat};
use rustix::io::Errno;

use super::kept::Kept;
use super::mounts::{by_descriptor, open};
use crate::path::AbsPath;

#[derive(Default)]
pub(super) struct Own<'p> {
    devices: BTreeSet<u64>,
    /// The root of the first, for files that are mounted elsewhere.
    folder: Option<Rc<OwnedFd>>,
    pub(super) kept: Kept,
    /// The modes that directories get when everything in them is in place: some do not even let their owner make anything.
    modes: Vec<(&'p AbsPath, u32)>,
}

/// As bwrap makes them on the way to the mount point of a bind.
const ON_THE_WAY: u32 = 0o700;

impl<'p> Own<'p> {
    /// There is one more, whose root shows at `path`.
    pub(super) fn mounted(&mut self, path: &AbsPath) -> io::Result<Rc<OwnedFd>> {
        let root = self.kept.open(path)?;
        self.devices.insert(device_of(&root)?);
        let root = self.kept.keep(path.clone(), root, true);
        self.folder.get_or_insert_with(|| root.clone());
        Ok(root)
    }

    /// `mode`, if things can be put into such a directory; otherwise one that lets us, until [`Own::set_modes`].
    pub(super) fn mode_for_now(&mut self, path: &'p AbsPath, mode: u32) -> u32 {
        const OWNER: u32 = 0o700;
        if mode & OWNER != OWNER {
            self.modes.push((path, mode));
        }
        mode | OWNER
    }

    /// Of all directories at `path` and below that still wait for theirs.
    pub(super) fn set_modes(&mut self, path: &AbsPath) -> Result<(), (&'p AbsPath, io::Error)> {
        let set = |at: &AbsPath, mode: u32| {
            let directory = open(at)?;
            self.must_be_ours(&directory)?;
            Ok(chmod(by_descriptor(&directory), Mode::from_raw_mode(mode))?)
        };
        // The way to the deepest leads through the others.
        for (at, mode) in self.modes.iter().rev().filter(|(at, _)| at.is_within(path)) {
            set(at, *mode).map_err(|e| (*at, e))?;
        }
        self.modes.retain(|(at, _)| !at.is_within(path));
        Ok(())
    }

    /// The mount point for a directory: what is there, or, in a file system of ours, a new one.
    pub(super) fn directory(&mut self, path: &AbsPath) -> io::Result<OwnedFd> {
        self.opened_or(path, |own| own.make_directory(path, ON_THE_WAY))
    }

    /// The same for a file.
    pub(super) fn file(&mut self, path: &AbsPath) -> io::Result<OwnedFd> {
        self.opened_or(path, |own| {
            let (folder, name) = own.place(path)?;
            make_file(&folder, name)
        })
    }

    fn opened_or(&mut self, path: &AbsPath, make: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<OwnedFd> {
        // In a folder of ours that is kept, something was just made, and there is seldom anything else.
        if self.kept.ours_around(path).is_none() {
            match self.kept.open(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
        match make(self) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        self.kept.open(path)
    }

    pub(super) fn make_directory(&mut self, path: &AbsPath, mode: u32) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        Ok(mkdirat(folder, name, Mode::from_raw_mode(mode))?)
    }

    /// Where something new at `path` has to be made, which is in a file system of ours or nowhere.
    pub(super) fn place<'n>(&mut self, path: &'n AbsPath) -> io::Result<(Rc<OwnedFd>, &'n OsStr)> {
        let (Some(around), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::NOENT.into());
        };
        if let Some(folder) = self.kept.ours_around(path) {
            return Ok((folder, name));
        }
        let folder = self.directory(&around)?;
        self.must_be_ours(&folder)?;
        Ok((self.kept.keep(around, folder, true), name))
    }

    /// Those of all that was made.
    pub(super) fn devices(self) -> BTreeSet<u64> {
        self.devices
    }

    fn must_be_ours(&self, folder: &OwnedFd) -> io::Result<()> {
        if self.devices.contains(&device_of(folder)?) { Ok(()) } else { Err(Errno::NOENT.into()) }
    }

    /// Does something with a file of this content, which has no name afterwards.
    pub(super) fn with_new_file(
        &self,
        content: &[u8],
        use_it: impl FnOnce(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        // Nothing of the host's `/dev`, where this is made, has that name, so no rule does.
        const NAME: &str = ".agent-sandbox";
        let folder = self.folder.as_deref().ok_or(Errno::NOENT)?;
        let mut file = create(folder, OsStr::new(NAME))?;
        file.write_all(content)?;
        use_it(&file.into())?;
        Ok(unlinkat(folder, NAME, AtFlags::empty())?)
    }
}

/// An empty file, which nobody opens: it is what something is mounted on.
pub(super) fn make_file(folder: &OwnedFd, name: impl rustix::path::Arg) -> io::Result<()> {
    Ok(mknodat(folder, name, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)?)
}

fn create(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

pub(super) fn is_directory(descriptor: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(descriptor)?.st_mode) == FileType::Directory)
}

#[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
fn device_of(descriptor: &OwnedFd) -> io::Result<u64> {
    Ok(fstat(descriptor)?.st_dev as u64)
}
