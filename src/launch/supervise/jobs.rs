//! Signals and stops: what reaches the command, and keeping step with it.

use rustix::process::Signal;

use crate::sys::process::Process;
use crate::sys::signals::{self, Received};

use super::run::Run;

impl Run<'_> {
    /// The command has what a terminal sends, and lacks what somebody sent to us. Whether that somebody meant the whole
    /// process group cannot be seen (`timeout` signals both): then the command gets it twice, which is better than never.
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

    /// Whether the command has what the kernel sent to us.
    fn command_has(&self, signal: Signal) -> bool {
        let only_us = signal == Signal::HUP && self.leads_session;
        let undone = self.continued_late && signals::stops_by_default(signal);
        signals::meets_the_group(signal) && !only_us && !undone
    }

    /// Without a command there is no handler, so the default action is the right one: most signals end the start.
    pub(super) fn judge_kept(&mut self) {
        let ends = |signal: &mut Signal| signals::ends_by_default(*signal) && !signals::is_ignored(*signal);
        if let Some(signal) = self.kept.extract_if(.., ends).next() {
            self.abandoned_by.get_or_insert(signal);
            self.bwrap.process.signal(Signal::KILL);
        }
    }

    pub(super) fn pass_on(&self, signal: Signal) {
        if let Some(target) = self.target() {
            target.signal(signal);
        }
    }

    /// In a quiet moment: the command and we shall both run, or both be stopped, as whichever of us was told last.
    pub(super) fn keep_step(&mut self) {
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
        let all = [Some(&self.bwrap.process), self.init.as_ref(), self.target()];
        let stopped: Vec<_> = all.into_iter().flatten().filter(|process| process.stopped_by().is_some()).collect();
        if !stopped.is_empty() && signals::pending(&TERMINAL_STOPS).is_none() {
            stopped.iter().for_each(|process| process.signal(Signal::CONT));
            // The stop may have come in between, and we have not read it yet.
            self.continued_late = true;
            self.watch.closely();
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
