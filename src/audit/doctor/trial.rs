//! Starts a small command in a sandbox, as a run does. Only a real start shows whether a run would
//! work.

use std::ffi::OsString;

use crate::compile::lower::Machine;
use crate::compile::{self, Compiled, Request, layers};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::{Host, Session};
use crate::launch::{self, Ending, FrontEnd, GivenStreams, Prepared, Ran, Refusal, Residue, Sandbox};
use crate::policy::{AbsPath, places};
use crate::sys::fd;

/// A compiled policy that opens nothing, and the abilities of this machine to enforce it.
pub(super) struct Trial {
    pub session: Session,
    pub compiled: Compiled,
    pub machine: Result<Machine, Diagnostic>,
}

/// Compiles the policy that applies here without the rules of the project.
pub(super) fn prepare(host: &Host, session: &Session) -> Result<Trial, Diagnostic> {
    let session = in_harmless_place(host, session);
    let mut said = Diagnostics::default();
    let compiled = compile::compile(host, &session, &request(&session), &mut said);
    let compiled = compiled.filter(|_| !said.has_errors()).ok_or_else(|| error_in(&said))?;
    // A command may have planted a bwrap in a folder that the usual policy opens. The policy of
    // the trial opens nothing, so search for bwrap with the usual policy, too.
    let usual = compile::compile(host, &session, &Request::default(), &mut Diagnostics::default());
    let planted = usual.and_then(|usual| launch::find_bwrap(host, &session, &usual).err());
    let machine = planted.map_or_else(|| launch::machine(host, &session, &compiled), Err);
    Ok(Trial { session, compiled, machine })
}

/// Moves the session to the home if its working directory is an unsafe root. With `/` as the root,
/// bwrap would belong to the project, and agent-sandbox would refuse it.
fn in_harmless_place(host: &Host, session: &Session) -> Session {
    let mut said = Diagnostics::default();
    let request = Request { no_project_config: true, ..Request::default() };
    let is_unsafe = |said: &Diagnostics| said.iter().any(|one| one.code == Code::UnsafeRoot);
    // These two stages report an unsafe root. They do not walk the project.
    let _ = layers::discover(host, session, &request, &mut said).map(|layers| {
        crate::compile::policy::Policy::of(&layers, session, &mut said);
    });
    match session.path_var("HOME").filter(|_| is_unsafe(&said)) {
        Some(home) => Session { cwd: host.resolve(home.as_path()).map_or(home, |found| found.path), ..session.clone() },
        None => session.clone(),
    }
}

/// A policy that shows the working directory, and opens nothing.
fn request(session: &Session) -> Request {
    Request {
        no_project_config: true,
        presets: vec!["!@all".into()],
        ro: vec![session.cwd.as_os_str().to_owned()],
        no_guard: session.executable.is_none(),
        ..Request::default()
    }
}

fn error_in(said: &Diagnostics) -> Diagnostic {
    said.first_error()
        .cloned()
        .unwrap_or_else(|| Diagnostic::new(Code::StartFailed, "there is no policy to start with"))
}

impl Trial {
    /// Returns the reason why the guard did not work, if it did not.
    pub(super) fn start(&self, host: &Host, allow_root: bool) -> Result<Option<String>, Diagnostic> {
        if let Err(diagnostic) = &self.machine {
            return Err(diagnostic.clone());
        }
        let sandbox = Sandbox::new(host.clone(), self.session.clone(), request(&self.session));
        let sandbox = Sandbox { allow_root, residue: Residue::Nothing, ..sandbox };
        let ran = sandbox.run(&mut Silent { executable: self.session.executable.clone() });
        let Ran { conclusion, without_guard, .. } = ran.map_err(|Refusal(said)| error_in(&said))?;
        match conclusion.ending()? {
            Ending::Exited(0) => Ok(without_guard),
            ending => Err(Diagnostic::new(Code::StartFailed, format!("a sandbox was started, and {ending}"))),
        }
    }
}

/// A front end that shows nothing: `doctor` prints its own line for each missing feature.
struct Silent {
    executable: Option<AbsPath>,
}

impl FrontEnd for Silent {
    fn command(&self, compiled: &Compiled) -> Vec<OsString> {
        let program = if compiled.guard { Some(places::at(places::GUARD)) } else { self.executable.clone() };
        let program = program.unwrap_or_else(|| places::at("/bin/true"));
        vec![program.as_os_str().to_owned(), "--version".into()]
    }

    fn tell(&mut self, _: &Diagnostics) {}

    fn report(&mut self, _: &Diagnostics, _: bool) -> bool {
        false
    }

    fn streams(&mut self, _: &Prepared) -> Result<GivenStreams, Diagnostic> {
        let null = || fd::null().ok();
        Ok([null(), null(), null()])
    }
}
