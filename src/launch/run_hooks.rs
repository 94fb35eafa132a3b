//! Work on the host around a supervised run.

use std::io;
use std::os::fd::BorrowedFd;

use crate::compile::Compiled;
use crate::compile::lower::Argv;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::guard::report::{Answer, Report};
use crate::host::Host;
use crate::placeholders::ActivePlaceholders;
use crate::private::PrivateRun;
use crate::sys::ablate;
use crate::sys::namespaces::Namespaces;

use super::aftermath::RunWatch;
use super::kept_report::RunReport;
use super::restore::Restorer;
use super::{FrontEnd, Recheck};

/// Work on the host around a supervised run. The supervisor calls each method at its moment.
pub(crate) struct RunHooks<'a> {
    compiled: &'a Compiled,
    argv: &'a Argv,
    recheck: Recheck<'a>,
    /// The placeholders; `None` after the end of the run.
    placeholders: Option<ActivePlaceholders>,
    pub(super) private: PrivateRun,
    /// Whether the command may have run, so that its changes must be reported.
    may_have_run: bool,
    /// The state of the host before the run, for the reports.
    watch: Option<RunWatch>,
    /// Covers files again that the host replaces, from the moment that the guard is ready.
    restorer: Option<Restorer>,
    pub(super) front: &'a mut dyn FrontEnd,
    /// The diagnostics to report at the end.
    pub(super) said: Diagnostics,
    pub(super) report: RunReport<'a>,
}

impl<'a> RunHooks<'a> {
    pub(super) fn new(
        compiled: &'a Compiled,
        argv: &'a Argv,
        recheck: Recheck<'a>,
        placeholders: ActivePlaceholders,
        front: &'a mut dyn FrontEnd,
    ) -> Self {
        let placeholders = Some(placeholders);
        let may_have_run = argv.guard.is_none();
        let (private, said) = Default::default();
        let (watch, restorer, report) = (None, None, RunReport::shown_only());
        Self { compiled, argv, recheck, placeholders, private, may_have_run, watch, restorer, front, said, report }
    }

    pub(super) fn host(&self) -> &'a Host {
        self.recheck.host
    }

    /// Called while bwrap mounts, before the command starts. Records the state of the host.
    pub(super) fn while_mounting(&mut self) {
        self.watch = Some(RunWatch::start(self.recheck.host, self.compiled, self.placeholders.as_ref()));
    }

    /// The reason why the end of the run could not be compared with its start.
    pub(super) fn unclear(&self) -> Option<String> {
        self.watch.as_ref()?.unclear.as_ref().map(|unclear| format!("cannot examine {unclear}"))
    }

    /// Called after the guard has made its mounts, before the supervisor compares the host again.
    /// `namespaces` are the command's, if the supervisor may enter them.
    pub(super) fn watch_replacements(&mut self, namespaces: Option<&Namespaces>) {
        let (restorer, warning) = Restorer::start(self.recheck.host, self.compiled, namespaces);
        self.restorer = restorer;
        if let Some(warning) = warning {
            self.front.tell(&Diagnostics::from_iter([warning]));
        }
    }

    /// A descriptor that is readable when [`RunHooks::cover_again`] has something to do.
    pub(super) fn replacements(&self) -> Option<BorrowedFd<'_>> {
        self.restorer.as_ref().map(Restorer::descriptor)
    }

    /// Whether a file could not be covered, so that the supervisor must try again.
    pub(super) fn must_cover_again(&self) -> bool {
        self.restorer.as_ref().is_some_and(Restorer::is_pending)
    }

    /// Covers files again that the host has replaced.
    pub(super) fn cover_again(&mut self, namespaces: &Namespaces) {
        let Some(restorer) = &mut self.restorer else { return };
        let warnings = restorer.cover_again(&self.compiled.layers.project.root, namespaces);
        if !warnings.is_empty() {
            self.front.warn_during_run(&warnings);
        }
    }

    /// Called after the guard has compared its mounts, before the command starts. After an error
    /// the command does not start. Not called without a guard.
    pub(super) fn before_exec(&mut self) -> Result<Answer, Report> {
        let gone = || Report::Refused("the placeholders have been removed".to_owned());
        if let Some(unclear) = self.unclear() {
            return Err(Report::Refused(unclear));
        }
        let placeholders = self.placeholders.as_ref().ok_or_else(gone)?;
        let answer = self.recheck.after_mounting(self.argv, placeholders)?;
        self.may_have_run |= matches!(answer, Answer::Go);
        Ok(answer)
    }

    /// Called if bwrap failed before the guard started. Names a path to which the policy restricts
    /// access and that has changed since the policy was compiled. Another start may then succeed.
    pub(super) fn difference(&self) -> Option<String> {
        self.recheck.difference()
    }

    /// Called when no process inside is alive any more. `close(true)` makes all mounts of the
    /// sandbox read-only, because processes elsewhere may hold a directory of it open, and then
    /// releases the mounts. `close(false)` only releases them. `said` is about limits.
    pub(super) fn after_exit(&mut self, close: impl FnOnce(bool) -> io::Result<()>, said: Vec<Diagnostic>) {
        let gaps = self.restorer.as_mut().map(Restorer::end).unwrap_or_default();
        if let Some(watch) = self.watch.as_ref().filter(|_| self.may_have_run) {
            watch.open_root(self.recheck.host, &mut self.said);
        }
        if let Some(placeholders) = self.placeholders.take() {
            self.said.extend(placeholders.finish_while_others_run(close).iter().cloned());
        }
        self.said.extend(said);
        if let Some(watch) = self.watch.as_mut().filter(|_| self.may_have_run) {
            watch.gaps = gaps;
            watch.finish(self.recheck.host, self.compiled, &mut self.said);
            // The findings so far exist only in this process.
            self.report.keep(&self.said);
            ablate::pause("before-private");
            let Recheck { host, session, .. } = self.recheck;
            let report = &mut self.report;
            self.private.finish(host, session, self.compiled, &mut self.said, &mut |said| report.keep(said));
        }
    }
}
