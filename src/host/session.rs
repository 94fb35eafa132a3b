//! Everything that comes from outside the file system, as values: who calls, from where, asking for
//! what.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::policy::origin::Source;
use crate::policy::path::{AbsPath, shown};

/// The calling process: what the compiler would otherwise have to ask the operating system for.
#[derive(Clone, Debug)]
pub struct Session {
    pub cwd: AbsPath,
    pub uid: u32,
    pub env: BTreeMap<OsString, OsString>,
    /// The executable of agent-sandbox, without symlinks: what runs inside as the guard. `None` in
    /// a program that embeds this library without it, which then has bwrap alone.
    pub executable: Option<AbsPath>,
}

impl Session {
    /// This process, as if it had been started in `cwd`.
    pub fn of_this_process(cwd: Option<&Path>) -> Result<Self, Diagnostic> {
        Ok(Self {
            cwd: working_directory(cwd)?,
            uid: rustix::process::getuid().as_raw(),
            env: std::env::vars_os().collect(),
            executable: None,
        })
    }

    /// A variable that is set to something.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that holds an absolute path. XDG says to ignore relative ones.
    pub fn path_var(&self, name: &str) -> Option<AbsPath> {
        self.var(name).and_then(AbsPath::normalize)
    }

    pub fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// The kernel follows `named`, component by component: what `link/..` means cannot be told from its
/// spelling.
fn working_directory(named: Option<&Path>) -> Result<AbsPath, Diagnostic> {
    let found = std::fs::canonicalize(named.unwrap_or(Path::new(".")));
    found.and_then(|path| AbsPath::normalize(path).ok_or(io::ErrorKind::NotFound.into())).map_err(|e| {
        let subject = match named {
            Some(path) => format!("the working directory `{}`", shown(path.as_os_str())),
            None => "the working directory".to_owned(),
        };
        let problem = match e.kind() {
            io::ErrorKind::NotFound => "does not exist".to_owned(),
            _ => format!("cannot be used: {}", reason(&e)),
        };
        Diagnostic::new(Code::InvalidCwd, format!("{subject} {problem}"))
            .help("start from an existing directory, or name one with `--cwd DIR`")
    })
}

/// What the caller asks for: the command line without its spelling.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `--config FILE`, instead of the project's own file.
    pub config: Option<PathBuf>,
    /// Where the names of files start from that people are shown; the working directory, if absent.
    pub names_from: Option<AbsPath>,
    pub no_project_config: bool,
    /// The policy as it would be if the project's own file said this. Nothing of it runs.
    pub supposed: Option<Arc<Source>>,
    pub ro: Vec<OsString>,
    pub rw: Vec<OsString>,
    pub exclude: Vec<OsString>,
    /// As written, `!` and `@` included.
    pub presets: Vec<OsString>,
    pub network: Option<bool>,
    pub docker: Option<bool>,
    /// One mount for each decision, redundant ones included.
    pub no_optimize: bool,
    /// Nobody will be there to take a placeholder away, so none is put up.
    pub no_placeholders: bool,
    /// bwrap alone, without a guard inside.
    pub no_guard: bool,
    /// `--cwd`, as written, for what is said to be typed.
    pub cwd: Option<PathBuf>,
}
