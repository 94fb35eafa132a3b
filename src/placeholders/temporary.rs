//! A run that must leave nothing behind: what an ordinary run makes and leaves (`if-missing = "create"`, folders for agents, the folder
//! of our state) is taken away, too.

use std::fs;

use crate::compile::lower::Argv;
use crate::compile::placeholder::Placeholder;
use crate::compile::resolve::NewFile;
use crate::host::journal::{self, RUNS};
use crate::host::{FileKind, Host};
use crate::policy::origin::Origin;
use crate::policy::path::AbsPath;
use crate::policy::rule::LayerKind;

use super::runs;

const ONLY_FOR_THIS_RUN: Origin = Origin::BuiltIn("is there as long as this run");

/// What was missing of the folder of our state before a run. Goes at the end: drop it after [`super::ActivePlaceholders`].
pub struct Traces {
    host: Host,
    state: AbsPath,
    /// Outermost first.
    missing: Vec<AbsPath>,
}

/// Lets `argv` make nothing that stays: what it would make is put up and taken away as placeholders are, so that a run that is
/// killed is swept like any other. To be called before [`crate::launch::ready`].
pub fn leave_nothing(host: &Host, state: &AbsPath, argv: &mut Argv) -> Traces {
    // Journals are kept there, so it cannot be noted in one.
    let is_of_state = |path: &AbsPath| path.is_within(state) || state.is_within(path);
    let directories = argv.create.extract_if(.., |path| !is_of_state(path)).map(|path| (path, FileKind::Directory));
    let files = argv.new_files.drain(..).map(|NewFile { path, .. }| (path, FileKind::File));
    for (path, kind) in directories.chain(files) {
        let parents = path.parent().map_or_else(Vec::new, |parent| missing(host, &parent));
        let layer = LayerKind::Base;
        argv.placeholders.push(Placeholder { path, kind, parents, layer, origin: ONLY_FOR_THIS_RUN });
    }
    let lock = state.child(RUNS).child(runs::LOCK);
    Traces { host: host.clone(), state: state.clone(), missing: missing(host, &lock) }
}

impl Drop for Traces {
    /// What another run has begun to use meanwhile stays.
    fn drop(&mut self) {
        let host = &self.host;
        let lock = self.state.child(RUNS).child(runs::LOCK);
        if self.missing.contains(&lock) && fs::symlink_metadata(host.real(&lock)).is_ok() {
            // Who waits for the lock that goes sees that it went, and makes another.
            let Ok(_locked) = runs::lock(host, &self.state) else { return };
            if !journal::names(host, &self.state).is_empty() {
                return;
            }
            let _ = fs::remove_file(host.real(&lock));
        }
        for folder in self.missing.iter().filter(|path| **path != lock).rev() {
            let _ = fs::remove_dir(host.real(folder));
        }
    }
}

/// What has to be made so that there is something at `path`, outermost first.
fn missing(host: &Host, path: &AbsPath) -> Vec<AbsPath> {
    let is_missing = |path: &AbsPath| matches!(host.kind(path), Ok(None));
    let mut missing: Vec<AbsPath> = path.ancestors().take_while(is_missing).collect();
    missing.reverse();
    missing
}
