//! A real start of the smallest command, as a run does it. Only this tells whether a run would
//! work.

use std::fs::File;
use std::os::fd::OwnedFd;

use crate::compile::layers;
use crate::compile::lower::Engine;
use crate::compile::{self, Compiled};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use crate::host::Host;
use crate::host::session::{Request, Session};
use crate::launch::{self, Ending, GivenStreams, Outcome, Supervisor};
use crate::placeholders;
use crate::placeholders::Removed;
use crate::policy::places;

/// A policy that only looks, for this machine, and what there is to carry it out with.
pub(super) struct Trial {
    pub session: Session,
    pub compiled: Compiled,
    pub engine: Result<Engine, Diagnostic>,
}

/// How it went.
pub(super) enum Went {
    Well,
    /// On bwrap alone; why the guard did not.
    WithoutGuard(String),
    Badly(Diagnostic),
}

/// Compiles the policy that applies here without the rules of the project.
pub(super) fn prepare(host: &Host, session: &Session) -> Result<Trial, Diagnostic> {
    let session = in_harmless_place(host, session);
    let compiled = compile(host, &session, session.executable.is_none())?;
    let engine = launch::engine(host, &session, &compiled);
    Ok(Trial { session, compiled, engine })
}

/// Moves the session to the home if its folder is an unsafe root. `/` contains everything, also
/// bwrap, which must not come from the project.
fn in_harmless_place(host: &Host, session: &Session) -> Session {
    let mut said = Diagnostics::default();
    let request = Request { no_project_config: true, ..Request::default() };
    let is_unsafe = |said: &Diagnostics| said.iter().any(|one| one.code == Code::UnsafeRoot);
    // An unsafe root is found before anything is read.
    let _ = layers::discover(host, session, &request, &mut said).map(|layers| {
        crate::compile::presets::expand(&layers, session, &mut said);
    });
    match session.path_var("HOME").filter(|_| is_unsafe(&said)) {
        Some(home) => Session { cwd: host.resolve(home.as_path()).map_or(home, |found| found.path), ..session.clone() },
        None => session.clone(),
    }
}

fn compile(host: &Host, session: &Session, no_guard: bool) -> Result<Compiled, Diagnostic> {
    let request = Request {
        no_project_config: true,
        presets: vec!["!@all".into()],
        ro: vec![session.cwd.as_os_str().to_owned()],
        no_guard,
        ..Request::default()
    };
    let mut said = Diagnostics::default();
    let compiled = compile::compile(host, session, &request, &mut said);
    let error = said.iter().find(|one| one.severity() == Severity::Error).cloned();
    match (compiled, error) {
        (Some(compiled), None) => Ok(compiled),
        (_, Some(error)) => Err(error),
        (None, None) => Err(Diagnostic::new(Code::StartFailed, "there is no policy to start with")),
    }
}

impl Trial {
    pub(super) fn start(&self, host: &Host, allow_root: bool) -> Went {
        let engine = match (launch::check_caller(host, &self.session, allow_root), &self.engine) {
            (Err(refusal), _) => return Went::Badly(refusal),
            (_, Err(lacking)) => return Went::Badly(lacking.clone()),
            (Ok(_), Ok(engine)) => engine,
        };
        match self.run(host, &self.compiled, engine) {
            Err(diagnostic) | Ok(Outcome::Failed(diagnostic) | Outcome::Changed(diagnostic)) => Went::Badly(diagnostic),
            Ok(Outcome::Ended(ending)) => self.judge(ending, Went::Well),
            Ok(Outcome::Unavailable(why)) => {
                let alone = compile(host, &self.session, true)
                    .and_then(|alone| self.run(host, &alone, &launch::engine(host, &self.session, &alone)?));
                match alone {
                    Err(diagnostic) | Ok(Outcome::Failed(diagnostic) | Outcome::Changed(diagnostic)) => {
                        Went::Badly(diagnostic)
                    }
                    Ok(Outcome::Unavailable(why)) => Went::Badly(Diagnostic::new(Code::StartFailed, why)),
                    Ok(Outcome::Ended(ending)) => self.judge(ending, Went::WithoutGuard(why)),
                }
            }
        }
    }

    fn judge(&self, ending: Ending, well: Went) -> Went {
        match ending {
            Ending::Exited(0) => well,
            ending => Went::Badly(Diagnostic::new(Code::StartFailed, format!("a sandbox was started, and {ending}"))),
        }
    }

    fn run(&self, host: &Host, compiled: &Compiled, engine: &Engine) -> Result<Outcome, Diagnostic> {
        let guard = || Some(places::at(places::GUARD));
        let program = if compiled.guard { guard() } else { self.session.executable.clone() };
        let program = program.unwrap_or_else(|| places::at("/bin/true"));
        let command = [program.as_os_str().to_owned(), "--version".into()];
        let mut said = Diagnostics::default();
        let mut argv = compiled.argv(engine, &command, &mut said);
        // What of the kernel's protections is lacking has a line of its own.
        let _traces = placeholders::leave_nothing(host, &compiled.layers.state, &mut argv);
        let ready = if compiled.guard { launch::ready_to_supervise } else { launch::ready };
        ready(host, &self.session, compiled, &argv)?;
        let supervisor = Supervisor::new()?;
        let undo = placeholders::put_up_for(host, compiled, &argv, Removed::Freed)?;
        let sheet = launch::run_sheet(&argv, &launch::look(host, &argv)?, false);
        let nowhere = || File::options().read(true).write(true).open("/dev/null").ok().map(OwnedFd::from);
        let streams = GivenStreams { stdin: nowhere(), stdout: nowhere(), stderr: nowhere() };
        let outcome = supervisor.run(host, &argv, sheet, streams, &mut ());
        undo.finish();
        Ok(outcome)
    }
}
