//! Discovery: the project of this run, the configuration files that exist, and their order.
//!
//! This stage alone knows the layer order, the search for the project root (SPEC L1–L6), and the
//! list of our own files that no rule can open (SPEC D6).

mod root;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use crate::compile::Request;
use crate::compile::config::{self, ConfigFile, Entry, InjectEntry};
use crate::compile::presets::programs::named_by_agents;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host, MOUNT_TABLE, Mounts, Resolved, Session, git, journal, passwd};
use crate::policy::{AbsPath, LayerKind, Origin, Source, Sourced, escape_for_display, sha256};
use crate::sys::ablate::{self, Mitigation};

pub const PROJECT_FILE: &str = ".agent-sandbox.toml";
/// The largest policy file. A larger file was named by mistake.
pub(crate) const MAX_CONFIG_BYTES: u64 = 1 << 20;
const SYSTEM_FILE: &str = "/etc/agent-sandbox/config.toml";

/// The working directory of the command, and the project around it.
#[derive(Clone, Debug)]
pub struct Project {
    pub cwd: AbsPath,
    pub home: AbsPath,
    /// The home of the password file, if `$HOME` is another one.
    pub password_home: Option<AbsPath>,
    pub root: AbsPath,
    /// The outermost folder that the search for the root would accept. Protections start here: a
    /// command can plant a marker in a subfolder, but cannot remove the marker of this folder.
    pub outermost: AbsPath,
    /// The mounts of the host, if a file may have two names.
    pub mounts: Option<Arc<Mounts>>,
    pub repository: Option<git::Repository>,
    /// `.git` in the root if it is a file that points elsewhere. git obeys it and never writes it.
    pub git_pointer: Option<AbsPath>,
    /// The paths that git's settings name in the work tree.
    pub git_named: git::Named,
    /// The files in the home or the project that the settings of agents name in commands.
    pub agent_programs: BTreeSet<AbsPath>,
    /// Repositories in the project besides its own.
    pub git_nested: git::NestedRepositories,
}

impl Project {
    /// The path that a built-in preset writes as `~/…`.
    pub(crate) fn in_home(&self, written: &str) -> AbsPath {
        self.home.join(written.trim_start_matches("~/"))
    }

    /// `path` and its other names: the paths at which other mounts show the same file or folder.
    pub(crate) fn names(&self, path: &AbsPath) -> impl Iterator<Item = AbsPath> + use<> {
        names(self.mounts.as_deref(), path)
    }

    /// Whether the root is too broad to be made writable as a whole (SPEC L6).
    pub fn has_unsafe_root(&self) -> bool {
        root::is_unsafe_root(&self.root, &self.home, self.mounts.as_deref())
    }
}

/// One source of rules and settings.
#[derive(Clone, Debug)]
pub struct Layer {
    pub kind: LayerKind,
    /// Relative paths start here.
    pub base: AbsPath,
    pub config: ConfigFile,
    /// A project file above the root: only its prohibitions count (SPEC L4).
    pub protective_only: bool,
    /// The project's own file, which the user did not name. Everything that it opens needs consent
    /// (SPEC T1).
    pub needs_trust: bool,
    pub file: Option<AbsPath>,
    /// The exact content of that file.
    pub source: Option<Arc<Source>>,
}

/// A file or folder of ours that exists, or the folder of our state or settings, which may not
/// exist yet.
#[derive(Clone, Debug)]
pub struct OwnFile {
    pub path: AbsPath,
    pub kind: FileKind,
    /// The symlinks on the way to it.
    pub links: Vec<AbsPath>,
    /// The number of hard links to it, if it is a file.
    pub names: u64,
    /// Its role for agent-sandbox.
    pub why: &'static str,
    /// The path does not exist yet. If the command could create it, agent-sandbox creates it first
    /// (SPEC D6).
    pub is_missing: bool,
}

impl OwnFile {
    pub const CONFIGURATION: &str = "our own configuration and state";
    pub const EXECUTABLE: &str = "our own executable";

    /// A configuration file, or the folder of our state or settings if nothing is there.
    fn configuration(Resolved { path, links, kind, names }: Resolved) -> Self {
        let (is_missing, kind) = (kind.is_none(), kind.unwrap_or(FileKind::Directory));
        Self { path, kind, links, names, why: Self::CONFIGURATION, is_missing }
    }
}

#[derive(Clone, Debug)]
pub struct Layers {
    pub project: Project,
    /// Lowest first.
    pub layers: Vec<Layer>,
    /// Our own files and folders: at least read-only, and no rule changes that.
    pub own_files: Vec<OwnFile>,
    /// The configuration files that do not exist.
    pub absent: Vec<AbsPath>,
    /// The folder of our own records, which may not exist. Its path contains no symlinks.
    pub state: AbsPath,
    /// The folder with the copies of private files exists.
    pub has_private: bool,
    /// The folder with the reports of runs exists.
    pub has_reports: bool,
}

impl Layers {
    /// The folder, below the state folder, with the files that bwrap binds.
    pub const MOUNT_FILES: &str = "mounts";

    /// The folder, below the state folder, with the copies of private files. The command cannot see
    /// it.
    pub const PRIVATE: &str = "private";

    /// The folder, below the state folder, with the reports of runs. The command cannot see it.
    pub const REPORTS: &str = "reports";

    pub fn mount_files(&self) -> AbsPath {
        self.state.child(Self::MOUNT_FILES)
    }

    /// The folder with the private files of this project.
    pub fn private_folder(&self) -> AbsPath {
        self.state.child(Self::PRIVATE).child(sha256(self.project.root.bytes()))
    }

    /// The part of this project's private folder that the command sees and writes.
    pub fn private_copies(&self) -> AbsPath {
        self.private_folder().child("copies")
    }
}

/// Finds the project and reads every layer. `None` if the project cannot be determined.
pub fn discover(host: &Host, session: &Session, request: &Request, diagnostics: &mut Diagnostics) -> Option<Layers> {
    let home = home(host, session).map_err(|problem| diagnostics.push(problem)).ok()?;
    let cwd = working_directory(host, session).map_err(|problem| diagnostics.push(problem)).ok()?;
    let standing = OnceCell::new();
    let stands = |path: &AbsPath| {
        let read = || journal::placeholder_paths(host, &resolved_state(host, session, &home));
        !ablate::is_off(Mitigation::ProjectMarkers) && standing.get_or_init(read).binary_search(path).is_ok()
    };
    let mounts = mounts(host, diagnostics).map(Arc::new);
    let search = root::search(host, &cwd, &home, mounts.as_deref(), &stands, diagnostics);
    let configuration = session.path_var("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));

    let repository = git::discover(host, &search.root, &search.root_and_above, diagnostics);
    let git_nested = git::nested::nested(host, &search.root, repository.as_ref());
    diagnostics.extend(many_repositories(&git_nested));
    let repositories: Vec<git::Repository> = repository
        .iter()
        .cloned()
        .chain(git_nested.found.iter().flat_map(|nested| nested.repositories(host)))
        .collect();
    let dot_git = search.root.child(".git");
    // A `.git` that is a symlink to a directory is an ordinary repository, and no pointer.
    let is_pointer = |found: Resolved| found.links.is_empty() && found.kind == Some(FileKind::File);
    let project = Project {
        git_pointer: host.resolve(dot_git.as_path()).is_ok_and(is_pointer).then_some(dot_git),
        git_named: git::named(host, &repositories, &git::Scopes::of(host, session, &home, &configuration)),
        agent_programs: named_by_agents(host, &home, &search.root),
        root: search.root.clone(),
        outermost: search.outermost.clone(),
        mounts,
        password_home: password_home(host, session, &home),
        cwd,
        home,
        repository,
        git_nested,
    };

    let names_from = request.names_from.as_ref().unwrap_or(&project.cwd);
    let (layers, own_files, absent) = Default::default();
    let mut reader = LayerReader { host, names_from, diagnostics, layers, own_files, absent };
    reader.read_settings(LayerKind::System, &AbsPath::root().join(SYSTEM_FILE), &project.root);
    reader.read_settings(LayerKind::User, &configuration.join("agent-sandbox/config.toml"), &project.root);
    for folder in search.root_and_above.iter().skip(1).rev() {
        if let Some(layer) = reader.read(LayerKind::Project, &folder.child(PROJECT_FILE), folder) {
            layer.protective_only = true;
        }
    }
    let project_file = project.root.child(PROJECT_FILE);
    if let Some(path) = &request.config {
        reader.read_requested(path, &project.cwd);
        reader.protect(&project_file);
    } else if request.no_project_config {
        reader.protect(&project_file);
    } else if let Some(source) = &request.supposed {
        reader.protect(&project_file);
        reader.add(LayerKind::Project, Arc::clone(source), &project.root, None);
    } else if let Some(layer) = reader.read(LayerKind::Project, &project_file, &project.root) {
        layer.needs_trust = true;
    }
    if let Some(executable) = session.executable.as_ref().filter(|_| !ablate::is_off(Mitigation::OwnExecutable)) {
        reader.protect_executable(executable);
    }
    let state = reader.protect_state(named_state_folder(session, &project.home));

    let LayerReader { mut layers, own_files, absent, .. } = reader;
    layers.push(command_line(request, &project.cwd, diagnostics));
    let has = |name: &str| matches!(host.kind(&state.child(name)), Ok(Some(FileKind::Directory)));
    let (has_private, has_reports) = (has(Layers::PRIVATE), has(Layers::REPORTS));
    Some(Layers { project, layers, own_files, absent, state, has_private, has_reports })
}

/// Warns if there are more git directories than a start can protect one by one. A command may have
/// made them, or they have piled up over years.
fn many_repositories(nested: &git::NestedRepositories) -> impl Iterator<Item = Diagnostic> {
    let warn = |message: String, help: &str| Diagnostic::new(Code::ManyRepositories, message).help(help);
    let crowded = nested.crowded.iter().map(move |(folder, count)| {
        let help = match folder.file_name().is_some_and(|name| name == "worktrees") {
            true => "run `git worktree prune` outside, which removes those without a work tree",
            false => "look at it outside, and remove the folders that belong to no submodule",
        };
        warn(format!("`{folder}` has at least {count} folders; all of it is read-only inside"), help)
    });
    let overfull = nested.overfull.iter().map(move |git_dir| {
        let index = git_dir.child("index");
        let message = format!("`{index}` names too many submodules to examine; it is moved aside when the run ends");
        warn(message, "run `git reset` outside, which makes it anew from the last commit")
    });
    let others = nested.found.len().saturating_sub(git::nested::MOST_PROTECTED);
    let others = (others > 0).then(|| {
        let message = format!("{others} repositories in the project are only checked when the run ends");
        warn(message, "run `git reset` and `git worktree prune` outside if these are not yours")
    });
    crowded.chain(overfull).chain(others)
}

fn named_state_folder(session: &Session, home: &AbsPath) -> AbsPath {
    session.path_var("XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state")).join("agent-sandbox")
}

/// The state folder, for subcommands that have no project. It may not exist.
pub fn state_folder(host: &Host, session: &Session) -> Result<AbsPath, Diagnostic> {
    Ok(resolved_state(host, session, &home(host, session)?))
}

fn resolved_state(host: &Host, session: &Session, home: &AbsPath) -> AbsPath {
    let state = named_state_folder(session, home);
    host.resolve(state.as_path()).map_or(state, |resolved| resolved.path)
}

fn home(host: &Host, session: &Session) -> Result<AbsPath, Diagnostic> {
    let home = session.path_var("HOME").ok_or_else(|| {
        Diagnostic::new(Code::NoHome, "`HOME` is not set to an absolute path")
            .help("set HOME: rules that start with `~` would otherwise protect nothing")
    })?;
    let problem = match host.resolve(home.as_path()) {
        Ok(resolved) if resolved.kind == Some(FileKind::Directory) => return Ok(resolved.path),
        Ok(_) => "is not a directory".to_owned(),
        Err(e) => format!("cannot be examined: {}", reason(&e)),
    };
    Err(Diagnostic::new(Code::NoHome, format!("the home `{home}` {problem}"))
        .help("set HOME to your home: rules that start with `~` would otherwise protect nothing"))
}

/// The home that the password file names for this user, if it differs from `$HOME` and the user
/// can search it. Programs that look up this home keep secrets there, even if `$HOME` is another
/// folder.
fn password_home(host: &Host, session: &Session, home: &AbsPath) -> Option<AbsPath> {
    let uid = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u32>().ok();
    let named = passwd::home_of(host, |fields| uid(fields[2]) == Some(session.uid))?;
    let found = host.resolve(named.as_path()).ok().filter(|found| found.kind == Some(FileKind::Directory))?;
    // A rule for a path in a folder that the user cannot search would be an error.
    let is_searchable = host.resolve(found.path.child("any").as_path()).is_ok();
    (found.path != *home && !found.path.is_root() && is_searchable).then_some(found.path)
}

fn mounts(host: &Host, diagnostics: &mut Diagnostics) -> Option<Mounts> {
    host.mounts().unwrap_or_else(|e| {
        let message = format!("cannot look for other mounts at `{MOUNT_TABLE}`: {}", reason(&e));
        let help = "make it readable: a folder that is mounted in two places must be protected in both";
        diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help(help));
        None
    })
}

/// `path` and its other names.
fn names(mounts: Option<&Mounts>, path: &AbsPath) -> impl Iterator<Item = AbsPath> + use<> {
    let others = mounts.map(|mounts| mounts.names(path));
    iter::once(path.clone()).chain(others.into_iter().flatten())
}

fn working_directory(host: &Host, session: &Session) -> Result<AbsPath, Diagnostic> {
    let problem = match host.resolve(session.cwd.as_path()) {
        Ok(resolved) if resolved.kind == Some(FileKind::Directory) => return Ok(resolved.path),
        Ok(resolved) if resolved.kind.is_none() => "does not exist".to_owned(),
        Ok(_) => "is not a directory".to_owned(),
        Err(e) => format!("cannot be used: {}", reason(&e)),
    };
    Err(Diagnostic::new(Code::InvalidCwd, format!("the working directory `{}` {problem}", session.cwd))
        .help("start from an existing directory, or name one with `--cwd DIR`"))
}

/// Reads configuration files and remembers which paths are ours.
struct LayerReader<'a> {
    host: &'a Host,
    /// Diagnostics name files relative to this folder.
    names_from: &'a AbsPath,
    diagnostics: &'a mut Diagnostics,
    layers: Vec<Layer>,
    own_files: Vec<OwnFile>,
    absent: Vec<AbsPath>,
}

impl LayerReader<'_> {
    fn add(&mut self, kind: LayerKind, source: Arc<Source>, base: &AbsPath, file: Option<AbsPath>) {
        let config = config::parse(&source, self.diagnostics);
        self.layers.push(Layer { file, source: Some(source), ..layer(kind, base, config) });
    }

    /// Reads `file` as a layer; `None` if there is none. A file that exists and cannot be read is
    /// an error, because a policy that was not understood must not run.
    fn read(&mut self, kind: LayerKind, file: &AbsPath, base: &AbsPath) -> Option<&mut Layer> {
        let name = shown_name(file, self.names_from);
        match read_text(self.host, file) {
            Ok(Some(text)) => {
                self.protect(file);
                self.add(kind, Arc::new(Source::new(name, text)), base, Some(file.clone()));
                return self.layers.last_mut();
            }
            Ok(None) => self.absent.push(file.clone()),
            Err(problem) => self.diagnostics.push(unreadable(&name, &problem)),
        }
        None
    }

    /// Reads the settings of the user or the system. If they do not exist, their folder is
    /// protected: a command that creates them first would choose the policy of the next run.
    fn read_settings(&mut self, kind: LayerKind, file: &AbsPath, base: &AbsPath) {
        if self.read(kind, file, base).is_none()
            && let Some(folder) = file.parent()
            && self.absent.last() == Some(file)
        {
            let found = self.resolve(&folder);
            self.own_files.extend(found.map(OwnFile::configuration));
        }
    }

    /// Reads the file named with `--config`, which must exist.
    fn read_requested(&mut self, path: &Path, cwd: &AbsPath) {
        // Resolves by component, because `link/../x` is not `x`. If this fails, `read` below
        // reports the error.
        let resolved = self.host.resolve(&cwd.as_path().join(path));
        let (file, links) =
            resolved.map_or_else(|_| (cwd.join(path), Vec::new()), |resolved| (resolved.path, resolved.links));
        let base = file.parent().unwrap_or_else(AbsPath::root);
        self.read(LayerKind::Project, &file, &base);
        if self.absent.last() == Some(&file) {
            let message = format!("`{}` does not exist", escape_for_display(path.as_os_str()));
            self.diagnostics.push(Diagnostic::new(Code::MissingConfig, message).help("name an existing file"));
        }
        // The links that lead to the file are ours as well.
        if let Some(own) = self.own_files.iter_mut().find(|own| own.path == file) {
            own.links.extend(links);
        }
    }

    /// Resolves a path of ours, and reports an error.
    fn resolve(&mut self, path: &AbsPath) -> Option<Resolved> {
        let report = |e| {
            let message = format!("cannot determine what `{path}` is: {}", reason(&e));
            self.diagnostics.push(Diagnostic::new(Code::UnreadablePath, message));
        };
        self.host.resolve(path.as_path()).map_err(report).ok()
    }

    /// Remembers that `path` is ours, if it exists.
    fn protect(&mut self, path: &AbsPath) {
        let found = self.resolve(path).filter(|found| found.kind.is_some());
        self.own_files.extend(found.map(OwnFile::configuration));
    }

    /// Protects our executable. A command that can write it can make the next run start without a
    /// sandbox.
    fn protect_executable(&mut self, path: &AbsPath) {
        // The next run does not start a file that does not exist.
        if matches!(self.host.kind(path), Ok(Some(FileKind::File))) {
            let (path, kind, links, why) = (path.clone(), FileKind::File, Vec::new(), OwnFile::EXECUTABLE);
            self.own_files.push(OwnFile { path, kind, links, names: 1, why, is_missing: false });
        }
    }

    /// Protects the state folder even before it exists: a command that creates it first could
    /// write our records. Returns the resolved path.
    fn protect_state(&mut self, state: AbsPath) -> AbsPath {
        let Some(found) = self.resolve(&state) else { return state };
        let path = found.path.clone();
        self.own_files.push(OwnFile::configuration(found));
        path
    }
}

fn layer(kind: LayerKind, base: &AbsPath, config: ConfigFile) -> Layer {
    let (protective_only, needs_trust) = (false, false);
    Layer { kind, base: base.clone(), config, protective_only, needs_trust, file: None, source: None }
}

fn command_line(request: &Request, cwd: &AbsPath, diagnostics: &mut Diagnostics) -> Layer {
    let mut config = ConfigFile::default();
    config.filesystem.ro = flag_entries("--ro", &request.ro);
    config.filesystem.rw = flag_entries("--rw", &request.rw);
    config.filesystem.exclude = flag_entries("--exclude", &request.exclude);
    let injection = |((from, to), value): (&(OsString, OsString), OsString)| {
        let origin = Origin::Flag { flag: "--inject", value };
        InjectEntry { from: Some(from.clone()), text: None, to: to.clone(), from_origin: origin.clone(), origin }
    };
    config.inject = request.inject.iter().zip(request.injections()).map(injection).collect();
    let preset = |written: &OsString| Sourced {
        value: preset_reference(written),
        origin: Origin::Flag { flag: "--preset", value: written.clone() },
    };
    config.filesystem.presets = request.presets.iter().map(preset).collect();
    config.network = request.network.map(|on| flag_setting("--network", on, on.to_string()));
    config.docker = request.docker.map(|on| flag_setting("--docker", on, on.to_string()));
    config.filesystem.home = request.home.map(|home| flag_setting("--home", home, home.to_string()));
    config.filesystem.base = request.base.map(|base| flag_setting("--base", base, base.to_string()));
    let limits = request.limits.iter().map(|limit| {
        let origin = Origin::Flag { flag: "--limit", value: limit.to_string().into() };
        // The command line has already checked the limit, but a program that embeds this library
        // may not have.
        if let Err(error) = limit.check() {
            diagnostics.push(Diagnostic::new(Code::InvalidValue, error.to_string()).at(&origin).help(error.help()));
        }
        Sourced { value: *limit, origin }
    });
    config.limits = limits.collect();
    layer(LayerKind::CommandLine, cwd, config)
}

fn flag_entries(flag: &'static str, values: &[OsString]) -> Vec<Entry> {
    values.iter().map(|value| Entry::new(value.clone(), Origin::Flag { flag, value: value.clone() })).collect()
}

fn flag_setting<T>(flag: &'static str, value: T, written: String) -> Sourced<T> {
    Sourced { value, origin: Origin::Flag { flag, value: written.into() } }
}

/// On the command line `@` may be left out: `--preset git`, `--preset '!git'`.
fn preset_reference(written: &OsStr) -> String {
    let text = escape_for_display(written);
    let (bang, name) = text.strip_prefix('!').map_or(("", text.as_str()), |name| ("!", name));
    format!("{bang}@{}", name.strip_prefix('@').unwrap_or(name))
}

#[derive(Debug, thiserror::Error)]
enum TextError {
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it is a symlink that leads nowhere")]
    DanglingLink,
    #[error("{}", reason(.0))]
    Unreadable(#[from] io::Error),
}

/// The project's own file as it is now; `None` if there is none.
pub fn project_source(host: &Host, project: &Project) -> Result<Option<Source>, Diagnostic> {
    let file = project.root.child(PROJECT_FILE);
    let name = shown_name(&file, &project.cwd);
    let text = read_text(host, &file).map_err(|problem| unreadable(&name, &problem))?;
    Ok(text.map(|text| Source::new(name, text)))
}

fn read_text(host: &Host, file: &AbsPath) -> Result<Option<String>, TextError> {
    match host.read_regular(file, MAX_CONFIG_BYTES)? {
        Some(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| TextError::NotUtf8),
        None if is_link(host, file) => Err(TextError::DanglingLink),
        None => Ok(None),
    }
}

pub(crate) fn unreadable(name: &str, problem: &dyn Display) -> Diagnostic {
    Diagnostic::new(Code::UnreadableConfig, format!("cannot read `{name}`: {problem}"))
        .help("make it a readable TOML file, or remove it")
}

/// Whether the file itself is a symlink, which shows that a policy was meant to be there. A link on
/// the way to the file is no reason for a warning: many users have one at `~/.config`.
fn is_link(host: &Host, file: &AbsPath) -> bool {
    let folder = file.parent().and_then(|folder| host.resolve(folder.as_path()).ok());
    let entry = folder.zip(file.file_name()).map(|(folder, name)| folder.path.child(name));
    entry.is_some_and(|entry| host.exists(&entry).unwrap_or(true))
}

/// The name of `file` in diagnostics: relative if it lies below `folder`, as compilers do.
fn shown_name(file: &AbsPath, folder: &AbsPath) -> String {
    file.relative_to(folder).map_or_else(|| file.to_string(), |relative| escape_for_display(relative.as_os_str()))
}
