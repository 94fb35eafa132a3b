//! `agent-sandbox check [FILE]`: every mistake at once, for people and for CI.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::audit::lint;
use crate::compile;
use crate::compile::layers::PROJECT_FILE;
use crate::compile::request::Request;
use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::Host;
use crate::host::session::Session;
use crate::policy::path::{AbsPath, escape_for_display};
use crate::trust;

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
    let judged = trust::compile(host, &session, &request, &mut diagnostics);
    judged.iter().filter_map(|judged| judged.warning(host)).for_each(|warning| diagnostics.push(warning));
    output.report(&diagnostics);
    let Some(judged) = judged.filter(|_| !diagnostics.has_errors()) else {
        return ExitCode::FAILURE;
    };
    if arguments.options.debug {
        output.debug(&debug::stages(&judged.compiled, judged.widening.as_ref()));
    }
    output.print(summary(&judged.compiled).as_bytes())
}

/// Who asks, and for what. FILE is relative to `--cwd`, as that of `--config` is, and read as it would apply in its own folder, unless
/// `--cwd` names another.
fn situation(options: &Options, file: Option<&Path>) -> Result<(Session, Request), Diagnostic> {
    let mut request = options.request();
    let mut session = super::session(options.cwd.as_deref())?;
    if let Some(file) = file {
        let (folder, name) = place_of(&session.cwd, file)?;
        request.config = Some(folder.join(name));
        request.names_from = Some(session.cwd.clone());
        if options.cwd.is_none() {
            session = super::session(Some(&folder))?;
        }
    }
    Ok((session, request))
}

/// The folder that holds `file`, and its name there. The kernel follows it: what `link/..` means cannot be told from its spelling. A
/// folder stands for the project's file in it, as with `trust --revoke`.
fn place_of(cwd: &AbsPath, file: &Path) -> Result<(PathBuf, OsString), Diagnostic> {
    let whole = cwd.as_path().join(file);
    let (folder, name) = match (whole.parent(), whole.file_name()) {
        // `.` has no name, and neither has `..`.
        (Some(folder), Some(name)) if !whole.is_dir() => (folder, name),
        _ => (whole.as_path(), OsStr::new(PROJECT_FILE)),
    };
    let folder = std::fs::canonicalize(folder).map_err(|e| {
        let message = format!("cannot find the folder of `{}`: {}", escape_for_display(file.as_os_str()), reason(&e));
        Diagnostic::new(Code::MissingConfig, message).help("name an existing file")
    })?;
    Ok((folder, name.to_owned()))
}

fn summary(compiled: &compile::Compiled) -> String {
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
