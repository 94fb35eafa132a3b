//! One winner per path. OWNS how precedence is applied (SPEC section 5); pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::FileKind;
use crate::layers::Project;
use crate::origin::Origin;
use crate::path::AbsPath;
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
    /// The symlinks through which the rule came here.
    pub links: Vec<AbsPath>,
    /// Rules at this same path that lost, strongest first.
    pub losers: Vec<Match>,
}

/// All decisions, parents before children.
#[derive(Clone, Debug, Default)]
pub struct Decisions(BTreeMap<AbsPath, Decision>);

impl Decisions {
    pub fn iter(&self) -> impl Iterator<Item = (&AbsPath, &Decision)> {
        self.0.iter()
    }

    pub fn get(&self, path: &AbsPath) -> Option<&Decision> {
        self.0.get(path)
    }

    /// Whether something strictly below `path` is not excluded.
    pub fn reopens_below(&self, path: &AbsPath) -> bool {
        let below = self.0.range(path.clone()..).take_while(|(at, _)| at.is_within(path)).skip(1);
        below.map(|(_, decision)| decision).any(|decision| decision.access != Access::Exclude)
    }

    /// The nearest decision at or above `path`; `None` where only the base mounts apply.
    pub fn governing(&self, path: &AbsPath) -> Option<(AbsPath, &Decision)> {
        path.ancestors().find_map(|ancestor| {
            let decision = self.0.get(&ancestor)?;
            Some((ancestor, decision))
        })
    }
}

pub fn decide(resolution: &Resolution, project: &Project, diagnostics: &mut Diagnostics) -> Decisions {
    // A glob that matched a link lands elsewhere, perhaps on what decides whether the link is in reach. So what governs
    // the folders of links is settled without links.
    let (through_links, direct): (Vec<&Match>, Vec<&Match>) = resolution.matches.iter().partition(|m| is_glob_link(m));
    let without_links = settle(&direct);
    let in_reach = through_links.into_iter().filter(|found| reaches(found, &found.links[0], &without_links));
    let mut decisions = settle(&direct.iter().copied().chain(in_reach).collect::<Vec<_>>());
    protect_own_files(&mut decisions, &resolution.own_files, diagnostics);
    refuse_excluded_cwd(&decisions, &project.cwd, diagnostics);
    decisions
}

fn is_glob_link(found: &Match) -> bool {
    found.exactness == Exactness::Glob && !found.links.is_empty()
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
        candidates.retain(|candidate| {
            candidate.exactness == Exactness::Exact || is_glob_link(candidate) || reaches(candidate, path, &decisions)
        });
        candidates.sort_by_cached_key(|candidate| Reverse(rank(candidate)));
        if let Some((winner, losers)) = candidates.split_first() {
            decisions.0.insert(path.clone(), won(winner, losers));
        }
    }
    decisions
}

/// SPEC G3: a glob does not reach into an excluded directory, unless its fixed prefix names a place in it. `matched` is
/// the path that the pattern matched.
fn reaches(candidate: &Match, matched: &AbsPath, decisions: &Decisions) -> bool {
    let governing = matched.parent().and_then(|parent| decisions.governing(&parent));
    governing.is_none_or(|(at, decision)| decision.access != Access::Exclude || candidate.fixed_prefix.is_within(&at))
}

/// Precedence; then, so that the order of writing means nothing, the text and the place.
fn rank(found: &Match) -> impl Ord + use<> {
    let place = found.rule.origin.to_string();
    (found.rule.precedence(found.exactness), Reverse((found.rule.text.clone(), place)))
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
        links: winner.links.clone(),
        losers: losers.iter().copied().cloned().collect(),
    }
}

/// SPEC D6: our own files are at least read-only. Not a rule, because a rule could lose, or could re-open what an
/// excluded folder hides.
fn protect_own_files(decisions: &mut Decisions, own: &[(AbsPath, FileKind)], diagnostics: &mut Diagnostics) {
    for (path, kind) in own {
        let opened: Vec<(AbsPath, Decision)> = decisions
            .0
            .range(path.clone()..)
            .take_while(|(at, _)| at.is_within(path))
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
        let (message, help) = if at == *cwd {
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
