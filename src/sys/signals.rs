//! Signals: the mask of blocked signals, a descriptor that reads the signals sent to us, and the
//! default actions.
//!
//! bwrap passes no signal on: Ctrl-C or SIGTERM ends it and with it the command, whose handlers
//! never run. So bwrap starts with signals *blocked*, and the guard unblocks them for the command.
//! Ignoring them instead would change dispositions, which the command inherits (`nohup`), and
//! would lose a signal that reaches the guard in its first moments.
//!
//! Masks go to the kernel as the 64 bits that it uses itself. The `sigset_t` of the C library would
//! need an unsafe call for each bit, and the sets of `rustix` and `nix` cannot name the real-time
//! signals that a caller may have blocked.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGPIPE, SIGSEGV, SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ, c_int};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

/// Signals that are never blocked: faults of this process, limits of the kernel, and the signals
/// that `std` and `wait` rely on.
const LEFT_ALONE: [c_int; 10] = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU, SIGXFSZ, SIGPIPE, SIGCHLD];

/// A set of signals: the signal with the number N is the bit N - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalMask(pub(crate) u64);

impl SignalMask {
    fn of(numbers: impl IntoIterator<Item = c_int>) -> Self {
        let bit = |number: c_int| 1_u64.checked_shl(number.unsigned_abs().wrapping_sub(1)).unwrap_or(0);
        Self(numbers.into_iter().map(bit).fold(0, |all, bit| all | bit))
    }

    /// The signals that are blocked for the supervisor: all but [`LEFT_ALONE`] and those between
    /// the named and the real-time signals, which the C library uses for itself.
    fn supervised() -> Self {
        let Self(excepted) = Self::of(LEFT_ALONE.into_iter().chain(32..libc::SIGRTMIN()));
        Self(!excepted)
    }

    /// The signals that this thread has blocked.
    pub(crate) fn current() -> Self {
        Self(0).change(libc::SIG_BLOCK).unwrap_or(Self(0))
    }

    /// Blocks these signals in this thread, and no others.
    pub(crate) fn restore(self) {
        let _ = self.change(libc::SIG_SETMASK);
    }

    /// Changes the mask of this thread and returns the one before. Allocates nothing.
    fn change(self, how: c_int) -> io::Result<Self> {
        let mut before = Self(0);
        // SAFETY: the kernel reads one mask and writes the other; both live until the call returns
        // and have the size that it is told.
        let done = unsafe {
            let (new, old) = (&raw const self.0, &raw mut before.0);
            libc::syscall(libc::SYS_rt_sigprocmask, how, new, old, size_of::<u64>())
        };
        if done == 0 { Ok(before) } else { Err(io::Error::last_os_error()) }
    }
}

/// While this value exists, signals to this process are blocked and can be read.
pub(crate) struct Signals {
    descriptor: OwnedFd,
    before: SignalMask,
}

/// A signal that was sent to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// Whether the kernel sent it, and not a process with `kill`.
    pub(crate) by_kernel: bool,
}

impl Signals {
    /// Blocks signals for this thread, which must be the only one that can receive signals.
    pub(crate) fn block() -> io::Result<Self> {
        // If SIGCHLD is ignored, a child vanishes with its status. bwrap inherits the disposition.
        if is_ignored(Signal::CHILD) {
            set_default(SIGCHLD);
        }
        let mask = SignalMask::supervised();
        let before = mask.change(libc::SIG_BLOCK)?;
        // SAFETY: the kernel reads the mask, whose size it is told, and makes a new descriptor,
        // which no other code knows.
        let descriptor = unsafe {
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            let made = libc::syscall(libc::SYS_signalfd4, -1, &raw const mask.0, size_of::<u64>(), flags);
            RawFd::try_from(made).ok().filter(|made| *made >= 0).map(|made| OwnedFd::from_raw_fd(made))
        };
        match descriptor {
            Some(descriptor) => Ok(Self { descriptor, before }),
            None => {
                let error = io::Error::last_os_error();
                before.restore();
                Err(error)
            }
        }
    }

    /// A descriptor that is readable while a signal is pending.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Reads all pending signals.
    pub(crate) fn read(&self) -> io::Result<Vec<Received>> {
        // `struct signalfd_siginfo` begins with ssi_signo, ssi_errno and ssi_code.
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        let mut all = Vec::new();
        loop {
            match rustix::io::read(&self.descriptor, &mut info) {
                Ok(length) if length == info.len() => {}
                Ok(_) | Err(Errno::AGAIN) => return Ok(all),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let field = |at: usize| info[at..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            let by_kernel = field(8) == libc::SI_KERNEL;
            all.extend(named(field(0)).map(|signal| Received { signal, by_kernel }));
        }
    }

    /// The signals that the caller had blocked.
    pub(crate) fn before(&self) -> SignalMask {
        self.before
    }

    /// Keeps the signals blocked when this is dropped.
    pub(crate) fn stay_blocked(&mut self) {
        self.before.0 |= SignalMask::supervised().0;
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.before.restore();
    }
}

/// The signal with this number. `None` for the numbers that the C library uses for itself.
pub(crate) fn named(number: c_int) -> Option<Signal> {
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    // SAFETY: the number is within the range that the C library leaves to programs.
    Signal::from_named_raw(number)
        .or_else(|| real_time.contains(&number).then(|| unsafe { Signal::from_raw_unchecked(number) }))
}

/// Whether the signal ends a process that does not handle it.
pub(crate) fn ends_by_default(signal: Signal) -> bool {
    !stops_by_default(signal) && ![Signal::CHILD, Signal::CONT, Signal::URG, Signal::WINCH].contains(&signal)
}

pub(crate) fn stops_by_default(signal: Signal) -> bool {
    [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU].contains(&signal)
}

/// Whether the kernel sends this signal to a whole process group on behalf of a terminal. The
/// command is in our group, so it has received the signal already.
pub(crate) fn meets_the_group(signal: Signal) -> bool {
    let of_terminal = [Signal::INT, Signal::QUIT, Signal::HUP, Signal::WINCH, Signal::CONT];
    stops_by_default(signal) || of_terminal.contains(&signal)
}

/// The signals that bwrap starts with blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shield {
    /// The signals that the supervisor passes on to the command.
    Supervised,
    /// The terminal's Ctrl-C and Ctrl-\, which are for the command. The shell waits for bwrap, so a
    /// signal sent to bwrap must still end it, and Ctrl-Z must still stop it.
    Alone,
    /// Only the signals that the caller has blocked, because there is no guard that would unblock
    /// others.
    No(SignalMask),
}

/// Starts `bwrap` with the signals of `shield` blocked.
pub(crate) fn shield(bwrap: &mut Command, shield: Shield) {
    let (how, mask) = match shield {
        Shield::Supervised => (libc::SIG_BLOCK, SignalMask::supervised()),
        Shield::Alone => (libc::SIG_BLOCK, SignalMask::of([libc::SIGINT, libc::SIGQUIT])),
        Shield::No(before) => (libc::SIG_SETMASK, before),
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { bwrap.pre_exec(move || mask.change(how).map(drop)) };
}

/// Whether this process ignores SIGXFSZ although its caller does not.
static IGNORES_SIGXFSZ: AtomicBool = AtomicBool::new(false);

/// Makes a write beyond the caller's limit on file sizes (`ulimit -f`) fail with an error, which
/// can be reported, instead of killing this process.
pub(crate) fn ignore_sigxfsz() {
    if !is_ignored(Signal::XFSZ) {
        set_action(SIGXFSZ, libc::SIG_IGN);
        IGNORES_SIGXFSZ.store(true, Ordering::Relaxed);
    }
}

/// Starts `command` with the disposition of SIGXFSZ that the caller had.
pub(crate) fn restore_sigxfsz(command: &mut Command) {
    if IGNORES_SIGXFSZ.load(Ordering::Relaxed) {
        // SAFETY: the closure makes one system call and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                set_default(SIGXFSZ);
                Ok(())
            })
        };
    }
}

/// Takes the default action of `signal` on this process. Returns if the process survives, for
/// example after it was stopped and continued.
pub(crate) fn act_by_default(signal: Signal) {
    set_default(signal.as_raw());
    // If the signal is blocked, it stays pending until the next line unblocks it.
    let _ = kill_process(getpid(), signal);
    if let Ok(before) = SignalMask::of([signal.as_raw()]).change(libc::SIG_UNBLOCK) {
        before.restore();
    }
}

pub(crate) fn is_pending(signals: &[Signal]) -> bool {
    let mut waiting = 0_u64;
    // SAFETY: the kernel writes one mask, whose size it is told.
    let done = unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut waiting, size_of::<u64>()) };
    done == 0 && waiting & SignalMask::of(signals.iter().map(|signal| signal.as_raw())).0 != 0
}

fn set_default(number: c_int) {
    set_action(number, libc::SIG_DFL);
}

/// `action` is SIG_DFL or SIG_IGN.
fn set_action(number: c_int, action: libc::sighandler_t) {
    // SAFETY: all zeros is a valid `sigaction`: no flags, an empty mask. This replaces no handler
    // of ours, because we have none.
    unsafe {
        let mut new: libc::sigaction = zeroed();
        new.sa_sigaction = action;
        libc::sigaction(number, &raw const new, std::ptr::null_mut());
    }
}

/// Whether this process ignores the signal, as its caller does: before [`act_by_default`], it
/// changes no disposition except those of SIGCHLD and SIGXFSZ.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    // SAFETY: all zeros is a valid `sigaction`, and the call overwrites it or fails.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        let done = libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action);
        done == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_one_default_action_at_most() {
        for signal in (1..=64).filter_map(named) {
            assert!(!(ends_by_default(signal) && stops_by_default(signal)), "{signal:?}");
        }
        assert!([Signal::INT, Signal::TERM, Signal::KILL, Signal::USR1].into_iter().all(ends_by_default));
        assert!([32, 33].into_iter().all(|number| named(number).is_none()), "the C library's own");
    }

    #[test]
    fn a_mask_has_a_bit_for_each_signal_and_the_kernel_reads_it_so() {
        assert_eq!(SignalMask::of([1, 2, 64]), SignalMask(1 << 63 | 3));
        let supervised = SignalMask::supervised();
        assert_eq!(supervised.0 & SignalMask::of([SIGCHLD, 32, 33]).0, 0);
        let usr1_and_last = SignalMask::of([libc::SIGUSR1, libc::SIGRTMAX()]);
        let before = SignalMask::current();
        usr1_and_last.restore();
        assert_eq!(SignalMask::current(), usr1_and_last);
        before.restore();
        assert_eq!(SignalMask::current(), before);
    }
}
