//! The limits in force, where each was written, and which part of a run enforces it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::compile::Compiled;
use crate::policy::{LayerKind, Limit, LimitKind, Origin};

/// A limit in force.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LimitExplanation {
    pub limit: Limit,
    pub layer: LayerKind,
    /// The origin of the amount: a line of a file, a flag, or the default.
    #[serde(rename = "whence")]
    pub origin: Origin,
    /// The mechanism that enforces the limit.
    pub held: &'static str,
    /// The amounts in earlier layers, which `limit` replaces. The nearest layer comes first.
    pub over: Vec<ReplacedLimit>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReplacedLimit {
    pub limit: Limit,
    #[serde(rename = "whence")]
    pub origin: Origin,
}

/// Explains all limits in force.
pub fn limits(compiled: &Compiled) -> Vec<LimitExplanation> {
    let written = |kind: LimitKind| {
        let layers = compiled.layers.layers.iter().rev();
        layers.flat_map(|layer| layer.config.limits.iter()).filter(move |limit| limit.value.kind() == kind)
    };
    let in_force = compiled.policy.limits.iter();
    in_force
        .map(|(kind, setting)| LimitExplanation {
            limit: setting.value,
            layer: setting.layer,
            origin: setting.origin.clone(),
            held: held(*kind),
            over: written(*kind)
                .filter(|limit| limit.origin != setting.origin)
                .map(|limit| ReplacedLimit { limit: limit.value, origin: limit.origin.clone() })
                .collect(),
        })
        .collect()
}

fn held(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Time => "the supervisor sends SIGTERM, and kills everything inside 10 seconds later; exit code 124",
        LimitKind::Processes => "RLIMIT_NPROC in the sandbox's own user namespace, set by the guard: EAGAIN",
        LimitKind::FileSize => "RLIMIT_FSIZE, set by the guard: SIGXFSZ, or EFBIG where the command ignores it",
        LimitKind::Output => "the supervisor counts bytes, and ends the command as `time` does; exit code 124",
        LimitKind::Tmp => "the size of the file system at `/tmp`, by bubblewrap 0.7 or newer: ENOSPC",
        LimitKind::Memory => "`memory.max` of the run's cgroup: the kernel kills a process inside",
        LimitKind::Cpus => "`cpu.max` of the run's cgroup: the kernel slows the processes down",
    }
}
