//! What can only be tried by a process that ends thereafter: it enters namespaces, mounts, and confines itself.

use std::fs;
use std::io;
use std::path::Path;

use landlock::{AccessFs, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr};
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

use crate::diagnostic::reason;

/// The word that asks our binary to try.
pub const SUBCOMMAND: &str = "__doctor";

/// What came of it. An `Err` says why not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// The version of Landlock that the kernel has.
    pub landlock: Option<i32>,
    pub user_namespace: Result<(), String>,
    /// An overlay in a user namespace.
    pub overlay: Result<(), String>,
}

pub fn attempt() -> Tried {
    let user_namespace = crate::sys::namespaces::enter().map_err(|e| reason(&e));
    let overlay = user_namespace.clone().and_then(|()| overlay().map_err(|e| reason(&e)));
    // Last: it confines this process.
    Tried { landlock: landlock(), user_namespace, overlay }
}

fn landlock() -> Option<i32> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::MakeSock);
    match ruleset.and_then(Ruleset::create).and_then(|created| created.restrict_self()).ok()?.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => Some(kernel_abi.unwrap_or(effective_abi as i32)),
        _ => None,
    }
}

/// In a mount namespace of our own: nobody else sees what is mounted.
fn overlay() -> io::Result<()> {
    let place = Path::new("/tmp");
    mount("tmpfs", place, "tmpfs", MountFlags::empty(), c"mode=0700")?;
    let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| place.join(name));
    for folder in [&lower, &upper, &work, &merged] {
        fs::create_dir(folder)?;
    }
    let options = c"userxattr,lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work";
    Ok(mount("overlay", &merged, "overlay", MountFlags::empty(), options)?)
}
