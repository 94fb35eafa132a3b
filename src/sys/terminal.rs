//! The terminal that we were started from, and our place among its processes.
//!
//! In a process namespace whose session or group began outside, their numbers are 0: `docker exec`,
//! `unshare --pid` and many CI systems start commands so. The `getsid` and `getpgrp` of rustix do
//! not allow for 0.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal, if our process group is in its foreground.
///
/// A shell inside takes the foreground for itself and cannot give it back: the process group that
/// had it has no number in there.
pub(crate) struct Foreground {
    terminal: OwnedFd,
    ours: Pid,
}

impl Foreground {
    pub(crate) fn now() -> Option<Self> {
        let terminal = open()?;
        // SAFETY: only a number comes out.
        #[allow(unsafe_code)]
        let ours = Pid::from_raw(unsafe { libc::getpgrp() })?;
        (tcgetpgrp(&terminal) == Ok(ours)).then_some(Self { terminal, ours })
    }

    /// Takes the foreground back, unless another live group has it: a shell may have put us into
    /// the background.
    pub(crate) fn take_back(&self) {
        if tcgetpgrp(&self.terminal).is_ok_and(|group| test_kill_process_group(group) == Err(Errno::SRCH)) {
            // From the background this sends SIGTTOU, which is blocked, and goes on.
            let _ = tcsetpgrp(&self.terminal, self.ours);
        }
    }
}

pub(crate) fn open() -> Option<OwnedFd> {
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()
}

pub(crate) fn leads_session() -> bool {
    // SAFETY: only numbers go in and come out.
    #[allow(unsafe_code)]
    let session = unsafe { libc::getsid(0) };
    session == getpid().as_raw_nonzero().get()
}
