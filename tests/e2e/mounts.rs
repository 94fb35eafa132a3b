//! The mounts of the second stage, where the host, or the number of rules, makes them difficult.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Output;

use serde_json::{Value, json};

use crate::sandbox::{failed, policy, run, sandbox, succeeded, write};
use crate::situations;
use crate::support::{Place, USER, binary, stderr};

everywhere!(
    mounts_of_the_host_are_as_open_as_what_they_lie_in,
    a_project_on_a_read_only_file_system_starts,
    what_is_mounted_is_found_in_what_was_mounted_last,
    nothing_is_mounted_in_what_is_covered,
    what_nobody_may_enter_is_hidden,
    what_is_re_opened_may_be_more_than_descriptors,
    what_the_caller_takes_away_from_new_files_changes_nothing,
    what_the_caller_takes_away_from_himself_breaks_nothing,
);

for_root!(
    a_socket_where_root_may_not_go_without_capabilities_is_no_trouble,
    a_socket_in_a_closed_folder_of_our_own_is_not_left_open,
);

/// Of somebody else, in a folder that is closed to others: outside root sees it, and inside nobody does.
fn a_socket_where_root_may_not_go_without_capabilities_is_no_trouble(place: &Place) {
    policy(place, "");
    let closed = place.home().join("of-somebody-else");
    fs::create_dir(&closed).unwrap();
    let _listener = UnixListener::bind(closed.join("socket")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&closed, Some(USER), Some(USER)).unwrap();
    let output = run(place, &["--", "sh", "-c", "ls of-somebody-else ~/of-somebody-else 2>/dev/null; echo ran"]);
    assert_eq!(succeeded(output), "ran\n");
}

/// The command could open it up again, where the folder around it can be written. Only root sees it there from outside.
fn a_socket_in_a_closed_folder_of_our_own_is_not_left_open(place: &Place) {
    policy(place, "rw = ['~/mine']\n");
    let closed = place.home().join("mine/closed");
    fs::create_dir_all(&closed).unwrap();
    let _listener = UnixListener::bind(closed.join("socket")).unwrap();
    place.give_away();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let output = run(place, &["--", "echo", "ran"]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    failed(&output, 125, "mine/closed/socket`: permission denied");
}

/// What we may not look at cannot be hidden, and the rule lets the command open it.
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

/// Where somebody else keeps us out, nothing of ours has to be hidden.
#[test]
fn a_link_into_a_closed_folder_of_somebody_else_hides_nothing() {
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

/// A host of our own making, in a mount namespace.
fn mounts_of_the_host_are_as_open_as_what_they_lie_in(place: &Place) {
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

/// Nothing can be created there, by nobody: presets need not block anything.
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

/// Starts bwrap and the second stage as they are printed, with these mounts after all others.
fn with_more_mounts(place: &Place, more: &[Value], script: &str) -> Output {
    let printed = succeeded(run(place, &["--print-args=json", "--", "sh", "-c", script]));
    let mut printed: Value = serde_json::from_str(&printed).unwrap();
    let plan = &mut printed["guard"]["plan"];
    plan["mounts"].as_array_mut().unwrap().extend_from_slice(more);
    place.write("plan", plan.to_string());
    place.give_away();
    let words = printed["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut command = place.command("sh");
    command.args(["-c", "exec 3<\"$1\"; shift; exec \"$@\"", "sh"]).arg(place.path().join("plan")).args(words);
    command.current_dir(place.project()).output().unwrap()
}

/// The second stage keeps the folders open in which it mounts. What covers one in the same plan is what counts from then on.
fn what_is_mounted_is_found_in_what_was_mounted_last(place: &Place) {
    write(place, "folder/in/file", "host\n");
    policy(place, "");
    let folder = place.project().join("folder");
    let at = |name: &str| folder.join(name);
    let more = [
        json!({ "writable": folder }),
        json!({ "writable": at("in") }),
        json!({ "tmpfs": { "path": folder, "mode": "0755" } }),
        json!({ "directory": { "path": at("in"), "mode": "0755" } }),
        json!({ "data": { "path": at("in/new"), "content": "ours\n" } }),
        json!({ "writable": place.project() }),
        json!({ "mask": at("in/file") }),
    ];
    let look = "ls folder/in; cat folder/in/*";
    assert_eq!(succeeded(with_more_mounts(place, &more[..1], look)), "file\nhost\n");
    assert_eq!(succeeded(with_more_mounts(place, &more[..2], look)), "file\nhost\n");
    assert_eq!(succeeded(with_more_mounts(place, &more[..5], look)), "new\nours\n");
    // The whole project, with what is mounted in it by then: the folder is covered still.
    assert_eq!(succeeded(with_more_mounts(place, &more[..6], look)), "new\nours\n");
    assert!(!at("in/new").exists(), "nothing is made on the host");
    let masked = [more[0].clone(), more[1].clone(), more[5].clone(), more[6].clone()];
    assert_eq!(
        succeeded(with_more_mounts(place, &masked, "ls folder/in; cat folder/in/* 2>/dev/null; true")),
        "file\n"
    );
}

fn nothing_is_mounted_in_what_is_covered(place: &Place) {
    write(place, "folder/in/file", "host\n");
    policy(place, "");
    let [folder, inner] = ["folder", "folder/in"].map(|name| place.project().join(name));
    let file = inner.join("file");
    let more = [json!({ "writable": inner }), json!({ "hide": folder }), json!({ "mask": file })];
    let look = "cat folder/in/file 2>/dev/null || echo hidden";
    assert_eq!(succeeded(with_more_mounts(place, &more[..2], look)), "hidden\n");
    failed(&with_more_mounts(place, &more, look), 125, "/folder/in/file`: ");
}

/// The second stage mounts from within a folder where it can, and has to do without here.
fn what_nobody_may_enter_is_hidden(place: &Place) {
    const CLOSED: u32 = 0o000;
    write(place, "closed/file", "host\n");
    policy(place, "exclude = ['closed']\n");
    place.give_away();
    let closed = place.project().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(CLOSED)).unwrap();
    // Its owner could open it again, were it still there.
    let script = "chmod 700 closed 2>/dev/null; cat closed/file 2>/dev/null || echo hidden";
    assert_eq!(succeeded(run(place, &["--", "sh", "-c", script])), "hidden\n");
    assert_eq!(fs::metadata(&closed).unwrap().permissions().mode() & 0o777, CLOSED);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Each is held open until it is mounted again.
fn what_is_re_opened_may_be_more_than_descriptors(place: &Place) {
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

fn what_the_caller_takes_away_from_new_files_changes_nothing(place: &Place) {
    policy(place, "");
    let started = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", "umask 0077 && exec \"$@\"", "sh"]).arg(started.get_program()).args(started.get_args());
    command.args(["--", "sh", "-c", "umask; stat -c %a /run /run/user /run/agent-sandbox /tmp"]);
    assert_eq!(succeeded(command.output().unwrap()), "0077\n755\n755\n755\n1777\n");
}

/// A placeholder that git on the host cannot read makes the repository unusable.
fn what_the_caller_takes_away_from_himself_breaks_nothing(place: &Place) {
    policy(place, "");
    crate::git::outside(place, &place.project(), "git init -q .");
    // Makes the folder for our state.
    succeeded(sandbox(place).args(["--", "true"]).output().unwrap());
    let started = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", "umask 0777 && exec \"$@\"", "sh"]).arg(started.get_program()).args(started.get_args());
    let output = command.args(["--preset", "@git", "--", "sh", "-c", "umask; cat .git/commondir"]).output().unwrap();
    assert_eq!((stderr(&output), succeeded(output)), (String::new(), "0777\n./\n".to_owned()));
    assert!(!place.project().join(".git/commondir").exists());
    crate::git::outside(place, &place.project(), "git status");
}
