//! The mounts that the guard makes. By descriptors each costs microseconds, where bwrap reads the whole mount table again for each of its binds.
//!
//! Each gets its access with all that is mounted in it; where the kernel refuses that, `check` goes through all mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstatvfs, openat2, statat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount, move_mount,
    open_tree,
};
use rustix::process::{Resource, Rlimit, fchdir, getrlimit, getuid, setrlimit, umask};

use super::dev;
use super::own::{Own, is_directory};
use crate::ablate::{self, Mitigation};
use crate::guard_plan::{Expectation, Expected, GuardMount, GuardPlan};
use crate::identity::Identity;
use crate::mount_access::{self, Access};
use crate::path::{AbsPath, PathMap};
use crate::places;

/// Neither devices nor programs that run with other rights.
pub(super) const HARMLESS: MountFlags = MountFlags::NODEV.union(MountFlags::NOSUID);
/// Without devices, opening `/dev/null` gives EACCES.
const CLOSED: MountFlags = HARMLESS.union(MountFlags::RDONLY).union(MountFlags::NOEXEC);

/// As many are open at once besides those of binds.
const OTHER_DESCRIPTORS: usize = 64;

/// Nothing that is mounted on the host from now on appears here.
pub(super) fn detach_from_host() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// What came of it.
pub(super) struct Made {
    /// Each mount is writable or read-only as planned, those of the host included: the kernel has said so.
    pub(super) settled: bool,
    /// What is seen where something is hidden: one of these, or whatever lies in a file system of ours.
    pub(super) hidden: Vec<Identity>,
    pub(super) own: BTreeSet<u64>,
}

pub(super) fn make(plan: &GuardPlan) -> Result<Made, (&AbsPath, io::Error)> {
    // A directory gets the mode that is asked for, whatever the caller takes away from new files; and there may be as many descriptors as rules.
    let umask = umask(Mode::empty());
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let room = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let made = make_all(plan, room.saturating_sub(OTHER_DESCRIPTORS));
    rustix::process::umask(umask);
    let _ = setrlimit(Resource::Nofile, limit);
    made
}

fn make_all(plan: &GuardPlan, room: usize) -> Result<Made, (&AbsPath, io::Error)> {
    let mounts = &plan.mounts;
    let mut maker = Maker {
        expected: plan.expect.iter().map(|expected| (&expected.path, expected)).collect(),
        early: take_early(mounts, room)?,
        own: Own::default(),
        mask: None,
        hidden: None,
        made: Made { settled: close_all().is_ok(), hidden: Vec::new(), own: BTreeSet::new() },
    };
    // A bind would take along what is pinned below it, so the deepest is pinned first.
    let pins = mounts.iter().rev().filter(|mount| matches!(mount, GuardMount::Pin(_)));
    let others = mounts.iter().filter(|mount| !matches!(mount, GuardMount::Pin(_)));
    for mount in pins.chain(others) {
        maker.make(mount).map_err(|e| (mount.path(), e))?;
    }
    maker.own.set_modes(&AbsPath::root())?;
    Ok(Made { own: maker.own.devices(), ..maker.made })
}

/// Makes all that bwrap has mounted read-only, but for what it has made itself. It has done so, one mount after the other; who does not want to look at
/// each of them does it once more.
fn close_all() -> io::Result<()> {
    mount_access::set(open(&AbsPath::root())?.as_fd(), Access::ReadOnly)?;
    mount_access::set_alone(open(&places::at(places::PROC))?.as_fd(), Access::Writable)
}

/// What binds show, taken before anything is mounted, as far as there is room for descriptors: to take a part of a mount the kernel goes through all that is mounted
/// in that mount, so with five thousand rules each would be compared with those before it. What is taken early is of the host, whatever is mounted around it later; parents come
/// before children, and each is put on what its parent shows.
fn take_early(mounts: &[GuardMount], room: usize) -> Result<BTreeMap<&AbsPath, Early>, (&AbsPath, io::Error)> {
    let (must, may) = binds(mounts);
    let room = room.saturating_sub(must.len());
    let mut early = BTreeMap::new();
    for Bind { mount, source, is_new } in must.into_iter().chain(may.into_iter().take(room)) {
        match open(source).and_then(|opened| taken_with_submounts(&opened)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && mount.may_be_gone() => {}
            taken => _ = early.insert(mount.path(), Early { tree: taken.map_err(|e| (mount.path(), e))?, is_new }),
        }
    }
    Ok(early)
}

/// What a bind shows, not in its place yet.
struct Early {
    tree: OwnedFd,
    /// Where it will show there is nothing of the host any more.
    is_new: bool,
}

struct Bind<'p> {
    mount: &'p GuardMount,
    source: &'p AbsPath,
    is_new: bool,
}

/// All binds and what they show. First those of what will have been covered when it is their turn: by an empty file system of the plan, or, in another
/// place, by a pin, from which nothing can be bound.
fn binds(mounts: &[GuardMount]) -> (Vec<Bind<'_>>, Vec<Bind<'_>>) {
    let (mut must, mut may) = (Vec::new(), Vec::new());
    let mut is_empty: PathMap<bool> = PathMap::default();
    for mount in mounts {
        let path = mount.path();
        match mount {
            GuardMount::From { source, .. } => must.push(Bind { mount, source, is_new: true }),
            _ if !mount.is_bind() => {}
            _ if is_empty.nearest(path).is_some_and(|(_, is_empty)| *is_empty) => {
                must.push(Bind { mount, source: path, is_new: true });
            }
            _ => may.push(Bind { mount, source: path, is_new: false }),
        }
        if mount.is_bind() || matches!(mount, GuardMount::Tmpfs { .. } | GuardMount::Dev(_)) {
            is_empty.insert(path.clone(), !mount.is_bind());
        }
    }
    (must, may)
}

struct Maker<'p> {
    expected: BTreeMap<&'p AbsPath, &'p Expected>,
    /// What binds show that was taken before anything was mounted.
    early: BTreeMap<&'p AbsPath, Early>,
    own: Own<'p>,
    /// The first of each kind. The others are bound from it: one call, for a bind has the flags of what it was taken from.
    mask: Option<OwnedFd>,
    hidden: Option<OwnedFd>,
    made: Made,
}

impl<'p> Maker<'p> {
    fn make(&mut self, mount: &'p GuardMount) -> io::Result<()> {
        if !matches!(mount, GuardMount::Seal(_)) {
            self.own.kept.cover(mount.path());
        }
        let made = self.make_once(mount, self.covered(mount.path()));
        // What comes and goes by itself (a socket, a temporary file) may go, or be replaced, between any two steps: then there is nothing
        // any more, or something else to hide.
        let made = match made {
            Err(e) if matches!(mount, GuardMount::MaskIfThere(_)) && is_gone(&e) => self.make_once(mount, None),
            made => made,
        };
        match made {
            Err(e) if mount.may_be_gone() && e.kind() == io::ErrorKind::NotFound => Ok(()),
            // A socket in a folder of somebody else: where we may not go the command, with the same rights, may not either.
            Err(e) if matches!(mount, GuardMount::MaskIfThere(_)) && is_out_of_reach(&e, mount.path()) => Ok(()),
            made => made,
        }
    }

    /// What must be at a path before it is hidden, where that was noted. Another sandbox may have put something else there, for us to hide in its place.
    fn covered(&self, path: &AbsPath) -> Option<Identity> {
        self.expected.get(path).filter(|expected| expected.access == Expectation::Hidden)?.identity
    }

    fn make_once(&mut self, mount: &'p GuardMount, covered: Option<Identity>) -> io::Result<()> {
        match mount {
            GuardMount::Pin(path) => pin(path),
            GuardMount::Dev(path) => dev::make(path, &mut self.own),
            GuardMount::From { path, .. } => {
                let access = match self.expected.get(path).map(|expected| expected.access) {
                    Some(Expectation::Rw) => Access::Writable,
                    _ => Access::ReadOnly,
                };
                self.bind(path, access)
            }
            GuardMount::WithDevices(path) | GuardMount::WithDevicesIfThere(path) => {
                self.bind(path, Access::Writable)?;
                allow_devices(&open(path)?)
            }
            GuardMount::ReadOnly(path) | GuardMount::ReadOnlyIfThere(path) => self.bind(path, Access::ReadOnly),
            GuardMount::Writable(path) | GuardMount::WritableIfThere(path) => self.bind(path, Access::Writable),
            GuardMount::Mask(path) | GuardMount::MaskIfThere(path) => {
                let point = self.own.file(path)?;
                compare(&point, covered)?;
                self.mask(&point)
            }
            GuardMount::Hide(path) => {
                let point = self.own.directory(path)?;
                compare(&point, covered)?;
                self.hide(path, &point)
            }
            GuardMount::Tmpfs { path, mode } => {
                let point = self.own.directory(path)?;
                compare(&point, covered)?;
                let options = format!("mode={:04o}", self.own.mode_for_now(path, *mode));
                mount_tmpfs(&point, HARMLESS, &options)?;
                self.own.mounted(path).map(drop)
            }
            GuardMount::Directory { path, mode } => {
                let mode = self.own.mode_for_now(path, *mode);
                match self.own.make_directory(path, mode) {
                    // On the way to something that came first.
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    made => made,
                }
            }
            GuardMount::Symlink { path, target } => {
                let (folder, name) = self.own.place(path)?;
                Ok(symlinkat(&target.0, folder, name)?)
            }
            GuardMount::Data { path, content } => {
                let point = self.own.file(path)?;
                // While it has a name: without one it cannot be mounted.
                self.own.with_new_file(content.0.as_bytes(), |file| {
                    let tree = taken(file)?;
                    put(&tree, &point)?;
                    seal(&tree)
                })
            }
            GuardMount::Seal(path) => {
                self.own.set_modes(path).map_err(|(_, e)| e)?;
                seal(&open(path)?)
            }
        }
    }

    /// What was taken early, or else the place itself.
    fn bind(&mut self, path: &AbsPath, access: Access) -> io::Result<()> {
        let (tree, point) = match self.early.remove(path) {
            Some(Early { tree, is_new: true }) => {
                let point = if is_directory(&tree)? { self.own.directory(path)? } else { self.own.file(path)? };
                (tree, point)
            }
            Some(Early { tree, is_new: false }) => (tree, self.own.kept.open(path)?),
            None => {
                let point = self.own.kept.open(path)?;
                (taken_with_submounts(&point)?, point)
            }
        };
        // Where the host has closed one of its mounts, or the kernel is older, this is done for each of them at the end.
        self.made.settled &= mount_access::set(tree.as_fd(), access).is_ok();
        put(&tree, &point)?;
        self.own.kept.keep(path.clone(), tree, false);
        Ok(())
    }

    fn mask(&mut self, point: &OwnedFd) -> io::Result<()> {
        if self.mask.as_ref().is_some_and(|mask| bind_again(mask, point)) {
            return Ok(());
        }
        let mask = taken(&open(&places::at(places::DEV).child("null"))?)?;
        put(&mask, point)?;
        close(&mask)?;
        self.made.hidden.push(identity(&mask)?);
        self.mask = Some(mask);
        Ok(())
    }

    fn hide(&mut self, path: &AbsPath, point: &OwnedFd) -> io::Result<()> {
        if self.hidden.as_ref().is_some_and(|hidden| bind_again(hidden, point)) {
            return Ok(());
        }
        mount_tmpfs(point, CLOSED, "mode=0000,size=4k")?;
        let hidden = self.own.kept.open(path)?;
        self.made.hidden.push(identity(&hidden)?);
        self.hidden = Some(hidden);
        Ok(())
    }
}

/// `false` if the first one is no longer a mount: who removes the file on the host unmounts it here.
fn bind_again(first: &OwnedFd, point: &OwnedFd) -> bool {
    taken(first).and_then(|tree| put(&tree, point)).is_ok()
}

/// A mount of what was opened, which is not in any place yet.
pub(super) fn taken(source: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(open_tree(source, c"", OpenTreeFlags::AT_EMPTY_PATH | TAKE)?)
}

/// The same of `name` in a folder, whatever that is: a link is not followed.
pub(super) fn taken_in(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(open_tree(folder, name, OpenTreeFlags::AT_SYMLINK_NOFOLLOW | TAKE)?)
}

/// The same with all that is mounted in it.
fn taken_with_submounts(source: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(open_tree(source, c"", OpenTreeFlags::AT_EMPTY_PATH | OpenTreeFlags::AT_RECURSIVE | TAKE)?)
}

const TAKE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// By descriptors: looking up a path in `/proc/self/fd` takes longer than mounting.
pub(super) fn put(tree: &OwnedFd, point: &OwnedFd) -> io::Result<()> {
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, c"", point, c"", both)?)
}

/// Onto `name` in a folder. A link is not followed.
pub(super) fn put_in(tree: &OwnedFd, folder: &OwnedFd, name: &str) -> io::Result<()> {
    Ok(move_mount(tree, c"", folder, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// An empty file system.
pub(super) fn mount_tmpfs(point: &OwnedFd, flags: MountFlags, options: &str) -> io::Result<()> {
    mount_new("tmpfs", point, flags, &CString::new(options)?)
}

/// A new file system, from within what it covers: to look up a path in `/proc/self/fd` takes half as long as to mount one. Where we may not go we have
/// to. At the end the guard goes where the command begins.
pub(super) fn mount_new(kind: &str, point: &OwnedFd, flags: MountFlags, options: &CStr) -> io::Result<()> {
    match fchdir(point) {
        Ok(()) => Ok(mount(kind, ".", kind, flags, options)?),
        Err(_) => Ok(mount(kind, by_descriptor(point), kind, flags, options)?),
    }
}

/// Not bound along with what is around it: the bind that covers it would show it.
fn pin(path: &AbsPath) -> io::Result<()> {
    let point = open(path)?;
    let tree = taken_with_submounts(&point)?;
    put(&tree, &point)?;
    mount_access::set_unbindable(tree.as_fd())
        .or_else(|_| Ok(mount_change(by_descriptor(&tree), MountPropagationFlags::UNBINDABLE)?))
}

/// All flags of the mount but those that forbid devices and writing. Where the host has set these, they stay.
pub(super) fn allow_devices(mount: &OwnedFd) -> io::Result<()> {
    if mount_access::set_alone(mount.as_fd(), Access::WithDevices).is_ok() {
        return Ok(());
    }
    let no_programs = fstatvfs(mount)?.f_flag.contains(StatVfsMountFlags::NOEXEC);
    let flags = if no_programs { MountFlags::NOSUID | MountFlags::NOEXEC } else { MountFlags::NOSUID };
    unless_locked(remount(mount, flags))
}

/// A flag that the host has set on a mount cannot be taken away here.
pub(super) fn unless_locked(changed: io::Result<()>) -> io::Result<()> {
    match changed {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        changed => changed,
    }
}

fn compare(point: &OwnedFd, covered: Option<Identity>) -> io::Result<()> {
    let Some(covered) = covered else { return Ok(()) };
    if identity(point)? == covered { Ok(()) } else { Err(Errno::STALE.into()) }
}

fn identity(opened: &OwnedFd) -> io::Result<Identity> {
    Ok(Identity::of_stat(&statat(opened, c"", AtFlags::EMPTY_PATH)?))
}

/// No such file, or another one; or it went while it was mounted on: then what was opened is in no place any more (EINVAL).
pub(super) fn is_gone(error: &io::Error) -> bool {
    let stale = [Errno::NOENT, Errno::INVAL, Errno::STALE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| stale.contains(&number))
}

/// Whether it is a folder of somebody else that keeps us from `path`: our own the command could open up.
fn is_out_of_reach(error: &io::Error, path: &AbsPath) -> bool {
    let is_closed = error.raw_os_error() == Some(Errno::ACCESS.raw_os_error());
    let closing = path.ancestors().skip(1).find_map(|folder| open(&folder).ok());
    let owner = closing.and_then(|folder| statat(&folder, c"", AtFlags::EMPTY_PATH).ok()).map(|found| found.st_uid);
    is_closed && owner.is_some_and(|owner| owner != getuid().as_raw())
}

/// The folders in which, and below which, the command may make something, as far as mounts let it. What lies in another one of them, and so follows it in the plan, is
/// left out. One at a time: there may be more than descriptors. What cannot be opened is none.
pub(super) fn open_to_names(plan: &GuardPlan) -> impl Iterator<Item = OwnedFd> {
    let mut last: Option<&AbsPath> = None;
    plan.expect.iter().filter_map(move |expected| {
        let is_open = matches!(expected.access, Expectation::Rw | Expectation::Own);
        if !is_open || last.is_some_and(|last| expected.path.is_within(last)) {
            return None;
        }
        let opened = open(&expected.path).ok().filter(|opened| is_directory(opened).unwrap_or(false))?;
        last = Some(&expected.path);
        Some(opened)
    })
}

/// Binds a part of `/proc` over itself, read-only.
pub(super) fn read_only(path: &AbsPath) -> io::Result<()> {
    let point = open(path)?;
    let tree = taken(&point)?;
    put(&tree, &point)?;
    close(&tree)
}

/// Of the sandbox's own, and finished.
fn seal(mount: &OwnedFd) -> io::Result<()> {
    mount_access::set_alone(mount.as_fd(), Access::Sealed).or_else(|_| remount(mount, HARMLESS | MountFlags::RDONLY))
}

fn close(mount: &OwnedFd) -> io::Result<()> {
    mount_access::set_alone(mount.as_fd(), Access::Closed).or_else(|_| remount(mount, CLOSED))
}

/// Changes the flags of a mount. All flags that are locked must be among `flags`.
pub(super) fn remount(mount: &OwnedFd, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(by_descriptor(mount), flags | MountFlags::BIND, c"")?)
}

/// Another sandbox may share the project and change it this very moment, so no symlink is followed, and what was opened is
/// what is mounted on.
pub(super) fn open(path: &AbsPath) -> io::Result<OwnedFd> {
    open_in(CWD, path.as_path())
}

/// The same for a name in a folder that was opened so.
pub(super) fn open_in(folder: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let follows = ablate::is_off(Mitigation::GuardCheck);
    let resolve = if follows { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
    Ok(openat2(folder, name, flags, Mode::empty(), resolve)?)
}

pub(super) fn by_descriptor(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
