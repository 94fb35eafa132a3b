//! The container engine's socket: whoever reaches it owns the host, so it is hidden unless the policy says otherwise
//! (SPEC B7).

use std::os::unix::ffi::OsStrExt;

use crate::compile::layers::Project;
use crate::compile::policy::Policy;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::Host;
use crate::host::session::Session;
use crate::policy::path::AbsPath;
use crate::policy::rule::{Access, Rule};

/// Sockets of Docker, rootless Docker, Docker Desktop, colima, Rancher Desktop, OrbStack, podman, containerd and LXD, in the
/// order in which one is taken to be in use.
const SOCKETS: [In; 19] = [
    In::System("/var/run/docker.sock"),
    In::Runtime("docker.sock"),
    In::Home(".docker/run/docker.sock"),
    In::Home(".docker/desktop/docker.sock"),
    In::Home(".colima/default/docker.sock"),
    In::Home(".colima/docker.sock"),
    In::Home(".config/colima/default/docker.sock"),
    In::Home(".rd/docker.sock"),
    In::Home(".orbstack/run/docker.sock"),
    In::Runtime("podman/podman.sock"),
    In::Home(".local/share/containers/podman/machine/podman.sock"),
    In::System("/run/docker.sock"),
    In::System("/run/podman/podman.sock"),
    In::Runtime("containerd/containerd.sock"),
    In::System("/run/containerd/containerd.sock"),
    In::System("/var/run/containerd/containerd.sock"),
    In::System("/var/snap/lxd/common/lxd/unix.socket"),
    In::System("/var/lib/lxd/unix.socket"),
    In::System("/var/lib/incus/unix.socket"),
];

/// Where a socket lies.
enum In {
    System(&'static str),
    Runtime(&'static str),
    Home(&'static str),
}

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
    let runtime = session
        .path_var("XDG_RUNTIME_DIR")
        .unwrap_or_else(|| AbsPath::root().join(format!("run/user/{}", session.uid)));
    let known = SOCKETS.iter().map(|socket| match socket {
        In::System(path) => AbsPath::root().join(path),
        In::Runtime(name) => runtime.join(name),
        In::Home(name) => project.home.join(name),
    });
    named(session).into_iter().chain(known).collect()
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
    setting: &crate::compile::policy::Setting<bool>,
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
