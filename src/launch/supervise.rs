//! The supervised run: we stay, because there may be something to remove and to report afterwards, and to the shell
//! everything looks as without us.
//!
//! - Supervisor, bwrap and command share the caller's process group, so what the terminal sends reaches the command directly. What
//!   a process sends to us is passed on to the command, which the guard has named to us, and never to bwrap.
//! - When the command stops, so do we; when we are continued, so is the command.
//! - When the command dies by a signal, so do we.
//!
//! One loop waits for all of it: no thread, no handler.

mod ahead;
mod attendant;
mod begun;
mod channel;
mod ending;
mod plan;
mod processors;
mod sealing;
mod started;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitCode, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::lower::Argv;
use crate::path::AbsPath;
use crate::report::{self, Report, cannot_execute_inside};

use super::availability;
use super::process::Process;
use super::signals::{self, Received, Signals};
use super::streams::Streams;

pub use ahead::{Ahead, Loading};
pub use attendant::Attendant;
pub use begun::Begun;
pub use ending::Ending;
use plan::Outgoing;
use processors::Processors;
use sealing::Namespaces;
use started::Bwrap;
use watch::Watch;

/// What came of a run.
#[derive(Debug)]
pub enum Outcome {
    /// The command ran.
    Ended(Ending),
    /// It did not, or bwrap was lost under it.
    Failed(Diagnostic),
    /// What the rules name has changed since it was looked at. Nothing ran, and a plan that is made anew may do.
    Changed(Diagnostic),
    /// The guard cannot do its work on this machine, for this reason. Nothing ran.
    Unavailable(String),
}

/// What the command gets instead of the caller's standard streams.
#[derive(Debug, Default)]
pub struct GivenStreams {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
}

/// From its making on, signals wait until the run, or its drop, deals with them: what is prepared before a run and
/// cleaned up after it is not interrupted. To be made and used by the main thread, with no other running.
pub struct Supervisor {
    signals: Signals,
}

impl Supervisor {
    pub fn new() -> Result<Self, Diagnostic> {
        let signals = Signals::block().map_err(|e| cannot("wait for signals", &e))?;
        Ok(Self { signals })
    }

    /// Runs the command and returns when nothing inside lives any more. See [`super::ready_to_supervise`] for what comes first.
    pub fn run(&self, host: &Host, argv: &Argv) -> Outcome {
        self.run_with(host, argv, GivenStreams::default(), &mut ())
    }

    /// The same with other streams than the caller's, none of which may be one that somebody has to read while the command runs.
    pub fn run_with(&self, host: &Host, argv: &Argv, given: GivenStreams, attendant: &mut dyn Attendant) -> Outcome {
        match self.begin(None, argv, given) {
            Err(diagnostic) => Outcome::Failed(diagnostic),
            Ok(begun) => begun.run(host, argv, attendant),
        }
    }

    /// Starts bwrap, or takes up one that has the words of `argv` already; its second stage waits until [`Begun::run`] tells it the plan: what the plan of `argv` lacks
    /// can be found out meanwhile, and what the second stage mounts can be put up. The words must be those of the run. Without a second
    /// stage nobody waits. A bwrap that was started ahead has the caller's streams.
    pub fn begin(&self, ahead: Option<Ahead>, argv: &Argv, given: GivenStreams) -> Result<Begun<'_>, Diagnostic> {
        Begun::new(&self.signals, ahead, argv, given)
    }

    /// To be the last of this process: the exit code, or, if the command was killed, the same death, and then this does not
    /// return. There is no core dump of us.
    pub fn conclude(self, ending: Ending) -> ExitCode {
        // What still waits was for the command, and must not end us otherwise than it ended.
        std::mem::forget(self);
        match ending {
            Ending::Exited(code) => ExitCode::from(code),
            Ending::Killed(number) => {
                let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
                if let Some(signal) = signals::named(number) {
                    signals::act_by_default(signal);
                }
                ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))
            }
        }
    }
}

fn cannot(what: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot {what}: {}", reason(error)))
        .help("`--exec` starts the command without supervision")
}

struct Run<'a> {
    signals: &'a Signals,
    bwrap: Bwrap,
    /// To the guard, until it has handed over to the command.
    socket: Option<OwnedFd>,
    /// The plan that the guard waits for, until it is written.
    plan: Option<Outgoing>,
    /// Whom signals are for: the command, or bwrap where there is no guard to say which process that is.
    target: Option<Process>,
    /// The first process of the sandbox's process namespace, at whose end all others are gone.
    init: Option<Process>,
    /// What the guard reported besides being ready.
    failure: Option<Report>,
    guarded: bool,
    /// The end of a terminal is told to the leader of its session alone.
    leads_session: bool,
    /// Signals that came before there was a command.
    kept: Vec<Signal>,
    /// The signal that ended it before it had begun.
    abandoned_by: Option<Signal>,
    /// We were continued, and have not looked yet whether the command was, too.
    continued: bool,
    /// We have just continued the command ourselves, which may have undone a stop.
    continued_late: bool,
    watch: Watch,
    streams: Streams,
    /// What the command gets back before it starts.
    processors: Option<Processors>,
    namespaces: Option<Namespaces>,
    /// The command itself, if not what it has started.
    is_command_over: bool,
    /// Nothing inside lives any more, and the attendant knows.
    is_at_rest: bool,
    /// Nothing of it lives any more.
    ended: bool,
}

impl Run<'_> {
    fn until_bwrap_ended(&mut self, attendant: &mut dyn Attendant) -> io::Result<()> {
        loop {
            let Woken { bwrap_ended, command_ended, told, taken, nothing } = self.wait()?;
            if taken {
                self.plan = self.plan.take().and_then(Outgoing::go_on);
            }
            let received = self.received()?;
            if self.target().is_some() {
                received.into_iter().for_each(|received| self.deal_with(received));
            } else {
                self.kept.extend(received.iter().map(|received| received.signal));
            }
            if told || bwrap_ended {
                self.listen(bwrap_ended, attendant);
            }
            if command_ended {
                self.is_command_over = true;
                self.rest_if_alone(attendant);
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
        let (socket, plan) = (self.socket.as_ref(), self.plan.as_ref().map(Outgoing::socket));
        let command = self.target.as_ref().filter(|_| !self.is_command_over);
        waiting.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN)));
        waiting.extend(plan.map(|plan| PollFd::new(plan, PollFlags::OUT)));
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
        let (told, taken) = (has_next(socket.is_some()), has_next(plan.is_some()));
        let command_ended = has_next(command.is_some());
        Ok(Woken { bwrap_ended: has(1), command_ended, told, taken, nothing: count == 0 })
    }

    fn received(&self) -> io::Result<Vec<Received>> {
        let mut all = Vec::new();
        while let Some(received) = self.signals.next()? {
            all.push(received);
        }
        Ok(all)
    }

    fn target(&self) -> Option<&Process> {
        if self.guarded { self.target.as_ref() } else { Some(&self.bwrap.process) }
    }

    /// Reads what the guard says: one message, or `all` when there will be no more.
    fn listen(&mut self, all: bool, attendant: &mut dyn Attendant) {
        while let Some(socket) = &self.socket {
            match channel::hear(socket) {
                Ok(Some((Report::Ready, sender))) => {
                    self.target = sender.and_then(|pid| Process::open(pid).ok());
                    self.init = self.target.as_ref().and_then(Process::parent);
                    self.namespaces = self.target.as_ref().and_then(|command| Namespaces::of(command.pid()).ok());
                    for signal in std::mem::take(&mut self.kept) {
                        self.pass_on(signal);
                    }
                    // Whom we cannot hold would get no signal, and end unseen. Without the word the guard starts nothing.
                    let lost = || Report::Refused("the supervisor cannot hold the command".to_owned());
                    let held = self.target.as_ref().filter(|_| self.abandoned_by.is_none()).ok_or_else(lost);
                    let free = held.and_then(|command| self.give_processors_back(command));
                    match free.and_then(|()| attendant.confirm().map_err(Report::Changed)) {
                        Ok(()) => {
                            let _ = send(socket, report::GO, SendFlags::NOSIGNAL);
                        }
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

    fn give_processors_back(&self, command: &Process) -> Result<(), Report> {
        let given = self.processors.as_ref().map_or(Ok(()), |all| all.give_back(command.pid()));
        given.map_err(|e| Report::Refused(format!("the processors of the command: {}", reason(&e.into()))))
    }

    /// The command has what a terminal sends, and lacks what somebody sent to us. Whether that somebody meant the whole
    /// process group cannot be seen (`timeout` signals both): then the command gets it twice, which is better than never.
    fn deal_with(&mut self, Received { signal, by_kernel }: Received) {
        if signal == Signal::CONT {
            self.continued = true;
            self.watch.closely();
        } else if !(by_kernel && self.command_has(signal)) {
            self.pass_on(signal);
        }
        if signals::stops_by_default(signal) {
            self.continued = false;
            self.watch.closely();
        }
    }

    /// Whether the command has what the kernel sent to us.
    fn command_has(&self, signal: Signal) -> bool {
        let only_us = signal == Signal::HUP && self.leads_session;
        let undone = self.continued_late && signals::stops_by_default(signal);
        signals::meets_the_group(signal) && !only_us && !undone
    }

    /// Without a command there is no handler, so the default action is the right one: most signals end the start.
    fn judge_kept(&mut self) {
        let ends = |signal: &mut Signal| signals::ends_by_default(*signal) && !signals::is_ignored(*signal);
        if let Some(signal) = self.kept.extract_if(.., ends).next() {
            self.abandoned_by.get_or_insert(signal);
            self.bwrap.process.signal(Signal::KILL);
        }
    }

    fn pass_on(&self, signal: Signal) {
        if let Some(target) = self.target() {
            target.signal(signal);
        }
    }

    /// In a quiet moment: the command and we shall both run, or both be stopped, as whichever of us was told last.
    fn keep_step(&mut self) {
        self.watch.less_closely();
        self.continued_late = false;
        if std::mem::take(&mut self.continued) {
            self.continue_the_stopped();
        } else if let Some(signal) = self.target().and_then(Process::stopped_by) {
            stop_by(signal);
        }
    }

    /// Whom the signal that continued us did not meet. A shell signals the whole group: then nobody is left, and a second SIGCONT
    /// could undo a stop that came after the first. This is why it is not passed on at once.
    fn continue_the_stopped(&mut self) {
        let all = [Some(&self.bwrap.process), self.init.as_ref(), self.target()];
        let stopped: Vec<_> = all.into_iter().flatten().filter(|process| process.stopped_by().is_some()).collect();
        if !stopped.is_empty() && signals::pending(&TERMINAL_STOPS).is_none() {
            stopped.iter().for_each(|process| process.signal(Signal::CONT));
            // The stop may have come in between, and we have not read it yet.
            self.continued_late = true;
            self.watch.closely();
        }
    }

    /// The command is seldom the last to end by much: what is to be done when nobody lives any more need not wait until bwrap has taken all down.
    fn rest_if_alone(&mut self, attendant: &mut dyn Attendant) {
        if self.init.as_ref().is_some_and(Process::is_childless) {
            self.rest(attendant);
        }
    }

    fn rest(&mut self, attendant: &mut dyn Attendant) {
        if !std::mem::replace(&mut self.is_at_rest, true) {
            let namespaces = self.namespaces.take();
            attendant.afterwards(&|| match &namespaces {
                Some(namespaces) => namespaces.close(),
                // Nobody has run, or without a second stage, which alone locks mounts.
                None if self.target.is_none() || !self.guarded => Ok(()),
                None => Err(io::ErrorKind::Unsupported.into()),
            });
        }
    }

    /// With bwrap all others end, too (`--die-with-parent`); this is when they have.
    fn end_all(&mut self) {
        match self.init.take() {
            Some(init) => started::end(init),
            None => self.bwrap.end_orphans(),
        }
        self.ended = true;
    }

    fn outcome(&mut self, bwrap: ExitStatus, host: &Host, program: &AbsPath) -> Outcome {
        // Nothing has run, and what the guard said of its own end does not count.
        if let Some(signal) = self.abandoned_by {
            return Outcome::Ended(Ending::Killed(signal.as_raw()));
        }
        match self.failure.take() {
            Some(Report::Unavailable(why)) => return Outcome::Unavailable(why),
            Some(Report::Changed(why)) => return Outcome::Changed(report::refusal(&why)),
            Some(Report::Refused(why)) => return Outcome::Failed(report::refusal(&why)),
            Some(Report::CannotExecute { errno, message }) => {
                return Outcome::Failed(cannot_execute_inside(errno, message));
            }
            Some(Report::Ready) | None => {}
        }
        let how = Ending::of(bwrap);
        match self.target.take() {
            Some(command) => match (how, command.exit_status()) {
                (Ending::Killed(signal), _) => Outcome::Failed(lost(signal)),
                (Ending::Exited(_), Some(status)) => Outcome::Ended(Ending::of(status)),
                (Ending::Exited(code), None) => Outcome::Ended(Ending::guessed(code)),
            },
            None if self.guarded => Outcome::Failed(why_not_started(host, program, how)),
            None => Outcome::Ended(match how {
                Ending::Exited(code) => Ending::guessed(code),
                killed => killed,
            }),
        }
    }
}

impl Drop for Run<'_> {
    /// Nothing outlives it. The plan is the last to go: a guard that still waited would see a plan cut short, and say so.
    fn drop(&mut self) {
        if !self.ended {
            self.bwrap.process.signal(Signal::KILL);
            let _ = self.bwrap.wait();
            self.end_all();
        }
    }
}

/// What a terminal stops a process group with.
const TERMINAL_STOPS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Stops this process by `signal`, so that the shell sees a stopped job; returns when it was continued.
fn stop_by(signal: Signal) {
    signals::act_by_default(signal);
    // In an orphaned process group only SIGSTOP stops. Nothing waits then; after a stop it is what continued us, or the next
    // stop.
    if signals::pending(&[&TERMINAL_STOPS[..], &[Signal::CONT]].concat()).is_none() {
        signals::act_by_default(Signal::STOP);
    }
}

/// What ended the wait.
struct Woken {
    bwrap_ended: bool,
    command_ended: bool,
    told: bool,
    /// The guard has made room for more of its plan, or will read none.
    taken: bool,
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
