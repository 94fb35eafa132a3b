//! Starting it: find bwrap and the command, check that this machine can do it, and exec. Only this stage changes
//! anything on the host, and only what a rule asked for (`if-missing = "create"` and `"block"`).

mod aftermath;
mod availability;
mod bwrap;
mod command;
mod descriptors;
pub mod undo;

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::Host;
use crate::layers::Project;
use crate::lower::Argv;
use crate::path::AbsPath;
use crate::pipeline::Compiled;
use crate::places;
use crate::session::Session;

pub use availability::explain_refusal;
pub use bwrap::find as find_bwrap;

/// Exit codes as `env`, `timeout` and `docker run` use them.
pub(crate) mod exit_code {
    pub(crate) const OWN_FAILURE: u8 = 125;
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    pub(crate) const NOT_FOUND: u8 = 127;
    pub(crate) const USAGE: u8 = 2;
}

pub fn is_inside(host: &Host) -> bool {
    fs::symlink_metadata(host.real(&places::at(places::MARKER))).is_ok()
}

/// What must be true of the caller before anything is compiled for a run.
pub fn check_caller(host: &Host, session: &Session, allow_root: bool) -> Result<(), Diagnostic> {
    if is_inside(host) {
        return Err(Diagnostic::new(Code::AlreadyInside, "this is a sandbox already, and sandboxes do not nest yet")
            .help("run the command as it is: it has the protection of the sandbox around it"));
    }
    if session.is_root() && !allow_root {
        return Err(Diagnostic::new(Code::RootRefused, "refusing to run as root")
            .help("run as an ordinary user; in a container or CI, where root is all there is, add `--allow-root`"));
    }
    Ok(())
}

/// The last checks before a start, and the only step that changes the host.
pub fn ready(host: &Host, session: &Session, compiled: &Compiled, argv: &Argv) -> Result<(), Diagnostic> {
    refuse_open_directories()?;
    check_owner(host, session, &compiled.layers.project)?;
    availability::check(host, session, &argv.program)?;
    if let Some(name) = argv.command.first() {
        command::check(host, session, compiled, name)?;
    }
    create_directories(host, &argv.create)
}

/// `agent-sandbox … < ~/.ssh` would hand the command a way into that folder, past every mount.
fn refuse_open_directories() -> Result<(), Diagnostic> {
    let Some(name) = descriptors::directory_among_standard() else { return Ok(()) };
    Err(Diagnostic::new(Code::OpenDirectory, format!("{name} is a directory, through which the command could leave"))
        .help("redirect it from or to a file"))
}

/// Root loses its power over other people's files inside, so such a project would be unwritable, and git would
/// call it dubious.
fn check_owner(host: &Host, session: &Session, project: &Project) -> Result<(), Diagnostic> {
    if !session.is_root() {
        return Ok(());
    }
    match host.owner(&project.root) {
        Ok(0) => Ok(()),
        Ok(owner) => Err(Diagnostic::new(
            Code::ForeignProject,
            format!("`{}` belongs to the user with the id {owner}, and root inside could not write it", project.root),
        )
        .help(format!("run as that user: `setpriv --reuid {owner} --regid {owner} --clear-groups agent-sandbox …`"))),
        Err(e) => Err(Diagnostic::new(
            Code::UnreadablePath,
            format!("cannot determine who owns `{}`: {}", project.root, reason(&e)),
        )),
    }
}

/// Makes the directories that rules asked for. Each is made for this user alone.
fn create_directories(host: &Host, directories: &[AbsPath]) -> Result<(), Diagnostic> {
    use std::os::unix::fs::DirBuilderExt;
    for directory in directories {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(host.real(directory));
        made.map_err(|e| {
            Diagnostic::new(Code::CreateFailed, format!("cannot create `{directory}`: {}", reason(&e)))
                .help("create it yourself, or take `if-missing = \"create\"` out of the rule")
        })?;
    }
    Ok(())
}

/// The process that runs the sandbox, to be spawned by whoever wants to stay: see [`ready`] for what comes first.
///
/// It inherits the standard streams, the environment, and no other descriptor than those that the argv names: all that
/// this process has open past standard error are marked close-on-exec here. Set neither a working directory nor
/// arguments: the argv has both.
pub fn command(argv: &Argv) -> io::Result<Command> {
    descriptors::close_on_exec()?;
    let words = argv.words();
    let mut bwrap = Command::new(words[0]);
    bwrap.args(&words[1..]);
    descriptors::pass(&mut bwrap, &argv.data)?;
    Ok(bwrap)
}

/// Runs it as a child, takes away what was put up for it, and reports: the exit code, and what there is to say.
pub fn run_and_wait(
    host: &Host,
    session: &Session,
    compiled: &Compiled,
    argv: &Argv,
) -> Result<(u8, Diagnostics), Diagnostic> {
    // Nothing outlives the caller (SPEC B1): bwrap ends when we do, so we end when the caller does. What stands is swept.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let undo = undo::prepare(host, session, compiled, argv)?;
    let mut bwrap = command(argv).map_err(|e| cannot_prepare(&e))?;
    let status = bwrap.status().map_err(|e| cannot_execute(&argv.program, &e))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or_default();
    Ok((u8::try_from(code).unwrap_or(exit_code::OWN_FAILURE), undo.finish()))
}

/// Replaces this process by bwrap. Returns only if that failed.
pub fn exec(argv: &Argv) -> Diagnostic {
    match command(argv) {
        Ok(mut bwrap) => cannot_execute(&argv.program, &bwrap.exec()),
        Err(e) => cannot_prepare(&e),
    }
}

fn cannot_prepare(error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot prepare the descriptors of bwrap: {}", reason(error)))
        .help("free some descriptors (`ulimit -n`), and see that `/proc` and `/dev/null` are there")
}

fn cannot_execute(bwrap: &AbsPath, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot execute `{bwrap}`: {}", reason(error)))
        .help(format!("`{bwrap} --version` must run; reinstall bubblewrap if it does not"))
}
