//! A timer that continues this process.

use std::io;
use std::mem::zeroed;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::time::Duration;

/// Sends SIGCONT to this process at a moment, and every second after it. A supervisor that stopped
/// together with its command would otherwise not notice that the command's time is up.
pub(crate) struct ContinueTimer(usize);

impl ContinueTimer {
    #[allow(unsafe_code)]
    pub(crate) fn start(after: Duration) -> io::Result<Self> {
        let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: after.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: after.subsec_nanos().into(),
        };
        let times = libc::itimerspec { it_interval: second, it_value: value };
        // SAFETY: all zeros is a valid `sigevent`. The kernel writes the timer's number, reads the
        // other structures, and keeps no pointer to any of them.
        unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGCONT;
            let mut timer: libc::timer_t = null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            let made = Self(timer.expose_provenance());
            match libc::timer_settime(timer, 0, &raw const times, null_mut()) {
                0 => Ok(made),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

impl Drop for ContinueTimer {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the timer is ours, and nothing uses it after this.
        unsafe { libc::timer_delete(with_exposed_provenance_mut(self.0)) };
    }
}
