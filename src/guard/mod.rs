//! The second stage, inside the sandbox: the last hop between bwrap and the command.
//!
//! bwrap's own mounts can be undone by who makes a user namespace, and are gone for a process that outlives them; and nobody looks
//! whether they are the mounts that were printed. So our own binary makes the mounts that only tighten, compares all of
//! them with the plan, locks them in one more namespace, gives up what it used, and becomes the command.

mod check;
mod confine;
mod mounts;
mod namespaces;
mod plan;
mod seccomp;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::descriptors;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, reason, render};

pub(crate) use confine::{can_scope, scope};
pub use plan::{Expectation, Expected, GuardPlan, Identity, Tightening};
pub(crate) use seccomp::{as_bytes, program};

/// The word that asks our binary to be the guard.
pub const SUBCOMMAND: &str = "__guard";

/// Why the command was not started.
#[derive(Debug)]
enum Failure {
    /// This machine does not let us do it: nothing has been given up yet, and a start without the guard may still work.
    Unavailable(String),
    /// Something is not as it must be.
    Refused(String),
    CannotExecute(io::Error),
}

impl Failure {
    /// For a step that needs nothing but what every kernel gives to whoever has its own user namespace.
    fn step(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |e| Self::Unavailable(format!("{what}: {}", reason(&e)))
    }

    fn refused(what: &str, why: impl fmt::Display) -> Self {
        Self::Refused(format!("{what}: {why}"))
    }
}

/// `words`: the descriptor of the plan, `--`, and the command. A program that embeds this library can be its own guard: name it
/// as `Session::executable`, and call this when its first argument is [`SUBCOMMAND`].
pub fn main(words: &[OsString]) -> ExitCode {
    let failure = match read(words) {
        Ok((plan, command)) => match start(&plan, &command) {
            Ok(never) => match never {},
            Err(failure) => failure,
        },
        Err(e) => Failure::Refused(format!("the guard's plan cannot be read: {e}")),
    };
    say(&failure);
    ExitCode::from(125)
}

fn read(words: &[OsString]) -> io::Result<(GuardPlan, Vec<OsString>)> {
    let [descriptor, _, command @ ..] = words else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not called as it should be"));
    };
    let descriptor = descriptor.to_str().and_then(|number| number.parse::<u32>().ok()).unwrap_or_default();
    let text = fs::read(format!("/proc/self/fd/{descriptor}"))?;
    let mut plan: GuardPlan = serde_json::from_slice(&text)?;
    let command = match plan.command.take() {
        Some(command) => command.into_iter().map(|word| word.0).collect(),
        None => command.to_vec(),
    };
    Ok((plan, command))
}

/// The guard on one screen. Each step says what it needs; the order is the only one that works (see TECHNICAL_STEERING.md).
fn start(plan: &GuardPlan, command: &[OsString]) -> Result<Infallible, Failure> {
    namespaces::enter().map_err(Failure::step("a namespace to mount in"))?;
    mounts::detach_from_host().map_err(Failure::step("mounts of its own"))?;
    for tightening in &plan.mounts {
        mounts::tighten(tightening).map_err(|e| Failure::refused(&format!("`{}`", tightening.path()), reason(&e)))?;
    }
    check::check(&plan.expect).map_err(Failure::Refused)?;
    if !plan.nested {
        namespaces::allow_one_more().map_err(Failure::step("the limit of user namespaces"))?;
    }
    for path in &plan.proc_read_only {
        match mounts::read_only(path) {
            // Not every kernel has all of them.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            made => made.map_err(|e| Failure::refused(&format!("`{path}`"), reason(&e)))?,
        }
    }
    namespaces::enter().map_err(Failure::step("a namespace that locks the mounts"))?;
    confine::drop_capabilities().map_err(|e| Failure::refused("capabilities", reason(&e)))?;
    if plan.landlock {
        confine::scope().map_err(|e| Failure::refused("Landlock", e))?;
    }
    descriptors::close_on_exec().map_err(|e| Failure::refused("descriptors", reason(&e)))?;
    // Last: nothing above should have to know what the filter forbids.
    if plan.seccomp {
        seccomp::apply().map_err(|e| Failure::refused("seccomp", e))?;
    }
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Refused("there is no command".to_owned()));
    };
    Err(Failure::CannotExecute(Command::new(program).args(arguments).exec()))
}

fn say(failure: &Failure) {
    let diagnostic = match failure {
        Failure::Unavailable(why) => Diagnostic::new(
            Code::GuardUnavailable,
            format!("the second stage of the sandbox cannot work on this machine: {why}"),
        )
        .help("`--no-guard` runs on bwrap alone, and `--help` says what that gives up"),
        Failure::Refused(why) => Diagnostic::new(Code::GuardRefused, format!("the sandbox is not as planned: {why}"))
            .help("something changed while it was set up; start again, and look at who changes it if it stays so"),
        Failure::CannotExecute(e) => {
            Diagnostic::new(Code::StartFailed, format!("cannot execute the command: {}", reason(e)))
        }
    };
    let mut diagnostics = Diagnostics::default();
    diagnostics.push(diagnostic);
    eprint!("{}", render(&diagnostics, Format::Text { color: false }));
}
