//! The parts of `/run` that stay visible: the way to name resolution, and NixOS's view of its own
//! system.

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host};
use crate::policy::path::AbsPath;
use crate::sys::ablate::{self, Mitigation};

/// Parts of the host's `/run` that stay visible, read-only. Sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    pub mounts: Vec<RuntimeMount>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuntimeMount {
    pub path: AbsPath,
    /// The target of a symlink in `/run`; `None` for a bind.
    pub symlink: Option<std::path::PathBuf>,
    pub why: &'static str,
}

const RESOLV_CONF: &str = "/etc/resolv.conf";
const NIXOS: [&str; 2] = ["/run/current-system", "/run/wrappers"];

/// Finds the parts of the host's `/run` that stay visible, with or without the network.
pub(crate) fn find(host: &Host, network: bool, diagnostics: &mut Diagnostics) -> Runtime {
    let mut mounts = Vec::new();
    if network {
        mounts.extend(name_resolution(host, diagnostics));
    }
    mounts.extend(NIXOS.iter().filter_map(|path| nixos(host, path)));
    if ablate::is_off(Mitigation::PrivateRun) {
        mounts.extend(everything(host));
    }
    mounts.sort();
    mounts.dedup();
    Runtime { mounts }
}

/// `/etc/resolv.conf` is often a chain of links into `/run`. Each hop there must be visible; its
/// folder is bound, not the file, because resolvers replace the file by renaming a new one over it.
fn name_resolution(host: &Host, diagnostics: &mut Diagnostics) -> Vec<RuntimeMount> {
    let resolved = match host.resolve(std::path::Path::new(RESOLV_CONF)) {
        Ok(resolved) => resolved,
        Err(e) => {
            diagnostics.push(
                Diagnostic::new(Code::UnreadablePath, format!("cannot follow `{RESOLV_CONF}`: {}", reason(&e)))
                    .help("repair it, or turn the network off"),
            );
            return Vec::new();
        }
    };
    if resolved.kind.is_none() {
        return Vec::new();
    }
    let run = AbsPath::root().child("run");
    resolved
        .links
        .iter()
        .chain([&resolved.path])
        .filter(|hop| hop.is_below(&run))
        .map(|hop| {
            let (path, symlink) = match hop.parent().filter(|folder| *folder != run) {
                Some(folder) => (folder, None),
                // A link in `/run` itself is made anew: nothing can be mounted in its place.
                None => (hop.clone(), std::fs::read_link(host.real(hop)).ok()),
            };
            RuntimeMount { path, symlink, why: "name resolution" }
        })
        .collect()
}

/// The folders of the host's `/run`, as they would show if it were not private.
fn everything(host: &Host) -> Vec<RuntimeMount> {
    let run = AbsPath::root().child("run");
    let entries = std::fs::read_dir(host.real(&run)).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let shown = folders.map(|entry| entry.file_name()).filter(|name| name != "user" && name != "agent-sandbox");
    shown.map(|name| RuntimeMount { path: run.child(name), symlink: None, why: "not private" }).collect()
}

fn nixos(host: &Host, path: &str) -> Option<RuntimeMount> {
    const WHY: &str = "NixOS runs its programs from here";
    let path = AbsPath::normalize(path)?;
    // Absent on every other system; what cannot be looked at cannot be shown either.
    let found = std::fs::symlink_metadata(host.real(&path)).ok()?;
    if found.is_symlink() {
        let target = std::fs::read_link(host.real(&path)).ok()?;
        return Some(RuntimeMount { path, symlink: Some(target), why: WHY });
    }
    match host.kind(&path) {
        Ok(Some(FileKind::Directory)) => Some(RuntimeMount { path, symlink: None, why: WHY }),
        _ => None,
    }
}
