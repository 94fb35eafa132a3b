//! The arguments in front of bwrap that put it into a scope of systemd, for limits that only a
//! cgroup enforces.

use std::ffi::OsString;

use crate::compile::Compiled;
use crate::policy::{AbsPath, Limit, LimitKind, Origin};
use crate::sys::ablate::{self, Mitigation};

use super::limits;

/// The programs that make a scope, and the folder in which the user manager listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub systemd_run: AbsPath,
    pub env: AbsPath,
    pub runtime: AbsPath,
}

/// A scope of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredScope {
    /// The arguments in front of bwrap's.
    pub words: Vec<OsString>,
    /// The limits that the scope enforces, and where each was written.
    pub limits: Vec<(Limit, Origin)>,
    /// The folder in which the user manager listens (`XDG_RUNTIME_DIR`).
    pub runtime: AbsPath,
}

pub(super) fn lower(compiled: &Compiled, scope: Option<&Scope>) -> Option<LoweredScope> {
    let limits = limits(compiled, |kind| matches!(kind, LimitKind::Memory | LimitKind::Cpus));
    let scope = scope.filter(|_| !limits.is_empty() && !ablate::is_off(Mitigation::Limits))?;
    let amounts: Vec<Limit> = limits.iter().map(|(limit, _)| *limit).collect();
    let mut words = vec![scope.systemd_run.as_os_str().to_owned()];
    words.extend(scope_args(&amounts).into_iter().map(OsString::from));
    words.push(scope.env.as_os_str().to_owned());
    // systemd-run sets INVOCATION_ID and needs XDG_RUNTIME_DIR. `env -u` removes each of them
    // again, unless the command's environment has it.
    let variables = ["INVOCATION_ID", "XDG_RUNTIME_DIR"].map(OsString::from);
    let dropped = variables.into_iter().filter(|name| !compiled.environment.variables.contains_key(name));
    words.extend(dropped.flat_map(|name| ["-u".into(), name]));
    Some(LoweredScope { words, limits, runtime: scope.runtime.clone() })
}

/// The arguments of `systemd-run` that make a scope with these limits, up to the command.
pub fn scope_args(limits: &[Limit]) -> Vec<String> {
    let mut args: Vec<String> = ["--user", "--scope", "--quiet", "--collect"].map(str::to_owned).to_vec();
    for limit in limits {
        let amount = limit.amount();
        match limit.kind() {
            LimitKind::Memory => {
                args.extend(["-p".to_owned(), format!("MemoryMax={amount}")]);
                args.extend(["-p".to_owned(), "MemorySwapMax=0".to_owned()]);
            }
            LimitKind::Cpus => args.extend(["-p".to_owned(), format!("CPUQuota={amount}%")]),
            _ => {}
        }
    }
    args.push("--".to_owned());
    args
}
