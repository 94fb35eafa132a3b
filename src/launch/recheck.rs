//! The comparison before the command starts. Commands in other sandboxes may change the project
//! while this run resolves the paths of its rules, and until these paths are mounted.

use std::ffi::OsString;

use crate::compile::guard_plan::{PrivateLink, Tightening};
use crate::compile::lower::{Argv, Machine};
use crate::compile::{self, Request};
use crate::diagnostic::{Diagnostics, reason};
use crate::guard::report::{Answer, Report};
use crate::host::{Host, PathError, Session};
use crate::policy::{AbsPath, places};
use crate::sys::ablate::{self, Mitigation};

use super::look::{Difference, Look};
use crate::placeholders::ActivePlaceholders;

/// The largest number of comparisons while another process changes the compared directories.
const COMPARISONS: usize = 20;

/// The input from which the argv of a run was compiled, and the state of the host at that time.
pub struct Recheck<'a> {
    pub host: &'a Host,
    pub session: &'a Session,
    pub request: &'a Request,
    pub machine: &'a Machine,
    look: Look,
    comparisons: usize,
}

impl<'a> Recheck<'a> {
    pub fn new(host: &'a Host, session: &'a Session, request: &'a Request, machine: &'a Machine, look: Look) -> Self {
        Self { host, session, request, machine, look, comparisons: 0 }
    }

    /// Decides, after the guard has compared its mounts, whether the command may start (SPEC C14,
    /// C12). An error names the change.
    pub fn after_mounting(&mut self, argv: &Argv, active: &ActivePlaceholders) -> Result<Answer, Report> {
        if ablate::is_off(Mitigation::LookAgain) {
            return Ok(Answer::Go);
        }
        let look = self.look.again(self.host).map_err(|PathError { path, error }| {
            Report::Refused(format!("`{path}` has changed: {}", reason(&error)))
        })?;
        match self.look.difference(&look) {
            Some(Difference::Closed(path)) => return Err(Report::Changed(is_another(path))),
            Some(Difference::Opened(path)) => return Err(Report::Refused(is_another(path))),
            // The guard compares its mounts again. Its comparison counts only if no directory
            // changes in the meantime.
            Some(Difference::Directory(_)) if self.comparisons < COMPARISONS => {
                self.comparisons += 1;
                self.look = look;
                return Ok(Answer::VerifyAgain);
            }
            Some(Difference::Directory(path)) if active.another_run_is_alive() => {
                let why = format!("`{path}` keeps changing, and another sandbox may be the cause");
                return Err(Report::Changed(why));
            }
            // Without another sandbox, the user's own programs change the directory.
            Some(Difference::Directory(_)) | None => {}
        }
        if active.another_run_is_alive() {
            self.compile_again(argv, active)?;
        }
        Ok(Answer::Go)
    }

    /// Names a path to which the policy restricts access and that has changed since the policy was
    /// compiled.
    pub fn difference(&self) -> Option<String> {
        match self.look.difference(&self.look.again(self.host).ok()?)? {
            Difference::Closed(path) => Some(is_another(path)),
            Difference::Opened(_) | Difference::Directory(_) => None,
        }
    }

    /// Compiles the policy again, and refuses the start if the rules no longer mean the same
    /// paths. The command of another run may have moved a file past the walk.
    fn compile_again(&self, argv: &Argv, active: &ActivePlaceholders) -> Result<(), Report> {
        let other_paths = || Report::Changed("the paths that the rules mean have changed".to_owned());
        let mut changing = None;
        for _ in 0..COMPARISONS {
            let mut diagnostics = Diagnostics::default();
            let compiled = compile::compile(self.host, self.session, self.request, &mut diagnostics);
            let Some(compiled) = compiled.filter(|_| !diagnostics.has_errors()) else {
                return Err(other_paths());
            };
            let now = compiled.argv(self.machine, &argv.command, &mut diagnostics);
            if mounts(&now) != mounts(argv) || steps(&now) != steps(argv) || links(&now) != links(argv) {
                return Err(other_paths());
            }
            // Another run removes its placeholder at its end unless this run shares it.
            if let Some(another) = now.placeholders.iter().find(|placeholder| !active.includes(&placeholder.path)) {
                return Err(Report::Changed(format!("`{}` is a placeholder of another run", another.path)));
            }
            match compiled.resolution.walk_snapshot.changed(self.host) {
                None => return Ok(()),
                Some(directory) => changing = Some(directory.clone()),
            }
        }
        let directory = changing.map(|directory| format!("`{directory}` ")).unwrap_or_default();
        Err(Report::Changed(format!("{directory}keeps changing, and the paths that the rules mean with it")))
    }
}

/// bwrap's arguments, except the guard's own files.
fn mounts(argv: &Argv) -> Vec<&[OsString]> {
    let is_of_guard = |words: &&[OsString]| words.last().is_some_and(|at| at == places::PLAN || at == places::MASKED);
    argv.operations.iter().map(|operation| operation.words.as_slice()).filter(|words| !is_of_guard(words)).collect()
}

/// The guard's own mounts, except the masks of services' sockets: services create and remove
/// sockets at any time, and a socket that appears after the start is not hidden anyway.
fn steps(argv: &Argv) -> Vec<&Tightening> {
    let overflow = argv.guard.iter().flat_map(|guard| &guard.plan.overflow);
    overflow.filter(|step| !matches!(step, Tightening::MaskIfThere(_))).collect()
}

/// The links to private copies that the guard mounts.
fn links(argv: &Argv) -> Vec<&PrivateLink> {
    argv.guard.iter().flat_map(|guard| &guard.plan.links).collect()
}

fn is_another(path: &AbsPath) -> String {
    format!("`{path}` is no longer the same file or folder")
}
