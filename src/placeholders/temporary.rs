//! Runs that must leave nothing behind. An ordinary run makes directories and files that stay
//! (`if-missing = "create"`, folders of agents, the state folder); these runs remove them, too.

use crate::compile::lower::Argv;
use crate::compile::placeholder::Placeholder;
use crate::compile::resolve::NewFile;
use crate::host::journal::{self, RUNS};
use crate::host::nofollow::look;
use crate::host::{FileKind, Host, OpenDir};
use crate::policy::{AbsPath, LayerKind, Origin};

use super::runs;

const ONLY_FOR_THIS_RUN: Origin = Origin::BuiltIn("is there as long as this run");

/// The parts of the state folder that were missing before a run. Dropping the value removes them;
/// drop it after [`super::ActivePlaceholders`].
pub struct Traces {
    host: Host,
    state: AbsPath,
    /// Outermost first.
    missing: Vec<AbsPath>,
}

/// Turns everything that `argv` would make and leave into placeholders, so that a killed run is
/// swept like any other. Call this before [`crate::launch::ready`].
pub fn leave_nothing(host: &Host, state: &AbsPath, argv: &mut Argv) -> Traces {
    // The journals are in the state folder, so no journal can note the folder itself.
    let is_of_state = |path: &AbsPath| path.is_within(state) || state.is_within(path);
    let directories = argv.create.extract_if(.., |path| !is_of_state(path)).map(|path| (path, FileKind::Directory));
    let files = argv.new_files.drain(..).map(|NewFile { path, .. }| (path, FileKind::File));
    for (path, kind) in directories.chain(files) {
        let parents = path.parent().map_or_else(Vec::new, |parent| missing(host, &parent));
        let layer = LayerKind::Base;
        argv.placeholders.push(Placeholder { path, kind, parents, layer, origin: ONLY_FOR_THIS_RUN });
    }
    Traces { host: host.clone(), state: state.clone(), missing: missing(host, &lock_file(state)) }
}

impl Drop for Traces {
    /// Leaves everything that another run uses by now.
    fn drop(&mut self) {
        let host = &self.host;
        let lock = lock_file(&self.state);
        if self.missing.contains(&lock) && matches!(look(host, &lock), Ok(Some(_))) {
            // A process that waits for this lock sees that its file is gone, and makes another.
            let Ok(_locked) = runs::lock(host, &self.state) else { return };
            if journal::journals(host, &self.state).is_ok_and(|journals| !journals.is_empty()) {
                return;
            }
            let _ = OpenDir::parent_of(host, &lock).and_then(|(folder, name)| folder.remove_file(name));
        }
        for folder in self.missing.iter().filter(|path| **path != lock).rev() {
            let _ = OpenDir::parent_of(host, folder).and_then(|(parent, name)| parent.remove_dir(name));
        }
    }
}

fn lock_file(state: &AbsPath) -> AbsPath {
    state.child(RUNS).child(runs::LOCK)
}

/// The missing paths among `path` and its ancestors, outermost first.
fn missing(host: &Host, path: &AbsPath) -> Vec<AbsPath> {
    let is_missing = |path: &AbsPath| matches!(host.kind(path), Ok(None));
    let mut missing: Vec<AbsPath> = path.ancestors().take_while(is_missing).collect();
    missing.reverse();
    missing
}
