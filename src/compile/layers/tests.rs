//! A project for tests of other modules.

use super::Project;
use crate::policy::AbsPath;

impl Project {
    /// A project in a folder without a repository.
    pub(crate) fn plain(root: &AbsPath, home: AbsPath) -> Self {
        let (cwd, outermost, root) = (root.clone(), root.clone(), root.clone());
        let (git_named, git_nested, agent_programs) = Default::default();
        Self {
            password_home: None,
            cwd,
            home,
            root,
            outermost,
            mounts: None,
            repository: None,
            git_pointer: None,
            git_named,
            agent_programs,
            git_nested,
        }
    }
}
