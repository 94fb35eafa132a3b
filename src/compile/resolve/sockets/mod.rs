//! Sockets of the host's services. A command that sees a socket can connect to it, through a
//! read-only mount and without a network, so all visible sockets are hidden unless the policy
//! allows them by name (SPEC W1, W2).

mod environment;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::compile::layers::Project;
use crate::compile::policy::Policy;
use crate::diagnostic::{Code, Diagnostic, listed, reason};
use crate::host::session::Session;
use crate::host::unix_sockets;
use crate::host::{FileKind, Host, Resolved};
use crate::policy::origin::Origin;
use crate::policy::path::{AbsPath, shown};
use crate::policy::places;
use crate::policy::rule::{Access, Exactness, LayerKind, Rule};
use crate::sys::ablate::{self, Mitigation};

use super::pattern::Component;
use super::walk::WalkPattern;
use super::{Match, Resolver};

const TABLE: &str = "/proc/net/unix";
const LISTENING: &str = "a service of this machine listens here";
const NAMED: &str = "the environment names this socket";
const RUNTIME_DIRECTORY: &str = "the sockets of the session are here (`XDG_RUNTIME_DIR`)";

/// Nothing of the host shows here, unless a rule opens it.
const PRIVATE: [&str; 4] = [places::RUN, places::TMP, places::DEV, places::PROC];

/// Start folders of relative names, besides the home and the project: programs are known to bind
/// such names here.
const WORKING_DIRECTORIES: [&str; 2] = ["/", "/var/spool/postfix"];

/// How many names one warning spells out.
const NAMES_IN_A_WARNING: usize = 5;

impl Match {
    /// Whether it hides a service. Those come and go.
    pub(crate) fn is_of_a_service(&self) -> bool {
        [LISTENING, NAMED].iter().any(|why| self.rule.origin == Origin::BuiltIn(why))
    }
}

impl Resolver<'_> {
    pub(super) fn sockets(&mut self, session: &Session, policy: &Policy) {
        let rules: Vec<Arc<Rule>> = policy.sockets.iter().cloned().map(Arc::new).collect();
        let mut patterns = Vec::new();
        for rule in &rules {
            self.rule(rule, &mut patterns);
        }
        self.sockets_named_like_patterns(&patterns);
        self.runtime_directory(session);
        let names = self.names_of_sockets(session);
        let sockets = Finder::new(self, &patterns).find(names);
        for (path, Cover { kind, why }) in sockets {
            // An entry allows sockets, and not a closed folder around one.
            let is_allowed =
                |pattern: &&WalkPattern| kind == FileKind::File && matches(&pattern.prefix, &pattern.components, &path);
            match patterns.iter().find(is_allowed) {
                Some(WalkPattern { rule, prefix, links, .. }) => {
                    self.socket(rule, path, Exactness::Glob, links.clone(), prefix.clone());
                }
                None => self.hide(path, kind, why),
            }
        }
    }

    /// Whether a socket is at `path`; an error is said.
    pub(super) fn is_socket(&mut self, rule: &Rule, path: &AbsPath) -> bool {
        self.host.is_socket(path).unwrap_or_else(|e| {
            self.unreadable(rule, path, &e);
            false
        })
    }

    /// SPEC G4, for sockets.
    fn sockets_named_like_patterns(&mut self, patterns: &[WalkPattern]) {
        for pattern in patterns {
            if let Some(Resolved { path, links, .. }) = pattern.literal.clone()
                && self.is_socket(&pattern.rule, &path)
            {
                self.socket(&pattern.rule, path.clone(), Exactness::Glob, links, path);
            }
        }
    }

    fn socket(
        &mut self,
        rule: &Arc<Rule>,
        path: AbsPath,
        exactness: Exactness,
        links: Vec<AbsPath>,
        fixed_prefix: AbsPath,
    ) {
        let (rule, matched, kind) = (rule.clone(), path.clone(), FileKind::File);
        self.accept(Match {
            rule,
            path,
            kind,
            exactness,
            matched,
            links,
            fixed_prefix,
            names: 1,
            alias_of: None,
            loose: None,
        });
    }

    /// The mask loses to every rule that names the path, and wins over every glob: a glob that
    /// happens to match a socket does not mean it.
    fn hide(&mut self, path: AbsPath, kind: FileKind, why: &'static str) {
        if ablate::is_off(Mitigation::SocketMasks) {
            return;
        }
        let names = match kind {
            // A socket that vanished in the meantime has at most one name.
            FileKind::File => self.host.names(&path).ok().flatten().unwrap_or(1),
            FileKind::Directory | FileKind::Device => 1,
        };
        self.found.matches.push(Match {
            loose: None,
            rule: Arc::new(Rule::exact(Access::Exclude, path.clone(), LayerKind::Base, Origin::BuiltIn(why))),
            kind,
            exactness: Exactness::Exact,
            matched: path.clone(),
            links: Vec::new(),
            fixed_prefix: path.clone(),
            path,
            names,
            alias_of: None,
        });
    }

    /// Hides `XDG_RUNTIME_DIR` if it lies outside of the private `/run`. It is full of sockets,
    /// also of services that start on demand.
    fn runtime_directory(&mut self, session: &Session) {
        let Some(written) = session.path_var("XDG_RUNTIME_DIR") else { return };
        match self.host.resolve(written.as_path()) {
            Ok(Resolved { path, kind: Some(FileKind::Directory), .. }) => {
                let project = self.project;
                let is_work = path.is_within(&project.root);
                // Do not hide a whole home: its sockets are hidden one by one.
                let is_around = [&project.home, &project.root, &project.cwd].iter().any(|at| at.is_within(&path));
                if !is_work && !is_around && self.shows(&path) {
                    self.hide(path, FileKind::Directory, RUNTIME_DIRECTORY);
                }
            }
            Ok(_) => {}
            Err(e) => {
                if let Some(folder) = self.hidden_instead_of(written.as_path(), &e) {
                    self.hide(folder, FileKind::Directory, RUNTIME_DIRECTORY);
                }
            }
        }
    }

    /// Every name under which a service may be reached, and how it is known.
    fn names_of_sockets(&mut self, session: &Session) -> BTreeMap<PathBuf, &'static str> {
        let mut names = BTreeMap::new();
        for path in environment::sockets(session) {
            names.insert(path, NAMED);
        }
        let table = match self.host.kernel_file(TABLE) {
            Ok(table) => table.unwrap_or_default(),
            Err(e) => {
                self.unreadable_socket(OsStr::new(TABLE), &e);
                return names;
            }
        };
        let mut unplaced = Vec::new();
        for name in unix_sockets::reachable(&table) {
            // `/proc/self` means another folder for each process.
            if name.is_absolute() && !name.starts_with(places::PROC) {
                names.insert(name, LISTENING);
                continue;
            }
            let places = self.places_of(&name);
            if places.is_empty() {
                unplaced.push(name);
            }
            names.extend(places.into_iter().map(|place| (place, LISTENING)));
        }
        self.warn_of_unplaced(unplaced);
        names
    }

    /// The paths at which a relative name may lead to a socket: in the project, the home, and a few
    /// known folders. A path that we may not look at counts as well.
    fn places_of(&self, name: &Path) -> Vec<PathBuf> {
        if name.is_absolute() {
            return Vec::new();
        }
        let Project { cwd, root, home, .. } = self.project;
        let known = WORKING_DIRECTORIES.map(places::at);
        let starts = [cwd, root, home].into_iter().chain(&known);
        let is_there = |path: &PathBuf| match self.host.resolve(path) {
            Ok(Resolved { path, kind: Some(FileKind::File), .. }) => self.host.is_socket(&path).unwrap_or(false),
            Ok(_) => false,
            Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
        };
        starts.map(|start| start.as_path().join(name)).filter(is_there).collect()
    }

    fn warn_of_unplaced(&mut self, mut names: Vec<PathBuf>) {
        names.sort();
        names.dedup();
        if names.is_empty() {
            return;
        }
        let spelled = names.iter().take(NAMES_IN_A_WARNING).map(|name| format!("`{}`", shown(name.as_os_str())));
        let more = names.len().saturating_sub(NAMES_IN_A_WARNING);
        let others = (more > 0).then(|| format!("{more} more"));
        self.diagnostics.push(
            Diagnostic::new(
                Code::UnplacedSocket,
                format!(
                    "services listen on names whose folder is not known, and may be reached: {}",
                    listed(spelled.chain(others), "and")
                ),
            )
            .help("start them with whole paths, or hide the folders of the sockets with `exclude`"),
        );
    }

    /// Whether the host shows at `path`, as far as no rule hides it.
    fn shows(&self, path: &AbsPath) -> bool {
        let Some(private) = PRIVATE.iter().find(|place| path.as_path().starts_with(place)) else { return true };
        let opens = |at: &AbsPath| at.as_path().starts_with(private) && path.is_within(at);
        let by_rule = self.found.matches.iter().any(|found| found.rule.access != Access::Exclude && opens(&found.path));
        by_rule || self.found.runtime.mounts.iter().any(|mount| mount.symlink.is_none() && opens(&mount.path))
    }

    /// EACCES below another user's folder: the command cannot reach the socket either, so skip it.
    /// The command could open a closed folder of our own, so hide that folder, unless a rule opens
    /// it. ELOOP leads to no service. Report every other error.
    fn hidden_instead_of(&mut self, name: &Path, error: &io::Error) -> Option<AbsPath> {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ACCESS) => {
                let folder = self.closed_by_us(name)?;
                if self.is_opened(&folder) {
                    self.unreadable_socket(name.as_os_str(), error);
                    return None;
                }
                Some(folder)
            }
            Some(Errno::LOOP) => None,
            _ => {
                self.unreadable_socket(name.as_os_str(), error);
                None
            }
        }
    }

    /// The folder that keeps us from looking at `name`, if it is ours.
    fn closed_by_us(&self, name: &Path) -> Option<AbsPath> {
        let folder = self.host.refused_by(name)?;
        let is_ours = self.host.owner(&folder).is_ok_and(|owner| owner == self.session.uid);
        (is_ours && !folder.is_within(&self.project.root) && self.shows(&folder)).then_some(folder)
    }

    /// Whether a rule has the last word on a folder, and lets the command open it.
    fn is_opened(&self, folder: &AbsPath) -> bool {
        self.found.matches.iter().any(|found| found.path == *folder && found.rule.access == Access::Rw)
    }

    fn unreadable_socket(&mut self, name: &OsStr, error: &io::Error) {
        self.diagnostics.push(
            Diagnostic::new(
                Code::UnreadablePath,
                format!("cannot look for sockets at `{}`: {}", shown(name), reason(error)),
            )
            .help("make it readable: a socket that is not seen cannot be hidden"),
        );
    }
}

/// How a service is hidden, and why.
struct Cover {
    /// Of a socket, or of a folder that is closed around one.
    kind: FileKind,
    why: &'static str,
}

/// Looks at the names, and at nothing twice: hundreds of sockets lie in a few folders.
struct Finder<'f, 'r, 'p> {
    resolver: &'f mut Resolver<'r>,
    patterns: &'p [WalkPattern],
    folders: BTreeMap<PathBuf, Option<AbsPath>>,
}

impl<'f, 'r, 'p> Finder<'f, 'r, 'p> {
    fn new(resolver: &'f mut Resolver<'r>, patterns: &'p [WalkPattern]) -> Self {
        Self { resolver, patterns, folders: BTreeMap::new() }
    }

    /// The sockets outside of the project that would be visible or that a pattern may allow. For a
    /// socket in a closed folder of our own, that folder.
    fn find(mut self, names: BTreeMap<PathBuf, &'static str>) -> BTreeMap<AbsPath, Cover> {
        let mut found = BTreeMap::new();
        for (name, why) in names {
            match self.socket(&name) {
                Ok(Some(path)) => {
                    found.entry(path).or_insert(Cover { kind: FileKind::File, why });
                }
                Ok(None) => {}
                Err(e) => {
                    if let Some(folder) = self.resolver.hidden_instead_of(&name, &e) {
                        found.entry(folder).or_insert(Cover { kind: FileKind::Directory, why });
                    }
                }
            }
        }
        found
    }

    fn socket(&mut self, name: &Path) -> io::Result<Option<AbsPath>> {
        let (Some(folder), Some(file)) = (name.parent(), name.file_name()) else { return Ok(None) };
        let Some(folder) = self.folder(folder)? else { return Ok(None) };
        let may_matter = |path: &AbsPath| {
            self.resolver.shows(path) || self.patterns.iter().any(|pattern| path.is_within(&pattern.prefix))
        };
        if !may_matter(&folder.child(file)) {
            return Ok(None);
        }
        let host: &Host = self.resolver.host;
        let Resolved { path, kind, .. } = host.resolve_from(&folder, Path::new(file))?;
        let is_outside = !path.is_within(&self.resolver.project.root);
        Ok((is_outside && kind == Some(FileKind::File) && may_matter(&path) && host.is_socket(&path)?).then_some(path))
    }

    fn folder(&mut self, folder: &Path) -> io::Result<Option<AbsPath>> {
        if let Some(known) = self.folders.get(folder) {
            return Ok(known.clone());
        }
        let resolved = self.resolver.host.resolve(folder);
        let path = resolved.map(|found| (found.kind == Some(FileKind::Directory)).then_some(found.path));
        // An error is said for the first socket there, if at all.
        self.folders.insert(folder.to_owned(), path.as_ref().ok().cloned().flatten());
        path
    }
}

/// Whether a pattern matches the whole of `path`. Tracks all states at once, so the time is bounded
/// for every pattern.
pub(super) fn matches(prefix: &AbsPath, components: &[Component], path: &AbsPath) -> bool {
    let Some(below) = path.relative_to(prefix) else { return false };
    let end = components.len();
    let mut states = vec![false; end + 1];
    states[0] = true;
    for name in below.iter() {
        let mut next = vec![false; end + 1];
        for (at, component) in components.iter().enumerate() {
            let is_deep = matches!(component, Component::AnyDepth);
            if states[at] && is_deep {
                next[at] = true;
                // `**` also matches no directory at all; as the last component it matches every
                // name.
                if at + 1 < end {
                    states[at + 1] = true;
                }
            }
            if states[at] && (!is_deep || at + 1 == end) && component.matches(name) {
                next[at + 1] = true;
            }
        }
        states = next;
    }
    states[end]
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{self, Pattern};
    use super::*;

    fn allowed(text: &str, path: &str) -> bool {
        let Ok(Pattern::Globs(globs)) = pattern::parse(OsStr::new(text)) else { return false };
        let path = AbsPath::root().join(path);
        globs.into_iter().any(|glob| matches(&AbsPath::root().join(&glob.prefix), &glob.components, &path))
    }

    #[test]
    fn a_pattern_matches_whole_paths_of_sockets() {
        for (pattern, path) in [
            ("/a/*.sock", "/a/b.sock"),
            ("/a/**", "/a/b"),
            ("/a/**", "/a/b/c"),
            ("/a/**/s", "/a/s"),
            ("/a/**/s", "/a/b/c/s"),
            ("/a/**/b/**/s", "/a/b/b/s"),
            ("/{a,b}/s?", "/b/s1"),
        ] {
            assert!(allowed(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/a/*", "/a/b/c"),
            ("/a/*", "/a"),
            ("/a/**", "/a"),
            ("/a/**", "/b/c"),
            ("/a/**/s", "/a/s/t"),
            ("/a/*/s", "/a/s"),
        ] {
            assert!(!allowed(pattern, path), "{pattern} {path}");
        }
        assert!(!allowed(&"/**/a".repeat(500), &"/a".repeat(50)), "and not slowly");
    }
}
