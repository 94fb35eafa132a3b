//! A run under way: the loop that waits for signals, the guard and the end, and what came of it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::diagnostic::{Code, Diagnostic};
use crate::guard::report::{self, Report, cannot_execute_inside};
use crate::host::Host;
use crate::launch::availability;
use crate::launch::streams::Streams;
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Point};
use crate::sys::process::Process;
use crate::sys::signals::{Received, Signals};
use crate::sys::terminal::{self, Foreground};

use super::sealing::Namespaces;
use super::start::{self, Bwrap, Started};
use super::watch::Watch;
use crate::launch::RunHooks;

use super::{Conclusion, Ending, cannot, channel};

/// A run under way, from the start of bwrap on.
pub(super) struct Run<'a> {
    pub(super) signals: &'a Signals,
    pub(super) bwrap: Bwrap,
    /// To the guard, until it has handed over to the command.
    pub(super) socket: Option<OwnedFd>,
    /// The process that gets signals: the command, or bwrap if there is no guard.
    pub(super) target: Option<Process>,
    /// The first process of the sandbox's process namespace, at whose end all others are gone.
    pub(super) init: Option<Process>,
    /// What the guard reported besides being ready.
    pub(super) failure: Option<Report>,
    pub(super) guarded: bool,
    /// The end of a terminal is told to the leader of its session alone.
    pub(super) leads_session: bool,
    /// Signals that came before there was a command.
    pub(super) kept: Vec<Signal>,
    /// The signal that ended it before it had begun.
    pub(super) abandoned_by: Option<Signal>,
    /// We were continued, and have not looked yet whether the command was, too.
    pub(super) continued: bool,
    /// We have just continued the command ourselves, which may have undone a stop.
    pub(super) continued_late: bool,
    pub(super) watch: Watch,
    pub(super) streams: Streams,
    pub(super) namespaces: Option<Namespaces>,
    /// The command itself, if not what it has started.
    pub(super) is_command_over: bool,
    /// No process lives inside any more, and `after_exit` was called.
    pub(super) is_at_rest: bool,
    /// Nothing of it lives any more.
    pub(super) ended: bool,
}

/// Waits for a bwrap that was started, and returns when no process inside lives any more.
pub(super) fn run(
    signals: &Signals,
    started: Started,
    host: &Host,
    program: &AbsPath,
    hooks: &mut RunHooks,
) -> Conclusion {
    let Started { bwrap, streams, socket } = started;
    let mut run = Run {
        signals,
        bwrap,
        guarded: socket.is_some(),
        leads_session: terminal::leads_session(),
        socket,
        target: None,
        init: None,
        failure: None,
        kept: Vec::new(),
        abandoned_by: None,
        continued: false,
        continued_late: false,
        watch: Watch::new(),
        streams,
        namespaces: None,
        is_command_over: false,
        is_at_rest: false,
        ended: false,
    };
    if run.guarded {
        hooks.while_mounting();
    }
    let foreground = Foreground::now();
    let ended = run.until_bwrap_ended(hooks);
    if ended.is_err() {
        run.bwrap.process.signal(Signal::KILL);
    }
    let status = run.bwrap.wait();
    let status = ended.and(status);
    run.end_all();
    // Before the hooks take away what they have put up.
    let outcome = match status {
        Ok(status) => run.outcome(status, host, program, hooks),
        Err(e) => Conclusion::Failed(cannot("wait for bwrap", &e)),
    };
    run.rest(hooks);
    run.streams.hand_back();
    foreground.iter().for_each(Foreground::take_back);
    outcome
}

impl Run<'_> {
    pub(super) fn until_bwrap_ended(&mut self, hooks: &mut RunHooks) -> io::Result<()> {
        loop {
            let Woken { bwrap_ended, command_ended, told, nothing } = self.wait()?;
            let received = self.received()?;
            if self.target().is_some() {
                received.into_iter().for_each(|received| self.deal_with(received));
            } else {
                self.kept.extend(received.iter().map(|received| received.signal));
            }
            if told || bwrap_ended {
                self.listen(bwrap_ended, hooks);
            }
            if command_ended {
                self.is_command_over = true;
                self.rest_if_alone(hooks);
            }
            if self.target().is_none() {
                self.judge_kept();
            }
            if bwrap_ended {
                return Ok(());
            }
            if nothing {
                self.keep_step();
            }
        }
    }

    fn wait(&self) -> io::Result<Woken> {
        let mut waiting = vec![
            PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.bwrap.process.descriptor(), PollFlags::IN),
        ];
        let socket = self.socket.as_ref();
        let command = self.target.as_ref().filter(|_| !self.is_command_over);
        waiting.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN)));
        waiting.extend(command.map(|command| PollFd::from_borrowed_fd(command.descriptor(), PollFlags::IN)));
        let timeout = self.target().and(self.watch.interval).and_then(|interval| Timespec::try_from(interval).ok());
        let count = match poll(&mut waiting, timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 1,
            Err(e) => return Err(e.into()),
        };
        let has = |at: usize| waiting.get(at).is_some_and(|waited| !waited.revents().is_empty());
        let mut next = 2;
        let mut has_next = |is_waited_for: bool| {
            next += usize::from(is_waited_for);
            is_waited_for && has(next - 1)
        };
        let told = has_next(socket.is_some());
        let command_ended = has_next(command.is_some());
        Ok(Woken { bwrap_ended: has(1), command_ended, told, nothing: count == 0 })
    }

    fn received(&self) -> io::Result<Vec<Received>> {
        let mut all = Vec::new();
        while let Some(received) = self.signals.next()? {
            all.push(received);
        }
        Ok(all)
    }

    pub(super) fn target(&self) -> Option<&Process> {
        if self.guarded { self.target.as_ref() } else { Some(&self.bwrap.process) }
    }

    /// Reads what the guard says: one message, or `all` when there will be no more.
    fn listen(&mut self, all: bool, hooks: &mut RunHooks) {
        while let Some(socket) = &self.socket {
            match channel::hear(socket) {
                Ok(Some((Report::Ready, sender))) => {
                    ablate::pause(Point::BeforeGo);
                    if self.target.is_none() {
                        self.take_hold(sender);
                    }
                    // A process that the supervisor cannot hold would get no signal, and end
                    // unseen.
                    let lost = || Report::Refused("the supervisor cannot hold the command".to_owned());
                    let held = self.target.as_ref().filter(|_| self.abandoned_by.is_none()).ok_or_else(lost);
                    match held.and_then(|_| hooks.before_exec()) {
                        Ok(answer) => {
                            if let Some(socket) = &self.socket {
                                let _ = answer.send(socket.as_fd());
                            }
                        }
                        // Without an answer the guard starts nothing.
                        Err(why) => {
                            self.failure = Some(why);
                            self.socket = None;
                        }
                    }
                }
                Ok(Some((report, _))) => self.failure = Some(report),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Ok(None) | Err(_) => self.socket = None,
            }
            if !all {
                return;
            }
        }
    }

    /// Takes hold of the command, which is the guard still, and of the sandbox's first process.
    fn take_hold(&mut self, guard: Option<Pid>) {
        self.target = guard.and_then(|pid| Process::open(pid).ok());
        self.init = self.target.as_ref().and_then(Process::parent);
        self.namespaces = self.target.as_ref().and_then(|command| Namespaces::of(command.pid()).ok());
        for signal in std::mem::take(&mut self.kept) {
            self.pass_on(signal);
        }
    }

    /// The command usually ends last. Then `after_exit` need not wait until bwrap has removed the
    /// namespaces.
    fn rest_if_alone(&mut self, hooks: &mut RunHooks) {
        if self.init.as_ref().is_some_and(Process::is_childless) {
            self.rest(hooks);
        }
    }

    pub(super) fn rest(&mut self, hooks: &mut RunHooks) {
        if !std::mem::replace(&mut self.is_at_rest, true) {
            let namespaces = self.namespaces.take();
            hooks.after_exit(&|| match &namespaces {
                Some(namespaces) => namespaces.close(),
                // Nobody has run, or without a guard, which alone locks mounts.
                None if self.target.is_none() || !self.guarded => Ok(()),
                None => Err(io::ErrorKind::Unsupported.into()),
            });
        }
    }

    /// With bwrap all others end, too (`--die-with-parent`); this is when they have.
    pub(super) fn end_all(&mut self) {
        match self.init.take() {
            Some(init) => start::end(init),
            None => self.bwrap.end_orphans(),
        }
        self.ended = true;
    }

    pub(super) fn outcome(
        &mut self,
        bwrap: ExitStatus,
        host: &Host,
        program: &AbsPath,
        hooks: &mut RunHooks,
    ) -> Conclusion {
        // Nothing has run, and what the guard said of its own end does not count.
        if let Some(signal) = self.abandoned_by {
            return Conclusion::Ended(Ending::Killed(signal.as_raw()));
        }
        match self.failure.take() {
            Some(Report::Unavailable(why)) => return Conclusion::Unavailable(why),
            Some(Report::Changed(why)) => return Conclusion::Changed(report::refusal(&why)),
            Some(Report::Refused(why)) => return Conclusion::Failed(report::refusal(&why)),
            Some(Report::CannotExecute { errno, message }) => {
                return Conclusion::Failed(cannot_execute_inside(errno, message));
            }
            Some(Report::Ready) | None => {}
        }
        let how = Ending::of(bwrap);
        match self.target.take() {
            Some(command) => match (how, command.exit_status()) {
                (Ending::Killed(signal), _) => Conclusion::Failed(lost(signal)),
                (Ending::Exited(_), Some(status)) => Conclusion::Ended(Ending::of(status)),
                (Ending::Exited(code), None) => Conclusion::Ended(Ending::guessed(code)),
            },
            None if self.guarded => match hooks.difference() {
                Some(difference) => Conclusion::Changed(report::refusal(&difference)),
                None => Conclusion::Failed(why_not_started(host, program, how)),
            },
            None => Conclusion::Ended(match how {
                Ending::Exited(code) => Ending::guessed(code),
                killed => killed,
            }),
        }
    }
}

impl Drop for Run<'_> {
    /// Nothing outlives it.
    fn drop(&mut self) {
        if !self.ended {
            self.bwrap.process.signal(Signal::KILL);
            let _ = self.bwrap.wait();
            self.end_all();
        }
    }
}

/// What ended the wait.
struct Woken {
    bwrap_ended: bool,
    command_ended: bool,
    told: bool,
    nothing: bool,
}

fn why_not_started(host: &Host, bwrap: &AbsPath, how: Ending) -> Diagnostic {
    match availability::trial(host, bwrap) {
        Err(diagnostic) => diagnostic,
        Ok(()) => Diagnostic::new(Code::StartFailed, format!("bwrap {how} before the command started"))
            .help("its own message says why; if a file or folder came or went meanwhile, try again"),
    }
}

fn lost(signal: i32) -> Diagnostic {
    Diagnostic::new(Code::SandboxLost, format!("bwrap {}, and the command ended with it", Ending::Killed(signal)))
        .help("send signals to agent-sandbox or to the command, never to bwrap")
}
