//! `agent-sandbox -- CMD` and `--print-args`: runs or prints a sandbox.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::audit::lint;
use crate::cli::print;
use crate::compile::Compiled;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::launch::{FrontEnd, GivenStreams, Prepared, Ran, Refusal, Sandbox};
use crate::trust::Judged;

use super::answer::{self, CliError};
use super::args::{Arguments, Options, mistake, nearest_subcommand};
use super::debug;
use super::output::Output;

pub(super) fn run(host: &Host, arguments: &Arguments, output: &Output) -> Result<ExitCode, CliError> {
    let options = &arguments.options;
    if arguments.command.is_empty() && options.print_args.is_none() {
        let message = "no command to run\n\n  tip: `agent-sandbox -- COMMAND [ARGS]…`; `--help` shows the options that \
                       can come before `--`";
        return Err(mistake(ErrorKind::MissingRequiredArgument, message).into());
    }
    let sandbox = sandbox(host, options, output)?;
    let with_tips = |refusal| with_tips(refusal, &arguments.command);
    let command = |_: &Compiled| arguments.command.clone();
    let streams = &mut |_: &Prepared| Ok(GivenStreams::default());
    let mut terminal = Terminal { host, options, output, command: &command, streams };
    if let Some(form) = options.print_args {
        let prepared = sandbox.lower(&mut terminal).map_err(with_tips)?;
        if let Some(warning) = print::incomplete(&prepared.argv, form) {
            output.report_one(warning);
        }
        return output.print(&print::print(&prepared.argv, form)).map(answer::exit_code);
    }
    if options.exec {
        return Err(with_tips(sandbox.exec(&mut terminal)).into());
    }
    let Ran { conclusion, supervisor, .. } = sandbox.run(&mut terminal).map_err(with_tips)?;
    let ending = conclusion.ending().map_err(|failure| with_tips(failure.into()))?;
    Ok(supervisor.conclude(ending))
}

pub(super) fn sandbox(host: &Host, options: &Options, output: &Output) -> Result<Sandbox, Diagnostic> {
    let session = super::session(options.cwd.as_deref())?;
    if session.executable.is_none() && !options.mounts.no_guard {
        let message = "the guard is this program, and `/proc` does not say where it is";
        let help = "make sure that `/proc` is mounted, or run on bwrap alone with `--no-guard`";
        return Err(Diagnostic::new(Code::GuardUnavailable, message).help(help));
    }
    let sandbox = Sandbox::new(host.clone(), session, options.request());
    Ok(Sandbox { allow_root: options.allow_root, json: output.is_json(), ..sandbox })
}

/// The command line as the front end of a run.
pub(super) struct Terminal<'a> {
    pub(super) host: &'a Host,
    pub(super) options: &'a Options,
    pub(super) output: &'a Output,
    pub(super) command: &'a dyn Fn(&Compiled) -> Vec<OsString>,
    pub(super) streams: &'a mut dyn FnMut(&Prepared) -> Result<GivenStreams, Diagnostic>,
}

impl FrontEnd for Terminal<'_> {
    fn command(&self, compiled: &Compiled) -> Vec<OsString> {
        (self.command)(compiled)
    }

    fn compiled(&mut self, judged: &Judged, said: &mut Diagnostics) {
        if self.options.debug {
            self.output.debug(&debug::stages(&judged.compiled, judged.widening.as_ref()));
        }
        lint::report_idle(self.host, &judged.compiled, said);
    }

    fn lowered(&mut self, Prepared { judged, machine, argv, .. }: &Prepared) {
        if self.options.debug {
            self.output.debug(&debug::machine(machine, &judged.compiled));
            self.output.debug(&format!("argv:\n{}", argv.to_shell()));
        }
    }

    fn tell(&mut self, said: &Diagnostics) {
        self.output.report(said);
    }

    fn warn_during_run(&mut self, said: &Diagnostics) {
        self.output.warn_during_run(said);
    }

    fn report(&mut self, said: &Diagnostics, is_kept: bool) -> bool {
        self.output.report_run(said, is_kept)
    }

    fn shows_reports(&self) -> bool {
        !self.options.quiet
    }

    fn streams(&mut self, prepared: &Prepared) -> Result<GivenStreams, Diagnostic> {
        (self.streams)(prepared)
    }
}

fn with_tips(Refusal(diagnostics): Refusal, command: &[OsString]) -> Refusal {
    Refusal(diagnostics.iter().cloned().map(|diagnostic| with_tip(diagnostic, command)).collect())
}

/// A mistyped subcommand looks like a command that does not exist.
fn with_tip(diagnostic: Diagnostic, words: &[OsString]) -> Diagnostic {
    let is_not_found = diagnostic.code == Code::CommandNotFound;
    let command = words.first().filter(|_| is_not_found).and_then(|command| command.to_str());
    match command.and_then(nearest_subcommand) {
        _ if command.is_some_and(|command| ["run", "exec"].contains(&command)) => {
            let rest = print::display_args(words.get(1..).unwrap_or_default());
            let rest = if rest.is_empty() { "COMMAND".to_owned() } else { rest };
            diagnostic.help(format!("no subcommand is needed: `agent-sandbox -- {rest}`"))
        }
        Some(name) => diagnostic.help(format!("did you mean `agent-sandbox {name}`?")),
        None => diagnostic,
    }
}
