//! The sandbox's own `/dev`: what `bwrap --dev` makes, which reads the mount table once for each of its nodes. That was a third of a start.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, mkdirat, symlinkat};
use rustix::mount::MountFlags;
use rustix::termios::{isatty, ttyname};

use super::mounts::{HARMLESS, allow_devices, mount_new, mount_tmpfs, open, open_in, put_in, taken, taken_in};
use super::own::{Own, make_file};
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
    // All at once, before they are covered.
    let point = open(path)?;
    let mut nodes = NODES.iter().map(|name| Ok((*name, taken_in(&point, name)?))).collect::<io::Result<Vec<_>>>()?;
    if let Some(terminal) = terminal() {
        nodes.push(("console", taken(&terminal)?));
    }
    mount_tmpfs(&point, HARMLESS, "mode=0755")?;
    let folder = own.mounted(path)?;
    for (name, node) in &nodes {
        make_file(&folder, *name)?;
        put_in(node, &folder, name)?;
        allow_devices(node)?;
    }
    for (target, name) in LINKS {
        symlinkat(target, &folder, name)?;
    }
    for name in ["shm", "pts"] {
        mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=620";
    mount_new("devpts", &open_in(&folder, "pts")?, flags, options)
}

/// What the command's output goes to, where that is a terminal and has a name here.
fn terminal() -> Option<OwnedFd> {
    let output = io::stdout();
    let name = isatty(output.as_fd()).then(|| ttyname(output.as_fd(), Vec::new()).ok())??;
    open(&AbsPath::normalize(name.to_str().ok()?)?).ok()
}
