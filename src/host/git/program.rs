//! Starts the user's git so that it runs no pager, hook or monitor that a repository names.

use std::process::Command;

use crate::host::{Host, Resolved, Session};
use crate::policy::AbsPath;

/// The first trusted `git` in an absolute folder on PATH. `is_trusted` must hold for the path
/// before symlinks, for each symlink on the way, and for the program itself.
pub(crate) fn find(host: &Host, session: &Session, is_trusted: impl Fn(&AbsPath) -> bool) -> Option<AbsPath> {
    session.path_folders().find_map(|folder| {
        // Keep the path before symlinks, because some programs act by the name that starts them.
        let program = AbsPath::normalize(folder.join("git"))?;
        let Resolved { path, links, .. } = host.program(program.as_path())?;
        let is_trusted = links.iter().chain([&path, &program]).all(&is_trusted);
        is_trusted.then_some(program)
    })
}

/// A git command in `folder`, without pager, hooks and file system monitor. Its environment has
/// none of the caller's GIT_ variables: GIT_DIR, for example, would lead to another repository.
pub(crate) fn command(program: &AbsPath, session: &Session, host: &Host, folder: &AbsPath) -> Command {
    let mut command = Command::new(program.as_path());
    command.args(["--no-optional-locks", "--no-pager", "--literal-pathspecs", "--no-replace-objects"]);
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    command.arg("-C").arg(host.real(folder));
    let passed = ["HOME", "PATH", "XDG_CONFIG_HOME"].into_iter();
    command.env_clear().envs(passed.filter_map(|name| Some((name, session.var(name)?))));
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    command
}
