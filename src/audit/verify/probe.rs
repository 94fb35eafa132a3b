//! The probe tries operations. Its results inside the sandbox are the answers; its results on the
//! host are the control.
//!
//! Asking changes nothing, even if the process is killed at any moment. The probe opens a file for
//! appending and writes nothing; it makes a file without a name in a directory (`O_TMPFILE`); and
//! to test whether a directory can be renamed, it tries to remove it while it is not empty. The
//! kernel looks for mounts (EBUSY) before the file system looks for content (ENOTEMPTY), both for
//! a removal and for a rename. A rename would need a second directory, and a rename onto an
//! existing name is refused for another reason first.
#![expect(clippy::disallowed_methods, reason = "the probe tries what a command would try, and changes nothing")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, StatVfs, accessat, open, statvfs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, getrlimit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::host::Identity;
use crate::policy::{AbsPath, Word, places};

/// The argument that makes our binary the probe.
pub const SUBCOMMAND: &str = "__verify";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Operation", rename_all = "kebab-case")]
pub enum ProbeOperation {
    /// Opens the path for reading.
    Read,
    /// Opens a file for appending, or makes a file without a name in a directory.
    Write,
    /// Renames a directory.
    Move,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Questions {
    pub questions: Vec<(AbsPath, ProbeOperation)>,
    /// A directory inside where every operation must work.
    pub workshop: Option<AbsPath>,
    /// An abstract socket that the host listens on.
    pub socket: String,
    /// Mount points that the probe tries to unmount.
    pub mounts: Vec<AbsPath>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    pub found: Option<(Identity, ProbedKind)>,
    /// The number of the error; 0 for success.
    pub errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbedKind {
    Directory,
    File,
    /// The device that discards everything: a mask, if it is not in `/dev`.
    Null,
    /// A socket, a FIFO or a device, which may react to being opened.
    Special,
    Link,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeAnswers {
    pub answers: Vec<ProbeAnswer>,
    pub process: ProbeProcess,
}

/// The state of the probe's own process. The numbers are errors, 0 for success.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeProcess {
    /// The lines of `/proc/self/status`.
    pub status: BTreeMap<String, String>,
    pub namespaces: BTreeMap<String, String>,
    /// The names of its variables.
    pub environment: Vec<Word>,
    /// File descriptors from 3 on, and all descriptors of directories.
    pub descriptors: Vec<String>,
    pub cwd: Option<AbsPath>,
    pub marker: bool,
    /// The operation that failed in `Questions::workshop`.
    pub workshop: Option<String>,
    pub socket: i32,
    pub settings: i32,
    pub user_namespace: i32,
    pub unmounts: Vec<i32>,
    pub limits: ProbedLimits,
}

/// The limits that the probe found on itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProbedLimits {
    /// The soft limit and the hard limit.
    pub processes: [Option<u64>; 2],
    pub file_size: [Option<u64>; 2],
    /// The size of the file system at `/tmp`, in bytes.
    pub tmp: Option<u64>,
    /// The size of a block of that file system.
    pub page: u64,
}

/// Answers `questions`. On the host, the probe drops the capabilities that the command will not
/// have.
pub fn answer(questions: &Questions, on_host: bool) -> io::Result<ProbeAnswers> {
    // An ordinary user has no capabilities, and dropping needs one.
    if on_host && !rustix::thread::capabilities(None)?.permitted.is_empty() {
        crate::sys::capabilities::drop_capabilities()?;
    }
    // The descriptors are listed first, because the steps after this one open files.
    let descriptors = descriptors()?;
    let questioned = questions.questions.iter();
    let answers = questioned.map(|(path, operation)| examine(path.as_path(), *operation, on_host)).collect();
    let workshop = questions.workshop.as_ref().filter(|_| !on_host);
    let workshop = workshop.and_then(|place| work_in(place.as_path()).err()).map(|e| e.to_string());
    let address = SocketAddr::from_abstract_name(&questions.socket);
    let connected = address.and_then(|address| UnixStream::connect_addr(&address));
    let detach = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    let unmounted = |point: &AbsPath| unmount(point.as_path(), detach).err().map_or(0, Errno::raw_os_error);
    let process = ProbeProcess {
        status: status()?,
        namespaces: namespaces()?,
        environment: std::env::vars_os().map(|(name, _)| name).collect::<BTreeSet<_>>().into_iter().map(Word).collect(),
        descriptors,
        cwd: std::env::current_dir().ok().and_then(AbsPath::normalize),
        marker: fs::symlink_metadata(places::MARKER).is_ok(),
        workshop,
        socket: errno(connected.map(drop)),
        settings: errno(fs::OpenOptions::new().write(true).open(SETTING).map(drop)),
        limits: limits(),
        // These two operations come last, because their success changes the process.
        user_namespace: if on_host { 0 } else { make_user_namespace() },
        unmounts: questions.mounts.iter().filter(|_| !on_host).map(unmounted).collect(),
    };
    Ok(ProbeAnswers { answers, process })
}

/// A setting of the kernel that names a program to run outside of every sandbox. The probe opens
/// it and writes nothing.
const SETTING: &str = "/proc/sys/kernel/core_pattern";

fn examine(path: &Path, operation: ProbeOperation, on_host: bool) -> ProbeAnswer {
    let (identity, kind) = match look(path) {
        Ok(found) => found,
        Err(e) => return ProbeAnswer { found: None, errno: errno(Err(e)) },
    };
    let tried = match (operation, kind) {
        (_, ProbedKind::Link) => Err(Errno::LOOP),
        (ProbeOperation::Read, ProbedKind::Special) => accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS),
        (ProbeOperation::Write, ProbedKind::Special) => accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS),
        (ProbeOperation::Read, _) => open(path, OFlags::RDONLY | HARMLESS, Mode::empty()).map(drop),
        (ProbeOperation::Write, ProbedKind::Directory) => write_in(path),
        (ProbeOperation::Write, _) => append_to(path),
        (ProbeOperation::Move, ProbedKind::Directory) => remove_while_full(path, on_host),
        (ProbeOperation::Move, _) => Err(Errno::NOTDIR),
    };
    ProbeAnswer { found: Some((identity, kind)), errno: tried.err().map_or(0, Errno::raw_os_error) }
}

const HARMLESS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn look(path: &Path) -> io::Result<(Identity, ProbedKind)> {
    let found = fs::symlink_metadata(path)?;
    let kind = found.file_type();
    let kind = match () {
        () if kind.is_dir() => ProbedKind::Directory,
        () if kind.is_file() => ProbedKind::File,
        () if kind.is_symlink() => ProbedKind::Link,
        () if kind.is_char_device() && found.rdev() == rustix::fs::makedev(1, 3) => ProbedKind::Null,
        () => ProbedKind::Special,
    };
    Ok((Identity::of(&found), kind))
}

fn append_to(path: &Path) -> rustix::io::Result<()> {
    match open(path, OFlags::WRONLY | OFlags::APPEND | HARMLESS, Mode::empty()) {
        // The file is a running program. The kernel reports this before it checks the mount.
        Err(Errno::TXTBSY) => accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS),
        opened => opened.map(drop),
    }
}

fn write_in(directory: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(directory, flags, Mode::from_raw_mode(0o600)) {
        // Not every file system has `O_TMPFILE`.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        }
        opened => opened.map(drop),
    }
}

/// Tries to remove a directory that is not empty. For an empty one it returns `EMPTY`, an error
/// that `rmdir` never gives. A directory that cannot be listed may be empty on the host; inside it
/// is a mask, which cannot be removed.
fn remove_while_full(directory: &Path, on_host: bool) -> rustix::io::Result<()> {
    let is_empty = fs::read_dir(directory).map_or(on_host, |mut entries| entries.next().is_none());
    if is_empty {
        return Err(EMPTY);
    }
    rustix::fs::rmdir(directory)
}

pub(super) const EMPTY: Errno = Errno::NODATA;

#[derive(Debug, Error)]
enum WorkshopError {
    #[error("{step}: {}", name_of(*.errno))]
    Failed { step: &'static str, errno: i32 },
    #[error("a full directory was removed: {0:?}")]
    Removed(rustix::io::Result<()>),
}

/// Tries the operations of the other questions in a place where all of them must succeed. A probe
/// that can write nowhere would prove nothing when it fails to write.
fn work_in(place: &Path) -> Result<(), WorkshopError> {
    let [one, inner, other, file] = ["one", "one/inner", "other", "file"].map(|name| place.join(name));
    let step = |step| move |e: io::Error| WorkshopError::Failed { step, errno: errno(Err(e)) };
    fs::create_dir(&one).and_then(|()| fs::create_dir(&inner)).map_err(step("make a directory"))?;
    match remove_while_full(&one, false) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        removed => return Err(WorkshopError::Removed(removed)),
    }
    fs::rename(&one, &other).map_err(step("rename a directory"))?;
    write_in(&other).map_err(io::Error::from).map_err(step("make a file without a name"))?;
    fs::write(&file, "").map_err(step("make a file"))?;
    append_to(&file).map_err(io::Error::from).map_err(step("append to a file"))?;
    fs::remove_file(&file).and_then(|()| fs::remove_dir_all(&other)).map_err(step("remove it"))
}

/// Root without capabilities can make a user namespace but cannot be root in it, so `enter` can
/// fail although the namespace was made.
fn make_user_namespace() -> i32 {
    let current = || fs::read_link("/proc/self/ns/user").ok();
    let before = current();
    let entered = errno(crate::sys::namespaces::enter());
    if current() == before { entered } else { 0 }
}

fn limits() -> ProbedLimits {
    let both = |resource| {
        let found = getrlimit(resource);
        [found.current, found.maximum]
    };
    let tmp = statvfs(places::TMP).ok();
    let size = |found: StatVfs| found.f_blocks.saturating_mul(found.f_frsize);
    ProbedLimits {
        processes: both(Resource::Nproc),
        file_size: both(Resource::Fsize),
        page: tmp.as_ref().map_or(1, |found| found.f_frsize),
        tmp: tmp.map(size),
    }
}

fn status() -> io::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string("/proc/self/status")?;
    let is_used = |name: &str| name.starts_with("Cap") || ["NoNewPrivs", "Seccomp"].contains(&name);
    let lines = text.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| is_used(name));
    Ok(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

fn namespaces() -> io::Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/ns")? {
        let entry = entry?;
        let target = fs::read_link(entry.path())?;
        all.insert(entry.file_name().to_string_lossy().into_owned(), target.to_string_lossy().into_owned());
    }
    Ok(all)
}

fn descriptors() -> io::Result<Vec<String>> {
    let listed: Vec<_> = fs::read_dir("/proc/self/fd")?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // The descriptor that listed them is closed by now, so its metadata cannot be read.
    let open = listed.into_iter().filter_map(|path| Some((fs::metadata(&path).ok()?.is_dir(), path)));
    let is_standard = |path: &Path| path.file_name().is_some_and(|name| ["0", "1", "2"].iter().any(|n| name == *n));
    let unwanted = open.filter(|(is_directory, path)| *is_directory || !is_standard(path));
    let shown = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(unwanted.map(|(_, path)| shown(&path)).collect())
}

fn errno(result: io::Result<()>) -> i32 {
    // An error without a number does not come from the kernel.
    result.err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO))
}

/// The name of an error in the manual pages.
pub(super) fn name_of(errno: i32) -> String {
    macro_rules! name {
        ($($name:ident)+) => {
            match errno { $(libc::$name => stringify!($name).to_owned(),)+ _ => format!("error {errno}") }
        };
    }
    name! {
        EPERM ENOENT EIO ENXIO EACCES EBUSY EEXIST EXDEV ENOTDIR EISDIR EINVAL ETXTBSY ENOSPC EROFS ENOSYS
        ENOTEMPTY ELOOP ENODATA EUSERS EOPNOTSUPP ECONNREFUSED ESTALE
    }
}
