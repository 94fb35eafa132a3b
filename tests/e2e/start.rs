//! The reasons for which no sandbox starts. agent-sandbox reports each before the start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;

use crate::sandbox::{failed, marked, policy, probe, run, sandbox, shell, succeeded, with_markers, write};
use crate::support::{Place, USER, binary, stderr, stdout, write_program};

everywhere!(
    a_fresh_home_is_usable_whatever_the_umask_is,
    a_limit_that_is_too_small_is_named,
    a_planted_bwrap_is_not_run,
    a_machine_without_user_namespaces_is_named_as_the_cause,
    a_mask_cannot_be_unmounted,
);

for_root!(
    root_is_refused_without_the_flag,
    root_is_allowed_in_a_container_and_in_ci,
    the_first_command_of_the_readme_works_for_root_in_a_container,
    root_keeps_no_capability,
    root_sees_no_password_hashes,
    a_foreign_project_is_refused
);

/// Runs agent-sandbox from a shell that first sets this limit or umask for itself.
fn after(place: &Place, limit: &str, words: &[&str]) -> Output {
    let started = sandbox(place);
    let mut command = place.command("sh");
    command.args(["-c", &format!("{limit} && exec \"$@\""), "sh"]).arg(started.get_program());
    command.args(started.get_args()).args(words).output().unwrap()
}

// SPEC S16
fn a_fresh_home_is_usable_whatever_the_umask_is(place: &Place) {
    assert_eq!(succeeded(after(place, "umask 0777", &["--", "echo", "ran"])), "ran\n");
    let mode = |path: &str| fs::metadata(place.home().join(path)).unwrap().permissions().mode() & 0o777;
    let made = [".local", ".local/state", ".local/state/agent-sandbox"];
    assert_eq!(made.map(mode), [0o700; 3]);
    assert_eq!(succeeded(run(place, &["--", "echo", "again"])), "again\n");
}

// SPEC S17
fn a_limit_that_is_too_small_is_named(place: &Place) {
    policy(place, "");
    failed(&after(place, "ulimit -s 64", &["--", "echo", "x"]), 125, "the stack is limited to 64 KiB (`ulimit -s`)");
    failed(&after(place, "ulimit -f 0", &["--", "echo", "x"]), 125, "file too large");
    // The command has the caller's disposition of SIGXFSZ, and is killed by it.
    let script = ["--", "sh", "-c", "head -c 20000000 /dev/zero >large; echo $?"];
    assert_eq!(succeeded(after(place, "ulimit -f 10000", &script)), format!("{}\n", 128 + Signal::XFSZ.as_raw()));
}

// SPEC S2
fn a_planted_bwrap_is_not_run(place: &Place) {
    policy(place, "rw = ['~/tools']");
    let script = "#!/bin/sh\ntouch \"$HOME/code/project/planted-was-run\"\n";
    for planted in [place.project().join("bin"), place.home().join("tools")] {
        fs::create_dir_all(&planted).unwrap();
        fs::write(planted.join("bwrap"), script).unwrap();
        fs::set_permissions(planted.join("bwrap"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    // A link in a read-only folder points to a bwrap in a writable folder.
    fs::create_dir_all(place.home().join("links")).unwrap();
    symlink(place.project().join("bin/bwrap"), place.home().join("links/bwrap")).unwrap();
    place.give_away();
    let path = |first: &Path| format!("{}:/usr/bin:/bin", first.display());
    for first in [place.project().join("bin"), place.home().join("tools"), place.home().join("links")] {
        for flags in [&[][..], &["--print-args"]] {
            let output =
                sandbox(place).env("PATH", path(&first)).args(flags).args(["--", "echo", "x"]).output().unwrap();
            failed(&output, 125, "error[bwrap-untrusted]");
        }
    }
    // Relative entries of PATH are in the project, and are ignored.
    for relative in ["bin:/usr/bin:/bin", ".:/usr/bin:/bin", "/usr/bin:/bin:bin"] {
        assert_eq!(succeeded(sandbox(place).env("PATH", relative).args(["--", "echo", "x"]).output().unwrap()), "x\n");
    }
    assert!(!place.project().join("planted-was-run").exists());
    failed(
        &sandbox(place).env("PATH", place.path()).args(["--", "/bin/echo"]).output().unwrap(),
        125,
        "error[bwrap-missing]",
    );
}

/// The limit is set in a user namespace of its own, so no other process is affected.
fn a_machine_without_user_namespaces_is_named_as_the_cause(place: &Place) {
    const LIMIT: &str = "/proc/sys/user/max_user_namespaces";
    let before = fs::read_to_string(LIMIT).unwrap();
    policy(place, "");
    let script = format!("echo 0 >{LIMIT} && exec \"$0\" --allow-root -- echo ran");
    let mut command = place.command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]).arg(binary());
    failed(&command.output().unwrap(), 125, "error[sandbox-unavailable]: user namespaces are off");
    assert_eq!(fs::read_to_string(LIMIT).unwrap(), before);
}

fn a_mask_cannot_be_unmounted(place: &Place) {
    const PROGRAM: &str = "
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
detach, remount_bind = 2, 0x20 | 0x1000
for path in sys.argv[1:]:
    path = path.encode()
    results = libc.umount2(path, detach), libc.mount(b'none', path, None, remount_bind, None)
    print(results, errno.errorcode[ctypes.get_errno()])
";
    write(place, "hidden/file", "host");
    write(place, "key", "host");
    write(place, "kept", "host");
    policy(place, "exclude = ['hidden', 'key']\nro = ['kept']");
    let masks = ["hidden", "key", "kept", "/"];
    let said = crate::sandbox::python(sandbox(place).arg("--"), PROGRAM, &masks);
    assert_eq!(said, "(-1, -1) EPERM\n".repeat(masks.len()));
    // A new user namespace gives all capabilities, but earlier mounts stay locked.
    for mask in masks {
        let script =
            format!("unshare --user --map-root-user --mount umount -l {mask} 2>&1 && echo unmounted || echo refused");
        let said = shell(place, &script);
        assert!(said.ends_with("refused\n"), "{said}");
    }
}

// SPEC S3
fn root_is_refused_without_the_flag(place: &Place) {
    policy(place, "");
    for ci in [None, Some("")] {
        let mut command = marked(place, &[]);
        command.envs(ci.map(|value| ("CI", value)));
        failed(
            &command.args(["--", "echo", "ran"]).output().unwrap(),
            125,
            "error[root-refused]: refusing to run as root",
        );
    }
    assert_eq!(succeeded(run(place, &["--", "id", "-u"])), "0\n");
    let printed = place.agent_sandbox().args(["--print-args", "--", "echo"]).output().unwrap();
    assert!(stdout(&printed).contains("--cap-drop ALL"), "root may print without the flag");
}

// SPEC S3
fn root_is_allowed_in_a_container_and_in_ci(place: &Place) {
    policy(place, "");
    let ran = |command: &mut std::process::Command, flags: &[&str]| {
        let output = command.args(flags).args(["--", "echo", "ran"]).output().unwrap();
        assert_eq!(stdout(&output), "ran\n", "{}", stderr(&output));
        stderr(&output)
    };
    for (marker, ci) in [(Some("/.dockerenv"), ""), (Some("/run/.containerenv"), ""), (None, "true")] {
        let command = || {
            let mut command = marked(place, marker.as_slice());
            command.env("CI", ci);
            command
        };
        let said = ran(&mut command(), &[]);
        assert_eq!(said.matches("warning[").count(), 1, "{said}");
        assert!(said.starts_with("warning[root-allowed]: running as root, because this is "), "{said}");
        for silent in ["--allow-root", "--quiet"] {
            assert_eq!(ran(&mut command(), &[silent]), "");
        }
    }
}

/// Runs `scripts/run -- echo hello` in a checkout that is already built: a stub replaces cargo.
// SPEC S3
fn the_first_command_of_the_readme_works_for_root_in_a_container(place: &Place) {
    policy(place, "");
    let checkout = place.path().join("checkout");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    for name in ["run", "lib/install.sh"] {
        write_program(&checkout.join("scripts").join(name), &fs::read_to_string(scripts.join(name)).unwrap());
    }
    write_program(&place.path().join("stub/cargo"), "#!/bin/sh\n");
    fs::create_dir_all(checkout.join("target/release")).unwrap();
    symlink(binary(), checkout.join("target/release/agent-sandbox")).unwrap();
    place.give_away();
    let first = |markers: &[&str], ci: &str| {
        let mut command = with_markers(place, markers);
        command.env("PATH", format!("{}/stub:/usr/local/bin:/usr/bin:/bin", place.path().display())).env("CI", ci);
        command.arg(checkout.join("scripts/run")).args(["--", "echo", "hello"]).output().unwrap()
    };
    for (markers, ci) in [(&["/.dockerenv"][..], ""), (&["/run/.containerenv"], ""), (&[], "true")] {
        let output = first(markers, ci);
        assert_eq!(stdout(&output), "hello\n", "{}", stderr(&output));
        assert_eq!(stderr(&output).matches("warning[root-allowed]").count(), 1, "{}", stderr(&output));
    }
    failed(&first(&[], ""), 125, "refusing to run as root");
}

// SPEC S3, C4
fn root_keeps_no_capability(place: &Place) {
    policy(place, "");
    let said = shell(place, "grep ^Cap /proc/self/status");
    let sets: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(sets.len(), 10, "{said}");
    for set in sets.chunks(2) {
        assert_eq!(set[1], "0000000000000000", "{said}");
    }
}

// SPEC S3
fn root_sees_no_password_hashes(place: &Place) {
    policy(place, "");
    let paths: Vec<_> = ["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"].map(Into::into).to_vec();
    let existing: Vec<_> = paths.into_iter().filter(|path: &std::path::PathBuf| path.exists()).collect();
    assert!(!existing.is_empty(), "every system has at least one");
    let found = probe::<&str>(place, &[], &existing);
    for (path, found) in existing.iter().zip(found) {
        assert_eq!(found, crate::sandbox::Found::masked_file(), "{path:?}");
    }
}

/// Root of a user namespace cannot change the owner of files, but the folders of the system already
/// belong to another user there.
// SPEC S3
fn a_foreign_project_is_refused(place: &Place) {
    let project = place.project();
    policy(place, "");
    let foreign =
        if lchown(&project, Some(USER), Some(USER)).is_ok() { project.as_path() } else { Path::new("/usr/share") };
    let output =
        sandbox(place).current_dir(foreign).args(["--preset", "!secrets", "--", "echo", "ran"]).output().unwrap();
    failed(&output, 125, &format!("error[foreign-project]: `{}` belongs to the user with the id ", foreign.display()));
}
