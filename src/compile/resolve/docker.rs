//! The sockets of container engines. A process that reaches one owns the host, so they are hidden
//! unless the policy opens one (SPEC B7).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use crate::compile::layers::Project;
use crate::compile::policy::Policy;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, reason};
use crate::host::{Host, Session};
use crate::policy::{AbsPath, Access, Rule};

/// Sockets of Docker, rootless Docker, Docker Desktop, colima, Rancher Desktop, OrbStack, podman,
/// containerd and LXD. The first that exists is taken to be in use. `~` is the home, and `$` is
/// `XDG_RUNTIME_DIR`.
const SOCKETS: [&str; 19] = [
    "/var/run/docker.sock",
    "$/docker.sock",
    "~/.docker/run/docker.sock",
    "~/.docker/desktop/docker.sock",
    "~/.colima/default/docker.sock",
    "~/.colima/docker.sock",
    "~/.config/colima/default/docker.sock",
    "~/.rd/docker.sock",
    "~/.orbstack/run/docker.sock",
    "$/podman/podman.sock",
    "~/.local/share/containers/podman/machine/podman.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "$/containerd/containerd.sock",
    "/run/containerd/containerd.sock",
    "/var/run/containerd/containerd.sock",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/lib/incus/unix.socket",
];

pub(super) fn rules(
    host: &Host,
    session: &Session,
    project: &Project,
    policy: &Policy,
    diagnostics: &mut Diagnostics,
) -> Vec<Rule> {
    let setting = &policy.docker;
    let mut sockets = Vec::new();
    for candidate in candidates(session, project) {
        match host.resolve(candidate.as_path()) {
            // `/var/run` is a link to `/run` on most hosts.
            Ok(resolved) if resolved.kind.is_some() && !sockets.contains(&resolved.path) => sockets.push(resolved.path),
            Ok(_) => {}
            // Another user's directory: the command runs with our rights and cannot get there
            // either.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            Err(e) => {
                let message = format!("cannot examine the socket `{candidate}`: {}", reason(&e));
                diagnostics.push(Diagnostic::new(Code::UnreadablePath, message).at(&setting.origin));
            }
        }
    }
    if setting.value && sockets.is_empty() {
        let message = "docker is on, but no socket was found";
        let help = "start the engine, or set `DOCKER_HOST=unix:///path/to/docker.sock`";
        diagnostics.push(Diagnostic::new(Code::NoDockerSocket, message).at(&setting.origin).help(help));
    }
    let rule = |(index, socket)| {
        let in_use = setting.value && index == 0;
        let access = if in_use { Access::Rw } else { Access::Exclude };
        Rule::exact(access, socket, setting.layer, setting.origin.clone())
    };
    sockets.into_iter().enumerate().map(rule).collect()
}

fn candidates(session: &Session, project: &Project) -> Vec<AbsPath> {
    let runtime = session
        .path_var("XDG_RUNTIME_DIR")
        .unwrap_or_else(|| AbsPath::root().join(format!("run/user/{}", session.uid)));
    let known = SOCKETS.iter().map(|socket| match socket.split_once('/') {
        Some(("~", name)) => project.home.join(name),
        Some(("$", name)) => runtime.join(name),
        _ => AbsPath::root().join(socket),
    });
    let named = ["DOCKER_HOST", "CONTAINER_HOST"].iter().filter_map(|name| session.var(name));
    let named = named.filter_map(|value| value.as_bytes().strip_prefix(b"unix://"));
    named.filter_map(|path| AbsPath::normalize(OsStr::from_bytes(path))).chain(known).collect()
}
