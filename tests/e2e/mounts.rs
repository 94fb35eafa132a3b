//! The mounts of the guard on difficult hosts, and with many rules.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use crate::sandbox::{failed, policy, run, sandbox, succeeded, write};
use crate::situations;
use crate::support::{Place, USER, binary, stderr};

everywhere!(
    mounts_of_the_host_have_the_access_of_their_folder,
    a_project_on_a_read_only_file_system_starts,
    an_excluded_folder_of_mode_000_is_hidden,
    re_opened_paths_may_outnumber_file_descriptors,
    the_umask_of_the_caller_does_not_change_sandbox_folders,
    a_umask_of_0777_does_not_break_placeholders,
);

for_root!(
    a_socket_that_root_inside_cannot_reach_stops_no_start,
    a_socket_in_a_closed_folder_of_our_own_is_not_left_open,
);

/// The socket is in a folder of another user with mode 0700. Outside, root sees it. Inside, no
/// process does.
fn a_socket_that_root_inside_cannot_reach_stops_no_start(place: &Place) {
    policy(place, "");
    let closed = place.home().join("of-another-user");
    fs::create_dir(&closed).unwrap();
    let _listener = UnixListener::bind(closed.join("socket")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    // A user namespace with one id has no other user, so there the folder is our own.
    let given = std::os::unix::fs::chown(&closed, Some(USER), Some(USER));
    let is_ours = given.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::InvalidInput);
    assert!(is_ours || given.is_ok(), "{given:?}");
    for flags in [&["--"][..], &["-q", "--no-guard", "--"]] {
        let command = ["sh", "-c", "ls of-another-user ~/of-another-user 2>/dev/null; echo ran"];
        let said = succeeded(run(place, &[flags, &command].concat()));
        assert!(said == "ran\n" || is_ours && said.ends_with("ran\n"), "{flags:?}: {said}");
    }
}

/// The command owns the folder, so it could change the mode and reach the socket. Outside, only
/// root sees the socket.
fn a_socket_in_a_closed_folder_of_our_own_is_not_left_open(place: &Place) {
    policy(place, "rw = ['~/mine']\n");
    let closed = place.home().join("mine/closed");
    fs::create_dir_all(&closed).unwrap();
    let _listener = UnixListener::bind(closed.join("socket")).unwrap();
    place.give_away();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let script = "chmod 700 ~/mine/closed && python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('$HOME/mine/closed/socket')\"";
    let output = run(place, &["--", "sh", "-c", script]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(stderr(&output).contains("PermissionError"), "{}", stderr(&output));
}

/// agent-sandbox cannot find sockets in a folder that it cannot read. The rule would let the
/// command change the folder's mode, so the start is refused.
#[test]
fn a_closed_folder_around_a_service_is_not_opened() {
    situations::as_user(Place::outside_tmp, |place| {
        let closed = place.home().join("mine/closed");
        fs::create_dir_all(&closed).unwrap();
        let _listener = UnixListener::bind(closed.join("socket")).unwrap();
        policy(place, "rw = ['~/mine/closed']\n");
        place.give_away();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
        let output = run(place, &["--", "echo", "ran"]);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        failed(&output, 125, "cannot look for sockets at");
    });
}

/// A folder of another user that this user cannot enter need not be hidden.
#[test]
fn a_link_into_a_closed_folder_of_another_user_hides_nothing() {
    situations::as_user(Place::outside_tmp, |place| {
        policy(place, "");
        place.write("home/links/file", "seen\n");
        let link = place.home().join("links/agent");
        symlink("/root/.agent/socket", &link).unwrap();
        place.give_away();
        let mut sandbox = sandbox(place);
        let output = sandbox.env("SSH_AUTH_SOCK", &link).args(["--", "sh", "-c", "cat ~/links/file"]).output().unwrap();
        assert_eq!(succeeded(output), "seen\n");
    });
}

/// The test makes its own host in a mount namespace.
// SPEC C1
fn mounts_of_the_host_have_the_access_of_their_folder(place: &Place) {
    const HOST: &str = r#"
        set -e
        binary=$1
        shift
        for folder in open/in open/closed kept/in hidden/in hidden/out/in; do
            mkdir -p $folder
            mount -t tmpfs tmpfs $folder
            echo host >$folder/file
        done
        mount -o remount,ro,bind open/closed
        exec "$binary" --allow-root "$@" -- sh -c '
            for folder in open/in open/closed kept/in hidden/in hidden/out/in; do
                (echo inside >>$folder/file) 2>/dev/null && echo $folder: writable && continue
                cat $folder/file 2>/dev/null || echo $folder: hidden
            done'
    "#;
    write(place, "hidden/out/x", "");
    policy(place, "ro = ['kept']\nexclude = ['hidden']\nrw = ['hidden/out']\n");
    for flags in [&[][..], &["--no-guard"]] {
        let mut host = place.command("unshare");
        host.args(["--user", "--map-root-user", "--mount", "sh", "-c", HOST, "sh"]).arg(binary()).args(flags);
        let expected = "open/in: writable\nhost\nhost\nhidden/in: hidden\nhidden/out/in: writable\n";
        assert_eq!(succeeded(host.current_dir(place.project()).output().unwrap()), expected, "{flags:?}");
    }
}

/// No process can create a file in this project, so presets need not block anything.
fn a_project_on_a_read_only_file_system_starts(place: &Place) {
    const HOST: &str = r#"
        set -e
        mount --bind . .
        mount -o remount,ro,bind .
        cd "$PWD"
        exec "$1" --allow-root -- sh -c 'touch .vscode 2>/dev/null || echo ran'
    "#;
    place.write("home/.config/agent-sandbox/config.toml", "");
    place.give_away();
    let mut host = place.command("unshare");
    host.args(["--user", "--map-root-user", "--mount", "sh", "-c", HOST, "sh"]).arg(binary());
    assert_eq!(succeeded(host.current_dir(place.project()).output().unwrap()), "ran\n");
}

fn an_excluded_folder_of_mode_000_is_hidden(place: &Place) {
    const CLOSED: u32 = 0o000;
    write(place, "closed/file", "host\n");
    policy(place, "exclude = ['closed']\n");
    place.give_away();
    let closed = place.project().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(CLOSED)).unwrap();
    // The command owns the folder, and could change the mode of one that is not masked.
    let script = "chmod 700 closed 2>/dev/null; cat closed/file 2>/dev/null || echo hidden";
    assert_eq!(succeeded(run(place, &["--", "sh", "-c", script])), "hidden\n");
    assert_eq!(fs::metadata(&closed).unwrap().permissions().mode() & 0o777, CLOSED);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

fn re_opened_paths_may_outnumber_file_descriptors(place: &Place) {
    const FEW: usize = 64;
    let names: Vec<String> = (0..2 * FEW).map(|number| format!("vault/{number}")).collect();
    names.iter().for_each(|name| write(place, format!("{name}/file"), ""));
    policy(place, &format!("exclude = ['vault']\nrw = {names:?}\n"));
    let script = "ulimit -Sn; for folder in vault/*/; do :; done; for n; do echo x >$n/file || exit; done; echo all";
    let limited = format!("ulimit -Sn {FEW} && exec \"$@\"");
    let started = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", &limited, "sh"]).arg(started.get_program()).args(started.get_args());
    command.args(["--", "sh", "-c", script, "sh"]).args(&names);
    assert_eq!(succeeded(command.output().unwrap()), format!("{FEW}\nall\n"));
    assert!(names.iter().all(|name| fs::read_to_string(place.project().join(name).join("file")).unwrap() == "x\n"));
}

fn the_umask_of_the_caller_does_not_change_sandbox_folders(place: &Place) {
    policy(place, "");
    let started = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", "umask 0077 && exec \"$@\"", "sh"]).arg(started.get_program()).args(started.get_args());
    command.args(["--", "sh", "-c", "umask; stat -c %a /run /run/user /run/agent-sandbox /tmp"]);
    assert_eq!(succeeded(command.output().unwrap()), "0077\n755\n700\n755\n1777\n");
}

/// A placeholder that git on the host cannot read makes the repository unusable.
// SPEC M4
fn a_umask_of_0777_does_not_break_placeholders(place: &Place) {
    policy(place, "");
    crate::git::outside(place, &place.project(), "git init -q .");
    // This run creates the state folder.
    succeeded(sandbox(place).args(["--", "true"]).output().unwrap());
    let started = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", "umask 0777 && exec \"$@\"", "sh"]).arg(started.get_program()).args(started.get_args());
    let output = command.args(["--preset", "@git", "--", "sh", "-c", "umask; cat .git/commondir"]).output().unwrap();
    assert_eq!((stderr(&output), succeeded(output)), (String::new(), "0777\n./\n".to_owned()));
    assert!(!place.project().join(".git/commondir").exists());
    crate::git::outside(place, &place.project(), "git status");
}
