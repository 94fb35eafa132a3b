//! A run whose bwrap has been started, and whose second stage waits for its plan.

use std::os::fd::OwnedFd;

use rustix::process::Signal;

use crate::diagnostic::Diagnostic;
use crate::host::Host;
use crate::launch::signals::{self, Shield, Signals};
use crate::launch::streams::Streams;
use crate::launch::terminal::{self, Foreground};
use crate::launch::{cannot_prepare, command_with};
use crate::lower::Argv;

use super::ahead::Ahead;
use super::plan::Outgoing;
use super::run::Run;
use super::started::{Ends, Started};
use super::watch::Watch;
use super::{Attendant, GivenStreams, Outcome, cannot};

/// bwrap, with its words. Nothing of the command's has run, and nothing does before [`Begun::run`]; if that never comes, bwrap ends with this.
pub struct Begun<'a> {
    run: Run<'a>,
    guard: Option<WaitingGuard>,
}

/// A second stage that waits for its plan.
struct WaitingGuard {
    plan: OwnedFd,
    /// The number of the descriptor that it answers to.
    number: i32,
    /// The plan has to tell it all that bwrap was not told.
    started_ahead: bool,
}

impl<'a> Begun<'a> {
    /// With a bwrap that was started ahead, if it has the words of `argv`.
    pub(super) fn new(
        signals: &'a Signals,
        ahead: Option<Ahead>,
        argv: &Argv,
        given: GivenStreams,
    ) -> Result<Self, Diagnostic> {
        let ahead = ahead.filter(|ahead| ahead.is_for(argv));
        let started_ahead = ahead.is_some();
        let Started { bwrap, streams, ends, processors } = match ahead {
            Some(ahead) => ahead.take_up(),
            None => start(signals, argv, given)?,
        };
        let (socket, guard) = match ends {
            None => (None, None),
            Some(Ends { plan, socket, number }) => (Some(socket), Some(WaitingGuard { plan, number, started_ahead })),
        };
        let run = Run {
            signals,
            bwrap,
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
            processors,
            namespaces: None,
            is_command_over: false,
            is_at_rest: false,
            ended: false,
        };
        Ok(Self { run, guard })
    }

    /// Lets the second stage go on with the plan of `argv`, and returns when nothing inside lives any more.
    pub fn run(self, host: &Host, argv: &Argv, attendant: &mut dyn Attendant) -> Outcome {
        let Begun { mut run, guard } = self;
        if let Some(WaitingGuard { plan: socket, number, started_ahead }) = guard {
            let told = argv.told(Some(number), run.signals.before());
            let told = if started_ahead { told.map(|plan| argv.told_all(plan)) } else { told };
            run.plan = told.map(|plan| Outgoing::new(socket, plan.to_text().into_bytes())).and_then(Outgoing::go_on);
            attendant.meanwhile();
        }
        let foreground = Foreground::now();
        let ended = run.until_bwrap_ended(attendant);
        if ended.is_err() {
            run.bwrap.process.signal(Signal::KILL);
        }
        let status = run.bwrap.wait();
        let status = ended.and(status);
        run.end_all();
        run.rest(attendant);
        run.streams.hand_back();
        foreground.iter().for_each(Foreground::take_back);
        match status {
            Ok(status) => run.outcome(status, host, &argv.program),
            Err(e) => Outcome::Failed(cannot("wait for bwrap", &e)),
        }
    }
}

fn start(signals: &Signals, argv: &Argv, given: GivenStreams) -> Result<Started, Diagnostic> {
    let streams = Streams::new()?;
    // Without a guard, bwrap starts the command, and passes no signal on: Ctrl-C, and what is sent to us, ends it and thereby
    // the command.
    let (ends, passed, shield) = match &argv.guard {
        None => (None, Vec::new(), Shield::No(signals.before())),
        Some(guard) => {
            let (ends, passed) = Ends::new(guard.descriptor)?;
            (Some(ends), passed, Shield::Supervised)
        }
    };
    let mut bwrap = command_with(argv, &argv.data, passed, &streams).map_err(|e| cannot_prepare(&e))?;
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
    Started::spawn(&mut bwrap, &argv.program, streams, ends)
}
