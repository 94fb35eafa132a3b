//! Finds the paths on this host that rules apply to. This stage alone reads the file system for
//! rules: no later stage reads it again.

mod docker;
mod exact;
mod future_globs;
mod globs;
mod injections;
mod links;
mod links_in_folders;
mod mounts;
mod pattern;
mod placeholders;
mod preset_variables;
mod redacted;
mod runtime;
mod second_places;
pub(crate) mod sockets;
mod tracked;
mod unnamed_ancestors;
mod walk;
mod walk_snapshot;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use foldhash::HashMap;

use crate::compile::layers::{Layers, OwnFile, Project};
use crate::compile::placeholder::Placeholder;
use crate::compile::policy::Policy;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{AliasOf, FileKind, Host, Resolved, Session, journal};
use crate::policy::{AbsPath, Access, Exactness, IfMissing, Mask, Origin, PathMap, Rule, escape_for_display, places};

use pattern::{MAX_PATTERN_BYTES, Pattern};
pub(crate) use pattern::{NamePattern, has_metacharacter as looks_like_pattern};
use walk::WalkPattern;

pub use future_globs::{FutureGlobs, FutureMatch};
pub use injections::MissingTarget;
pub use links::ShownLink;
pub use placeholders::{GitExclude, NewFile};
pub use preset_variables::PresetVariable;
pub(crate) use preset_variables::find as preset_variables;
pub(crate) use runtime::find as runtime;
pub use runtime::{Runtime, RuntimeMount};
pub use second_places::SecondPlace;
pub(crate) use tracked::TrackedFiles;
pub use unnamed_ancestors::UnnamedAncestors;
pub use walk_snapshot::WalkSnapshot;

/// A rule at a path that exists (or will, before the start).
#[derive(Clone, Debug)]
pub struct Match {
    pub rule: Arc<Rule>,
    pub path: AbsPath,
    pub kind: FileKind,
    pub exactness: Exactness,
    /// The path before the last symlink was followed: for a glob, the path that matched.
    pub matched: AbsPath,
    /// The symlinks between the written path and `path`.
    pub links: Vec<AbsPath>,
    /// The part of the rule before its first wildcard; the path itself for an exact rule (SPEC G3).
    pub fixed_prefix: AbsPath,
    /// The number of hard links of a file. Only known if the rule is protective.
    pub names: u64,
    /// The path that the rule reached, if `path` is another name of the same file.
    pub alias_of: Option<AliasOf>,
    /// The directories on the way to `path` that the rule does not name. Only a glob with `**` has
    /// any.
    pub unnamed: Option<Box<UnnamedAncestors>>,
    /// The text that the command reads at `path` instead of the host's file (SPEC P16).
    pub copy: Option<Arc<[u8]>>,
}

impl Match {
    /// A match of a rule that leads to `path` without symlinks.
    pub(crate) fn new(rule: Arc<Rule>, path: AbsPath, kind: FileKind, exactness: Exactness) -> Self {
        let (matched, fixed_prefix) = (path.clone(), path.clone());
        let (links, alias_of, unnamed, copy) = (Vec::new(), None, None, None);
        Self { rule, path, kind, exactness, matched, links, fixed_prefix, names: 1, alias_of, unnamed, copy }
    }

    /// SPEC G5: a protective rule that came through a symlink may narrow the target, and never
    /// opens it, because any process that can write the link's folder chose the target.
    pub fn only_tightens(&self) -> bool {
        let is_doubtful = !self.links.is_empty() || self.rule.refinements.only_tightens;
        is_doubtful && self.rule.access.is_protective() && !self.rule.shows_socket && self.rule.injected.is_none()
    }
}

/// The matches of the policy on this host, and everything else that the stages after this one need.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    pub matches: Vec<Match>,
    /// Rules that apply to nothing here, and the paths that they name; for `--debug`.
    pub missing: Vec<(Arc<Rule>, AbsPath)>,
    /// Files that a preset's glob matched and left alone (SPEC P6); for `--debug`.
    pub left_alone: Vec<(Arc<Rule>, AbsPath)>,
    /// Files that a preset hides because they differ from git's version (SPEC P6).
    pub tracked_and_changed: Vec<AbsPath>,
    /// Files that a rule would show without credentials, and that hold none (SPEC P16).
    pub without_credentials: Vec<Match>,
    /// Files of which no copy can be made, and why (SPEC P16).
    pub without_copy: Vec<(AbsPath, String)>,
    /// Directories to create before the start.
    pub create: Vec<AbsPath>,
    /// Files to create before the start.
    pub new_files: Vec<NewFile>,
    pub second_places: Vec<SecondPlace>,
    /// Symlinks on the way to paths that rules show. A private place may cover these symlinks.
    pub links: Vec<ShownLink>,
    /// Our own files under other names.
    pub own_aliases: Vec<OwnFile>,
    /// The folders of copies and reports under other names, each with its own name in the state
    /// folder.
    pub record_aliases: Vec<(&'static str, AbsPath)>,
    /// Missing paths that rules block. A later stage decides which of them need a placeholder.
    pub placeholders: Vec<Placeholder>,
    /// git's lists of ignored files: that of the project's repository, and those of nested
    /// repositories with an injected path.
    pub git_excludes: Vec<GitExclude>,
    /// Injections whose target does not exist. A later stage decides which need a placeholder.
    pub missing_targets: Vec<MissingTarget>,
    /// This run creates no placeholders.
    pub puts_nothing_up: bool,
    /// Exact rules whose path is missing, with that path. A file that appears there is reported
    /// after the run (SPEC R1).
    pub absent: Vec<(Arc<Rule>, AbsPath)>,
    /// Rules whose path leads through a dangling symlink, with that symlink. They block the path
    /// or protect a repository.
    pub dangling: Vec<(Arc<Rule>, AbsPath)>,
    /// Whether a journal can be written in our state folder. Placeholders need one.
    pub can_journal: bool,
    pub runtime: Runtime,
    pub walk_snapshot: WalkSnapshot,
    /// The globs, kept for another walk.
    patterns: Arc<[WalkPattern]>,
}

impl Resolution {
    /// The files at which a rule is private, whichever rule wins there. No run replaces a
    /// placeholder, so missing paths do not count.
    pub(super) fn private_paths(&self) -> Vec<AbsPath> {
        let is_missing = |path: &AbsPath| self.placeholders.binary_search_by(|other| other.path.cmp(path)).is_ok();
        let private = self.matches.iter().filter(|found| found.rule.private.is_some() && !is_missing(&found.path));
        let mut paths: Vec<AbsPath> = private.map(|found| found.path.clone()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Drops git's lists that need a placeholder, and notes that no injection gets one.
    pub(super) fn put_nothing_up(&mut self) {
        self.git_excludes.retain(|list| list.placeholder.is_none());
        self.puts_nothing_up = true;
    }

    /// Makes private files read-only.
    pub(super) fn without_private(&mut self) {
        for found in self.matches.iter_mut().filter(|found| found.rule.private.is_some()) {
            Arc::make_mut(&mut found.rule).private = None;
        }
    }
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
    let standing = journal::placeholder_paths(host, &layers.state);
    let found = Resolution::new(host, &layers.state);
    let blocked = HashMap::default();
    let mut resolver = Resolver { host, session, project: &layers.project, diagnostics, standing, blocked, found };
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
    for rule in &rules {
        resolver.rule(rule, &mut patterns);
    }
    let exact = globs::exact_winners(&resolver.found.matches);
    resolver.globs(&patterns.iter().collect::<Vec<_>>(), &exact, None);
    resolver.found.runtime = runtime::find(host, policy.network.value, resolver.diagnostics);
    resolver.sockets(policy);
    resolver.aliases();
    resolver.own_aliases(layers);
    resolver.links_to_shown();
    let git_exclude = resolver.git_exclude();
    resolver.found.git_excludes.extend(git_exclude);
    resolver.injections(policy, &layers.own_files);
    Resolution { patterns: patterns.into(), ..resolver.found }
}

/// The matches of the globs of `full` in the directories `within`. The rules that `is_left_out`
/// names hid these directories from the walk of `full`. `exact` are the matches of the other
/// rules.
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
    // Only exact rules need the list of placeholders.
    let standing = Vec::new();
    let found = Resolution::new(host, &layers.state);
    let blocked = HashMap::default();
    let mut resolver = Resolver { host, session, project: &layers.project, diagnostics, standing, blocked, found };
    resolver.globs(&patterns, &globs::exact_winners(exact), Some(within));
    resolver.aliases();
    resolver.found.matches
}

impl Resolution {
    fn new(host: &Host, state: &AbsPath) -> Self {
        let can_journal = host.can_create(&state.child(journal::RUNS).child("any"));
        Self { walk_snapshot: WalkSnapshot::begin(), can_journal, ..Self::default() }
    }

    /// The paths that the read-only globs of presets match now, and did not match when they were
    /// resolved. Globs with `**`, and globs in git directories, are left out, because their walk
    /// takes long.
    pub(crate) fn new_matches(&self, host: &Host) -> Vec<(Arc<Rule>, AbsPath)> {
        let is_of_preset = |rule: &Rule| {
            let is_found = matches!(&rule.origin, Origin::Preset { path, .. } if path.starts_with('$'));
            rule.is_preset_ro() && !is_found && !rule.text.as_bytes().windows(2).any(|part| part == b"**")
        };
        let patterns: Vec<&WalkPattern> = self.patterns.iter().filter(|pattern| is_of_preset(&pattern.rule)).collect();
        let known = self.matches.iter().map(|found| &found.matched);
        let known: BTreeSet<&AbsPath> = known.chain(self.missing.iter().map(|(_, path)| path)).collect();
        let hits = walk::walk(host, &patterns, &PathMap::default(), None).hits.into_iter();
        let new = hits.filter(|hit| !known.contains(&hit.path));
        new.map(|hit| (Arc::clone(&patterns[hit.pattern].rule), hit.path)).collect()
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
            links: self.links.clone(),
            own_aliases: self.own_aliases.clone(),
            record_aliases: self.record_aliases.clone(),
            git_excludes: self.git_excludes.clone(),
            missing_targets: self.missing_targets.clone(),
            runtime: self.runtime.clone(),
            can_journal: self.can_journal,
            ..Self::default()
        }
    }
}

struct Resolver<'a> {
    host: &'a Host,
    session: &'a Session,
    project: &'a Project,
    diagnostics: &'a mut Diagnostics,
    /// Placeholders of other runs, sorted. Such a path counts as missing.
    standing: Vec<AbsPath>,
    /// The paths of `found.placeholders`.
    blocked: HashMap<AbsPath, FileKind>,
    found: Resolution,
}

impl<'a> Resolver<'a> {
    /// Resolves an exact rule; a glob is only prepared, so that one walk can serve all of them.
    fn rule(&mut self, rule: &Arc<Rule>, patterns: &mut Vec<WalkPattern>) {
        // The parser refuses an empty path in a file, but a flag can contain one.
        if rule.text.is_empty() {
            return self.report(rule, Code::InvalidPath, "the path is empty", "write \".\" for the working directory");
        }
        if rule.text.len() > MAX_PATTERN_BYTES {
            let message = format!("the path is longer than {MAX_PATTERN_BYTES} bytes");
            return self.report(rule, Code::InvalidPath, message, "write a shorter path");
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
                match self.host.resolve_from(anchor, &path) {
                    Ok(meant) if meant.kind.is_none() && literal.is_some() => {}
                    Ok(meant) => self.exact(rule, meant),
                    // The command cannot reach this path either, so nothing has to be shown.
                    Err(_) if rule.refinements.only_shows => {}
                    Err(e) => self.unreadable(rule, &anchor.join(text), &e),
                }
                if let Some(literal) = literal {
                    self.exact(rule, literal);
                }
            }
            Ok(Pattern::Globs(globs)) => {
                if rule.if_missing == IfMissing::Create {
                    let message = "`create` needs one path, and this is a pattern";
                    self.report(rule, Code::InvalidValue, message, "name the directory, or choose `skip` or `error`");
                }
                for glob in globs {
                    match self.host.resolve_from(anchor, &glob.prefix) {
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
                Some(literal) => self.exact(rule, literal),
                None => {
                    let message = format!("`{}` is not a valid pattern: {problem}", escape_for_display(&rule.text));
                    let help = "put `\\` before a character to take it as it is: `*`, `?`, `[…]`, `{a,b}` and `**` \
                                have a meaning";
                    self.report(rule, Code::InvalidPattern, message, help);
                }
            },
        }
    }

    /// The target of a rule that is no pattern.
    fn exact_target(&self, rule: &Rule) -> Option<Resolved> {
        let (anchor, text) = anchored(rule, &self.project.home);
        let Ok(Pattern::Exact(path)) = pattern::parse(text) else { return None };
        self.host.resolve_from(anchor, &path).ok()
    }

    /// A file whose name is the text of a pattern, such as `app/[id]/page.tsx` (SPEC G4).
    fn literal(&self, anchor: &AbsPath, text: &OsStr) -> Option<Resolved> {
        if !pattern::has_metacharacter(text) {
            return None;
        }
        // On an error the file counts as missing. The walk reports a glob that cannot be expanded.
        self.host.resolve_from(anchor, Path::new(text)).ok().filter(|resolved| resolved.kind.is_some())
    }

    /// Records a match, unless no rule may name its path (SPEC D4).
    fn accept(&mut self, found: Match) {
        let Match { rule, path, kind, .. } = &found;
        let is_own_root = path.is_root() && rule.refinements.mask == Mask::OwnPlace;
        if let Some((why, help)) = reserved(path, rule.access).filter(|_| !is_own_root) {
            self.report(rule, Code::ReservedPath, format!("`{path}` {why}"), help);
        } else if *kind == FileKind::Device && rule.access == Access::Ro {
            let message = format!("`{path}` is a device, and no mount makes a device read-only");
            self.report(rule, Code::ReadOnlyDevice, message, "use `rw` to grant it or `exclude` to hide it");
        } else if let Mask::Redacted(file) = rule.refinements.mask {
            self.accept_redacted(found, file);
        } else {
            self.links_in(&found);
            self.found.matches.push(found);
        }
    }

    fn unreadable(&mut self, rule: &Rule, path: &AbsPath, error: &io::Error) {
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            let message = format!("the symlinks at `{path}` lead in a circle");
            self.report(rule, Code::SymlinkLoop, message, "repair or remove the links");
        } else if error.raw_os_error() == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()) {
            let message = format!("folders in `{path}` are nested too deep to be searched");
            self.report(rule, Code::UnreadablePath, message, "remove them, or exclude that folder");
        } else {
            let message = format!("cannot search `{path}`: {}", reason(error));
            let within = path.relative_to(&self.project.root).filter(|within| !within.as_os_str().is_empty());
            let entry = within.and_then(Path::to_str).filter(|within| is_plain(within));
            let exclude =
                entry.map_or("exclude the folder".to_owned(), |entry| format!("write `exclude = [\"{entry}\"]`"));
            let help = format!(
                "make it readable for you, or {exclude}: agent-sandbox protects only paths that it can \
                                read"
            );
            self.report(rule, Code::UnreadablePath, message, help);
        }
    }

    fn report(&mut self, rule: &Rule, code: Code, message: impl Into<String>, help: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(code, message).at(&rule.origin).help(help));
    }
}

/// Whether the text, in quotes, is a rule for exactly this path: it has no special characters.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || "/._- ".contains(c))
}

/// The reason why no rule of this access may name `path`, and the remedy.
fn reserved(path: &AbsPath, access: Access) -> Option<(&'static str, &'static str)> {
    let is = |top: &str| path.as_os_str() == top;
    let within = |top: &str| path.lies_in(top.as_ref());
    if path.is_root() && access != Access::Ro {
        Some(("is the whole file system", "name the folders that you mean"))
    } else if within(places::PROC) {
        Some(("belongs to the sandbox, which has its own `/proc`", "remove the rule"))
    } else if is(places::DEV) || (within(places::DEV) && access != Access::Rw) {
        Some(("belongs to the sandbox, which has its own `/dev`", "grant a single device with `rw = [\"/dev/NAME\"]`"))
    } else if is(places::RUN) || within(places::OURS) {
        Some(("belongs to the sandbox, which has its own `/run`", "name the folder below `/run` that you mean"))
    } else {
        None
    }
}

/// The directory that the text starts from, and the text without `~`.
fn anchored<'t>(rule: &'t Rule, home: &'t AbsPath) -> (&'t AbsPath, &'t OsStr) {
    match rule.text.as_bytes() {
        b"~" => (home, OsStr::new(".")),
        [b'~', b'/', rest @ ..] => {
            // `~//x` must not become the absolute path `/x`.
            let start = rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len());
            (home, OsStr::from_bytes(&rest[start..]))
        }
        _ => (&rule.base, &rule.text),
    }
}

/// A file whose name is the text of a pattern, or the first components of the text up to the first
/// component with a wildcard: `app/[id]` for `app/[id]/**`. Also returns how many bytes of the text
/// name it.
pub(crate) fn named_like_pattern(host: &Host, home: &AbsPath, rule: &Rule) -> Option<(AbsPath, usize)> {
    let (anchor, text) = anchored(rule, home);
    let bytes = text.as_bytes();
    // A text with escapes already says that a name is meant.
    if !pattern::has_metacharacter(text) || bytes.contains(&b'\\') {
        return None;
    }
    let has_wildcard =
        |end: &usize| bytes[*end] == b'/' && pattern::has_metacharacter(OsStr::from_bytes(&bytes[..*end]));
    let first = (0..bytes.len()).find(has_wildcard);
    [bytes.len()].into_iter().chain(first).find_map(|end| {
        let found = host.resolve(&anchor.as_path().join(OsStr::from_bytes(&bytes[..end]))).ok()?;
        found.kind.map(|_| (found.path, rule.text.len() - (bytes.len() - end)))
    })
}
