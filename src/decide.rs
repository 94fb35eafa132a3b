//! One winner per path. OWNS how precedence is applied (SPEC section 5); pure.

mod placeholders;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::FileKind;
use crate::layers::{Layers, OwnFile};
use crate::origin::Origin;
use crate::path::{AbsPath, PathMap};
use crate::placeholder::Placeholder;
use crate::resolve::{Match, Resolution};
use crate::rule::{Access, Exactness, IfMissing, LayerKind, Mask};

/// The rule that governs a path and, until a deeper decision, all that is below it.
#[derive(Clone, Debug)]
pub struct Decision {
    pub access: Access,
    pub kind: FileKind,
    pub mask: Mask,
    pub origin: Origin,
    pub layer: LayerKind,
    pub exactness: Exactness,
    /// The path must be there when the sandbox starts.
    pub required: bool,
    /// What has to be put there first, because nothing is.
    pub placeholder: Option<Placeholder>,
    /// The symlinks through which the rule came here.
    pub links: Vec<AbsPath>,
    /// Rules at this same path that lost, strongest first.
    pub losers: Vec<Match>,
}

/// All decisions, parents before children.
#[derive(Clone, Debug, Default)]
pub struct Decisions(PathMap<Decision>);

impl Decisions {
    pub fn iter(&self) -> impl Iterator<Item = (&AbsPath, &Decision)> {
        self.0.iter()
    }

    pub fn get(&self, path: &AbsPath) -> Option<&Decision> {
        self.0.get(path)
    }

    /// Whether something strictly below `path` is not excluded.
    pub fn reopens_below(&self, path: &AbsPath) -> bool {
        self.0.below(path).any(|(_, decision)| decision.access != Access::Exclude)
    }

    /// Whether something strictly below `path` is writable.
    pub fn opens_below(&self, path: &AbsPath) -> bool {
        self.0.below(path).any(|(_, decision)| decision.access == Access::Rw)
    }

    /// The nearest decision at or above `path`; `None` where only the base mounts apply.
    pub fn governing(&self, path: &AbsPath) -> Option<(&AbsPath, &Decision)> {
        self.0.nearest(path)
    }

    /// The excluded directory that `path` lies in, if nothing between the two re-opens it.
    fn excluded_around(&self, path: &AbsPath) -> Option<&AbsPath> {
        let (at, decision) = self.0.nearest_above(path)?;
        (decision.access == Access::Exclude).then_some(at)
    }
}

pub fn decide(resolution: &Resolution, layers: &Layers, diagnostics: &mut Diagnostics) -> Decisions {
    let (through_links, direct): (Vec<&Match>, Vec<&Match>) =
        resolution.matches.iter().partition(|found| found.only_tightens());
    let mut decisions = settle(&direct);
    if !through_links.is_empty() {
        let tightening = through_links.into_iter().filter(|found| tightens(found, &decisions));
        decisions = settle(&direct.iter().copied().chain(tightening).collect::<Vec<_>>());
    }
    protect_own_files(&mut decisions, &layers.own_files, diagnostics);
    placeholders::settle(&mut decisions, resolution, diagnostics);
    refuse_excluded_cwd(&decisions, &layers.project.cwd, diagnostics);
    decisions
}

/// Whether a rule that can only tighten does. `decisions` are those that came through no link.
fn tightens(found: &Match, decisions: &Decisions) -> bool {
    let governed = decisions.governing(&found.path).map_or(Access::Ro, |(_, decision)| decision.access);
    found.rule.access > governed && in_reach(found, decisions)
}

/// One winner for each path. Parents come first, so what governs the parent of a path is settled when the path is
/// reached.
fn settle(matches: &[&Match]) -> Decisions {
    let mut at_path: BTreeMap<&AbsPath, Vec<&Match>> = BTreeMap::new();
    for found in matches {
        at_path.entry(&found.path).or_default().push(found);
    }
    let mut decisions = Decisions::default();
    for (path, mut candidates) in at_path {
        candidates.sort_by_cached_key(|candidate| Reverse(rank(candidate, may_win(candidate, &decisions))));
        // A glob that is out of reach re-opens nothing, and where it is the strongest, nothing weaker does in its stead:
        // otherwise hiding a folder could open something in it.
        if let Some((winner, losers)) = candidates.split_first()
            && may_win(winner, &decisions)
        {
            decisions.0.insert(path.clone(), won(winner, losers));
        }
    }
    decisions
}

/// SPEC G3: a glob does not reach into an excluded directory, unless its fixed prefix names a place in it.
fn in_reach(candidate: &Match, decisions: &Decisions) -> bool {
    let excluded = decisions.excluded_around(&candidate.matched);
    candidate.exactness != Exactness::Glob || excluded.is_none_or(|excluded| candidate.fixed_prefix.is_within(excluded))
}

/// What only tightens has been checked where its link lies. An exclude out of reach changes nothing at its path, but it
/// is one more excluded directory for what lies below.
fn may_win(found: &Match, decisions: &Decisions) -> bool {
    found.only_tightens() || found.rule.access == Access::Exclude || in_reach(found, decisions)
}

/// Precedence; among equals one that is in reach; then, so that the order of writing means nothing, the text and the place.
fn rank(found: &Match, may_win: bool) -> impl Ord + use<> {
    let place = found.rule.origin.to_string();
    (found.rule.precedence(found.exactness), may_win, Reverse((found.rule.text.clone(), place)))
}

fn won(winner: &Match, losers: &[&Match]) -> Decision {
    Decision {
        access: winner.rule.access,
        kind: winner.kind,
        mask: winner.rule.refinements.mask,
        origin: winner.rule.origin.clone(),
        layer: winner.rule.layer,
        exactness: winner.exactness,
        // Any rule here may demand that the path exists, also one that lost.
        required: losers.iter().chain([&winner]).any(|found| found.rule.if_missing == IfMissing::Error),
        placeholder: None,
        links: winner.links.clone(),
        losers: losers.iter().copied().cloned().collect(),
    }
}

/// SPEC D6: our own files are at least read-only. Not a rule, because a rule could lose, or could re-open what an
/// excluded folder hides.
fn protect_own_files(decisions: &mut Decisions, own: &[OwnFile], diagnostics: &mut Diagnostics) {
    for OwnFile { path, kind, .. } in own {
        let opened: Vec<(AbsPath, Decision)> = decisions
            .0
            .within(path)
            .filter(|(_, decision)| decision.access == Access::Rw)
            .map(|(at, decision)| (at.clone(), decision.clone()))
            .collect();
        for (at, decision) in opened {
            if decision.exactness == Exactness::Exact {
                diagnostics.push(
                    Diagnostic::new(
                        Code::ProtectedPath,
                        format!("`{at}` belongs to agent-sandbox and stays read-only"),
                    )
                    .at(&decision.origin)
                    .help("remove the rule: a command that could write here would choose its own policy"),
                );
            }
            decisions.0.remove(&at);
        }
        let governed = decisions.governing(path).map_or(Access::Ro, |(_, decision)| decision.access);
        if governed < Access::Ro {
            decisions.0.insert(
                path.clone(),
                Decision {
                    access: Access::Ro,
                    kind: *kind,
                    mask: Mask::default(),
                    origin: Origin::BuiltIn("our own configuration and state"),
                    layer: LayerKind::CommandLine,
                    exactness: Exactness::Exact,
                    required: true,
                    placeholder: None,
                    links: Vec::new(),
                    losers: Vec::new(),
                },
            );
        }
    }
}

fn refuse_excluded_cwd(decisions: &Decisions, cwd: &AbsPath, diagnostics: &mut Diagnostics) {
    if let Some((at, decision)) = decisions.governing(cwd)
        && decision.access == Access::Exclude
    {
        let (message, help) = if at == cwd {
            (format!("the working directory `{cwd}` is excluded"), "start somewhere else, or remove the rule")
        } else {
            (
                format!("`{at}` is excluded, and the working directory `{cwd}` lies in it"),
                "start somewhere else, or re-open the working directory with a deeper `ro` or `rw` rule",
            )
        };
        diagnostics.push(Diagnostic::new(Code::ExcludedCwd, message).at(&decision.origin).help(help));
    }
}
