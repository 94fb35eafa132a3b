//! A scene: a complete host and a policy for it. Properties are about scenes, and a failure prints
//! its scene.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agent_sandbox::compile::request::Request;
use agent_sandbox::compile::{self, Compiled};
use agent_sandbox::diagnostic::Diagnostics;
use agent_sandbox::host::Host;
use agent_sandbox::host::session::Session;
use agent_sandbox::trust::{self, Granted};
use tempfile::TempDir;

use crate::support;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Rw,
    Ro,
    Exclude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Skip,
    Error,
    Create,
    Block,
}

/// A rule as a user writes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    pub access: Access,
    pub text: Vec<u8>,
    pub missing: Missing,
}

/// `[presets.NAME]`
#[derive(Clone, Debug)]
pub struct Definition {
    pub name: &'static str,
    pub include: Vec<&'static str>,
    pub entries: Vec<Entry>,
}

/// The content of one layer: a configuration file, or the flags.
#[derive(Clone, Default)]
pub struct Document {
    /// `@name` and `!@name`.
    pub presets: Vec<String>,
    pub definitions: Vec<Definition>,
    pub entries: Vec<Entry>,
    pub tmp: Option<&'static str>,
    pub home: Option<&'static str>,
    pub base: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
    Link(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Node {
    pub path: PathBuf,
    pub kind: Kind,
}

/// The choice of the project's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    Found,
    /// `--config FILE`, relative to the working directory.
    Requested(&'static str),
    /// `--no-project-config`
    None,
}

#[derive(Clone)]
pub struct Scene {
    pub nodes: Vec<Node>,
    pub cwd: PathBuf,
    /// Configuration files by their paths.
    pub files: BTreeMap<PathBuf, Document>,
    pub flags: Document,
    pub own: Own,
}

pub const HOME: &str = "/home/u";
pub const SYSTEM_FILE: &str = "/etc/agent-sandbox/config.toml";
pub const USER_FILE: &str = "/home/u/.config/agent-sandbox/config.toml";
pub const STATE: &str = "/home/u/.local/state/agent-sandbox";
pub const PROJECT_FILE: &str = ".agent-sandbox.toml";

/// A scene as real files.
pub struct Stage {
    pub root: TempDir,
}

impl Scene {
    /// Whether a file chooses a private home or a minimal base.
    pub fn has_own_places(&self) -> bool {
        self.files.values().any(|file| file.home == Some("private") || file.base == Some("minimal"))
    }

    pub fn build(&self) -> Stage {
        let stage = Stage { root: tempfile::tempdir().unwrap() };
        for node in &self.nodes {
            let real = stage.real(&node.path);
            match &node.kind {
                Kind::Directory => fs::create_dir_all(real).unwrap(),
                Kind::File => fs::write(with_parent(real), "").unwrap(),
                Kind::Link(target) => symlink(target, with_parent(real)).unwrap(),
            }
        }
        for (path, document) in &self.files {
            fs::write(with_parent(stage.real(path)), document.toml()).unwrap();
        }
        stage
    }

    pub fn request(&self) -> Request {
        let with = |access| {
            let entries = self.flags.entries.iter().filter(move |entry| entry.access == access);
            entries.map(|entry| OsStr::from_bytes(&entry.text).to_owned()).collect()
        };
        Request {
            config: match self.own {
                Own::Requested(file) => Some(file.into()),
                Own::Found | Own::None => None,
            },
            no_project_config: self.own == Own::None,
            ro: with(Access::Ro),
            rw: with(Access::Rw),
            exclude: with(Access::Exclude),
            presets: self.flags.presets.iter().map(Into::into).collect(),
            ..Request::default()
        }
    }

    /// Applies `change` to every document.
    pub fn for_each_document(&mut self, mut change: impl FnMut(&mut Document)) {
        self.files.values_mut().for_each(&mut change);
        change(&mut self.flags);
    }
}

impl Stage {
    pub fn real(&self, path: &Path) -> PathBuf {
        self.root.path().join(path.strip_prefix("/").unwrap())
    }

    pub fn compile(&self, scene: &Scene, request: &Request) -> (Compiled, Diagnostics) {
        self.compile_as(&support::session(scene.cwd.to_str().unwrap()), request)
    }

    pub fn compile_as(&self, session: &Session, request: &Request) -> (Compiled, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let compiled = compile::compile(&Host::at(self.root.path()), session, request, &mut diagnostics);
        (compiled.expect("a project"), diagnostics)
    }

    /// The grants of the project's own file.
    pub fn grants(&self, scene: &Scene, request: &Request, compiled: &Compiled) -> Vec<Granted> {
        let session = support::session(scene.cwd.to_str().unwrap());
        let widening = trust::widening(&Host::at(self.root.path()), &session, compiled, request);
        widening.map(|widening| widening.grants).unwrap_or_default()
    }

    /// The paths of the tree, `/` first; links are not followed.
    pub fn paths(&self) -> Vec<(PathBuf, fs::FileType)> {
        let mut found = vec![(PathBuf::from("/"), fs::metadata(self.root.path()).unwrap().file_type())];
        let mut at = 0;
        while at < found.len() {
            let (path, kind) = found[at].clone();
            if kind.is_dir() {
                for entry in fs::read_dir(self.real(&path)).unwrap().map(Result::unwrap) {
                    found.push((path.join(entry.file_name()), entry.file_type().unwrap()));
                }
            }
            at += 1;
        }
        found
    }
}

fn with_parent(path: PathBuf) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

impl Document {
    pub fn toml(&self) -> String {
        let mut out = String::from("[filesystem]\n");
        let presets: Vec<String> = self.presets.iter().map(|name| quoted(name.as_bytes())).collect();
        out += &format!("presets = [{}]\n", presets.join(", "));
        for (key, value) in [("tmp", self.tmp), ("home", self.home), ("base", self.base)] {
            out += &value.map(|value| format!("{key} = \"{value}\"\n")).unwrap_or_default();
        }
        out += &lists(&self.entries);
        for definition in &self.definitions {
            let include: Vec<String> = definition.include.iter().map(|name| format!("\"@{name}\"")).collect();
            out += &format!("[presets.{}]\ninclude = [{}]\n", definition.name, include.join(", "));
            out += &lists(&definition.entries);
        }
        out
    }
}

fn lists(entries: &[Entry]) -> String {
    let mut out = String::new();
    for (key, access) in [("rw", Access::Rw), ("ro", Access::Ro), ("exclude", Access::Exclude)] {
        let written: Vec<String> = entries.iter().filter(|entry| entry.access == access).map(Entry::toml).collect();
        out += &format!("{key} = [{}]\n", written.join(", "));
    }
    out
}

impl Entry {
    fn toml(&self) -> String {
        let path = quoted(&self.text);
        match self.missing {
            Missing::Skip => path,
            Missing::Error => format!("{{ path = {path}, if-missing = \"error\" }}"),
            Missing::Create => format!("{{ path = {path}, if-missing = \"create\" }}"),
            Missing::Block => format!("{{ path = {path}, if-missing = \"block\" }}"),
        }
    }
}

/// A basic string of TOML, with its special characters escaped.
fn quoted(text: &[u8]) -> String {
    let text = std::str::from_utf8(text).expect("only flags hold bytes that are not UTF-8");
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// A short form, because people read it when a property fails.
impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "in {:?}, own file {:?}", self.cwd, self.own)?;
        for Node { path, kind } in &self.nodes {
            writeln!(f, "  {path:?} {kind:?}")?;
        }
        for (path, document) in &self.files {
            writeln!(f, "{path:?}:\n{document:?}")?;
        }
        write!(f, "flags:\n{:?}", self.flags)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { presets, tmp, home, base, .. } = self;
        writeln!(f, "  presets {presets:?}, tmp {tmp:?}, home {home:?}, base {base:?}")?;
        for Definition { name, include, entries } in &self.definitions {
            writeln!(f, "  @{name} includes {include:?}: {entries:?}")?;
        }
        self.entries.iter().try_for_each(|entry| writeln!(f, "  {entry:?}"))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {:?}", self.access, OsStr::from_bytes(&self.text), self.missing)
    }
}
