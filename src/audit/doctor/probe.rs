//! Tries steps that a process cannot undo: entering namespaces, mounting, and confining itself. A
//! separate process tries them and exits.
#![expect(clippy::disallowed_methods, reason = "a file system of its own, in a mount namespace of its own")]

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use landlock::{AccessFs, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr};
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

use crate::diagnostic::reason;
use crate::host::Session;
use crate::policy::AbsPath;
use crate::sys::rlimits;

/// The argument that makes our binary the probe.
pub const SUBCOMMAND: &str = "__doctor";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    pub landlock: Option<i32>,
    /// The reason why this process cannot make a user namespace.
    pub no_user_namespace: Option<String>,
    /// The reason why it cannot limit the number of processes in a user namespace.
    pub no_process_limit: Option<String>,
    /// The reason why it cannot mount an overlay in a user namespace.
    pub no_overlay: Option<String>,
}

/// Starts a separate process that tries the steps, and reads its answer.
pub(super) fn ask(session: &Session) -> Tried {
    let failed = |why: String| Tried {
        landlock: None,
        no_user_namespace: Some(why.clone()),
        no_process_limit: Some(why.clone()),
        no_overlay: Some(why),
    };
    let executable = session.executable.as_ref().map_or(Path::new("/proc/self/exe"), AbsPath::as_path);
    match Command::new(executable).arg(SUBCOMMAND).stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Err(e) => failed(reason(&e)),
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| failed(format!("the probe ended with {}", output.status))),
    }
}

pub fn attempt() -> Tried {
    let no_user_namespace = crate::sys::namespaces::enter().err().map(|e| reason(&e));
    let no_process_limit = no_user_namespace.clone().or_else(|| match rlimits::limit_processes(64) {
        Ok(true) => None,
        Ok(false) => Some(rlimits::why_not_processes().to_owned()),
        Err(e) => Some(reason(&e)),
    });
    let no_overlay = no_user_namespace.clone().or_else(|| overlay().err().map(|e| reason(&e)));
    // `landlock` runs last, because it confines this process.
    Tried { landlock: landlock(), no_user_namespace, no_process_limit, no_overlay }
}

fn landlock() -> Option<i32> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::MakeSock);
    match ruleset.and_then(Ruleset::create).and_then(|created| created.restrict_self()).ok()?.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
        _ => None,
    }
}

/// Mounts an overlay. The mount namespace is our own, so no other process sees it.
fn overlay() -> io::Result<()> {
    let place = Path::new("/tmp");
    mount("tmpfs", place, "tmpfs", MountFlags::empty(), c"mode=0700")?;
    for folder in ["lower", "upper", "work", "merged"] {
        fs::create_dir(place.join(folder))?;
    }
    let options = c"userxattr,lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work";
    Ok(mount("overlay", place.join("merged"), "overlay", MountFlags::empty(), options)?)
}
