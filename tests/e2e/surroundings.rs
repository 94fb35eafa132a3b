//! The surroundings of the project in every sandbox: `/tmp`, `/run`, `/dev`, the marker, and
//! directories made on request.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use crate::sandbox::{failed, policy, python, run, sandbox, shell, shell_with, succeeded, write};
use crate::support::{Place, binary, stdout};

everywhere!(
    the_command_finds_out_which_rules_govern_it,
    links_are_followed_inside,
    tmp_is_private,
    tmp_is_the_hosts_on_request,
    run_is_private_and_has_a_runtime_directory,
    check_tells_inside_from_outside,
    a_sandbox_does_not_start_in_a_sandbox,
    tmpdir_is_reset_where_it_is_not_writable,
    a_missing_directory_is_created_on_request,
    a_device_can_be_granted,
    an_excluded_socket_or_fifo_cannot_be_used,
    a_write_to_a_mask_fails,
);

fn tmp_is_private(place: &Place) {
    let elsewhere = if place.uid == 0 { Place::root_in_tmp() } else { Place::in_tmp() };
    elsewhere.write("secret", "host");
    let secret = elsewhere.path().join("secret");
    let script = format!("test ! -e '{0}' && mkdir -p '{0}' && echo x >/tmp/new && stat -c %a /tmp", secret.display());
    policy(place, "");
    assert_eq!(shell(place, &script), "1777\n");
    assert_eq!(fs::read_to_string(secret).unwrap(), "host");
    assert!(!fs::exists("/tmp/new").unwrap());
    assert_eq!(shell(place, "ls /tmp | grep -v agent-sandbox-test || true"), "");
}

// SPEC D3
fn tmp_is_the_hosts_on_request(place: &Place) {
    let elsewhere = if place.uid == 0 { Place::root_in_tmp() } else { Place::in_tmp() };
    elsewhere.write("file", "host");
    policy(place, "tmp = 'host'");
    let file = elsewhere.path().join("file");
    assert_eq!(shell(place, &format!("cat '{0}' && echo inside >'{0}'", file.display())), "host");
    assert_eq!(fs::read_to_string(file).unwrap(), "inside\n");
}

// SPEC B1
fn run_is_private_and_has_a_runtime_directory(place: &Place) {
    policy(place, "");
    let script = "ls /run && cd /run/user && ls && stat -c %a:%u . * && cd * && echo kept >new && cat new";
    let listed = shell_with(place, &["--network=false"], script);
    let uid = place.uid;
    assert_eq!(listed, format!("agent-sandbox\nuser\n{uid}\n700:{uid}\n700:{uid}\nkept\n"));
    for path in ["/run/new", "/run/user/new", "/run/agent-sandbox/new", "/run/agent-sandbox/inside/new"] {
        let refused = shell(place, &format!("mkdir {path} 2>&1 || true"));
        assert!(refused.contains("Read-only file system"), "{refused}");
    }
}

// SPEC B9
fn check_tells_inside_from_outside(place: &Place) {
    let outside = place.agent_sandbox().arg("--inside").output().unwrap();
    assert_eq!((outside.status.code(), stdout(&outside).as_str()), (Some(1), "outside sandbox\n"));
    let inside = run(place, &["--".as_ref(), binary().as_os_str(), "--inside".as_ref()]);
    assert_eq!((inside.status.code(), stdout(&inside).as_str()), (Some(0), "inside sandbox\n"));
}

// SPEC B9, S4
fn a_sandbox_does_not_start_in_a_sandbox(place: &Place) {
    let binary = binary();
    let nested =
        run(place, &["--".as_ref(), binary.as_os_str(), "--allow-root".as_ref(), "--".as_ref(), "echo".as_ref()]);
    failed(&nested, 125, "error[already-inside]: this is a sandbox already, and sandboxes do not nest yet\n");
}

// SPEC B8
fn tmpdir_is_reset_where_it_is_not_writable(place: &Place) {
    write(place, "tmp/x", "");
    policy(place, "exclude = ['hidden']");
    let home = place.home();
    let project = place.project();
    for (outside, inside) in [
        (project.join("tmp"), project.join("tmp")),
        ("/tmp".into(), "/tmp".into()),
        (home.clone(), "/tmp".into()),
        ("/tmp/not-inside".into(), "/tmp".into()),
        ("/var/tmp".into(), "/tmp".into()),
    ] {
        let script = "echo $TMPDIR && rmdir $(mktemp -d)";
        let said = succeeded(sandbox(place).env("TMPDIR", &outside).args(["--", "sh", "-c", script]).output().unwrap());
        assert_eq!(said, format!("{}\n", inside.display()), "{outside:?}");
    }
    assert_eq!(shell(place, "echo ${TMPDIR-unset}"), "unset\n");
}

// SPEC M3
fn a_missing_directory_is_created_on_request(place: &Place) {
    policy(place, "rw = [{ path = '~/made/deep', if-missing = 'create' }, '~/never']");
    let made = place.home().join("made/deep");
    for form in ["shell", "json", "lines", "nul", "annotated"] {
        succeeded(run(place, &[&format!("--print-args={form}"), "--", "true"]));
        assert!(!made.exists(), "printing creates nothing");
    }
    assert_eq!(
        shell(place, "echo inside >~/made/deep/file && ls -A ~"),
        ".cache\n.config\n.local\n.npm\ncode\nmade\n",
        ".config holds the policy, and .local the state folder"
    );
    assert_eq!(fs::read_to_string(made.join("file")).unwrap(), "inside\n");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!place.home().join("never").exists());
}

/// The guard is the binary of agent-sandbox, so the command can ask it without a program on PATH.
// SPEC B16
fn the_command_finds_out_which_rules_govern_it(place: &Place) {
    place.write("home/.ssh/id_ed25519", "secret");
    place.write("home/code/project/kept", "");
    let script = "echo $AGENT_SANDBOX; cat /run/agent-sandbox/README; \
        /run/agent-sandbox/guard explain new kept ~/.ssh/id_ed25519 /tmp/x / --env GITHUB_TOKEN";
    let mut command = sandbox(place);
    command.env("GITHUB_TOKEN", "secret").args(["--ro", "kept", "--network=false", "--", "sh", "-c", script]);
    let said = succeeded(command.output().unwrap());
    assert!(said.starts_with("1\nThis is a sandbox that agent-sandbox made."), "{said}");
    let (project, home) = (place.project(), place.home());
    for expected in [
        "Network: off\nLimits: tmp=4G\n\nVariables that were not passed, each with its rule:\n".to_owned(),
        format!("hidden\t{}/.ssh\t@secrets\n", home.display()),
        format!("new: writable (can be read and changed)\n  path    {}/new\n", project.display()),
        format!(
            "kept: read-only (can be read)\n  path    {0}/kept\n  rule    {0}/kept  [--ro kept]\n",
            project.display()
        ),
        format!(": hidden (can be neither read nor changed)\n  path    {}/.ssh/id_ed25519\n", home.display()),
        "/tmp/x: own (private to the sandbox: no file of the host is in it)\n".to_owned(),
        "/: read-only (can be read)\n".to_owned(),
        "GITHUB_TOKEN: not passed (the caller has it)\n  rule    @secrets\n  \
         open    outside, for the next run: `pass = [\"GITHUB_TOKEN\"]` in `[env]`\n"
            .to_owned(),
    ] {
        assert!(said.contains(&expected), "{expected}\nin\n{said}");
    }
    assert!(!said.contains("secret\n"), "{said}");
    let refused = [&["--rw", "x", "explain", "x"][..], &["show"], &["lint"], &["private", "list"], &["sweep"]];
    for words in refused {
        let output = run(place, &[&["--", "/run/agent-sandbox/guard"], words].concat());
        failed(&output, 125, "error[already-inside]");
    }
}

/// A link has the access of its target. The link at a private file is the private file itself.
// SPEC B16
fn links_are_followed_inside(place: &Place) {
    place.write("home/.ssh/id_ed25519", "secret");
    place.write("home/code/project/.git/HEAD", "ref: refs/heads/main\n");
    place.write("home/code/project/.git/config", "");
    let targets = [("hidden", "~/.ssh/id_ed25519"), ("kept", "/etc/passwd"), ("config", ".git/config")];
    let link = |(name, target): (&str, &str)| format!("ln -s {target} {name}; ");
    let script = targets.map(link).concat() + "/run/agent-sandbox/guard explain hidden kept config .git";
    let said = shell(place, &script);
    let (project, home) = (place.project(), place.home());
    let (project, home) = (project.display(), home.display());
    for expected in [
        format!(
            "hidden: hidden (can be neither read nor changed)\n  path    {home}/.ssh\n  through {project}/hidden, a symlink\n"
        ),
        format!("kept: read-only (can be read)\n  path    /etc/passwd\n  through {project}/kept, a symlink\n"),
        "config: private (a copy, which can be changed; only a few of its keys reach the host)\n".to_owned(),
        format!("  path    {project}/.git/config\n  through {project}/config, a symlink\n"),
        format!(
            "  path    {project}/.git\n  rule    {project}  [@base]\n  stays   it cannot be moved or removed  [@git]\n"
        ),
    ] {
        assert!(said.contains(&expected), "{expected}\nin\n{said}");
    }
}

/// Every sandbox has `/dev/full` anyway, so the test also grants another device if the machine has
/// one.
// SPEC D4, T3
fn a_device_can_be_granted(place: &Place) {
    let opens = |device: &&str| {
        let outside = place.command("sh").args(["-c", "exec 3<>\"$0\"", device]).output().unwrap();
        outside.status.success()
    };
    let extra = ["/dev/fuse", "/dev/net/tun", "/dev/kvm"].into_iter().find(opens);
    let rules = format!("[filesystem]\nrw = ['/dev/full', '{}']\n", extra.unwrap_or("/dev/full"));
    write(place, ".agent-sandbox.toml", rules);
    let granted = succeeded(place.agent_sandbox().args(["trust", "--yes"]).output().unwrap());
    assert!(granted.contains("\n  device `/dev/full`: hidden → can be used (.agent-sandbox.toml:2:"), "{granted}");
    assert!(!granted.contains("writable"), "a device is listed once: {granted}");
    let said = shell(place, "head -c 3 /dev/full | od -An -tx1; echo x | dd of=/dev/full 2>&1 || true");
    assert!(said.starts_with(" 00 00 00\n") && said.contains("No space left on device"), "{said}");
    if let Some(device) = extra {
        assert_eq!(shell(place, &format!("exec 3<>{device} && echo opened")), "opened\n");
        policy(place, "");
        assert_eq!(shell(place, &format!("test -e {device} || echo absent")), "absent\n");
    }
}

// SPEC B4
fn an_excluded_socket_or_fifo_cannot_be_used(place: &Place) {
    const PROGRAM: &str = "
import errno, os, socket
os.chdir('sockets')
for name in ('open', 'hidden'):
    try:
        socket.socket(socket.AF_UNIX).connect(name)
        print('connected')
    except OSError as error:
        print(errno.errorcode[error.errno])
for name in ('pipe', 'hidden-pipe'):
    try:
        os.close(os.open(name, os.O_RDWR | os.O_NONBLOCK))
        print('opened')
    except OSError as error:
        print(errno.errorcode[error.errno])
";
    let folder = place.project().join("sockets");
    fs::create_dir(&folder).unwrap();
    // A socket's name has at most 107 bytes, so the socket is bound through a short link. The name
    // must be absolute: runs of other tests warn about sockets whose folder they do not know.
    let short = tempfile::tempdir_in("/tmp").unwrap();
    let link = short.path().join("s");
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let listeners = ["open", "hidden"].map(|name| UnixListener::bind(link.join(name)).unwrap());
    place.give_away();
    succeeded(place.command("mkfifo").args(["sockets/pipe", "sockets/hidden-pipe"]).output().unwrap());
    policy(place, "exclude = ['sockets/hidden*']");
    assert_eq!(python(sandbox(place).arg("--"), PROGRAM, &[]), "connected\nEACCES\nopened\nEACCES\n");
    drop(listeners);
}

// SPEC B3
fn a_write_to_a_mask_fails(place: &Place) {
    write(place, "hidden/file", "host");
    write(place, "hidden/open/file", "host");
    write(place, "closed/file", "host");
    write(place, "key", "host");
    policy(place, "exclude = ['hidden', 'closed', 'key']\nrw = ['hidden/open']");
    for path in ["hidden/new", "hidden/file", "closed/new", "closed/file", "key"] {
        let said = shell(place, &format!("(echo x >{path}) 2>/dev/null && echo swallowed || echo refused"));
        assert_eq!(said, "refused\n", "{path}");
    }
    assert_eq!(shell(place, "chmod 0777 hidden closed 2>/dev/null || echo refused"), "refused\n");
    assert_eq!(shell(place, "echo inside >hidden/open/file && cat hidden/open/file"), "inside\n");
    for path in ["hidden/file", "closed/file", "key"] {
        assert_eq!(fs::read_to_string(place.project().join(path)).unwrap(), "host");
    }
}
