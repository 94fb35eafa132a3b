//! The parts of `/run` that stay visible: the files that name resolution needs, and the links from
//! which NixOS runs its programs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{FileKind, Host};
use crate::policy::{AbsPath, places};
use crate::sys::ablate::{self, Mitigation};

/// Parts of the host's `/run` that stay visible, read-only. Sorted.
pub type Runtime = Vec<RuntimeMount>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuntimeMount {
    pub path: AbsPath,
    /// The target of a symlink in `/run`; `None` for a bind.
    pub symlink: Option<PathBuf>,
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
    mounts
}

/// `/etc/resolv.conf` is often a chain of links into `/run`. Each hop in `/run` must be visible.
/// The directory of the hop is bound, not the file, because resolvers replace the file by renaming
/// a new one over it.
fn name_resolution(host: &Host, diagnostics: &mut Diagnostics) -> Vec<RuntimeMount> {
    let resolved = match host.resolve(Path::new(RESOLV_CONF)) {
        Ok(resolved) if resolved.kind.is_some() => resolved,
        Ok(_) => return Vec::new(),
        Err(e) => {
            let message = format!("cannot follow `{RESOLV_CONF}`: {}", reason(&e));
            diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).help("repair it, or turn the network off"));
            return Vec::new();
        }
    };
    let run = places::at(places::RUN);
    let hops = resolved.links.iter().chain([&resolved.path]).filter(|hop| hop.is_below(&run));
    let mount = |hop: &AbsPath| {
        let (path, symlink) = match hop.parent().filter(|folder| *folder != run) {
            Some(folder) => (folder, None),
            // Nothing can be mounted on a link in `/run` itself, so the link is created again.
            None => (hop.clone(), fs::read_link(host.real(hop)).ok()),
        };
        RuntimeMount { path, symlink, why: "name resolution" }
    };
    hops.map(mount).collect()
}

/// All directories of the host's `/run`, for the tests that switch the private `/run` off.
fn everything(host: &Host) -> Vec<RuntimeMount> {
    let run = places::at(places::RUN);
    let entries = host.read_dir(&run).unwrap_or_default();
    let folders = entries.into_iter().filter(|entry| entry.kind == FileKind::Directory);
    let shown = folders.map(|entry| entry.name).filter(|name| name != "user" && name != "agent-sandbox");
    shown.map(|name| RuntimeMount { path: run.child(name), symlink: None, why: "not private" }).collect()
}

/// The mount or link for one of `NIXOS`. These paths exist on NixOS only.
fn nixos(host: &Host, path: &str) -> Option<RuntimeMount> {
    let path = places::at(path);
    let found = fs::symlink_metadata(host.real(&path)).ok()?;
    let symlink = if found.is_symlink() { Some(fs::read_link(host.real(&path)).ok()?) } else { None };
    let is_visible = symlink.is_some() || found.is_dir();
    is_visible.then_some(RuntimeMount { path, symlink, why: "NixOS runs its programs from here" })
}
