//! `agent-sandbox init`.

use std::io::{self, Write};

use rustix::fs::{Mode, OFlags};

use crate::audit::init;
use crate::compile::Request;
use crate::compile::layers::PROJECT_FILE;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{Host, OpenDir};
use crate::launch::is_inside;
use crate::policy::AbsPath;

use super::answer::Answered;
use super::args::Options;
use super::output::Output;

/// Write a commented `.agent-sandbox.toml` for this project
///
/// Looks at the project: languages, settings of linters, CI, agents, files that look like secrets.
/// Proposes rules for them, each with its reason. The file only tightens the policy, so it needs no
/// consent. Rules that would open something are proposed in comments. It is written to the project
/// root, which is the nearest folder with `.git`, or the working directory. An existing file is
/// never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct InitArgs {
    /// Print the proposal instead of writing a file
    #[arg(long)]
    stdout: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox init
  agent-sandbox init --stdout | diff .agent-sandbox.toml -    the changes since the proposal";

pub(super) fn run(host: &Host, options: &Options, arguments: &InitArgs, output: &Output) -> Answered {
    let session = super::session(options.cwd.as_deref())?;
    let project = super::project(host, &session, &Request::default())?;
    if project.has_unsafe_root() {
        let message = format!("`{}` is too broad a project: nothing would run here", project.root);
        let help = "start in the folder of one project, or name it with `--cwd DIR`";
        return Err(Diagnostic::new(Code::UnsafeRoot, message).help(help).into());
    }
    if arguments.stdout {
        return output.print(init::propose(host, &project).as_bytes());
    }
    let file = project.root.child(PROJECT_FILE);
    // This check only saves the search through the project. `write` refuses an existing file, too.
    if host.exists(&file).unwrap_or(false) {
        return Err(already_there(&file).into());
    }
    let text = init::propose(host, &project);
    write(host, &file, &text).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => already_there(&file),
        _ if is_inside(host) => {
            let message = format!("cannot write `{file}` from inside a sandbox: {}", reason(&e));
            Diagnostic::new(Code::InitFailed, message).help("run `agent-sandbox init` outside, or use `--stdout`")
        }
        _ => Diagnostic::new(Code::InitFailed, format!("cannot write `{file}`: {}", reason(&e)))
            .help("make the folder writable for you, or use `--stdout`"),
    })?;
    output.print(format!("wrote {file}: read it, and change it\n").as_bytes())
}

/// Neither overwrites a file nor follows a symlink.
fn write(host: &Host, path: &AbsPath, text: &str) -> io::Result<()> {
    let (folder, name) = OpenDir::parent_of(host, path)?;
    let mut file = folder.make_file(name, OFlags::WRONLY, Mode::from_raw_mode(0o644))?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // Half a policy must not apply. If this fails as well, the error names the file.
        let _ = folder.remove_file(name);
    })
}

fn already_there(file: &AbsPath) -> Diagnostic {
    Diagnostic::new(Code::AlreadyThere, format!("`{file}` exists already, and is not overwritten")).help(
        "see the proposal with `agent-sandbox init --stdout`, or examine the existing file with `agent-sandbox lint`",
    )
}
