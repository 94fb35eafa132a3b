//! The policy as SPEC.md states it, slowly and straight: every rule is tried at every path of the tree. Nothing here is
//! shared with the compiler; the properties say that both come to the same.

pub mod glob;
mod layers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::access::Class;
use crate::scene::{Access, HOME, Missing, Scene, Stage};
use layers::{Layer, Rule, Written};

/// What the specification makes of a scene.
pub enum Verdict {
    Policy(Naive),
    /// It must not run, and why.
    Refused(String),
    /// The specification does not say.
    Open,
}

/// A rule at a path of the tree. The order of the first three fields is SPEC D1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Applied {
    exact: bool,
    layer: Layer,
    access: Access,
    at: PathBuf,
    /// The components before the first wildcard.
    prefix: PathBuf,
    /// Where the symlink lies that a glob matched.
    link: Option<PathBuf>,
}

pub struct Naive {
    decisions: Decisions,
    links: BTreeSet<(PathBuf, PathBuf)>,
    own: Vec<PathBuf>,
    tmp_of_host: bool,
}

/// Where a path leads. `exists` says whether anything is there.
struct Followed {
    path: PathBuf,
    exists: bool,
}

pub fn judge(scene: &Scene, stage: &Stage) -> Verdict {
    let Written { rules, tmp_of_host, own } = layers::read(scene, stage);
    let mut applying = Applying::new(scene, stage);
    for rule in &rules {
        applying.rule(rule);
    }
    let own = own.iter().filter_map(|path| follow(stage, path).ok()).filter(|found| found.exists);
    let own = own.map(|found| found.path).collect();
    // What governs the folders of links is settled without links.
    let without_links: Vec<Applied> = applying.applied.iter().filter(|rule| rule.link.is_none()).cloned().collect();
    let without_links = decide(&without_links);
    if is_open(&applying, &without_links) {
        return Verdict::Open;
    }
    applying
        .applied
        .retain(|rule| rule.link.as_ref().is_none_or(|link| is_reached(&without_links, link, &rule.prefix)));
    let links = applying.applied.iter().filter_map(|rule| Some((rule.link.clone()?, rule.at.clone()))).collect();
    let naive = Naive { decisions: decide(&applying.applied), links, own, tmp_of_host };
    match naive.refused(scene, applying.refused) {
        Some(why) => Verdict::Refused(why),
        None => Verdict::Policy(naive),
    }
}

/// SPEC G5, one component after the other. `Err`: the links lead in a circle.
fn follow(stage: &Stage, path: &Path) -> Result<Followed, ()> {
    let names = |path: &Path| -> Vec<OsString> {
        let named = path.components().filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
        named.map(|c| c.as_os_str().to_owned()).collect()
    };
    let mut at = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(path).into();
    let mut hops = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        if let Ok(target) = fs::read_link(stage.real(&at)) {
            hops += 1;
            if hops > 40 {
                return Err(());
            }
            at.pop();
            if target.is_absolute() {
                at = "/".into();
            }
            for name in names(&target).into_iter().rev() {
                ahead.push_front(name);
            }
        }
    }
    let exists = fs::symlink_metadata(stage.real(&at)).is_ok();
    Ok(Followed { path: at, exists })
}

struct Applying<'a> {
    scene: &'a Scene,
    stage: &'a Stage,
    paths: Vec<(PathBuf, fs::FileType)>,
    applied: Vec<Applied>,
    /// What belongs to each rule that must apply to something.
    required: Vec<Range<usize>>,
    /// Why it must not run; with the link and the fixed prefix, where a glob found a link.
    refused: Vec<(String, Option<(PathBuf, PathBuf)>)>,
}

impl<'a> Applying<'a> {
    fn new(scene: &'a Scene, stage: &'a Stage) -> Self {
        let paths = stage.paths();
        Self { scene, stage, paths, applied: Vec::new(), required: Vec::new(), refused: Vec::new() }
    }

    fn rule(&mut self, rule: &Rule) {
        let before = self.applied.len();
        let (base, text) = match rule.text.as_slice() {
            b"~" => (Path::new(HOME), b".".as_slice()),
            [b'~', b'/', rest @ ..] => (Path::new(HOME), rest),
            text => (rule.base.as_path(), text),
        };
        let literal = follow(self.stage, &base.join(OsStr::from_bytes(text))).is_ok_and(|found| found.exists);
        let patterns = glob::alternatives(text).filter(|patterns| {
            patterns.iter().flat_map(|pattern| components(pattern)).all(|part| !glob::is_malformed(part))
        });
        match &patterns {
            Some(patterns) if patterns.len() == 1 && !components(&patterns[0]).any(glob::is_wild) => {
                self.exact(rule, base, &unescaped(&patterns[0]), !literal);
            }
            Some(patterns) => {
                if rule.missing == Missing::Create {
                    self.refuse("`create` needs one path");
                }
                patterns.iter().for_each(|pattern| self.glob(rule, base, pattern));
            }
            None if literal => {}
            None => self.refuse("not a pattern"),
        }
        // SPEC G4.
        if literal {
            self.exact(rule, base, text, false);
        }
        if rule.missing == Missing::Error {
            if self.applied.len() == before {
                self.refuse("a rule that must apply does not");
            }
            self.required.push(before..self.applied.len());
        }
    }

    fn exact(&mut self, rule: &Rule, base: &Path, text: &[u8], may_create: bool) {
        match follow(self.stage, &base.join(OsStr::from_bytes(text))) {
            Err(()) => self.refuse("a circle of symlinks"),
            Ok(found) if found.exists => self.apply(rule, found.path, None, None),
            Ok(_) if rule.missing != Missing::Create || !may_create => {}
            Ok(found) if found.path == normal(&base.join(OsStr::from_bytes(text))) => {
                self.apply(rule, found.path, None, None);
            }
            Ok(_) => self.refuse("nothing is created through a symlink"),
        }
    }

    fn glob(&mut self, rule: &Rule, base: &Path, pattern: &[u8]) {
        let mut fixed: Vec<&[u8]> = components(pattern).take_while(|part| !glob::is_wild(part)).collect();
        let mut wild: Vec<&[u8]> = components(pattern).skip(fixed.len()).collect();
        if wild.is_empty() {
            wild.extend(fixed.pop());
        }
        let mut prefix = PathBuf::from(if pattern.starts_with(b"/") { "/" } else { "" });
        prefix.extend(fixed.iter().map(|part| OsString::from(OsStr::from_bytes(&glob::unescaped(part)))));
        let Ok(Followed { path: prefix, .. }) = follow(self.stage, &base.join(prefix)) else {
            return self.refuse("a circle of symlinks");
        };
        let matches = |path: &Path| {
            let below = path.strip_prefix(&prefix).ok();
            below.is_some_and(|below| {
                glob::matches_path(&wild, &below.iter().map(OsStrExt::as_bytes).collect::<Vec<_>>())
            }) && !rule.except.iter().any(|name| path.file_name() == Some(OsStr::new(name)))
        };
        let found: Vec<(PathBuf, bool)> = self
            .paths
            .iter()
            .filter(|(path, _)| matches(path))
            // SPEC G2: what lies in a directory that matches is no match of its own. SPEC P5: nor in one that is skipped.
            .filter(|(path, _)| {
                let between =
                    path.ancestors().skip(1).take_while(|above| above.starts_with(&prefix) && *above != prefix);
                let skipped = |above: &Path| rule.skips.iter().any(|name| above.file_name() == Some(OsStr::new(name)));
                between.into_iter().all(|above| !matches(above) && !skipped(above))
            })
            .map(|(path, kind)| (path.clone(), kind.is_symlink()))
            .collect();
        for (path, is_link) in found {
            if is_link {
                self.matched_link(rule, path, &prefix);
            } else {
                self.apply(rule, path, Some(&prefix), None);
            }
        }
    }

    fn matched_link(&mut self, rule: &Rule, link: PathBuf, prefix: &Path) {
        if rule.access == Access::Rw {
            return;
        }
        let why = match follow(self.stage, &link) {
            Err(()) => "a circle of symlinks",
            Ok(found) if !found.exists => return,
            Ok(found) if Path::new(HOME).starts_with(&found.path) => "a link to the home",
            Ok(found) if self.scene.cwd.starts_with(&found.path) => "a link to the working directory",
            Ok(found) => return self.apply(rule, found.path, Some(prefix), Some(link)),
        };
        self.refused.push((why.to_owned(), Some((link, prefix.to_path_buf()))));
    }

    fn apply(&mut self, rule: &Rule, at: PathBuf, prefix: Option<&Path>, link: Option<PathBuf>) {
        let is = |top: &str| at == Path::new(top);
        let reserved = match rule.access {
            Access::Ro | Access::Exclude if at.starts_with("/dev") => true,
            Access::Rw | Access::Exclude if is("/") => true,
            _ => at.starts_with("/proc") || is("/dev") || is("/run") || at.starts_with("/run/agent-sandbox"),
        };
        if reserved {
            return self.refuse("a place of the sandbox itself");
        }
        let prefix_path = prefix.unwrap_or(&at).to_path_buf();
        self.applied.push(Applied {
            exact: prefix.is_none(),
            layer: rule.layer,
            access: rule.access,
            at,
            prefix: prefix_path,
            link,
        });
    }

    fn refuse(&mut self, why: &str) {
        self.refused.push((why.to_owned(), None));
    }
}

type Decisions = BTreeMap<PathBuf, Applied>;

/// SPEC D1, and G3, for which the decisions above a path come first.
fn decide(applied: &[Applied]) -> Decisions {
    let mut places: Vec<&PathBuf> = applied.iter().map(|rule| &rule.at).collect();
    places.sort_by_key(|path| path.components().count());
    let mut decisions = Decisions::new();
    for place in places {
        let here = applied.iter().filter(|rule| rule.at == *place);
        let winner =
            here.filter(|rule| rule.exact || rule.link.is_some() || is_reached(&decisions, place, &rule.prefix)).max();
        decisions.extend(winner.map(|winner| (place.clone(), winner.clone())));
    }
    decisions
}

fn governing<'d>(decisions: &'d Decisions, path: &Path) -> Option<&'d Applied> {
    path.ancestors().find_map(|above| decisions.get(above))
}

fn is_reached(decisions: &Decisions, place: &Path, prefix: &Path) -> bool {
    let above = place.parent().and_then(|parent| governing(decisions, parent));
    above.is_none_or(|above| above.access != Access::Exclude || prefix.starts_with(&above.at))
}

/// Whether it runs depends on something out of reach: a link that leads too far, or the matches of a glob that must match.
/// The specification does not say whether those are errors.
fn is_open(applying: &Applying, decisions: &Decisions) -> bool {
    let counts =
        |rule: &Applied| rule.exact || is_reached(decisions, rule.link.as_ref().unwrap_or(&rule.at), &rule.prefix);
    let is_doubtful = |range: &Range<usize>| !range.is_empty() && !applying.applied[range.clone()].iter().any(counts);
    let mut links = applying.refused.iter().filter_map(|(_, link)| link.as_ref());
    applying.required.iter().any(is_doubtful) || links.any(|(link, prefix)| !is_reached(decisions, link, prefix))
}

impl Naive {
    fn refused(&self, scene: &Scene, refused: Vec<(String, Option<(PathBuf, PathBuf)>)>) -> Option<String> {
        if let Some((why, _)) = refused.into_iter().next() {
            return Some(why);
        }
        for own in &self.own {
            let opened = |rule: &&Applied| rule.at.starts_with(own) && rule.exact && rule.access == Access::Rw;
            if let Some(rule) = self.decisions.values().find(opened) {
                return Some(format!("{rule:?} would open {own:?}"));
            }
        }
        match self.class(&scene.cwd) {
            Class::Hidden | Class::Private => Some("the working directory cannot be seen".to_owned()),
            _ => None,
        }
    }

    /// The links through which rules came, and where they led.
    pub fn links(&self) -> &BTreeSet<(PathBuf, PathBuf)> {
        &self.links
    }

    /// What the command finds at `path`, by its spelling.
    pub fn class(&self, path: &Path) -> Class {
        let base = if path.starts_with("/dev") {
            (Class::Dev, "/dev")
        } else if path.starts_with("/proc") {
            (Class::Proc, "/proc")
        } else if path.starts_with("/run") {
            (Class::Private, "/run")
        } else if path.starts_with("/tmp") {
            (if self.tmp_of_host { Class::Rw } else { Class::Private }, "/tmp")
        } else {
            (Class::Ro, "/")
        };
        let decision = governing(&self.decisions, path).filter(|decision| decision.at.starts_with(base.1));
        let class = match decision.map(|decision| decision.access) {
            None => base.0,
            Some(Access::Rw) => Class::Rw,
            Some(Access::Ro) => Class::Ro,
            Some(Access::Exclude) => Class::Hidden,
        };
        let is_own = self.own.iter().any(|own| path.starts_with(own));
        if is_own && class == Class::Rw { Class::Ro } else { class }
    }

    /// Whether `path` belongs to an own file at or below which a glob said `rw`. It is read-only at least, and SPEC D6
    /// does not say more.
    pub fn is_at_least_ro(&self, path: &Path) -> bool {
        let struck = |rule: &Applied, own: &PathBuf| rule.at.starts_with(own) && rule.access == Access::Rw;
        let within = self.own.iter().filter(|own| path.starts_with(own));
        within.into_iter().any(|own| self.decisions.values().any(|rule| struck(rule, own)))
    }
}

fn components(pattern: &[u8]) -> impl Iterator<Item = &[u8]> {
    pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

fn unescaped(pattern: &[u8]) -> Vec<u8> {
    pattern.split(|byte| *byte == b'/').map(glob::unescaped).collect::<Vec<_>>().join(&b'/')
}

/// Without `..`, for a path that holds no symlinks.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = out.pop(),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
