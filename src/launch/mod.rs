//! The start of a sandbox: finds bwrap and the command, checks that this machine can run them, and
//! supervises the run or executes bwrap. [`run`] tells the story. Only this room and
//! `placeholders` change the host, and only where a rule asked for it (`if-missing = "create"` and
//! `"block"`).

pub mod aftermath;
pub(crate) mod apparmor;
pub(crate) mod availability;
pub(crate) mod bwrap;
mod caller;
mod command;
mod libraries;
mod look;
mod mount_files;
mod own_sandbox;
mod recheck;
mod run;
mod streams;
mod supervise;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::compile::Compiled;
use crate::compile::guard_plan::{RUN_SHEET, RunSheet};
use crate::compile::layers::Project;
use crate::compile::lower::{Argv, DISABLE_USERNS, Engine, Kernel};
use crate::compile::resolve::NewFile;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::host::session::Session;
use crate::policy::path::AbsPath;
use crate::policy::path_json::Word;
use crate::policy::places;
#[cfg(feature = "ablate")]
use crate::sys::ablate;
use crate::sys::fd;
use crate::sys::landlock;
use crate::sys::namespaces;
use crate::sys::seccomp;
use crate::sys::signals::{self, Shield, SignalMask};
use streams::Streams;

pub(crate) use aftermath::absent as reported_if_created;
pub use availability::explain_refusal;
pub use bwrap::find as find_bwrap;
pub use caller::check_caller;
use look::CannotLook;
pub use look::Look;
pub use own_sandbox::own_sandbox;
pub use recheck::Recheck;
pub(crate) use run::{FrontEnd, Prepared, Ran, Residue, RunHooks, find_guard};
pub use run::{Refusal, Sandbox};
pub use supervise::Ending;
pub(crate) use supervise::{Conclusion, GivenStreams, Supervisor};

pub fn is_inside(host: &Host) -> bool {
    fs::symlink_metadata(host.real(&places::at(places::MARKER))).is_ok()
}

/// What this machine has to carry the policy out with.
pub fn engine(host: &Host, session: &Session, compiled: &Compiled) -> Result<Engine, Diagnostic> {
    let bwrap = find_bwrap(host, session, compiled)?;
    // A start with the guard does not need this flag, and the supervisor explains a failure.
    let disables_userns = !compiled.guard && bwrap::sufficient_flags(&bwrap)?.contains(DISABLE_USERNS);
    let own_mounts = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    let mount_files = mount_files::place(host, &compiled.layers);
    Ok(Engine { bwrap, kernel: kernel(), disables_userns, own_mounts, mount_files })
}

/// What this kernel can do beyond mounts.
pub fn kernel() -> Kernel {
    Kernel {
        landlock: landlock::is_available(),
        landlock_dir_rights: landlock::can_restrict_name_changes(),
        seccomp: has_seccomp(),
    }
}

/// The kernel has it, and we know the numbers of this architecture.
pub(crate) fn has_seccomp() -> bool {
    rustix::thread::secure_computing_mode().is_ok() && seccomp::program(true).is_ok()
}

/// The last checks before a start without a guard: bwrap is tried first, because no process will
/// say why the command did not start.
pub fn ready(host: &Host, session: &Session, compiled: &Compiled, argv: &Argv) -> Result<(), Diagnostic> {
    availability::check_with_trial(host, session, &argv.program)?;
    if compiled.guard {
        // Without a guard, `engine` has asked.
        bwrap::sufficient_flags(&argv.program)?;
    }
    ready_to_supervise(host, session, compiled, argv)
}

/// The last checks before a supervised start. Makes the directories and files that rules ask for.
fn ready_to_supervise(host: &Host, session: &Session, compiled: &Compiled, argv: &Argv) -> Result<(), Diagnostic> {
    // Another program that embeds this library is linked with other libraries.
    let is_this_program = |guard: &&AbsPath| env::current_exe().is_ok_and(|own| own == guard.as_path());
    if let Some(guard) = session.executable.as_ref().filter(|_| compiled.guard).filter(is_this_program) {
        libraries::check(&compiled.plan, Some(guard))?;
    }
    streams::check()?;
    check_owner(host, session, &compiled.layers.project)?;
    availability::check(host, session, &argv.program)?;
    if let Some(name) = argv.command.first() {
        command::check(host, compiled, &argv.environment, name)?;
    }
    create_directories(host, &argv.create)?;
    create_files(host, &argv.new_files)?;
    write_mount_files(host, compiled, argv)
}

/// Writes the files of ours that bwrap binds, if they are missing.
fn write_mount_files(host: &Host, compiled: &Compiled, argv: &Argv) -> Result<(), Diagnostic> {
    mount_files::write(host, &compiled.layers.state, &argv.files).map_err(|e| {
        Diagnostic::new(Code::StartFailed, e.to_string())
            .help("see that the state folder can be written, and that the disk is not full")
    })
}

/// Looks at the files and directories that the mounts mean. The last step before bwrap starts:
/// the guard and the supervisor notice every later change. Without a guard nobody compares.
fn look(host: &Host, argv: &Argv) -> Result<Look, Diagnostic> {
    let Some(guard) = &argv.guard else { return Ok(Look::default()) };
    Look::now(host, &guard.plan).map_err(|CannotLook { path, error }| {
        Diagnostic::new(Code::StartFailed, format!("`{path}` has changed since it was looked at: {}", reason(&error)))
            .help("start again; if it stays so, see which program changes it")
    })
}

/// The facts of a run for the guard.
fn run_sheet(argv: &Argv, look: &Look, json: bool) -> RunSheet {
    let identities = argv.guard.as_ref().map(|guard| look.identities(&guard.plan)).unwrap_or_default();
    let command = argv.is_command_too_long().then(|| argv.command.iter().cloned().map(Word).collect());
    let for_loader = argv.environment.variables.iter().filter(|(name, _)| is_for_loader(name));
    let environment = for_loader.map(|(name, value)| (Word(name.clone()), Word(value.clone()))).collect();
    RunSheet { identities, command, json, environment, ..RunSheet::default() }
}

/// Variables that the loader and the C library obey. In a run, bwrap and the guard start without
/// them: `LD_LIBRARY_PATH` may name a place that a command can write.
fn is_for_loader(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"LD_")
        || ["GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH"].iter().any(|other| name == *other)
}

/// Root loses its power over other people's files inside, so such a project would be unwritable,
/// and git would call it dubious.
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

/// Makes the files that presets want to be there, for this user alone.
fn create_files(host: &Host, files: &[NewFile]) -> Result<(), Diagnostic> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    for NewFile { path, content } in files {
        create_directories(host, path.parent().as_slice())?;
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(host.real(path));
        match made.and_then(|mut file| file.write_all(content.as_bytes())) {
            // Somebody was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|e| {
                Diagnostic::new(Code::CreateFailed, format!("cannot create `{path}`: {}", reason(&e)))
                    .help("create it yourself")
            })?,
        }
    }
    Ok(())
}

/// The run sheet for a guard without a supervisor.
fn sheet_alone(argv: &Argv, sheet: RunSheet) -> io::Result<Vec<(OwnedFd, RawFd)>> {
    let sheet = RunSheet { signal_mask: Some(SignalMask::current().0), ..sheet };
    argv.guard.iter().map(|_| Ok((sheet_descriptor(&sheet)?, RUN_SHEET))).collect()
}

/// `more` are further file descriptors, under the numbers that they shall have.
fn bwrap_command(argv: &Argv, more: Vec<(OwnedFd, RawFd)>, streams: &Streams) -> io::Result<Command> {
    fd::close_on_exec()?;
    // The run sheet carries a command for which bwrap has no room.
    let is_too_long = argv.guard.is_some() && argv.is_command_too_long();
    let words = if is_too_long { argv.words_without_command() } else { argv.words() };
    let mut bwrap = Command::new(&words[0]);
    let passes = |(name, _): &(&OsString, &OsString)| argv.guard.is_none() || !is_for_loader(name);
    bwrap.args(&words[1..]).env_clear().envs(argv.environment.variables.iter().filter(passes));
    if argv.pre_exec.private_mounts {
        namespaces::make_mounts_private(&mut bwrap);
    }
    if argv.pre_exec.scope {
        landlock::restrict_scopes_of(&mut bwrap)?;
    }
    fd::pass(&mut bwrap, &argv.data, more)?;
    streams.give(&mut bwrap)?;
    // The guard has switches, too.
    #[cfg(feature = "ablate")]
    bwrap.envs(std::env::var_os(ablate::VARIABLE).map(|value| (ablate::VARIABLE, value)));
    Ok(bwrap)
}

fn sheet_descriptor(sheet: &RunSheet) -> io::Result<OwnedFd> {
    fd::holding(&serde_json::to_vec(sheet)?)
}

/// Replaces this process by bwrap. Returns only if that failed.
///
/// No process is left that could pass signals on or clean up: Ctrl-C and Ctrl-\ reach the command
/// if the guard starts it; a signal to this process ends the command without its handlers.
fn exec(argv: &Argv, sheet: RunSheet) -> Diagnostic {
    let streams = match Streams::new() {
        Ok(streams) => streams,
        Err(diagnostic) => return diagnostic,
    };
    match sheet_alone(argv, sheet).and_then(|passed| bwrap_command(argv, passed, &streams)) {
        Ok(mut bwrap) => {
            if argv.guard.is_some() {
                signals::shield(&mut bwrap, Shield::Alone);
            }
            cannot_execute(&argv.program, &bwrap.exec())
        }
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
