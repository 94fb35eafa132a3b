//! The process of bwrap, and the processes that it leaves behind.

use std::io;
use std::process::{Child, Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, set_child_subreaper};

use crate::diagnostic::Diagnostic;
use crate::launch::exec::cannot_execute;
use crate::policy::AbsPath;
use crate::sys::process::{self, Process};

use super::cannot;

/// The process of bwrap. Dropping this ends it and all processes of its sandbox.
pub(super) struct Bwrap {
    child: Child,
    pub(super) process: Process,
    /// Our children that do not belong to this sandbox.
    children_before: Vec<Pid>,
    ended: bool,
}

impl Bwrap {
    pub(super) fn spawn(command: &mut Command, program: &AbsPath) -> Result<Self, Diagnostic> {
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

    /// Ends the processes that bwrap left behind, if the guard has not reported, so that the first
    /// process of their namespace is unknown. These processes are our children by now. bwrap may
    /// have been killed before they set their parent-death signal.
    pub(super) fn end_orphans(&self) {
        let is_adopted = |pid: &Pid| !self.children_before.contains(pid) && process::is_in_other_pid_namespace(*pid);
        let adopted = process::children().into_iter().filter(is_adopted);
        adopted.filter_map(|pid| Process::open(pid).ok()).for_each(|init| init.end());
    }
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
