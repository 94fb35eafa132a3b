//! A slow and simple implementation of SPEC.md: it tries every rule at every path of the tree. It
//! shares no code with the compiler, and the properties check that both agree.

mod apply;
pub mod glob;
mod layers;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::access::Class;
use crate::scene::{Access, STATE, Scene, Stage};
use apply::{Applied, Applying, follow};
use layers::Written;

/// The meaning of a scene by the specification.
pub enum Verdict {
    Policy(Naive),
    /// The policy must be refused, for this reason.
    Refused(String),
    /// The specification does not say whether the policy is refused.
    Open,
}

pub struct Naive {
    decisions: Decisions,
    /// `ro` rules of presets at paths that other rules hide (SPEC P12).
    aside: Vec<Applied>,
    /// The matched path and its target, for rules that came through links.
    links: BTreeSet<(PathBuf, PathBuf)>,
    own: Vec<PathBuf>,
    tmp_of_host: bool,
}

/// The rules that won at each path. Several equally strong rules have the same access.
type Decisions = BTreeMap<PathBuf, Vec<Applied>>;

pub fn judge(scene: &Scene, stage: &Stage) -> Verdict {
    let written = layers::read(scene, stage);
    let (own_places, shown) = (written.own_places(), written.shown());
    let Written { rules, tmp_of_host, own, .. } = written;
    let Applying { mut applied, required, refused, blocked, dangling, .. } = Applying::all(scene, stage, &rules);
    applied.extend(own_places.into_iter().map(|at| Applied::base(Access::Exclude, at, true)));
    show_in_own_places(&mut applied, stage, shown);
    // The decisions for the folders of links, and for their targets, do not count rules that came
    // through links.
    let direct: Vec<Applied> = applied.iter().filter(|rule| !rule.only_tightens()).cloned().collect();
    let (direct, _) = decide(&direct);
    if is_open(&applied, &required, &refused, &direct) {
        return Verdict::Open;
    }
    applied.retain(|rule| {
        let base = if tmp_of_host && rule.at.starts_with("/tmp") { Access::Rw } else { Access::Ro };
        let governed = governing(&direct, &rule.at).map_or(base, |above| above.access);
        !rule.only_tightens() || (rule.access > governed && is_reached(&direct, rule))
    });
    let through = applied.iter().filter(|rule| rule.only_tightens());
    let links = through.map(|rule| (rule.matched.clone(), rule.at.clone())).collect();
    // The state folder is protected even before it exists.
    let is_ours =
        |path: &&PathBuf| follow(stage, path).is_ok_and(|found| found.exists) || path.as_path() == Path::new(STATE);
    let own: Vec<_> = own.iter().filter(is_ours).filter_map(|path| follow(stage, path).ok()).collect();
    let own = own.into_iter().map(|found| found.path).collect();
    let (decisions, mut aside) = decide(&applied);
    aside.retain(|rule| !blocked.contains(&rule.at));
    let mut naive = Naive { decisions, aside, links, own, tmp_of_host };
    naive.keep_what_is_needed(&blocked);
    if dangling.iter().any(|link| naive.class(link.parent().unwrap()) == Class::Rw) {
        return Verdict::Refused("nothing is blocked through a link".to_owned());
    }
    if let Some(verdict) = naive.opens_hidden_by_link(&applied) {
        return verdict;
    }
    match naive.refused(scene, refused) {
        Some(Verdict::Open) => Verdict::Open,
        Some(refused) => refused,
        None => Verdict::Policy(naive),
    }
}

/// SPEC O2, O3: parts of the base, and targets of links that a user's exact `ro` names, are visible
/// if only the private home or the minimal base hides them, and no command can replace the link.
fn show_in_own_places(applied: &mut Vec<Applied>, stage: &Stage, shown: Vec<PathBuf>) {
    let direct: Vec<Applied> = applied.iter().filter(|rule| !rule.only_tightens()).cloned().collect();
    let (direct, _) = decide(&direct);
    let is_shown = |at: &Path, links: &[PathBuf]| {
        let replaceable = |link: &PathBuf| governing(&direct, link).is_some_and(|above| above.access == Access::Rw);
        governing(&direct, at).is_some_and(|above| above.own_place) && !links.iter().any(replaceable)
    };
    for rule in applied.iter_mut().filter(|rule| rule.exact && rule.access == Access::Ro && !rule.is_preset_ro()) {
        if !rule.links.is_empty() && is_shown(&rule.at, &rule.links) {
            rule.links.clear();
        }
    }
    let there = shown.into_iter().filter_map(|path| follow(stage, &path).ok()).filter(|found| found.exists);
    let there = there.filter(|found| is_shown(&found.path, &found.links));
    applied.extend(there.map(|found| Applied::base(Access::Ro, found.path, false)).collect::<Vec<_>>());
}

/// Decides each path by SPEC D1, P12 and G3. The paths are sorted, because G3 needs the decisions
/// above a path. Also returns the presets' `ro` rules that do not count.
fn decide(applied: &[Applied]) -> (Decisions, Vec<Applied>) {
    let mut places: Vec<&PathBuf> = applied.iter().map(|rule| &rule.at).collect();
    places.sort_by_key(|path| (path.components().count(), *path));
    places.dedup();
    let mut decisions = Decisions::new();
    let mut aside = Vec::new();
    for place in places {
        let here: Vec<&Applied> = applied.iter().filter(|rule| rule.at == *place).collect();
        let (presets, others): (Vec<&Applied>, Vec<&Applied>) = here.iter().partition(|rule| rule.is_preset_ro());
        let mut winners = win(&others, &decisions);
        let around = || place.parent().and_then(|parent| governing(&decisions, parent));
        let without_presets = winners.first().or_else(around).map(|rule| rule.access);
        if without_presets == Some(Access::Exclude) {
            let in_reach = presets.into_iter().filter(|rule| is_reached(&decisions, rule));
            aside.extend(in_reach.cloned());
        } else {
            winners = win(&here, &decisions);
        }
        if !winners.is_empty() {
            decisions.insert(place.clone(), winners);
        }
    }
    (decisions, aside)
}

/// The strongest of the rules at one path. If the strongest rules are out of reach, no weaker rule
/// opens the path instead. Rules that exclude always count.
fn win(here: &[&Applied], decisions: &Decisions) -> Vec<Applied> {
    let strongest = here.iter().map(|rule| rule.strength()).max();
    let counts = |rule: &Applied| rule.only_tightens() || rule.access == Access::Exclude || is_reached(decisions, rule);
    let winners = here.iter().filter(|rule| Some(rule.strength()) == strongest && counts(rule));
    winners.map(|rule| (*rule).clone()).collect()
}

fn governing<'d>(decisions: &'d Decisions, path: &Path) -> Option<&'d Applied> {
    path.ancestors().find_map(|above| decisions.get(above)).and_then(|winners| winners.first())
}

/// Whether the rule is in reach (SPEC G3).
fn is_reached(decisions: &Decisions, rule: &Applied) -> bool {
    rule.exact || reaches(decisions, &rule.matched, &rule.prefix)
}

fn reaches(decisions: &Decisions, matched: &Path, prefix: &Path) -> bool {
    let above = matched.parent().and_then(|parent| governing(decisions, parent));
    above.is_none_or(|above| above.access != Access::Exclude || prefix.starts_with(&above.at))
}

type Refusal = (String, Option<(PathBuf, PathBuf)>);

/// Whether the specification leaves open if the policy is refused. It does not say whether a link
/// that leads in a circle, or a required glob, is an error if it is out of reach.
fn is_open(applied: &[Applied], required: &[Range<usize>], refused: &[Refusal], decisions: &Decisions) -> bool {
    let in_reach = |range: &Range<usize>| applied[range.clone()].iter().any(|rule| is_reached(decisions, rule));
    let mut links = refused.iter().filter_map(|(_, link)| link.as_ref());
    required.iter().any(|range| !range.is_empty() && !in_reach(range))
        || links.any(|(link, prefix)| !reaches(decisions, link, prefix))
}

impl Naive {
    /// SPEC M4: a path has a placeholder if a rule protects it and its parent is writable.
    /// Otherwise the path stays missing.
    fn keep_what_is_needed(&mut self, blocked: &[PathBuf]) {
        for path in blocked {
            let is_protected = self.decisions.get(path).is_some_and(|winners| winners[0].access != Access::Rw);
            if !is_protected || self.class(path.parent().unwrap()) != Class::Rw {
                self.decisions.remove(path);
            }
        }
    }

    /// Whether only patterns protect some path in a hidden folder.
    pub fn hides_what_a_pattern_names(&self) -> bool {
        self.decisions.iter().any(|(path, winners)| {
            let is_hidden =
                |above: &Path| self.decisions.get(above).is_some_and(|winners| winners[0].access == Access::Exclude);
            winners.iter().all(|rule| !rule.exact) && path.ancestors().skip(1).any(is_hidden)
        })
    }

    /// SPEC G8: through a link, `rw` does not open a path that another rule hides.
    fn opens_hidden_by_link(&self, applied: &[Applied]) -> Option<Verdict> {
        for (path, winners) in self.decisions.iter().filter(|(_, winners)| winners[0].access == Access::Rw) {
            let around = path.ancestors().skip(1).find_map(|above| self.decisions.get(above));
            let hides = |winner: &Applied| winner.access == Access::Exclude && !winner.own_place;
            let hidden_around = around.is_some_and(|winners| hides(&winners[0]));
            let here: Vec<&Applied> = applied.iter().filter(|rule| rule.at == *path && hides(rule)).collect();
            let by_link = winners.iter().filter(|rule| !rule.links.is_empty()).count();
            if by_link == 0 || (here.is_empty() && !hidden_around) {
                continue;
            }
            // A rule that came through a link may not count, and of several equally strong rules
            // the specification does not say whose link counts.
            let certain = hidden_around || here.iter().any(|rule| rule.links.is_empty() && rule.exact);
            return Some(if certain && by_link == winners.len() {
                Verdict::Refused(format!("{path:?} is hidden, and opened by a link"))
            } else {
                Verdict::Open
            });
        }
        None
    }

    fn refused(&self, scene: &Scene, refused: Vec<Refusal>) -> Option<Verdict> {
        let no = |why: String| Some(Verdict::Refused(why));
        if let Some((why, _)) = refused.into_iter().next() {
            return no(why);
        }
        for own in &self.own {
            let opened = |rule: &&Applied| rule.at.starts_with(own) && rule.exact && rule.access == Access::Rw;
            if let Some(rule) = self.decisions.values().flatten().find(opened) {
                return no(format!("{rule:?} would open {own:?}"));
            }
        }
        // A policy that opens a path through a link that the command can replace is refused (SPEC
        // G8).
        let can_be_replaced = |link: &PathBuf| self.class(link.parent().unwrap()) == Class::Rw;
        for (path, winners) in &self.decisions {
            let opens = self.class(path) == Class::Rw && self.class(path.parent().unwrap_or(path)) != Class::Rw;
            let doubtful = winners.iter().filter(|rule| rule.links.iter().any(can_be_replaced)).count();
            match doubtful {
                _ if !opens => {}
                0 => {}
                all if all == winners.len() => return no(format!("{path:?} is opened through a link")),
                // Only some of several equally strong rules have such a link, and SPEC does not say
                // which one counts.
                _ => return Some(Verdict::Open),
            }
        }
        match self.class(&scene.cwd) {
            Class::Hidden | Class::Private => no("the working directory cannot be seen".to_owned()),
            _ => None,
        }
    }

    /// The links through which rules came, and their targets.
    pub fn links(&self) -> &BTreeSet<(PathBuf, PathBuf)> {
        &self.links
    }

    /// The access of the command at `path`, without following links.
    pub fn class(&self, path: &Path) -> Class {
        let (base, top) = match path {
            path if path.starts_with("/dev") => (Class::Dev, "/dev"),
            path if path.starts_with("/proc") => (Class::Proc, "/proc"),
            path if path.starts_with("/run") => (Class::Private, "/run"),
            path if path.starts_with("/tmp") && self.tmp_of_host => (Class::Rw, "/tmp"),
            path if path.starts_with("/tmp") => (Class::Private, "/tmp"),
            _ => (Class::Ro, "/"),
        };
        let decision = governing(&self.decisions, path).filter(|decision| decision.at.starts_with(top));
        let is_own_home = |decision: &&Applied| decision.own_place && decision.at != Path::new("/");
        let class = match decision.map(|decision| decision.access) {
            Some(_) if decision.as_ref().is_some_and(is_own_home) => Class::Private,
            None => base,
            Some(Access::Rw) => Class::Rw,
            Some(Access::Ro) => Class::Ro,
            Some(Access::Exclude) => Class::Hidden,
        };
        let is_own = self.own.iter().any(|own| path.starts_with(own));
        if is_own && class == Class::Rw { Class::Ro } else { class }
    }

    /// The folder in which a directory can be moved: its outermost parent up to which all folders
    /// are writable. `None` if the directory or its parent is not writable.
    fn can_move_in<'d>(&self, directory: &'d Path) -> Option<&'d Path> {
        let writable = |path: &&Path| self.class(path) == Class::Rw;
        writable(&directory).then(|| directory.ancestors().skip(1).take_while(writable).last())?
    }

    /// Whether a directory may be renamed (SPEC B12, B13): its parent is writable, and no
    /// protective rule names a path below it.
    pub fn may_be_renamed(&self, directory: &Path) -> bool {
        let Some(root) = self.can_move_in(directory) else { return false };
        let is_below = |path: &Path| path.starts_with(directory) && path != directory;
        let names = |rule: &&Applied| rule.only_tightens() || is_reached(&self.decisions, rule);
        let protective = self.decisions.values().flatten().filter(|rule| rule.access != Access::Rw).filter(names);
        let mut below = protective.chain(&self.aside).filter(|rule| is_below(&rule.at));
        below.all(|rule| rule.leaves_free(directory, root)) && !self.own.iter().any(|own| is_below(own))
    }

    /// The paths of exact `ro` and `exclude` rules, and of agent-sandbox's own files.
    pub fn exactly_protected(&self) -> impl Iterator<Item = &Path> {
        let protective = |rule: &&Applied| rule.exact && rule.access != Access::Rw;
        let rules = self.decisions.values().flatten().filter(protective).map(|rule| rule.at.as_path());
        rules.chain(self.own.iter().map(PathBuf::as_path))
    }

    /// Whether `path` belongs to a file of agent-sandbox for which a glob says `rw`. By SPEC D6
    /// the path is then read-only or hidden.
    pub fn is_at_least_ro(&self, path: &Path) -> bool {
        let struck = |rule: &Applied, own: &PathBuf| rule.at.starts_with(own) && rule.access == Access::Rw;
        let within = self.own.iter().filter(|own| path.starts_with(own));
        within.into_iter().any(|own| self.decisions.values().flatten().any(|rule| struck(rule, own)))
    }
}
