//! The policy without the project's file, for the same project, root, other files and flags.

use std::collections::{BTreeSet, HashSet};
use std::ptr;
use std::sync::Arc;

use crate::compile::config::{ConfigFile, Env, Filesystem};
use crate::compile::decide::{self, Decisions};
use crate::compile::identity::{self, GitIdentity, OF_HOST};
use crate::compile::layers::{Layer, Layers};
use crate::compile::plan::{self, Base, Plan, PlannedLink};
use crate::compile::policy::{Policy, opens_unsafe_root};
use crate::compile::resolve::{self, Match, PresetVariable, Resolution};
use crate::compile::{Compiled, Request, environment};
use crate::diagnostic::Diagnostics;
use crate::host::{FileKind, Host, Session};
use crate::policy::{AbsPath, Access, Exactness, IfMissing, Origin, Rule};

/// Compiles the policy without `layer`, the project's file. This policy never runs, so its
/// diagnostics are dropped. A path that a run would refuse to open does not count as open:
/// otherwise a file that removes the reason for the refusal would seem to open nothing.
pub(super) fn compile(host: &Host, session: &Session, full: &Compiled, layer: &Layer, request: &Request) -> Compiled {
    let optimize = !request.no_optimize;
    let mut layers = full.layers.clone();
    layers.layers.retain(|layer| !layer.needs_trust);
    let (policy, changed) = policy(session, &layers, full, layer, request);
    let mut resolution = resolution(host, session, &layers, &policy, full, &layer.config, &changed);
    drop_injections(&mut resolution, full, &policy);
    let mut variables = resolve::preset_variables(host, session, &layers.project, &policy);
    // The baseline has no links to copies. A preset that is also on without the file would still
    // set the variables of its links.
    let of_preset = |link: &&PlannedLink| match &link.because {
        Origin::Preset { name, .. } => policy.presets.contains_key(*name),
        _ => false,
    };
    variables.extend(full.plan.links.iter().filter(of_preset).filter_map(PlannedLink::variable));
    let (mut decisions, mut plan) = planned(&resolution, &layers, session, variables.clone(), optimize);
    let refused: BTreeSet<_> = decisions
        .iter()
        .filter(|(path, decision)| plan::is_refused_through_link(&plan, path, decision, &decisions))
        .map(|(path, _)| path.clone())
        .collect();
    if !refused.is_empty() {
        resolution.matches.retain(|found| found.rule.access != Access::Rw || !refused.contains(&found.path));
        (decisions, plan) = planned(&resolution, &layers, session, variables, optimize);
    }
    plan.variables.extend(identity(host, session, &layers, &policy, &plan, full));
    let is_same = layer.config.env == Env::default()
        && layer.config.docker.is_none()
        && policy.presets.keys().eq(full.policy.presets.keys())
        && policy.protective_presets == full.policy.protective_presets
        && environment::is_same(session, &plan, &full.plan);
    let environment = if is_same {
        full.environment.clone()
    } else {
        environment::filter(session, &layers, &policy, &plan, &mut Diagnostics::default())
    };
    let (private_paths, as_root) = (Vec::new(), full.as_root);
    Compiled { layers, policy, resolution, decisions, plan, private_paths, environment, guard: false, as_root }
}

/// The variables of the identity. This does not ask git a second time.
fn identity(
    host: &Host,
    session: &Session,
    layers: &Layers,
    policy: &Policy,
    plan: &Plan,
    full: &Compiled,
) -> Vec<PresetVariable> {
    let of_host = full.plan.variables.iter().filter(|variable| variable.origin == OF_HOST).cloned();
    let known: Vec<PresetVariable> = of_host.collect();
    let is_same = policy.identity.value == GitIdentity::Host && !known.is_empty();
    match is_same && identity::is_hidden(host, session, &layers.project, policy, plan) {
        true => known,
        false => identity::variables(host, session, &layers.project, policy, plan),
    }
}

fn planned(
    resolution: &Resolution,
    layers: &Layers,
    session: &Session,
    variables: Vec<PresetVariable>,
    optimize: bool,
) -> (Decisions, Plan) {
    let decisions = decide::decide(resolution, layers, &mut Diagnostics::default());
    let base = Base {
        uid: session.uid,
        guard: None,
        runtime: &resolution.runtime,
        own_files: &layers.own_files,
        git_excludes: &resolution.git_excludes,
        second_places: &resolution.second_places,
        links: &resolution.links,
        variables,
        private: None,
    };
    let plan = plan::plan(&decisions, &base, optimize);
    (decisions, plan)
}

/// The rules that only the policy with the file has, and the rules that only the policy without it
/// has.
type Changed<'a> = (Vec<&'a Arc<Rule>>, Vec<Arc<Rule>>);

/// The policy without the file. Presets are expanded again only if the file changes which presets
/// are on.
fn policy<'a>(
    session: &Session,
    layers: &Layers,
    full: &'a Compiled,
    layer: &Layer,
    request: &Request,
) -> (Policy, Changed<'a>) {
    let ConfigFile { filesystem, presets, .. } = &layer.config;
    let rules = &full.policy.rules;
    if presets.is_empty() && filesystem.presets.is_empty() && leaves_places_alone(filesystem) {
        let is_added = |rule: &Rule| layer.source.as_ref().is_some_and(|source| rule.origin.is_in(source));
        let added = rules.iter().filter(|rule| is_added(rule)).collect();
        return (full.policy.without_rules(layers, session, is_added), (added, Vec::new()));
    }
    let mut policy = Policy::of(layers, session, &mut Diagnostics::default());
    if request.no_placeholders {
        policy.put_nothing_up();
    }
    policy.rules.retain(|rule| !opens_unsafe_root(rule, &layers.project));
    let with: HashSet<&Rule> = rules.iter().map(Arc::as_ref).collect();
    let without: HashSet<&Rule> = policy.rules.iter().map(Arc::as_ref).collect();
    let added = rules.iter().filter(|rule| !without.contains(&***rule)).collect();
    let lost = policy.rules.iter().filter(|rule| !with.contains(&***rule)).cloned().collect();
    (policy, (added, lost))
}

/// Whether the file sets none of `tmp`, `home` and `base`.
fn leaves_places_alone(filesystem: &Filesystem) -> bool {
    filesystem.tmp.is_none() && filesystem.home.is_none() && filesystem.base.is_none()
}

/// The matches of `policy`. A walk is the expensive part of a start, so matches of rules that both
/// policies have are reused.
fn resolution(
    host: &Host,
    session: &Session,
    layers: &Layers,
    policy: &Policy,
    full: &Compiled,
    config: &ConfigFile,
    (added, lost): &Changed,
) -> Resolution {
    let resolve = |policy: &Policy| {
        let mut resolution = resolve::resolve(host, session, layers, policy, &mut Diagnostics::default());
        // Drop services that started since `full` was resolved, because the file did not open
        // these. A service that the file opens has a match in `full`.
        let known: BTreeSet<&AbsPath> = full.resolution.matches.iter().map(|found| &found.path).collect();
        resolution.matches.retain(|found| !found.is_of_a_service() || known.contains(&found.path));
        resolution
    };
    // For all rules, a directory that the run will create counts as existing.
    let creates = |rule: &Arc<Rule>| rule.if_missing == IfMissing::Create || rule.refinements.create_for.is_some();
    if lost.iter().chain(added.iter().copied()).any(creates) {
        return resolve(policy);
    }
    let origins: HashSet<&Origin> = added.iter().map(|rule| &rule.origin).collect();
    // Rules are compared by their addresses, because one rule may have many matches.
    let added: HashSet<*const Rule> = added.iter().map(|rule| Arc::as_ptr(rule)).collect();
    let is_added = |rule: &Rule| added.contains(&ptr::from_ref(rule));
    let mut resolution = full.resolution.without(is_added, |origin| origins.contains(origin));
    if !lost.is_empty() || config.docker.is_some() || !config.sockets.is_empty() {
        // Sockets are resolved again together with the lost rules.
        let rules: HashSet<*const Rule> = full.policy.rules.iter().map(Arc::as_ptr).collect();
        resolution.matches.retain(|found| rules.contains(&Arc::as_ptr(&found.rule)));
        let rest = resolve(&Policy { rules: lost.clone(), ..policy.clone() });
        resolution.matches.extend(rest.matches);
        resolution.placeholders.extend(rest.placeholders);
        resolution.placeholders.sort_by(|a, b| a.path.cmp(&b.path));
        resolution.second_places.extend(rest.second_places);
        resolution.runtime = rest.runtime;
    } else if policy.network.value != full.policy.network.value {
        // Masks of sockets stay: `full` has one for each socket that it would show, and a file
        // opens no others.
        resolution.runtime = resolve::runtime(host, policy.network.value, &mut Diagnostics::default());
    }
    let hidden: Vec<AbsPath> = full
        .resolution
        .matches
        .iter()
        .filter(|found| is_added(&found.rule) && may_hide(found))
        .map(|found| found.path.clone())
        .collect();
    if !hidden.is_empty() {
        let exact = &resolution.matches;
        let found = resolve::resolve_hidden(host, session, layers, &full.resolution, is_added, exact, &hidden);
        resolution.matches.extend(found);
    }
    resolution
}

/// Whether the match may have kept the walk out of a directory. Nothing is open in that directory,
/// but a link in it may protect something elsewhere. For all other rules of the file, the walk
/// with the file sees at least as much as the walk without it. `decide` knows which of its matches
/// are out of reach (SPEC G3).
fn may_hide(found: &Match) -> bool {
    let hides = found.rule.access == Access::Exclude || found.exactness == Exactness::Glob;
    hides && found.kind == FileKind::Directory
}

/// Drops the injections that only the policy with the file has.
fn drop_injections(resolution: &mut Resolution, full: &Compiled, policy: &Policy) {
    let is_lost = |origin: &Origin| {
        let is_of = |policy: &Policy| policy.injections.iter().any(|injection| injection.origin == *origin);
        is_of(&full.policy) && !is_of(policy)
    };
    if full.policy.injections.is_empty() {
        return;
    }
    resolution.matches.retain(|found| found.rule.injected.is_none() || !is_lost(&found.rule.origin));
    resolution.missing_targets.retain(|target| !is_lost(&target.placeholder.origin));
}
