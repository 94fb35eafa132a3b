//! The limits of a policy: which layer decides each one, and which a run of this kind cannot
//! enforce.

use std::collections::BTreeMap;

use crate::compile::Request;
use crate::compile::config::Tmp;
use crate::compile::layers::Layers;
use crate::compile::plan::{Mount, Plan, PlannedMount, Purpose};
use crate::compile::policy::{Policy, Setting};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::Session;
use crate::policy::{LayerKind, Limit, LimitKind, Origin, places};

/// The size of the private `/tmp` if no layer gives one, on a machine with at least twice as much
/// memory.
const DEFAULT_TMP: u64 = 4 << 30;

const TMP_BY_DEFAULT: Origin = Origin::BuiltIn("`/tmp` is limited by default");

/// The limits in force. The later layer wins; a file above the root can only lower a limit (SPEC
/// L4).
pub(super) fn of(layers: &Layers, session: &Session, tmp: Tmp) -> BTreeMap<LimitKind, Setting<Limit>> {
    let mut limits = BTreeMap::new();
    if tmp == Tmp::Private {
        let (value, layer) = (Limit::tmp(default_tmp(session)), LayerKind::Preset);
        limits.insert(LimitKind::Tmp, Setting { value, layer, origin: TMP_BY_DEFAULT });
    }
    for layer in &layers.layers {
        for limit in layer.config.limits.iter() {
            let kind = limit.value.kind();
            let lowers = limits.get(&kind).is_none_or(|known: &Setting<Limit>| limit.value < known.value);
            if lowers || !layer.protective_only {
                let (value, origin) = (limit.value, limit.origin.clone());
                limits.insert(kind, Setting { value, layer: layer.kind, origin });
            }
        }
    }
    limits
}

/// A tmpfs without a size may take half of the memory.
pub(super) fn default_tmp(session: &Session) -> u64 {
    DEFAULT_TMP.min(session.memory / 2)
}

impl Policy {
    /// The amount of a limit, if there is one.
    pub fn limit(&self, kind: LimitKind) -> Option<u64> {
        self.limits.get(&kind).map(|limit| limit.value.amount())
    }

    /// The limits that a layer sets.
    pub fn written_limits(&self) -> impl Iterator<Item = &Setting<Limit>> {
        self.limits.values().filter(|limit| limit.origin != TMP_BY_DEFAULT)
    }

    /// The size of `/tmp`, if a layer sets one.
    pub fn written_tmp(&self) -> Option<u64> {
        let is_tmp = |limit: &&Setting<Limit>| limit.value.kind() == LimitKind::Tmp;
        self.written_limits().find(is_tmp).map(|limit| limit.value.amount())
    }
}

/// Whether this is the private `/tmp`.
/// Whether this is a file system of the sandbox's own that the command can write. `/run` becomes
/// read-only, and so do masks.
pub(crate) fn is_writable_tmpfs(planned: &PlannedMount) -> bool {
    let Mount::Tmpfs { mode } = planned.mount else { return false };
    mode & 0o200 != 0 && planned.path.as_path() != places::RUN
}

pub(crate) fn is_own_tmp(planned: &PlannedMount) -> bool {
    let is_tmpfs = matches!(planned.mount, Mount::Tmpfs { .. });
    is_tmpfs && planned.purpose == Purpose::Base && planned.path.as_path() == places::TMP
}

/// Refuses limits that no process would enforce in this run.
pub(super) fn check(policy: &Policy, request: &Request, guard: bool, plan: &Plan, diagnostics: &mut Diagnostics) {
    for Setting { value, origin, .. } in policy.written_limits() {
        let kind = value.kind();
        let (why, help) = match kind {
            LimitKind::Time | LimitKind::Output | LimitKind::Memory | LimitKind::Cpus if request.exec => {
                ("a supervisor enforces it, and a run with `--exec` has none", "remove `--exec`, or the limit")
            }
            // For memory and cpus, the guard waits while the supervisor checks the cgroup.
            LimitKind::Processes | LimitKind::FileSize | LimitKind::Memory | LimitKind::Cpus if !guard => (
                "it needs the guard, and this run has none",
                "run with a guard, or remove the limit; `agent-sandbox doctor` says why a guard cannot work",
            ),
            LimitKind::Tmp if !plan.mounts.iter().any(is_own_tmp) => {
                ("`/tmp` is the host's", "remove the limit, or the rule or setting that shows the host's `/tmp`")
            }
            _ => continue,
        };
        diagnostics.push(unavailable(kind, why).at(origin).help(help));
    }
}

/// Says that a limit cannot be enforced.
pub(crate) fn unavailable(kind: LimitKind, why: &str) -> Diagnostic {
    Diagnostic::new(Code::LimitUnavailable, format!("the limit `{kind}` cannot be enforced: {why}"))
}
