//! Attacks on services of the host through their sockets and FIFOs: a read-only mount prevents
//! neither a connection nor a message.

use std::fs;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::outcome::Verdict;
use crate::root::in_a_mount_namespace;
use crate::scene::{BASE_ONLY, DEFAULTS, Scene, run, words};

in_tmp!("private-tmp,socket-masks": connecting_to_a_service_in_tmp);

for_everybody!("socket-masks":
    connecting_to_a_service_in_the_home,
    connecting_to_a_socket_that_the_environment_names,
    connecting_to_a_service_beside_the_home,
);

for_user!("socket-masks":
    connecting_to_a_service_in_a_closed_folder,
    connecting_to_a_service_behind_a_link_in_a_closed_folder,
);

with_mounts!("private-run,socket-masks": connecting_to_a_service_in_run);

everywhere!("landlock-scope": connecting_to_an_abstract_socket);

for_everybody!("own-writes": writing_to_a_fifo_that_a_service_reads);

/// A service of the user that waits for commands.
struct Service(UnixListener);

impl Service {
    fn at(scene: &Scene, path: &Path) -> Self {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        scene.place.give_away();
        Self::of(listener)
    }

    fn of(listener: UnixListener) -> Self {
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn was_reached(&self) -> bool {
        self.0.accept().is_ok()
    }
}

/// Attacks services at these paths, with these variables set.
fn connect(scene: &Scene, paths: &[&Path], variables: &[(&str, String)]) -> Verdict {
    let services: Vec<Service> = paths.iter().map(|path| Service::at(scene, path)).collect();
    let mut command = scene.product();
    command.envs(variables.iter().map(|(name, value)| (name, value))).arg("--");
    words(&mut command, "connect.py", paths);
    let ran = run(command).completed();
    let reached: Vec<bool> = services.iter().map(Service::was_reached).collect();
    Verdict::broken_if(reached.contains(&true), format!("{reached:?} {}", ran.out))
}

// SPEC A9
fn connecting_to_a_service_in_tmp(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let at = |name: &str| scene.place.path().join(name);
    connect(scene, &[&at("tmux-1000/default"), &at("ssh-x/agent.7"), &at(".X11-unix/X0")], &[])
}

// SPEC A9
fn connecting_to_a_service_in_the_home(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let at = |name: &str| scene.home().join(name);
    connect(scene, &[&at(".gnupg/S.gpg-agent"), &at(".local/share/editor/ipc.sock"), &at(".vscode-ipc.sock")], &[])
}

fn connecting_to_a_socket_that_the_environment_names(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    let at = |name: &str| scene.place.path().join(name);
    let (runtime, agent, bus) = (at("runtime"), at("agent/ssh"), at("bus/session"));
    let variables = [
        ("XDG_RUNTIME_DIR", runtime.to_str().unwrap().to_owned()),
        ("SSH_AUTH_SOCK", agent.to_str().unwrap().to_owned()),
        ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", bus.display())),
    ];
    connect(scene, &[&runtime.join("systemd/private"), &agent, &bus], &variables)
}

fn connecting_to_a_service_beside_the_home(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    connect(scene, &[&scene.place.path().join("var/service.sock")], &[])
}

/// The owner has removed the rights of the folder, and a command of the same user could restore
/// them.
// SPEC W1
fn connecting_to_a_service_in_a_closed_folder(scene: &Scene) -> Verdict {
    connect_in_closed_folder(scene, &scene.home().join("mine/closed/deep/socket"))
}

/// The service is in a closed folder, and was started with a path through a link.
fn connecting_to_a_service_behind_a_link_in_a_closed_folder(scene: &Scene) -> Verdict {
    scene.write_home("mine/closed/deep/file", "");
    scene.write_home("open/file", "");
    let link = scene.home().join("open/link");
    symlink("../mine/closed/deep", &link).unwrap();
    connect_in_closed_folder(scene, &link.join("socket"))
}

/// Attacks the service at `mine/closed/deep/socket`, which was started with the path `named`.
fn connect_in_closed_folder(scene: &Scene, named: &Path) -> Verdict {
    scene.policy(BASE_ONLY, "rw = ['~/mine']");
    let closed = scene.home().join("mine/closed");
    let service = Service::at(scene, named);
    let close = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode)).unwrap();
    close(0o600);
    let mut command = scene.product();
    command.arg("--");
    words(&mut command, "open_and_connect.py", &[&closed, &closed.join("deep/socket")]);
    let ran = run(command);
    close(0o700);
    Verdict::broken_if(service.was_reached(), ran.completed().out)
}

fn connecting_to_a_service_in_run(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let ran = in_a_mount_namespace(scene, "host_run.py", &[], "connect.py", &["/run/service/socket"]);
    assert!(ran.says("done"), "{ran:#?}");
    Verdict::broken_if(ran.says("connected"), ran.out)
}

// SPEC A9
fn connecting_to_an_abstract_socket(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let name = scene.place.path().file_name().unwrap().to_str().unwrap().to_owned();
    let name = format!("{name}-{}", scene.is_control());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let service = Service::of(UnixListener::bind_addr(&address).unwrap());
    let ran = scene.attack_with(&["--network"], "connect.py", &[format!("@{name}")]).completed();
    Verdict::broken_if(service.was_reached(), ran.out)
}

// SPEC C13, A9
fn writing_to_a_fifo_that_a_service_reads(scene: &Scene) -> Verdict {
    scene.policy(DEFAULTS, "");
    fs::create_dir_all(scene.place.path().join("beside")).unwrap();
    let fifos = [scene.home().join("commands"), scene.place.path().join("beside/commands")];
    let services: Vec<fs::File> = fifos.iter().map(|path| reader(path)).collect();
    scene.place.give_away();
    let ran = scene.attack("fifo.py", &fifos).completed();
    let heard: Vec<bool> =
        services.into_iter().map(|mut service| !matches!(service.read(&mut [0]), Ok(0) | Err(_))).collect();
    Verdict::broken_if(heard.contains(&true), format!("{heard:?} {}", ran.out))
}

/// Makes a FIFO and opens it for reading. It stays open when a writer closes it.
fn reader(path: &Path) -> fs::File {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    fs::File::options().read(true).write(true).custom_flags(flags).open(path).unwrap()
}
