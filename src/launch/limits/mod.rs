//! The limits that the supervisor enforces (SPEC section 24). It limits the time and the output of
//! the command, checks the limits of the cgroup before the start, and examines `/tmp` after the
//! end.

mod cgroup;
mod output;
mod tmp;

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::compile::lower::{Argv, CgroupSource};
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::guard::report::Report;
use crate::host::Host;
use crate::policy::{AbsPath, Limit, LimitKind};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::process::Process;
use crate::sys::timer::ContinueTimer;

pub(super) use cgroup::cgroup_source;
pub(crate) use cgroup::{CGROUP_REMEDY, try_cgroup};
pub(super) use output::Meter;
use tmp::TmpFolder;

/// The time between SIGTERM and SIGKILL to all processes inside.
const GRACE: Duration = Duration::from_secs(10);

/// The exit code of a run that a limit ended. timeout(1) uses this code as well.
pub(crate) const LIMIT_REACHED: u8 = 124;

/// The way in which the supervisor ends a command that has reached a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitAction {
    /// Ask the command to end.
    Terminate,
    /// End all processes inside.
    Kill,
}

/// The limits of one run.
pub(super) struct LimitWatch {
    time: Option<Limit>,
    /// The moment at which the time limit is reached; `None` until the command may run.
    deadline: Option<Instant>,
    timer: Option<ContinueTimer>,
    meter: Option<Meter>,
    tmp: Option<TmpFolder>,
    /// The limits of the cgroup.
    cgroup: Vec<Limit>,
    /// The delegated folder in which the cgroup was made.
    delegated: Option<AbsPath>,
    /// The limit that the command has reached, and the time of SIGKILL to all processes inside.
    reached: Option<(Limit, Instant)>,
    is_killed: bool,
}

impl LimitWatch {
    pub(super) fn new(argv: &Argv, meter: Option<Meter>) -> Self {
        let time = argv.supervised.iter().map(|(limit, _)| *limit).find(|limit| limit.kind() == LimitKind::Time);
        let time = time.filter(|_| !ablate::is_off(Mitigation::Limits));
        let (deadline, timer, tmp, reached, is_killed) = (None, None, None, None, false);
        let cgroup = argv.cgroup.iter().flat_map(|cgroup| &cgroup.limits).map(|(limit, _)| *limit).collect();
        let delegated = argv.cgroup.as_ref().and_then(|cgroup| match &cgroup.source {
            CgroupSource::Delegated { folder, .. } => Some(folder.clone()),
            CgroupSource::Systemd { .. } => None,
        });
        Self { time, deadline, timer, meter, tmp, cgroup, delegated, reached, is_killed }
    }

    /// Called while the guard waits. Opens the sandbox's `/tmp`, and checks the limits of the
    /// cgroup. After an error the command does not start.
    pub(super) fn ready(&mut self, host: &Host, guard: &Process) -> Result<(), Report> {
        self.tmp = TmpFolder::of(guard.pid());
        cgroup::check(host, guard.pid(), &self.cgroup)
    }

    /// Starts the time limit. Called when the command may run.
    pub(super) fn begin(&mut self) {
        if let Some(limit) = self.time.filter(|_| self.deadline.is_none()) {
            let time = Duration::from_millis(limit.amount());
            self.deadline = Some(Instant::now() + time);
            // The timer continues a stopped supervisor, which would notice the end of the time
            // late.
            self.timer = ContinueTimer::start(time).ok();
        }
    }

    /// A descriptor that is readable when the command has written too much.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.meter.as_ref().filter(|_| self.reached.is_none()).map(Meter::exceeded)
    }

    /// The time that the supervisor may wait for other events.
    pub(super) fn patience(&self) -> Option<Duration> {
        let next = match self.reached {
            Some((_, kill)) => (!self.is_killed).then_some(kill),
            None => self.deadline,
        };
        next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Tells the supervisor how to end the command, if it must end now. `exceeded` says that the
    /// command has written more than the limit of `output` allows.
    pub(super) fn action(&mut self, exceeded: bool) -> Option<LimitAction> {
        let now = Instant::now();
        match self.reached {
            None => {
                let time = self.time.filter(|_| self.deadline.is_some_and(|deadline| deadline <= now));
                let output = self.meter.as_ref().filter(|_| exceeded).map(|meter| Limit::output(meter.limit()));
                self.reached = time.or(output).map(|limit| (limit, now + GRACE));
                self.reached.map(|_| LimitAction::Terminate)
            }
            Some((_, kill)) if kill <= now && !self.is_killed => {
                self.is_killed = true;
                Some(LimitAction::Kill)
            }
            Some(_) => None,
        }
    }

    pub(super) fn is_reached(&self) -> bool {
        self.reached.is_some()
    }

    /// Called when all processes inside have ended. Passes the rest of the output on, and returns
    /// the reports.
    pub(super) fn end(&mut self, host: &Host, size: Option<u64>, give_up: impl Fn() -> bool) -> Vec<Diagnostic> {
        self.timer = None;
        if let Some(folder) = &self.delegated {
            // The end of a later run tries again.
            let _ = cgroup::remove_ended(host, folder);
        }
        let mut lost = None;
        if let Some(meter) = self.meter.take() {
            let limit = Limit::output(meter.limit());
            // A command that ended by itself may have written too much as well.
            let (is_exceeded, failure) = meter.finish(|| give_up() || self.is_killed);
            if is_exceeded && self.reached.is_none() {
                self.reached = Some((limit, Instant::now()));
            }
            lost = failure.map(|e| {
                let message = format!("the end of the output is missing: it cannot be written: {}", reason(&e));
                Diagnostic::new(Code::OutputNotWritten, message).help("write it to another place, or make room")
            });
        }
        let reached = self.reached.map(|(limit, _)| {
            let message = match limit.kind() {
                // The command may have ended by itself, so the message does not say that it was
                // ended.
                LimitKind::Output => format!("the end of the output is missing: it reached the limit `{limit}`"),
                _ => format!("the command was ended: it reached the limit `{limit}`"),
            };
            let help = format!("raise it with `--limit {}=VALUE`, or in `[limits]`", limit.kind());
            Diagnostic::new(Code::LimitReached, message).help(help)
        });
        let full = self.tmp.take().zip(size).and_then(|(tmp, size)| tmp.warning(size));
        reached.into_iter().chain(lost).chain(full).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use super::*;

    // SPEC Z5
    #[test]
    fn the_report_does_not_claim_to_have_ended_a_command_that_ended_by_itself() {
        let mut given = [None, Some(crate::sys::fd::null().unwrap()), Some(crate::sys::fd::null().unwrap())];
        let meter = Meter::new(4, &mut given).unwrap();
        let [_, out, _] = given;
        std::fs::File::from(out.unwrap()).write_all(b"12345").unwrap();
        let (time, deadline, timer, tmp, reached) = (None, None, None, None, None);
        let (meter, cgroup, delegated, is_killed) = (Some(meter), Vec::new(), None, false);
        let mut watch = LimitWatch { time, deadline, timer, meter, tmp, cgroup, delegated, reached, is_killed };
        let said: Vec<String> =
            watch.end(&Host::at("/"), None, || false).into_iter().map(|said| said.message).collect();
        assert_eq!(said, ["the end of the output is missing: it reached the limit `output=4B`"]);
        assert!(watch.is_reached());
    }
}
