//! A run whose bwrap has been started, and whose second stage waits for its plan.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::diagnostic::Diagnostic;
use crate::guard_plan::GuardPlan;
use crate::host::Host;
use crate::launch::process::{self, Process};
use crate::launch::signals::{self, Shield, Signals};
use crate::launch::streams::Streams;
use crate::launch::terminal::{self, Foreground};
use crate::launch::{cannot_execute, cannot_prepare, command_with};
use crate::lower::Argv;

use super::plan::{self, Outgoing};
use super::watch::Watch;
use super::{Confirm, GivenStreams, Outcome, Run, cannot, channel};

/// bwrap, started. Nothing of the command's has run, and nothing does before [`Begun::run`]; if that never comes, bwrap ends with this.
pub struct Begun<'a> {
    run: Run<'a>,
    /// Where the guard waits for its plan, and the number of the descriptor that it answers to.
    waiting: Option<(OwnedFd, i32)>,
}

impl<'a> Begun<'a> {
    pub(super) fn new(signals: &'a Signals, argv: &Argv, given: GivenStreams) -> Result<Self, Diagnostic> {
        let streams = Streams::new()?;
        let (mut more, mut ours, mut shield) = (Vec::new(), None, Shield::No(signals.before()));
        // Without a guard, bwrap starts the command, and passes no signal on: Ctrl-C, and what is sent to us, ends it and thereby
        // the command.
        if let Some(guard) = &argv.guard {
            let (plan, plan_inside) = plan::pair().map_err(|e| cannot("make a socket", &e))?;
            let (socket, socket_inside) = channel::pair().map_err(|e| cannot("make a socket", &e))?;
            let number = guard.descriptor + 1;
            more.extend([(plan_inside, guard.descriptor), (socket_inside, number)]);
            ours = Some((socket, (plan, number)));
            shield = Shield::Supervised;
        }
        let mut bwrap = command_with(argv, &argv.data, more, &streams).map_err(|e| cannot_prepare(&e))?;
        signals::shield(&mut bwrap, shield);
        if let Some(stdin) = given.stdin {
            bwrap.stdin(stdin);
        }
        if let Some(stdout) = given.stdout {
            bwrap.stdout(stdout);
        }
        if let Some(stderr) = given.stderr {
            bwrap.stderr(stderr);
        }
        let children_before = process::children();
        let mut child = bwrap.spawn().map_err(|e| cannot_execute(&argv.program, &e))?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH.into());
        let bwrap_process = match process.and_then(Process::open) {
            Ok(process) => process,
            Err(e) => {
                let _ = child.kill().and_then(|()| child.wait());
                return Err(cannot("hold a process by a descriptor (Linux 5.3)", &e));
            }
        };
        let (socket, waiting) = ours.unzip();
        let run = Run {
            signals,
            bwrap: child,
            bwrap_process,
            guarded: socket.is_some(),
            leads_session: terminal::leads_session(),
            socket,
            plan: None,
            target: None,
            init: None,
            failure: None,
            kept: Vec::new(),
            abandoned_by: None,
            continued: false,
            continued_late: false,
            watch: Watch::new(),
            streams,
            confirm: &|| Ok(()),
            children_before,
            ended: false,
        };
        Ok(Self { run, waiting })
    }

    /// Lets the second stage go on with the plan of `argv`, and returns when nothing inside lives any more. `confirm`: see
    /// [`super::Supervisor::run_with`].
    pub fn run(self, host: &Host, argv: &Argv, confirm: Confirm<'a>) -> Outcome {
        let Begun { mut run, waiting } = self;
        run.confirm = confirm;
        if let (Some(guard), Some((socket, number))) = (&argv.guard, waiting) {
            let signal_mask = Some(run.signals.before().to_string());
            let plan = GuardPlan { report: Some(number), signal_mask, ..guard.plan.clone() };
            run.plan = Outgoing::new(socket, plan.to_text().into_bytes()).go_on();
        }
        let foreground = Foreground::now();
        let ended = run.until_bwrap_ended();
        if ended.is_err() {
            run.bwrap_process.signal(Signal::KILL);
        }
        let status = run.bwrap.wait();
        let status = ended.and(status);
        run.end_all();
        run.streams.hand_back();
        foreground.iter().for_each(Foreground::take_back);
        match status {
            Ok(status) => run.outcome(status, host, &argv.program),
            Err(e) => Outcome::Failed(cannot("wait for bwrap", &e)),
        }
    }
}
