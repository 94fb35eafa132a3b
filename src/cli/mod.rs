//! The command line: arguments in, exit code out.

mod args;
mod check;
mod debug;
mod output;
mod probe;
mod run;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::config;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::launch::{exit_code, is_inside};
use crate::path::AbsPath;
use crate::session::Session;

use args::{Arguments, Subcommand};
use output::Output;

pub use args::definition;

pub fn main(words: Vec<OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(e) => {
            // Nothing can be done about a closed stream here, and the exit code stays true.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { exit_code::USAGE } else { 0 });
        }
    };
    if let Some(message) = args::misplaced_value(&words, &arguments).or_else(|| args::misplaced_flag(&arguments)) {
        let _ = message.print();
        return ExitCode::from(exit_code::USAGE);
    }
    let output = Output::new(&arguments.options);
    let host = Host::system();
    match &arguments.subcommand {
        Some(Subcommand::Schema) => output.print(format!("{:#}\n", config::schema()).as_bytes()),
        Some(Subcommand::Probe) => probe::run(&output),
        Some(Subcommand::Check { file }) => check::run(&host, &arguments, file.as_deref(), &output),
        None if arguments.options.check => {
            let (answer, code) = if is_inside(&host) { ("inside sandbox\n", 0) } else { ("outside sandbox\n", 1) };
            output.print(answer.as_bytes());
            ExitCode::from(code)
        }
        None => run::run(&host, &arguments, &output),
    }
}

/// The calling process, with `--cwd` applied.
fn session(cwd: Option<&Path>) -> Result<Session, Diagnostic> {
    // `absolute` needs no current directory for a path that is absolute already.
    let cwd = std::path::absolute(cwd.unwrap_or(Path::new("."))).map_err(|e| {
        Diagnostic::new(Code::InvalidCwd, format!("cannot determine the working directory: {}", reason(&e)))
            .help("start from an existing directory, or name one with `--cwd DIR`")
    })?;
    Ok(Session {
        cwd: AbsPath::normalize(cwd).unwrap_or_else(AbsPath::root),
        uid: rustix::process::getuid().as_raw(),
        env: std::env::vars_os().collect(),
    })
}
