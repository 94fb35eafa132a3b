//! The command line: arguments in, exit code out.

mod args;
mod check;
mod completions;
mod debug;
mod diff;
mod doctor;
mod explain;
mod init;
mod lint;
mod man;
mod misplaced;
mod output;
pub mod print;
mod progress;
mod run;
mod schema;
mod show;
mod style;
mod subcommand;
mod sweep;
mod trust;
mod verify;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::audit;
use crate::compile::Compiled;
use crate::compile::guard_plan;
use crate::compile::layers::{self, Project};
use crate::compile::request::Request;
use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::guard;
use crate::host::Host;
use crate::host::session::Session;
use crate::launch::is_inside;
use crate::policy::path::AbsPath;
use crate::trust as judging;

use args::Options;
pub use explain::plain as explained;
use output::Output;
pub use show::{Folding, plain as shown};
use subcommand::Subcommand;

/// The calling process, as if it had been started in `cwd`. This executable is agent-sandbox.
fn session(cwd: Option<&Path>) -> Result<Session, Diagnostic> {
    let executable = std::env::current_exe().ok().and_then(AbsPath::normalize);
    Ok(Session { executable, ..Session::of_this_process(cwd)? })
}

/// The same, or what is left to do where that cannot be told: the reason has been shown.
fn session_or_code(options: &Options, output: &Output) -> Result<Session, ExitCode> {
    session(options.cwd.as_deref()).map_err(|diagnostic| output.failed(diagnostic))
}

/// The project here, whatever its own file says, and whatever mistakes there are in other files.
fn project(host: &Host, session: &Session, request: &Request) -> Result<Project, Diagnostic> {
    let request = Request { no_project_config: true, ..request.clone() };
    let mut diagnostics = Diagnostics::default();
    let layers = layers::discover(host, session, &request, &mut diagnostics);
    layers.map(|layers| layers.project).ok_or_else(|| {
        let why = diagnostics.iter().find(|diagnostic| diagnostic.severity() == Severity::Error).cloned();
        why.unwrap_or_else(|| Diagnostic::new(Code::InvalidCwd, "there is no project here"))
    })
}

/// The policy that these options give here, for who looks and starts nothing, with everything said that is to be said about it.
/// `Err` where it cannot be run.
fn compile(host: &Host, options: &Options, output: &Output) -> Result<Compiled, ExitCode> {
    let session = session_or_code(options, output)?;
    let mut diagnostics = Diagnostics::default();
    let judged = judging::compile(host, &session, &options.request(), &mut diagnostics);
    if let Some(judged) = &judged {
        audit::lint::idle_flags(host, &judged.compiled, &mut diagnostics);
    }
    let judged = judged.filter(|_| !diagnostics.has_errors());
    judged.iter().filter_map(|judged| judged.warning(host)).for_each(|warning| diagnostics.push(warning));
    output.report(&diagnostics);
    let judged = judged.ok_or(ExitCode::from(exit_code::OWN_FAILURE))?;
    if options.debug {
        output.debug(&debug::stages(&judged.compiled, judged.widening.as_ref()));
    }
    Ok(judged.compiled)
}

/// What a command line asks for. `words` are those that `main` takes: the name of the program comes first.
pub fn request(words: &[OsString]) -> Result<Request, clap::Error> {
    Ok(args::parse(words)?.options.request())
}

pub fn main(words: Vec<OsString>) -> ExitCode {
    #[cfg(feature = "ablate")]
    crate::sys::ablate::check_names();
    // Not a subcommand for people, and not worth the time that it takes to understand flags.
    if let [_, first, rest @ ..] = words.as_slice()
        && first == guard_plan::SUBCOMMAND
    {
        return guard::main(rest);
    }
    let arguments = match args::parse(&words) {
        Ok(arguments) => arguments,
        Err(e) => {
            // Nothing can be done about a closed stream here, and the exit code stays true.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { exit_code::USAGE } else { 0 });
        }
    };
    let options = &arguments.options;
    let output = Output::new(options);
    let host = output.watch(Host::system());
    match &arguments.subcommand {
        Some(Subcommand::Schema(arguments)) => schema::run(arguments, &output),
        Some(Subcommand::Sweep) => sweep::run(&host, options, &output),
        Some(Subcommand::DoctorProbe) => doctor::answer(&output),
        Some(Subcommand::VerifyProbe { on_host }) => verify::answer(*on_host, &output),
        Some(Subcommand::Check { file }) => check::run(&host, &arguments, file.as_deref(), &output),
        Some(Subcommand::Explain(arguments)) => explain::run(&host, options, arguments, &output),
        Some(Subcommand::Show(arguments)) => show::run(&host, options, arguments, &output),
        Some(Subcommand::Diff(arguments)) => diff::run(&host, options, arguments, &output),
        Some(Subcommand::Verify(arguments)) => verify::run(&host, options, arguments, &output),
        Some(Subcommand::Doctor(arguments)) => doctor::run(&host, options, arguments, &output),
        Some(Subcommand::Init(arguments)) => init::run(&host, options, arguments, &output),
        Some(Subcommand::Trust(arguments)) => trust::run(&host, options, arguments, &output),
        Some(Subcommand::Lint(arguments)) => lint::run(&host, options, arguments, &output),
        Some(Subcommand::Completions(arguments)) => completions::run(arguments, &output),
        Some(Subcommand::Man(arguments)) => man::run(arguments, &output),
        None if options.check => {
            let (answer, code) = if is_inside(&host) { ("inside sandbox\n", 0) } else { ("outside sandbox\n", 1) };
            output.print(answer.as_bytes());
            ExitCode::from(code)
        }
        None => run::run(&host, &arguments, &output),
    }
}
