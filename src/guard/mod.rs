//! The second stage, inside the sandbox: the last hop between bwrap and the command.
//!
//! bwrap is quadratic in binds, its own mounts can be undone by who makes a user namespace, and nobody looks whether they are the
//! mounts that were printed. So bwrap makes the namespaces, the root and `/proc`, and lets our own binary be root in them: it makes all other
//! mounts, compares all of them with the plan, locks them in one more namespace, gives up what it used, and becomes the command.

mod check;
mod confine;
mod dev;
mod kept;
mod mounts;
mod namespaces;
mod own;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use landlock::RulesetError;

use crate::ablate::{self, Mitigation};
use crate::bytes::Word;
use crate::descriptors;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, reason, render};
use crate::exit_code;
use crate::guard_plan::GuardPlan;
use crate::path::shown;
use crate::report::{self, Report, cannot_execute_inside, refusal};
use crate::scope;
use crate::seccomp;
use crate::signal_mask::Mask;

pub(crate) use confine::drop_capabilities;
pub(crate) use namespaces::{User, enter as enter_namespaces};

const NO_COMMAND: &str = "the sandbox was set up without a command to run in it";

/// Why the command was not started.
#[derive(Debug)]
enum Failure {
    /// This machine does not let us do it: nothing has been given up yet, and a start without the guard may still work.
    Unavailable(String),
    /// What was to be hidden has changed since it was planned.
    Changed(String),
    /// Something is not as it must be.
    Refused(String),
    /// A script was printed without one.
    NoCommand,
    CannotExecute {
        program: OsString,
        error: io::Error,
    },
}

impl Failure {
    /// For a step that needs nothing but what every kernel gives to whoever has its own user namespace.
    fn step(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |e| Self::Unavailable(format!("{what}: {}", reason(&e)))
    }

    fn refused(what: &str, why: impl fmt::Display) -> Self {
        Self::Refused(format!("{what}: {why}"))
    }

    fn report(self) -> Report {
        match self {
            Self::Unavailable(why) => Report::Unavailable(why),
            Self::Changed(why) => Report::Changed(why),
            Self::Refused(why) => Report::Refused(why),
            Self::NoCommand => Report::CannotExecute { errno: 0, message: NO_COMMAND.to_owned() },
            Self::CannotExecute { program, error } => {
                let message = format!("`{}` cannot be executed inside: {}", shown(&program), reason(&error));
                Report::CannotExecute { errno: error.raw_os_error().unwrap_or_default(), message }
            }
        }
    }

    fn diagnostic(self) -> Diagnostic {
        if let Self::NoCommand = self {
            return Diagnostic::new(Code::CommandNotFound, NO_COMMAND)
                .help("print the script anew, with one: `agent-sandbox --print-args -- COMMAND [ARGS]…`");
        }
        match self.report() {
            Report::Unavailable(why) => report::unavailable(&why),
            Report::CannotExecute { errno, message } => cannot_execute_inside(errno, message),
            Report::Refused(why) | Report::Changed(why) => refusal(&why),
            Report::Ready => refusal("the second stage did not end as it should"),
        }
    }
}

/// `words`: the descriptor of the plan, `--`, and the command. A program that embeds this library can be its own guard: name it
/// as `Session::executable`, and call this when its first argument is [`crate::guard_plan::SUBCOMMAND`].
pub fn main(words: &[OsString]) -> ExitCode {
    let (plan, command) = match read(words) {
        Ok(read) => read,
        // Whoever was to send it has ended, and it is not for us to speak after him.
        Err(e) if e.kind() == DESERTED => return ExitCode::from(exit_code::OWN_FAILURE),
        Err(e) => {
            let problem = refusal(&format!("the plan of the second stage cannot be read: {}", reason(&e)));
            return say(&problem, TEXT);
        }
    };
    let format = if plan.json { Format::Json } else { TEXT };
    let supervisor = match plan.report.map(descriptors::inherited).transpose() {
        Ok(supervisor) => supervisor,
        Err(e) => return say(&refusal(&format!("the supervisor cannot be reached: {}", reason(&e))), format),
    };
    let failure = match start(&plan, &command, supervisor.as_ref()) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    match supervisor {
        Some(supervisor) => {
            // Should that fail, there is nobody left to tell.
            let _ = failure.report().send(supervisor.as_fd());
            ExitCode::from(exit_code::OWN_FAILURE)
        }
        None => say(&failure.diagnostic(), format),
    }
}

/// A supervisor that has ended before it had a plan.
const DESERTED: io::ErrorKind = io::ErrorKind::ConnectionAborted;

/// As large as most plans.
const PLAN_BYTES: usize = 1 << 16;

fn read(words: &[OsString]) -> io::Result<(GuardPlan, Vec<OsString>)> {
    let [descriptor, _, command @ ..] = words else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not called as it should be"));
    };
    let descriptor = descriptor.to_str().and_then(|number| number.parse().ok()).unwrap_or_default();
    // To its end: a supervisor writes the plan when it is known, and one that is gone has not written all of it.
    let mut text = Vec::with_capacity(PLAN_BYTES);
    // What is not open holds none.
    let plan = descriptors::inherited(descriptor).map_err(|_| rustix::io::Errno::NOENT)?;
    let mut plan = fs::File::from(plan);
    plan.read_to_end(&mut text)?;
    if text.is_empty() && plan.metadata()?.file_type().is_socket() {
        return Err(DESERTED.into());
    }
    let mut plan: GuardPlan = serde_json::from_slice(&text)?;
    let command = match plan.command.take() {
        Some(command) => command.into_iter().map(|word| word.0).collect(),
        None => command.to_vec(),
    };
    Ok((plan, command))
}

/// The guard on one screen. Each step says what it needs; the order is the only one that works (see TECHNICAL_STEERING.md).
fn start(plan: &GuardPlan, command: &[OsString], supervisor: Option<&OwnedFd>) -> Result<Infallible, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::NoCommand);
    };
    let directory = match &plan.directory {
        Some(directory) => directory.as_path().to_owned(),
        None => std::env::current_dir().map_err(|e| Failure::refused("the working directory", reason(&e)))?,
    };
    let user = User::outside().map_err(Failure::step("who the caller is"))?;
    if !ablate::is_off(Mitigation::PrivatePropagation) {
        mounts::detach_from_host().map_err(Failure::step("mounts of its own"))?;
    }
    let made = mounts::make(plan).map_err(|(path, e)| {
        let why = format!("`{path}`: {}", reason(&e));
        if mounts::is_gone(&e) { Failure::Changed(why) } else { Failure::Refused(why) }
    })?;
    check::check(&plan.expect, &made).map_err(Failure::Refused)?;
    // What we are in was covered.
    std::env::set_current_dir(&directory)
        .map_err(|e| Failure::refused(&format!("`{}`", shown(directory.as_os_str())), reason(&e)))?;
    if !plan.nested && !ablate::is_off(Mitigation::NoUserNamespaces) {
        namespaces::allow_one_more().map_err(Failure::step("the limit of user namespaces"))?;
    }
    for path in plan.proc_read_only.iter().filter(|_| !ablate::is_off(Mitigation::ProcSys)) {
        match mounts::read_only(path) {
            // Not every kernel has all of them.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            made => made.map_err(|e| Failure::refused(&format!("`{path}`"), reason(&e)))?,
        }
    }
    if !ablate::is_off(Mitigation::MountLock) && !ablate::is_off(Mitigation::RootCapabilities) {
        namespaces::enter(user).map_err(Failure::step("a namespace that locks the mounts"))?;
    }
    // The supervisor takes hold of this process, and looks once more whether all is as planned, while the rest is done: nothing of it is about mounts.
    if let Some(supervisor) = supervisor {
        Report::Ready.send(supervisor.as_fd()).map_err(|e| Failure::refused("the supervisor", reason(&e)))?;
    }
    if !ablate::is_off(Mitigation::RootCapabilities) {
        confine::drop_capabilities().map_err(|e| Failure::refused("capabilities", reason(&e)))?;
    }
    keep_inside(plan).map_err(|e| Failure::refused("Landlock", e))?;
    descriptors::close_on_exec().map_err(|e| Failure::refused("descriptors", reason(&e)))?;
    // Nothing that follows is forbidden by it: nothing else should have to know what the filter forbids.
    if plan.seccomp && !ablate::is_off(Mitigation::Seccomp) {
        seccomp::apply().map_err(|e| Failure::refused("seccomp", e))?;
    }
    if let Some(supervisor) = supervisor {
        report::wait_for_go(supervisor.as_fd()).map_err(|e| Failure::refused("the supervisor", reason(&e)))?;
    }
    let mask = plan.signal_mask.as_deref().and_then(|mask| mask.parse::<Mask>().ok());
    mask.unwrap_or_default().restore();
    let variables = plan.environment.iter().flatten().map(|(Word(name), Word(value))| (name, value));
    // bwrap has set this one: the working directory (SPEC E1).
    let variables = variables.filter(|(name, _)| *name != "PWD");
    let error = Command::new(program).args(arguments).envs(variables).exec();
    Err(Failure::CannotExecute { program: program.clone(), error })
}

fn keep_inside(plan: &GuardPlan) -> Result<(), RulesetError> {
    let scopes = plan.landlock && !ablate::is_off(Mitigation::LandlockScope);
    if plan.names && !ablate::is_off(Mitigation::OwnNames) {
        scope::keep_names(mounts::open_to_names(plan), scopes)
    } else if scopes {
        scope::apply()
    } else {
        Ok(())
    }
}

const TEXT: Format = Format::Text { color: false };

/// Says it to whoever reads standard error, and gives the exit code for it.
fn say(diagnostic: &Diagnostic, format: Format) -> ExitCode {
    let mut diagnostics = Diagnostics::default();
    diagnostics.push(diagnostic.clone());
    let _ = io::stderr().write_all(render(&diagnostics, format).as_bytes());
    ExitCode::from(exit_code::of(diagnostic.code))
}
