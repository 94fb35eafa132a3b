//! Signals and job control. The supervisor passes signals on to the command, and stops and
//! continues together with it.

use rustix::process::Signal;

use crate::sys::process::Process;
use crate::sys::signals::{self, Received};

use super::run::Run;

impl Run<'_> {
    /// Passes a signal on, unless the terminal has sent it to the command as well. A process that
    /// signals the whole group (`timeout`) cannot be told apart from one that signals us alone. The
    /// command then gets the signal twice, which is better than never.
    pub(super) fn deal_with(&mut self, Received { signal, by_kernel }: Received) {
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

    /// Whether the command also got a signal that the kernel sent to us.
    fn command_has(&self, signal: Signal) -> bool {
        let only_us = signal == Signal::HUP && self.leads_session;
        let undone = self.continued_late && signals::stops_by_default(signal);
        signals::meets_the_group(signal) && !only_us && !undone
    }

    /// Ends the start if a signal came before the command started that ends a process by default.
    pub(super) fn judge_early(&mut self) {
        let ends = |signal: &mut Signal| signals::ends_by_default(*signal) && !signals::is_ignored(*signal);
        if let Some(signal) = self.early.extract_if(.., ends).next() {
            self.abandoned_by.get_or_insert(signal);
            self.bwrap.process.signal(Signal::KILL);
        }
    }

    pub(super) fn pass_on(&self, signal: Signal) {
        if let Some(target) = self.target() {
            target.signal(signal);
        }
    }

    /// Called if no event has come for a while. Makes sure that the command and this process are
    /// either both running or both stopped.
    pub(super) fn keep_step(&mut self) {
        self.watch.less_closely();
        self.continued_late = false;
        if std::mem::take(&mut self.continued) {
            self.continue_the_stopped();
        } else if let Some(signal) = self.target().and_then(Process::stopped_by).filter(|_| !self.limits.is_reached()) {
            stop_by(signal);
        }
    }

    /// Continues the processes that are still stopped after this process was continued. SIGCONT is
    /// not passed on at once: a shell continues the whole group, and a second SIGCONT could undo a
    /// stop that came after the first one.
    fn continue_the_stopped(&mut self) {
        let all = [Some(&self.bwrap.process), self.init.as_ref(), self.target()];
        let stopped: Vec<_> = all.into_iter().flatten().filter(|process| process.stopped_by().is_some()).collect();
        if !stopped.is_empty() && !signals::is_pending(&TERMINAL_STOPS) {
            stopped.iter().for_each(|process| process.signal(Signal::CONT));
            // A stop signal that is not read yet may have arrived in between.
            self.continued_late = true;
            self.watch.closely();
        }
    }
}

/// The signals by which a terminal stops a process group.
const TERMINAL_STOPS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Stops this process by `signal`, so that the shell sees a stopped job. Returns when it was
/// continued.
fn stop_by(signal: Signal) {
    signals::act_by_default(signal);
    // If no signal is pending now, the process was not stopped: in an orphaned process group only
    // SIGSTOP stops a process. After a real stop, the SIGCONT that ended it is pending, or the next
    // stop signal.
    if !signals::is_pending(&[&TERMINAL_STOPS[..], &[Signal::CONT]].concat()) {
        signals::act_by_default(Signal::STOP);
    }
}
