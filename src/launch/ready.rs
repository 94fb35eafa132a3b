//! The last checks before a start, and the files and directories that it needs.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags};

use crate::compile::Compiled;
use crate::compile::layers::Project;
use crate::compile::lower::Argv;
use crate::compile::plan::Plan;
use crate::compile::resolve::NewFile;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{Host, OpenDir, Session};
use crate::policy::AbsPath;
use crate::sys::ablate;

use super::{availability, bwrap, command, is_inside, mount_files, streams};

/// Refuses a caller inside a sandbox, and root. `--allow-root` accepts root. In a container and in
/// CI, where root is often the only user, root is accepted with the warning that is returned.
pub fn check_caller(host: &Host, session: &Session, allow_root: bool) -> Result<Option<Diagnostic>, Diagnostic> {
    if is_inside(host) {
        return Err(Diagnostic::new(Code::AlreadyInside, "this is a sandbox already, and sandboxes do not nest yet")
            .help("run the command as it is: it has the protection of the sandbox around it"));
    }
    if !session.is_root() || allow_root {
        return Ok(None);
    }
    let marker = availability::container_marker(host);
    let container = marker.map(|marker| format!("this is a container (`{marker}` exists)"));
    match container.or_else(|| session.var("CI").map(|_| "this is CI (`CI` is set)".to_owned())) {
        Some(why) => Ok(Some(
            Diagnostic::new(Code::RootAllowed, format!("running as root, because {why}"))
                .help("run as an ordinary user, or silence this warning with `--allow-root`"),
        )),
        None => Err(Diagnostic::new(Code::RootRefused, "refusing to run as root")
            .help("run as an ordinary user, or add `--allow-root`")),
    }
}

/// The last checks before a start without a guard or without a supervisor. If such a start fails,
/// no process can find the cause, so a trial sandbox may be started first.
pub fn ready(host: &Host, session: &Session, compiled: &Compiled, argv: &Argv) -> Result<(), Diagnostic> {
    availability::check_with_trial(host, session, &argv.program)?;
    if compiled.guard {
        // Without a guard, `machine` has tested the flags.
        bwrap::sufficient_flags(&argv.program, compiled.policy.written_tmp().is_some())?;
    }
    ready_to_supervise(host, session, compiled, argv)
}

/// The last checks before a supervised start. Makes the directories and files that rules ask for.
pub(super) fn ready_to_supervise(
    host: &Host,
    session: &Session,
    compiled: &Compiled,
    argv: &Argv,
) -> Result<(), Diagnostic> {
    // The check reads the libraries of this process. A program that embeds this library has other
    // libraries than the guard.
    let is_this_program = |guard: &&AbsPath| env::current_exe().is_ok_and(|own| own == guard.as_path());
    if let Some(guard) = session.executable.as_ref().filter(|_| compiled.guard).filter(is_this_program) {
        check_libraries(host, &compiled.plan, guard)?;
    }
    streams::check()?;
    check_owner(host, session, &compiled.layers.project)?;
    availability::check(host, session, &argv.program)?;
    if let Some(name) = argv.command.first() {
        command::check(host, compiled, &argv.environment, name)?;
    }
    ablate::pause("before-create");
    create_directories(host, &argv.create)?;
    create_files(host, &argv.new_files)?;
    write_mount_files(host, compiled, argv)
}

/// Writes our files that bwrap binds, if they are missing.
pub(super) fn write_mount_files(host: &Host, compiled: &Compiled, argv: &Argv) -> Result<(), Diagnostic> {
    mount_files::write(host, &compiled.layers.state, &argv.files).map_err(|e| {
        Diagnostic::new(Code::StartFailed, format!("cannot write {e}")).help(
            "make sure that the state folder can be written, that the disk is not full, and that `ulimit -f` allows it",
        )
    })
}

/// Refuses a policy that hides a library which the guard was linked with. A static build has none.
fn check_libraries(host: &Host, plan: &Plan, executable: &AbsPath) -> Result<(), Diagnostic> {
    // Without `/proc` there is no sandbox, and bwrap says so.
    let Ok(Some(maps)) = host.kernel_file("/proc/self/maps") else { return Ok(()) };
    let mut needed = mapped(&maps).into_iter().filter(|file| file != executable);
    let Some(file) = needed.find(|file| !plan.view(file).shows_host()) else { return Ok(()) };
    Err(Diagnostic::new(Code::GuardUnavailable, format!("the guard needs `{file}`, which the sandbox does not show"))
        .help("show it with a `ro` rule, use a static build, or run on bwrap alone with `--no-guard`"))
}

/// The files that are mapped into a process: `ADDRESS MODE OFFSET DEVICE INODE    PATH`.
fn mapped(maps: &[u8]) -> BTreeSet<AbsPath> {
    maps.split(|b| *b == b'\n')
        .filter_map(|line| line.iter().position(|b| *b == b'/').map(|at| &line[at..]))
        .filter_map(|path| AbsPath::normalize(OsStr::from_bytes(path)))
        .filter(|path| path.as_path().is_file())
        .collect()
}

/// Refuses the project of another user if the caller is root. Root has no capabilities inside, so
/// it could not write the project, and git would report a dubious ownership.
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
            format!("cannot determine the owner of `{}`: {}", project.root, reason(&e)),
        )),
    }
}

/// Makes the directories that rules ask for, for this user alone.
fn create_directories(host: &Host, directories: &[AbsPath]) -> Result<(), Diagnostic> {
    for directory in directories {
        OpenDir::create_all(host, directory).map_err(|e| {
            Diagnostic::new(Code::CreateFailed, format!("cannot create `{directory}`: {}", reason(&e)))
                .help("create it yourself, or take `if-missing = \"create\"` out of the rule")
        })?;
    }
    Ok(())
}

/// Makes the files that presets ask for, for this user alone.
fn create_files(host: &Host, files: &[NewFile]) -> Result<(), Diagnostic> {
    for NewFile { path, content } in files {
        create_directories(host, path.parent().as_slice())?;
        let made = OpenDir::parent_of(host, path)
            .and_then(|(folder, name)| folder.make_file(name, OFlags::WRONLY, Mode::RUSR | Mode::WUSR));
        match made.and_then(|mut file| file.write_all(content.as_bytes())) {
            // Another process has made it.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|e| {
                Diagnostic::new(Code::CreateFailed, format!("cannot create `{path}`: {}", reason(&e)))
                    .help("create it yourself")
            })?,
        }
    }
    Ok(())
}
