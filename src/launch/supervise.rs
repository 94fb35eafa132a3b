//! The supervised run: we stay, because there may be something to remove and to report afterwards, and to the shell
//! everything looks as without us.
//!
//! - Supervisor, bwrap and command share the caller's process group, so what the terminal sends reaches the command directly. What
//!   a process sends to us is passed on to the command, which the guard has named to us, and never to bwrap.
//! - When the command stops, so do we; when we are continued, so is the command.
//! - When the command dies by a signal, so do we.
//!
//! One loop waits for all of it: no thread, no handler.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType, recvmsg,
    send, socketpair,
};
use rustix::process::{DumpableBehavior, Pid, Signal, getpid, set_child_subreaper, set_dumpable_behavior};

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::lower::Argv;
use crate::path::AbsPath;
use crate::report::{self, Report, cannot_execute_inside};

use super::process::{self, Process};
use super::signals::{self, Received, Shield, Signals};
use super::streams::Streams;
use super::terminal::{self, Foreground};
use super::{availability, cannot_execute, shielded};

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

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(u8),
    /// By the signal of this number.
    Killed(i32),
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
        // What bwrap leaves behind at its end would become a zombie where the first process of a container collects none.
        let _ = set_child_subreaper(Some(getpid()));
        Ok(Self { signals })
    }

    /// Runs the command and returns when nothing inside lives any more. See [`super::ready_to_supervise`] for what comes first.
    pub fn run(&self, host: &Host, argv: &Argv) -> Outcome {
        self.run_with(host, argv, GivenStreams::default(), &|| Ok(()))
    }

    /// The same with other streams than the caller's, none of which may be one that somebody has to read while the command runs. `confirm`
    /// is asked when all mounts are made and the command is next: if it says why not, nothing runs. Without a guard nobody tells when that
    /// is, and it is not asked.
    pub fn run_with(
        &self,
        host: &Host,
        argv: &Argv,
        given: GivenStreams,
        confirm: &dyn Fn() -> Result<(), String>,
    ) -> Outcome {
        match self.start(argv, given, confirm) {
            Err(diagnostic) => Outcome::Failed(diagnostic),
            Ok(mut run) => {
                let foreground = Foreground::now();
                let ended = run.until_bwrap_ended();
                if ended.is_err() {
                    run.bwrap_process.signal(Signal::KILL);
                }
                let status = run.bwrap.wait();
                let status = ended.and(status);
                run.end_all();
                run.streams.hand_back();
                foreground.iter().for_each(Foreground::take_back);
                match status {
                    Ok(status) => run.outcome(status, host, &argv.program),
                    Err(e) => Outcome::Failed(cannot("wait for bwrap", &e)),
                }
            }
        }
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

    fn start<'a>(&'a self, argv: &Argv, given: GivenStreams, confirm: Confirm<'a>) -> Result<Run<'a>, Diagnostic> {
        // Without a guard, bwrap starts the command, and passes no signal on: Ctrl-C, and what is sent to us, ends it and thereby
        // the command.
        let before = self.signals.before();
        let streams = Streams::new()?;
        let (mut bwrap, socket) = match &argv.guard {
            None => (shielded(argv, None, &streams, Shield::No(before)), None),
            Some(guard) => {
                let (ours, theirs) = channel().map_err(|e| cannot("make a socket", &e))?;
                let number = guard.descriptor + 1;
                let argv = argv.told(Some(number), before);
                (shielded(&argv, Some((theirs, number)), &streams, Shield::Supervised), Some(ours))
            }
        };
        let bwrap = bwrap.as_mut().map_err(|e| super::cannot_prepare(e))?;
        let children_before = if socket.is_none() { process::children() } else { Vec::new() };
        if let Some(stdin) = given.stdin {
            bwrap.stdin(stdin);
        }
        if let Some(stdout) = given.stdout {
            bwrap.stdout(stdout);
        }
        if let Some(stderr) = given.stderr {
            bwrap.stderr(stderr);
        }
        let mut child = bwrap.spawn().map_err(|e| cannot_execute(&argv.program, &e))?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH.into());
        match process.and_then(Process::open) {
            Ok(process) => {
                let run = Run::new(&self.signals, child, process, socket, streams, confirm);
                Ok(Run { children_before, ..run })
            }
            Err(e) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(cannot("hold a process by a descriptor (Linux 5.3)", &e))
            }
        }
    }
}

fn cannot(what: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot {what}: {}", reason(error)))
        .help("`--exec` starts the command without supervision")
}

/// The supervisor's end and the guard's. The kernel adds to each message who sent it, by the number that the process has
/// for us.
fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

struct Run<'a> {
    signals: &'a Signals,
    bwrap: Child,
    bwrap_process: Process,
    /// To the guard, until it has handed over to the command.
    socket: Option<OwnedFd>,
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
    confirm: Confirm<'a>,
    /// Processes that have nothing to do with this run, if there is no guard.
    children_before: Vec<Pid>,
}

/// Whether the command may start, once the sandbox stands; otherwise why not.
type Confirm<'a> = &'a dyn Fn() -> Result<(), String>;

impl<'a> Run<'a> {
    fn new(
        signals: &'a Signals,
        bwrap: Child,
        bwrap_process: Process,
        socket: Option<OwnedFd>,
        streams: Streams,
        confirm: Confirm<'a>,
    ) -> Self {
        Self {
            signals,
            bwrap,
            bwrap_process,
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
            confirm,
            children_before: Vec::new(),
        }
    }

    fn until_bwrap_ended(&mut self) -> io::Result<()> {
        loop {
            let Woken { bwrap_ended, told, nothing } = self.wait()?;
            let received = self.received()?;
            if self.target().is_some() {
                received.into_iter().for_each(|received| self.deal_with(received));
            } else {
                self.kept.extend(received.iter().map(|received| received.signal));
            }
            if told || bwrap_ended {
                self.listen(bwrap_ended);
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
            PollFd::from_borrowed_fd(self.bwrap_process.descriptor(), PollFlags::IN),
        ];
        waiting.extend(self.socket.as_ref().map(|socket| PollFd::new(socket, PollFlags::IN)));
        let timeout = self.target().and(self.watch.interval).and_then(|interval| Timespec::try_from(interval).ok());
        let count = match poll(&mut waiting, timeout.as_ref()) {
            Ok(count) => count,
            Err(Errno::INTR) => 1,
            Err(e) => return Err(e.into()),
        };
        let has = |at: usize| waiting.get(at).is_some_and(|waited| !waited.revents().is_empty());
        Ok(Woken { bwrap_ended: has(1), told: has(2), nothing: count == 0 })
    }

    fn received(&self) -> io::Result<Vec<Received>> {
        let mut all = Vec::new();
        while let Some(received) = self.signals.next()? {
            all.push(received);
        }
        Ok(all)
    }

    fn target(&self) -> Option<&Process> {
        if self.guarded { self.target.as_ref() } else { Some(&self.bwrap_process) }
    }

    /// Reads what the guard says: one message, or `all` when there will be no more.
    fn listen(&mut self, all: bool) {
        while let Some(socket) = &self.socket {
            match hear(socket) {
                Ok(Some((Report::Ready, sender))) => {
                    self.target = sender.and_then(|pid| Process::open(pid).ok());
                    self.init = self.target.as_ref().and_then(Process::parent);
                    for signal in std::mem::take(&mut self.kept) {
                        self.pass_on(signal);
                    }
                    // Whom we cannot hold would get no signal, and end unseen. Without the word the guard starts nothing.
                    let lost = || Report::Refused("the supervisor cannot hold the command".to_owned());
                    let held = self.target.as_ref().ok_or_else(lost);
                    match held.and_then(|_| (self.confirm)().map_err(Report::Changed)) {
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
        let signals = self.signals;
        let ends = |signal: &mut Signal| signals::ends_by_default(*signal) && !signals.was_ignored(*signal);
        if let Some(signal) = self.kept.extract_if(.., ends).next() {
            self.abandoned_by.get_or_insert(signal);
            self.bwrap_process.signal(Signal::KILL);
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
        let all = [Some(&self.bwrap_process), self.init.as_ref(), self.target()];
        let stopped: Vec<_> = all.into_iter().flatten().filter(|process| process.stopped_by().is_some()).collect();
        if !stopped.is_empty() && signals::pending(&TERMINAL_STOPS).is_none() {
            stopped.iter().for_each(|process| process.signal(Signal::CONT));
            // The stop may have come in between, and we have not read it yet.
            self.continued_late = true;
            self.watch.closely();
        }
    }

    /// With bwrap all others end, too (`--die-with-parent`); this is when they have.
    fn end_all(&mut self) {
        // Without a guard nobody named the first process, but it is ours by now: bwrap has ended, and we collect what it leaves.
        let adopted = |pid: &Pid| !self.children_before.contains(pid) && process::numbers_anew(*pid);
        let orphans = process::children().into_iter().filter(|_| !self.guarded).filter(adopted);
        for init in orphans.filter_map(|pid| Process::open(pid).ok()).chain(self.init.take()) {
            init.signal(Signal::KILL);
            init.wait_until_ended();
        }
    }

    fn outcome(self, bwrap: ExitStatus, host: &Host, program: &AbsPath) -> Outcome {
        match self.failure {
            Some(Report::Unavailable(why)) => return Outcome::Unavailable(why),
            Some(Report::Changed(why)) => return Outcome::Changed(report::refusal(&why)),
            Some(Report::Refused(why)) => return Outcome::Failed(report::refusal(&why)),
            Some(Report::CannotExecute { errno, message }) => {
                return Outcome::Failed(cannot_execute_inside(errno, message));
            }
            Some(Report::Ready) | None => {}
        }
        let how = Ending::of(bwrap);
        match (self.target, self.abandoned_by) {
            (Some(command), _) => match (how, command.exit_status()) {
                (Ending::Killed(signal), _) => Outcome::Failed(lost(signal)),
                (Ending::Exited(_), Some(status)) => Outcome::Ended(Ending::of(status)),
                (Ending::Exited(code), None) => Outcome::Ended(Ending::guessed(code)),
            },
            (None, Some(signal)) => Outcome::Ended(Ending::Killed(signal.as_raw())),
            (None, None) if self.guarded => Outcome::Failed(why_not_started(host, program, how)),
            (None, None) => Outcome::Ended(match how {
                Ending::Exited(code) => Ending::guessed(code),
                killed => killed,
            }),
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
    told: bool,
    nothing: bool,
}

/// One message and its sender, or `None` at the end of the stream. What is no report counts as the end.
fn hear(socket: &OwnedFd) -> Result<Option<(Report, Option<Pid>)>, Errno> {
    let mut bytes = [0; report::MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::DONTWAIT)?;
    let sender = ancillary.drain().find_map(|item| match item {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
        _ => None,
    });
    Ok(Report::decode(&bytes[..message.bytes]).map(|report| (report, sender)))
}

/// When to look whether the command is stopped: nobody tells but its parent, and that is bwrap, which does not care.
struct Watch {
    interval: Option<Duration>,
    /// Where a terminal is there, somebody waits for the prompt of a shell.
    at_rest: Option<Duration>,
}

impl Watch {
    const AT_REST: Duration = Duration::from_millis(250);
    const CLOSELY: Duration = Duration::from_millis(1);

    fn new() -> Self {
        let at_rest = terminal::open().map(|_| Self::AT_REST);
        Self { interval: at_rest, at_rest }
    }

    /// After a signal that may well stop it.
    fn closely(&mut self) {
        self.interval = Some(Self::CLOSELY);
    }

    fn less_closely(&mut self) {
        self.interval = self.interval.map(|interval| interval * 2).filter(|interval| *interval < Self::AT_REST);
        self.interval = self.interval.or(self.at_rest);
    }
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

impl Ending {
    fn of(status: ExitStatus) -> Self {
        // There is no third way to have ended; an exit code has eight bits.
        match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => Ending::Killed(signal.unwrap_or_default()),
        }
    }

    /// From bwrap's exit code alone: it says 128 and the number for a command that was killed, which a command can also say
    /// of its own accord.
    fn guessed(code: u8) -> Self {
        let signal = code.checked_sub(128).and_then(|number| signals::named(number.into()));
        match signal.filter(|signal| signals::ends_by_default(*signal)) {
            Some(signal) => Ending::Killed(signal.as_raw()),
            None => Ending::Exited(code),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Ending::Exited(code) => write!(f, "ended with the exit code {code}"),
            Ending::Killed(signal) => write!(f, "was killed by the signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What there is to go by where the kernel does not tell how a command ended.
    #[test]
    fn an_exit_code_that_stands_for_a_deadly_signal_is_taken_for_it() {
        for (code, ending) in [
            (0, Ending::Exited(0)),
            (3, Ending::Exited(3)),
            (128, Ending::Exited(128)),
            (130, Ending::Killed(2)),
            (137, Ending::Killed(9)),
            (139, Ending::Killed(11)),
            (143, Ending::Killed(15)),
            (128 + 18, Ending::Exited(146)),
            (128 + 20, Ending::Exited(148)),
            (128 + 28, Ending::Exited(156)),
            (128 + 32, Ending::Exited(160)),
            (128 + 64, Ending::Killed(64)),
            (128 + 65, Ending::Exited(193)),
            (255, Ending::Exited(255)),
        ] {
            assert_eq!(Ending::guessed(code), ending, "{code}");
        }
    }

    #[test]
    fn the_watch_is_close_after_a_signal_and_then_rests() {
        for at_rest in [None, Some(Watch::AT_REST)] {
            let mut watch = Watch { interval: at_rest, at_rest };
            watch.closely();
            assert_eq!(watch.interval, Some(Watch::CLOSELY));
            for _ in 0..10 {
                watch.less_closely();
            }
            assert_eq!(watch.interval, at_rest);
        }
    }
}
