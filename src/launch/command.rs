//! Whether the command can be found inside, before anything starts: bwrap itself reports every failure as exit
//! code 1, which a caller could not tell from the command's own.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::compile::Compiled;
use crate::compile::environment::Environment;
use crate::compile::plan::Plan;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::{FileKind, Host};
use crate::policy::path::{AbsPath, escape_for_display};
use crate::policy::places;

/// What stands at one place where the command could be.
enum Found {
    Executable,
    NotExecutable(AbsPath),
    Folder(AbsPath),
    /// The place on the way that the sandbox does not show.
    Hidden(AbsPath),
    Absent,
}

pub(super) fn check(
    host: &Host,
    compiled: &Compiled,
    environment: &Environment,
    name: &OsStr,
) -> Result<(), Diagnostic> {
    // It is there inside only.
    if compiled.guard && name == places::GUARD {
        return Ok(());
    }
    let (mut hidden, mut not_executable, mut folder) = (None, None, None);
    for candidate in candidates(environment, &compiled.layers.project.cwd, name) {
        match look(host, &compiled.plan, &candidate) {
            Found::Executable => return Ok(()),
            Found::NotExecutable(at) => not_executable = not_executable.or(Some(at)),
            Found::Folder(at) => folder = folder.or(Some(at)),
            Found::Hidden(at) => hidden = hidden.or(Some(at)),
            Found::Absent => {}
        }
    }
    let shown_name = escape_for_display(name);
    Err(match (not_executable, hidden, folder) {
        (Some(at), ..) => {
            Diagnostic::new(Code::CommandNotExecutable, format!("`{shown_name}` is `{at}`, which cannot be executed"))
                .help("make it executable with `chmod +x`, or run it through its interpreter")
        }
        (None, Some(at), _) => {
            let message = if at.as_os_str() == name {
                format!("`{at}` exists, but the sandbox does not show it")
            } else {
                format!("`{shown_name}` is `{at}`, which the sandbox does not show")
            };
            Diagnostic::new(Code::CommandNotFound, message)
                .help("show it with a `ro` rule, or call the command from a place that is visible inside")
        }
        (None, None, Some(at)) => {
            Diagnostic::new(Code::CommandNotExecutable, format!("`{at}` is a folder, which cannot be executed"))
                .help("give a command; `-C` says in which folder it starts")
        }
        (None, None, None) => Diagnostic::new(Code::CommandNotFound, format!("`{shown_name}` was not found")).help(
            if name.as_bytes().contains(&b' ') {
                "give the command and its arguments as words of their own, or use `sh -c`"
            } else {
                "check the spelling and PATH"
            },
        ),
    })
}

/// As `execvp` looks: a name with a slash is a path, everything else is searched for. As spelled, because what `link/..`
/// means is only known on the way. The `PATH` is the one that the command gets, for it is the one that bwrap has.
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

fn look(host: &Host, plan: &Plan, candidate: &Path) -> Found {
    // What cannot be looked at here cannot be executed inside either.
    let Ok(resolved) = host.resolve(candidate) else { return Found::Absent };
    let Some(kind) = resolved.kind else { return Found::Absent };
    if let Some(hidden) = resolved.links.iter().chain([&resolved.path]).find(|at| !plan.view(at).shows_host()) {
        return Found::Hidden(hidden.clone());
    }
    if kind == FileKind::Directory {
        Found::Folder(resolved.path)
    } else if kind == FileKind::File && access(host.real(&resolved.path), Access::EXEC_OK).is_ok() {
        Found::Executable
    } else {
        Found::NotExecutable(resolved.path)
    }
}
