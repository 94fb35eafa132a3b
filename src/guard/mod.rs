//! The guard: the program that bwrap starts in the sandbox, and that then becomes the command.
//!
//! bwrap makes the mounts that its argv says, and does not notice that a path has changed since the
//! policy was compiled. A process that makes a user namespace can undo them. So bwrap starts our
//! own binary as an ordinary process. The guard makes the masks that the argv had no room for,
//! compares all mounts with its plan, locks them in one more namespace, gives up its capabilities,
//! and becomes the command. It can only restrict the command further.
#![expect(clippy::disallowed_methods, reason = "the guard runs inside, with the rights of the command")]

mod limits;
mod mounts;
pub mod report;
mod verify;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ::landlock::RulesetError;
use rustix::io::Errno;

use crate::compile::guard_plan::{Expectation, GuardPlan, LIMIT, RUN_SHEET, RunSheet, Tightening};
use crate::diagnostic::{Diagnostic, Diagnostics, Format, exit_code, reason, render};
use crate::host::LastParent;
use crate::policy::{AbsPath, Limit, escape_for_display, places, sha256};
use crate::sys::ablate::{self, Mitigation};
use crate::sys::landlock::Changes;
use crate::sys::signals::SignalMask;
use crate::sys::{capabilities, fd, landlock, namespaces, seccomp};
use report::{Answer, Report, refusal};
use verify::Verifier;

/// Becomes the command. `args` are the SHA-256 of the plan, the limits, `--` and the command.
pub fn main(args: &[OsString]) -> ExitCode {
    let sheet = match run_sheet() {
        Ok(sheet) => sheet,
        Err(e) => return say(&refusal(&format!("the run sheet cannot be read: {}", reason(&e))), false),
    };
    let supervisor = match sheet.report.map(fd::inherited).transpose() {
        Ok(supervisor) => supervisor,
        Err(e) => return say(&refusal(&format!("the supervisor cannot be reached: {}", reason(&e))), sheet.json),
    };
    let started = plan(args).and_then(|plan| start(&plan, &sheet, &GuardCall::read(args)?, supervisor.as_ref()));
    let Err(failure) = started;
    match supervisor {
        Some(supervisor) => {
            // If this fails, the supervisor is gone, and no process would receive a report.
            let _ = report::send(supervisor.as_fd(), &failure);
            ExitCode::from(exit_code::OWN_FAILURE)
        }
        None => say(&failure.diagnostic(), sheet.json),
    }
}

/// Reads the facts of this run. A pasted command has no run sheet.
fn run_sheet() -> io::Result<RunSheet> {
    match fd::sealed_content(RUN_SHEET)? {
        Some(text) => Ok(serde_json::from_slice(&text)?),
        None => Ok(RunSheet::default()),
    }
}

/// Reads the plan that the arguments name. Without it the guard cannot tell whether the mounts are
/// right, and starts nothing.
fn plan(args: &[OsString]) -> Result<GuardPlan, Report> {
    let text = fs::read(places::PLAN).map_err(|e| Report::refused("the guard's plan", reason(&e)))?;
    if args.first().is_none_or(|hash| *hash != *sha256(&text)) {
        return Err(Report::refused("the guard's plan", "it is not the one that the arguments name"));
    }
    serde_json::from_slice(&text).map_err(|e| Report::refused("the guard's plan", e))
}

/// The arguments after the hash of the plan.
struct GuardCall<'a> {
    limits: Vec<Limit>,
    command: &'a [OsString],
}

impl<'a> GuardCall<'a> {
    fn read(args: &'a [OsString]) -> Result<Self, Report> {
        let mut limits = Vec::new();
        let mut rest = args.get(1..).unwrap_or_default();
        while let [flag, limit, after @ ..] = rest
            && flag == LIMIT
        {
            let read = limit.to_str().and_then(|text| text.parse().ok());
            limits.push(read.ok_or_else(|| Report::refused("the guard's arguments", escape_for_display(limit)))?);
            rest = after;
        }
        Ok(Self { limits, command: rest.get(1..).unwrap_or_default() })
    }
}

/// Takes the steps of the guard in order. ADR 32 gives the reasons for this order.
fn start(
    plan: &GuardPlan,
    sheet: &RunSheet,
    call: &GuardCall,
    supervisor: Option<&OwnedFd>,
) -> Result<Infallible, Report> {
    let command = command(sheet, call);
    let Some((program, arguments)) = command.split_first() else {
        return Err(Report::NoCommand);
    };
    let verifier = Verifier::new(plan, sheet);
    if !ablate::is_off(Mitigation::MountLock) {
        finish_mounts(plan, &verifier)?;
    }
    limits::set(&call.limits)?;
    // The supervisor compares the host with its notes again while the guard continues.
    tell(supervisor, &Report::Ready)?;
    if !ablate::is_off(Mitigation::RootCapabilities) {
        capabilities::drop_capabilities().map_err(|e| Report::refused("capabilities", reason(&e)))?;
    }
    restrict(plan).map_err(|e| Report::refused("Landlock", e))?;
    fd::close_on_exec().map_err(|e| Report::refused("file descriptors", reason(&e)))?;
    // The steps above may make calls that the filter forbids.
    if plan.seccomp && !ablate::is_off(Mitigation::Seccomp) {
        seccomp::apply().map_err(|e| Report::refused("seccomp", e))?;
    }
    if plan.seccomp && sheet.background && !ablate::is_off(Mitigation::Foreground) {
        seccomp::stay_in_background().map_err(|e| Report::refused("seccomp", e))?;
    }
    while answer(supervisor)? == Answer::VerifyAgain {
        verifier.compare_again()?;
        tell(supervisor, &Report::Ready)?;
    }
    if let Some(mask) = sheet.signal_mask {
        SignalMask(mask).restore();
    }
    let variables = sheet.environment.iter().map(|(name, value)| (&name.0, &value.0));
    let error = Command::new(program).args(arguments).envs(variables).exec();
    let message = format!("`{}` cannot be executed inside: {}", escape_for_display(program), reason(&error));
    Err(Report::CannotExecute { errno: error.raw_os_error().unwrap_or_default(), message })
}

/// Tightens, compares and locks the mounts. Two nested namespaces lock them: the first gives the
/// guard the right to mount, and the second takes it away for good.
fn finish_mounts(plan: &GuardPlan, verifier: &Verifier) -> Result<(), Report> {
    let in_cwd = |e: io::Error| Report::refused("the working directory", reason(&e));
    let cwd = std::env::current_dir().map_err(in_cwd)?;
    namespaces::enter().map_err(Report::unavailable("a namespace to mount in"))?;
    if !ablate::is_off(Mitigation::PrivatePropagation) {
        mounts::detach_from_host().map_err(Report::unavailable("mounts of its own"))?;
    }
    tighten(plan.overflow.iter().filter(|step| !step.is_mask()))?;
    // Masks are made after the table of mounts is read, because reading takes long if the table
    // has thousands of masks. Masks need no check here: nothing lies below a mask, and each is
    // read-only from the start.
    let table = verifier.close()?;
    tighten(plan.overflow.iter().filter(|step| step.is_mask()))?;
    link(plan)?;
    verifier.compare(&table)?;
    // A mount of the overflow list may cover the working directory.
    std::env::set_current_dir(&cwd).map_err(in_cwd)?;
    if !plan.nested && !ablate::is_off(Mitigation::NoUserNamespaces) {
        namespaces::allow_one_more().map_err(Report::unavailable("the limit of user namespaces"))?;
    }
    close_proc(plan)?;
    if !ablate::is_off(Mitigation::RootCapabilities) {
        namespaces::enter().map_err(Report::unavailable("a namespace that locks the mounts"))?;
    }
    Ok(())
}

/// Makes the mounts of `steps` in their order. The limit of open files bounds the number of copies
/// that are taken at a time.
fn tighten<'p>(steps: impl Iterator<Item = &'p Tightening>) -> Result<(), Report> {
    let steps: Vec<&Tightening> = steps.collect();
    let at_a_time = fd::raise_file_limit().saturating_sub(OTHER_FILES).max(1);
    let mut parent = LastParent::default();
    for steps in steps.chunks(at_a_time) {
        let copies = steps.iter().map(|step| mounts::copy(step).map_err(failed(step)));
        for (step, copy) in steps.iter().zip(copies.collect::<Result<Vec<_>, _>>()?) {
            mounts::tighten(step, copy, &mut parent).map_err(failed(step))?;
        }
    }
    fd::restore_file_limit().map_err(|e| Report::refused("the limit of open files", reason(&e)))
}

/// An upper bound for the files that the guard has open besides the copies of mounts.
const OTHER_FILES: usize = 32;

fn failed(step: &Tightening) -> impl FnOnce(io::Error) -> Report {
    move |e| {
        let why = format!("`{}`: {}", step.path(), reason(&e));
        match Errno::from_io_error(&e) {
            Some(Errno::NOSPC) => Report::MountLimit(why),
            // The file at the path has changed since the policy was compiled. Mounting on a file
            // that was removed after it was opened gives EINVAL or ENOENT.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL) => Report::Changed(why),
            _ => Report::Refused(why),
        }
    }
}

/// Mounts the links to private copies. Where the kernel or a file system refuses that, the
/// supervisor starts again without them.
fn link(plan: &GuardPlan) -> Result<(), Report> {
    if plan.links.is_empty() {
        return Ok(());
    }
    let no_place = |e: io::Error| Report::PrivateRefused(format!("a place for links: {}", reason(&e)));
    mounts::begin_links().map_err(no_place)?;
    let mut parent = LastParent::default();
    plan.links.iter().try_for_each(|link| {
        mounts::link(link, &mut parent).map_err(|e| {
            let why = format!("`{}`: {}", link.path, reason(&e));
            match Errno::from_io_error(&e) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Report::Changed(why),
                _ => Report::PrivateRefused(why),
            }
        })
    })?;
    mounts::end_links().map_err(no_place)
}

fn command(sheet: &RunSheet, call: &GuardCall) -> Vec<OsString> {
    match &sheet.command {
        Some(command) => command.iter().map(|word| word.0.clone()).collect(),
        None => call.command.to_vec(),
    }
}

fn close_proc(plan: &GuardPlan) -> Result<(), Report> {
    for path in plan.proc_read_only.iter().filter(|_| !ablate::is_off(Mitigation::ProcSys)) {
        match mounts::bind_read_only(path) {
            // Not every kernel has all of these paths.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            made => made.map_err(|e| Report::refused(&format!("`{path}`"), reason(&e)))?,
        }
    }
    Ok(())
}

fn tell(supervisor: Option<&OwnedFd>, report: &Report) -> Result<(), Report> {
    let Some(supervisor) = supervisor else { return Ok(()) };
    report::send(supervisor.as_fd(), report).map_err(|e| Report::refused("the supervisor", reason(&e)))
}

/// Waits until the supervisor has a pidfd of this process and has compared the host with its
/// notes. A pasted command has no supervisor.
fn answer(supervisor: Option<&OwnedFd>) -> Result<Answer, Report> {
    let Some(supervisor) = supervisor else { return Ok(Answer::Go) };
    report::wait_for_answer(supervisor.as_fd()).map_err(|e| Report::refused("the supervisor", reason(&e)))
}

fn restrict(plan: &GuardPlan) -> Result<(), RulesetError> {
    let scopes = plan.landlock && !ablate::is_off(Mitigation::LandlockScope);
    let of_names = plan.changes && !ablate::is_off(Mitigation::OwnNames);
    let of_content = plan.changes && !ablate::is_off(Mitigation::OwnWrites);
    if of_names || of_content {
        landlock::restrict_changes(writable_places(plan), Changes { of_names, of_content }, scopes)
    } else if scopes {
        landlock::restrict_scopes()
    } else {
        Ok(())
    }
}

/// Opens the paths that the mounts leave writable: files, and directories with everything below
/// them. Skips a path below another such path. Opens one at a time, because a policy may have more
/// such paths than a process may open files.
fn writable_places(plan: &GuardPlan) -> impl Iterator<Item = OwnedFd> {
    let mut last: Option<&AbsPath> = None;
    plan.expect.iter().filter_map(move |expected| {
        let is_open = matches!(expected.access, Expectation::Rw | Expectation::Own);
        if !is_open || last.is_some_and(|last| expected.path.is_within(last)) {
            return None;
        }
        let opened = mounts::open(&expected.path).ok()?;
        last = Some(&expected.path);
        Some(opened)
    })
}

/// Writes a diagnostic to standard error and returns its exit code.
fn say(diagnostic: &Diagnostic, json: bool) -> ExitCode {
    let format = if json { Format::Json } else { Format::Text { color: false } };
    let all = Diagnostics::from_iter([diagnostic.clone()]);
    let _ = io::stderr().write_all(render(&all, format).as_bytes());
    ExitCode::from(exit_code::of(diagnostic.code))
}
