//! `agent-sandbox -- CMD` and `--print-args`: the main job.

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::launch::{self, Basis, Outcome, Supervisor, exit_code};
use crate::lower::{Argv, Engine};
use crate::pipeline::{self, Compiled};
use crate::print::{self, Form};
use crate::protection::{self, Lack};
use crate::rule::Protection;
use crate::session::{Request, Session};

use super::args::{Arguments, mistake};
use super::debug;
use super::output::Output;

pub(super) fn run(host: &Host, arguments: &Arguments, output: &Output) -> ExitCode {
    let form = arguments.options.print_args.map(Form::from);
    if arguments.command.is_empty() && form.is_none() {
        let message = "no command to run\n\n  tip: `agent-sandbox -- COMMAND [ARGS]…`; `--help` shows all that can stand before it";
        let _ = mistake(ErrorKind::MissingRequiredArgument, message).print();
        return ExitCode::from(exit_code::USAGE);
    }
    let mut before = Before::default();
    loop {
        let prepared = match prepare(host, arguments, output, &before) {
            Ok(prepared) => prepared,
            Err(code) => return ExitCode::from(code),
        };
        if let Some(form) = form {
            return print_as(form, &prepared.argv, output);
        }
        // The next attempt must find the caller's signal mask, so the supervisor of this one goes first.
        match prepared.start(host, arguments.options.exec, output) {
            Err(diagnostic) => return fail(diagnostic, output),
            Ok((Outcome::Unavailable(why), supervisor)) if before.without_guard.is_none() => {
                drop(supervisor);
                before.without_guard = Some(why);
            }
            Ok((Outcome::Changed(_), supervisor)) if before.changed < RETRIES => {
                drop(supervisor);
                before.changed += 1;
            }
            Ok((outcome, supervisor)) => return conclude(outcome, supervisor, output),
        }
    }
}

/// Files come and go while a sandbox is set up (an editor's `.env.tmp`), and the guard refuses a plan that is out of date. What then
/// does not help is to try for ever.
const RETRIES: usize = 3;

/// What earlier attempts came to.
#[derive(Default)]
struct Before {
    /// The second stage cannot work here, for this reason.
    without_guard: Option<String>,
    /// How often something had changed since it was looked at.
    changed: usize,
}

/// All that a start needs.
struct Prepared {
    session: Session,
    request: Request,
    compiled: Compiled,
    engine: Engine,
    argv: Argv,
}

impl Prepared {
    /// Returns when the command has ended, if at all, and all that was put up for it is gone. Signals wait while the supervisor
    /// lives: what is put up is taken away again.
    fn start(mut self, host: &Host, exec: bool, output: &Output) -> Result<(Outcome, Supervisor), Diagnostic> {
        if exec {
            launch::note_identities(host, &mut self.argv)?;
            if let Some(guard) = &mut self.argv.guard {
                guard.plan.json = output.is_json();
            }
            return Err(launch::exec(&self.argv));
        }
        let supervisor = Supervisor::new()?;
        let undo = launch::undo::prepare(host, &self.session, &self.compiled, &self.argv)?;
        let thorough = undo.has_company();
        let note = if thorough { launch::note_all_identities } else { launch::note_identities };
        let outcome = match note(host, &mut self.argv) {
            Ok(()) => {
                let Self { session, request, engine, argv, .. } = &self;
                let basis = Basis { host, session, request, engine };
                supervisor.run_if(host, argv, &|| basis.confirm(argv, &undo, thorough))
            }
            Err(diagnostic) => Outcome::Failed(diagnostic),
        };
        output.report(&undo.finish());
        Ok((outcome, supervisor))
    }
}

fn print_as(form: Form, argv: &Argv, output: &Output) -> ExitCode {
    if let Some(warning) = print::incomplete(argv, form) {
        output.report_one(warning);
    }
    output.print(&print::print(argv, form))
}

fn conclude(outcome: Outcome, supervisor: Supervisor, output: &Output) -> ExitCode {
    match outcome {
        Outcome::Ended(ending) => supervisor.conclude(ending),
        Outcome::Failed(diagnostic) | Outcome::Changed(diagnostic) => fail(diagnostic, output),
        Outcome::Unavailable(why) => fail(Diagnostic::new(Code::StartFailed, why), output),
    }
}

fn fail(diagnostic: Diagnostic, output: &Output) -> ExitCode {
    let code = exit_code::of(diagnostic.code);
    output.report_one(diagnostic);
    ExitCode::from(code)
}

/// Everything up to the start. All diagnostics have been shown when this returns.
///
/// `before`: what earlier attempts showed.
fn prepare(host: &Host, arguments: &Arguments, output: &Output, before: &Before) -> Result<Prepared, u8> {
    let options = &arguments.options;
    let will_run = options.print_args.is_none();
    let fail = |diagnostic: Diagnostic| {
        let code = exit_code::of(diagnostic.code);
        output.report_one(diagnostic);
        code
    };
    let session = super::session(options.cwd.as_deref()).map_err(fail)?;
    if session.executable.is_none() && !options.no_guard {
        return Err(fail(
            Diagnostic::new(
                Code::GuardUnavailable,
                "the second stage is this program, and `/proc` does not say where it is",
            )
            .help("see that `/proc` is mounted, or run on bwrap alone with `--no-guard`"),
        ));
    }
    if will_run {
        launch::check_caller(host, &session, options.allow_root).map_err(fail)?;
    }
    let mut diagnostics = Diagnostics::default();
    let request = Request { no_guard: options.no_guard || before.without_guard.is_some(), ..options.request() };
    let compiled = pipeline::compile(host, &session, &request, &mut diagnostics);
    let lowered = compiled.as_ref().and_then(|compiled| {
        if options.debug {
            output.debug(&debug::stages(compiled));
        }
        if !will_run {
            compiled.warn_of_widening(host, &mut diagnostics);
        }
        if let Some(warning) = launch::own_sandbox(host, compiled, &arguments.command) {
            diagnostics.push(warning);
        }
        let engine =
            launch::engine(host, &session, compiled).map_err(|diagnostic| diagnostics.push(diagnostic)).ok()?;
        if options.debug {
            output.debug(&debug::engine(&engine, compiled));
        }
        let argv = compiled.argv(&session, &engine, &arguments.command, &mut diagnostics);
        Some((engine, argv))
    });
    if before.without_guard.is_some() || before.changed > 0 {
        // The first attempt said the rest.
        diagnostics.keep_errors();
    }
    if let (Some(why), Some(compiled)) = (before.without_guard.clone(), &compiled) {
        let lack = Lack { protection: Protection::Guard, why };
        protection::report(&[lack], &compiled.policy.require, &mut diagnostics);
    }
    output.report(&diagnostics);
    let (Some(compiled), Some((engine, argv)), false) = (compiled, lowered, diagnostics.has_errors()) else {
        return Err(exit_code::OWN_FAILURE);
    };
    if options.debug {
        output.debug(&debug::argv(&argv));
    }
    if will_run {
        // Without the second stage nobody tells whether the command has started, so whether it can is tried before.
        let ready = if options.exec || !compiled.guard { launch::ready } else { launch::ready_to_supervise };
        ready(host, &session, &compiled, &argv).map_err(fail)?;
    }
    Ok(Prepared { session, request, compiled, engine, argv })
}
