//! Signals: which wait for the supervisor, which bwrap must not see, and what it takes to end or stop as the command did.
//!
//! bwrap passes no signal on: Ctrl-C or SIGTERM ends it, and with it the command, whose handlers never run. So it is started
//! with signals *blocked*, and the guard unblocks them for the command. Blocked and not ignored, because
//!
//! - no disposition changes: what the caller ignores (`nohup`) stays ignored for the command, and nothing else is;
//! - a signal that meets the guard in its first moments waits there instead of getting lost.
//!
//! All of the supervision's unsafe code about signals is here: `rustix` has neither masks nor dispositions.
#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;

use libc::{c_int, sigset_t};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::sys::signal_mask::{Mask, bit, change_mask, set_of};

/// Faults of this very process, what the kernel uses to limit it, and what `std` and `wait` rely on.
const LEFT_ALONE: [c_int; 10] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGPIPE,
    libc::SIGCHLD,
];

/// While it exists, signals that are sent to us wait to be read.
pub(crate) struct Signals {
    descriptor: OwnedFd,
    before: Mask,
}

/// A signal that was sent to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// By the kernel itself, and not by a process with `kill`.
    pub(crate) by_kernel: bool,
}

impl Signals {
    /// Blocks them for this thread, which must be the only one that signals can meet.
    pub(crate) fn block() -> io::Result<Self> {
        keep_children();
        let set = waiting();
        let before = Mask::of(&change_mask(libc::SIG_BLOCK, &set)?);
        // SAFETY: `set` is initialised and outlives the call; a new descriptor is asked for.
        let descriptor = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if descriptor < 0 {
            let error = io::Error::last_os_error();
            before.restore();
            return Err(error);
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { descriptor, before })
    }

    /// Readable while a signal waits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The next signal that waits, if one does.
    pub(crate) fn next(&self) -> io::Result<Option<Received>> {
        // `struct signalfd_siginfo`: ssi_signo, ssi_errno, ssi_code, and more that does not matter.
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        loop {
            match rustix::io::read(&self.descriptor, &mut info) {
                Ok(length) if length == info.len() => {}
                Ok(_) => return Ok(None),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let field = |at: usize| info[at..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
            if let Some(signal) = named(field(0)) {
                return Ok(Some(Received { signal, by_kernel: field(8) == libc::SI_KERNEL }));
            }
        }
    }

    /// What the caller had blocked.
    pub(crate) fn before(&self) -> Mask {
        self.before
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.before.restore();
    }
}

/// An ignored SIGCHLD would let our child vanish with its status; the same for bwrap, which inherits this.
pub(crate) fn keep_children() {
    set_default(libc::SIGCHLD);
}

/// A signal by its number. Without those that the C library keeps for itself.
pub(crate) fn named(number: c_int) -> Option<Signal> {
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    // SAFETY: within the range that the C library leaves to programs.
    Signal::from_named_raw(number)
        .or_else(|| real_time.contains(&number).then(|| unsafe { Signal::from_raw_unchecked(number) }))
}

/// Whether a process that knows nothing of the signal ends by it.
pub(crate) fn ends_by_default(signal: Signal) -> bool {
    !stops_by_default(signal) && ![Signal::CHILD, Signal::CONT, Signal::URG, Signal::WINCH].contains(&signal)
}

pub(crate) fn stops_by_default(signal: Signal) -> bool {
    [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU].contains(&signal)
}

/// Whether the kernel sends it to a whole process group at once, for a terminal: then the command has it already.
pub(crate) fn meets_the_group(signal: Signal) -> bool {
    let of_terminal = [Signal::INT, Signal::QUIT, Signal::HUP, Signal::WINCH, Signal::CONT];
    stops_by_default(signal) || of_terminal.contains(&signal)
}

/// What bwrap must not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shield {
    /// There is a supervisor: it passes on what is sent to it, and stops when the command stops.
    Supervised,
    /// bwrap stands where the shell looks. The terminal's Ctrl-C and Ctrl-\ are for the command; what is sent to bwrap
    /// must still end it, and Ctrl-Z must still stop it.
    Alone,
    /// There is no guard to take anything back: as the caller had it.
    No(Mask),
}

/// Starts `bwrap` with signals blocked, for a guard to unblock.
pub(crate) fn shield(bwrap: &mut Command, shield: Shield) {
    let (how, set) = match shield {
        Shield::Supervised => (libc::SIG_BLOCK, waiting()),
        Shield::Alone => (libc::SIG_BLOCK, set_of(&[libc::SIGINT, libc::SIGQUIT])),
        Shield::No(before) => (libc::SIG_SETMASK, before.set()),
    };
    // SAFETY: `sigprocmask` is async-signal-safe, and nothing is allocated.
    unsafe { bwrap.pre_exec(move || change_mask(how, &set).map(drop)) };
}

/// Does to this process what `signal` does to one that knows nothing of it. Returns if it goes on after all, such as when it
/// was stopped and continued.
pub(crate) fn act_by_default(signal: Signal) {
    let number = signal.as_raw();
    set_default(number);
    let set = set_of(&[number]);
    // SAFETY: `raise` has no requirement. Blocked, it waits until the next line.
    unsafe { libc::raise(number) };
    if let Ok(before) = change_mask(libc::SIG_UNBLOCK, &set) {
        let _ = change_mask(libc::SIG_SETMASK, &before);
    }
}

/// The first of `signals` that waits, all of them looked at in the same moment.
pub(crate) fn pending(signals: &[Signal]) -> Option<Signal> {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `sigpending` initialises the set that it is given, and says so by returning 0.
    let set = unsafe { (libc::sigpending(set.as_mut_ptr()) == 0).then(|| set.assume_init())? };
    let Mask(waiting) = Mask::of(&set);
    signals.iter().copied().find(|signal| waiting & bit(signal.as_raw()) != 0)
}

/// All that wait for the supervisor.
fn waiting() -> sigset_t {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set, and `sigdelset` changes an initialised one.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for number in LEFT_ALONE {
            libc::sigdelset(set.as_mut_ptr(), number);
        }
        set.assume_init()
    }
}

fn set_default(number: c_int) {
    // SAFETY: all zeros is a valid `sigaction`: the default action, no flags, an empty mask. Nothing of ours handles signals.
    unsafe {
        let action: libc::sigaction = zeroed();
        libc::sigaction(number, &action, null_mut());
    }
}

/// Whether the caller ignores it. To be asked when it matters: we change what becomes of a signal only where that stops or ends us.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    // SAFETY: only asks. All zeros is a valid `sigaction`, and the call overwrites it or fails.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal.as_raw(), std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
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
}
