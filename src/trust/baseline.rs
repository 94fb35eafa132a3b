//! The policy without the project's file, for the same project, root, other files and flags.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::config::{ConfigFile, Entry, Env, Filesystem};
use crate::decide::{self, Decisions};
use crate::diagnostic::Diagnostics;
use crate::environment::{self, Environment};
use crate::host::{FileKind, Host};
use crate::layers::{Layer, Layers};
use crate::origin::{Origin, Source};
use crate::path::AbsPath;
use crate::plan::{self, Base, Plan};
use crate::presets::{self, Policy};
use crate::resolve::{self, Match, Resolution};
use crate::rule::{Access, Exactness, IfMissing, Rule};
use crate::session::{Request, Session};

use super::{Stages, is_trusted};

/// [`Stages`] that own their parts.
pub(super) struct Baseline<'a> {
    layers: Layers,
    policy: Policy,
    resolution: Resolution,
    decisions: Decisions,
    plan: Plan,
    environment: Cow<'a, Environment>,
}

impl Baseline<'_> {
    pub(super) fn stages(&self) -> Stages<'_> {
        let Self { layers, policy, resolution, decisions, plan, environment } = self;
        Stages { layers, policy, resolution, decisions, plan, environment }
    }
}

/// Compiles the policy without `layer`, the project's file, which was read from `source`. Nobody runs this policy, so its
/// diagnostics are dropped. What a run would refuse does not count as open: otherwise a file that removes the reason for
/// the refusal would seem to open nothing.
pub(super) fn compile<'a>(
    host: &Host,
    session: &Session,
    full: &Stages<'a>,
    layer: &Layer,
    source: &Arc<Source>,
    request: &Request,
) -> Baseline<'a> {
    let optimize = !request.no_optimize;
    let mut layers = full.layers.clone();
    layers.layers.retain(is_trusted);
    let (policy, mut resolution) = if only_adds_rules(&layer.config) {
        without_rules_of(source, host, session, &layers, full)
    } else {
        compiled_again(host, session, &layers, full, request)
    };
    let (mut decisions, mut plan) = planned(&resolution, &layers, session, optimize);
    let refused: BTreeSet<_> = decisions
        .iter()
        .filter(|(path, decision)| plan::is_refused_through_link(&plan, path, decision, &decisions))
        .map(|(path, _)| path.clone())
        .collect();
    if !refused.is_empty() {
        resolution.matches.retain(|found| found.rule.access != Access::Rw || !refused.contains(&found.path));
        (decisions, plan) = planned(&resolution, &layers, session, optimize);
    }
    let is_same = layer.config.env == Env::default()
        && layer.config.docker.is_none()
        && environment::is_same(session, &plan, full.plan);
    let environment = if is_same {
        Cow::Borrowed(full.environment)
    } else {
        Cow::Owned(environment::filter(session, &layers, &policy, &plan, &mut Diagnostics::default()))
    };
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

/// Whether all rules that are not written in the file are the same without it, and find the same paths.
fn only_adds_rules(config: &ConfigFile) -> bool {
    let ConfigFile { filesystem, docker, sockets, presets, network: _, nested: _, require: _, env: _ } = config;
    let Filesystem { presets: switches, tmp, ro, rw, exclude } = filesystem;
    let creates = |entry: &Entry| entry.if_missing == IfMissing::Create;
    let changes_others = docker.is_some() || tmp.is_some() || !presets.is_empty() || !switches.is_empty();
    !changes_others && sockets.is_empty() && ![ro, rw, exclude].into_iter().flatten().any(creates)
}

/// The policy and what it comes to, for a file that [`only_adds_rules`]: everything but these rules is taken over.
///
/// Sockets of services are hidden where the policy with the file shows them. The policy without it may show more, and no
/// file opens what it does not show itself.
fn without_rules_of(
    source: &Arc<Source>,
    host: &Host,
    session: &Session,
    layers: &Layers,
    full: &Stages,
) -> (Policy, Resolution) {
    let is_kept = |rule: &Rule| !rule.origin.is_in(source);
    let policy = full.policy.without_rules(layers, is_kept);
    let mut resolution = full.resolution.kept(is_kept, |origin| !origin.is_in(source));
    if policy.network.value != full.policy.network.value {
        resolution.runtime = resolve::runtime(host, policy.network.value, &mut Diagnostics::default());
    }
    look_into_hidden(host, session, layers, full, is_kept, &mut resolution);
    (policy, resolution)
}

/// The policy and what it comes to, for any file. A walk is the expensive part of a start, so matches of rules that both
/// policies have are taken over.
fn compiled_again(
    host: &Host,
    session: &Session,
    layers: &Layers,
    full: &Stages,
    request: &Request,
) -> (Policy, Resolution) {
    let unheard = &mut Diagnostics::default();
    let mut policy = presets::expand(layers, session, unheard);
    if request.no_placeholders {
        policy.put_nothing_up();
    }
    policy.rules.retain(|rule| !presets::opens_unsafe_root(rule, &layers.project));
    let with_file: HashSet<&Rule> = full.policy.rules.iter().map(Arc::as_ref).collect();
    let (common, lost): (Vec<Arc<Rule>>, Vec<Arc<Rule>>) =
        policy.rules.iter().cloned().partition(|rule| with_file.contains(&**rule));
    let common: HashSet<&Rule> = common.iter().map(Arc::as_ref).collect();
    let is_kept = |rule: &Rule| common.contains(rule);
    let mut added = full.policy.rules.iter().filter(|rule| !is_kept(rule));
    // A directory that will be made counts as there for all rules.
    let creates = |rule: &Arc<Rule>| rule.if_missing == IfMissing::Create || rule.refinements.create_for.is_some();
    if lost.iter().any(creates) || added.any(creates) {
        let resolution = resolve::resolve(host, session, layers, &policy, unheard);
        return (policy, without_new_services(resolution, full));
    }
    let origins: HashSet<&Origin> = common.iter().map(|rule| &rule.origin).collect();
    let mut resolution = full.resolution.kept(is_kept, |origin| origins.contains(origin));
    // With what every policy has besides its rules.
    let rest = resolve::resolve(host, session, layers, &Policy { rules: lost, ..policy.clone() }, unheard);
    let rest = without_new_services(rest, full);
    resolution.matches.extend(rest.matches);
    resolution.placeholders.extend(rest.placeholders);
    resolution.placeholders.sort_by(|a, b| a.path.cmp(&b.path));
    resolution.second_places.extend(rest.second_places);
    resolution.runtime = rest.runtime;
    look_into_hidden(host, session, layers, full, is_kept, &mut resolution);
    (policy, resolution)
}

/// Drops masks of services that started since the policy with the file was resolved: the file did not open these. Where the
/// file does allow one, it has a match at that path.
fn without_new_services(mut resolution: Resolution, full: &Stages) -> Resolution {
    let known: BTreeSet<&AbsPath> = full.resolution.matches.iter().map(|found| &found.path).collect();
    resolution.matches.retain(|found| !found.is_of_a_service() || known.contains(&found.path));
    resolution
}

/// Adds what globs find in directories that the project's file hid from the walk. Nothing is open in there, but a link in
/// it may protect something elsewhere. Whatever else the file says, the walk only sees more, and `decide` knows which of
/// these matches are out of reach (SPEC G3).
fn look_into_hidden(
    host: &Host,
    session: &Session,
    layers: &Layers,
    full: &Stages,
    is_kept: impl Fn(&Rule) -> bool,
    resolution: &mut Resolution,
) {
    let may_hide = |found: &&Match| {
        let hides = found.rule.access == Access::Exclude || found.exactness == Exactness::Glob;
        hides && found.kind == FileKind::Directory && !is_kept(&found.rule)
    };
    let hidden: Vec<AbsPath> =
        full.resolution.matches.iter().filter(may_hide).map(|found| found.path.clone()).collect();
    if !hidden.is_empty() {
        let found =
            resolve::resolve_hidden(host, session, layers, full.resolution, is_kept, &resolution.matches, &hidden);
        resolution.matches.extend(found);
    }
}
