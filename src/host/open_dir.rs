//! A directory of the host that is kept open.
//!
//! Code outside of the sandbox works in directories that a command may have changed, and that
//! another command may change at the same time. So every change uses a descriptor and one name: no
//! symlink is followed, and the directory that was examined is the one that is changed.
#![expect(clippy::disallowed_methods, reason = "each call has a descriptor and one name")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{
    Access, AtFlags, Dir, DirEntry, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, accessat, fchmod, fstat,
    mkdirat, mknodat, openat, openat2, readlinkat, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::host::Host;
use crate::host::long_path::Reached;
use crate::policy::AbsPath;
use crate::sys::ablate::{self, Mitigation};

/// The mode of a directory for this user alone.
pub(crate) const PRIVATE: Mode = Mode::RWXU;

/// The flags with which files are opened: a symlink is not followed, and the writer of a FIFO is
/// not waited for.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// An open directory. Every operation takes the name of one entry, never a path.
#[derive(Debug)]
pub(crate) struct OpenDir {
    descriptor: OwnedFd,
}

impl OpenDir {
    /// Opens a directory. A symlink on the way is the error ENOTDIR.
    pub(crate) fn open(host: &Host, path: &AbsPath) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let resolve =
            if ablate::is_off(Mitigation::NoFollow) { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
        let reached = Reached::open(host.reached(path.as_path()));
        match reached.and_then(|reached| openat2(reached.folder(), &*reached.rest, flags, Mode::empty(), resolve)) {
            Ok(descriptor) => Ok(Self { descriptor }),
            Err(Errno::LOOP) => Err(Errno::NOTDIR.into()),
            Err(e) => Err(e.into()),
        }
    }

    /// Opens the directory that holds `path`, and returns it with the name of `path` in it.
    pub(crate) fn parent_of<'p>(host: &Host, path: &'p AbsPath) -> io::Result<(Self, &'p OsStr)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok((Self::open(host, &parent)?, name))
    }

    /// Opens a directory. Makes it and its missing parents for this user alone.
    pub(crate) fn create_all(host: &Host, path: &AbsPath) -> io::Result<Self> {
        let mut missing = Vec::new();
        let mut nearest = path.clone();
        let mut directory = loop {
            match (Self::open(host, &nearest), nearest.parent(), nearest.file_name()) {
                (Err(e), Some(parent), Some(name)) if e.kind() == io::ErrorKind::NotFound => {
                    missing.push(name.to_owned());
                    nearest = parent;
                }
                (opened, ..) => break opened?,
            }
        };
        for name in missing.iter().rev() {
            directory = match directory.make_dir(name, PRIVATE) {
                // Another run has made it.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => directory.child(name)?,
                made => made?,
            };
        }
        Ok(directory)
    }

    /// Opens a directory in this one.
    pub(crate) fn child(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let nofollow = if ablate::is_off(Mitigation::NoFollow) { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | nofollow;
        Ok(Self { descriptor: openat(&self.descriptor, entry(&name)?, flags, Mode::empty())? })
    }

    /// The status of this directory.
    pub(crate) fn status(&self) -> io::Result<Stat> {
        Ok(fstat(&self.descriptor)?)
    }

    /// The status of an entry, which may be a symlink; `None` if the entry does not exist. An
    /// error does not tell whether the entry exists.
    pub(crate) fn stat(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        match statat(&self.descriptor, entry(&name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether an entry is, or leads to, a directory that this process may search. Magic links,
    /// such as those in `/proc/PID/fd`, are not followed.
    pub(crate) fn leads_to_directory(&self, name: impl AsRef<OsStr>) -> bool {
        let Ok(name) = entry(&name) else { return false };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat2(&self.descriptor, name, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
        opened.is_ok_and(|descriptor| Self { descriptor }.is_searchable())
    }

    /// Whether this process may execute an entry, or search it. A symlink is followed.
    pub(crate) fn may_execute(&self, name: impl AsRef<OsStr>) -> bool {
        let is_allowed = |name| accessat(&self.descriptor, name, Access::EXEC_OK, AtFlags::empty()).is_ok();
        entry(&name).is_ok_and(is_allowed)
    }

    /// Whether this process may reach the entries.
    pub(crate) fn is_searchable(&self) -> bool {
        accessat(&self.descriptor, ".", Access::EXEC_OK, AtFlags::empty()).is_ok()
    }

    /// Whether this process may create and remove entries.
    pub(crate) fn is_writable(&self) -> bool {
        accessat(&self.descriptor, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    }

    /// The names of all entries, in no particular order.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        self.entries()?.collect()
    }

    /// Whether the directory `name` has no entries.
    pub(crate) fn is_empty(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        self.child(name)?.entries()?.next().map_or(Ok(true), |found| found.map(|_| false))
    }

    fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = Dir::new(openat(&self.descriptor, ".", flags, Mode::empty())?)?;
        let name = |found: rustix::io::Result<DirEntry>| Ok(OsString::from_vec(found?.file_name().to_bytes().to_vec()));
        let is_entry = |name: &io::Result<OsString>| !name.as_ref().is_ok_and(|name| name == "." || name == "..");
        Ok(listed.map(name).filter(is_entry))
    }

    /// The target of a symlink.
    pub(crate) fn link_target(&self, name: impl AsRef<OsStr>) -> io::Result<OsString> {
        Ok(OsString::from_vec(readlinkat(&self.descriptor, entry(&name)?, Vec::new())?.into_bytes()))
    }

    /// Opens an existing file for `access` alone. The caller checks whether it is a regular file.
    pub(crate) fn open_file(&self, name: impl AsRef<OsStr>, access: OFlags) -> io::Result<File> {
        Ok(File::from(openat(&self.descriptor, entry(&name)?, FILE | access, Mode::empty())?))
    }

    /// Opens an entry itself, of any kind, without access to its content.
    pub(crate) fn open_itself(&self, name: impl AsRef<OsStr>) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.descriptor, entry(&name)?, flags, Mode::empty())?)
    }

    /// The content of a regular file; `None` if nothing is there.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>, limit: u64) -> io::Result<Option<Vec<u8>>> {
        match self.open_file(name, OFlags::RDONLY) {
            Ok(file) => read_regular(&file, limit).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether the entry with the status `found` is a regular file with this content.
    pub(crate) fn holds(&self, name: impl AsRef<OsStr>, found: &Stat, content: &[u8]) -> io::Result<bool> {
        if !FileType::from_raw_mode(found.st_mode).is_file() || usize::try_from(found.st_size) != Ok(content.len()) {
            return Ok(false);
        }
        if content.is_empty() {
            return Ok(true);
        }
        let mut read = Vec::new();
        self.open_file(name, OFlags::RDONLY)?.take(content.len() as u64 + 1).read_to_end(&mut read)?;
        Ok(read == content)
    }

    /// Makes a new directory. The owner gets the rights of `mode`, whatever the umask is.
    pub(crate) fn make_dir(&self, name: impl AsRef<OsStr>, mode: Mode) -> io::Result<Self> {
        mkdirat(&self.descriptor, entry(&name)?, mode)?;
        let made = self.child(&name)?;
        made.grant(mode.intersection(Mode::RWXU))?;
        Ok(made)
    }

    /// Makes a new file, open for `access`. The owner gets the rights of `mode`, whatever the
    /// umask is.
    pub(crate) fn make_file(&self, name: impl AsRef<OsStr>, access: OFlags, mode: Mode) -> io::Result<File> {
        let flags = FILE | OFlags::CREATE | OFlags::EXCL | access;
        let made = openat(&self.descriptor, entry(&name)?, flags, mode)?;
        let granted = Mode::from_raw_mode(fstat(&made)?.st_mode);
        let rights = mode.intersection(Mode::RWXU);
        if !granted.contains(rights) {
            fchmod(&made, granted | rights)?;
        }
        Ok(File::from(made))
    }

    /// Makes a socket inode that no process is bound to.
    pub(crate) fn make_socket(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(mknodat(&self.descriptor, entry(&name)?, FileType::Socket, Mode::empty(), 0)?)
    }

    pub(crate) fn make_link(&self, name: impl AsRef<OsStr>, target: &OsStr) -> io::Result<()> {
        Ok(symlinkat(target, &self.descriptor, entry(&name)?)?)
    }

    /// Renames an entry into `to`, and replaces an existing entry with the new name.
    pub(crate) fn rename(&self, name: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&self.descriptor, entry(&name)?, &to.descriptor, entry(&new)?)?)
    }

    /// Renames an entry into `to`. Fails if an entry has the new name.
    pub(crate) fn rename_new(&self, name: impl AsRef<OsStr>, to: &Self, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (entry(&name)?, entry(&new)?);
        Ok(renameat_with(&self.descriptor, name, &to.descriptor, new, RenameFlags::NOREPLACE)?)
    }

    /// Removes an entry that is no directory. The target of a symlink stays.
    pub(crate) fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, entry(&name)?, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, entry(&name)?, AtFlags::REMOVEDIR)?)
    }

    /// Gives the owner of this directory `rights`, besides the existing ones.
    pub(crate) fn grant(&self, rights: Mode) -> io::Result<()> {
        let granted = Mode::from_raw_mode(self.status()?.st_mode);
        if granted.contains(rights) { Ok(()) } else { self.set_mode(granted | rights) }
    }

    /// Sets the mode of this directory, even if no user may search it.
    pub(crate) fn set_mode(&self, mode: Mode) -> io::Result<()> {
        // A directory without rights can only be opened with O_PATH, and fchmod refuses such a
        // descriptor. The link in `/proc` leads to this directory, even after a rename.
        let itself = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        Ok(rustix::fs::chmod(itself, mode)?)
    }
}

/// The content of `file`, which must be a regular file of at most `limit` bytes.
pub(crate) fn read_regular(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let unfit = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let found = file.metadata()?;
    if !found.is_file() {
        return unfit("not a regular file");
    }
    // The spare room lets `read_to_end` find the end of the file without growing the buffer.
    let length = found.len().min(limit).saturating_add(64);
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    let taken = file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if taken as u64 > limit { unfit("too large") } else { Ok(content) }
}

/// Refuses a name that leads out of the directory. In a longer path the kernel would follow links.
fn entry(name: &impl AsRef<OsStr>) -> io::Result<&OsStr> {
    let name = name.as_ref();
    match name.as_bytes() {
        b"" | b"." | b".." => Err(io::ErrorKind::InvalidInput.into()),
        bytes if bytes.contains(&b'/') => Err(io::ErrorKind::InvalidInput.into()),
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    fn abs(path: &str) -> AbsPath {
        AbsPath::normalize(path).unwrap()
    }

    // SPEC S16
    #[test]
    fn a_name_that_leads_out_of_the_directory_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("in/deep")).unwrap();
        fs::write(root.path().join("in/deep/file"), "").unwrap();
        let folder = OpenDir::open(&Host::at(root.path()), &abs("/in")).unwrap();
        for name in ["", ".", "..", "../in", "deep/file", "/etc"] {
            assert_eq!(folder.stat(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
            assert_eq!(folder.remove_file(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        assert!(folder.stat("deep").unwrap().is_some());
        assert!(folder.stat("missing").unwrap().is_none());
    }

    // SPEC S16
    #[test]
    fn a_link_is_no_directory_wherever_it_is() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        fs::create_dir_all(root.path().join("real/below")).unwrap();
        symlink("real", root.path().join("link")).unwrap();
        for path in ["/link", "/link/below", "/link/missing/deeper"] {
            let kind = OpenDir::create_all(&host, &abs(path)).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::NotADirectory, "{path}");
        }
        let top = OpenDir::open(&host, &AbsPath::root()).unwrap();
        assert_eq!(top.child("link").unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert!(top.leads_to_directory("link"));
        assert!(!root.path().join("real/missing").exists());
    }

    // SPEC S16
    #[test]
    fn a_fifo_is_neither_waited_for_nor_read() {
        let root = tempfile::tempdir().unwrap();
        assert!(Command::new("mkfifo").arg(root.path().join("pipe")).status().unwrap().success());
        fs::write(root.path().join("large"), "12345").unwrap();
        let folder = OpenDir::open(&Host::at(root.path()), &AbsPath::root()).unwrap();
        assert_eq!(folder.read("pipe", 100).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(folder.read("large", 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(folder.read("large", 5).unwrap(), Some(b"12345".to_vec()));
    }

    #[test]
    fn a_closed_directory_is_opened_again() {
        let root = tempfile::tempdir().unwrap();
        let closed = root.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        OpenDir::open(&Host::at(root.path()), &abs("/closed")).unwrap().grant(Mode::RWXU).unwrap();
        assert_eq!(fs::metadata(&closed).unwrap().permissions().mode() & 0o7777, 0o700);
    }
}
