//! The request of the caller, as a value.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use crate::compile::config::{BaseTree, Home};
use crate::policy::{AbsPath, Limit, Source};

/// The request of the caller: the parsed command line.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `--config FILE`, instead of the project's own file.
    pub config: Option<PathBuf>,
    /// File names are shown relative to this directory instead of the working directory.
    pub names_from: Option<AbsPath>,
    pub no_project_config: bool,
    /// Compiles as if the project's own file had this content. Such a policy never runs.
    pub supposed: Option<Arc<Source>>,
    pub ro: Vec<OsString>,
    pub rw: Vec<OsString>,
    pub exclude: Vec<OsString>,
    /// `--inject FROM:TO`.
    pub inject: Vec<(OsString, OsString)>,
    /// The presets as written, with `!` and `@`.
    pub presets: Vec<OsString>,
    pub network: Option<bool>,
    pub docker: Option<bool>,
    pub limits: Vec<Limit>,
    pub home: Option<Home>,
    pub base: Option<BaseTree>,
    /// Plans one mount for each decision, also for redundant ones.
    pub no_optimize: bool,
    /// Creates no placeholder, for example because no process will be there to remove it.
    pub no_placeholders: bool,
    /// Private files are read-only, because this machine or this run cannot give copies.
    pub no_private: bool,
    /// No supervisor stays: this process becomes bwrap.
    pub exec: bool,
    /// Starts bwrap alone, without a guard inside.
    pub no_guard: bool,
    /// `--cwd` as written, for commands that diagnostics suggest.
    pub cwd: Option<PathBuf>,
}

impl Request {
    /// The values of `--inject`, as written.
    pub(crate) fn injections(&self) -> impl Iterator<Item = OsString> {
        self.inject.iter().map(|(from, to)| [from.as_os_str(), OsStr::new(":"), to].into_iter().collect())
    }
}
