//! The arguments in front of bwrap that put it into a cgroup of the run, for limits that only a
//! cgroup enforces.

use std::ffi::{OsStr, OsString};

use crate::compile::Compiled;
use crate::policy::{AbsPath, Limit, LimitKind, Origin};
use crate::sys::ablate::{self, Mitigation};

use super::limits;

/// The beginning of the name of each cgroup in a delegated folder. The process id follows.
pub const CGROUP_PREFIX: &str = "agent-sandbox-";

/// How a run gets a cgroup of its own, and the programs for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupSource {
    /// The systemd user manager makes a scope. It listens in the folder `runtime`
    /// (`XDG_RUNTIME_DIR`).
    Systemd { systemd_run: AbsPath, env: AbsPath, runtime: AbsPath },
    /// A shell makes a cgroup in a folder of cgroups that an administrator delegated to the user.
    Delegated { folder: AbsPath, sh: AbsPath, mkdir: AbsPath, env: AbsPath },
}

/// The cgroup of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredCgroup {
    /// The arguments in front of bwrap's.
    pub words: Vec<OsString>,
    /// The limits that the cgroup enforces, and where each was written.
    pub limits: Vec<(Limit, Origin)>,
    pub source: CgroupSource,
}

impl CgroupSource {
    /// The arguments that start a command in a cgroup with these limits. The command follows.
    pub fn words(&self, limits: &[Limit]) -> Vec<OsString> {
        match self {
            Self::Systemd { systemd_run, .. } => {
                let args = scope_args(limits).into_iter().map(OsString::from);
                [systemd_run.as_os_str().to_owned()].into_iter().chain(args).collect()
            }
            Self::Delegated { folder, sh, mkdir, .. } => {
                let script = delegated_script(limits);
                let words = [sh.as_os_str(), "-c".as_ref(), script.as_ref(), mkdir.as_os_str(), folder.as_os_str()];
                words.map(OsStr::to_owned).to_vec()
            }
        }
    }

    /// The program `env`, and the variables that the programs before it set or need.
    fn variables(&self) -> (&AbsPath, &'static [&'static str]) {
        match self {
            Self::Systemd { env, .. } => (env, &["INVOCATION_ID", "XDG_RUNTIME_DIR"]),
            Self::Delegated { env, .. } => (env, &["OLDPWD", "PWD", "SHLVL", "_"]),
        }
    }
}

pub(super) fn lower(compiled: &Compiled, source: Option<&CgroupSource>) -> Option<LoweredCgroup> {
    let limits = limits(compiled, |kind| matches!(kind, LimitKind::Memory | LimitKind::Cpus));
    let source = source.filter(|_| !limits.is_empty() && !ablate::is_off(Mitigation::Limits))?;
    let amounts: Vec<Limit> = limits.iter().map(|(limit, _)| *limit).collect();
    let mut words = source.words(&amounts);
    // `env -u` removes the variables of these programs, unless the command has a value of its own.
    let (env, variables) = source.variables();
    words.push(env.as_os_str().to_owned());
    let variables = variables.iter().map(OsString::from);
    let dropped = variables.filter(|name| !compiled.environment.variables.contains_key(name));
    words.extend(dropped.flat_map(|name| ["-u".into(), name]));
    Some(LoweredCgroup { words, limits, source: source.clone() })
}

/// The arguments of `systemd-run` that make a scope with these limits, up to the command.
fn scope_args(limits: &[Limit]) -> Vec<String> {
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

/// A script that makes a cgroup in the folder `$1` with the program `$0`, sets its limits, enters
/// it and executes the other arguments. A kernel that does not count swap has no
/// `memory.swap.max`.
fn delegated_script(limits: &[Limit]) -> String {
    let mut steps = vec![format!("c=$1/{CGROUP_PREFIX}$$"), "shift".to_owned(), "\"$0\" \"$c\"".to_owned()];
    for limit in limits {
        let amount = limit.amount();
        match limit.kind() {
            LimitKind::Memory => {
                steps.push(format!("echo {amount} >\"$c/memory.max\""));
                steps.push("{ [ ! -e \"$c/memory.swap.max\" ] || echo 0 >\"$c/memory.swap.max\"; }".to_owned());
            }
            // The amount is in hundredths of a processor, and the period in microseconds.
            LimitKind::Cpus => steps.push(format!("echo {} 100000 >\"$c/cpu.max\"", amount * 1000)),
            _ => {}
        }
    }
    steps.extend(["echo $$ >\"$c/cgroup.procs\"".to_owned(), "exec \"$@\"".to_owned()]);
    steps.join(" && ")
}
