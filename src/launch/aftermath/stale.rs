//! Files of which git expects another version since the run, and that the command could not change:
//! `git checkout` of another branch leaves such a file as it was, and shows it as changed.

use crate::compile::layers::Project;
use crate::compile::resolve::TrackedFiles;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Host;
use crate::policy::path::AbsPath;

use super::{is_there, name_in, one_or_many};

pub(super) struct StaleWatch {
    root: AbsPath,
    /// The protected files that were as the index had them, and the blob of each.
    held: Vec<(AbsPath, Vec<u8>)>,
}

impl StaleWatch {
    pub(super) fn start<'p>(host: &Host, project: &Project, protected: impl Iterator<Item = &'p AbsPath>) -> Self {
        let git_dirs = project.repository.iter().flat_map(|own| [&own.git_dir, &own.common_dir]);
        let git_dirs: Vec<&AbsPath> = git_dirs.collect();
        let in_work_tree =
            |path: &&AbsPath| path.is_within(&project.root) && !git_dirs.iter().any(|git_dir| path.is_within(git_dir));
        let mut tracked = TrackedFiles::new(host);
        let with_blob = |path: &AbsPath| {
            let blob = tracked.holds(path).then(|| tracked.blob(path)).flatten()?;
            Some((path.clone(), blob))
        };
        let held = protected.filter(in_work_tree).filter_map(with_blob).collect();
        Self { root: project.root.clone(), held }
    }

    pub(super) fn finish(&self, host: &Host, said: &mut Diagnostics) {
        let mut tracked = TrackedFiles::new(host);
        let is_stale = |(path, before): &&(AbsPath, Vec<u8>)| {
            tracked.blob(path).as_ref() != Some(before) && !tracked.holds(path) && is_there(host, path)
        };
        let stale: Vec<AbsPath> = self.held.iter().filter(is_stale).map(|(path, _)| path.clone()).collect();
        if stale.is_empty() {
            return;
        }
        let names = stale.iter().map(|path| format!("`{}`", name_in(&self.root, path))).collect();
        let (subject, notes) = one_or_many(names);
        let message = format!("git expects another version of {subject} since this run, and could not write it inside");
        let help = "outside, look at `git diff` first, because the command may have made that version; then \
                    `git checkout -- FILE`; a `git commit -a` before that takes the old version back in";
        said.push(Diagnostic::new(Code::NotCheckedOut, message).notes(notes).paths(stale).help(help));
    }
}
