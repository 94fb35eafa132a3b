//! The libraries of the guard, which is this program and finds its libraries inside.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::compile::plan::Plan;
use crate::diagnostic::{Code, Diagnostic};
use crate::policy::path::AbsPath;

/// Refuses a policy that hides a library which the guard was linked with. A static build has none.
pub(super) fn check(plan: &Plan, executable: Option<&AbsPath>) -> Result<(), Diagnostic> {
    // Without `/proc` there is no sandbox, and bwrap says so.
    let Ok(maps) = fs::read("/proc/self/maps") else { return Ok(()) };
    let mut needed = mapped(&maps).into_iter().filter(|file| Some(file) != executable);
    let Some(file) = needed.find(|file| !plan.view(file).shows_host()) else { return Ok(()) };
    let message = format!("the guard needs `{file}`, which the sandbox does not show");
    Err(Diagnostic::new(Code::GuardUnavailable, message)
        .help("show it with a `ro` rule, use a static build, or run on bwrap alone with `--no-guard`"))
}

/// The files that are mapped into a process: `ADDRESS MODE OFFSET DEVICE INODE    PATH`.
fn mapped(maps: &[u8]) -> BTreeSet<AbsPath> {
    maps.split(|b| *b == b'\n')
        .filter_map(|line| line.iter().position(|b| *b == b'/').map(|at| &line[at..]))
        .filter_map(|path| AbsPath::normalize(OsStr::from_bytes(path)))
        .filter(|path| path.as_path().is_file())
        .collect()
}
