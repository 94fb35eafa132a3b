//! `agent-sandbox -- CMD` and `--print-args`: the main job.

use std::process::ExitCode;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::launch::{self, exit_code};
use crate::lower::Argv;
use crate::pipeline::{self, Compiled};
use crate::print;
use crate::session::Session;

use super::args::Arguments;
use super::debug;
use super::output::Output;

pub fn run(host: &Host, arguments: &Arguments, output: &Output) -> ExitCode {
    let options = &arguments.options;
    if arguments.command.is_empty() && options.print_args.is_none() {
        let message = "no command to run\n\n  tip: `agent-sandbox -- COMMAND [ARGS]…`; `--help` shows all that can stand before it";
        let _ = super::definition().error(clap::error::ErrorKind::MissingRequiredArgument, message).print();
        return ExitCode::from(exit_code::USAGE);
    }
    match prepare(host, arguments, output) {
        Err(code) => ExitCode::from(code),
        Ok(argv) => match options.print_args {
            Some(form) => output.print(&print::print(&argv, form)),
            None => {
                output.report_one(launch::exec(&argv));
                ExitCode::from(exit_code::OWN_FAILURE)
            }
        },
    }
}

/// Everything up to the exec. All diagnostics have been shown when this returns.
fn prepare(host: &Host, arguments: &Arguments, output: &Output) -> Result<Argv, u8> {
    let options = &arguments.options;
    let will_run = options.print_args.is_none();
    let fail = |diagnostic: Diagnostic| {
        let code = exit_code_of(diagnostic.code);
        output.report_one(diagnostic);
        code
    };
    let session = super::session(options.cwd.as_deref()).map_err(fail)?;
    if will_run {
        launch::check_caller(host, &session, options.allow_root).map_err(fail)?;
    }
    let mut diagnostics = Diagnostics::default();
    let compiled = pipeline::compile(host, &session, &options.request(), &mut diagnostics);
    let argv = compiled.as_ref().and_then(|compiled| {
        if options.debug {
            output.say(&debug::stages(compiled));
        }
        let bwrap = launch::find_bwrap(host, &session, &compiled.layers.project, &compiled.plan)
            .map_err(|diagnostic| diagnostics.push(diagnostic))
            .ok()?;
        Some(compiled.argv(&session, &bwrap, &arguments.command, &mut diagnostics))
    });
    output.report(&diagnostics);
    let (Some(compiled), Some(argv), false) = (compiled, argv, diagnostics.has_errors()) else {
        return Err(exit_code::OWN_FAILURE);
    };
    if options.debug {
        output.say(&debug::argv(&argv));
    }
    if will_run {
        ready(host, &session, &compiled, &argv).map_err(fail)?;
    }
    Ok(argv)
}

/// The last checks, and the only step that changes the host.
fn ready(host: &Host, session: &Session, compiled: &Compiled, argv: &Argv) -> Result<(), Diagnostic> {
    let project = &compiled.layers.project;
    launch::check_owner(host, session, project)?;
    launch::check_availability(host, session, &argv.program)?;
    if let Some(name) = argv.command.first() {
        launch::check_command(host, session, &project.cwd, &compiled.plan, name)?;
    }
    launch::create_directories(host, &argv.create)
}

fn exit_code_of(code: Code) -> u8 {
    match code {
        Code::CommandNotFound => exit_code::NOT_FOUND,
        Code::CommandNotExecutable => exit_code::NOT_EXECUTABLE,
        _ => exit_code::OWN_FAILURE,
    }
}
