//! The second stage: our own binary, started by bwrap inside, which hands over to the command.
//!
//! bwrap and whoever waits in it are started with signals blocked (`launch/signals.rs`); this stage takes that back at the last
//! moment, and tells the supervisor which process the command is.

pub mod report;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, reason, render};
use crate::host::Host;
use crate::launch::signals::Mask;
use crate::launch::{self, descriptors, exit_code};
use crate::lower::{Argv, Operation};
use crate::origin::Origin;
use crate::path::{AbsPath, shown};
use crate::places;

use report::Report;

/// The first word of the guard's command line. It is not for people: `agent-sandbox __guard SOCKET MASK -- COMMAND…`.
pub(crate) const WORD: &str = "__guard";

/// Stands for no socket: nobody supervises.
const NOBODY: &str = "-";

/// The same sandbox, with the command started by the guard, which reports to the socket that it inherits as `socket`
/// and blocks the signals of `mask` for it, and no other.
pub(crate) fn wrap(argv: &Argv, executable: &AbsPath, socket: Option<RawFd>, mask: Mask) -> Argv {
    let mut argv = argv.clone();
    let is_seal = |operation: &Operation| operation.words == ["--remount-ro", places::OURS];
    let at = argv.operations.iter().position(is_seal).unwrap_or(argv.operations.len());
    let words = ["--ro-bind".into(), executable.as_os_str().to_owned(), places::GUARD.into()];
    let because = Origin::BuiltIn("starts the command");
    argv.operations.insert(at, Operation { words: words.to_vec(), because, access: None });
    let socket = socket.map_or(NOBODY.to_owned(), |number| number.to_string());
    argv.command.splice(0..0, [places::GUARD, WORD, &socket, &mask.to_string(), "--"].map(OsString::from));
    argv
}

/// `words`: what follows [`WORD`].
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    let [number, mask, _separator, name, arguments @ ..] = words else {
        return failed("this form is for the sandbox itself");
    };
    let Some(mask) = mask.to_str().and_then(|mask| mask.parse::<Mask>().ok()) else {
        return failed("this form is for the sandbox itself");
    };
    let socket = match (number != NOBODY).then(|| inherited(number)).transpose() {
        Ok(socket) => socket,
        Err(e) => return failed(&format!("cannot use the supervisor's socket: {}", reason(&e))),
    };
    if !launch::is_inside(&Host::system()) {
        return failed("this form works inside a sandbox only");
    }
    if let Some(socket) = &socket
        && let Err(e) = report::ready(socket.as_fd())
    {
        return failed(&format!("the supervisor does not answer: {}", reason(&e)));
    }
    mask.restore();
    let error = Command::new(name).args(arguments).exec();
    let errno = error.raw_os_error().unwrap_or_default();
    let message = format!("`{}` cannot be executed inside: {}", shown(name), reason(&error));
    match socket {
        Some(socket) => {
            // Should that fail, there is nobody left to tell.
            let _ = Report::CannotExecute { errno, message }.send(socket.as_fd());
            ExitCode::from(exit_code::OWN_FAILURE)
        }
        None => said(launch::cannot_execute_inside(errno, message)),
    }
}

fn inherited(number: &OsString) -> io::Result<OwnedFd> {
    let number = number.to_str().and_then(|number| number.parse().ok()).ok_or(io::ErrorKind::InvalidInput)?;
    descriptors::inherited(number)
}

fn failed(why: &str) -> ExitCode {
    said(Diagnostic::new(Code::StartFailed, why))
}

/// Says it, and returns the exit code for it.
fn said(diagnostic: Diagnostic) -> ExitCode {
    let code = exit_code::of(diagnostic.code);
    let mut diagnostics = Diagnostics::default();
    diagnostics.push(diagnostic);
    let _ = io::stderr().write_all(render(&diagnostics, Format::Text { color: false }).as_bytes());
    ExitCode::from(code)
}
