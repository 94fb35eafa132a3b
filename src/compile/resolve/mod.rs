//! From rules to paths on this host. OWNS all reading of the file system for rules: no later stage
//! asks the host again.

mod create;
mod docker;
mod exact;
mod future_globs;
mod globs;
mod listing;
mod mounts;
mod pattern;
mod placeholders;
mod reserved;
mod runtime;
mod second_places;
mod sockets;
mod tracked;
mod unnamed_ancestors;
mod walk;
mod walk_snapshot;
mod written;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::compile::layers::{Layers, OwnFile, Project};
use crate::compile::placeholder::Placeholder;
use crate::compile::policy::Policy;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::journal;
use crate::host::session::Session;
use crate::host::{FileKind, Host, Resolved};
use crate::policy::origin::Origin;
use crate::policy::path::{AbsPath, shown};
use crate::policy::rule::{Exactness, IfMissing, Rule};

use mounts::Mounts;
pub(crate) use pattern::NamePattern;
use pattern::Pattern;
use walk::WalkPattern;
use written::anchored;

pub use create::NewFile;
pub use future_globs::{Matching, Patterns};
pub use mounts::AliasOf;
pub use placeholders::GitExclude;
pub(crate) use runtime::find as runtime;
pub use runtime::{Runtime, RuntimeMount};
pub use second_places::SecondPlace;
pub(crate) use tracked::TrackedFiles;
pub use unnamed_ancestors::Loose;
pub use walk_snapshot::Visited;
pub(crate) use written::{looks_like_pattern, named_like_pattern};

/// `PATH_MAX` of Linux. It also bounds what a pattern can cost.
const MAX_PATH_BYTES: usize = 4096;

/// A rule at a path that exists (or will, before the start).
#[derive(Clone, Debug)]
pub struct Match {
    pub rule: Arc<Rule>,
    pub path: AbsPath,
    pub kind: FileKind,
    pub exactness: Exactness,
    /// The path before the last symlink was followed: for a glob, the path that matched.
    pub matched: AbsPath,
    /// The symlinks between what was written and `path`.
    pub links: Vec<AbsPath>,
    /// The part of the rule before its first wildcard; the path itself for an exact rule (SPEC G3).
    pub fixed_prefix: AbsPath,
    /// How many names (hard links) a file has. Only known where the rule is protective.
    pub names: u64,
    /// The name that the rule reached, where `path` is another one of the same thing.
    pub alias_of: Option<AliasOf>,
    /// The part of the way to `path` that the rule does not name. Only a glob with `**` has one.
    pub loose: Option<Box<Loose>>,
}

impl Match {
    /// SPEC G5: a protective rule that came through a symlink may narrow the target, and never
    /// opens it, because any process that can write the link's folder chose the target.
    pub fn only_tightens(&self) -> bool {
        let is_doubtful = !self.links.is_empty() || self.rule.refinements.only_tightens;
        is_doubtful && self.rule.access.is_protective() && !self.rule.shows_socket
    }
}

/// The matches of the policy on this host, and everything else that the stages after this one need.
#[derive(Clone, Debug)]
pub struct Resolution {
    pub matches: Vec<Match>,
    /// Rules that apply to nothing here, and where they looked; for `--debug`.
    pub missing: Vec<(Arc<Rule>, AbsPath)>,
    /// Files that a preset's glob matched and left alone (SPEC P6); for `--debug`.
    pub left_alone: Vec<(Arc<Rule>, AbsPath)>,
    /// Directories to make before the start.
    pub create: Vec<AbsPath>,
    /// Files to make before the start.
    pub new_files: Vec<NewFile>,
    /// Files that appear inside once more.
    pub second_places: Vec<SecondPlace>,
    /// Our own files under other names.
    pub own_aliases: Vec<OwnFile>,
    /// Missing paths that rules block. Where a placeholder is needed is decided later.
    pub placeholders: Vec<Placeholder>,
    /// git's own exclude list, if there is a repository.
    pub git_exclude: Option<GitExclude>,
    /// Exact rules that apply to nothing. A file that appears there is reported after the run (SPEC
    /// R1).
    pub absent: Vec<(Arc<Rule>, AbsPath)>,
    /// Rules that block a path, and the symlink that leads from there to nothing.
    pub dangling: Vec<(Arc<Rule>, AbsPath)>,
    /// Our state folder, and whether it can be written: without a journal no placeholder.
    pub state: AbsPath,
    pub can_journal: bool,
    pub runtime: Runtime,
    /// The directories that the walk has read.
    pub visited: Visited,
    /// The globs, ready to walk once more.
    patterns: Arc<[WalkPattern]>,
    /// The mounts of the host, if something may have two names.
    mounts: Option<Arc<Mounts>>,
}

pub fn resolve(
    host: &Host,
    session: &Session,
    layers: &Layers,
    policy: &Policy,
    diagnostics: &mut Diagnostics,
) -> Resolution {
    let mut rules = policy.rules.clone();
    rules.extend(docker::rules(host, session, &layers.project, policy, diagnostics).into_iter().map(Arc::new));
    let standing = journal::standing(host, &layers.state);
    let found = Resolution::new(host, &layers.state);
    let listing = listing::ahead(host, &rules, &layers.project.home);
    let host = listing.as_ref().unwrap_or(host);
    let mut resolver = Resolver { host, session, project: &layers.project, diagnostics, standing, found };
    let mut patterns = Vec::new();
    for rule in &rules {
        if rule.if_missing == IfMissing::Create || resolver.is_wanted(rule) {
            resolver.plan_creation(rule);
        }
    }
    resolver.found.create.sort();
    resolver.found.create.dedup();
    for rule in rules.iter().filter(|rule| rule.if_missing == IfMissing::Block) {
        resolver.plan_placeholder(rule);
    }
    resolver.settle_placeholders();
    // Most rules name one path.
    resolver.found.matches.reserve(rules.len());
    for rule in &rules {
        resolver.rule(rule, &mut patterns);
    }
    let exact = globs::exact_winners(&resolver.found.matches);
    resolver.globs(&patterns.iter().collect::<Vec<_>>(), &exact, None);
    resolver.found.runtime = runtime::find(host, policy.network.value, resolver.diagnostics);
    resolver.sockets(session, policy);
    let mounts = resolver.mounts();
    if let Some(mounts) = &mounts {
        resolver.aliases(mounts, &layers.own_files);
    }
    resolver.find_git_exclude();
    Resolution { patterns: patterns.into(), mounts: mounts.map(Arc::new), ..resolver.found }
}

/// Matches of the globs of `full` in the directories `within`, which rules that `is_left_out` names
/// hid from the walk of `full`. `exact` are the matches of the other rules.
pub(crate) fn resolve_hidden(
    host: &Host,
    session: &Session,
    layers: &Layers,
    full: &Resolution,
    is_left_out: impl Fn(&Rule) -> bool,
    exact: &[Match],
    within: &[AbsPath],
) -> Vec<Match> {
    let patterns: Vec<&WalkPattern> = full.patterns.iter().filter(|pattern| !is_left_out(&pattern.rule)).collect();
    let diagnostics = &mut Diagnostics::default();
    // Only rules for one path ask where placeholders stand.
    let standing = Vec::new();
    let found = Resolution::new(host, &layers.state);
    let mut resolver = Resolver { host, session, project: &layers.project, diagnostics, standing, found };
    resolver.globs(&patterns, &globs::exact_winners(exact), Some(within));
    if let Some(mounts) = &full.mounts {
        resolver.aliases(mounts, &[]);
    }
    resolver.found.matches
}

impl Resolution {
    fn new(host: &Host, state: &AbsPath) -> Self {
        Self {
            own_aliases: Vec::new(),
            matches: Vec::new(),
            missing: Vec::new(),
            left_alone: Vec::new(),
            create: Vec::new(),
            new_files: Vec::new(),
            second_places: Vec::new(),
            placeholders: Vec::new(),
            git_exclude: None,
            absent: Vec::new(),
            dangling: Vec::new(),
            state: state.clone(),
            can_journal: host.can_create(&state.child(journal::RUNS).child("any")),
            runtime: Runtime::default(),
            visited: Visited::begin(),
            patterns: Arc::default(),
            mounts: None,
        }
    }

    /// The resolution without some rules, as far as decisions and plans need it. `is_left_out` and
    /// `is_of_left_out` name these rules and their origins.
    pub(crate) fn without(
        &self,
        is_left_out: impl Fn(&Rule) -> bool,
        is_of_left_out: impl Fn(&Origin) -> bool,
    ) -> Self {
        Self {
            matches: self.matches.iter().filter(|found| !is_left_out(&found.rule)).cloned().collect(),
            create: self.create.clone(),
            new_files: self.new_files.clone(),
            placeholders: self.placeholders.iter().filter(|it| !is_of_left_out(&it.origin)).cloned().collect(),
            second_places: self.second_places.iter().filter(|it| !is_of_left_out(&it.origin)).cloned().collect(),
            own_aliases: self.own_aliases.clone(),
            git_exclude: self.git_exclude.clone(),
            state: self.state.clone(),
            can_journal: self.can_journal,
            runtime: self.runtime.clone(),
            missing: Vec::new(),
            left_alone: Vec::new(),
            absent: Vec::new(),
            dangling: Vec::new(),
            visited: Visited::default(),
            patterns: Arc::default(),
            mounts: None,
        }
    }
}

struct Resolver<'a> {
    host: &'a Host,
    session: &'a Session,
    project: &'a Project,
    diagnostics: &'a mut Diagnostics,
    /// Placeholders of other runs, sorted: where one stands, nothing is.
    standing: Vec<AbsPath>,
    found: Resolution,
}

impl<'a> Resolver<'a> {
    /// Resolves an exact rule; a glob is only prepared, so that one walk can serve all of them.
    fn rule(&mut self, rule: &Arc<Rule>, patterns: &mut Vec<WalkPattern>) {
        // The parser has seen to it that no file says this; a flag can.
        if rule.text.is_empty() {
            let problem = Diagnostic::new(Code::InvalidPath, "the path is empty");
            self.diagnostics.push(problem.at(&rule.origin).help("write \".\" for the working directory"));
            return;
        }
        if rule.text.len() > MAX_PATH_BYTES {
            let problem = Diagnostic::new(Code::InvalidPath, format!("the path is longer than {MAX_PATH_BYTES} bytes"));
            self.diagnostics.push(problem.at(&rule.origin).help("no path of this system can be that long"));
            return;
        }
        let (anchor, text) = anchored(rule, &self.project.home);
        let parsed = pattern::parse(text);
        // Always apply the pattern as well: otherwise a command could disable the rule by creating
        // a file with that name.
        let literal = match &parsed {
            Ok(Pattern::Exact(Cow::Borrowed(_))) => None,
            _ => self.literal(anchor, text),
        };
        if rule.if_missing == IfMissing::Block {
            self.refuse_block(rule, matches!(parsed, Ok(Pattern::Globs(_))));
        }
        match parsed {
            Ok(Pattern::Exact(path)) => {
                let meant = self.follow(anchor, &path);
                let missing = meant.as_ref().is_ok_and(|meant| meant.kind.is_none());
                match meant {
                    Ok(meant) if literal.is_none() || !missing => self.exact(rule, meant),
                    Ok(_) => {}
                    Err(e) => self.unreadable(rule, &anchor.join(text), &e),
                }
                if let Some(literal) = literal {
                    self.exact(rule, literal);
                }
            }
            Ok(Pattern::Globs(globs)) => {
                if rule.if_missing == IfMissing::Create {
                    self.diagnostics.push(
                        Diagnostic::new(Code::InvalidValue, "`create` needs one path, and this is a pattern")
                            .at(&rule.origin)
                            .help("name the directory, or choose `skip` or `error`"),
                    );
                }
                for glob in globs {
                    match self.follow(anchor, &glob.prefix) {
                        Ok(prefix) => patterns.push(WalkPattern {
                            rule: Arc::clone(rule),
                            prefix: prefix.path,
                            links: prefix.links,
                            components: glob.components,
                            literal: literal.clone(),
                        }),
                        Err(e) => self.unreadable(rule, &anchor.join(&glob.prefix), &e),
                    }
                }
            }
            Err(problem) => match literal {
                // No pattern, but the name of a file.
                Some(literal) => self.exact(rule, literal),
                None => self.diagnostics.push(invalid_pattern(rule, &problem)),
            },
        }
    }

    /// Follows `path` from `anchor`. Most rules start at one of a few directories that are resolved
    /// already, so their components need no lookup for each rule.
    fn follow(&self, anchor: &AbsPath, path: &Path) -> io::Result<Resolved> {
        let Project { home, root, cwd, outermost, .. } = self.project;
        if [home, root, cwd, outermost].contains(&anchor) {
            self.host.resolve_from(anchor, path)
        } else {
            self.host.resolve(&anchor.as_path().join(path))
        }
    }

    /// A file whose very name is the text of a pattern, such as `app/[id]/page.tsx` (SPEC G4).
    fn literal(&self, anchor: &AbsPath, text: &OsStr) -> Option<Resolved> {
        if !pattern::has_metacharacter(text) {
            return None;
        }
        // An error here means that no such file can be named. The walk reports a glob that cannot
        // be expanded.
        self.follow(anchor, Path::new(text)).ok().filter(|resolved| resolved.kind.is_some())
    }

    fn unreadable(&mut self, rule: &Rule, path: &AbsPath, error: &io::Error) {
        let diagnostic = if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            Diagnostic::new(Code::SymlinkLoop, format!("the symlinks at `{path}` lead in a circle"))
                .help("repair or remove the links")
        } else {
            Diagnostic::new(Code::UnreadablePath, format!("cannot look into `{path}`: {}", reason(error)))
                .help("make it readable for you, or exclude the folder: what cannot be seen cannot be protected")
        };
        self.diagnostics.push(diagnostic.at(&rule.origin));
    }
}

fn invalid_pattern(rule: &Rule, problem: &str) -> Diagnostic {
    let message = format!("`{}` is not a valid pattern: {problem}", shown(&rule.text));
    let help = "`*`, `?`, `[…]`, `{a,b}` and `**` have a meaning; put `\\` before a character to take it as it is";
    Diagnostic::new(Code::InvalidPattern, message).at(&rule.origin).help(help)
}
