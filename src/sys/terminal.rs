//! The terminal from which this process was started, and the process group in its foreground.
//!
//! If the session or process group of a process began outside of its process namespace, its number
//! is 0. `docker exec`, `unshare --pid` and many CI systems start commands in this way. The
//! `getsid` and `getpgrp` of rustix cannot return 0.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Pid, getpid, test_kill_process_group};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{
    Action, LocalModes, OptionalActions, Termios, ioctl_tiocexcl, ioctl_tiocnxcl, tcflow, tcgetattr, tcgetpgrp,
    tcsetattr, tcsetpgrp,
};

use super::ablate::{self, Mitigation};

/// The caller's terminals before the run: the controlling terminal, and terminals that are standard
/// streams.
pub(crate) struct Terminals {
    foreground: Option<Foreground>,
    saved: Vec<SavedTerminal>,
}

impl Terminals {
    pub(crate) fn now() -> Self {
        let streams = [stdin(), stdout(), stderr()];
        let streams = streams.into_iter().filter_map(|stream| fcntl_dupfd_cloexec(stream, 3).ok());
        let saved = open().into_iter().chain(streams).filter_map(SavedTerminal::new).collect();
        Self { foreground: Foreground::now(), saved }
    }

    /// Gives each terminal its settings back. A command may leave a terminal in a state in which no
    /// report is visible.
    pub(crate) fn restore(&self) {
        self.foreground.iter().for_each(Foreground::take_back);
        if !ablate::is_off(Mitigation::TerminalReset) {
            self.saved.iter().for_each(SavedTerminal::restore);
        }
    }
}

/// The terminal, if our process group is in its foreground.
///
/// A shell in the sandbox takes the foreground for itself. It cannot give the foreground back,
/// because our process group has no number in the sandbox.
struct Foreground {
    terminal: OwnedFd,
    ours: Pid,
}

impl Foreground {
    fn now() -> Option<Self> {
        let (terminal, ours) = (open()?, process_group()?);
        (tcgetpgrp(&terminal) == Ok(ours)).then_some(Self { terminal, ours })
    }

    /// Takes the foreground back, unless another live group has it: a shell may have put us into
    /// the background.
    fn take_back(&self) {
        if tcgetpgrp(&self.terminal).is_ok_and(|group| test_kill_process_group(group) == Err(Errno::SRCH)) {
            // From the background, this call sends SIGTTOU. The signal is blocked, so the call
            // succeeds.
            let _ = tcsetpgrp(&self.terminal, self.ours);
        }
    }
}

/// Whether there is a terminal, and another process group is in its foreground.
pub(crate) fn is_background() -> bool {
    open().is_some() && Foreground::now().is_none()
}

/// Whether `stream` is a terminal that a program reads key by key. Such programs draw on it.
pub(crate) fn is_drawn_on(stream: BorrowedFd) -> bool {
    tcgetattr(stream).is_ok_and(|settings| !settings.local_modes.contains(LocalModes::ICANON))
}

/// The settings of a terminal.
struct SavedTerminal {
    terminal: OwnedFd,
    settings: Termios,
    was_ours: bool,
    line_discipline: Option<c_int>,
    is_exclusive: Option<c_int>,
    /// The flags of the file description, which the command shares.
    flags: Option<OFlags>,
}

impl SavedTerminal {
    /// `None` for a file that is no terminal.
    fn new(terminal: OwnedFd) -> Option<Self> {
        let settings = tcgetattr(&terminal).ok()?;
        let was_ours = is_ours(&terminal);
        let line_discipline = ask(&terminal, libc::TIOCGETD);
        let is_exclusive = ask(&terminal, libc::TIOCGEXCL);
        let flags = fcntl_getfl(&terminal).ok();
        Some(Self { terminal, settings, was_ours, line_discipline, is_exclusive, flags })
    }

    /// Restores the settings. Errors are ignored, because the terminal may be gone.
    fn restore(&self) {
        let Self { terminal, settings, was_ours, line_discipline, is_exclusive, flags } = self;
        if let Some(flags) = flags.filter(|known| fcntl_getfl(terminal) != Ok(*known)) {
            let _ = fcntl_setfl(terminal, flags);
        }
        if ask(terminal, libc::TIOCGEXCL) != *is_exclusive {
            let _ = if *is_exclusive == Some(0) { ioctl_tiocnxcl(terminal) } else { ioctl_tiocexcl(terminal) };
        }
        if let Some(discipline) = line_discipline.filter(|known| ask(terminal, libc::TIOCGETD) != Some(*known)) {
            set_line_discipline(terminal, discipline);
        }
        // In the background, the settings belong to the program in the foreground.
        if *was_ours && is_ours(terminal) {
            let _ = tcsetattr(terminal, OptionalActions::Now, settings);
        }
        // This undoes `tcflow(TCOOFF)`, but not Ctrl-S.
        let _ = tcflow(terminal, Action::OOn);
    }
}

/// Whether our process group may change the settings: it is in the foreground, or the terminal is
/// not our controlling one.
fn is_ours(terminal: &OwnedFd) -> bool {
    match tcgetpgrp(terminal) {
        Ok(group) => Some(group) == process_group(),
        Err(e) => e == Errno::NOTTY,
    }
}

/// Makes a request that the kernel answers with a number.
fn ask(terminal: &OwnedFd, request: libc::Ioctl) -> Option<c_int> {
    let mut answer = 0;
    // SAFETY: the kernel writes one number.
    #[allow(unsafe_code)]
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), request, &raw mut answer) };
    (done == 0).then_some(answer)
}

fn set_line_discipline(terminal: &OwnedFd, discipline: c_int) {
    // SAFETY: the kernel reads one number. If it refuses, the line discipline stays.
    #[allow(unsafe_code)]
    let _ = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSETD, &raw const discipline) };
}

/// The controlling terminal.
pub(crate) fn open() -> Option<OwnedFd> {
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn process_group() -> Option<Pid> {
    // SAFETY: only a number comes out.
    #[allow(unsafe_code)]
    Pid::from_raw(unsafe { libc::getpgrp() })
}

pub(crate) fn leads_session() -> bool {
    // SAFETY: only numbers go in and come out.
    #[allow(unsafe_code)]
    let session = unsafe { libc::getsid(0) };
    session == getpid().as_raw_nonzero().get()
}
