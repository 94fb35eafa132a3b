//! bwrap as a process, and the socket that connects the supervisor with the guard.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};

use crate::compile::guard_plan::{REPORT, RUN_SHEET, RunSheet};
use crate::compile::lower::Argv;
use crate::diagnostic::Diagnostic;
use crate::launch::streams::Streams;
use crate::launch::{bwrap_command, cannot_execute, cannot_prepare, sheet_descriptor};
use crate::policy::path::AbsPath;
use crate::sys::process::{self, Process};
use crate::sys::signals::{self, Shield, Signals};

use super::{GivenStreams, cannot, channel};

/// A bwrap that was started.
pub(super) struct Started {
    pub(super) bwrap: Bwrap,
    pub(super) streams: Streams,
    /// The socket to the guard, if there is one.
    pub(super) socket: Option<OwnedFd>,
}

pub(super) fn start(
    signals: &Signals,
    argv: &Argv,
    sheet: RunSheet,
    given: GivenStreams,
) -> Result<Started, Diagnostic> {
    let streams = Streams::new()?;
    let (socket, passed, shield) = if argv.guard.is_some() {
        let (ours, theirs) = channel::pair().map_err(|e| cannot("make a socket", &e))?;
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
    given.stdin.map(|stream| command.stdin(stream));
    given.stdout.map(|stream| command.stdout(stream));
    given.stderr.map(|stream| command.stderr(stream));
    Ok(Started { bwrap: Bwrap::spawn(&mut command, &argv.program)?, streams, socket })
}

/// The process of bwrap. Dropping this ends it and all processes of its sandbox.
pub(super) struct Bwrap {
    child: Child,
    pub(super) process: Process,
    /// Children of ours that are not of this sandbox.
    children_before: Vec<Pid>,
    ended: bool,
}

impl Bwrap {
    fn spawn(command: &mut Command, program: &AbsPath) -> Result<Self, Diagnostic> {
        // Processes that bwrap leaves behind would become zombies in a container whose first
        // process collects none.
        let _ = set_child_subreaper(Some(getpid()));
        let children_before = process::children();
        let mut child = command.spawn().map_err(|e| cannot_execute(program, &e))?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH.into());
        match process.and_then(Process::open) {
            Ok(process) => Ok(Self { child, process, children_before, ended: false }),
            Err(e) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(cannot("hold a process by a descriptor (Linux 5.3)", &e))
            }
        }
    }

    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.ended = true;
        Ok(status)
    }

    /// Ends the processes that bwrap left behind, where the guard has not named the first process of
    /// their namespace. They are our children by now. bwrap may have been killed before they asked
    /// to die with it.
    pub(super) fn end_orphans(&self) {
        let adopted = |pid: &Pid| !self.children_before.contains(pid) && process::is_in_other_pid_namespace(*pid);
        process::children().into_iter().filter(adopted).filter_map(|pid| Process::open(pid).ok()).for_each(end);
    }
}

/// Ends a process namespace by its first process.
pub(super) fn end(init: Process) {
    init.signal(Signal::KILL);
    init.wait_until_ended();
}

impl Drop for Bwrap {
    fn drop(&mut self) {
        if !self.ended {
            self.process.signal(Signal::KILL);
            let _ = self.wait();
            self.end_orphans();
        }
    }
}
