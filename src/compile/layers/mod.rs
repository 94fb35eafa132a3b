//! Discovery: which project this is, which configuration files exist, and the order in which they
//! count.
//!
//! OWNS the layer order, the search for the project root (SPEC L1–L6), and the list of our own
//! files that no rule can open (SPEC D6).

mod root;
mod text;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use crate::compile::config::{self, ConfigFile, Entry};
use crate::compile::request::Request;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::git;
use crate::host::session::Session;
use crate::host::{FileKind, Host, Resolved};
use crate::policy::origin::{Origin, Source, Sourced};
use crate::policy::path::{AbsPath, escape_for_display};
use crate::policy::rule::LayerKind;
use crate::sys::ablate::{self, Mitigation};

pub use root::is_unsafe_root;
pub use text::project_source;
pub(crate) use text::unreadable;
use text::{shown_name, text};

pub const PROJECT_FILE: &str = ".agent-sandbox.toml";
/// Nobody writes a policy of this size; something else was named by mistake.
pub(crate) const MAX_CONFIG_BYTES: u64 = 1 << 20;
const SYSTEM_FILE: &str = "/etc/agent-sandbox/config.toml";

/// Where the command runs, and what belongs to it.
#[derive(Clone, Debug)]
pub struct Project {
    pub cwd: AbsPath,
    pub home: AbsPath,
    pub root: AbsPath,
    /// The outermost folder that the search for the root would accept. An agent can plant a marker
    /// in a subfolder, but not take this one away, so protections start here.
    pub outermost: AbsPath,
    pub repository: Option<git::Repository>,
    /// The folder whose `.git` leads to the repository.
    pub git_top: Option<AbsPath>,
    /// `.git` in the root where it is a file that points elsewhere. Git obeys it, and never writes
    /// it.
    pub git_pointer: Option<AbsPath>,
    /// What git's settings name in the work tree.
    pub git_named: git::Named,
    /// Repositories in the project besides its own.
    pub git_nested: git::NestedRepositories,
}

#[cfg(test)]
impl Project {
    /// A folder without a repository.
    pub(crate) fn plain(root: &AbsPath, home: AbsPath) -> Self {
        Self {
            cwd: root.clone(),
            home,
            root: root.clone(),
            outermost: root.clone(),
            repository: None,
            git_top: None,
            git_pointer: None,
            git_named: git::Named::default(),
            git_nested: git::NestedRepositories::default(),
        }
    }
}

/// One source of rules and settings.
#[derive(Clone, Debug)]
pub struct Layer {
    pub kind: LayerKind,
    /// What its relative paths are relative to.
    pub base: AbsPath,
    pub config: ConfigFile,
    /// A project file above the root: only what it forbids counts (SPEC L4).
    pub protective_only: bool,
    /// The project's own file, found and not named by the user: what it opens needs consent (SPEC
    /// T1).
    pub needs_trust: bool,
    /// The file it was read from.
    pub file: Option<AbsPath>,
    /// What was read, to the byte.
    pub source: Option<Arc<Source>>,
}

/// A file or folder of ours that exists, or the state folder, which may not yet.
#[derive(Clone, Debug)]
pub struct OwnFile {
    pub path: AbsPath,
    pub kind: FileKind,
    /// The symlinks on the way to it.
    pub links: Vec<AbsPath>,
    /// How many names it has, if it is a file.
    pub names: u64,
    /// What it is to us.
    pub why: &'static str,
    /// Nothing is there yet: where the command could make it, we do so first (SPEC D6).
    pub is_missing: bool,
}

impl OwnFile {
    pub const CONFIGURATION: &str = "our own configuration and state";
    pub const EXECUTABLE: &str = "our own executable";
}

#[derive(Clone, Debug)]
pub struct Layers {
    pub project: Project,
    /// Lowest first.
    pub layers: Vec<Layer>,
    /// Our own files and folders: at least read-only, whatever any rule says.
    pub own_files: Vec<OwnFile>,
    /// Places that were looked at and hold no file, for `--debug`.
    pub absent: Vec<AbsPath>,
    /// The folder in which we remember what must be undone. Holds no symlinks; may not exist.
    pub state: AbsPath,
}

impl Layers {
    /// The folder, below that of our state, in which the files lie that bwrap binds.
    pub const MOUNT_FILES: &str = "mounts";

    pub fn mount_files(&self) -> AbsPath {
        self.state.child(Self::MOUNT_FILES)
    }
}

/// Finds the project and reads every layer. `None` when not even the project could be determined.
pub fn discover(host: &Host, session: &Session, request: &Request, diagnostics: &mut Diagnostics) -> Option<Layers> {
    let home = home(host, session, diagnostics)?;
    let cwd = working_directory(host, session, diagnostics)?;
    let search = root::search(host, &cwd, &home, diagnostics);
    let repository = git::discover(host, &search.root, search.root_and_above(), diagnostics);
    let git_pointer = git_pointer(host, &search.root);
    let top = search.root_and_above().iter().find(|folder| host.exists(&folder.child(".git")).unwrap_or(false));
    let git_top = top.cloned();
    let configuration = session.path_var("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let named_by_user = session.path_var("GIT_CONFIG_GLOBAL");
    let git_settings = [home.child(".gitconfig"), configuration.join("git/config")]
        .into_iter()
        .chain(named_by_user)
        .collect::<Vec<_>>();
    let git_nested = git::nested::nested(host, &search.root, repository.as_ref().zip(top));
    let in_work_trees = repository.iter().cloned().zip(top.cloned());
    let in_work_trees: Vec<(git::Repository, AbsPath)> =
        in_work_trees.chain(git_nested.found.iter().map(git::Nested::repository)).collect();
    let git_named = git::named(host, &in_work_trees, &home, &git_settings);
    let names_from = request.names_from.as_ref().unwrap_or(&cwd);
    let mut reader = Reader {
        host,
        cwd: &cwd,
        names_from,
        diagnostics,
        layers: Vec::new(),
        own_files: Vec::new(),
        absent: Vec::new(),
    };

    let user_file = configuration.join("agent-sandbox/config.toml");
    reader.read(LayerKind::System, &AbsPath::root().join(SYSTEM_FILE), &search.root);
    reader.read(LayerKind::User, &user_file, &search.root);
    for folder in search.above_root().iter().rev() {
        let file = folder.child(PROJECT_FILE);
        if let Outcome::Read(layer) = reader.read(LayerKind::Project, &file, folder) {
            layer.protective_only = true;
        }
    }
    let project_file = search.root.child(PROJECT_FILE);
    match &request.config {
        Some(path) => {
            reader.read_requested(path);
            reader.protect(&project_file);
        }
        None if request.no_project_config => reader.protect(&project_file),
        None if request.supposed.is_some() => {
            reader.protect(&project_file);
            if let Some(source) = &request.supposed {
                reader.take(LayerKind::Project, Arc::clone(source), &search.root, None);
            }
        }
        None => {
            if let Outcome::Read(layer) = reader.read(LayerKind::Project, &project_file, &search.root) {
                layer.needs_trust = true;
            }
        }
    }
    if let Some(executable) = session.executable.as_ref().filter(|_| !ablate::is_off(Mitigation::OwnExecutable)) {
        reader.protect_executable(executable);
    }
    let state = named_state_folder(session, &home);
    let state = reader.protect_state(&state);

    let Reader { mut layers, own_files, absent, .. } = reader;
    layers.push(command_line(request, &cwd));
    Some(Layers {
        project: Project {
            cwd,
            home,
            root: search.root,
            outermost: search.outermost,
            repository,
            git_top,
            git_pointer,
            git_named,
            git_nested,
        },
        layers,
        own_files,
        absent,
        state,
    })
}

fn named_state_folder(session: &Session, home: &AbsPath) -> AbsPath {
    session.path_var("XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state")).join("agent-sandbox")
}

/// The folder in which we remember things, for who has no project. It may not exist.
pub fn state_folder(host: &Host, session: &Session) -> Result<AbsPath, Diagnostic> {
    let mut diagnostics = Diagnostics::default();
    let Some(home) = home(host, session, &mut diagnostics) else {
        let said = diagnostics.iter().next().cloned();
        return Err(said.unwrap_or_else(|| Diagnostic::new(Code::NoHome, "there is no home")));
    };
    let state = named_state_folder(session, &home);
    Ok(host.resolve(state.as_path()).map_or(state, |resolved| resolved.path))
}

/// `.git` in the root, if it is a regular file. A link to a directory is a repository like any
/// other.
fn git_pointer(host: &Host, root: &AbsPath) -> Option<AbsPath> {
    let pointer = root.child(".git");
    let is_file = |found: Resolved| found.links.is_empty() && found.kind == Some(FileKind::File);
    host.resolve(pointer.as_path()).is_ok_and(is_file).then_some(pointer)
}

fn home(host: &Host, session: &Session, diagnostics: &mut Diagnostics) -> Option<AbsPath> {
    let Some(home) = session.path_var("HOME") else {
        diagnostics.push(
            Diagnostic::new(Code::NoHome, "`HOME` is not set to an absolute path")
                .help("set HOME: rules that start with `~` would otherwise protect nothing"),
        );
        return None;
    };
    let problem = match host.resolve(home.as_path()) {
        Ok(resolved) if resolved.kind == Some(FileKind::Directory) => return Some(resolved.path),
        Ok(_) => "is not a directory".to_owned(),
        Err(e) => format!("cannot be looked at: {}", reason(&e)),
    };
    diagnostics.push(
        Diagnostic::new(Code::NoHome, format!("the home `{home}` {problem}"))
            .help("set HOME to your home: rules that start with `~` would otherwise protect nothing"),
    );
    None
}

fn working_directory(host: &Host, session: &Session, diagnostics: &mut Diagnostics) -> Option<AbsPath> {
    let problem = match host.resolve(session.cwd.as_path()) {
        Ok(resolved) if resolved.kind == Some(FileKind::Directory) => return Some(resolved.path),
        Ok(resolved) if resolved.kind.is_none() => "does not exist".to_owned(),
        Ok(_) => "is not a directory".to_owned(),
        Err(e) => format!("cannot be used: {}", reason(&e)),
    };
    diagnostics.push(
        Diagnostic::new(Code::InvalidCwd, format!("the working directory `{}` {problem}", session.cwd))
            .help("start from an existing directory, or name one with `--cwd DIR`"),
    );
    None
}

enum Outcome<'l> {
    Read(&'l mut Layer),
    Absent,
    /// There is a file, and a diagnostic says why it cannot be used.
    Failed,
}

/// Reads configuration files and remembers which paths are ours.
struct Reader<'a> {
    host: &'a Host,
    cwd: &'a AbsPath,
    /// What the names of files are relative to, where they are shown.
    names_from: &'a AbsPath,
    diagnostics: &'a mut Diagnostics,
    layers: Vec<Layer>,
    own_files: Vec<OwnFile>,
    absent: Vec<AbsPath>,
}

impl Reader<'_> {
    /// What `source` says is a layer.
    fn take(&mut self, kind: LayerKind, source: Arc<Source>, base: &AbsPath, file: Option<AbsPath>) {
        let config = config::parse(&source, self.diagnostics);
        let (protective_only, needs_trust) = (false, false);
        let (base, source) = (base.clone(), Some(source));
        self.layers.push(Layer { kind, base, config, protective_only, needs_trust, file, source });
    }

    /// Reads `file` as a layer. Whatever keeps an existing file from being read is an error: a
    /// policy that was not understood must not run.
    fn read(&mut self, kind: LayerKind, file: &AbsPath, base: &AbsPath) -> Outcome<'_> {
        let problem = match text(self.host, file) {
            Ok(Some(text)) => {
                self.protect(file);
                let source = Arc::new(Source { name: shown_name(file, self.names_from), text });
                self.take(kind, source, base, Some(file.clone()));
                return self.layers.last_mut().map_or(Outcome::Failed, Outcome::Read);
            }
            Ok(None) => {
                self.absent.push(file.clone());
                return Outcome::Absent;
            }
            Err(problem) => problem,
        };
        self.diagnostics.push(unreadable(&shown_name(file, self.names_from), &problem));
        Outcome::Failed
    }

    /// The file named with `--config`, which must exist.
    fn read_requested(&mut self, path: &Path) {
        // Component by component: `link/../x` is not `x`.
        let written = self.cwd.as_path().join(path);
        let (file, links) = match self.host.resolve(&written) {
            Ok(resolved) => (resolved.path, resolved.links),
            // The read says what is wrong.
            Err(_) => (self.cwd.join(path), Vec::new()),
        };
        let base = file.parent().unwrap_or_else(AbsPath::root);
        if let Outcome::Absent = self.read(LayerKind::Project, &file, &base) {
            self.diagnostics.push(
                Diagnostic::new(
                    Code::MissingConfig,
                    format!("`{}` does not exist", escape_for_display(path.as_os_str())),
                )
                .help("name an existing file"),
            );
        }
        // What leads there is as much ours as the file.
        if let Some(own) = self.own_files.iter_mut().find(|own| own.path == file) {
            own.links.extend(links);
        }
    }

    /// Remembers that `path` is ours, if it exists.
    fn protect(&mut self, path: &AbsPath) {
        match self.host.resolve(path.as_path()) {
            Ok(Resolved { path, links, kind: Some(kind), names }) => {
                let why = OwnFile::CONFIGURATION;
                self.own_files.push(OwnFile { path, kind, links, names, why, is_missing: false });
            }
            Ok(_) => {}
            Err(e) => self.diagnostics.push(Diagnostic::new(
                Code::UnreadablePath,
                format!("cannot determine what `{path}` is: {}", reason(&e)),
            )),
        }
    }

    /// Who can write the program can have the next run do without a sandbox.
    fn protect_executable(&mut self, path: &AbsPath) {
        // What cannot be found is not what the next run starts.
        let is_there = matches!(self.host.kind(path), Ok(Some(FileKind::File)));
        if is_there {
            let (path, why) = (path.clone(), OwnFile::EXECUTABLE);
            let kind = FileKind::File;
            self.own_files.push(OwnFile { path, kind, links: Vec::new(), names: 1, why, is_missing: false });
        }
    }

    /// The state folder is ours before it exists, too: who makes it first would say what is to be
    /// undone.
    fn protect_state(&mut self, state: &AbsPath) -> AbsPath {
        match self.host.resolve(state.as_path()) {
            Ok(Resolved { path, links, kind: None, names }) => {
                let (kind, why) = (FileKind::Directory, OwnFile::CONFIGURATION);
                self.own_files.push(OwnFile { path: path.clone(), kind, links, names, why, is_missing: true });
                path
            }
            Ok(Resolved { path, .. }) => {
                self.protect(state);
                path
            }
            Err(_) => {
                self.protect(state);
                state.clone()
            }
        }
    }
}

fn command_line(request: &Request, cwd: &AbsPath) -> Layer {
    let mut config = ConfigFile::default();
    config.filesystem.ro = flag_entries("--ro", &request.ro);
    config.filesystem.rw = flag_entries("--rw", &request.rw);
    config.filesystem.exclude = flag_entries("--exclude", &request.exclude);
    config.filesystem.presets = request
        .presets
        .iter()
        .map(|written| Sourced {
            value: preset_reference(written),
            origin: Origin::Flag { flag: "--preset", value: written.clone() },
        })
        .collect();
    config.network = request.network.map(|on| flag_setting("--network", on));
    config.docker = request.docker.map(|on| flag_setting("--docker", on));
    Layer {
        kind: LayerKind::CommandLine,
        base: cwd.clone(),
        config,
        protective_only: false,
        needs_trust: false,
        file: None,
        source: None,
    }
}

fn flag_entries(flag: &'static str, values: &[OsString]) -> Vec<Entry> {
    values.iter().map(|value| Entry::new(value.clone(), Origin::Flag { flag, value: value.clone() })).collect()
}

fn flag_setting(flag: &'static str, on: bool) -> Sourced<bool> {
    Sourced { value: on, origin: Origin::Flag { flag, value: OsString::from(on.to_string()) } }
}

/// On the command line `@` may be left out: `--preset git`, `--preset '!git'`.
fn preset_reference(written: &OsStr) -> String {
    let text = escape_for_display(written);
    let (bang, name) = match text.strip_prefix('!') {
        Some(name) => ("!", name),
        None => ("", text.as_str()),
    };
    format!("{bang}@{}", name.strip_prefix('@').unwrap_or(name))
}
