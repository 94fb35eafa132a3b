//! Network, docker and presets, on and off, for each set of sockets and each access that a rule
//! gives to the folder of a socket.

use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::Code;
use agent_sandbox::model::Namespace;

use crate::dimensions::{Access, Around, Docker, Network, Presets, Sockets};
use crate::support::{Tree, abs, model};
use crate::{Table, seen};

const PROJECT: &str = "/home/u/proj";
const ROWS: usize =
    Network::ALL.len() * Docker::ALL.len() * Presets::ALL.len() * Sockets::ALL.len() * Around::ALL.len();

// SPEC L7, B7
#[test]
fn network_docker_and_presets() {
    let mut table = Table::default();
    for sockets in Sockets::ALL {
        for around in Around::ALL {
            let tree = tree(*sockets, *around);
            for network in Network::ALL {
                for docker in Docker::ALL {
                    for presets in Presets::ALL {
                        let case = Case {
                            network: *network,
                            docker: *docker,
                            presets: *presets,
                            sockets: *sockets,
                            around: *around,
                        };
                        table.row(
                            format_args!(
                                "sockets {sockets:4} ~/.docker {around:7} | network {network:3} docker {docker:3} presets {presets:3}"
                            ),
                            &case.expect().to_string(),
                            &case.compile(&tree).to_string(),
                        );
                    }
                }
            }
        }
    }
    table.check("settings", ROWS);
}

fn tree(sockets: Sockets, around: Around) -> Tree {
    let tree = Tree::new([
        "etc/resolv.conf -> /run/systemd/resolve/stub-resolv.conf",
        "run/systemd/resolve/stub-resolv.conf",
        "var/run -> /run",
        "home/u/.docker/run/",
        "home/u/.docker/contexts/",
        "home/u/proj/src/",
        "home/u/proj/.env",
    ]);
    match sockets {
        Sockets::None => {}
        Sockets::Home => tree.add("home/u/.docker/run/docker.sock"),
        Sockets::Both => {
            tree.add("home/u/.docker/run/docker.sock");
            tree.add("run/docker.sock");
        }
    }
    let user = "home/u/.config/agent-sandbox/config.toml = [filesystem]";
    match around {
        Around::Silent => {}
        Around::Rw => tree.add(&format!("{user}\nrw = [\"~/.docker\"]")),
        Around::Exclude => tree.add(&format!("{user}\nexclude = [\"~/.docker\"]")),
    }
    tree
}

struct Case {
    network: Network,
    docker: Docker,
    presets: Presets,
    sockets: Sockets,
    around: Around,
}

/// The effect of the settings.
struct Effect {
    network: bool,
    names: Access,
    system_socket: Access,
    home_socket: Access,
    beside: Access,
    project: Access,
    env: Access,
    warns: bool,
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { network, names, system_socket, home_socket, beside, project, env, warns } = self;
        write!(
            f,
            "shared {network:5} dns {names:7} /run socket {system_socket:7} home socket {home_socket:7} \
             beside {beside:7} project {project} .env {env:7} warning {warns}"
        )
    }
}

impl Case {
    /// SPEC B6, B7 and P1.
    fn expect(&self) -> Effect {
        let on = self.docker == Docker::On;
        let beside = match self.around {
            Around::Silent => Access::Ro,
            Around::Rw => Access::Rw,
            Around::Exclude => Access::Exclude,
        };
        Effect {
            network: self.network == Network::On,
            names: if self.network == Network::On { Access::Ro } else { Access::Exclude },
            system_socket: if on && self.sockets == Sockets::Both { Access::Rw } else { Access::Exclude },
            home_socket: match self.sockets {
                Sockets::None => beside,
                Sockets::Home if on => Access::Rw,
                Sockets::Home | Sockets::Both => Access::Exclude,
            },
            beside,
            project: if self.presets == Presets::On { Access::Rw } else { Access::Ro },
            env: if self.presets == Presets::On { Access::Exclude } else { Access::Ro },
            warns: on && self.sockets == Sockets::None,
        }
    }

    fn compile(&self, tree: &Tree) -> Effect {
        let request = Request {
            network: Some(self.network == Network::On),
            docker: Some(self.docker == Docker::On),
            presets: if self.presets == Presets::On { Vec::new() } else { vec!["!all".into()] },
            ..Request::default()
        };
        let (compiled, diagnostics) = tree.compile(PROJECT, &request);
        let model = model(&compiled.unwrap());
        let at = |path: &str| seen(&model, &abs(path));
        Effect {
            network: !model.is_unshared(Namespace::Net),
            names: at("/run/systemd/resolve/stub-resolv.conf"),
            system_socket: at("/run/docker.sock"),
            home_socket: at("/home/u/.docker/run/docker.sock"),
            beside: at("/home/u/.docker/contexts"),
            project: at("/home/u/proj/src"),
            env: at("/home/u/proj/.env"),
            warns: diagnostics.iter().map(|diagnostic| diagnostic.code).eq([Code::NoDockerSocket]),
        }
    }
}
