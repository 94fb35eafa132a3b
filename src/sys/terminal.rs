//! The terminal that we were started from, and our place among its processes.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal, if we are in its foreground.
///
/// A shell inside takes the foreground for itself and cannot give it back: the process group that had it has no number in there.
pub(crate) struct Foreground {
    terminal: OwnedFd,
    ours: Pid,
}

impl Foreground {
    pub(crate) fn now() -> Option<Self> {
        let terminal = open()?;
        let ours = own_group()?;
        (tcgetpgrp(&terminal) == Ok(ours)).then_some(Self { terminal, ours })
    }

    /// Unless another group that lives has it by now: a shell may have put us into the background.
    pub(crate) fn take_back(&self) {
        if tcgetpgrp(&self.terminal).is_ok_and(|group| test_kill_process_group(group) == Err(Errno::SRCH)) {
            // From the background this sends a signal, which is blocked, and goes on.
            let _ = tcsetpgrp(&self.terminal, self.ours);
        }
    }
}

pub(crate) fn open() -> Option<OwnedFd> {
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()
}

pub(crate) fn leads_session() -> bool {
    // rustix's own `getsid` and `getpgrp` hold that the number is never 0. It is, in a namespace of processes whose session or
    // group began outside: `docker exec`, `unshare --pid` and many CI systems start commands so.
    // SAFETY: only numbers go in and come out.
    #[allow(unsafe_code)]
    let session = unsafe { libc::getsid(0) };
    session == getpid().as_raw_nonzero().get()
}

/// `None` if it began outside our namespace of processes, where it has no number.
fn own_group() -> Option<Pid> {
    // SAFETY: only a number comes out.
    #[allow(unsafe_code)]
    let group = unsafe { libc::getpgrp() };
    Pid::from_raw(group)
}
