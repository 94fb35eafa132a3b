//! bwrap as a command: its arguments, environment, file descriptors and run sheet.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::compile::guard_plan::{RUN_SHEET, RunSheet};
use crate::compile::lower::{Argv, CgroupSource};
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::policy::{AbsPath, Word};
#[cfg(feature = "ablate")]
use crate::sys::ablate;
use crate::sys::signals::{self, Shield, SignalMask};
use crate::sys::terminal::is_background;
use crate::sys::{fd, landlock, namespaces};

use super::look::Look;
use super::streams::Streams;

pub(super) fn run_sheet(argv: &Argv, look: &Look, json: bool) -> RunSheet {
    let identities = argv.guard.as_ref().map(|guard| look.identities(&guard.plan)).unwrap_or_default();
    let command = argv.is_command_too_long().then(|| argv.command.iter().cloned().map(Word).collect());
    let for_loader = argv.environment.variables.iter().filter(|(name, _)| is_for_loader(name));
    let environment = for_loader.map(|(name, value)| (Word(name.clone()), Word(value.clone()))).collect();
    RunSheet { identities, command, json, background: is_background(), environment, ..RunSheet::default() }
}

/// Variables that the loader and the C library obey. In a run, bwrap and the guard start without
/// them: `LD_LIBRARY_PATH` may name a place that a command can write.
fn is_for_loader(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"LD_")
        || ["GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH"].iter().any(|other| name == *other)
}

/// `more` are further file descriptors, each with the number that it gets.
pub(super) fn bwrap_command(argv: &Argv, more: Vec<(OwnedFd, RawFd)>, streams: &Streams) -> io::Result<Command> {
    fd::close_on_exec()?;
    // If the command is too long for bwrap's arguments, the run sheet carries it.
    let is_too_long = argv.guard.is_some() && argv.is_command_too_long();
    let words = if is_too_long { argv.args_without_command() } else { argv.words() };
    let cgroup = argv.cgroup.iter().flat_map(|cgroup| cgroup.words.iter().cloned());
    let words: Vec<OsString> = cgroup.chain(words).collect();
    let mut bwrap = Command::new(&words[0]);
    let passes = |(name, _): &(&OsString, &OsString)| argv.guard.is_none() || !is_for_loader(name);
    bwrap.args(&words[1..]).env_clear().envs(argv.environment.variables.iter().filter(passes));
    if let Some(CgroupSource::Systemd { runtime, .. }) = argv.cgroup.as_ref().map(|cgroup| &cgroup.source) {
        bwrap.env("XDG_RUNTIME_DIR", runtime.as_path());
    }
    if argv.pre_exec.private_mounts {
        namespaces::make_mounts_private(&mut bwrap);
    }
    if argv.pre_exec.scope {
        landlock::restrict_scopes_of(&mut bwrap)?;
    }
    signals::restore_sigxfsz(&mut bwrap);
    fd::pass(&mut bwrap, &argv.data, more)?;
    streams.give(&mut bwrap)?;
    // The guard obeys these switches as well.
    #[cfg(feature = "ablate")]
    bwrap.envs(std::env::var_os(ablate::VARIABLE).map(|value| (ablate::VARIABLE, value)));
    Ok(bwrap)
}

pub(super) fn sheet_descriptor(sheet: &RunSheet) -> io::Result<OwnedFd> {
    fd::holding(&serde_json::to_vec(sheet)?)
}

/// Replaces this process by bwrap. Returns only if that failed.
///
/// No process of ours is left that could pass signals on or clean up. Ctrl-C and Ctrl-\ reach the
/// command if the guard starts it. Any other signal goes to bwrap, which this process has become,
/// and ends the command before the command's own handlers can run.
pub(super) fn exec(argv: &Argv, sheet: RunSheet) -> Diagnostic {
    let streams = match Streams::new() {
        Ok(streams) => streams,
        Err(diagnostic) => return diagnostic,
    };
    let sheet = RunSheet { signal_mask: Some(SignalMask::current().0), ..sheet };
    let passed: io::Result<_> = argv.guard.iter().map(|_| Ok((sheet_descriptor(&sheet)?, RUN_SHEET))).collect();
    match passed.and_then(|passed| bwrap_command(argv, passed, &streams)) {
        Ok(mut bwrap) => {
            if argv.guard.is_some() {
                signals::shield(&mut bwrap, Shield::Alone);
            }
            cannot_execute(&argv.program, &bwrap.exec())
        }
        Err(e) => cannot_prepare(&e),
    }
}

pub(super) fn cannot_prepare(error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot prepare the descriptors of bwrap: {}", reason(error))).help(
        "make sure that `/proc` and `/dev/null` are there, and that no limit is in the way (`ulimit -n`, `ulimit -f`)",
    )
}

pub(super) fn cannot_execute(bwrap: &AbsPath, error: &io::Error) -> Diagnostic {
    Diagnostic::new(Code::StartFailed, format!("cannot execute `{bwrap}`: {}", reason(error)))
        .help(format!("reinstall bubblewrap if `{bwrap} --version` does not run"))
}
