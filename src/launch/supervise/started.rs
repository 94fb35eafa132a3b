//! bwrap as a process, and the ends of what connects us with its second stage.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

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
    /// Processes that have nothing to do with it.
    pub(super) children_before: Vec<Pid>,
}

impl Started {
    pub(super) fn spawn(
        command: &mut Command,
        program: &AbsPath,
        streams: Streams,
        ends: Option<Ends>,
    ) -> Result<Self, Diagnostic> {
        let children_before = process::children();
        Ok(Self { bwrap: Bwrap::spawn(command, program)?, streams, ends, processors: None, children_before })
    }
}

/// The process of bwrap, which ends with this.
pub(super) struct Bwrap {
    child: Child,
    pub(super) process: Process,
    ended: bool,
}

impl Bwrap {
    fn spawn(command: &mut Command, program: &AbsPath) -> Result<Self, Diagnostic> {
        let mut child = command.spawn().map_err(|e| cannot_execute(program, &e))?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH.into());
        match process.and_then(Process::open) {
            Ok(process) => Ok(Self { child, process, ended: false }),
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
}

impl Drop for Bwrap {
    fn drop(&mut self) {
        if !self.ended {
            self.process.signal(Signal::KILL);
            let _ = self.wait();
        }
    }
}
