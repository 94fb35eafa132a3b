//! `agent-sandbox -- CMD` and `--print-args`: the main job.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::audit::lint;
use crate::cli::print::{self, Form};
use crate::compile::Compiled;
use crate::compile::lower::{Argv, Engine};
use crate::compile::protection::{self, Lack};
use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::guard::report::{self, Answer, Report};
use crate::host::Host;
use crate::host::session::{Request, Session};
use crate::launch::aftermath::Watch;
use crate::launch::{self, GivenStreams, Outcome, Recheck, RunHooks, Supervisor};
use crate::placeholders;
use crate::placeholders::{Removed, Traces, Undo};
use crate::policy::rule::Protection;
use crate::sys::ablate::{self, Mitigation, Point};
use crate::trust;

use super::args::{Arguments, Options, mistake};
use super::debug;
use super::output::Output;
use super::subcommand;

pub(super) fn run(host: &Host, arguments: &Arguments, output: &Output) -> ExitCode {
    let form = arguments.options.print_args.map(Form::from);
    if arguments.command.is_empty() && form.is_none() {
        let message = "no command to run\n\n  tip: `agent-sandbox -- COMMAND [ARGS]…`; `--help` shows all that can stand before it";
        let _ = mistake(ErrorKind::MissingRequiredArgument, message).print();
        return ExitCode::from(exit_code::USAGE);
    }
    let options = &arguments.options;
    let command = |_: &Compiled| arguments.command.clone();
    if let Some(form) = form {
        return match prepare(host, options, &command, Leaves::WhatRulesAskFor, output, &Before::default()) {
            Ok(prepared) => print_as(form, &prepared.argv, output),
            Err(code) => ExitCode::from(code),
        };
    }
    match start(host, options, &command, Leaves::WhatRulesAskFor, output, &mut |_| Ok(GivenStreams::default())) {
        Ok((outcome, supervisor)) => conclude(outcome, supervisor, &arguments.command, output),
        Err(code) => ExitCode::from(code),
    }
}

/// What stays on the host after a run, of what is made before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    WhatRulesAskFor,
    Nothing,
}

/// Prepares and runs a command. Starts again without the guard if the machine does not allow it, and
/// again if a path changed. Failures before an outcome have been printed; the error is the exit code.
pub(super) fn start(
    host: &Host,
    options: &Options,
    command: &dyn Fn(&Compiled) -> Vec<OsString>,
    leaves: Leaves,
    output: &Output,
    streams: &mut dyn FnMut(&Prepared) -> Result<GivenStreams, Diagnostic>,
) -> Result<(Outcome, Supervisor), u8> {
    let mut before = Before::default();
    loop {
        let prepared = prepare(host, options, command, leaves, output, &before)?;
        // The next attempt must find the caller's signal mask, so the supervisor of this one goes first.
        match prepared.start(host, options.exec, output, streams).map_err(|diagnostic| said(diagnostic, output))? {
            (Outcome::Unavailable(why), supervisor) if before.without_guard.is_none() => {
                drop(supervisor);
                before.without_guard = Some(why);
            }
            (Outcome::Changed(_), supervisor) if before.changed < RETRIES => {
                drop(supervisor);
                before.changed += 1;
            }
            started => return Ok(started),
        }
    }
}

/// A file such as an editor's `.env.tmp` may come or go while a sandbox is set up. The policy is then
/// compiled again and the start repeated this often.
const RETRIES: usize = 3;

/// What earlier attempts came to.
#[derive(Default)]
struct Before {
    /// The guard cannot work here, for this reason.
    without_guard: Option<String>,
    /// How often something had changed since it was looked at.
    changed: usize,
}

/// All that a start needs.
pub(super) struct Prepared {
    pub(super) session: Session,
    request: Request,
    pub(super) compiled: Compiled,
    engine: Engine,
    pub(super) argv: Argv,
    /// Removes at the end what must not stay.
    traces: Option<Traces>,
}

impl Prepared {
    /// Returns when the command has ended, if it started, and its placeholders are gone. Signals wait
    /// while the supervisor lives, so that a signal does not leave placeholders behind. `streams` is
    /// called when all placeholders stand.
    fn start(
        self,
        host: &Host,
        exec: bool,
        output: &Output,
        streams: &mut dyn FnMut(&Prepared) -> Result<GivenStreams, Diagnostic>,
    ) -> Result<(Outcome, Supervisor), Diagnostic> {
        if exec {
            let look = launch::look(host, &self.argv)?;
            if let Some(path) = look.missing() {
                return Err(report::refusal(&format!("`{path}` is gone")));
            }
            return Err(launch::exec(&self.argv, launch::run_sheet(&self.argv, &look, output.is_json())));
        }
        let supervisor = Supervisor::new()?;
        let outcome = self.supervise(host, &supervisor, output, streams)?;
        Ok((outcome, supervisor))
    }

    fn supervise(
        &self,
        host: &Host,
        supervisor: &Supervisor,
        output: &Output,
        streams: &mut dyn FnMut(&Prepared) -> Result<GivenStreams, Diagnostic>,
    ) -> Result<Outcome, Diagnostic> {
        let Self { session, request, compiled, engine, argv, traces } = self;
        let removed = if traces.is_none() { Removed::Kept } else { Removed::Freed };
        let undo = placeholders::put_up_for(host, compiled, argv, removed)?;
        let look = launch::look(host, argv)?;
        if let Some(path) = look.missing() {
            return Ok(Outcome::Changed(report::refusal(&format!("`{path}` is gone"))));
        }
        let given = streams(self)?;
        let sheet = launch::run_sheet(argv, &look, output.is_json());
        let recheck = Recheck::new(host, session, request, engine, look);
        let mut around =
            Around { compiled, argv, recheck, undo: Some(undo), watch: None, said: Diagnostics::default() };
        if argv.guard.is_none() {
            around.while_mounting();
        }
        ablate::pause(Point::BeforeBwrap);
        let outcome = supervisor.run(host, argv, sheet, given, &mut around);
        output.report(&around.said);
        Ok(outcome)
    }
}

/// Work on the host around a supervised run.
struct Around<'a> {
    compiled: &'a Compiled,
    argv: &'a Argv,
    recheck: Recheck<'a>,
    /// Until the end.
    undo: Option<Undo>,
    /// What the reports compare with.
    watch: Option<Watch>,
    /// Reports for the end.
    said: Diagnostics,
}

impl RunHooks for Around<'_> {
    fn while_mounting(&mut self) {
        self.watch = Some(Watch::start(self.recheck.host, self.compiled));
    }

    fn before_exec(&mut self) -> Result<Answer, Report> {
        let gone = || Report::Refused("the placeholders have been removed".to_owned());
        let undo = self.undo.as_ref().ok_or_else(gone)?;
        self.recheck.after_mounting(self.argv, undo)
    }

    fn difference(&mut self) -> Option<String> {
        self.recheck.difference(self.argv)
    }

    fn after_exit(&mut self, close: &dyn Fn() -> io::Result<()>) {
        self.said = self.undo.take().map(|undo| undo.finish_beside(close)).unwrap_or_default();
        if let Some(watch) = &self.watch {
            watch.finish(self.recheck.host, &mut self.said);
        }
    }
}

fn print_as(form: Form, argv: &Argv, output: &Output) -> ExitCode {
    if let Some(warning) = print::incomplete(argv, form) {
        output.report_one(warning);
    }
    output.print(&print::print(argv, form))
}

fn conclude(outcome: Outcome, supervisor: Supervisor, command: &[OsString], output: &Output) -> ExitCode {
    match outcome {
        Outcome::Ended(ending) => supervisor.conclude(ending),
        Outcome::Failed(diagnostic) | Outcome::Changed(diagnostic) => fail(diagnostic, command, output),
        Outcome::Unavailable(why) => fail(Diagnostic::new(Code::StartFailed, why), command, output),
    }
}

fn fail(diagnostic: Diagnostic, command: &[OsString], output: &Output) -> ExitCode {
    ExitCode::from(said(with_tip(diagnostic, command), output))
}

fn said(diagnostic: Diagnostic, output: &Output) -> u8 {
    let code = exit_code::of(diagnostic.code);
    output.report_one(diagnostic);
    code
}

/// A mistyped subcommand looks like a command that does not exist.
fn with_tip(diagnostic: Diagnostic, words: &[OsString]) -> Diagnostic {
    let is_not_found = diagnostic.code == Code::CommandNotFound;
    let command = words.first().filter(|_| is_not_found).and_then(|command| command.to_str());
    match command.and_then(subcommand::nearest) {
        _ if command.is_some_and(|command| ["run", "exec"].contains(&command)) => {
            let rest = print::words_for_people(words.get(1..).unwrap_or_default());
            let rest = if rest.is_empty() { "COMMAND".to_owned() } else { rest };
            diagnostic.help(format!("no subcommand is needed: `agent-sandbox -- {rest}`"))
        }
        Some(name) => diagnostic.help(format!("did you mean `agent-sandbox {name}`?")),
        None => diagnostic,
    }
}

/// Everything up to the start. All diagnostics have been shown when this returns.
///
/// `before`: what earlier attempts showed.
fn prepare(
    host: &Host,
    options: &Options,
    command: &dyn Fn(&Compiled) -> Vec<OsString>,
    leaves: Leaves,
    output: &Output,
    before: &Before,
) -> Result<Prepared, u8> {
    let will_run = options.print_args.is_none();
    let fail = |diagnostic: Diagnostic| said(diagnostic, output);
    let session = super::session(options.cwd.as_deref()).map_err(fail)?;
    if session.executable.is_none() && !options.no_guard {
        return Err(fail(
            Diagnostic::new(Code::GuardUnavailable, "the guard is this program, and `/proc` does not say where it is")
                .help("see that `/proc` is mounted, or run on bwrap alone with `--no-guard`"),
        ));
    }
    let mut diagnostics = Diagnostics::default();
    if will_run {
        let warning = launch::check_caller(host, &session, options.allow_root).map_err(fail)?;
        warning.into_iter().for_each(|warning| diagnostics.push(warning));
    }
    let request = Request { no_guard: options.no_guard || before.without_guard.is_some(), ..options.request() };
    let judged = trust::compile(host, &session, &request, &mut diagnostics);
    let lowered = judged.as_ref().and_then(|judged| {
        let compiled = &judged.compiled;
        if options.debug {
            output.debug(&debug::stages(compiled, judged.widening.as_ref()));
        }
        if !will_run {
            judged.warning(host).into_iter().for_each(|warning| diagnostics.push(warning));
        }
        lint::idle_flags(host, compiled, &mut diagnostics);
        let command = command(compiled);
        if let Some(warning) = launch::own_sandbox(host, compiled, &command) {
            diagnostics.push(warning);
        }
        let engine =
            launch::engine(host, &session, compiled).map_err(|diagnostic| diagnostics.push(diagnostic)).ok()?;
        if options.debug {
            output.debug(&debug::engine(&engine, compiled));
        }
        if will_run && leaves == Leaves::WhatRulesAskFor {
            launch::remember(host, &compiled.layers, &engine);
        }
        let argv = compiled.argv(&engine, &command, &mut diagnostics);
        Some((engine, argv))
    });
    if before.without_guard.is_some() || before.changed > 0 {
        // The first attempt said the rest.
        diagnostics.keep_errors();
    }
    if let (Some(why), Some(judged)) = (before.without_guard.clone(), &judged) {
        let lack = Lack { protection: Protection::Guard, why };
        protection::report(&[lack], &judged.compiled.policy.require, &mut diagnostics);
    }
    output.report(&diagnostics);
    let (Some(judged), Some((engine, mut argv)), false) = (judged, lowered, diagnostics.has_errors()) else {
        return Err(exit_code::OWN_FAILURE);
    };
    if options.debug {
        output.debug(&debug::argv(&argv));
    }
    let compiled = &judged.compiled;
    let traces =
        (leaves == Leaves::Nothing).then(|| placeholders::leave_nothing(host, &compiled.layers.state, &mut argv));
    if will_run {
        // Without the guard no process says whether the command has started, so try it before.
        if let Some(refusal) = judged.refusal(host).filter(|_| !ablate::is_off(Mitigation::Trust)) {
            return Err(fail(refusal));
        }
        let ready = if options.exec || !compiled.guard { launch::ready } else { launch::ready_to_supervise };
        ready(host, &session, compiled, &argv).map_err(|diagnostic| fail(with_tip(diagnostic, &argv.command)))?;
    } else {
        launch::write_mount_files(host, compiled, &argv).map_err(fail)?;
    }
    Ok(Prepared { session, request, compiled: judged.compiled, engine, argv, traces })
}
