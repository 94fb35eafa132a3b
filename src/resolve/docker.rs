//! The container engine's socket: whoever reaches it owns the host, so it is hidden unless the policy says otherwise
//! (SPEC B7).

use std::os::unix::ffi::OsStrExt;

use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::Host;
use crate::layers::Project;
use crate::path::AbsPath;
use crate::presets::Policy;
use crate::rule::{Access, Rule};
use crate::session::Session;

/// Sockets of Docker, rootless Docker, Docker Desktop, colima, podman and containerd. The order is that in which
/// one is taken to be in use.
const SYSTEM_SOCKETS: [&str; 5] = [
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/var/run/containerd/containerd.sock",
];
const RUNTIME_SOCKETS: [&str; 3] = ["docker.sock", "podman/podman.sock", "containerd/containerd.sock"];
const HOME_SOCKETS: [&str; 8] = [
    ".docker/run/docker.sock",
    ".docker/desktop/docker.sock",
    ".colima/default/docker.sock",
    ".colima/docker.sock",
    ".config/colima/default/docker.sock",
    ".local/share/containers/podman/machine/podman.sock",
    ".rd/docker.sock",
    ".orbstack/run/docker.sock",
];

pub(super) fn rules(
    host: &Host,
    session: &Session,
    project: &Project,
    policy: &Policy,
    diagnostics: &mut Diagnostics,
) -> Vec<Rule> {
    let setting = &policy.docker;
    let sockets = existing(host, candidates(session, project), setting, diagnostics);
    if setting.value && sockets.is_empty() {
        diagnostics.push(
            Diagnostic::new(Code::NoDockerSocket, "docker is on, but no socket was found")
                .at(&setting.origin)
                .help("start the engine, or set `DOCKER_HOST=unix:///path/to/docker.sock`"),
        );
    }
    sockets
        .iter()
        .enumerate()
        .map(|(index, socket)| {
            let in_use = setting.value && index == 0;
            let access = if in_use { Access::Rw } else { Access::Exclude };
            Rule::exact(access, socket.clone(), setting.layer, setting.origin.clone())
        })
        .collect()
}

fn candidates(session: &Session, project: &Project) -> Vec<AbsPath> {
    let system = |path: &&str| AbsPath::normalize(path);
    let runtime = session
        .path_var("XDG_RUNTIME_DIR")
        .unwrap_or_else(|| AbsPath::root().join(format!("run/user/{}", session.uid)));
    named(session)
        .into_iter()
        .chain(SYSTEM_SOCKETS[..1].iter().filter_map(system))
        .chain(RUNTIME_SOCKETS.iter().map(|name| runtime.join(name)))
        .chain(HOME_SOCKETS.iter().map(|name| project.home.join(name)))
        .chain(SYSTEM_SOCKETS[1..].iter().filter_map(system))
        .collect()
}

/// Sockets that the environment names.
fn named(session: &Session) -> Vec<AbsPath> {
    ["DOCKER_HOST", "CONTAINER_HOST"]
        .iter()
        .filter_map(|name| session.var(name))
        .filter_map(|value| value.as_bytes().strip_prefix(b"unix://"))
        .filter_map(|path| AbsPath::normalize(std::ffi::OsStr::from_bytes(path)))
        .collect()
}

/// The candidates that exist, by their resolved paths, each once. `/var/run` is a link to `/run` on most hosts.
fn existing(
    host: &Host,
    candidates: Vec<AbsPath>,
    setting: &crate::presets::Setting<bool>,
    diagnostics: &mut Diagnostics,
) -> Vec<AbsPath> {
    let mut found = Vec::new();
    for candidate in candidates {
        match host.resolve(candidate.as_path()) {
            Ok(resolved) if resolved.kind.is_some() && !found.contains(&resolved.path) => found.push(resolved.path),
            Ok(_) => {}
            // Somebody else's runtime folder. The command runs with our rights and cannot get there either.
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {}
            Err(e) => diagnostics.push(
                Diagnostic::new(
                    Code::UnreadablePath,
                    format!("cannot look at the socket `{candidate}`: {}", reason(&e)),
                )
                .at(&setting.origin),
            ),
        }
    }
    found
}
