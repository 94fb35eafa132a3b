//! From rules to paths on this host. OWNS all reading of the file system for rules: after this stage, nothing asks the
//! host again.

mod also_at;
mod create;
mod docker;
mod globs;
mod later;
mod listing;
mod loose;
mod mounts;
mod pattern;
mod placeholders;
mod reserved;
mod runtime;
mod sockets;
mod tracked;
mod visited;
mod walk;

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host, Resolved};
use crate::journal;
use crate::layers::{Layers, OwnFile, Project};
use crate::path::{AbsPath, shown};
use crate::placeholder::Placeholder;
use crate::presets::Policy;
use crate::rule::{Exactness, IfMissing, LayerKind, Rule};
use crate::session::Session;

pub(crate) use pattern::NamePattern;
use pattern::Pattern;
use walk::WalkPattern;

pub use also_at::SecondPlace;
pub use create::NewFile;
pub use later::{Matching, Patterns};
pub use loose::Loose;
pub use mounts::AliasOf;
pub use placeholders::GitExclude;
pub use runtime::{Runtime, RuntimeMount};
pub(crate) use tracked::TrackedFiles;
pub use visited::Visited;

/// `PATH_MAX` of Linux. It also bounds what a pattern can cost.
const MAX_PATH_BYTES: usize = 4096;

/// A rule at a path that exists (or will, before the start).
#[derive(Clone, Debug)]
pub struct Match {
    pub rule: Arc<Rule>,
    pub path: AbsPath,
    pub kind: FileKind,
    pub exactness: Exactness,
    /// What the rule named before the last symlink was followed: what a pattern matched.
    pub matched: AbsPath,
    /// The symlinks between what was written and `path`.
    pub links: Vec<AbsPath>,
    /// What the rule names before its first wildcard; the path itself for an exact rule (SPEC G3).
    pub fixed_prefix: AbsPath,
    /// How many names (hard links) a file has. Only known where the rule is protective.
    pub names: u64,
    /// The name that the rule reached, where `path` is another one of the same thing.
    pub alias_of: Option<AliasOf>,
    /// What of the way to `path` the rule does not name; `None` for all but a glob with `**`.
    pub loose: Option<Box<Loose>>,
}

impl Match {
    /// SPEC G5: a protective rule that came through a symlink may narrow what the link leads to, and never opens it: whoever
    /// can write the link's folder chose the target.
    pub fn only_tightens(&self) -> bool {
        let is_doubtful = !self.links.is_empty() || self.rule.refinements.only_tightens;
        is_doubtful && self.rule.access.is_protective() && !self.rule.shows_socket
    }
}

/// What the policy comes to on this host.
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
    /// What git leaves alone, if there is a repository.
    pub git_exclude: Option<GitExclude>,
    /// Exact rules that apply to nothing: what comes to stand there is reported after the run (SPEC R1).
    pub absent: Vec<(Arc<Rule>, AbsPath)>,
    /// Rules that block a path, and the symlink that leads from there to nothing.
    pub dangling: Vec<(Arc<Rule>, AbsPath)>,
    /// Our state folder, and whether it can be written: without a journal no placeholder.
    pub state: AbsPath,
    pub can_journal: bool,
    pub runtime: Runtime,
    /// What was walked through for patterns.
    pub visited: Visited,
}

pub fn resolve(
    host: &Host,
    session: &Session,
    layers: &Layers,
    policy: &Policy,
    diagnostics: &mut Diagnostics,
) -> Resolution {
    resolve_within(host, session, layers, policy, None, diagnostics)
}

/// The same, but patterns find only what lies in the directories `within`, or on the way to one.
pub(crate) fn resolve_within(
    host: &Host,
    session: &Session,
    layers: &Layers,
    policy: &Policy,
    within: Option<&[AbsPath]>,
    diagnostics: &mut Diagnostics,
) -> Resolution {
    let mut rules = policy.rules.clone();
    rules.extend(docker::rules(host, session, &layers.project, policy, diagnostics).into_iter().map(Arc::new));
    let standing = journal::standing(host, &layers.state);
    let found = Resolution::new(host, &layers.state);
    let listing = listing::ahead(host, &rules, &layers.project.home);
    let host = listing.as_ref().unwrap_or(host);
    let mut resolver = Resolver { host, session, project: &layers.project, within, diagnostics, standing, found };
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
    resolver.globs(&patterns);
    resolver.found.runtime = runtime::find(host, policy.network.value, resolver.diagnostics);
    resolver.sockets(session, policy);
    resolver.aliases(&layers.own_files);
    resolver.find_git_exclude();
    resolver.found
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
        }
    }
}

struct Resolver<'a> {
    host: &'a Host,
    session: &'a Session,
    project: &'a Project,
    within: Option<&'a [AbsPath]>,
    diagnostics: &'a mut Diagnostics,
    /// Placeholders of other runs, sorted: where one stands, nothing is.
    standing: Vec<AbsPath>,
    found: Resolution,
}

impl<'a> Resolver<'a> {
    /// Resolves an exact rule; a glob is only prepared, so that one walk can serve all of them.
    fn rule<'r>(&mut self, rule: &'r Arc<Rule>, patterns: &mut Vec<WalkPattern<'r>>) {
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
        // Never the literal alone: whoever can create a file of that name would take the rule away from what it means.
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
                            rule,
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

    /// Where `path` leads from `anchor`. Most rules start at one of a few directories that are resolved already; their
    /// components need not be asked for again by each of some hundred rules.
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
        // An error here means no such file can be named; a glob that cannot be expanded is reported by the walk.
        self.follow(anchor, Path::new(text)).ok().filter(|resolved| resolved.kind.is_some())
    }

    /// Notes what will be created, before any rule is resolved: it counts as there for all of them, as it will in the next
    /// run. What stands in the way is said when the rule's turn comes.
    fn plan_creation(&mut self, rule: &Rule) {
        let (anchor, text) = anchored(rule, &self.project.home);
        let Ok(Pattern::Exact(path)) = pattern::parse(text) else { return };
        let Ok(resolved) = self.follow(anchor, &path) else { return };
        if resolved.kind.is_none() && resolved.links.is_empty() && self.may_create(rule, &resolved.path) {
            self.warn_if_literal(rule, "is created under that name");
            match &rule.refinements.content {
                None => self.found.create.push(resolved.path),
                Some(content) => self.found.new_files.push(NewFile { path: resolved.path, content: content.clone() }),
            }
        }
    }

    /// Whether `path` is a directory that has to be made, or lies above one. What lies below a path follows it in order.
    fn will_be_made(&self, path: &AbsPath) -> bool {
        let from = self.found.create.partition_point(|created| created < path);
        self.found.create.get(from).is_some_and(|created| created.is_within(path))
    }

    /// Where we cannot create what a preset names, neither can the command, which runs with our rights.
    fn may_create(&self, rule: &Rule, path: &AbsPath) -> bool {
        rule.layer != LayerKind::Preset || self.host.can_create(path)
    }

    fn exact(&mut self, rule: &Arc<Rule>, resolved: Resolved) {
        let Resolved { path, links, kind, names } = resolved;
        let directory_will_be_made = || self.will_be_made(&path);
        let file_will_be_made = || self.found.new_files.iter().any(|file| file.path == path);
        let placeholders = &self.found.placeholders;
        let blocked = || placeholders.binary_search_by(|other| other.path.cmp(&path)).ok().map(|at| &placeholders[at]);
        let there = kind.filter(|_| !self.stands(&path));
        let kind = there
            .or_else(|| directory_will_be_made().then_some(FileKind::Directory))
            .or_else(|| file_will_be_made().then_some(FileKind::File))
            .or_else(|| blocked().map(|placeholder| placeholder.kind));
        // Only what is missing is blocked.
        if there.is_none() && (kind.is_none() || blocked().is_some()) {
            self.found.absent.push((rule.clone(), path.clone()));
        }
        let kind = match (kind, rule.if_missing) {
            (Some(kind), _) => kind,
            (None, IfMissing::Skip) => {
                self.missing(rule, path);
                return;
            }
            (None, IfMissing::Error) => {
                self.diagnostics.push(missing_path(rule));
                return;
            }
            (None, IfMissing::Create) if !links.is_empty() => {
                self.diagnostics.push(
                    Diagnostic::new(
                        Code::MissingPath,
                        format!(
                            "`{}` leads through the symlink `{}` to nothing",
                            shown(&rule.text),
                            links[links.len() - 1]
                        ),
                    )
                    .at(&rule.origin)
                    .help("a directory is not created through a symlink; create its target, or name the target"),
                );
                return;
            }
            (None, IfMissing::Block) => {
                if let Some(link) = links.last() {
                    self.found.dangling.push((rule.clone(), link.clone()));
                }
                self.missing(rule, path);
                return;
            }
            (None, IfMissing::Create) => {
                self.found.missing.push((rule.clone(), path));
                return;
            }
        };
        if rule.shows_socket && kind == FileKind::Directory {
            let message = format!("`{}` is a folder, and no socket, so nothing is shown", shown(&rule.text));
            let help = "name the socket in it, or write a pattern for several, such as `/run/service/*.sock`";
            self.diagnostics.push(Diagnostic::new(Code::UnusedRule, message).at(&rule.origin).help(help));
        }
        if rule.shows_socket && !self.is_socket(rule, &path) {
            self.found.missing.push((rule.clone(), path));
            return;
        }
        if let Some(also_at) = &rule.refinements.also_at {
            self.find_second_place(rule, also_at, &path, kind);
        }
        let fixed_prefix = path.clone();
        let exactness = if rule.layer == LayerKind::Base { Exactness::Base } else { Exactness::Exact };
        let (rule, matched) = (rule.clone(), path.clone());
        self.accept(Match {
            rule,
            matched,
            path,
            kind,
            exactness,
            links,
            fixed_prefix,
            names,
            alias_of: None,
            loose: None,
        });
    }

    /// A rule that applies to nothing here. Where somebody meant a variable or a home, it never will.
    fn missing(&mut self, rule: &Arc<Rule>, path: AbsPath) {
        self.warn_if_literal(rule, if rule.access.is_protective() { "protects nothing" } else { "opens nothing" });
        self.found.missing.push((rule.clone(), path));
    }

    fn warn_if_literal(&mut self, rule: &Rule, so: &str) {
        let text = rule.text.as_bytes();
        let home_inside = |text: &[u8]| text.windows(3).any(|part| matches!(part, [b'{' | b',', b'~', b'/']));
        let literal = matches!(text, [b'$', ..] | [b'~', 0..=b'.' | b'0'.., ..]) || home_inside(text);
        if literal && !rule.shows_socket && rule.layer > LayerKind::Preset {
            let written = shown(&rule.text);
            self.diagnostics.push(
                Diagnostic::new(Code::LiteralPath, format!("`{written}` is taken as it is written, and {so}"))
                    .at(&rule.origin)
                    .help("variables and `~name` are not expanded; write `~/…` at the start, or the whole path"),
            );
        }
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

fn missing_path(rule: &Rule) -> Diagnostic {
    let written = shown(&rule.text);
    let (what, help) = if pattern::has_metacharacter(&rule.text) {
        ("matches nothing", "correct the pattern, or choose `if-missing = \"skip\"`")
    } else if rule.access.is_protective() {
        ("does not exist", "create it, or choose `if-missing = \"skip\"`, `\"create\"` or `\"block\"`")
    } else {
        ("does not exist", "create it, or choose `if-missing = \"skip\"` or `\"create\"`")
    };
    Diagnostic::new(Code::MissingPath, format!("`{written}` {what}")).at(&rule.origin).help(help)
}

/// Where the text starts from, and the text without `~`.
fn anchored<'t>(rule: &'t Rule, home: &'t AbsPath) -> (&'t AbsPath, &'t OsStr) {
    match rule.text.as_bytes() {
        b"~" => (home, OsStr::new(".")),
        [b'~', b'/', rest @ ..] => (home, OsStr::from_bytes(trim_slashes(rest))),
        _ => (&rule.base, &rule.text),
    }
}

/// Whether the text of a rule is a pattern by its looks.
pub(crate) fn looks_like_pattern(text: &OsStr) -> bool {
    pattern::has_metacharacter(text)
}

/// What exists under the very text of a pattern, or under the first components of it, up to the first that has a wildcard:
/// `app/[id]` for `app/[id]/**`. With how many bytes of the text name it.
pub(crate) fn named_like_pattern(host: &Host, home: &AbsPath, rule: &Rule) -> Option<(AbsPath, usize)> {
    let (anchor, text) = anchored(rule, home);
    let bytes = text.as_bytes();
    // Escapes are how one says that a name is meant.
    if !pattern::has_metacharacter(text) || bytes.contains(&b'\\') {
        return None;
    }
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let has_wildcard = |end: &usize| pattern::has_metacharacter(OsStr::from_bytes(&bytes[..*end]));
    let first = slashes.into_iter().find(has_wildcard);
    [bytes.len()].into_iter().chain(first).find_map(|end| {
        let found = host.resolve(&anchor.as_path().join(OsStr::from_bytes(&bytes[..end]))).ok()?;
        found.kind.map(|_| (found.path, rule.text.len() - (bytes.len() - end)))
    })
}

/// `~//x` must not become the absolute path `/x`.
fn trim_slashes(mut rest: &[u8]) -> &[u8] {
    while let [b'/', tail @ ..] = rest {
        rest = tail;
    }
    rest
}
