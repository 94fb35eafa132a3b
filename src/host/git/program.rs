//! The user's git, started where it may run no program that a repository names.

use std::process::Command;

use crate::host::{Host, Resolved, Session};
use crate::policy::AbsPath;

/// The first `git` in an absolute folder on PATH for which `is_trusted` holds: of the path before
/// symlinks, of each symlink on the way, and of the program itself.
pub(crate) fn find(host: &Host, session: &Session, is_trusted: impl Fn(&AbsPath) -> bool) -> Option<AbsPath> {
    session.path_folders().find_map(|folder| {
        // The path before symlinks, because some programs behave by their name.
        let program = AbsPath::normalize(folder.join("git"))?;
        let Resolved { path, links, .. } = host.program(program.as_path())?;
        let is_trusted = links.iter().chain([&path, &program]).all(&is_trusted);
        is_trusted.then_some(program)
    })
}

/// A command of git in `folder`, without pager, hooks and monitor, and with an environment of the
/// caller's settings alone: GIT_DIR and similar variables would lead to another repository.
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
