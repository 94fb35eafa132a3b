//! `agent-sandbox trust`: agree to what the project's file opens.

use std::process::ExitCode;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::launch::{exit_code, is_inside};
use crate::trust::{self, Widening};
use crate::{path::AbsPath, pipeline};

use super::args::Options;
use super::debug;
use super::output::Output;

/// Agree to what the project's `.agent-sandbox.toml` opens beyond your own settings
///
/// Shows the list and records it, with the hash of the file. A run is refused while a file opens more than was
/// agreed to. Flags that go with every run count here, too.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(host: &Host, options: &Options, _arguments: &Arguments, output: &Output) -> ExitCode {
    match agree(host, options, output) {
        Ok(said) => output.print(said.as_bytes()),
        Err(diagnostic) => {
            if let Some(diagnostic) = diagnostic {
                output.report_one(diagnostic);
            }
            ExitCode::from(exit_code::OWN_FAILURE)
        }
    }
}

/// What to tell the user. `Err(None)` where everything has been said.
fn agree(host: &Host, options: &Options, output: &Output) -> Result<String, Option<Diagnostic>> {
    if is_inside(host) {
        return Err(Some(
            Diagnostic::new(Code::AlreadyInside, "nothing can be trusted from inside a sandbox")
                .help("run `agent-sandbox trust` outside"),
        ));
    }
    let session = super::session(options.cwd.as_deref())?;
    let mut diagnostics = Diagnostics::default();
    let compiled = pipeline::compile(host, &session, &options.request(), &mut diagnostics);
    output.report(&diagnostics);
    let compiled = compiled.filter(|_| !diagnostics.has_errors()).ok_or(None)?;
    if options.debug {
        output.debug(&debug::stages(&compiled));
    }
    match &compiled.widening {
        None => Ok("there is no project file here that says anything: nothing to trust\n".to_owned()),
        Some(widening) if widening.grants.is_empty() => Ok(format!(
            "{} opens nothing beyond your own settings: nothing to trust, nothing was recorded\n",
            widening.name
        )),
        Some(widening) => Ok(recorded(widening, &trust::record(host, &compiled.layers, widening)?)),
    }
}

fn recorded(widening: &Widening, at: &AbsPath) -> String {
    let opened: String = widening.grants.iter().map(|granted| format!("  {granted}\n")).collect();
    format!("{} opens:\n{opened}recorded in {at}: this much, until a byte of the file changes\n", widening.name)
}
