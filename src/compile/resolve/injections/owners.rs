//! Finds the repositories that own a path, and whether one of them tracks it: `git add` inside
//! would commit the injected text (SPEC J4).

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;

use crate::diagnostic::reason;
use crate::host::Host;
use crate::host::git::Repository;
use crate::host::git::index::{self, TrackedNames};
use crate::host::git::nested::{common_dir_of, git_dir_in};
use crate::policy::AbsPath;
use crate::sys::ablate::{self, Mitigation};

use super::{OrRefused, refused};

/// Reads the index of each repository once.
pub(super) struct Owners<'h> {
    host: &'h Host,
    /// Keyed by work tree; `None` if the index is unclear.
    indexes: BTreeMap<AbsPath, Option<TrackedNames>>,
}

impl<'h> Owners<'h> {
    pub(super) fn new(host: &'h Host) -> Self {
        Self { host, indexes: BTreeMap::new() }
    }

    /// Refuses a path that a repository around it tracks, or may track.
    pub(super) fn refuse_tracked(&mut self, path: &AbsPath) -> OrRefused<()> {
        if ablate::is_off(Mitigation::InjectedUntracked) {
            return Ok(());
        }
        for folder in path.ancestors().skip(1) {
            let owner = match owner(self.host, &folder) {
                Ok(None) => continue,
                Ok(Some(owner)) => owner,
                Err(e) => {
                    let message = format!("cannot tell whether git tracks `{path}`: {}", reason(&e));
                    return refused(message, format!("repair the repository in `{folder}`, or name another target"));
                }
            };
            let Some(name) = path.relative_to(&folder) else { continue };
            let host = self.host;
            let read = || index::tracked_names(host, &owner.git_dir, &owner.common_dir).ok().flatten();
            match self.indexes.entry(folder.clone()).or_insert_with(read) {
                None => {
                    let message =
                        format!("cannot tell whether git tracks `{path}`: the index of `{folder}` is unclear");
                    return refused(
                        message,
                        "repair it outside with `git status` or `git reset`, or name another target",
                    );
                }
                Some(names) if names.has(name.as_os_str().as_bytes()) => {
                    let message = format!("git tracks `{path}` in `{folder}`, and would commit the injected content");
                    return refused(message, "name a target that git does not track");
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The nearest repository around `path`.
    pub(super) fn nearest(&mut self, path: &AbsPath) -> Option<Repository> {
        path.ancestors().skip(1).find_map(|folder| owner(self.host, &folder).ok().flatten())
    }
}

/// The repository whose work tree `folder` is.
fn owner(host: &Host, folder: &AbsPath) -> io::Result<Option<Repository>> {
    if !host.exists(&folder.child(".git"))? {
        return Ok(None);
    }
    let Some((git_dir, _)) = git_dir_in(host, folder)? else { return Ok(None) };
    let common_dir = common_dir_of(host, &git_dir)?;
    Ok(Some(Repository { work_tree: folder.clone(), git_dir, common_dir, current_branch: None }))
}
