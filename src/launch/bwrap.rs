//! Which bwrap. It decides everything, so it must not be one that the command could have planted.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};

use crate::compile::Compiled;
use crate::compile::plan::View;
use crate::diagnostic::{Code, Diagnostic};
use crate::host::session::Session;
use crate::host::{FileKind, Host, Resolved};
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Mitigation};

/// The first program of this name on PATH. Relative entries of PATH do not count: they mean the
/// project.
pub(super) fn first_on_path(host: &Host, session: &Session, name: &str) -> Option<Resolved> {
    let path = session.var("PATH").unwrap_or_default();
    let folders = path.as_bytes().split(|b| *b == b':').map(|folder| Path::new(OsStr::from_bytes(folder)));
    folders.filter(|folder| folder.is_absolute()).find_map(|folder| {
        let resolved = host.resolve(&folder.join(name)).ok()?;
        let is_program =
            resolved.kind == Some(FileKind::File) && access(host.real(&resolved.path), Access::EXEC_OK).is_ok();
        is_program.then_some(resolved)
    })
}

/// The first `bwrap` on PATH, unless a sandboxed command can have planted it.
pub fn find(host: &Host, session: &Session, compiled: &Compiled) -> Result<AbsPath, Diagnostic> {
    let Some(resolved) = first_on_path(host, session, "bwrap") else {
        return Err(Diagnostic::new(Code::BwrapMissing, "there is no `bwrap` on PATH")
            .help("install bubblewrap: `apt install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`"));
    };
    // The outermost folder too: with a planted `.git` a subfolder is the root of this run, and was
    // not of an earlier one.
    let project = &compiled.layers.project;
    let of_project = |at: &AbsPath| at.is_within(&project.root) || at.is_within(&project.outermost);
    // What a rule protects in a writable folder may have been put there while it was missing.
    let in_writable = |at: &AbsPath| at.ancestors().take(2).any(|at| compiled.plan.view(&at) == View::HostRw);
    let plantable = |at: &AbsPath| of_project(at) || in_writable(at);
    if let Some(at) = resolved.links.iter().chain([&resolved.path]).find(|at| plantable(at))
        && !ablate::is_off(Mitigation::BwrapPath)
    {
        return Err(Diagnostic::new(
            Code::BwrapUntrusted,
            format!("the first `bwrap` on PATH is `{at}`, which a sandboxed command can write"),
        )
        .help("take that folder out of PATH, or put it after the one that holds the system's `bwrap`"));
    }
    Ok(resolved.path)
}

/// All flags that its help names. A version would only let us guess.
pub(crate) fn flags(bwrap: &AbsPath) -> Result<BTreeSet<String>, Diagnostic> {
    let help = asked(bwrap, "--help")?;
    Ok(help.split_whitespace().filter(|word| word.starts_with("--")).map(str::to_owned).collect())
}

/// What it calls itself: `bubblewrap 0.8.0`.
pub(crate) fn version(bwrap: &AbsPath) -> Result<String, Diagnostic> {
    Ok(asked(bwrap, "--version")?.lines().next().unwrap_or_default().trim().to_owned())
}

fn asked(bwrap: &AbsPath, flag: &str) -> Result<String, Diagnostic> {
    let said = Command::new(bwrap.as_path()).arg(flag).stdin(Stdio::null()).output();
    let said = said.map_err(|e| super::cannot_execute(bwrap, &e))?;
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}
