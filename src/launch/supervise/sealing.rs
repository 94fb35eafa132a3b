//! Closing the mounts of a sandbox in which nobody lives any more.
//!
//! A command can hand a folder to one in another sandbox, by a descriptor over a socket in a place
//! that both can write. It stays open there, on a mount of ours that is locked and writable, when
//! its own sandbox has ended; and then what was blocked while it was missing could be made there.
//! So where others live, all mounts are made read-only before placeholders are taken away. Somebody
//! who still has a file open for writing keeps that from being done (EBUSY): then they stay.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys::mount::make_read_only;

/// Those of the command. While they are held its mounts stay, although nobody is among them.
pub(super) struct Namespaces {
    user: OwnedFd,
    mounts: OwnedFd,
}

impl Namespaces {
    /// Of a process that waits for us.
    pub(super) fn of(process: Pid) -> io::Result<Self> {
        let of = |kind: &str| Ok(File::open(format!("/proc/{}/ns/{kind}", process.as_raw_nonzero()))?.into());
        let namespaces: io::Result<_> = of("user").and_then(|user| Ok(Self { user, mounts: of("mnt")? }));
        namespaces
    }

    /// By a child, which goes there: what we own we may enter.
    #[allow(unsafe_code)]
    pub(super) fn close(&self) -> io::Result<()> {
        // SAFETY: the child makes system calls alone, on values that were made before, and ends
        // without running anything of its parent.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let closed = self.close_from_within();
            let errno = closed.err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO));
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(errno) };
        }
        let Some(child) = Pid::from_raw(child).filter(|_| child > 0) else {
            return Err(io::Error::last_os_error());
        };
        let status = loop {
            match waitpid(Some(child), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                status => break status?,
            }
        };
        match status.and_then(|(_, status)| status.exit_status()) {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    /// Allocates nothing.
    fn close_from_within(&self) -> io::Result<()> {
        move_into_link_name_space(self.user.as_fd(), Some(LinkNameSpaceType::User))?;
        move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let root = open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        make_read_only(root.as_fd())
    }
}
