//! The loop of a supervised run, which waits for signals, the guard and the end of bwrap.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};
use rustix::process::{Pid, Signal};

use crate::compile::guard_plan::{REPORT, RUN_SHEET, RunSheet};
use crate::compile::lower::Argv;
use crate::diagnostic::{Code, Diagnostic};
use crate::guard::report::{self, Answer, Report};
use crate::host::Host;
use crate::launch::exec::{bwrap_command, cannot_prepare, sheet_descriptor};
use crate::launch::limits::{LIMIT_REACHED, LimitAction, LimitWatch, Meter};
use crate::launch::streams::Streams;
use crate::launch::{RunHooks, availability, bwrap};
use crate::policy::Limit;
use crate::sys::ablate;
use crate::sys::fd;
use crate::sys::namespaces::Namespaces;
use crate::sys::process::Process;
use crate::sys::signals::{self, Shield, Signals};
use crate::sys::terminal::{self, Terminals};

use super::bwrap::Bwrap;
use super::watch::Watch;
use super::{Conclusion, Ending, GivenStreams, asked_to_end, cannot};

/// A run, from the start of bwrap on.
pub(super) struct Run<'a> {
    signals: &'a Signals,
    pub(super) bwrap: Bwrap,
    /// The socket to the guard, until the guard becomes the command.
    socket: Option<OwnedFd>,
    /// The command; `None` until the guard has reported.
    command: Option<Process>,
    /// The first process of the sandbox's process namespace, with which all others end.
    pub(super) init: Option<Process>,
    /// The command's namespaces; `None` until the guard has reported.
    namespaces: Option<Namespaces>,
    /// Whether the supervisor has answered the guard, which may then have started the command.
    is_told: bool,
    failure: Option<Report>,
    guarded: bool,
    /// The kernel tells only the leader of a session that its terminal is gone.
    pub(super) leads_session: bool,
    /// Signals that came before the command started.
    pub(super) early: Vec<Signal>,
    pub(super) abandoned_by: Option<Signal>,
    /// Whether this process was continued, and has not yet checked whether the command was.
    pub(super) continued: bool,
    /// Whether this process has just continued the command, which may have undone a stop.
    pub(super) continued_late: bool,
    pub(super) watch: Watch,
    pub(super) limits: LimitWatch,
    streams: Streams,
    /// The settings of the terminals as the caller left them.
    terminals: Terminals,
}

/// The time after which the supervisor tries again to cover a file.
const RETRY: Duration = Duration::from_secs(1);

/// The events that ended a wait.
struct Events {
    bwrap_ended: bool,
    /// The guard has sent a message.
    told: bool,
    /// An entry appeared in a directory with protected files, or one of them is not covered yet.
    replaced: bool,
    /// The command has written more than it may.
    exceeded: bool,
    /// No event came before the wait timed out.
    nothing: bool,
}

impl<'a> Run<'a> {
    pub(super) fn start(
        signals: &'a Signals,
        argv: &Argv,
        sheet: RunSheet,
        given: GivenStreams,
        meter: Option<Meter>,
    ) -> Result<Self, Diagnostic> {
        let (streams, terminals) = (Streams::new()?, Terminals::now());
        let (socket, passed, shield) = if argv.guard.is_some() {
            let (ours, theirs) = socket_pair().map_err(|e| cannot("make a socket", &e))?;
            let sheet = RunSheet { signal_mask: Some(signals.before().0), report: Some(REPORT), ..sheet };
            let sheet = sheet_descriptor(&sheet).map_err(|e| cannot_prepare(&e))?;
            (Some(ours), vec![(sheet, RUN_SHEET), (theirs, REPORT)], Shield::Supervised)
        } else {
            // bwrap starts the command itself and passes no signal on. Ctrl-C, or a signal to the
            // supervisor, ends bwrap and with it the command.
            (None, Vec::new(), Shield::No(signals.before()))
        };
        let mut command = bwrap_command(argv, passed, &streams).map_err(|e| cannot_prepare(&e))?;
        signals::shield(&mut command, shield);
        fd::keep_file_limit(&mut command);
        let [stdin, stdout, stderr] = given;
        stdin.map(|stream| command.stdin(stream));
        stdout.map(|stream| command.stdout(stream));
        stderr.map(|stream| command.stderr(stream));
        Ok(Self {
            signals,
            bwrap: Bwrap::spawn(&mut command, &argv.program)?,
            guarded: socket.is_some(),
            leads_session: terminal::leads_session(),
            socket,
            command: None,
            init: None,
            namespaces: None,
            is_told: false,
            failure: None,
            early: Vec::new(),
            abandoned_by: None,
            continued: false,
            continued_late: false,
            watch: Watch::new(),
            limits: LimitWatch::new(argv, meter),
            streams,
            terminals,
        })
    }

    /// Waits for the run, and returns when no process inside is alive any more.
    pub(super) fn supervise(mut self, host: &Host, argv: &Argv, hooks: &mut RunHooks) -> Conclusion {
        if self.guarded {
            hooks.while_mounting();
        } else {
            self.limits.begin();
        }
        let waited = self.until_bwrap_ended(hooks);
        if waited.is_err() {
            self.bwrap.process.signal(Signal::KILL);
        }
        let status = waited.and(self.bwrap.wait());
        // The other processes inside end after bwrap (`--die-with-parent`).
        match self.init.take() {
            Some(init) => init.end(),
            None => self.bwrap.end_orphans(),
        }
        let said = self.limits.end(host, argv.tmp_size, asked_to_end);
        // Here the hooks compare the host with its recorded state, so this comes before they
        // remove placeholders.
        let conclusion = match status {
            Ok(status) => self.conclusion(status, host, argv, hooks),
            Err(e) => Conclusion::Failed(cannot("wait for bwrap", &e)),
        };
        let (namespaces, is_told) = (self.namespaces.take(), self.is_told);
        let close = move |must_close| match namespaces {
            Some(namespaces) if must_close => namespaces.remount_all_ro(),
            // In the last case no other process can hold a mount: without a guard the mounts are
            // not locked, and without an answer the guard has not started the command.
            None if must_close && is_told => Err(io::ErrorKind::Unsupported.into()),
            _ => Ok(()),
        };
        hooks.after_exit(close, said);
        self.streams.hand_back();
        self.terminals.restore();
        conclusion
    }

    fn until_bwrap_ended(&mut self, hooks: &mut RunHooks) -> io::Result<()> {
        loop {
            let Events { bwrap_ended, told, replaced, exceeded, nothing } = self.wait(hooks)?;
            // Files are covered first, because until then the command can access them.
            if let Some(namespaces) = self.namespaces.as_ref().filter(|_| replaced && !bwrap_ended) {
                hooks.cover_again(namespaces);
            }
            let received = self.signals.read()?;
            if self.target().is_some() {
                received.into_iter().for_each(|received| self.deal_with(received));
            } else {
                self.early.extend(received.iter().map(|received| received.signal));
            }
            if told || bwrap_ended {
                self.listen(bwrap_ended, hooks);
            }
            if self.target().is_none() {
                self.judge_early();
            }
            if bwrap_ended {
                return Ok(());
            }
            match self.limits.action(exceeded) {
                Some(action) => self.enforce(action),
                None if nothing => self.keep_step(),
                None => {}
            }
        }
    }

    /// Waits for an event.
    fn wait(&self, hooks: &RunHooks) -> io::Result<Events> {
        let (signals, bwrap) = (self.signals.descriptor(), self.bwrap.process.descriptor());
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        let descriptors = [Some(signals), Some(bwrap), socket, hooks.replacements(), self.limits.descriptor()];
        let mut waiting: Vec<PollFd> =
            descriptors.iter().flatten().map(|waited| PollFd::from_borrowed_fd(*waited, PollFlags::IN)).collect();
        let retry = hooks.must_cover_again().then_some(RETRY);
        let interval = self.target().and(self.watch.interval);
        let interval = interval.into_iter().chain(retry).chain(self.limits.patience()).min();
        let timeout = interval.and_then(|interval| Timespec::try_from(interval).ok());
        let count = retry_on_intr(|| poll(&mut waiting, timeout.as_ref()))?;
        let mut ready = waiting.iter().map(|waited| !waited.revents().is_empty());
        let [_, bwrap_ended, told, replaced, exceeded] =
            descriptors.map(|descriptor| descriptor.is_some() && ready.next() == Some(true));
        Ok(Events { bwrap_ended, told, replaced: replaced || retry.is_some(), exceeded, nothing: count == 0 })
    }

    /// The process that gets signals: the command, or bwrap if there is no guard.
    pub(super) fn target(&self) -> Option<&Process> {
        if self.guarded { self.command.as_ref() } else { Some(&self.bwrap.process) }
    }

    /// Reads the guard's messages: one, or `all` when bwrap has ended.
    fn listen(&mut self, all: bool, hooks: &mut RunHooks) {
        while let Some(socket) = &self.socket {
            match hear(socket) {
                Ok(Some((Report::Ready, sender))) => self.answer(sender, hooks),
                Ok(Some((report, _))) => self.failure = Some(report),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Ok(None) | Err(_) => self.socket = None,
            }
            if !all {
                return;
            }
        }
    }

    /// Answers a guard that is ready. Without an answer, the guard does not start the command.
    fn answer(&mut self, guard: Option<Pid>, hooks: &mut RunHooks) {
        ablate::pause("before-go");
        if self.command.is_none() {
            self.take_hold(guard);
            hooks.watch_replacements(self.namespaces.as_ref());
        }
        let answer = if let Some(guard) = self.command.as_ref().filter(|_| self.abandoned_by.is_none()) {
            self.limits.ready(hooks.host(), guard).and_then(|()| hooks.before_exec())
        } else {
            // The supervisor could not pass signals on to the command, or notice its end.
            Err(Report::Refused("the supervisor cannot hold the command".to_owned()))
        };
        match answer {
            Ok(answer) => {
                self.is_told = true;
                if answer == Answer::Go {
                    self.limits.begin();
                }
                let _ = self.socket.as_ref().map(|socket| report::send(socket.as_fd(), &answer));
            }
            Err(why) => {
                self.failure = Some(why);
                self.socket = None;
            }
        }
    }

    /// Opens the guard, which becomes the command, the sandbox's first process, and the
    /// namespaces. Passes on the signals that came before.
    fn take_hold(&mut self, guard: Option<Pid>) {
        self.command = guard.and_then(|pid| Process::open(pid).ok());
        self.init = self.command.as_ref().and_then(Process::parent);
        self.namespaces = self.command.as_ref().and_then(|command| Namespaces::of(command.pid()).ok());
        for signal in std::mem::take(&mut self.early) {
            self.pass_on(signal);
        }
    }

    /// Ends a command that has reached a limit: sends SIGTERM, and later kills all processes
    /// inside. Without a guard, bwrap gets the SIGTERM, and all processes inside end with bwrap.
    fn enforce(&self, action: LimitAction) {
        match action {
            LimitAction::Terminate => {
                self.pass_on(Signal::TERM);
                // A stopped process receives the signal when it is continued.
                self.pass_on(Signal::CONT);
            }
            LimitAction::Kill => self.bwrap.process.signal(Signal::KILL),
        }
    }

    fn conclusion(&self, bwrap: ExitStatus, host: &Host, argv: &Argv, hooks: &RunHooks) -> Conclusion {
        // The guard's report does not count, because this signal ended the guard.
        if let Some(signal) = self.abandoned_by {
            return Conclusion::Ended(Ending::Killed(signal.as_raw()));
        }
        if self.limits.is_reached() {
            return Conclusion::Ended(Ending::Exited(LIMIT_REACHED));
        }
        match &self.failure {
            Some(Report::Unavailable(why)) => return Conclusion::Unavailable(why.clone()),
            Some(Report::PrivateRefused(why)) => return Conclusion::PrivateRefused(why.clone()),
            Some(changed @ Report::Changed(_)) => return Conclusion::Changed(changed.diagnostic()),
            Some(Report::Ready) | None => {}
            Some(failure) => return Conclusion::Failed(at_its_limit(failure, argv)),
        }
        let ending = Ending::of(bwrap);
        match (&self.command, ending) {
            (Some(_), Ending::Killed(signal)) => Conclusion::Failed(lost(signal)),
            (Some(command), Ending::Exited(code)) => {
                Conclusion::Ended(command.exit_status().map_or(Ending::guessed(code), Ending::of))
            }
            (None, ending) if self.guarded => match hooks.difference() {
                Some(difference) => Conclusion::Changed(report::refusal(&difference)),
                None => Conclusion::Failed(why_not_started(host, argv, ending)),
            },
            (None, Ending::Exited(code)) => Conclusion::Ended(Ending::guessed(code)),
            (None, killed) => Conclusion::Ended(killed),
        }
    }
}

fn why_not_started(host: &Host, argv: &Argv, ending: Ending) -> Diagnostic {
    let flags = || bwrap::sufficient_flags(&argv.program, argv.tmp_size.is_some());
    match availability::trial(host, &argv.program).and_then(|()| flags()) {
        Err(diagnostic) => diagnostic,
        Ok(_) => Diagnostic::new(Code::StartFailed, format!("bwrap {ending} before the command started"))
            .help("read its own message for the reason; try again if a file or folder came or went meanwhile"),
    }
}

fn lost(signal: i32) -> Diagnostic {
    Diagnostic::new(Code::SandboxLost, format!("bwrap {}, and the command ended with it", Ending::Killed(signal)))
        .help("send signals to agent-sandbox or to the command, never to bwrap")
}

/// The supervisor's end and the guard's end of a socket. The kernel adds to each message the
/// process id of its sender in our process namespace.
fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// Reads one message and its sender. `None` at the end of the stream, and for a message that is not
/// a report.
fn hear(socket: &OwnedFd) -> Result<Option<(Report, Option<Pid>)>, Errno> {
    let mut bytes = [0; report::MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::DONTWAIT)?;
    let sender = ancillary.drain().find_map(|item| match item {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
        _ => None,
    });
    Ok(serde_json::from_slice(&bytes[..message.bytes]).ok().map(|report| (report, sender)))
}

/// The diagnostic of a failure, with the place of the limit that it is about.
fn at_its_limit(failure: &Report, argv: &Argv) -> Diagnostic {
    let of_cgroup = argv.cgroup.iter().flat_map(|cgroup| &cgroup.limits);
    let mut limits = of_cgroup.chain(argv.guard.iter().flat_map(|guard| &guard.limits));
    let is_meant = |limit: &Limit| matches!(failure, Report::LimitRefused(kind, _) if *kind == limit.kind());
    match limits.find(|(limit, _)| is_meant(limit)) {
        Some((_, origin)) => failure.diagnostic().at(origin),
        None => failure.diagnostic(),
    }
}
