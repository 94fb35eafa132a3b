//! Everything that comes from outside the file system, as values: who calls, from where, asking for what.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::path::AbsPath;

/// The calling process: what the compiler would otherwise have to ask the operating system for.
#[derive(Clone, Debug)]
pub struct Session {
    pub cwd: AbsPath,
    pub uid: u32,
    pub env: BTreeMap<OsString, OsString>,
}

impl Session {
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

/// What the caller asks for: the command line without its spelling.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `--config FILE`, instead of the project's own file.
    pub config: Option<PathBuf>,
    pub no_project_config: bool,
    pub ro: Vec<OsString>,
    pub rw: Vec<OsString>,
    pub exclude: Vec<OsString>,
    /// As written, `!` and `@` included.
    pub presets: Vec<OsString>,
    pub network: Option<bool>,
    pub docker: Option<bool>,
    /// One mount for each decision, redundant ones included.
    pub no_optimize: bool,
}
