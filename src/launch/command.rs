//! Checks whether the sandbox shows the command. The check comes before the start, because bwrap
//! reports every failure as exit code 1, and the command may also exit with 1.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::compile::Compiled;
use crate::compile::environment::Environment;
use crate::compile::plan::View;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::{FileKind, Host, Resolved};
use crate::policy::{AbsPath, Injected, escape_for_display, places};

/// The reasons why a candidate cannot be executed, the most informative first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    NotExecutable,
    Hidden,
    IsFolder,
}

pub(super) fn check(
    host: &Host,
    compiled: &Compiled,
    environment: &Environment,
    name: &OsStr,
) -> Result<(), Diagnostic> {
    // The guard exists only in the sandbox.
    if compiled.guard && name == places::GUARD {
        return Ok(());
    }
    let mut obstacles = Vec::new();
    for candidate in candidates(environment, &compiled.layers.project.cwd, name) {
        match look(host, compiled, &candidate) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(obstacle) => obstacles.push(obstacle),
        }
    }
    let shown_name = escape_for_display(name);
    Err(match obstacles.into_iter().min_by_key(|(why, _)| *why) {
        Some((Obstacle::NotExecutable, at)) => {
            Diagnostic::new(Code::CommandNotExecutable, format!("`{shown_name}` is `{at}`, which cannot be executed"))
                .help("make it executable with `chmod +x`, or run it through its interpreter")
        }
        Some((Obstacle::Hidden, at)) => {
            let message = if at.as_os_str() == name {
                format!("`{at}` exists, but the sandbox does not show it")
            } else {
                format!("`{shown_name}` is `{at}`, which the sandbox does not show")
            };
            Diagnostic::new(Code::CommandNotFound, message)
                .help("show it with a `ro` rule, or call the command from a place that is visible inside")
        }
        Some((Obstacle::IsFolder, at)) => {
            Diagnostic::new(Code::CommandNotExecutable, format!("`{at}` is a folder, which cannot be executed"))
                .help("name a command, and use `-C` for the folder in which it starts")
        }
        None => Diagnostic::new(Code::CommandNotFound, format!("`{shown_name}` was not found")).help(
            if name.as_bytes().contains(&b' ') {
                "give the command and each argument separately, or use `sh -c`"
            } else {
                "check the spelling and PATH"
            },
        ),
    })
}

/// The paths that `execvp` would try: a name with a slash is a path, every other name is searched
/// for in the command's PATH, which is also bwrap's. The paths are not normalized, because the
/// meaning of `link/..` depends on the link.
fn candidates(environment: &Environment, cwd: &AbsPath, name: &OsStr) -> Vec<PathBuf> {
    let cwd = cwd.as_path();
    if name.as_bytes().contains(&b'/') {
        return vec![cwd.join(name)];
    }
    if name.is_empty() {
        return Vec::new();
    }
    let path = environment.var("PATH").unwrap_or(OsStr::new("/bin:/usr/bin"));
    let folders = path.as_bytes().split(|b| *b == b':').map(|folder| Path::new(OsStr::from_bytes(folder)));
    folders.map(|folder| cwd.join(folder).join(name)).collect()
}

/// Whether `candidate` can be executed inside. `false` if it does not exist.
fn look(host: &Host, compiled: &Compiled, candidate: &Path) -> Result<bool, (Obstacle, AbsPath)> {
    // A path that the caller cannot resolve cannot be executed inside either.
    let Ok(mut resolved) = host.resolve(candidate) else { return Ok(false) };
    if let Some(source) = injected_from(compiled, &resolved.path) {
        let Ok(found) = host.resolve(&source) else { return Ok(false) };
        resolved = Resolved { links: resolved.links, ..found };
    } else if resolved.kind.is_some() && !compiled.plan.view(&resolved.path).shows_host() {
        return Err((Obstacle::Hidden, resolved.path));
    }
    let Some(kind) = resolved.kind else { return Ok(false) };
    if let Some(hidden) = resolved.links.iter().find(|link| !compiled.plan.shows_link(link)) {
        return Err((Obstacle::Hidden, hidden.clone()));
    }
    match kind {
        FileKind::Directory => Err((Obstacle::IsFolder, resolved.path)),
        FileKind::File if access(host.real(&resolved.path), Access::EXEC_OK).is_ok() => Ok(true),
        _ => Err((Obstacle::NotExecutable, resolved.path)),
    }
}

/// The path on the host that an injection shows at `path`, if there is one.
fn injected_from(compiled: &Compiled, path: &AbsPath) -> Option<PathBuf> {
    let (at, decision) = compiled.decisions.governing(path).filter(|_| compiled.plan.view(path) == View::Injected)?;
    let Injected::Source { path: source, .. } = decision.injected.as_deref()? else { return None };
    let below = path.as_path().strip_prefix(at.as_path()).ok()?;
    Some(if below.as_os_str().is_empty() { source.as_path().to_owned() } else { source.as_path().join(below) })
}
