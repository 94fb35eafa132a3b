//! The command-line interface.

mod answer;
mod args;
mod check;
mod completions;
mod debug;
mod diff;
mod doctor;
mod explain;
mod explain_inside;
mod init;
mod lint;
mod man;
mod output;
pub mod print;
mod private;
mod progress;
mod report;
mod run;
mod schema;
mod show;
mod style;
mod sweep;
mod trust;
mod verify;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use rustix::process::{Resource, getrlimit};

use crate::audit;
use crate::compile::layers::{self, Project};
use crate::compile::{Compiled, Request, guard_plan};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, exit_code, render};
use crate::guard;
use crate::host::{Host, Session};
use crate::launch::is_inside;
use crate::policy::AbsPath;
use crate::sys::signals;
use crate::trust::{self as judging, Judged};

use answer::{Answered, CliError};
use args::{Options, Subcommand};
pub use explain::text as explained;
use output::Output;
pub use show::{Folding, text as shown};
pub use style::Paint;

/// The smallest stack limit with which agent-sandbox starts, in bytes. A fourth of it suffices.
const SMALLEST_STACK: u64 = 1 << 20;

/// The calling process, as if it had been started in `cwd`. This executable is agent-sandbox.
fn session(cwd: Option<&Path>) -> Result<Session, Diagnostic> {
    let executable = std::env::current_exe().ok().and_then(AbsPath::normalize);
    Ok(Session { executable, ..Session::of_this_process(cwd)? })
}

/// The project that the working directory belongs to. Mistakes in policy files do not matter.
fn project(host: &Host, session: &Session, request: &Request) -> Result<Project, Diagnostic> {
    let request = Request { no_project_config: true, ..request.clone() };
    let mut diagnostics = Diagnostics::default();
    let layers = layers::discover(&host.with_cache(), session, &request, &mut diagnostics);
    layers.map(|layers| layers.project).ok_or_else(|| {
        diagnostics
            .first_error()
            .cloned()
            .unwrap_or_else(|| Diagnostic::new(Code::InvalidCwd, "there is no project here"))
    })
}

/// Compiles the policy for commands that start no sandbox, and prints all diagnostics. `more` adds
/// diagnostics about the result. `None` if there are errors.
fn judge(
    host: &Host,
    (session, request): (&Session, &Request),
    options: &Options,
    output: &Output,
    more: impl FnOnce(&Judged, &mut Diagnostics),
) -> Option<Judged> {
    let mut diagnostics = Diagnostics::default();
    let judged = judging::compile(host, session, request, &mut diagnostics);
    if let Some(judged) = &judged {
        more(judged, &mut diagnostics);
    }
    output.report(&diagnostics);
    let judged = judged.filter(|_| !diagnostics.has_errors())?;
    if options.debug {
        output.debug(&debug::stages(&judged.compiled, judged.widening.as_ref()));
    }
    Some(judged)
}

fn compile(host: &Host, options: &Options, output: &Output) -> Result<Compiled, CliError> {
    let session = session(options.cwd.as_deref())?;
    let judged = judge(host, (&session, &options.request()), options, output, |judged, diagnostics| {
        audit::lint::report_idle(host, &judged.compiled, diagnostics);
        diagnostics.extend(judged.warning(host));
    });
    judged.map(|judged| judged.compiled).ok_or(CliError::Reported)
}

/// The request that a command line makes. As for `main`, the name of the program comes first.
pub fn request(args: &[OsString]) -> Result<Request, clap::Error> {
    Ok(args::parse(args)?.options.request())
}

pub fn main(args: Vec<OsString>) -> ExitCode {
    #[cfg(feature = "ablate")]
    crate::sys::ablate::check_names();
    // Only agent-sandbox itself starts the guard, so clap does not know it.
    if let [_, first, rest @ ..] = args.as_slice()
        && first == guard_plan::SUBCOMMAND
    {
        return guard::main(rest);
    }
    if let Some(refusal) = too_small_stack() {
        eprint!("{}", render(&Diagnostics::from_iter([refusal]), Format::Text { color: false }));
        return ExitCode::from(exit_code::OWN_FAILURE);
    }
    signals::ignore_sigxfsz();
    let arguments = match args::parse(&args) {
        Ok(arguments) => arguments,
        Err(error) => return answer::usage(&error),
    };
    let output = Output::new(&arguments.options);
    let host = output.watch(Host::system());
    let options = &arguments.options;
    let report = |error: CliError| error.report(&output);
    if let Some(refusal) = refuse_inside(&host, arguments.subcommand.as_ref()) {
        return report(refusal.into());
    }
    let answered = match &arguments.subcommand {
        None if options.inside => inside(&host, &output),
        None => return run::run(&host, &arguments, &output).unwrap_or_else(report),
        Some(Subcommand::Verify(arguments)) => {
            return verify::run(&host, options, arguments, &output).unwrap_or_else(report);
        }
        Some(Subcommand::VerifyProbe { exceed: true, .. }) => verify::exceed(),
        Some(Subcommand::VerifyProbe { on_host, .. }) => verify::answer(*on_host, &output),
        Some(Subcommand::DoctorProbe) => doctor::answer(&output),
        Some(Subcommand::Check(arguments)) => check::run(&host, options, arguments, &output),
        Some(Subcommand::Explain(arguments)) => explain::run(&host, options, arguments, &output),
        Some(Subcommand::Show(arguments)) => show::run(&host, options, arguments, &output),
        Some(Subcommand::Diff(arguments)) => diff::run(&host, options, arguments, &output),
        Some(Subcommand::Doctor(arguments)) => doctor::run(&host, options, arguments, &output),
        Some(Subcommand::Init(arguments)) => init::run(&host, options, arguments, &output),
        Some(Subcommand::Trust(arguments)) => trust::run(&host, options, arguments, &output),
        Some(Subcommand::Lint(arguments)) => lint::run(&host, options, arguments, &output),
        Some(Subcommand::Report(arguments)) => report::run(&host, options, arguments, &output),
        Some(Subcommand::Private(arguments)) => private::run(&host, options, arguments, &output),
        Some(Subcommand::Schema(arguments)) => schema::run(arguments, &output),
        Some(Subcommand::Sweep) => sweep::run(&host, options, &output),
        Some(Subcommand::Completions(arguments)) => completions::run(arguments, &output),
        Some(Subcommand::Man(arguments)) => man::run(arguments, &output),
    };
    answered.map_or_else(report, answer::exit_code)
}

/// Refuses a stack that is too small. A stack overflow would end the process without a helpful
/// message.
fn too_small_stack() -> Option<Diagnostic> {
    let limit = getrlimit(Resource::Stack).current.filter(|limit| *limit < SMALLEST_STACK)?;
    let message = format!("the stack is limited to {} KiB (`ulimit -s`)", limit / 1024);
    let help = format!(
        "give agent-sandbox {} KiB; `sh -c 'ulimit -s {}; exec COMMAND'` limits the command alone",
        SMALLEST_STACK / 1024,
        limit / 1024
    );
    Some(Diagnostic::new(Code::StartFailed, message).help(help))
}

/// Refuses a subcommand that would answer about the wrong files inside a sandbox.
fn refuse_inside(host: &Host, subcommand: Option<&Subcommand>) -> Option<Diagnostic> {
    let name = match subcommand? {
        Subcommand::Show(_) => "show",
        Subcommand::Lint(_) => "lint",
        Subcommand::Diff(_) => "diff",
        Subcommand::Report(_) => "report",
        Subcommand::Private(_) => "private",
        Subcommand::Sweep => "sweep",
        _ => return None,
    };
    let message = format!("`agent-sandbox {name}` does not work inside a sandbox");
    let help = "use `agent-sandbox explain PATH` inside, or read the whole policy in `/run/agent-sandbox/README`";
    is_inside(host).then(|| Diagnostic::new(Code::AlreadyInside, message).help(help))
}

/// `--inside`.
fn inside(host: &Host, output: &Output) -> Answered {
    let is_inside = is_inside(host);
    output.print(if is_inside { b"inside sandbox\n" } else { b"outside sandbox\n" })?;
    Ok(is_inside)
}
