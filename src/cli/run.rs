//! `agent-sandbox -- CMD` and `--print-args`: the main job.

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::launch::{self, Outcome, Starter, Supervisor, exit_code};
use crate::lower::Argv;
use crate::pipeline;
use crate::print::{self, Form};
use crate::session::Session;

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
    match prepare(host, arguments, output) {
        Err(code) => ExitCode::from(code),
        Ok(argv) => match form {
            Some(form) => print_as(form, &argv, output),
            None => start(host, &argv, arguments.options.exec, output),
        },
    }
}

fn print_as(form: Form, argv: &Argv, output: &Output) -> ExitCode {
    if let Some(warning) = print::incomplete(argv, form) {
        output.report_one(warning);
    }
    output.print(&print::print(argv, form))
}

/// Returns when the command has ended, if at all.
fn start(host: &Host, argv: &Argv, exec: bool, output: &Output) -> ExitCode {
    let fail = |diagnostic: Diagnostic| {
        let code = exit_code::of(diagnostic.code);
        output.report_one(diagnostic);
        ExitCode::from(code)
    };
    let starter = match launch::own_executable() {
        Ok(executable) => Starter::Guard(executable),
        Err(diagnostic) => return fail(diagnostic),
    };
    if exec {
        return fail(launch::exec(argv, &starter));
    }
    let supervisor = match Supervisor::new() {
        Ok(supervisor) => supervisor,
        Err(diagnostic) => return fail(diagnostic),
    };
    let outcome = supervisor.run(host, argv, &starter);
    // Here nothing inside lives any more, and no signal interrupts us yet.
    match outcome {
        Outcome::Ended(ending) => supervisor.conclude(ending),
        Outcome::Failed(diagnostic) => fail(diagnostic),
        Outcome::Unavailable(why) => fail(Diagnostic::new(Code::StartFailed, why)),
    }
}

/// Everything up to the start. All diagnostics have been shown when this returns.
fn prepare(host: &Host, arguments: &Arguments, output: &Output) -> Result<Argv, u8> {
    let options = &arguments.options;
    let will_run = options.print_args.is_none();
    let fail = |diagnostic: Diagnostic| {
        let code = exit_code::of(diagnostic.code);
        output.report_one(diagnostic);
        code
    };
    let session = Session::of_this_process(options.cwd.as_deref()).map_err(fail)?;
    if will_run {
        launch::check_caller(host, &session, options.allow_root).map_err(fail)?;
    }
    let mut diagnostics = Diagnostics::default();
    let compiled = pipeline::compile(host, &session, &options.request(), &mut diagnostics);
    let argv = compiled.as_ref().and_then(|compiled| {
        if options.debug {
            output.debug(&debug::stages(compiled));
        }
        let bwrap =
            launch::find_bwrap(host, &session, compiled).map_err(|diagnostic| diagnostics.push(diagnostic)).ok()?;
        Some(compiled.argv(&session, &bwrap, &arguments.command, &mut diagnostics))
    });
    output.report(&diagnostics);
    let (Some(compiled), Some(argv), false) = (compiled, argv, diagnostics.has_errors()) else {
        return Err(exit_code::OWN_FAILURE);
    };
    if options.debug {
        output.debug(&debug::argv(&argv));
    }
    if will_run {
        let ready = if options.exec { launch::ready } else { launch::ready_to_supervise };
        ready(host, &session, &compiled, &argv).map_err(fail)?;
    }
    Ok(argv)
}
