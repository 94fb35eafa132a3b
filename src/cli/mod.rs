//! The command line: arguments in, exit code out.

mod args;
mod check;
mod debug;
mod output;
mod probe;
mod run;
mod sweep;
mod trust;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::config;
use crate::diagnostic::Diagnostic;
use crate::exit_code;
use crate::guard;
use crate::guard_plan;
use crate::host::Host;
use crate::launch::is_inside;
use crate::path::AbsPath;
use crate::session::{Request, Session};

use args::Subcommand;
use output::Output;

/// The calling process, as if it had been started in `cwd`. This executable is agent-sandbox.
fn session(cwd: Option<&Path>) -> Result<Session, Diagnostic> {
    let executable = std::env::current_exe().ok().and_then(AbsPath::normalize);
    Ok(Session { executable, ..Session::of_this_process(cwd)? })
}

/// What a command line asks for. `words` are those that `main` takes: the name of the program comes first.
pub fn request(words: &[OsString]) -> Result<Request, clap::Error> {
    Ok(args::parse(words)?.options.request())
}

pub fn main(words: Vec<OsString>) -> ExitCode {
    #[cfg(feature = "ablate")]
    crate::ablate::check_names();
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
    let output = Output::new(&arguments.options);
    let host = Host::system();
    match &arguments.subcommand {
        Some(Subcommand::Schema) => output.print(format!("{:#}\n", config::schema()).as_bytes()),
        Some(Subcommand::Sweep) => sweep::run(&host, &arguments.options, &output),
        Some(Subcommand::Probe) => probe::run(&output),
        Some(Subcommand::Check { file }) => check::run(&host, &arguments, file.as_deref(), &output),
        Some(Subcommand::Trust) => trust::run(&host, &arguments, &output),
        None if arguments.options.check => {
            let (answer, code) = if is_inside(&host) { ("inside sandbox\n", 0) } else { ("outside sandbox\n", 1) };
            output.print(answer.as_bytes());
            ExitCode::from(code)
        }
        None => run::run(&host, &arguments, &output),
    }
}
