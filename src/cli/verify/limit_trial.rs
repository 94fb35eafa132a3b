//! Runs a sandbox for each limit that the supervisor enforces, with a probe that goes beyond it.

use std::ffi::OsString;
use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::audit::verify::limit_trial::{self, TriedLimit};
use crate::compile::Compiled;
use crate::diagnostic::{Diagnostic, Diagnostics, reason};
use crate::launch::{FrontEnd, GivenStreams, Prepared, Ran, Sandbox, SupervisedLimits, Supervisor};
use crate::policy::Limit;
use crate::sys::fd;

use super::{cannot_verify, probe_command};
use crate::cli::answer::CliError;
use crate::launch::Ending;

/// A trial, or the signal that ended it.
pub(super) enum Trial {
    Tried(TriedLimit),
    Killed(Supervisor, Ending),
}

/// The limits to try for the limits of a policy.
pub(super) fn limits_to_try(compiled: &Compiled) -> impl Iterator<Item = Limit> {
    compiled.policy.limits.keys().copied().filter_map(limit_trial::limit_to_try)
}

/// Tries `limit` in the place of the policy's own.
pub(super) fn try_limit(sandbox: &Sandbox, limit: Limit) -> Result<Trial, CliError> {
    let cannot = |e: io::Error| cannot_verify(&format!("the test of the limit `{}`: {}", limit.kind(), reason(&e)));
    let passed = memfd_create("agent-sandbox", MemfdFlags::CLOEXEC).map(File::from).map_err(|e| cannot(e.into()))?;
    let sandbox = Sandbox { supervised: SupervisedLimits::Only(Some(limit)), ..sandbox.clone() };
    let Ran { conclusion, supervisor, .. } = sandbox.run(&mut Quiet { output: &passed })?;
    match conclusion.ending()? {
        ending @ Ending::Killed(_) => Ok(Trial::Killed(supervisor, ending)),
        ending => {
            let passed = passed.metadata().map_err(cannot)?.len();
            Ok(Trial::Tried(TriedLimit { limit, ending, passed }))
        }
    }
}

/// A front end that shows nothing: the first sandbox has shown all warnings.
struct Quiet<'a> {
    output: &'a File,
}

impl FrontEnd for Quiet<'_> {
    fn command(&self, compiled: &Compiled) -> Vec<OsString> {
        probe_command(compiled).into_iter().chain(["--exceed".into()]).collect()
    }

    fn tell(&mut self, _: &Diagnostics) {}

    fn report(&mut self, _: &Diagnostics, _: bool) -> bool {
        false
    }

    fn streams(&mut self, _: &Prepared) -> Result<GivenStreams, Diagnostic> {
        let cannot = |e: io::Error| cannot_verify(&format!("the streams of a test: {}", reason(&e)));
        let null = || fd::null().map_err(cannot);
        Ok([Some(null()?), Some(self.output.try_clone().map_err(cannot)?.into()), Some(null()?)])
    }
}
