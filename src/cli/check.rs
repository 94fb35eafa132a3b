//! `agent-sandbox check [FILE]`: every mistake at once, for people and for CI.

use std::path::Path;
use std::process::ExitCode;

use crate::diagnostic::Diagnostics;
use crate::host::Host;
use crate::launch::exit_code;
use crate::pipeline;

use super::args::Arguments;
use super::debug;
use super::output::Output;

pub fn run(host: &Host, arguments: &Arguments, file: Option<&Path>, output: &Output) -> ExitCode {
    let mut request = arguments.options.request();
    let folder = file.map(|file| file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")));
    let cwd = arguments.options.cwd.as_deref().or(folder);
    if let Some(file) = file {
        // The path is relative to where we are, not to where the file is.
        request.config = Some(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
    }
    let session = match super::session(cwd) {
        Ok(session) => session,
        Err(diagnostic) => {
            output.report_one(diagnostic);
            return ExitCode::from(exit_code::OWN_FAILURE);
        }
    };
    let mut diagnostics = Diagnostics::default();
    let compiled = pipeline::compile(host, &session, &request, &mut diagnostics);
    output.report(&diagnostics);
    let Some(compiled) = compiled.filter(|_| !diagnostics.has_errors()) else {
        return ExitCode::FAILURE;
    };
    if arguments.options.debug {
        output.say(&debug::stages(&compiled));
    }
    output.print(summary(&compiled).as_bytes())
}

fn summary(compiled: &pipeline::Compiled) -> String {
    let files: Vec<String> =
        compiled.layers.layers.iter().filter_map(|layer| layer.file.as_ref()).map(|file| file.to_string()).collect();
    let read = if files.is_empty() { "no configuration file, defaults only".to_owned() } else { files.join(", ") };
    format!("ok: {read}\n")
}
