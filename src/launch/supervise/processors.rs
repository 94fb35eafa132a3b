//! Which processors bwrap runs on until the command starts: not on ours, where there are others.
//!
//! A child begins on the processor of its parent, and few kernels move it while the parent works. In four of five starts on two processors bwrap, or the
//! process that it makes its mounts in, had to wait until all was put up beside which it was meant to work.

use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Those that the caller may use, which the command gets back, and the one that we run on.
#[derive(Clone, Copy)]
pub(super) struct Processors {
    all: CpuSet,
    ours: usize,
}

impl Processors {
    /// `None` where none is idle: then it is better to take turns with us than with somebody else. And where processors cannot be chosen: what was taken could
    /// not be given back.
    pub(super) fn of_caller() -> Option<Self> {
        let all = sched_getaffinity(None).ok()?;
        sched_setaffinity(None, &all).ok()?;
        (running()? < all.count()).then(|| Self { all, ours: sched_getcpu() })
    }

    /// Moves this process, and those that it will make, away from where we were. Makes system calls alone, for who is between fork and exec.
    pub(super) fn leave_ours(&self) {
        let mut others = self.all;
        others.unset(self.ours);
        // Only for speed.
        let _ = sched_setaffinity(None, &others);
    }

    /// Before the command starts.
    pub(super) fn give_back(&self, process: Pid) -> rustix::io::Result<()> {
        sched_setaffinity(Some(process), &self.all)
    }
}

/// How many processes of this machine are running, or want to: the first half of the fourth word in `0.20 0.18 0.12 1/80 11206`.
fn running() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}
