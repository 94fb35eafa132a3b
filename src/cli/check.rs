//! `agent-sandbox check [FILE]`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::audit::lint;
use crate::compile::Compiled;
use crate::compile::layers::PROJECT_FILE;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::policy::{AbsPath, escape_for_display};

use super::answer::Answered;
use super::args::{Options, PolicyArgs};
use super::output::Output;

/// Validate configuration files, and show all mistakes at once
///
/// Without FILE, validates the files that a run here would use. The exit code is 1 if there are
/// errors.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// A project file to validate, as if its folder were the project; a folder stands for its
    /// `.agent-sandbox.toml`. With `--cwd DIR`, FILE is relative to DIR, and DIR is the project
    #[arg(conflicts_with = "FileArgs")]
    file: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyArgs,
}

pub(super) fn run(host: &Host, options: &Options, arguments: &CheckArgs, output: &Output) -> Answered {
    let (mut session, mut request) = (super::session(options.cwd.as_deref())?, options.request());
    if let Some(file) = &arguments.file {
        let (folder, name) = match place_of(&session.cwd, file) {
            Ok(place) => place,
            // The user asked whether this file is valid. If the file is missing, the answer is no.
            Err(missing) => {
                output.report_one(missing);
                return Ok(false);
            }
        };
        request.config = Some(folder.join(name));
        request.names_from = Some(session.cwd.clone());
        // A file is compiled as that of its own folder, unless `--cwd` names another.
        if options.cwd.is_none() {
            session = super::session(Some(&folder))?;
        }
    }
    let judged = super::judge(host, (&session, &request), options, output, |judged, diagnostics| {
        diagnostics.extend(judged.warning(host));
    });
    judged.map_or(Ok(false), |judged| output.print(summary(&judged.compiled).as_bytes()))
}

/// The folder that holds `file`, and its name there. The kernel resolves the folder, because
/// `link/..` cannot be resolved by its spelling. A folder stands for the project's file in it.
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

fn summary(compiled: &Compiled) -> String {
    let files = compiled.layers.layers.iter().filter_map(|layer| layer.file.as_ref());
    let files: Vec<String> = files.map(ToString::to_string).collect();
    let read = if files.is_empty() { "no configuration file, defaults only".to_owned() } else { files.join(", ") };
    let idle = match lint::idle_rules(compiled) {
        0 => String::new(),
        1 => " (1 rule matches nothing here; see `agent-sandbox lint`)".to_owned(),
        idle => format!(" ({idle} rules match nothing here; see `agent-sandbox lint`)"),
    };
    format!("ok: {read}{idle}\n")
}
