//! `agent-sandbox check [FILE]`: every mistake at once, for people and for CI.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::audit::lint;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::exit_code;
use crate::host::Host;
use crate::path::shown;
use crate::pipeline;
use crate::session::{Request, Session};

use super::args::{Arguments, Options};
use super::debug;
use super::output::Output;

pub(super) fn run(host: &Host, arguments: &Arguments, file: Option<&Path>, output: &Output) -> ExitCode {
    let (session, request) = match situation(&arguments.options, file) {
        Ok(situation) => situation,
        Err(diagnostic) => {
            // A file that is not there is what was asked about; everything else kept us from looking.
            let code = if diagnostic.code == Code::MissingConfig { 1 } else { exit_code::OWN_FAILURE };
            output.report_one(diagnostic);
            return ExitCode::from(code);
        }
    };
    let mut diagnostics = Diagnostics::default();
    let compiled = pipeline::compile(host, &session, &request, &mut diagnostics);
    if let Some(compiled) = &compiled {
        compiled.warn_of_widening(host, &mut diagnostics);
    }
    output.report(&diagnostics);
    let Some(compiled) = compiled.filter(|_| !diagnostics.has_errors()) else {
        return ExitCode::FAILURE;
    };
    if arguments.options.debug {
        output.debug(&debug::stages(&compiled));
    }
    output.print(summary(&compiled).as_bytes())
}

/// Who asks, and for what. FILE is read as it would apply in its own folder, unless `--cwd` names another.
fn situation(options: &Options, file: Option<&Path>) -> Result<(Session, Request), Diagnostic> {
    let mut request = options.request();
    let mut cwd = options.cwd.clone();
    if let Some(file) = file {
        let folder = folder_of(file)?;
        request.config = Some(folder.join(file.file_name().unwrap_or_default()));
        cwd = cwd.or(Some(folder));
    }
    Ok((super::session(cwd.as_deref())?, request))
}

/// The folder that holds `file`, which is relative to where we are. The kernel follows it: what `link/..` means cannot be
/// told from its spelling.
fn folder_of(file: &Path) -> Result<PathBuf, Diagnostic> {
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    std::fs::canonicalize(folder).map_err(|e| {
        let message = format!("cannot find the folder of `{}`: {}", shown(file.as_os_str()), reason(&e));
        Diagnostic::new(Code::MissingConfig, message).help("name an existing file")
    })
}

fn summary(compiled: &pipeline::Compiled) -> String {
    let files: Vec<String> =
        compiled.layers.layers.iter().filter_map(|layer| layer.file.as_ref()).map(|file| file.to_string()).collect();
    let read = if files.is_empty() { "no configuration file, defaults only".to_owned() } else { files.join(", ") };
    let idle = match lint::idle_rules(compiled) {
        0 => String::new(),
        1 => " (1 rule matches nothing here; see `agent-sandbox lint`)".to_owned(),
        idle => format!(" ({idle} rules match nothing here; see `agent-sandbox lint`)"),
    };
    format!("ok: {read}{idle}\n")
}
