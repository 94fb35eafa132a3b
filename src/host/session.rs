//! The calling process, as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::diagnostic::{Code, Diagnostic, reason};
use crate::policy::{AbsPath, escape_for_display};

/// The calling process. The compiler takes these values from here, and never from the operating
/// system.
#[derive(Clone, Debug)]
pub struct Session {
    pub cwd: AbsPath,
    pub uid: u32,
    pub env: BTreeMap<OsString, OsString>,
    /// The executable of agent-sandbox, without symlinks. It runs in the sandbox as the guard.
    pub executable: Option<AbsPath>,
    /// The memory of this machine, in bytes.
    pub memory: u64,
}

impl Session {
    /// This process, as if it had been started in `cwd`.
    pub fn of_this_process(cwd: Option<&Path>) -> Result<Self, Diagnostic> {
        Ok(Self {
            cwd: working_directory(cwd)?,
            uid: rustix::process::getuid().as_raw(),
            env: std::env::vars_os().collect(),
            executable: None,
            memory: memory(),
        })
    }

    /// The value of a variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The value of a variable, if it is an absolute path. XDG says to ignore relative paths.
    pub fn path_var(&self, name: &str) -> Option<AbsPath> {
        self.var(name).and_then(AbsPath::normalize)
    }

    /// The absolute folders of PATH. Relative folders do not count: they may be in the project.
    pub fn path_folders(&self) -> impl Iterator<Item = &Path> {
        let folders = self.var("PATH").unwrap_or_default().as_bytes().split(|byte| *byte == b':');
        folders.map(|folder| Path::new(OsStr::from_bytes(folder))).filter(|folder| folder.is_absolute())
    }

    pub fn is_root(&self) -> bool {
        self.uid == 0
    }
}

fn memory() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram.saturating_mul(machine.mem_unit.into())
}

/// The working directory, as the kernel resolves it: the text `link/..` does not say where it
/// leads.
fn working_directory(named: Option<&Path>) -> Result<AbsPath, Diagnostic> {
    let found = std::fs::canonicalize(named.unwrap_or(Path::new(".")));
    found.and_then(|path| AbsPath::normalize(path).ok_or(io::ErrorKind::NotFound.into())).map_err(|e| {
        let subject = match named {
            Some(path) => format!("the working directory `{}`", escape_for_display(path.as_os_str())),
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
