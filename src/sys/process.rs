//! Processes, held by a descriptor (pidfd). So a signal cannot reach a later process with the same
//! id, and the exit status of a process that is not our child can be read.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal, waitid, waitpid,
};

use super::signals;

/// Fields 4 and 52 of `/proc/PID/stat` in the numbering of proc(5), counted after the name.
const PARENT: usize = 1;
const EXIT_CODE: usize = 49;

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

    /// A descriptor that is readable when the process has ended.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Sends the signal, unless the process has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.descriptor, signal);
    }

    pub(crate) fn parent(&self) -> Option<Process> {
        let number = self.parent_number()?;
        let parent = Process::open(Pid::from_raw(number)?).ok()?;
        // If this is still true, the descriptor does not belong to a later process with the same
        // number.
        (self.parent_number() == Some(number)).then_some(parent)
    }

    fn parent_number(&self) -> Option<i32> {
        let told = self.info(libc::PIDFD_INFO_PID).and_then(|info| i32::try_from(info.ppid).ok());
        // Linux before 6.13 does not have this information.
        told.or_else(|| self.stat()?.get(PARENT)?.parse().ok())
    }

    /// The signal that stopped the process. `None` unless the process is stopped.
    pub(crate) fn stopped_by(&self) -> Option<Signal> {
        let stat = self.stat()?;
        let by = stat.get(EXIT_CODE).and_then(|number| number.parse().ok()).and_then(signals::named);
        // Kernels before 5.17 do not report the signal. Later ones report it only to some callers.
        let by = by.filter(|signal| signals::stops_by_default(*signal)).unwrap_or(Signal::STOP);
        (stat.first()? == "T").then_some(by)
    }

    /// Kills the process and waits for its end. If it is the first process of a process namespace,
    /// all other processes in the namespace end as well.
    pub(crate) fn end(&self) {
        self.signal(Signal::KILL);
        let ended = || poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], None::<&Timespec>);
        let _ = retry_on_intr(ended);
        // If the process became our child when its parent ended, no other process waits for it.
        let _ = waitid(WaitId::PidFd(self.descriptor.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }

    /// The exit status, after the parent has collected it. `None` before Linux 6.15.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        self.info(libc::PIDFD_INFO_EXIT).map(|info| ExitStatus::from_raw(info.exit_code))
    }

    /// Asks the kernel about the process. `None` if the kernel does not have the `wanted`
    /// information.
    #[allow(unsafe_code)]
    fn info(&self, wanted: u32) -> Option<libc::pidfd_info> {
        let wanted = u64::from(wanted);
        // SAFETY: all zeros is a valid value of this plain structure. Its size is part of the
        // request's number, and the kernel writes no more than that.
        let info = unsafe {
            let mut info: libc::pidfd_info = std::mem::zeroed();
            info.mask = wanted;
            let done = libc::ioctl(self.descriptor.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info);
            (done == 0).then_some(info)?
        };
        (info.mask & wanted != 0).then_some(info)
    }

    /// The fields of `/proc/PID/stat` that follow the name, which may hold any byte.
    fn stat(&self) -> Option<Vec<String>> {
        let text = fs::read(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).ok()?;
        let name_ends = text.iter().rposition(|byte| *byte == b')')?;
        let fields = String::from_utf8_lossy(&text[name_ends + 1..]).into_owned();
        Some(fields.split_whitespace().map(str::to_owned).collect())
    }
}

/// Runs `command` with an empty standard input and returns its output. Kills the command after
/// `time`, and returns an error. Also kills it when it has written more than `most` bytes; the
/// output is then longer than `most`.
pub(crate) fn output_within(command: &mut Command, time: Duration, most: usize) -> io::Result<Output> {
    let deadline = Instant::now() + time;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut read = || -> io::Result<(Vec<u8>, Vec<u8>)> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = Process::open(pid)?;
        let mut streams = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let mut texts = [Vec::new(), Vec::new()];
        loop {
            // After the child has closed its streams, this waits for its end.
            let mut waiting: Vec<PollFd> =
                streams.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
            let has_closed = waiting.is_empty();
            if has_closed {
                waiting.push(PollFd::new(&process.descriptor, PollFlags::IN));
            }
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
            if retry_on_intr(|| poll(&mut waiting, left.as_ref()))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let ready: Vec<bool> = waiting.iter().map(|waited| !waited.revents().is_empty()).collect();
            if has_closed || texts.iter().any(|text| text.len() > most) {
                let [out, err] = texts;
                return Ok((out, err));
            }
            let mut ready = ready.into_iter();
            for (stream, text) in streams.iter_mut().zip(&mut texts) {
                let mut piece = [0; 4096];
                let Some(open) = stream.as_ref().filter(|_| ready.next() == Some(true)) else { continue };
                match retry_on_intr(|| rustix::io::read(open, &mut piece))? {
                    0 => *stream = None,
                    length => text.extend_from_slice(&piece[..length]),
                }
            }
        }
    };
    let texts = read();
    // An error means that the process has already ended.
    let _ = child.kill();
    let status = child.wait()?;
    let (stdout, stderr) = texts?;
    Ok(Output { status, stdout, stderr })
}

/// The numbers of this thread's children.
pub(crate) fn children() -> Vec<Pid> {
    let text = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    text.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}

/// Whether the process is in another process namespace than ours, as all processes of a sandbox
/// are.
pub(crate) fn is_in_other_pid_namespace(pid: Pid) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let theirs = namespace(&pid.as_raw_nonzero().to_string());
    theirs.is_some() && theirs != namespace("self")
}

/// Runs `work` in a child process and waits for it. Returns the error of `work`.
///
/// # Safety
///
/// Other threads may hold locks when the process is forked, so `work` must make only system calls,
/// on values that exist already, and allocate nothing.
#[allow(unsafe_code)]
pub(super) unsafe fn in_child(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: the child runs `work`, for which the caller vouches, and ends at once without running
    // anything else of its parent.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            let errno = work().err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO));
            libc::_exit(errno);
        }
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        Pid::from_raw(child).ok_or(Errno::SRCH)?
    };
    let status = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    match status.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::Interrupted.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn said(script: &str, time: Duration, most: usize) -> io::Result<Output> {
        output_within(Command::new("sh").args(["-c", script]), time, most)
    }

    #[test]
    fn the_output_of_a_program_comes_with_its_status() {
        let output = said("echo out; echo err >&2; exit 3", LONG, 100).unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
    }

    // SPEC S17
    #[test]
    fn a_program_that_hangs_or_never_stops_is_killed() {
        for script in ["exec sleep 1000", "exec >&- 2>&-; exec sleep 1000"] {
            let error = said(script, Duration::from_millis(50), 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}");
        }
        assert!(said("exec yes", LONG, 100).unwrap().stdout.len() > 100);
    }
}
