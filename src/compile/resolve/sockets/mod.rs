//! Sockets of the host's services. A command that sees a socket can connect to it, through a
//! read-only mount and without a network, so all visible sockets are hidden unless the policy
//! allows them by name (SPEC W1, W2).

mod environment;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::compile::layers::Project;
use crate::compile::policy::Policy;
use crate::diagnostic::{Code, Diagnostic, listed, reason};
use crate::host::{FileKind, Resolved, is_of_the_sandbox, unix_sockets};
use crate::policy::{AbsPath, Access, Exactness, LayerKind, Origin, Rule, escape_for_display, places};
use crate::sys::ablate::{self, Mitigation};

use super::mounts::PRIVATE;
use super::walk::WalkPattern;
use super::{Match, Resolver, pattern};

const TABLE: &str = "/proc/net/unix";
const LISTENING: &str = "a service of this machine listens here";
const NAMED: &str = "the environment names this socket";
const RUNTIME_DIRECTORY: &str = "the sockets of the session are here (`XDG_RUNTIME_DIR`)";

/// Working directories in which programs are known to bind relative names, besides the home and the
/// project.
const WORKING_DIRECTORIES: [&str; 2] = ["/", "/var/spool/postfix"];

const NAMES_IN_A_WARNING: usize = 5;

impl Match {
    /// Whether this match hides the socket of a service.
    pub(crate) fn is_of_a_service(&self) -> bool {
        is_of_a_service(&self.rule.origin)
    }
}

/// Whether a rule with this origin hides the socket of a service.
pub(crate) fn is_of_a_service(origin: &Origin) -> bool {
    [LISTENING, NAMED].iter().any(|why| *origin == Origin::BuiltIn(why))
}

impl Resolver<'_> {
    pub(super) fn sockets(&mut self, policy: &Policy) {
        let mut patterns = Vec::new();
        for rule in &policy.sockets {
            self.rule(&Arc::new(rule.clone()), &mut patterns);
        }
        for pattern in &patterns {
            // A socket that has the text of the pattern as its name (SPEC G4).
            if let Some(Resolved { path, links, .. }) = pattern.literal.clone()
                && self.is_socket(&pattern.rule, &path)
            {
                self.show(pattern, path.clone(), links, path);
            }
        }
        self.runtime_directory();
        for (path, (kind, why)) in self.find_sockets(&patterns) {
            // An entry allows sockets. It does not allow an inaccessible directory that is hidden
            // instead of a socket.
            let is_allowed = |pattern: &&WalkPattern| {
                let names = path.relative_to(&pattern.prefix).filter(|_| kind == FileKind::File);
                names.is_some_and(|names| pattern::matches_path(&pattern.components, names))
            };
            match patterns.iter().find(is_allowed) {
                Some(pattern) => self.show(pattern, path.clone(), pattern.links.clone(), pattern.prefix.clone()),
                None => self.hide(path, kind, why),
            }
        }
    }

    /// Whether a socket is at `path`. Reports an error.
    pub(super) fn is_socket(&mut self, rule: &Rule, path: &AbsPath) -> bool {
        self.host.is_socket(path).unwrap_or_else(|e| {
            self.unreadable(rule, path, &e);
            false
        })
    }

    fn show(&mut self, pattern: &WalkPattern, path: AbsPath, links: Vec<AbsPath>, fixed_prefix: AbsPath) {
        let found = Match::new(pattern.rule.clone(), path, FileKind::File, Exactness::Glob);
        self.accept(Match { links, fixed_prefix, ..found });
    }

    /// The mask loses to every rule that names the path, and wins over every glob, because a glob
    /// may match a socket by accident.
    fn hide(&mut self, path: AbsPath, kind: FileKind, why: &'static str) {
        // Root inside has no capabilities and cannot enter such a folder. bwrap can mount nothing
        // in it either.
        let is_closed = || path.ancestors().skip(1).any(|folder| self.host.is_closed_to_root(&folder));
        if ablate::is_off(Mitigation::SocketMasks) || (self.session.is_root() && is_closed()) {
            return;
        }
        let names = match kind {
            // A socket that vanished in the meantime has at most one name.
            FileKind::File => self.host.names(&path).ok().flatten().unwrap_or(1),
            FileKind::Directory | FileKind::Device => 1,
        };
        let rule = Rule::exact(Access::Exclude, path.clone(), LayerKind::Base, Origin::BuiltIn(why));
        self.found.matches.push(Match { names, ..Match::new(Arc::new(rule), path, kind, Exactness::Exact) });
    }

    /// Hides `XDG_RUNTIME_DIR` if it lies outside of the private `/run`. The folder has many
    /// sockets, also of services that start on demand.
    fn runtime_directory(&mut self) {
        let Some(written) = self.session.path_var("XDG_RUNTIME_DIR") else { return };
        let hidden = match self.host.resolve(written.as_path()) {
            Ok(Resolved { path, kind: Some(FileKind::Directory), .. }) => {
                let Project { home, root, cwd, .. } = self.project;
                // Do not hide a whole home: its sockets are hidden one by one.
                let is_around = [home, root, cwd].iter().any(|at| at.is_within(&path));
                (!path.is_within(root) && !is_around && self.shows(&path)).then_some(path)
            }
            Ok(_) => None,
            Err(e) => self.hidden_instead_of(written.as_path(), &e),
        };
        if let Some(path) = hidden {
            self.hide(path, FileKind::Directory, RUNTIME_DIRECTORY);
        }
    }

    /// Every file name under which a service may be reached, and how agent-sandbox knows the name.
    fn names_of_sockets(&mut self) -> BTreeMap<PathBuf, &'static str> {
        let named = environment::sockets(self.session);
        let mut names: BTreeMap<_, _> = named.into_iter().map(|path| (path, NAMED)).collect();
        let table = match self.host.kernel_file(TABLE) {
            Ok(table) => table.unwrap_or_default(),
            Err(e) => {
                self.unreadable_socket(OsStr::new(TABLE), &e);
                return names;
            }
        };
        let mut unplaced = Vec::new();
        for name in unix_sockets::reachable(&table) {
            // `/proc/self`, to which `/dev/fd` leads, is another directory for each process.
            let is_of_process = [places::PROC, "/dev/fd"].iter().any(|place| name.starts_with(place));
            let places = if is_of_process { Vec::new() } else { self.places_of(&name) };
            // The table shows abstract names with an `@`, too. In private places, services have
            // files that the host does not see.
            let is_usual = name.as_os_str().as_bytes().starts_with(b"@")
                || !is_of_process && PRIVATE.iter().any(|place| name.starts_with(place));
            if places.is_empty() && !is_usual {
                unplaced.push(name.clone());
            }
            if name.is_absolute() && !is_of_process {
                names.insert(name, LISTENING);
            }
            names.extend(places.into_iter().map(|place| (place, LISTENING)));
        }
        self.warn_of_unplaced(unplaced);
        names
    }

    /// The paths at which a name may lead to a socket. A relative name is looked for in the
    /// project, the home, and a few known folders. A path that this process may not examine
    /// counts, too.
    fn places_of(&self, name: &Path) -> Vec<PathBuf> {
        let Project { cwd, root, home, .. } = self.project;
        let known = WORKING_DIRECTORIES.map(places::at);
        let starts = [cwd, root, home].into_iter().chain(&known);
        let is_there = |path: &PathBuf| match self.host.resolve(path) {
            Ok(Resolved { path, kind: Some(FileKind::File), .. }) => self.host.is_socket(&path).unwrap_or(false),
            Ok(_) => false,
            Err(e) => e.kind() == io::ErrorKind::PermissionDenied,
        };
        // All of these are the same path if the name is absolute.
        let paths: BTreeSet<PathBuf> = starts.map(|start| start.as_path().join(name)).collect();
        paths.into_iter().filter(is_there).collect()
    }

    fn warn_of_unplaced(&mut self, mut names: Vec<PathBuf>) {
        names.sort();
        names.dedup();
        if names.is_empty() || ablate::is_off(Mitigation::SocketMasks) {
            return;
        }
        let spelled =
            names.iter().take(NAMES_IN_A_WARNING).map(|name| format!("`{}`", escape_for_display(name.as_os_str())));
        let more = names.len().saturating_sub(NAMES_IN_A_WARNING);
        let others = (more > 0).then(|| format!("{more} more"));
        let names = listed(spelled.chain(others), "and");
        let message = format!("services listen at paths that are not known, so the command may reach them: {names}");
        let help = "configure them with absolute paths of this host, or hide the folders of the sockets with `exclude`";
        self.diagnostics.push(Diagnostic::new(Code::UnplacedSocket, message).help(help));
    }

    /// Whether the host is visible at `path` unless a rule hides it.
    fn shows(&self, path: &AbsPath) -> bool {
        let Some(private) = PRIVATE.iter().find(|place| path.as_path().starts_with(place)) else { return true };
        let opens = |at: &AbsPath| at.as_path().starts_with(private) && path.is_within(at);
        let by_rule = self.found.matches.iter().any(|found| found.rule.access != Access::Exclude && opens(&found.path));
        by_rule || self.found.runtime.iter().any(|mount| mount.symlink.is_none() && opens(&mount.path))
    }

    /// Handles an error at the path of a socket. Returns the directory to hide instead. EACCES
    /// below another user's directory: the command cannot reach the socket either, so skip it.
    /// EACCES below a directory of our own: the command could change the permissions, so hide that
    /// directory, unless a rule opens it. ELOOP leads to no service. Report every other error.
    fn hidden_instead_of(&mut self, name: &Path, error: &io::Error) -> Option<AbsPath> {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ACCESS) => {
                let folder = self.host.refused_by(name)?;
                let is_ours = self.host.owner(&folder).is_ok_and(|owner| owner == self.session.uid);
                if !is_ours || folder.is_within(&self.project.root) || !self.shows(&folder) {
                    return None;
                }
                let opens = |found: &Match| found.path == folder && found.rule.access == Access::Rw;
                if !self.found.matches.iter().any(opens) {
                    return Some(folder);
                }
            }
            Some(Errno::LOOP) => return None,
            _ => {}
        }
        self.unreadable_socket(name.as_os_str(), error);
        None
    }

    fn unreadable_socket(&mut self, name: &OsStr, error: &io::Error) {
        let message = format!("cannot look for sockets at `{}`: {}", escape_for_display(name), reason(error));
        let help = "make it readable, so that sockets in it can be hidden";
        self.diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help(help));
    }

    /// The sockets outside of the project that would be visible or that a pattern may allow, and
    /// how they are known. For sockets in a directory of our own that we cannot enter, the map has
    /// that directory.
    fn find_sockets(&mut self, patterns: &[WalkPattern]) -> BTreeMap<AbsPath, (FileKind, &'static str)> {
        // Hundreds of sockets lie in a few directories.
        let mut folders = BTreeMap::new();
        let mut found = BTreeMap::new();
        for (name, why) in self.names_of_sockets() {
            let sockets = self.socket(&name, patterns, &mut folders).unwrap_or_else(|e| {
                let folder = self.hidden_instead_of(&name, &e);
                found.extend(folder.map(|folder| (folder, (FileKind::Directory, why))));
                // A mount can show the socket outside of the folder that refuses access.
                AbsPath::normalize(&name).map(|path| self.other_names(&path, patterns)).unwrap_or_default()
            });
            for path in sockets {
                found.entry(path).or_insert((FileKind::File, why));
            }
        }
        found
    }

    /// The paths at which the command may see the socket `name`: its own, or else its other names
    /// (SPEC W3).
    fn socket(
        &self,
        name: &Path,
        patterns: &[WalkPattern],
        folders: &mut BTreeMap<PathBuf, Option<AbsPath>>,
    ) -> io::Result<Vec<AbsPath>> {
        let (Some(folder), Some(file)) = (name.parent(), name.file_name()) else { return Ok(Vec::new()) };
        if !folders.contains_key(folder) {
            let resolved = self.host.resolve(folder);
            let path = resolved.map(|found| (found.kind == Some(FileKind::Directory)).then_some(found.path));
            // An error is reported for the first socket in the directory only.
            folders.insert(folder.to_owned(), path.as_ref().ok().cloned().flatten());
            path?;
        }
        let Some(folder) = folders.get(folder).and_then(Option::as_ref) else { return Ok(Vec::new()) };
        if self.project.mounts.is_none() && !self.may_matter(&folder.child(file), patterns) {
            return Ok(Vec::new());
        }
        let Resolved { path, kind, .. } = self.host.resolve_from(folder, Path::new(file))?;
        if path.is_within(&self.project.root) || kind != Some(FileKind::File) || !self.host.is_socket(&path)? {
            return Ok(Vec::new());
        }
        // W3 covers the other names of a socket that is covered itself.
        Ok(if self.may_matter(&path, patterns) { vec![path] } else { self.other_names(&path, patterns) })
    }

    /// The other names of the socket at `path` that the command may see.
    fn other_names(&self, path: &AbsPath, patterns: &[WalkPattern]) -> Vec<AbsPath> {
        let is_there =
            |at: &AbsPath| self.host.is_socket(at).unwrap_or_else(|e| e.kind() != io::ErrorKind::PermissionDenied);
        let names = self.project.names(path).filter(|at| at != path && !is_of_the_sandbox(at));
        let names = names.filter(|at| self.may_matter(at, patterns) && !at.is_within(&self.project.root));
        names.filter(is_there).collect()
    }

    /// Whether the command may see a socket at `path`, or a pattern may allow it.
    fn may_matter(&self, path: &AbsPath, patterns: &[WalkPattern]) -> bool {
        self.shows(path) || patterns.iter().any(|pattern| path.is_within(&pattern.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;
    use super::*;

    fn allowed(text: &str, path: &str) -> bool {
        let Ok(Pattern::Globs(globs)) = pattern::parse(OsStr::new(text)) else { return false };
        let path = AbsPath::root().join(path);
        globs.into_iter().any(|glob| {
            let names = path.relative_to(&AbsPath::root().join(&glob.prefix));
            names.is_some_and(|names| pattern::matches_path(&glob.components, names))
        })
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
