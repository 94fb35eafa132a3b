//! Counts the bytes that the command writes. Its standard output and standard error are then pipes,
//! and a thread for each pipe copies the bytes to the streams of the caller.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{Errno, retry_on_intr};
use rustix::stdio::{stderr, stdout};
use rustix::termios::isatty;

use crate::compile::limits::unavailable;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::launch::GivenStreams;
use crate::policy::LimitKind;
use crate::sys::fd;

/// Copies the output of a command up to a limit.
pub(crate) struct Meter {
    limit: u64,
    counter: Arc<Counter>,
    /// Disconnected when all threads have ended.
    ended: Receiver<()>,
}

/// The part of a meter that its threads share.
struct Counter {
    /// The bytes that may still be written.
    left: AtomicU64,
    /// Readable when the command has written more than the limit.
    exceeded: OwnedFd,
    /// Readable when no process inside is alive any more.
    over: OwnedFd,
    /// The first error of a write to a stream of the caller.
    failure: Mutex<Option<io::Error>>,
}

impl Meter {
    /// Replaces the output streams of `given`, or those of the caller, by pipes.
    pub(crate) fn new(limit: u64, given: &mut GivenStreams) -> Result<Self, Diagnostic> {
        let is_terminal = |given: &Option<OwnedFd>, own: BorrowedFd| given.is_none() && isatty(own);
        let [_, out, err] = given;
        for (given, own, name) in [(&*out, stdout(), "standard output"), (&*err, stderr(), "standard error")] {
            if is_terminal(given, own) {
                let why = format!("{name} is a terminal, and output is counted on its way through a pipe");
                let help = "redirect both to a file or a pipe, or remove the limit";
                return Err(unavailable(LimitKind::Output, &why).help(help));
            }
        }
        Self::start(limit, out, err).map_err(|e| {
            Diagnostic::new(Code::StartFailed, format!("cannot count the output of the command: {}", reason(&e)))
                .help("free some file descriptors (`ulimit -n`) or processes (`ulimit -u`)")
        })
    }

    fn start(limit: u64, out: &mut Option<OwnedFd>, err: &mut Option<OwnedFd>) -> io::Result<Self> {
        let own = |given: &mut Option<OwnedFd>, own: BorrowedFd| match given.take() {
            Some(given) => Ok(Some(given)),
            None => match own.try_clone_to_owned() {
                // A closed stream stays closed.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::BADF) => Ok(None),
                own => own.map(Some),
            },
        };
        let (to_out, to_err) = (own(out, stdout())?, own(err, stderr())?);
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let (left, exceeded, over) = (AtomicU64::new(limit), event()?, event()?);
        let counter = Arc::new(Counter { left, exceeded, over, failure: Mutex::default() });
        let (send, ended) = mpsc::channel();
        // If both streams write to one file, one pipe keeps the order of their bytes.
        let is_one = to_out.as_ref().zip(to_err.as_ref()).is_some_and(|(out, err)| is_same(out, err));
        for (to, place) in [(to_out, &mut *out), (to_err.filter(|_| !is_one), &mut *err)] {
            let Some(to) = to else { continue };
            let (from, theirs) = io::pipe()?;
            *place = Some(theirs.into());
            let (counter, send) = (Arc::clone(&counter), send.clone());
            // Unlike `thread::spawn`, this returns an error if the user may have no more
            // processes.
            thread::Builder::new().spawn(move || {
                // An error ends the copying, and the next write of the command gives SIGPIPE.
                if let Err(e) = counter.copy(&from, &to) {
                    counter.note(e);
                }
                drop((from, to));
                drop(send);
            })?;
        }
        if is_one {
            *err = out.as_ref().map(OwnedFd::try_clone).transpose()?;
        }
        Ok(Self { limit, counter, ended })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn exceeded(&self) -> BorrowedFd<'_> {
        self.counter.exceeded.as_fd()
    }

    /// Called when the last process inside has ended. Waits until all output has been passed on,
    /// or until `give_up` returns true. Returns whether the command has written too much, and the
    /// error if a stream of the caller did not accept the output.
    pub(super) fn finish(self, give_up: impl Fn() -> bool) -> (bool, Option<io::Error>) {
        const LOOK: Duration = Duration::from_millis(100);
        let _ = rustix::io::write(&self.counter.over, &1_u64.to_ne_bytes());
        while self.ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) && !give_up() {}
        let failure = self.counter.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        (is_readable(&self.counter.exceeded), failure)
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    let identity = |stream: &OwnedFd| fstat(stream).ok().map(|found| (found.st_dev, found.st_ino));
    identity(one).is_some() && identity(one) == identity(other)
}

fn is_readable(descriptor: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

impl Counter {
    /// Records an error, except EPIPE: then the reader of the stream wants no more output.
    fn note(&self, error: io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn copy(&self, from: &PipeReader, to: &OwnedFd) -> io::Result<()> {
        let mut piece = vec![0; 1 << 16];
        loop {
            let mut waiting = [PollFd::new(from, PollFlags::IN), PollFd::new(&self.over, PollFlags::IN)];
            retry_on_intr(|| poll(&mut waiting, None::<&Timespec>))?;
            if waiting[0].revents().is_empty() {
                // Another sandbox may hold the pipe open, so this thread does not wait for its end.
                fcntl_setfl(from, fcntl_getfl(from)? | OFlags::NONBLOCK)?;
            }
            let length = match retry_on_intr(|| rustix::io::read(from, &mut piece)) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                read => read?,
            };
            let allowed = self.take(length);
            fd::write_all(to, &piece[..allowed])?;
            if allowed < length {
                rustix::io::write(&self.exceeded, &1_u64.to_ne_bytes())?;
                return Ok(());
            }
        }
    }

    /// Subtracts up to `length` bytes from those that may still be written. Returns their number.
    fn take(&self, length: usize) -> usize {
        let wanted = length as u64;
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left - left.min(wanted)));
        taken.map_or(0, |left| left.min(wanted) as usize)
    }
}
