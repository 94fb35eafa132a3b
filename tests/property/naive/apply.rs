//! The paths of this tree at which each rule applies (SPEC section 4).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::glob;
use super::layers::{Layer, Rule};
use crate::scene::{Access, HOME, Missing, Scene, Stage};

/// A rule at a path of the tree.
#[derive(Clone, Debug)]
pub struct Applied {
    pub exact: bool,
    pub layer: Layer,
    pub access: Access,
    pub at: PathBuf,
    /// The matched path: `at`, or a link that leads to `at`.
    pub matched: PathBuf,
    /// The components before the first wildcard.
    pub prefix: PathBuf,
    /// All symlinks on the way to `at`.
    pub links: Vec<PathBuf>,
    /// Whether this is the private home or the minimal base, not a rule that a user wrote.
    pub own_place: bool,
    /// The components of the pattern from the first wildcard on, if `at` itself matches the
    /// pattern.
    pub pattern: Option<Vec<Vec<u8>>>,
}

impl Applied {
    /// A rule of the base, which every other rule beats.
    pub fn base(access: Access, at: PathBuf, own_place: bool) -> Self {
        let (exact, layer, links, pattern) = (false, Layer::Base, Vec::new(), None);
        Self { exact, layer, access, matched: at.clone(), prefix: at.clone(), at, links, own_place, pattern }
    }

    /// The precedence by SPEC D1. The greatest wins.
    pub fn strength(&self) -> (bool, Layer, Access) {
        (self.exact, self.layer, self.access)
    }

    /// Whether the rule lets `directory` be moved (SPEC B13): a `**` matches this parent of `at`,
    /// and `root` is at or below the folder in which the `**` starts.
    pub fn leaves_free(&self, directory: &Path, root: &Path) -> bool {
        let Some(pattern) = &self.pattern else { return false };
        let pattern: Vec<&[u8]> = pattern.iter().map(Vec::as_slice).collect();
        let Some(first) = pattern.iter().position(|part| *part == b"**") else { return false };
        let names = |above: &Path| self.at.strip_prefix(above).unwrap().iter().map(OsStrExt::as_bytes);
        let start: PathBuf = names(&self.prefix).take(first).map(OsStr::from_bytes).collect();
        let below: Vec<&[u8]> = names(directory).collect();
        root.starts_with(self.prefix.join(start)) && glob::matches_path(&pattern[first..], &below)
    }

    /// Whether the rule is a `ro` of a preset, which protects a path but shows none (SPEC P12).
    pub fn is_preset_ro(&self) -> bool {
        self.layer == Layer::Preset && self.access == Access::Ro
    }

    /// Whether the rule may only restrict, because it came through a link (SPEC G5).
    pub fn only_tightens(&self) -> bool {
        !self.links.is_empty() && self.access != Access::Rw
    }
}

/// The target of a path. `exists` says whether the target exists.
#[derive(Clone)]
pub struct Followed {
    pub path: PathBuf,
    pub exists: bool,
    pub links: Vec<PathBuf>,
}

/// Follows the links in a path, one component after the other (SPEC G5). `Err` if they form a
/// circle.
pub fn follow(stage: &Stage, path: &Path) -> Result<Followed, ()> {
    let names = |path: &Path| -> Vec<OsString> {
        let named = path.components().filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir));
        named.map(|c| c.as_os_str().to_owned()).collect()
    };
    let mut at = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = names(path).into();
    let mut links = Vec::new();
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        if let Ok(target) = fs::read_link(stage.real(&at)) {
            if links.len() == 40 {
                return Err(());
            }
            links.push(at.clone());
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
    Ok(Followed { path: at, exists, links })
}

pub struct Applying<'a> {
    scene: &'a Scene,
    stage: &'a Stage,
    paths: Vec<(PathBuf, fs::FileType)>,
    /// Directories that are created before the start, so they exist for other rules.
    created: Vec<PathBuf>,
    /// The paths that may get a placeholder.
    pub blocked: Vec<PathBuf>,
    /// Links through which nothing is blocked.
    pub dangling: Vec<PathBuf>,
    pub applied: Vec<Applied>,
    /// For each rule that must apply to a path, its range in `applied`.
    pub required: Vec<Range<usize>>,
    /// The reasons to refuse the policy. If a glob matched a link, with the link and the fixed
    /// part.
    pub refused: Vec<(String, Option<(PathBuf, PathBuf)>)>,
}

impl<'a> Applying<'a> {
    pub fn all(scene: &'a Scene, stage: &'a Stage, rules: &[Rule]) -> Self {
        let paths = stage.paths();
        let (created, applied, required, refused) = Default::default();
        let (blocked, dangling) = Default::default();
        let mut applying = Self { scene, stage, paths, created, blocked, dangling, applied, required, refused };
        let (create, rest): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(|rule| rule.missing == Missing::Create);
        create.into_iter().for_each(|rule| applying.rule(rule));
        // A blocked path exists for all other rules. So a first pass finds these paths, and its
        // other results are dropped.
        let (applied, refused) = (applying.applied.clone(), applying.refused.clone());
        rest.iter().filter(|rule| rule.missing == Missing::Block).for_each(|rule| applying.rule(rule));
        (applying.applied, applying.refused, applying.dangling) = (applied, refused, Vec::new());
        rest.into_iter().for_each(|rule| applying.rule(rule));
        applying.blocked.sort_by_key(|path| path.components().count());
        applying
    }

    fn rule(&mut self, rule: &Rule) {
        if rule.missing == Missing::Block && rule.access == Access::Rw {
            self.refuse("what is blocked is not opened");
        }
        let before = self.applied.len();
        let (base, text) = match rule.text.as_slice() {
            b"~" => (Path::new(HOME), b".".as_slice()),
            [b'~', b'/', rest @ ..] => (Path::new(HOME), rest),
            text => (rule.base.as_path(), text),
        };
        let has_meaning = text.iter().any(|byte| b"*?[]{}\\".contains(byte));
        let literal = follow(self.stage, &base.join(OsStr::from_bytes(text))).ok();
        let literal = literal.filter(|found| found.exists && has_meaning);
        let patterns = glob::alternatives(text).filter(|patterns| {
            patterns.iter().flat_map(|pattern| components(pattern)).all(|part| !glob::is_malformed(part))
        });
        match (patterns, literal) {
            (Some(patterns), literal) if patterns.len() == 1 && !components(&patterns[0]).any(glob::is_wild) => {
                let text = patterns[0].split(|byte| *byte == b'/').map(glob::unescaped).collect::<Vec<_>>();
                self.exact(rule, &base.join(OsStr::from_bytes(&text.join(&b'/'))), literal.is_none());
                if let Some(found) = literal {
                    self.apply(rule, found.path.clone(), found, None, None);
                }
            }
            (Some(patterns), literal) => {
                if rule.missing == Missing::Create {
                    self.refuse("`create` needs one path");
                }
                if rule.missing == Missing::Block {
                    self.refuse("`block` needs one path");
                }
                patterns.iter().for_each(|pattern| self.glob(rule, base, pattern, literal.as_ref(), before));
            }
            (None, Some(found)) => self.apply(rule, found.path.clone(), found, None, None),
            (None, None) => self.refuse("not a pattern"),
        }
        if rule.missing == Missing::Error {
            if self.applied.len() == before {
                self.refuse("a rule that must apply does not");
            }
            self.required.push(before..self.applied.len());
        }
    }

    fn exact(&mut self, rule: &Rule, path: &Path, may_create: bool) {
        let Ok(found) = follow(self.stage, path) else { return self.refuse("a circle of symlinks") };
        let will_be = self.created.iter().any(|created| created.starts_with(&found.path));
        let is_missing = !found.exists && !will_be;
        if rule.missing == Missing::Block && rule.access != Access::Rw && is_missing && may_create {
            match found.links.last() {
                Some(link) => self.dangling.push(link.clone()),
                None if self.can_be_made(&found.path) => self.blocked.push(found.path.clone()),
                None => {}
            }
        }
        let will_be = will_be || self.blocked.contains(&found.path);
        if found.exists || will_be {
            self.apply(rule, found.path.clone(), found, None, None);
        } else if rule.missing == Missing::Create && may_create {
            if found.links.is_empty() {
                self.created.push(found.path.clone());
                self.apply(rule, found.path.clone(), found, None, None);
            } else {
                self.refuse("nothing is created through a symlink");
            }
        }
    }

    /// Whether the nearest existing parent of the path is a directory.
    fn can_be_made(&self, path: &Path) -> bool {
        let there = path.ancestors().skip(1).find_map(|above| fs::symlink_metadata(self.stage.real(above)).ok());
        there.is_some_and(|there| there.is_dir())
    }

    /// Applies one alternative of a pattern. `literal` is the file whose name is the whole text
    /// (SPEC G4), and `before` the number of applied rules before this rule.
    fn glob(&mut self, rule: &Rule, base: &Path, pattern: &[u8], literal: Option<&Followed>, before: usize) {
        let mut fixed: Vec<&[u8]> = components(pattern).take_while(|part| !glob::is_wild(part)).collect();
        let mut wild: Vec<&[u8]> = components(pattern).skip(fixed.len()).collect();
        if wild.is_empty() {
            wild.extend(fixed.pop());
        }
        let mut prefix = PathBuf::from(if pattern.starts_with(b"/") { "/" } else { "" });
        prefix.extend(fixed.iter().map(|part| OsString::from(OsStr::from_bytes(&glob::unescaped(part)))));
        let Ok(prefix) = follow(self.stage, &base.join(prefix)) else { return self.refuse("a circle of symlinks") };
        let matches = |path: &Path| {
            let names =
                path.strip_prefix(&prefix.path).ok().map(|p| p.iter().map(OsStrExt::as_bytes).collect::<Vec<_>>());
            names.is_some_and(|names| glob::matches_path(&wild, &names))
                && !rule.except.iter().any(|name| path.file_name() == Some(OsStr::new(name)))
        };
        // A path below a directory that matches (SPEC G2) or that is skipped (SPEC P5) is no match.
        let is_passed = |path: &Path| {
            let skipped = |above: &Path| rule.skips.iter().any(|name| above.file_name() == Some(OsStr::new(name)));
            let between = path.ancestors().skip(1).take_while(|p| p.starts_with(&prefix.path) && *p != prefix.path);
            between.into_iter().any(|above| matches(above) || skipped(above))
        };
        let found: Vec<PathBuf> =
            self.paths.iter().map(|(p, _)| p).filter(|p| matches(p) && !is_passed(p)).cloned().collect();
        for path in found {
            self.matched(rule, path, &prefix, &wild);
        }
        if let Some(literal) = literal {
            let matched = literal.links.first().unwrap_or(&literal.path).clone();
            let is_known = self.applied[before..].iter().any(|other| other.matched == matched);
            if !is_known {
                self.landed(rule, matched, &prefix, literal.clone(), None);
            }
        }
    }

    fn matched(&mut self, rule: &Rule, matched: PathBuf, prefix: &Followed, wild: &[&[u8]]) {
        if rule.access == Access::Rw && fs::symlink_metadata(self.stage.real(&matched)).unwrap().is_symlink() {
            return;
        }
        match follow(self.stage, &matched) {
            Err(()) => self.refused.push(("a circle of symlinks".to_owned(), Some((matched, prefix.path.clone())))),
            Ok(found) if found.exists => {
                let pattern = found.links.is_empty().then(|| wild.iter().map(|part| part.to_vec()).collect());
                self.landed(rule, matched, prefix, found, pattern);
            }
            Ok(_) => {}
        }
    }

    fn landed(
        &mut self,
        rule: &Rule,
        matched: PathBuf,
        prefix: &Followed,
        found: Followed,
        pattern: Option<Vec<Vec<u8>>>,
    ) {
        let Followed { path: at, links, .. } = found;
        if rule.access == Access::Rw && !links.is_empty() {
            return;
        }
        let too_broad = Path::new(HOME).starts_with(&at) || self.scene.cwd.starts_with(&at);
        if too_broad && !links.is_empty() {
            return self.refused.push(("a link to too much".to_owned(), Some((matched, prefix.path.clone()))));
        }
        let links = [prefix.links.clone(), links].concat();
        self.apply(rule, matched, Followed { path: at, exists: true, links }, Some(&prefix.path), pattern);
    }

    fn apply(
        &mut self,
        rule: &Rule,
        matched: PathBuf,
        found: Followed,
        prefix: Option<&Path>,
        pattern: Option<Vec<Vec<u8>>>,
    ) {
        let at = found.path;
        let is = |top: &str| at == Path::new(top);
        let reserved = match rule.access {
            Access::Ro | Access::Exclude if at.starts_with("/dev") => true,
            Access::Rw | Access::Exclude if is("/") => true,
            _ => at.starts_with("/proc") || is("/dev") || is("/run") || at.starts_with("/run/agent-sandbox"),
        };
        if reserved {
            return self.refuse("a place of the sandbox itself");
        }
        let (exact, prefix) = (prefix.is_none(), prefix.unwrap_or(&at).to_path_buf());
        let Rule { layer, access, .. } = *rule;
        let (links, own_place) = (found.links, false);
        self.applied.push(Applied { exact, layer, access, at, matched, prefix, links, own_place, pattern });
    }

    fn refuse(&mut self, why: &str) {
        self.refused.push((why.to_owned(), None));
    }
}

fn components(pattern: &[u8]) -> impl Iterator<Item = &[u8]> {
    pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}
