//! A process of the sandbox, held by a descriptor: a signal cannot meet another process that got its number later, and how it
//! ended can be asked although it is nobody's child here.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};

use super::signals;

pub(crate) struct Process {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Process {
    pub(crate) fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, descriptor: pidfd_open(pid, PidfdFlags::empty())? })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable when it has ended.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// One that has ended already needs no signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.descriptor, signal);
    }

    pub(crate) fn parent(&self) -> Option<Process> {
        let number = self.parent_number()?;
        let parent = Process::open(Pid::from_raw(number)?).ok()?;
        // Its number was still its own when we took hold of it.
        (self.parent_number() == Some(number)).then_some(parent)
    }

    fn parent_number(&self) -> Option<i32> {
        let told = self.info(libc::PIDFD_INFO_PID).and_then(|info| i32::try_from(info.ppid).ok());
        // Linux before 6.13.
        told.or_else(|| self.stat(PARENT))
    }

    /// The signal that stopped it, while it is stopped.
    pub(crate) fn stopped_by(&self) -> Option<Signal> {
        let stat = self.read_stat()?;
        let by = stat.get(EXIT_CODE).and_then(|number| number.parse().ok()).and_then(signals::named);
        // Kernels before 5.17 do not say which, and others only to whom they trust.
        let by = by.filter(|signal| signals::stops_by_default(*signal)).unwrap_or(Signal::STOP);
        (stat.first()? == "T").then_some(by)
    }

    /// Whether it is known to have no child, alive or dead. For the first process of a process namespace this means that nobody else is in there: whoever is
    /// left by his parent becomes its child.
    pub(crate) fn is_childless(&self) -> bool {
        // One list that is empty is an answer, but a list without some is none: the kernel may pass over one while another goes.
        let number = self.pid.as_raw_nonzero();
        fs::read(format!("/proc/{number}/task/{number}/children")).is_ok_and(|children| children.is_empty())
    }

    pub(crate) fn wait_until_ended(&self) {
        while let Err(Errno::INTR) = poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], None::<&Timespec>) {}
        // Where it became our child by the end of its parent, nobody else will collect it.
        let _ = waitid(WaitId::PidFd(self.descriptor.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }

    /// How it ended, once it has been waited for by its parent. `None` before Linux 6.15.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        self.info(libc::PIDFD_INFO_EXIT).map(|info| ExitStatus::from_raw(info.exit_code))
    }

    /// What the kernel tells of it, if it can tell what is wanted.
    #[allow(unsafe_code)]
    fn info(&self, wanted: u32) -> Option<libc::pidfd_info> {
        let wanted = u64::from(wanted);
        // SAFETY: all zeros is a valid value of this plain structure, whose size is part of the request's number: the kernel
        // writes no more than that.
        let info = unsafe {
            let mut info: libc::pidfd_info = std::mem::zeroed();
            info.mask = wanted;
            let done = libc::ioctl(self.descriptor.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info);
            (done == 0).then_some(info)?
        };
        (info.mask & wanted != 0).then_some(info)
    }

    fn stat(&self, field: usize) -> Option<i32> {
        self.read_stat()?.get(field)?.parse().ok()
    }

    /// The fields of `/proc/PID/stat` that follow the name, which may hold anything.
    fn read_stat(&self) -> Option<Vec<String>> {
        let text = fs::read(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).ok()?;
        let name_ends = text.iter().rposition(|byte| *byte == b')')?;
        let fields = String::from_utf8_lossy(&text[name_ends + 1..]).into_owned();
        Some(fields.split_whitespace().map(str::to_owned).collect())
    }
}

/// The numbers of this process's children.
pub(crate) fn children() -> Vec<Pid> {
    let text = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    text.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}

/// Whether it has process numbers of its own, as the first process of a sandbox has.
pub(crate) fn numbers_anew(pid: Pid) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let theirs = namespace(&pid.as_raw_nonzero().to_string());
    theirs.is_some() && theirs != namespace("self")
}

/// Fields 4 and 52 in the numbering of proc(5).
const PARENT: usize = 1;
const EXIT_CODE: usize = 49;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_has_a_child_is_not_childless_and_who_has_collected_it_is() {
        let script = "sleep 100 & echo; read line; kill $!; wait $!; echo; read line";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let process = Process::open(Pid::from_raw(shell.id().try_into().unwrap()).unwrap()).unwrap();
        let (mut told, mut says) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        says.read_exact(&mut [0]).unwrap();
        assert!(!process.is_childless());
        told.write_all(b"\n").unwrap();
        says.read_exact(&mut [0]).unwrap();
        assert!(process.is_childless());
        drop(told);
        shell.wait().unwrap();
        assert!(!process.is_childless(), "of one that is gone nothing can be read, and that is no answer");
    }
}
