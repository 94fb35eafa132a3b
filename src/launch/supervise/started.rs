//! bwrap as a process, and the ends of what connects us with its second stage.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};

use crate::diagnostic::Diagnostic;
use crate::launch::cannot_execute;
use crate::launch::process::{self, Process};
use crate::launch::streams::Streams;
use crate::path::AbsPath;

use super::processors::Processors;
use super::{cannot, channel, plan};

/// Our ends.
pub(super) struct Ends {
    /// Where the guard waits for its plan.
    pub(super) plan: OwnedFd,
    /// Where it reports, and the number that its end has inside.
    pub(super) socket: OwnedFd,
    pub(super) number: i32,
}

impl Ends {
    pub(super) const COUNT: i32 = 2;

    /// Ours, and those of the guard, with the numbers that they shall have: `first` is the plan's.
    pub(super) fn new(first: i32) -> Result<(Self, Vec<(OwnedFd, RawFd)>), Diagnostic> {
        let (plan, plan_inside) = plan::pair().map_err(|e| cannot("make a socket", &e))?;
        let (socket, socket_inside) = channel::pair().map_err(|e| cannot("make a socket", &e))?;
        let number = first + 1;
        Ok((Self { plan, socket, number }, vec![(plan_inside, first), (socket_inside, number)]))
    }
}

/// bwrap, started. Its process is the first to go: while it lives, nobody may see the end of what it waits for.
pub(super) struct Started {
    pub(super) bwrap: Bwrap,
    pub(super) streams: Streams,
    /// Where there is a second stage.
    pub(super) ends: Option<Ends>,
    /// Where bwrap has been sent away from ours.
    pub(super) processors: Option<Processors>,
}

impl Started {
    pub(super) fn spawn(
        command: &mut Command,
        program: &AbsPath,
        streams: Streams,
        ends: Option<Ends>,
    ) -> Result<Self, Diagnostic> {
        Ok(Self { bwrap: Bwrap::spawn(command, program)?, streams, ends, processors: None })
    }
}

/// The process of bwrap, which ends with this, and all that it has made with it.
pub(super) struct Bwrap {
    child: Child,
    pub(super) process: Process,
    /// Processes that have nothing to do with it.
    children_before: Vec<Pid>,
    ended: bool,
}

impl Bwrap {
    fn spawn(command: &mut Command, program: &AbsPath) -> Result<Self, Diagnostic> {
        // What bwrap leaves behind at its end would become a zombie where the first process of a container collects none.
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

    /// Ends what it has left, where nobody has named the first process of its process namespace. That is ours by now: bwrap has ended, and we collect
    /// what it leaves. It may have been left before it had bound its life to that of bwrap.
    pub(super) fn end_orphans(&self) {
        let adopted = |pid: &Pid| !self.children_before.contains(pid) && process::numbers_anew(*pid);
        process::children().into_iter().filter(adopted).filter_map(|pid| Process::open(pid).ok()).for_each(end);
    }
}

/// With the first process of a process namespace all others end.
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
