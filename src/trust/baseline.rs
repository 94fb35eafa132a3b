//! The same policy without the project's file: the same project, root, other files and flags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::decide::{self, Decisions};
use crate::diagnostic::Diagnostics;
use crate::environment::{self, Environment};
use crate::host::{FileKind, Host};
use crate::layers::Layers;
use crate::origin::Origin;
use crate::path::AbsPath;
use crate::plan::{self, Base, Plan};
use crate::presets::{self, Policy};
use crate::resolve::{self, Match, Resolution};
use crate::rule::{Access, Exactness, IfMissing, Rule};
use crate::session::{Request, Session};

use super::{Stages, is_trusted};

/// [`Stages`] that own what they came to.
pub(super) struct Baseline {
    layers: Layers,
    policy: Policy,
    resolution: Resolution,
    decisions: Decisions,
    plan: Plan,
    environment: Environment,
}

impl Baseline {
    pub(super) fn stages(&self) -> Stages<'_> {
        let Self { layers, policy, resolution, decisions, plan, environment } = self;
        Stages { layers, policy, resolution, decisions, plan, environment }
    }
}

/// Nobody runs this, so what would be said about it is not said. Where it would be refused it must not count as open:
/// otherwise a file that takes the reason for the refusal away would seem to open nothing.
pub(super) fn compile(host: &Host, session: &Session, full: &Stages, request: &Request) -> Baseline {
    let optimize = !request.no_optimize;
    let unheard = &mut Diagnostics::default();
    let mut layers = full.layers.clone();
    layers.layers.retain(is_trusted);
    let mut policy = presets::expand(&layers, session, unheard);
    if request.no_placeholders {
        policy.put_nothing_up();
    }
    policy.rules.retain(|rule| !presets::opens_unsafe_root(rule, &layers.project));
    let mut resolution = resolution(host, session, &layers, &policy, full);
    // A service that started since the whole policy was resolved is hidden here alone, and the file did not open it. Where the
    // file does allow one, that is a match of its own.
    let known: BTreeSet<&AbsPath> = full.resolution.matches.iter().map(|found| &found.path).collect();
    resolution.matches.retain(|found| !found.is_of_a_service() || known.contains(&found.path));
    let (mut decisions, mut plan) = planned(&resolution, &layers, session, optimize);
    let refused: Vec<_> = decisions
        .iter()
        .filter(|(path, decision)| plan::is_refused_through_link(&plan, path, decision, &decisions))
        .map(|(path, _)| path.clone())
        .collect();
    if !refused.is_empty() {
        resolution.matches.retain(|found| found.rule.access != Access::Rw || !refused.contains(&found.path));
        (decisions, plan) = planned(&resolution, &layers, session, optimize);
    }
    let environment = environment::filter(session, &layers, &policy, &plan, unheard);
    Baseline { layers, policy, resolution, decisions, plan, environment }
}

fn planned(resolution: &Resolution, layers: &Layers, session: &Session, optimize: bool) -> (Decisions, Plan) {
    let decisions = decide::decide(resolution, layers, &mut Diagnostics::default());
    let base = Base {
        uid: session.uid,
        guard: None,
        runtime: &resolution.runtime,
        own_files: &layers.own_files,
        git_exclude: resolution.git_exclude.as_ref(),
        second_places: &resolution.second_places,
    };
    let plan = plan::plan(&decisions, &base, optimize);
    (decisions, plan)
}

/// What the rules come to. A walk is the expensive part of a start, so what the whole policy has found is used as far as it
/// must be the same: what is added are the rules that the project's file took away, and what it kept the walk from seeing.
fn resolution(host: &Host, session: &Session, layers: &Layers, policy: &Policy, full: &Stages) -> Resolution {
    let resolve = |policy: &Policy, within: Option<&[AbsPath]>| {
        resolve::resolve_within(host, session, layers, policy, within, &mut Diagnostics::default())
    };
    let (known, lost): (Vec<Arc<Rule>>, Vec<Arc<Rule>>) =
        policy.rules.iter().cloned().partition(|rule| full.policy.rules.contains(rule));
    let mut added = full.policy.rules.iter().filter(|rule| !known.contains(rule));
    // A directory that will be made counts as there for all rules.
    let creates = |rule: &Arc<Rule>| rule.if_missing == IfMissing::Create || rule.refinements.create_for.is_some();
    if lost.iter().any(creates) || added.any(creates) {
        return resolve(policy, None);
    }
    let kept = Kept::new(&known, full.resolution);
    let unseen: Vec<AbsPath> = full.resolution.matches.iter().filter(|found| kept.hides(found)).map(at).collect();
    // With what every policy has besides its rules.
    let mut resolution = resolve(&Policy { rules: lost, ..policy.clone() }, None);
    resolution.create.clone_from(&full.resolution.create);
    resolution.new_files.clone_from(&full.resolution.new_files);
    let is_known = |origin: &Origin| known.iter().any(|rule| rule.origin == *origin);
    let placeholders = full.resolution.placeholders.iter().filter(|placeholder| is_known(&placeholder.origin));
    resolution.placeholders.extend(placeholders.cloned());
    let second_places = full.resolution.second_places.iter().filter(|place| is_known(&place.origin));
    resolution.second_places.extend(second_places.cloned());
    resolution.matches.extend(full.resolution.matches.iter().filter(|found| kept.holds(&found.rule)).cloned());
    if !unseen.is_empty() {
        let rest = resolve(&Policy { rules: known, ..policy.clone() }, Some(&unseen));
        resolution.matches.extend(rest.matches);
    }
    resolution
}

fn at(found: &Match) -> AbsPath {
    found.path.clone()
}

/// Which rules of a resolution a policy has, by their addresses: one rule may have many matches.
struct Kept(BTreeMap<*const Rule, bool>);

impl Kept {
    fn new(rules: &[Arc<Rule>], resolution: &Resolution) -> Self {
        let mut kept = BTreeMap::new();
        for found in &resolution.matches {
            kept.entry(Arc::as_ptr(&found.rule)).or_insert_with(|| rules.contains(&found.rule));
        }
        Self(kept)
    }

    fn holds(&self, rule: &Arc<Rule>) -> bool {
        self.0.get(&Arc::as_ptr(rule)).copied().unwrap_or(false)
    }

    /// Whether a rule of the project's file may have kept the walk out of a directory. Nothing is open in there, but a link in
    /// it may protect something elsewhere. By whatever else the file says the walk only sees more, and `decide` knows what
    /// of that is out of reach (SPEC G3).
    fn hides(&self, found: &Match) -> bool {
        let hides = found.rule.access == Access::Exclude || found.exactness == Exactness::Glob;
        hides && found.kind == FileKind::Directory && !self.holds(&found.rule)
    }
}
