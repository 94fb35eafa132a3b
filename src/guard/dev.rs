//! The sandbox's own `/dev`: what `bwrap --dev` makes, which reads the mount table once for each of its nodes. That was a third of a start.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, mkdirat, symlinkat};
use rustix::mount::{MountFlags, mount};
use rustix::termios::{isatty, ttyname};

use super::mounts::{HARMLESS, allow_devices, by_descriptor, mount_tmpfs, open, put, taken};
use super::own::Own;
use crate::path::AbsPath;

const NODES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

const LINKS: [(&str, &str); 6] = [
    ("/proc/kcore", "core"),
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

pub(super) fn make(path: &AbsPath, own: &mut Own) -> io::Result<()> {
    let mut nodes: Vec<(AbsPath, OwnedFd)> = Vec::new();
    for name in NODES {
        let node = path.child(name);
        let opened = open(&node)?;
        nodes.push((node, opened));
    }
    if let Some(terminal) = terminal() {
        nodes.push((path.child("console"), terminal));
    }
    mount_tmpfs(&open(path)?, HARMLESS, "mode=0755")?;
    own.mounted(open(path)?)?;
    for (at, node) in &nodes {
        let tree = taken(node)?;
        put(&tree, &own.file(at)?)?;
        allow_devices(&tree)?;
    }
    let folder = open(path)?;
    for (target, name) in LINKS {
        symlinkat(target, &folder, name)?;
    }
    for name in ["shm", "pts"] {
        mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    Ok(mount("devpts", by_descriptor(&open(&path.child("pts"))?), "devpts", flags, options)?)
}

/// What the command's output goes to, where that is a terminal and has a name here.
fn terminal() -> Option<OwnedFd> {
    let output = io::stdout();
    let name = isatty(output.as_fd()).then(|| ttyname(output.as_fd(), Vec::new()).ok())??;
    open(&AbsPath::normalize(name.to_str().ok()?)?).ok()
}
