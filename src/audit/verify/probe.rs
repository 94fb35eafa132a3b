//! What asks the kernel, on either side: inside, for the answer; and on the host, for what it is compared with. It decides nothing.
//!
//! Nothing is changed by asking, not even if the process is killed at any moment: a file is opened to be appended to, and nothing is; in a
//! directory a file is made that never has a name (`O_TMPFILE`); and whether a directory stays is asked by removing it while
//! something is in it. The kernel looks for mounts on it (EBUSY) before the file system looks into it (ENOTEMPTY), for a removal
//! as for a rename; but a rename would need a second directory, and onto a name that exists it is refused before the kernel looks.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, open};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::identity::Identity;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::policy::places;

/// The word that asks our binary to be the probe.
pub const SUBCOMMAND: &str = "__verify";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Open it for reading.
    Read,
    /// Open a file for appending, or make a file without a name in a directory.
    Write,
    /// Take a directory from its place.
    Move,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub path: AbsPath,
    pub operation: Operation,
}

/// All that one probe is asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Questions {
    pub questions: Vec<Question>,
    /// A place inside where everything is possible.
    pub workshop: Option<AbsPath>,
    /// An abstract socket that the host listens on.
    pub socket: String,
    /// Mount points that are to stay.
    pub mounts: Vec<AbsPath>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub found: Option<Found>,
    /// The number of the error; 0 if it was possible.
    pub errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    #[serde(flatten)]
    pub identity: Identity,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Directory,
    File,
    /// The device that discards everything: a mask, if it is not in `/dev`.
    Null,
    /// What may notice that it is opened: a socket, a FIFO, a device.
    Special,
    Link,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answers {
    pub answers: Vec<Answer>,
    pub process: Process,
}

/// What a process finds out about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Of `/proc/self/status`.
    pub status: BTreeMap<String, String>,
    pub namespaces: BTreeMap<String, String>,
    /// The names of its variables, sorted.
    pub environment: Vec<Word>,
    /// Past standard error, and directories anywhere.
    pub descriptors: Vec<String>,
    pub cwd: Option<AbsPath>,
    pub marker: bool,
    /// What went wrong where nothing should.
    pub workshop: Option<String>,
    pub socket: i32,
    pub settings: i32,
    pub user_namespace: i32,
    pub unmounts: Vec<i32>,
}

/// `on_host`: as who the command will be, without the capabilities that it will not have.
pub fn answer(questions: &Questions, on_host: bool) -> io::Result<Answers> {
    if on_host {
        shed_capabilities()?;
    }
    // First: what follows opens files.
    let descriptors = descriptors()?;
    let answers = questions.questions.iter().map(|question| examine(question, on_host)).collect();
    let workshop = questions.workshop.as_ref().filter(|_| !on_host).and_then(|place| work_in(place.as_path()).err());
    let process = Process {
        status: status()?,
        namespaces: namespaces()?,
        environment: names_of_variables(),
        descriptors,
        cwd: std::env::current_dir().ok().and_then(AbsPath::normalize),
        marker: fs::symlink_metadata(places::MARKER).is_ok(),
        workshop,
        socket: errno(connect(&questions.socket)),
        settings: errno(fs::OpenOptions::new().write(true).open(SETTING).map(drop)),
        // Last: it may succeed, and then nothing is as before.
        user_namespace: if on_host { 0 } else { make_user_namespace() },
        unmounts: if on_host { Vec::new() } else { questions.mounts.iter().map(take_down).collect() },
    };
    Ok(Answers { answers, process })
}

/// A setting of the kernel that leads out of every sandbox. It is opened, and not written.
const SETTING: &str = "/proc/sys/kernel/core_pattern";

/// An ordinary user has none to lose, and needs one to lose the others.
fn shed_capabilities() -> io::Result<()> {
    let sets = rustix::thread::capabilities(None)?;
    if sets.permitted.is_empty() { Ok(()) } else { crate::sys::capabilities::drop_capabilities() }
}

fn examine(question: &Question, on_host: bool) -> Answer {
    let path = question.path.as_path();
    let found = match look(path) {
        Ok(found) => found,
        Err(e) => return Answer { found: None, errno: errno(Err(e)) },
    };
    let tried = match (question.operation, found.kind) {
        (_, Kind::Link) => Err(Errno::LOOP),
        (Operation::Read, Kind::Special) => accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS),
        (Operation::Write, Kind::Special) => accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS),
        (Operation::Read, _) => open(path, OFlags::RDONLY | HARMLESS, Mode::empty()).map(drop),
        (Operation::Write, Kind::Directory) => write_in(path),
        (Operation::Write, _) => append_to(path),
        (Operation::Move, Kind::Directory) => remove_while_full(path, on_host),
        (Operation::Move, _) => Err(Errno::NOTDIR),
    };
    Answer { found: Some(found), errno: tried.err().map_or(0, Errno::raw_os_error) }
}

const HARMLESS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn look(path: &Path) -> io::Result<Found> {
    let found = fs::symlink_metadata(path)?;
    let kind = found.file_type();
    let kind = match () {
        () if kind.is_dir() => Kind::Directory,
        () if kind.is_file() => Kind::File,
        () if kind.is_symlink() => Kind::Link,
        () if kind.is_char_device() && found.rdev() == rustix::fs::makedev(1, 3) => Kind::Null,
        () => Kind::Special,
    };
    Ok(Found { identity: Identity::of(&found), kind })
}

fn append_to(path: &Path) -> rustix::io::Result<()> {
    match open(path, OFlags::WRONLY | OFlags::APPEND | HARMLESS, Mode::empty()) {
        // A program that runs: the kernel says so before it looks at the mount.
        Err(Errno::TXTBSY) => accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS),
        opened => opened.map(drop),
    }
}

fn write_in(directory: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(directory, flags, Mode::from_raw_mode(0o600)) {
        // Not every file system has files without names. This asks the same of the kernel, and makes nothing.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
        }
        opened => opened.map(drop),
    }
}

/// What is seen to be empty is left alone, with an answer that no kernel gives. So is, on the host, what cannot be listed: it may be empty.
/// Inside, that is a mask, which stays.
fn remove_while_full(directory: &Path, on_host: bool) -> rustix::io::Result<()> {
    let is_empty = fs::read_dir(directory).map_or(on_host, |mut entries| entries.next().is_none());
    if is_empty {
        return Err(EMPTY);
    }
    rustix::fs::rmdir(directory)
}

pub(super) const EMPTY: Errno = Errno::NODATA;

/// What the other questions do, where all of it must work: a probe that cannot write anywhere proves nothing by not writing.
fn work_in(place: &Path) -> Result<(), String> {
    let [one, inner, other, file] = ["one", "one/inner", "other", "file"].map(|name| place.join(name));
    let step = |what: &'static str| move |e: io::Error| format!("{what}: {}", name_of(errno(Err(e))));
    fs::create_dir(&one).map_err(step("make a directory"))?;
    fs::create_dir(&inner).map_err(step("make a directory"))?;
    match remove_while_full(&one, false) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        removed => return Err(format!("a full directory was removed: {removed:?}")),
    }
    fs::rename(&one, &other).map_err(step("rename a directory"))?;
    write_in(&other).map_err(|e| step("make a file without a name")(e.into()))?;
    fs::write(&file, "").map_err(step("make a file"))?;
    append_to(&file).map_err(|e| step("append to a file")(e.into()))?;
    fs::remove_file(&file).and_then(|()| fs::remove_dir_all(&other)).map_err(step("remove it"))
}

/// Root without capabilities gets one, and cannot be root in it: what counts is that it was made.
fn make_user_namespace() -> i32 {
    let current = || fs::read_link("/proc/self/ns/user").ok();
    let before = current();
    let entered = errno(crate::sys::namespaces::enter());
    if current() == before { entered } else { 0 }
}

fn take_down(point: &AbsPath) -> i32 {
    unmount(point.as_path(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).err().map_or(0, Errno::raw_os_error)
}

fn connect(socket: &str) -> io::Result<()> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(socket)?).map(drop)
}

fn status() -> io::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string("/proc/self/status")?;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let wanted = |name: &str| name.starts_with("Cap") || ["NoNewPrivs", "Seccomp"].contains(&name);
    Ok(lines.filter(|(name, _)| wanted(name)).map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
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

fn names_of_variables() -> Vec<Word> {
    let mut names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    names.sort();
    names.into_iter().map(Word).collect()
}

fn descriptors() -> io::Result<Vec<String>> {
    let listed: Vec<_> = fs::read_dir("/proc/self/fd")?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // The one that listed them has been closed again, so it leads nowhere.
    let open = listed.into_iter().filter_map(|path| Some((fs::metadata(&path).ok()?.is_dir(), path)));
    let is_standard = |path: &Path| path.file_name().is_some_and(|name| ["0", "1", "2"].iter().any(|n| name == *n));
    let unwanted = open.filter(|(is_directory, path)| *is_directory || !is_standard(path));
    let shown = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(unwanted.map(|(_, path)| shown(&path)).collect())
}

fn errno(result: io::Result<()>) -> i32 {
    // What is no error of the system is none that a sandbox makes.
    result.err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO))
}

/// As the manual pages call it.
pub(super) fn name_of(errno: i32) -> String {
    const NAMES: [(Errno, &str); 22] = [
        (Errno::PERM, "EPERM"),
        (Errno::NOENT, "ENOENT"),
        (Errno::IO, "EIO"),
        (Errno::NXIO, "ENXIO"),
        (Errno::ACCESS, "EACCES"),
        (Errno::BUSY, "EBUSY"),
        (Errno::EXIST, "EEXIST"),
        (Errno::XDEV, "EXDEV"),
        (Errno::NOTDIR, "ENOTDIR"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::INVAL, "EINVAL"),
        (Errno::TXTBSY, "ETXTBSY"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::ROFS, "EROFS"),
        (Errno::NOSYS, "ENOSYS"),
        (Errno::NOTEMPTY, "ENOTEMPTY"),
        (Errno::LOOP, "ELOOP"),
        (Errno::NODATA, "ENODATA"),
        (Errno::USERS, "EUSERS"),
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::CONNREFUSED, "ECONNREFUSED"),
        (Errno::STALE, "ESTALE"),
    ];
    let known = NAMES.iter().find(|(known, _)| known.raw_os_error() == errno);
    known.map_or_else(|| format!("error {errno}"), |(_, name)| (*name).to_owned())
}
