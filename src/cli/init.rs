//! `agent-sandbox init`: a policy file to start from.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use crate::audit::init;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::exit_code;
use crate::host::Host;
use crate::launch::is_inside;
use crate::layers::{self, PROJECT_FILE, Project, is_unsafe_root};
use crate::path::AbsPath;
use crate::session::Request;

use super::args;
use super::output::Output;

/// Write a commented `.agent-sandbox.toml` for this project
///
/// Looks at what is there: languages, settings of linters, CI, agents, files that look like secrets. Proposes a rule for each, with
/// the reason beside it. The file only tightens what holds without it, so it needs nobody's consent; what would open something
/// is proposed in comments. It is written to the project root, which is the nearest folder with `.git`, or the working
/// directory. A file that is there is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Print it instead of writing a file
    #[arg(long)]
    stdout: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox init
  agent-sandbox init --stdout | diff .agent-sandbox.toml -    what would be proposed today";

pub(super) fn run(host: &Host, options: &args::Options, arguments: &Arguments, output: &Output) -> ExitCode {
    match start(host, options, arguments, output) {
        Ok(code) => code,
        Err(diagnostic) => {
            output.report_one(*diagnostic);
            ExitCode::from(exit_code::OWN_FAILURE)
        }
    }
}

fn start(
    host: &Host,
    options: &args::Options,
    arguments: &Arguments,
    output: &Output,
) -> Result<ExitCode, Box<Diagnostic>> {
    let project = project(host, options)?;
    if arguments.stdout {
        return Ok(output.print(init::propose(host, &project).as_bytes()));
    }
    let file = project.root.child(PROJECT_FILE);
    // Before the work, for who does it twice. The write itself decides.
    if host.exists(&file).unwrap_or(false) {
        return Err(already_there(&file));
    }
    let text = init::propose(host, &project);
    write(&host.real(&file), &text).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => already_there(&file),
        _ => cannot_write(&file, &e, is_inside(host)),
    })?;
    Ok(output.print(format!("wrote {file}: read it, and change it\n").as_bytes()))
}

fn project(host: &Host, options: &args::Options) -> Result<Project, Box<Diagnostic>> {
    let session = super::session(options.cwd.as_deref())?;
    let mut diagnostics = Diagnostics::default();
    // Mistakes in other files do not matter here: no policy is made.
    let request = Request { no_project_config: true, ..Request::default() };
    let Some(layers) = layers::discover(host, &session, &request, &mut diagnostics) else {
        let said = diagnostics.iter().next().cloned();
        return Err(Box::new(said.unwrap_or_else(|| Diagnostic::new(Code::InvalidCwd, "there is no project here"))));
    };
    let project = layers.project;
    if is_unsafe_root(&project.root, &project.home) {
        let message = format!("`{}` is too broad a project: nothing would run here", project.root);
        return Err(Box::new(
            Diagnostic::new(Code::UnsafeRoot, message)
                .help("start in the folder of one project, or name it with `--cwd DIR`"),
        ));
    }
    Ok(project)
}

/// Neither overwrites nor follows a symlink, whoever is quicker (O_EXCL).
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // Half a policy must not count. If that fails as well, the error tells of the file.
        let _ = fs::remove_file(path);
    })
}

fn already_there(file: &AbsPath) -> Box<Diagnostic> {
    Box::new(Diagnostic::new(Code::AlreadyThere, format!("`{file}` is there already, and is not overwritten")).help(
        "`agent-sandbox init --stdout` shows what would be proposed; `agent-sandbox lint` looks at what is there",
    ))
}

fn cannot_write(file: &AbsPath, error: &io::Error, is_inside: bool) -> Box<Diagnostic> {
    let (message, help) = if is_inside {
        (
            format!("cannot write `{file}` from inside a sandbox: {}", reason(error)),
            "run `agent-sandbox init` outside, or use `--stdout`",
        )
    } else {
        (format!("cannot write `{file}`: {}", reason(error)), "make the folder writable for you, or use `--stdout`")
    };
    Box::new(Diagnostic::new(Code::InitFailed, message).help(help))
}
