//! Ways around a mount: sockets of services, other names of a file, other mounts of a folder, the
//! binary of agent-sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::{BASE_ONLY, failed, policy, python, run, shell, succeeded, write};
use crate::support::{Place, binary, stderr};

everywhere!(
    a_service_in_the_home_cannot_be_reached,
    a_service_in_the_project_can_be_reached,
    a_service_can_be_allowed_by_name,
    a_service_that_only_the_environment_names_cannot_be_reached,
    a_protected_file_with_another_name_is_refused,
    a_folder_that_is_mounted_twice_is_hidden_twice,
    our_own_program_cannot_be_replaced,
    folders_that_are_nested_too_deep_stop_the_start,
);

/// A walk to the end of thousands of nested folders would take minutes.
// SPEC G6
fn folders_that_are_nested_too_deep_stop_the_start(place: &Place) {
    policy(place, "exclude = ['**/*.secret']\n");
    let nest = |depth: usize| {
        let script = format!(
            "import os\nos.mkdir('top')\nos.chdir('top')\nfor _ in range({depth}):\n os.mkdir('d' * 200)\n os.chdir('d' * 200)\n"
        );
        succeeded(run(place, &["--", "python3", "-c", &script]));
    };
    nest(300);
    assert_eq!(shell(place, "echo ran; rm -rf top"), "ran\n", "a path of 60,000 bytes is searched");
    nest(350);
    let output = run(place, &["--", "true"]);
    failed(&output, 125, &format!("error[unreadable-path]: folders in `{}/top/ddd", place.project().display()));
    assert!(stderr(&output).contains("help: remove them, or exclude that folder"), "{}", stderr(&output));
}

/// Connects to each path as a stream and as a datagram socket, and prints the results.
const CONNECT: &str = "
import errno, socket, sys
for path in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            socket.socket(socket.AF_UNIX, kind).connect(path)
            print('connected')
        except OSError as error:
            print(errno.errorcode[error.errno])
";

/// Runs a command while one socket listens for streams and one receives datagrams.
const SERVE: &str = "
import os, socket, subprocess, sys
stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
stream.bind(sys.argv[1])
stream.listen()
datagram.bind(sys.argv[2])
result = subprocess.run(sys.argv[3:])
os.unlink(sys.argv[1])
os.unlink(sys.argv[2])
sys.exit(result.returncode)
";

struct Services<'p> {
    place: &'p Place,
    stream: PathBuf,
    datagram: PathBuf,
}

impl<'p> Services<'p> {
    fn new(place: &'p Place, folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        place.give_away();
        Self { place, stream: folder.join("a s"), datagram: folder.join("d") }
    }

    fn paths(&self) -> [&str; 2] {
        [self.stream.to_str().unwrap(), self.datagram.to_str().unwrap()]
    }

    /// Starts the services and, while they run, the command line that the caller adds. They are in
    /// a network namespace of their own, so that other tests do not see their sockets.
    fn serve(&self) -> Command {
        let mut command = self.place.command("unshare");
        command.args(self.namespace()).args(["/usr/bin/python3", "-I", "-c", SERVE]).args(self.paths());
        command
    }

    fn namespace(&self) -> [&str; 3] {
        ["--user", if self.place.uid == 0 { "--map-root-user" } else { "--map-current-user" }, "--net"]
    }

    fn inside(&self, flags: &[&str]) -> String {
        let mut command = self.serve();
        command.arg(binary()).args(self.flags()).args(flags).arg("--");
        python(&mut command, CONNECT, &self.paths())
    }

    fn flags(&self) -> &'static [&'static str] {
        if self.place.uid == 0 { &["--allow-root"] } else { &[] }
    }

    /// The output of a script inside.
    fn shell(&self, script: &str) -> String {
        let mut command = self.serve();
        command.arg(binary()).args(self.flags()).args(["--", "sh", "-c", script]);
        succeeded(command.output().unwrap())
    }

    /// Asserts that a process outside, of the same user, reaches the services.
    #[track_caller]
    fn assert_reached_outside(&self) {
        assert_eq!(python(self.serve().arg("env"), CONNECT, &self.paths()), REACHED);
    }
}

const REACHED: &str = "connected\nEPROTOTYPE\nEPROTOTYPE\nconnected\n";
const REFUSED: &str = "EACCES\nEACCES\nEACCES\nEACCES\n";
const HIDDEN: &str = "EACCES\nEACCES\nEACCES\nEACCES\n";
const NOT_THERE: &str = "ENOENT\nENOENT\nENOENT\nENOENT\n";

const NETWORKS: [&str; 2] = ["--network=true", "--network=false"];

// SPEC W1
fn a_service_in_the_home_cannot_be_reached(place: &Place) {
    policy(place, "rw = ['~/writable']");
    for folder in ["run", "writable/run"] {
        let services = Services::new(place, &place.home().join(folder));
        services.assert_reached_outside();
        for network in NETWORKS {
            assert_eq!(services.inside(&[network]), REFUSED, "{folder}, {network}");
        }
        // The command cannot remove the mask to reach the service.
        let path = services.stream.display();
        let script = format!("rm -f '{path}' 2>/dev/null || mv '{path}' '{path}2' 2>/dev/null || echo refused");
        assert_eq!(services.shell(&script), "refused\n");
    }
}

// SPEC W1
fn a_service_in_the_project_can_be_reached(place: &Place) {
    policy(place, "");
    let services = Services::new(place, &place.project().join("run"));
    for network in NETWORKS {
        assert_eq!(services.inside(&[network]), REACHED, "{network}");
    }
    policy(place, "exclude = ['run/*']");
    assert_eq!(services.inside(&[]), REFUSED);
}

// SPEC W2
fn a_service_can_be_allowed_by_name(place: &Place) {
    // The services are in the home, in a hidden folder, in a writable folder, and in `/tmp`.
    let private = if place.uid == 0 { Place::root_in_tmp() } else { Place::in_tmp() };
    let folders = [
        (place.home().join("run"), REFUSED),
        (place.home().join("hidden"), HIDDEN),
        (place.home().join("writable"), REFUSED),
        (private.path().join("run"), NOT_THERE),
    ];
    for (folder, without) in folders {
        let services = Services::new(place, &folder);
        private.give_away();
        let rules = "exclude = ['~/hidden']\nrw = ['~/writable']\n";
        policy(place, rules);
        assert_eq!(services.inside(&[]), without, "{folder:?}");
        let [stream, datagram] = services.paths();
        for allowed in [format!("'{stream}', '{datagram}'"), format!("'{}/*'", folder.display())] {
            let text = format!("sockets = [{allowed}]\n{BASE_ONLY}{rules}");
            place.write("home/.config/agent-sandbox/config.toml", text);
            for network in NETWORKS {
                assert_eq!(services.inside(&[network]), REACHED, "{allowed}, {network}");
            }
            // The command can connect to the socket, but not change its mode.
            let script = format!("chmod 777 '{stream}' 2>/dev/null || echo refused");
            assert_eq!(services.shell(&script), "refused\n");
        }
    }
}

/// A service of another network namespace is not in the table of sockets, and still reachable.
// SPEC W1
fn a_service_that_only_the_environment_names_cannot_be_reached(place: &Place) {
    policy(place, "");
    let services = Services::new(place, &place.home().join("run"));
    let elsewhere = |variables: &[(&str, String)]| {
        let mut command = services.serve();
        command.envs(variables.iter().cloned());
        command.arg("unshare").args(services.namespace()).arg(binary()).args(services.flags()).arg("--");
        python(&mut command, CONNECT, &services.paths())
    };
    let [stream, datagram] = services.paths().map(str::to_owned);
    // A known limit: agent-sandbox cannot find this service.
    assert_eq!(elsewhere(&[]), REACHED);
    assert_eq!(elsewhere(&[("SSH_AUTH_SOCK", stream), ("GPG_AGENT_INFO", format!("{datagram}:1:1"))]), REFUSED);
    let folder = place.home().join("run").to_str().unwrap().to_owned();
    assert_eq!(elsewhere(&[("XDG_RUNTIME_DIR", folder)]), HIDDEN);
}

// SPEC W4
fn a_protected_file_with_another_name_is_refused(place: &Place) {
    write(place, "key", "host");
    fs::hard_link(place.project().join("key"), place.project().join("other")).unwrap();
    for rule in ["exclude = ['key']", "exclude = ['k*']", "ro = ['key']"] {
        policy(place, rule);
        failed(&run(place, &["--", "cat", "other"]), 125, "error[other-names]");
    }
    policy(place, "exclude = [{ path = 'key', hard-links = 'allow' }]");
    assert_eq!(shell(place, "cat key 2>/dev/null; cat other"), "host");
    // With a single name, the file can be hidden again.
    fs::remove_file(place.project().join("other")).unwrap();
    policy(place, "exclude = ['key']");
    assert_eq!(shell(place, "cat key 2>/dev/null || echo hidden"), "hidden\n");
}

/// A host of our own making, in a mount namespace: the home is bound to a second place, and a
/// folder in it to a third.
// SPEC W3
fn a_folder_that_is_mounted_twice_is_hidden_twice(place: &Place) {
    const HOST: &str = r#"
        set -e
        binary=$1
        mkdir -p "$HOME/copy of" "$HOME/deep"
        mount --bind "$HOME/keys/deep" "$HOME/deep"
        mount --bind "$HOME" "$HOME/copy of"
        exec "$binary" --allow-root -- sh -c '
            cd "$HOME"
            for key in keys/deep/key "copy of/keys/deep/key" deep/key "copy of/code/project/.env"; do
                cat "$key" 2>/dev/null || echo hidden
            done
            for file in code/project/Makefile "copy of/code/project/Makefile" "copy of/code/project/.agent-sandbox.toml"; do
                (echo changed >>"$file") 2>/dev/null || echo read-only
            done
            echo changed >>"copy of/code/project/open"
            cat code/project/open'
    "#;
    place.write("home/keys/deep/key", "host");
    for file in [".env", "Makefile", "open"] {
        write(place, file, "host\n");
    }
    policy(place, "exclude = ['~/keys', '*.env']\nro = ['Makefile']\nrw = ['~/copy of']\n");
    let mut host = place.command("unshare");
    host.args(["--user", "--map-root-user", "--mount", "sh", "-c", HOST, "sh"]).arg(binary());
    let expected = "hidden\nhidden\nhidden\nhidden\nread-only\nread-only\nread-only\nhost\nchanged\n";
    assert_eq!(succeeded(host.output().unwrap()), expected);
    assert_eq!(fs::read_to_string(place.project().join("Makefile")).unwrap(), "host\n");
}

// SPEC W5
fn our_own_program_cannot_be_replaced(place: &Place) {
    let copy = |folder: &Path| {
        fs::create_dir_all(folder).unwrap();
        // Another process writes the program: see `write_program`.
        succeeded(place.command("cp").arg(binary()).arg(folder).output().unwrap());
        folder.join(binary().file_name().unwrap())
    };
    fs::create_dir_all(place.home().join("tools")).unwrap();
    place.give_away();
    policy(place, "rw = ['~/tools']");
    let mut program = place.command(copy(&place.home().join("tools")));
    if place.uid == 0 {
        program.arg("--allow-root");
    }
    let script =
        "cd ~/tools && for it in *; do (echo x >>$it) 2>/dev/null || rm -f $it 2>/dev/null || echo refused; done";
    let output = program.args(["--", "sh", "-c", script]).output().unwrap();
    assert!(stderr(&output).contains("warning[writable-executable]"), "{}", stderr(&output));
    assert_eq!(succeeded(output), "refused\n");
    // No rule lets the command write to the binary of the tests, so there is no warning.
    assert!(!stderr(&run(place, &["--", "true"])).contains("writable-executable"));
}
