//! The same policy without the project's file: the same project, root, other files and flags.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decide::{self, Decisions};
use crate::diagnostic::Diagnostics;
use crate::host::{FileKind, Host};
use crate::layers::Layers;
use crate::plan::{self, Base, Plan};
use crate::presets::{self, Policy};
use crate::resolve::{self, Resolution};
use crate::rule::{Access, Exactness, IfMissing, Rule};
use crate::session::Session;

use super::{Stages, is_trusted};

/// [`Stages`] that own what they came to.
pub(super) struct Baseline {
    layers: Layers,
    policy: Policy,
    resolution: Resolution,
    decisions: Decisions,
    plan: Plan,
}

impl Baseline {
    pub(super) fn stages(&self) -> Stages<'_> {
        let Self { layers, policy, resolution, decisions, plan } = self;
        Stages { layers, policy, resolution, decisions, plan }
    }
}

/// Nobody runs this, so what would be said about it is not said. Where it would be refused it must not count as open:
/// otherwise a file that takes the reason for the refusal away would seem to open nothing.
pub(super) fn compile(host: &Host, session: &Session, full: &Stages, optimize: bool) -> Baseline {
    let unheard = &mut Diagnostics::default();
    let mut layers = full.layers.clone();
    layers.layers.retain(is_trusted);
    let mut policy = presets::expand(&layers, session, unheard);
    policy.rules.retain(|rule| !presets::opens_unsafe_root(rule, &layers.project));
    let mut resolution = resolution(host, session, &layers, &policy, full);
    let (mut decisions, mut plan) = planned(&resolution, &layers, session, optimize);
    let refused: Vec<_> = decisions
        .iter()
        .filter(|(path, decision)| plan::opened_through_writable_link(&plan, path, decision))
        .map(|(path, _)| path.clone())
        .collect();
    if !refused.is_empty() {
        resolution.matches.retain(|found| found.rule.access != Access::Rw || !refused.contains(&found.path));
        (decisions, plan) = planned(&resolution, &layers, session, optimize);
    }
    Baseline { layers, policy, resolution, decisions, plan }
}

fn planned(resolution: &Resolution, layers: &Layers, session: &Session, optimize: bool) -> (Decisions, Plan) {
    let decisions = decide::decide(resolution, layers, &mut Diagnostics::default());
    let plan = plan::plan(&decisions, &Base { uid: session.uid, runtime: &resolution.runtime }, optimize);
    (decisions, plan)
}

/// What the rules come to. A walk is the expensive part of a start, so what the whole policy has found is used where it must
/// be the same, and only rules that the project's file took away are resolved.
fn resolution(host: &Host, session: &Session, layers: &Layers, policy: &Policy, full: &Stages) -> Resolution {
    let unheard = &mut Diagnostics::default();
    let lost: Vec<Rule> = policy.rules.iter().filter(|rule| !full.policy.rules.contains(rule)).cloned().collect();
    let kept = Kept::new(policy, full.resolution);
    if !is_reusable(policy, &lost, &kept, full) {
        return resolve::resolve(host, session, layers, policy, unheard);
    }
    // With what every policy has besides its rules.
    let mut resolution = resolve::resolve(host, session, layers, &Policy { rules: lost, ..policy.clone() }, unheard);
    let known = full.resolution.matches.iter().filter(|found| kept.holds(&found.rule));
    resolution.matches.extend(known.cloned());
    resolution.create.clone_from(&full.resolution.create);
    resolution
}

/// Whether the rules that both have came to the same in the resolution of the whole policy.
///
/// Not where directories will be made, which count as there for all rules. Nor where the project's file may have kept the
/// walk out of a directory: nothing is open in there, but a link in it may protect something elsewhere. Whatever else it
/// says, the walk only sees more, and `decide` knows what of that is out of reach (SPEC G3).
fn is_reusable(policy: &Policy, lost: &[Rule], kept: &Kept, full: &Stages) -> bool {
    let creates = |rule: &Rule| rule.if_missing == IfMissing::Create;
    let mut added = full.policy.rules.iter().filter(|rule| !policy.rules.contains(rule));
    let mut matches = full.resolution.matches.iter();
    !lost.iter().any(creates)
        && !added.any(creates)
        && !matches.any(|found| {
            let prunes = found.rule.access == Access::Exclude || found.exactness == Exactness::Glob;
            prunes && found.kind == FileKind::Directory && !kept.holds(&found.rule)
        })
}

/// Which rules of a resolution a policy has, by their addresses: one rule may have many matches.
struct Kept(BTreeMap<*const Rule, bool>);

impl Kept {
    fn new(policy: &Policy, resolution: &Resolution) -> Self {
        let mut kept = BTreeMap::new();
        for found in &resolution.matches {
            kept.entry(Arc::as_ptr(&found.rule)).or_insert_with(|| policy.rules.contains(&*found.rule));
        }
        Self(kept)
    }

    fn holds(&self, rule: &Arc<Rule>) -> bool {
        self.0.get(&Arc::as_ptr(rule)).copied().unwrap_or(false)
    }
}
