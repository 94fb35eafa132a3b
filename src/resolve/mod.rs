//! From rules to paths on this host. OWNS all reading of the file system for rules: after this stage, nothing asks the
//! host again.

mod docker;
mod pattern;
mod runtime;
mod tracked;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host, Resolved};
use crate::layers::{Layers, Project};
use crate::path::{AbsPath, shown};
use crate::presets::Policy;
use crate::rule::{Access, Exactness, IfMissing, LayerKind, Precedence, Rule};
use crate::session::Session;

use pattern::Pattern;
use tracked::TrackedFiles;
use walk::{ExactWinners, Hit, WalkPattern, Walked};

pub use runtime::{Runtime, RuntimeMount};

/// A rule at a path that exists (or will, before the start).
#[derive(Clone, Debug)]
pub struct Match {
    pub rule: Arc<Rule>,
    pub path: AbsPath,
    pub kind: FileKind,
    pub exactness: Exactness,
    /// The symlinks between what was written and `path`. For a glob the first is what the pattern matched.
    pub links: Vec<AbsPath>,
    /// What the rule names before its first wildcard; the path itself for an exact rule (SPEC G3).
    pub fixed_prefix: AbsPath,
}

/// What the policy comes to on this host.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    pub matches: Vec<Match>,
    /// Rules that apply to nothing here, and where they looked; for `--debug`.
    pub missing: Vec<(Arc<Rule>, AbsPath)>,
    /// Files that a preset's glob matched and left alone (SPEC P6); for `--debug`.
    pub left_alone: Vec<(Arc<Rule>, AbsPath)>,
    /// Directories to make before the start.
    pub create: Vec<AbsPath>,
    /// Our own files: at least read-only.
    pub own_files: Vec<(AbsPath, FileKind)>,
    pub runtime: Runtime,
}

pub fn resolve(
    host: &Host,
    session: &Session,
    layers: &Layers,
    policy: &Policy,
    diagnostics: &mut Diagnostics,
) -> Resolution {
    let mut rules: Vec<Arc<Rule>> = policy.rules.iter().cloned().map(Arc::new).collect();
    rules.extend(docker::rules(host, session, &layers.project, policy, diagnostics).into_iter().map(Arc::new));
    let mut resolver = Resolver { host, project: &layers.project, diagnostics, found: Resolution::default() };
    let mut patterns = Vec::new();
    for rule in &rules {
        resolver.rule(rule, &mut patterns);
    }
    resolver.globs(&patterns);
    resolver.own_files(&layers.own_files);
    let mut found = resolver.found;
    found.runtime = runtime::find(host, policy.network.value, diagnostics);
    found.create.sort();
    found.create.dedup();
    found
}

struct Resolver<'a> {
    host: &'a Host,
    project: &'a Project,
    diagnostics: &'a mut Diagnostics,
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
        let (anchor, text) = anchored(rule, &self.project.home);
        let literal = self.literal(anchor, text);
        if let Some(resolved) = literal.clone() {
            self.exact(rule, resolved);
        }
        match pattern::parse(text) {
            Ok(Pattern::Exact(path)) if literal.is_none() => match self.host.resolve(&anchor.as_path().join(path)) {
                Ok(resolved) => self.exact(rule, resolved),
                Err(e) => self.unreadable(rule, &anchor.join(text), &e),
            },
            Ok(Pattern::Globs(globs)) => {
                if rule.if_missing == IfMissing::Create {
                    self.diagnostics.push(
                        Diagnostic::new(Code::InvalidValue, "`create` needs one path, and this is a pattern")
                            .at(&rule.origin)
                            .help("name the directory, or choose `skip` or `error`"),
                    );
                }
                for glob in globs {
                    match self.host.resolve(&anchor.as_path().join(&glob.prefix)) {
                        Ok(prefix) => {
                            patterns.push(WalkPattern {
                                rule,
                                prefix: prefix.path,
                                components: glob.components,
                                literal: literal.as_ref().map(|literal| literal.path.clone()),
                            });
                        }
                        Err(e) => self.unreadable(rule, &anchor.join(&glob.prefix), &e),
                    }
                }
            }
            // A file with that very name exists, and nothing else was meant.
            Ok(Pattern::Exact(_)) => {}
            Err(_) if literal.is_some() => {}
            Err(problem) => self.diagnostics.push(
                Diagnostic::new(
                    Code::InvalidPattern,
                    format!("`{}` is not a valid pattern: {problem}", shown(&rule.text)),
                )
                .at(&rule.origin)
                .help(
                    "`*`, `?`, `[…]`, `{a,b}` and `**` have a meaning; put `\\` before a character to take it as it is",
                ),
            ),
        }
    }

    /// A file whose very name is the text of a pattern, such as `app/[id]/page.tsx` (SPEC G4).
    fn literal(&self, anchor: &AbsPath, text: &OsStr) -> Option<Resolved> {
        if !pattern::has_metacharacter(text) {
            return None;
        }
        // An error here means no such file can be named; a glob that cannot be expanded is reported by the walk.
        self.host.resolve(&anchor.as_path().join(text)).ok().filter(|resolved| resolved.kind.is_some())
    }

    fn exact(&mut self, rule: &Arc<Rule>, resolved: Resolved) {
        let Resolved { path, links, kind } = resolved;
        let kind = match (kind, rule.if_missing) {
            (Some(kind), _) => kind,
            (None, IfMissing::Skip) => {
                self.found.missing.push((rule.clone(), path));
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
            // Where we may not create it, neither may the command, which runs with our rights.
            (None, IfMissing::Create) if rule.layer == LayerKind::Preset && !self.host.can_create(&path) => {
                self.found.missing.push((rule.clone(), path));
                return;
            }
            (None, IfMissing::Create) => {
                self.found.create.push(path.clone());
                FileKind::Directory
            }
        };
        let fixed_prefix = path.clone();
        self.accept(Match { rule: rule.clone(), path, kind, exactness: Exactness::Exact, links, fixed_prefix });
    }

    fn globs(&mut self, patterns: &[WalkPattern]) {
        let mut winners: BTreeMap<AbsPath, Precedence> = BTreeMap::new();
        for found in &self.found.matches {
            let precedence = found.rule.precedence(found.exactness);
            let winner = winners.entry(found.path.clone()).or_insert(precedence);
            *winner = precedence.max(*winner);
        }
        let walked = self.walk(patterns, &ExactWinners(winners));
        for failure in &walked.unreadable {
            let pattern = &patterns[failure.pattern];
            // What an `rw` glob cannot look into it cannot open: nothing is lost.
            if pattern.rule.access.is_protective() {
                self.unreadable(pattern.rule, &failure.path, &failure.error);
            }
        }
        let mut tracked = TrackedFiles::new(self.host);
        let mut matched = vec![false; patterns.len()];
        for hit in walked.hits {
            let pattern = &patterns[hit.pattern];
            matched[hit.pattern] = true;
            self.warn_if_ambiguous(pattern, &hit);
            if pattern.rule.refinements.leave_tracked && hit.kind == FileKind::File && tracked.holds(&hit.path) {
                self.found.left_alone.push((pattern.rule.clone(), hit.path));
            } else {
                self.hit(pattern, hit);
            }
        }
        for (pattern, matched) in patterns.iter().zip(matched) {
            if !matched && pattern.literal.is_none() {
                self.found.missing.push((pattern.rule.clone(), pattern.prefix.clone()));
            }
        }
        self.require_matches(patterns);
    }

    /// Walks until no glob that lands on a directory through a link opens one that the walk left out as excluded. Such
    /// links are rare; without them one walk is all.
    fn walk(&self, patterns: &[WalkPattern], exact: &ExactWinners) -> Walked {
        let mut opened = BTreeSet::new();
        loop {
            let walked = walk::walk(self.host, patterns, exact, &opened);
            let links =
                walked.hits.iter().filter(|hit| hit.is_symlink && patterns[hit.pattern].rule.access == Access::Ro);
            let targets = links.filter_map(|hit| self.host.resolve(hit.path.as_path()).ok());
            let before = opened.len();
            opened.extend(targets.filter(|target| target.kind == Some(FileKind::Directory)).map(|target| target.path));
            if opened.len() == before {
                return walked;
            }
        }
    }

    /// `if-missing = "error"` on a glob: at least one of its alternatives must have matched.
    fn require_matches(&mut self, patterns: &[WalkPattern]) {
        for pattern in patterns.iter().filter(|pattern| pattern.rule.if_missing == IfMissing::Error) {
            if !self.found.matches.iter().any(|found| Arc::ptr_eq(&found.rule, pattern.rule)) {
                self.diagnostics.push(missing_path(pattern.rule));
            }
        }
    }

    fn hit(&mut self, pattern: &WalkPattern, hit: Hit) {
        let rule = pattern.rule;
        let (path, kind, links) = if !hit.is_symlink {
            (hit.path, hit.kind, Vec::new())
        } else if rule.access == Access::Rw {
            // Whoever can write the folder chooses where the link leads (SPEC G5).
            self.found.missing.push((rule.clone(), hit.path));
            return;
        } else {
            match self.host.resolve(hit.path.as_path()) {
                Ok(Resolved { path, links, kind: Some(kind) }) => (path, kind, links),
                Ok(_) => {
                    self.found.missing.push((rule.clone(), hit.path));
                    return;
                }
                Err(e) => return self.unreadable(rule, &hit.path, &e),
            }
        };
        if let Some(link) = links.first()
            && (self.project.home.is_within(&path) || self.project.cwd.is_within(&path))
        {
            self.diagnostics.push(
                Diagnostic::new(
                    Code::BroadSymlink,
                    format!("`{}` matches the symlink `{link}`, which leads to `{path}`", shown(&rule.text)),
                )
                .at(&rule.origin)
                .help(format!(
                    "remove the link, or write a pattern that it does not match: `{}` would apply to all of `{path}`",
                    rule.access
                )),
            );
            return;
        }
        self.accept(Match {
            rule: rule.clone(),
            path,
            kind,
            exactness: Exactness::Glob,
            links,
            fixed_prefix: pattern.prefix.clone(),
        });
    }

    fn warn_if_ambiguous(&mut self, pattern: &WalkPattern, hit: &Hit) {
        if pattern.literal.as_ref().is_some_and(|literal| *literal != hit.path) {
            let text = shown(&pattern.rule.text);
            self.diagnostics.push(
                Diagnostic::new(
                    Code::AmbiguousPattern,
                    format!("`{text}` is the name of a file, and as a pattern it matches others too"),
                )
                .at(&pattern.rule.origin)
                .help("both are covered; to mean the file alone, put `\\` before each of `* ? [ ] { }`"),
            );
        }
    }

    /// Records a match, unless its path is one that no rule may name (SPEC D4).
    fn accept(&mut self, found: Match) {
        let refused = if let Some((why, help)) = reserved(&found.path, found.rule.access) {
            Some(Diagnostic::new(Code::ReservedPath, format!("`{}` {why}", found.path)).help(help))
        } else if found.kind == FileKind::Device && found.rule.access == Access::Ro {
            Some(
                Diagnostic::new(
                    Code::ReadOnlyDevice,
                    format!("`{}` is a device, and no mount makes a device read-only", found.path),
                )
                .help("use `rw` to grant it or `exclude` to hide it"),
            )
        } else {
            None
        };
        match refused {
            Some(diagnostic) => self.diagnostics.push(diagnostic.at(&found.rule.origin)),
            None => self.found.matches.push(found),
        }
    }

    fn own_files(&mut self, own: &[AbsPath]) {
        for path in own {
            match self.host.kind(path) {
                Ok(Some(kind)) => self.found.own_files.push((path.clone(), kind)),
                Ok(None) => {}
                Err(e) => self.diagnostics.push(Diagnostic::new(
                    Code::UnreadablePath,
                    format!("cannot determine what `{path}` is: {}", reason(&e)),
                )),
            }
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

fn missing_path(rule: &Rule) -> Diagnostic {
    let written = shown(&rule.text);
    let (what, help) = if pattern::has_metacharacter(&rule.text) {
        ("matches nothing", "correct the pattern, or choose `if-missing = \"skip\"`")
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

/// `~//x` must not become the absolute path `/x`.
fn trim_slashes(mut rest: &[u8]) -> &[u8] {
    while let [b'/', tail @ ..] = rest {
        rest = tail;
    }
    rest
}

/// Why no rule of this access may name `path`, and what to do instead.
fn reserved(path: &AbsPath, access: Access) -> Option<(&'static str, &'static str)> {
    let is = |top: &str| path.as_path() == Path::new(top);
    let within = |top: &str| path.as_path().starts_with(top);
    if path.is_root() && access != Access::Ro {
        Some(("is the whole file system", "name the folders that you mean"))
    } else if within("/proc") {
        Some(("belongs to the sandbox, which has its own `/proc`", "remove the rule"))
    } else if is("/dev") || (within("/dev") && access != Access::Rw) {
        Some(("belongs to the sandbox, which has its own `/dev`", "grant a single device with `rw = [\"/dev/NAME\"]`"))
    } else if is("/run") || within("/run/agent-sandbox") {
        Some(("belongs to the sandbox, which has its own `/run`", "name the folder below `/run` that you mean"))
    } else {
        None
    }
}
