//! The network, and the files of name resolution.

use std::io::Write;
use std::net::TcpListener;

use crate::sandbox::{policy, python, sandbox, succeeded};
use crate::support::{Place, binary, stdout};

everywhere!(
    the_network_is_the_hosts_by_default,
    without_the_network_there_is_only_an_own_loopback,
    names_are_resolved_as_outside,
    a_resolver_file_in_run_is_readable_with_the_network_only,
);

const CONNECT: &str = "
import errno, socket, sys
try:
    print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=60).makefile().read())
except OSError as error:
    print(errno.errorcode[error.errno])
";

const INTERFACES: &str = "import socket; print(*sorted(name for _, name in socket.if_nameindex()))";

fn the_network_is_the_hosts_by_default(place: &Place) {
    policy(place, "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let greeter = std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"hello").unwrap());
    assert_eq!(python(sandbox(place).arg("--"), CONNECT, &[&port]), "hello\n");
    greeter.join().unwrap();
    let outside = python(&mut place.command("env"), INTERFACES, &[]);
    assert_eq!(python(sandbox(place).arg("--"), INTERFACES, &[]), outside);
}

// SPEC B1
fn without_the_network_there_is_only_an_own_loopback(place: &Place) {
    policy(place, "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let off = || {
        let mut command = sandbox(place);
        command.args(["--network=false", "--"]);
        command
    };
    assert_eq!(python(&mut off(), CONNECT, &[&port]), "ECONNREFUSED\n");
    assert_eq!(python(&mut off(), INTERFACES, &[]), "lo\n");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a process inside connected");
}

fn names_are_resolved_as_outside(place: &Place) {
    policy(place, "");
    let read = ["cat", "/etc/resolv.conf"];
    let outside = place.command(read[0]).arg(read[1]).output().unwrap();
    let inside = sandbox(place).arg("--").args(read).output().unwrap();
    assert_eq!((inside.status, stdout(&inside)), (outside.status, stdout(&outside)));
}

/// The test makes its own host in a mount namespace: `/run` holds the files of a resolver, and
/// `/etc/resolv.conf` is a link to one of them.
// SPEC B6
fn a_resolver_file_in_run_is_readable_with_the_network_only(place: &Place) {
    const HOST: &str = r#"
        set -e
        link=$1 binary=$2 etc=$3
        shift 3
        mount -t tmpfs tmpfs /run
        mkdir -p /run/systemd/resolve /run/other
        echo nameserver 192.0.2.1 >/run/systemd/resolve/stub-resolv.conf
        cp /run/systemd/resolve/stub-resolv.conf /run/resolv.conf
        ln -s systemd/resolve/stub-resolv.conf /run/linked.conf
        ln -sfn "$link" "$etc/resolv.conf"
        mount --bind "$etc" /etc
        exec "$binary" --allow-root "$@" -- sh -c '
            cat /etc/resolv.conf 2>/dev/null || echo unreadable
            test ! -e /run/other
            (: >>/etc/resolv.conf) 2>/dev/null && echo writable || true'
    "#;
    policy(place, "");
    place.write("etc/hostname", "");
    for link in ["../run/systemd/resolve/stub-resolv.conf", "/run/resolv.conf", "/run/linked.conf"] {
        for (network, expected) in [("true", "nameserver 192.0.2.1\n"), ("false", "unreadable\n")] {
            let mut host = place.command("unshare");
            host.args(["--user", "--map-root-user", "--mount", "sh", "-c", HOST, "sh", link]);
            host.arg(binary()).arg(place.path().join("etc")).arg(format!("--network={network}"));
            assert_eq!(succeeded(host.output().unwrap()), expected, "{link}, network = {network}");
        }
    }
}
