//! Decides which rule wins at each path. This stage alone applies precedence (SPEC section 5). It
//! reads nothing from the machine.

mod placeholders;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::compile::layers::{Layers, OwnFile};
use crate::compile::placeholder::Placeholder;
use crate::compile::resolve::{Match, Resolution, UnnamedAncestors};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::{AliasOf, FileKind};
use crate::policy::{
    AbsPath, Access, Exactness, HardLinks, IfMissing, Injected, LayerKind, Mask, Origin, PathMap, Precedence,
    PrivateFile, Rule,
};
use crate::sys::ablate::{self, Mitigation};

use placeholders::shows_host_around;

/// The rule that governs a path and everything below it, up to the next deeper decision.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The rule that won.
    pub rule: Arc<Rule>,
    pub access: Access,
    pub kind: FileKind,
    pub mask: Mask,
    /// The text that the command reads at the path instead of the host's file (SPEC P16).
    pub copy: Option<Arc<[u8]>>,
    pub origin: Origin,
    pub layer: LayerKind,
    pub exactness: Exactness,
    /// The directories on the way to the path that the rule does not name (SPEC B13).
    pub unnamed: Option<Box<UnnamedAncestors>>,
    /// The rule is a glob that excludes the path, and an excluded directory around the path keeps
    /// the glob from reaching it (SPEC G3).
    pub out_of_reach: bool,
    /// The path must exist when the sandbox starts.
    pub required: bool,
    /// The rule shows a socket: it opens something, although its access is read-only.
    pub shows_socket: bool,
    /// The command gets a writable copy of this file, as far as that is possible (SPEC Q1).
    pub private: Option<&'static PrivateFile>,
    /// The content that the command reads at this path instead of the host's file (SPEC J1).
    pub injected: Option<Arc<Injected>>,
    /// The number of a file's names (hard links), and whether several names are accepted.
    pub names: u64,
    pub hard_links: HardLinks,
    /// The placeholder to create first, because the path is missing.
    pub placeholder: Option<Box<Placeholder>>,
    /// The symlinks through which the rule reached this path.
    pub links: Vec<AbsPath>,
    /// Rules at this path that lost, strongest first.
    pub losers: Vec<Match>,
}

/// A rule that reached a path and is ignored there for another reason than its rank.
#[derive(Clone, Debug)]
pub struct IgnoredMatch {
    pub found: Match,
    pub why: IgnoreReason,
    /// Whether the directories on the way to the path are pinned although the rule is ignored
    /// (SPEC B13).
    pub names_way: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreReason {
    /// The rule came through a link or applies to another name, and is no stricter than the other
    /// rules (SPEC G5, W3).
    DoesNotTighten,
    /// The rule is a `ro` of a built-in preset. The other rules exclude the path, or one of them
    /// shows it in an excluded directory (SPEC P12).
    PresetOnlyTightens,
    /// The rule is a glob, and the path is in an excluded directory that the glob does not reach
    /// (SPEC G3).
    OutOfReach,
    /// A stronger glob at this path is out of reach, so no weaker rule opens the path either.
    BehindOneOutOfReach,
}

/// All decisions, parents before children, and the ignored matches.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    by_path: PathMap<Decision>,
    ignored: Vec<IgnoredMatch>,
}

impl Decision {
    /// Whether a private place replaces the host's folder (SPEC section 25).
    pub fn is_own_place(&self) -> bool {
        self.access == Access::Exclude && self.mask == Mask::OwnPlace
    }
}

impl Decisions {
    pub fn iter(&self) -> impl Iterator<Item = (&AbsPath, &Decision)> {
        self.by_path.iter()
    }

    pub fn get(&self, path: &AbsPath) -> Option<&Decision> {
        self.by_path.get(path)
    }

    pub fn ignored_at<'d>(&'d self, path: &'d AbsPath) -> impl Iterator<Item = &'d IgnoredMatch> {
        self.ignored.iter().filter(move |ignored| ignored.found.path == *path)
    }

    /// The matches that are ignored for another reason than their rank.
    pub fn ignored(&self) -> impl Iterator<Item = &IgnoredMatch> {
        self.ignored.iter()
    }

    /// The ignored matches for which the directories on the way are pinned nevertheless (SPEC
    /// B13).
    pub fn pinned_although_ignored(&self) -> impl Iterator<Item = &Match> {
        self.ignored.iter().filter(|ignored| ignored.names_way).map(|ignored| &ignored.found)
    }

    /// Whether something strictly below `path` is not excluded.
    pub fn reopens_below(&self, path: &AbsPath) -> bool {
        self.by_path.below(path).any(|(_, decision)| decision.access != Access::Exclude)
    }

    pub fn opens_below(&self, path: &AbsPath) -> bool {
        self.by_path.below(path).any(|(_, decision)| decision.access == Access::Rw)
    }

    /// The nearest decision at or above `path`; `None` where only the base mounts apply.
    pub fn governing(&self, path: &AbsPath) -> Option<(&AbsPath, &Decision)> {
        self.by_path.nearest(path)
    }

    /// The nearest decision above `path`.
    pub fn around(&self, path: &AbsPath) -> Option<&Decision> {
        self.by_path.nearest_above(path).map(|(_, decision)| decision)
    }

    /// All decisions above `path`, outermost first.
    pub fn way_to(&self, path: &AbsPath) -> Vec<(&AbsPath, &Decision)> {
        let upwards = std::iter::successors(self.by_path.nearest_above(path), |(at, _)| self.by_path.nearest_above(at));
        let mut way: Vec<_> = upwards.collect();
        way.reverse();
        way
    }

    /// Whether a glob with this fixed prefix counts at `matched` (SPEC G3).
    pub fn reaches(&self, fixed_prefix: &AbsPath, matched: &AbsPath) -> bool {
        reaches(fixed_prefix, self.by_path.nearest_above(matched))
    }
}

/// Whether a glob with this fixed prefix counts (SPEC G3). `around` is the nearest decision above
/// the path that the glob matched.
fn reaches(fixed_prefix: &AbsPath, around: Option<(&AbsPath, &Decision)>) -> bool {
    around.is_none_or(|(at, decision)| decision.access != Access::Exclude || fixed_prefix.is_within(at))
}

pub fn decide(resolution: &Resolution, layers: &Layers, diagnostics: &mut Diagnostics) -> Decisions {
    let (aliases, named): (Vec<&Match>, Vec<&Match>) =
        resolution.matches.iter().partition(|found| found.alias_of.is_some());
    let (showing, named): (Vec<&Match>, Vec<&Match>) =
        named.into_iter().partition(|found| found.rule.refinements.only_shows);
    let (mut through_links, mut counting): (Vec<&Match>, Vec<&Match>) =
        named.into_iter().partition(|found| found.only_tightens());
    let mut decisions = settle(&counting);
    let mut ignored = Vec::new();
    if decisions.iter().any(|(_, decision)| decision.is_own_place()) {
        let by_link = through_links.extract_if(.., |found| may_show(found) && shows(found, &decisions));
        let shown: Vec<&Match> = by_link.chain(showing.into_iter().filter(|it| shows(it, &decisions))).collect();
        counting.extend(shown);
        decisions = settle(&counting);
    }
    if !through_links.is_empty() {
        let (tightening, idle): (Vec<&Match>, Vec<&Match>) =
            through_links.into_iter().partition(|found| tightens(found, &decisions));
        ignored.extend(idle.into_iter().map(|found| {
            let why = match in_reach(found, &decisions) {
                false => IgnoreReason::OutOfReach,
                true if found.links.is_empty() => IgnoreReason::PresetOnlyTightens,
                true => IgnoreReason::DoesNotTighten,
            };
            ignore(found, why)
        }));
        counting.extend(tightening);
        decisions = settle(&counting);
    }
    if !aliases.is_empty() {
        let (tightening, idle): (Vec<&Match>, Vec<&Match>) =
            aliases.into_iter().partition(|found| tightens_alias(found, &decisions));
        ignored.extend(idle.into_iter().map(|found| ignore(found, IgnoreReason::DoesNotTighten)));
        counting.extend(tightening);
        decisions = settle(&counting);
    }
    decisions.ignored.extend(ignored);
    protect_own_files(&mut decisions, layers.own_files.iter().chain(&resolution.own_aliases), diagnostics);
    placeholders::settle(&mut decisions, resolution, &layers.state, diagnostics);
    placeholders::settle_injections(&mut decisions, resolution, &layers.state, diagnostics);
    hide_copies_and_reports(&mut decisions, layers, &resolution.record_aliases);
    // An ignored rule for a missing path pins no directories.
    let is_missing = |path: &AbsPath| resolution.placeholders.binary_search_by(|other| other.path.cmp(path)).is_ok();
    for ignored in &mut decisions.ignored {
        ignored.names_way = ignored.why == IgnoreReason::PresetOnlyTightens && !is_missing(&ignored.found.path);
    }
    refuse_excluded_cwd(&decisions, &layers.project.cwd, diagnostics);
    decisions
}

/// Whether a rule that came through a symlink may show its path in a private place. Only an exact
/// `ro` rule that a user wrote may.
fn may_show(found: &Match) -> bool {
    let is_named = found.exactness == Exactness::Exact && found.rule.layer > LayerKind::Preset;
    is_named && found.rule.access == Access::Ro && !found.rule.refinements.only_tightens
}

/// Whether only a private place hides the path of a rule, and no command can replace a symlink on
/// the way there.
fn shows(found: &Match, decisions: &Decisions) -> bool {
    let is_hidden = decisions.governing(&found.path).is_some_and(|(_, decision)| decision.is_own_place());
    let can_be_replaced = |link: &AbsPath| governed(link, decisions) == Access::Rw;
    is_hidden && (!found.links.iter().any(can_be_replaced) || ablate::is_off(Mitigation::LinkChecks))
}

/// Whether a rule that only tightens is stricter than `decisions`. `decisions` must come from the
/// other rules alone.
fn tightens(found: &Match, decisions: &Decisions) -> bool {
    let came_through_link = !found.links.is_empty();
    !(came_through_link && ablate::is_off(Mitigation::ExcludeThroughLink))
        && is_stricter(found, decisions)
        && in_reach(found, decisions)
}

/// Whether the rule takes more away than the decision that governs its path. Hiding all of a file
/// is stricter than showing a copy without credentials.
fn is_stricter(found: &Match, decisions: &Decisions) -> bool {
    let hides_all = |access: Access, copy: &Option<_>| access == Access::Exclude && copy.is_none();
    let hidden = || decisions.governing(&found.path).is_some_and(|(_, it)| hides_all(it.access, &it.copy));
    found.rule.access > governed(&found.path, decisions) || hides_all(found.rule.access, &found.copy) && !hidden()
}

fn governed(path: &AbsPath, decisions: &Decisions) -> Access {
    decisions.governing(path).map_or(Access::Ro, |(_, decision)| decision.access)
}

/// Whether a rule counts at another name of the file or folder that it reached (SPEC W3): the rule
/// must win at the written name and not show it, and be stricter than `decisions` at the other
/// name.
fn tightens_alias(found: &Match, decisions: &Decisions) -> bool {
    let Some(alias_of) = &found.alias_of else { return false };
    let Some((at, access, origin)) = of_host_file(&alias_of.path, decisions) else { return false };
    let is_this = access == found.rule.access && *origin == found.rule.origin;
    let shows = || access == Access::Ro && !shows_host_around(decisions, at);
    let is_nearer = alias_of.inherited && decisions.get(&found.path).is_some();
    is_this && !shows() && !is_nearer && is_stricter(found, decisions)
}

/// The access and origin of the rule that governs the host's file at `path`, and the path at which
/// it was decided. An injection is about other content (SPEC J2).
fn of_host_file<'d>(path: &AbsPath, decisions: &'d Decisions) -> Option<(&'d AbsPath, Access, &'d Origin)> {
    let (at, decision) = decisions.governing(path)?;
    if decision.injected.is_none() {
        return Some((at, decision.access, &decision.origin));
    }
    match decision.losers.iter().find(|loser| loser.rule.injected.is_none()) {
        Some(loser) => Some((at, loser.rule.access, &loser.rule.origin)),
        None => decisions.by_path.nearest_above(at).map(|(at, around)| (at, around.access, &around.origin)),
    }
}

/// Picks one winner for each path. Parents come first, so the decision that governs the parent of a
/// path is known when the path is reached.
fn settle(matches: &[&Match]) -> Decisions {
    let mut matches = matches.to_vec();
    matches.sort_by(|a, b| a.path.cmp(&b.path));
    let mut decisions = PathMap::default();
    let mut decided_around: Vec<AbsPath> = Vec::new();
    let mut ignored = Vec::new();
    for at_path in matches.chunk_by(|a, b| a.path == b.path) {
        let path = &at_path[0].path;
        while decided_around.pop_if(|at| !path.is_within(at)).is_some() {}
        let around = decided_around.last().and_then(|at| decisions.get_key_value(at));
        let mut candidates: Vec<Candidate> =
            at_path.iter().map(|found| Candidate::new(found, around, &decisions)).collect();
        candidates.sort_by(Candidate::strongest_first);
        if silences_presets(&candidates, around) {
            let presets = candidates.extract_if(.., |candidate| candidate.found.rule.is_preset_ro());
            let why = |counts| if counts { IgnoreReason::PresetOnlyTightens } else { IgnoreReason::OutOfReach };
            ignored.extend(presets.map(|Candidate { found, counts }| ignore(found, why(counts))));
        }
        let Some((winner, losers)) = candidates.split_first() else { continue };
        let is_out = !winner.may_win();
        ignored.extend(candidates.iter().filter_map(|candidate| match candidate.may_win() {
            false => Some(ignore(candidate.found, IgnoreReason::OutOfReach)),
            true if is_out => Some(ignore(candidate.found, IgnoreReason::BehindOneOutOfReach)),
            true => None,
        }));
        // A glob that is out of reach opens nothing. If it is the strongest rule, no weaker rule
        // opens the path either. Otherwise hiding a folder could open something in it.
        if is_out {
            continue;
        }
        let is_equal = |other: &&Candidate| other.precedence() == winner.precedence() && other.may_win();
        let equal = losers.iter().take_while(is_equal).chain([winner]);
        // A glob that is out of reach names no directory on the way (SPEC B13). The walk finds its
        // match only if another path in the same excluded directory is re-opened.
        let mut reaching = equal.filter(|candidate| candidate.counts).map(|candidate| candidate.found).peekable();
        let out_of_reach = reaching.peek().is_none();
        let unnamed = unnamed_by_all(reaching);
        let losers: Vec<&Match> = losers.iter().map(|loser| loser.found).collect();
        decisions.insert(path.clone(), Decision { out_of_reach, ..won(winner.found, &losers, unnamed) });
        decided_around.push(path.clone());
    }
    Decisions { by_path: decisions, ignored }
}

/// Whether `ro` rules of built-in presets are ignored at a path: the other rules exclude it, or
/// one of them shows it in an excluded directory (SPEC P12). `candidates` are sorted, strongest
/// first, and `around` is the nearest decision above their path.
fn silences_presets(candidates: &[Candidate], around: Option<(&AbsPath, &Decision)>) -> bool {
    let is_preset_ro = |candidate: &&Candidate| candidate.found.rule.is_preset_ro();
    if !candidates.iter().any(|candidate| is_preset_ro(&candidate)) {
        return false;
    }
    let strongest = candidates.iter().find(|candidate| !is_preset_ro(candidate));
    match strongest.map(|other| (other.found.rule.access, other.may_win())) {
        Some((Access::Exclude, _)) => true,
        Some((Access::Rw, true)) => false,
        _ => around.is_some_and(|(_, around)| around.access == Access::Exclude),
    }
}

/// A rule that may win at a path.
struct Candidate<'m> {
    found: &'m Match,
    /// Whether the rule is in reach (SPEC G3). A rule that only tightens was already checked at
    /// its link.
    counts: bool,
}

impl<'m> Candidate<'m> {
    /// `around` is the nearest of `decisions` above the path of `found`.
    fn new(found: &'m Match, around: Option<(&AbsPath, &Decision)>, decisions: &PathMap<Decision>) -> Self {
        let is_checked = found.only_tightens() || found.alias_of.is_some() || found.exactness != Exactness::Glob;
        // A rule that came through a link may have matched another path.
        let is_here = found.matched == found.path;
        let around = || if is_here { around } else { decisions.nearest_above(&found.matched) };
        Self { found, counts: is_checked || reaches(&found.fixed_prefix, around()) }
    }

    /// An `exclude` out of reach changes nothing at its path, but it is one more excluded directory
    /// for the paths below.
    fn may_win(&self) -> bool {
        self.found.rule.access == Access::Exclude || self.counts
    }

    fn precedence(&self) -> Precedence {
        self.found.rule.precedence(self.found.exactness)
    }

    /// Compares by precedence, then by reach. Text and place come last, so that the order of
    /// entries changes nothing.
    fn strongest_first(&self, other: &Self) -> Ordering {
        let strength = |candidate: &Self| (candidate.precedence(), candidate.may_win());
        strength(other)
            .cmp(&strength(self))
            .then_with(|| self.found.rule.text.cmp(&other.found.rule.text))
            .then_with(|| self.found.rule.origin.to_string().cmp(&other.found.rule.origin.to_string()))
    }
}

fn ignore(found: &Match, why: IgnoreReason) -> IgnoredMatch {
    IgnoredMatch { found: found.clone(), why, names_way: false }
}

/// SPEC G3: a glob does not reach into an excluded directory, unless its fixed prefix lies in it.
fn in_reach(candidate: &Match, decisions: &Decisions) -> bool {
    candidate.exactness != Exactness::Glob || decisions.reaches(&candidate.fixed_prefix, &candidate.matched)
}

/// The directories that none of the equally strong rules names. All these rules count: the winner
/// among them depends only on their spelling.
fn unnamed_by_all<'m>(mut found: impl Iterator<Item = &'m Match>) -> Option<Box<UnnamedAncestors>> {
    let first = found.next()?.unnamed.clone()?;
    found.try_fold(first, |unnamed, found| Some(Box::new(unnamed.and(found.unnamed.as_ref()?))))
}

fn won(winner: &Match, losers: &[&Match], unnamed: Option<Box<UnnamedAncestors>>) -> Decision {
    let rank = winner.rule.precedence(winner.exactness);
    // Where equal rules differ, the order in which they were written must not matter.
    let equal = losers.iter().filter(|found| found.rule.precedence(found.exactness) == rank).chain([&winner]);
    let hard_links = equal.clone().map(|found| found.rule.hard_links).max().unwrap_or_default();
    // A plain `ro` of the same rank is stricter than `private`.
    let is_private = winner.alias_of.is_none() && equal.clone().all(|found| found.rule.private.is_some());
    // A rule that hides all of the file is stricter, even with a lower rank.
    let hides_all = |found: &&&Match| found.rule.access == Access::Exclude && found.copy.is_none();
    let is_redacted = winner.copy.is_some() && !losers.iter().any(|found| hides_all(&found));
    Decision {
        rule: Arc::clone(&winner.rule),
        access: winner.rule.access,
        kind: winner.kind,
        mask: winner.rule.refinements.mask,
        copy: winner.copy.clone().filter(|_| is_redacted),
        origin: match &winner.alias_of {
            Some(AliasOf { path, .. }) => {
                Origin::Alias { of: path.clone(), origin: Box::new(winner.rule.origin.clone()) }
            }
            None => winner.rule.origin.clone(),
        },
        layer: winner.rule.layer,
        exactness: winner.exactness,
        unnamed,
        out_of_reach: false,
        // Any rule here may demand that the path exists, even one that lost.
        required: losers.iter().chain([&winner]).any(|found| found.rule.if_missing == IfMissing::Error),
        shows_socket: winner.rule.shows_socket,
        private: winner.rule.private.filter(|_| is_private),
        injected: winner.rule.injected.clone(),
        names: winner.names,
        hard_links,
        placeholder: None,
        links: winner.links.clone(),
        losers: losers.iter().copied().cloned().collect(),
    }
}

/// SPEC D6: makes our own files at least read-only. This is not a rule, because a rule could lose,
/// or could re-open a path in an excluded folder.
fn protect_own_files<'o>(
    decisions: &mut Decisions,
    own: impl Iterator<Item = &'o OwnFile>,
    diagnostics: &mut Diagnostics,
) {
    if ablate::is_off(Mitigation::OwnFiles) {
        return;
    }
    for OwnFile { path, kind, names, why, .. } in own {
        let opened: Vec<(AbsPath, Decision)> = decisions
            .by_path
            .within(path)
            .filter(|(_, decision)| decision.access == Access::Rw)
            .map(|(at, decision)| (at.clone(), decision.clone()))
            .collect();
        for (at, decision) in opened {
            if decision.exactness == Exactness::Exact {
                let message = format!("`{at}` belongs to agent-sandbox and stays read-only");
                let help = "remove the rule: a command that could write here would choose its own policy";
                diagnostics.push(Diagnostic::new(Code::ProtectedPath, message).at(&decision.origin).help(help));
            }
            decisions.by_path.remove(&at);
        }
        if governed(path, decisions) < Access::Ro {
            let rule = Rule::exact(Access::Ro, path.clone(), LayerKind::CommandLine, Origin::BuiltIn(why));
            let found = Match::new(Arc::new(rule), path.clone(), *kind, Exactness::Exact);
            decisions.by_path.insert(path.clone(), Decision { names: *names, ..won(&found, &[], None) });
        }
    }
}

/// SPEC Q6: hides the copies of private files and the reports of runs, above all those of other
/// projects. The command sees its own copies at another path.
fn hide_copies_and_reports(decisions: &mut Decisions, layers: &Layers, aliases: &[(&str, AbsPath)]) {
    if ablate::is_off(Mitigation::OwnFiles) {
        return;
    }
    let has_private = layers.has_private || decisions.iter().any(|(_, decision)| decision.private.is_some());
    let folders = [
        (has_private, Layers::PRIVATE, "copies of private files"),
        (layers.has_reports, Layers::REPORTS, "reports of runs"),
    ];
    for (_, name, why) in folders.into_iter().filter(|(exists, ..)| *exists) {
        let aliases = aliases.iter().filter(|(of, _)| *of == name).map(|(_, path)| path.clone());
        for folder in aliases.chain([layers.state.child(name)]) {
            let rule = Rule::exact(Access::Exclude, folder.clone(), LayerKind::CommandLine, Origin::BuiltIn(why));
            let found = Match::new(Arc::new(rule), folder.clone(), FileKind::Directory, Exactness::Exact);
            decisions.by_path.cover(folder, won(&found, &[], None));
        }
    }
}

fn refuse_excluded_cwd(decisions: &Decisions, cwd: &AbsPath, diagnostics: &mut Diagnostics) {
    if let Some((at, decision)) = decisions.governing(cwd)
        && decision.access == Access::Exclude
        && !decision.is_own_place()
    {
        let same = match &decision.origin {
            Origin::Alias { of, .. } => format!(", being the same as `{of}`"),
            _ => String::new(),
        };
        let (message, help) = if at == cwd {
            (format!("the working directory `{cwd}` is excluded{same}"), "start somewhere else, or remove the rule")
        } else {
            (
                format!("`{at}` is excluded{same}, and the working directory `{cwd}` lies in it"),
                "start somewhere else, or re-open the working directory with a deeper `ro` or `rw` rule",
            )
        };
        diagnostics.push(Diagnostic::new(Code::ExcludedCwd, message).at(&decision.origin).help(help));
    }
}
