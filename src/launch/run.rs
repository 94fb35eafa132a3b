//! A run, from the policy to the end of the command. [`Sandbox::run`] reads top to bottom.

use std::ffi::OsString;
use std::fmt;

use crate::compile::layers::PROJECT_FILE;
use crate::compile::lower::{Argv, Machine, MountFiles};
use crate::compile::protection;
use crate::compile::{Compiled, Request};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Format, render};
use crate::guard::report::refusal;
use crate::host::{Host, Session};
use crate::placeholders::{self, Traces};
use crate::policy::{AbsPath, Limit, LimitKind, Protection};
use crate::private::{self, PrivateRun};
use crate::sys::ablate::{self, Mitigation};
use crate::trust::{self, Judged};

use super::bwrap;
use super::exec::{exec, run_sheet};
use super::kept_report::RunReport;
use super::limits::Meter;
use super::look::look;
use super::own_sandbox::own_sandbox;
use super::ready::{self, check_caller, ready_to_supervise, write_mount_files};
use super::{Conclusion, GivenStreams, Recheck, Reports, RunHooks, Supervisor};

/// The largest number of new starts after a path changed during the setup of a sandbox, for
/// example an editor's `.env.tmp`. Each start compiles the policy again.
const RETRIES: usize = 3;

/// A sandbox for one project: the caller, the request, and how a run starts.
#[must_use]
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) host: Host,
    pub(crate) session: Session,
    pub(crate) request: Request,
    pub(crate) allow_root: bool,
    pub(crate) residue: Residue,
    pub(crate) supervised: SupervisedLimits,
    /// Whether the guard writes its messages as JSON.
    pub(crate) json: bool,
}

/// The files and directories that stay on the host after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residue {
    /// The files and directories that rules and presets ask for.
    Requested,
    Nothing,
}

/// The limits of time and output that the supervisor enforces in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupervisedLimits {
    OfPolicy,
    /// Only this limit, for a test.
    Only(Option<Limit>),
}

impl SupervisedLimits {
    fn apply(self, argv: &mut Argv) {
        if let SupervisedLimits::Only(tested) = self {
            argv.supervised.retain_mut(|(limit, _)| {
                let tested = tested.filter(|tested| tested.kind() == limit.kind());
                *limit = tested.unwrap_or(*limit);
                tested.is_some()
            });
        }
    }
}

/// The program that starts a run: the command line, or a program that embeds this library.
pub(crate) trait FrontEnd {
    /// The command to run under this policy.
    fn command(&self, compiled: &Compiled) -> Vec<OsString>;

    /// Called with each compiled policy. May add diagnostics of its own.
    fn compiled(&mut self, _judged: &Judged, _said: &mut Diagnostics) {}

    /// Called with each lowered policy.
    fn lowered(&mut self, _prepared: &Prepared) {}

    /// Shows warnings before the command starts.
    fn tell(&mut self, said: &Diagnostics);

    /// Shows the report of a run, which may be empty, and returns whether all of it was shown.
    /// `is_kept` means that the user can see it again.
    fn report(&mut self, said: &Diagnostics, is_kept: bool) -> bool;

    /// Whether the user wants to see reports.
    fn shows_reports(&self) -> bool {
        true
    }

    /// Shows a warning while the command runs, without waiting. The report repeats it.
    fn warn_during_run(&mut self, _said: &Diagnostics) {}

    /// The standard streams of the command. Called when all placeholders exist.
    fn streams(&mut self, _prepared: &Prepared) -> Result<GivenStreams, Diagnostic> {
        Ok(GivenStreams::default())
    }
}

/// A compiled and lowered policy, for one caller and one command.
pub(crate) struct Prepared {
    pub session: Session,
    pub judged: Judged,
    pub machine: Machine,
    pub argv: Argv,
}

/// A run that has ended. The supervisor still blocks signals.
pub(crate) struct Ran {
    pub conclusion: Conclusion,
    pub supervisor: Supervisor,
    /// The reason why the run had no guard, if the machine does not allow one.
    pub without_guard: Option<String>,
}

/// Nothing was started. At least one of the diagnostics is an error.
#[derive(thiserror::Error)]
#[error("{}", .0.first_error().map_or("", |error| &error.message))]
pub struct Refusal(pub Diagnostics);

/// All diagnostics as text: a program whose `main` returns a refusal prints this.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&render(&self.0, Format::Text { color: false }))
    }
}

impl From<Diagnostic> for Refusal {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(Diagnostics::from_iter([diagnostic]))
    }
}

/// The results of earlier attempts of this run.
#[derive(Default)]
struct RetryState {
    /// The reason why the guard cannot work here.
    without_guard: Option<String>,
    /// The reason why private files are read-only.
    without_private: Option<String>,
    /// The number of attempts in which a path changed.
    changed: usize,
    /// The diagnostics that the front end has shown.
    told: Diagnostics,
    /// Whether the unseen reports of earlier runs have been shown.
    has_repeated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Start,
    Show,
}

impl Sandbox {
    pub(crate) fn new(host: Host, session: Session, request: Request) -> Self {
        let supervised = SupervisedLimits::OfPolicy;
        Self { host, session, request, allow_root: false, residue: Residue::Requested, supervised, json: false }
    }

    /// Runs the command to its end. Starts again without the guard if the machine does not allow
    /// one, and again if a path changed.
    pub(crate) fn run(&self, front: &mut dyn FrontEnd) -> Result<Ran, Refusal> {
        let mut earlier = RetryState::default();
        loop {
            let mut prepared = self.prepare(front, Aim::Start, &mut earlier)?;
            self.supervised.apply(&mut prepared.argv);
            let state = &prepared.judged.compiled.layers.state;
            let traces = (self.residue == Residue::Nothing)
                .then(|| placeholders::leave_nothing(&self.host, state, &mut prepared.argv));
            self.check(&prepared, prepared.judged.compiled.guard)?;
            let Some(private) = self.private(&prepared, self.residue, &mut earlier) else { continue };
            let supervisor = Supervisor::new()?;
            let conclusion = self.supervise(&prepared, traces, private, &supervisor, front)?;
            // The next attempt must find the caller's signal mask, so this supervisor is dropped
            // before it.
            match conclusion {
                Conclusion::Unavailable(why) if earlier.without_guard.is_none() => earlier.without_guard = Some(why),
                Conclusion::PrivateRefused(why) if earlier.without_private.is_none() => {
                    earlier.without_private = Some(why);
                }
                Conclusion::Changed(_) if earlier.changed < RETRIES => earlier.changed += 1,
                conclusion => return Ok(Ran { conclusion, supervisor, without_guard: earlier.without_guard }),
            }
        }
    }

    /// Replaces this process by the sandbox. Returns only if that failed.
    pub(crate) fn exec(&self, front: &mut dyn FrontEnd) -> Refusal {
        match self.try_exec(front) {
            Ok(diagnostic) => diagnostic.into(),
            Err(refusal) => refusal,
        }
    }

    fn try_exec(&self, front: &mut dyn FrontEnd) -> Result<Diagnostic, Refusal> {
        let mut earlier = RetryState::default();
        let prepared = loop {
            let prepared = self.prepare(front, Aim::Start, &mut earlier)?;
            self.check(&prepared, false)?;
            if let Some(private) = self.private(&prepared, self.residue, &mut earlier) {
                front.tell(&private.said);
                break prepared;
            }
        };
        let looked = look(&self.host, &prepared.argv)?;
        match looked.missing() {
            Some(path) => Ok(refusal(&format!("`{path}` is gone"))),
            None => Ok(exec(&prepared.argv, run_sheet(&prepared.argv, &looked, self.json))),
        }
    }

    /// Compiles and lowers the policy for a front end that starts nothing. Writes only our files
    /// that the argv binds.
    pub(crate) fn lower(&self, front: &mut dyn FrontEnd) -> Result<Prepared, Refusal> {
        let mut earlier = RetryState::default();
        let mut prepared = self.prepare(front, Aim::Show, &mut earlier)?;
        // The project's policy file can cause copies of private files, which need consent as a run
        // does.
        let has_consent = prepared.judged.refusal(&self.host).is_none() || ablate::is_off(Mitigation::Trust);
        if has_consent && self.private(&prepared, Residue::Nothing, &mut earlier).is_none() {
            prepared = self.prepare(front, Aim::Show, &mut earlier)?;
        }
        write_mount_files(&self.host, &prepared.judged.compiled, &prepared.argv)?;
        Ok(prepared)
    }

    /// Compiles, judges and lowers the policy. The front end has shown all warnings when this
    /// returns.
    fn prepare(&self, front: &mut dyn FrontEnd, aim: Aim, earlier: &mut RetryState) -> Result<Prepared, Refusal> {
        let Self { host, session, .. } = self;
        let no_guard = self.request.no_guard || earlier.without_guard.is_some();
        let no_private = earlier.without_private.is_some();
        let request = Request { no_guard, no_private, ..self.request.clone() };
        if session.executable.is_none() && !request.no_guard {
            let message = "the guard is the program `agent-sandbox`, which is not on PATH";
            let help = "install it, or name it with `Sandbox::guard`";
            return Err(Diagnostic::new(Code::GuardUnavailable, message).help(help).into());
        }
        let mut said = Diagnostics::default();
        if aim == Aim::Start {
            let warning = check_caller(host, session, self.allow_root)?;
            said.extend(warning);
        }
        let Some(judged) = trust::compile(host, session, &request, &mut said) else { return Err(Refusal(said)) };
        let compiled = &judged.compiled;
        if aim == Aim::Start && self.residue == Residue::Requested {
            end_consent_to_missing(host, compiled)?;
        }
        match aim {
            Aim::Show => said.extend(judged.warning(host)),
            Aim::Start if !std::mem::replace(&mut earlier.has_repeated, true) => reports(host, compiled).repeat(front),
            Aim::Start => {}
        }
        front.compiled(&judged, &mut said);
        let command = front.command(compiled);
        said.extend(own_sandbox(host, compiled, &command));
        let machine = match bwrap::machine(host, session, compiled) {
            Ok(machine) => machine,
            Err(diagnostic) => return Err(Refusal(said.iter().cloned().chain([diagnostic]).collect())),
        };
        let argv = compiled.argv(&machine, &command, &mut said);
        said.forget(&earlier.told);
        if let Some(why) = earlier.without_guard.clone() {
            protection::report(&[(Protection::Guard, why)], &compiled.policy.require, &mut said);
        }
        if let Some(why) = &earlier.without_private {
            let message = format!("private files are read-only: {why}");
            let help = "change them outside, or repair the cause";
            said.push(Diagnostic::new(Code::PrivateUnavailable, message).help(help));
        }
        if said.has_errors() {
            return Err(Refusal(said));
        }
        let is_off = |said: &&Diagnostic| said.code == Code::PlaceholdersOff;
        if let Some(off) = said.iter().find(is_off).filter(|_| aim == Aim::Start) {
            return Err(Diagnostic { code: Code::PlaceholderFailed, ..off.clone() }.into());
        }
        front.tell(&said);
        earlier.told.extend(said.iter().cloned());
        let prepared = Prepared { session: session.clone(), judged, machine, argv };
        front.lowered(&prepared);
        Ok(prepared)
    }

    /// Updates the copies of private files. A run that leaves nothing on the host only makes
    /// missing copies. `None` if copies are not possible here; the next attempt uses none.
    fn private(&self, prepared: &Prepared, residue: Residue, earlier: &mut RetryState) -> Option<PrivateRun> {
        let Prepared { judged, machine, .. } = prepared;
        if earlier.without_private.is_some() {
            return Some(private::hold(&self.host, &judged.compiled));
        }
        let needs_folder = judged.compiled.missing_private_folder().is_some();
        if machine.mount_files == MountFiles::Descriptors && (needs_folder || !judged.compiled.plan.links.is_empty()) {
            earlier.without_private = Some("the state folder cannot be written".to_owned());
            return None;
        }
        let prepared = match residue {
            Residue::Requested => private::prepare(&self.host, &self.session, &judged.compiled),
            Residue::Nothing => private::provide(&self.host, &judged.compiled),
        };
        prepared.map_err(|e| earlier.without_private = Some(e.to_string())).ok()
    }

    /// The last checks before a start. With `has_guard` the supervisor learns from the guard
    /// whether the command has started.
    fn check(&self, prepared: &Prepared, has_guard: bool) -> Result<(), Diagnostic> {
        let Prepared { session, judged, argv, .. } = prepared;
        if let Some(refusal) = judged.refusal(&self.host).filter(|_| !ablate::is_off(Mitigation::Trust)) {
            return Err(refusal);
        }
        let ready = if has_guard { ready_to_supervise } else { ready::ready };
        ready(&self.host, session, &judged.compiled, argv)
    }

    /// Runs the command under a supervisor. When this returns, no process inside is alive, and the
    /// placeholders and traces are gone. Signals stay blocked during that time, so that no signal
    /// leaves placeholders behind.
    fn supervise(
        &self,
        prepared: &Prepared,
        _traces: Option<Traces>,
        mut private: PrivateRun,
        supervisor: &Supervisor,
        front: &mut dyn FrontEnd,
    ) -> Result<Conclusion, Diagnostic> {
        let Prepared { session, judged: Judged { compiled, .. }, machine, argv } = prepared;
        let host = &self.host;
        front.tell(&std::mem::take(&mut private.said));
        let placeholders = placeholders::create_placeholders(host, compiled, argv)?;
        supervisor.refuse_if_asked_to_end()?;
        let looked = look(host, argv)?;
        if let Some(path) = looked.missing() {
            return Ok(Conclusion::Changed(refusal(&format!("`{path}` is gone"))));
        }
        let mut streams = front.streams(prepared)?;
        let meter = meter(argv, &mut streams)?;
        let sheet = run_sheet(argv, &looked, self.json);
        let no_private = argv.guard.as_ref().is_none_or(|guard| guard.plan.links.is_empty());
        let request = Request { no_guard: argv.guard.is_none(), no_private, ..self.request.clone() };
        let recheck = Recheck::new(host, session, &request, machine, looked);
        let report = match self.residue {
            Residue::Requested => RunReport::kept(reports(host, compiled)),
            Residue::Nothing => RunReport::shown_only(),
        };
        let mut hooks = RunHooks::new(compiled, argv, recheck, placeholders, front);
        (hooks.private, hooks.report) = (private, report);
        if argv.guard.is_none() {
            hooks.while_mounting();
            if let Some(unclear) = hooks.unclear() {
                return Ok(Conclusion::Failed(refusal(&unclear)));
            }
        }
        ablate::pause("before-bwrap");
        supervisor.refuse_if_asked_to_end()?;
        let conclusion = supervisor.run(host, argv, sheet, streams, meter, &mut hooks);
        let RunHooks { said, report, front, .. } = hooks;
        report.finish(said, front);
        Ok(conclusion)
    }
}

/// Counts the output of the command, if it is limited.
fn meter(argv: &Argv, streams: &mut GivenStreams) -> Result<Option<Meter>, Diagnostic> {
    let limits = argv.supervised.iter().map(|(limit, _)| limit).filter(|_| !ablate::is_off(Mitigation::Limits));
    let limit = limits.filter(|limit| limit.kind() == LimitKind::Output).map(|limit| limit.amount()).next();
    limit.map(|limit| Meter::new(limit, streams)).transpose()
}

/// Ends the consent to a project file that is missing.
fn end_consent_to_missing(host: &Host, compiled: &Compiled) -> Result<(), Diagnostic> {
    let file = compiled.layers.project.root.child(PROJECT_FILE);
    match host.kind(&file) {
        Ok(None) => trust::end_consent(host, &compiled.layers, &file),
        Ok(Some(_)) | Err(_) => Ok(()),
    }
}

fn reports<'a>(host: &'a Host, compiled: &'a Compiled) -> Reports<'a> {
    Reports::of(host, &compiled.layers.state, &compiled.layers.project)
}

/// The first `agent-sandbox` on PATH. Relative folders of PATH do not count: they may be in the
/// project.
pub(crate) fn find_guard(host: &Host, session: &Session) -> Option<AbsPath> {
    bwrap::first_on_path(host, session, "agent-sandbox").map(|resolved| resolved.path)
}
