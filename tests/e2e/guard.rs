//! The guard starts nothing if the mounts differ from the plan, and no process inside can undo the
//! mounts.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Output};

use crate::sandbox::{failed, policy, python, run, sandbox, shell, shell_with, succeeded, write};
use crate::support::{Place, stderr, stdout, write_program};

everywhere!(
    no_user_namespace_can_be_made_inside,
    user_namespaces_are_there_on_request,
    a_command_with_many_arguments_runs,
    a_mount_that_was_left_out_is_noticed,
    a_folder_that_was_swapped_is_noticed,
    a_file_removed_during_setup_makes_the_start_repeat,
    the_guard_closes_paths_that_bwrap_left_writable,
    without_supervision_the_guard_obeys_the_message_format,
    a_library_of_the_guard_that_the_policy_hides_is_an_error,
    the_kernels_settings_cannot_be_changed,
    system_calls_that_bypass_mounts_are_refused,
    bwrap_alone_forbids_user_namespaces_and_injection,
);

// SPEC C3, C4
fn no_user_namespace_can_be_made_inside(place: &Place) {
    policy(place, "");
    let script = "unshare --user true 2>/dev/null && echo made; cat /proc/self/status | grep -E 'Cap(Prm|Eff|Bnd)'";
    let said = shell(place, script);
    assert!(!said.contains("made"), "{said}");
    let bounding = if place.uid == 0 { "CapBnd:\t0000000000000000" } else { "CapBnd:" };
    assert!(said.contains("CapEff:\t0000000000000000") && said.contains(bounding), "{said}");
}

// SPEC C4
fn user_namespaces_are_there_on_request(place: &Place) {
    write(place, ".agent-sandbox.toml", "nested = true\n");
    let output =
        sandbox(place).args(["--config", ".agent-sandbox.toml", "--", "unshare", "--user", "echo", "made"]).output();
    assert_eq!(succeeded(output.unwrap()), "made\n");
}

// SPEC C9
fn a_command_with_many_arguments_runs(place: &Place) {
    policy(place, "");
    let words: Vec<String> = (0..12_000).map(|number| number.to_string()).collect();
    let mut command = sandbox(place);
    command.args(["--", "sh", "-c", "echo $# ${12000}", "sh"]).args(&words);
    assert_eq!(succeeded(command.output().unwrap()), "12000 11999\n");
}

/// Runs with a script as bwrap, which ends with an exec of the real bwrap.
pub fn with_bwrap(place: &Place, script: &str, words: &[&str]) -> Output {
    sandbox_with_bwrap(place, script).args(words).output().unwrap()
}

pub fn sandbox_with_bwrap(place: &Place, script: &str) -> Command {
    let folder = place.path().join("bin");
    write_program(&folder.join("bwrap"), &format!("#!/bin/bash\n{script}\nexec /usr/bin/bwrap \"${{words[@]}}\"\n"));
    place.give_away();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let mut command = sandbox(place);
    command.env("PATH", path);
    command
}

/// Removes the mask of a path that ends with `/hidden` from bwrap's arguments.
pub const DROP: &str = r#"
drop() {
    kept=()
    while [ $# -gt 0 ]; do
        case "$1 $2" in
            "--tmpfs "*/hidden) shift 2; kept=("${kept[@]:0:${#kept[@]}-2}") ;;
            "--remount-ro "*/hidden) shift 2 ;;
            *) kept+=("$1"); shift ;;
        esac
    done
    words=("${kept[@]}")
}
drop "$@"
"#;

/// Denies the guard new namespaces, as AppArmor's profile for bwrap does.
pub const NO_NAMESPACES: &str = r#"words=(); for word in "$@"; do
    [ "$word" = --chdir ] && [[ "$*" != *--disable-userns* ]] && words+=(--unshare-user --disable-userns); words+=("$word"); done"#;

// SPEC C2
fn a_mount_that_was_left_out_is_noticed(place: &Place) {
    write(place, "hidden/secret", "canary");
    write(place, "hidden/open/file", "");
    policy(place, "exclude = ['hidden']\nrw = ['hidden/open']\n");
    let read = ["--", "cat", "hidden/secret"];
    failed(&with_bwrap(place, DROP, &read), 125, "/hidden` is not mounted");
    // The attack is real: bwrap alone does not notice.
    let without = ["--no-guard", "--", "cat", "hidden/secret"];
    assert_eq!(stdout(&with_bwrap(place, DROP, &without)), "canary");
}

// SPEC C2, C11
fn a_folder_that_was_swapped_is_noticed(place: &Place) {
    place.write("home/.ssh/key", "canary");
    write(place, "out/file", "");
    policy(place, "rw = ['out']\nro = ['.']\n");
    // bwrap resolves the relative link on the host, and binds its target.
    let put_back = || {
        fs::remove_file(place.project().join("out")).unwrap();
        fs::rename(place.project().join("moved"), place.project().join("out")).unwrap();
    };
    // Only at the real start, not at a trial start.
    let swapped = |swap: &str| format!("case \"$*\" in *die-with-parent*) mv out moved; {swap};; esac; words=(\"$@\")");
    let link = &swapped("ln -s ../../.ssh out");
    let plant = ["--", "sh", "-c", "echo planted >out/key"];
    failed(&with_bwrap(place, link, &plant), 125, "/out` is not mounted");
    put_back();
    with_bwrap(place, link, &[&["--no-guard"][..], &plant].concat());
    assert_eq!(fs::read_to_string(place.home().join(".ssh/key")).unwrap(), "planted\n", "the attack is real");
    put_back();
    failed(
        &with_bwrap(place, &swapped("mkdir out"), &plant),
        125,
        "/out` is no longer the file or directory that it was",
    );
}

// SPEC C11
fn a_file_removed_during_setup_makes_the_start_repeat(place: &Place) {
    policy(place, "exclude = ['**/.env*']");
    write(place, "sub/.env", "secret");
    write(place, "sub/.env.tmp", "secret");
    // Like an editor that saves, bwrap removes a temporary file once, or replaces it at each
    // start.
    let gone =
        "case \"$*\" in *die-with-parent*) [ -e starts ] || rm sub/.env.tmp; echo >>starts;; esac; words=(\"$@\")";
    let look = ["--", "sh", "-c", "cat sub/.env 2>/dev/null || echo hidden"];
    assert_eq!(succeeded(with_bwrap(place, gone, &look)), "hidden\n");
    assert_eq!(fs::read_to_string(place.project().join("starts")).unwrap(), "\n\n");
    let other = "case \"$*\" in *die-with-parent*) rm -f sub/.env.[0-9]*; echo >sub/.env.$$; echo >>starts;; esac; words=(\"$@\")";
    write(place, "sub/.env.1", "secret");
    let output = with_bwrap(place, other, &look);
    failed(&output, 125, "error[guard-refused]: the sandbox is not as planned: `");
    assert!(stderr(&output).contains("/sub/.env."), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("error[").count(), 1, "{}", stderr(&output));
}

// SPEC C2
fn the_guard_closes_paths_that_bwrap_left_writable(place: &Place) {
    policy(place, "");
    let open = r#"words=("$@"); for i in "${!words[@]}"; do
        [ "${words[$i]} ${words[$((i+1))]}" = "--ro-bind /" ] && words[$i]=--bind; done"#;
    let elsewhere = if place.uid == 0 { Place::root_outside_tmp() } else { Place::outside_tmp() };
    let planted = elsewhere.home().join("planted");
    let attempt = |flags: &[&str]| {
        let script = format!("echo x >{}", planted.display());
        with_bwrap(place, open, &[flags, &["--", "sh", "-c", &script]].concat());
        planted.exists()
    };
    assert!(!attempt(&[]));
    assert!(attempt(&["--no-guard"]));
}

fn without_supervision_the_guard_obeys_the_message_format(place: &Place) {
    policy(place, "");
    write_program(&place.project().join("tool"), "#!/no/such/interpreter\n");
    place.give_away();
    let said = |flags: &[&str]| {
        let output = run(place, &[flags, &["--exec", "--", "./tool"]].concat());
        assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(said(&[]).starts_with("error[command-not-found]: "));
    assert!(said(&["--message-format=json"]).starts_with('{'));
}

// SPEC C10
fn a_library_of_the_guard_that_the_policy_hides_is_an_error(place: &Place) {
    let library = fs::read_to_string("/proc/self/maps").unwrap();
    let Some(library) = library.split_whitespace().find(|word| word.contains("/libc.so")) else { return };
    // Profilers keep hard links to libraries, and this test is not about those.
    policy(place, &format!("exclude = [{{ path = \"{library}\", hard-links = \"allow\" }}]\n"));
    failed(&run(place, &["--", "true"]), 125, "error[guard-unavailable]: the guard needs `");
}

// SPEC C5
fn the_kernels_settings_cannot_be_changed(place: &Place) {
    policy(place, "");
    // The probe writes the existing content, in case the write succeeds.
    let script = "cat /proc/sys/kernel/core_pattern >/tmp/now; cat /tmp/now >/proc/sys/kernel/core_pattern && echo written; true";
    assert_eq!(shell_with(place, &[], &format!("({script}) 2>/dev/null")), "");
}

/// Tries operations that reach beyond mounts and namespaces, and prints the result of each.
const REACH: &str = r#"
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    print(name, 'done' if result >= 0 else errno.errorcode[ctypes.get_errno()])
call('keyctl', 250, 0, -3, 0)
call('io_uring', 425, 1, 0)
call('x32', 0x40000000 + 39)
call('inject', 16, 0, 0x5412, 0)
call('inject', 16, 0, 0x100005412, 0)
call('paste', 16, 0, 0x541c, 0)
call('namespace', 272, 0x10000000)
def attempt(name, what):
    try:
        what()
        print(name, 'done')
    except OSError as error:
        print(name, errno.errorcode[error.errno])
attempt('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0' + sys.argv[1]))
"#;

/// An abstract socket of the host with a listener.
fn abstract_listener(place: &Place) -> (UnixListener, String) {
    let name = format!("agent-sandbox-test-{}", place.path().file_name().unwrap().to_string_lossy());
    (UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(), name)
}

// SPEC C6, C7
#[cfg(target_arch = "x86_64")]
fn system_calls_that_bypass_mounts_are_refused(place: &Place) {
    policy(place, "");
    let (_listener, name) = abstract_listener(place);
    let said = python(sandbox(place).arg("--"), REACH, &[&name]);
    let refused = "keyctl EPERM\nio_uring EPERM\nx32 ENOSYS\ninject EPERM\ninject EPERM\npaste EPERM\n\
        namespace ENOSPC\nvsock EPERM\nabstract EPERM\n";
    assert_eq!(said, refused);
    // Outside, these operations succeed.
    let outside = python(&mut place.command("env"), REACH, &[&name]);
    for possible in ["keyctl done", "namespace done", "abstract done"] {
        assert!(outside.contains(possible), "{possible}: {outside}");
    }
}

// SPEC C9
#[cfg(target_arch = "x86_64")]
fn bwrap_alone_forbids_user_namespaces_and_injection(place: &Place) {
    policy(place, "");
    let (_listener, name) = abstract_listener(place);
    let said = python(sandbox(place).args(["--no-guard", "--"]), REACH, &[&name]);
    assert!(
        said.contains("namespace ENOSPC") && said.contains("inject EPERM") && said.contains("abstract EPERM"),
        "{said}"
    );
}

/// A setuid bwrap gives capabilities to root alone, and the guard needs none from bwrap.
// SPEC C8, Y5
#[test]
fn a_setuid_bwrap_has_a_guard() {
    let place = Place::outside_tmp();
    write(&place, "secret", "canary");
    policy(&place, "exclude = ['secret']\n");
    let bwrap = place.path().join("bin/bwrap");
    fs::create_dir(place.path().join("bin")).unwrap();
    fs::copy("/usr/bin/bwrap", &bwrap).unwrap();
    place.give_away();
    let root = rustix::process::getuid().is_root();
    // Only root can make a setuid bwrap.
    let mode = if root { 0o4755 } else { 0o755 };
    std::os::unix::fs::chown(&bwrap, root.then_some(0), root.then_some(0)).unwrap();
    fs::set_permissions(&bwrap, fs::Permissions::from_mode(mode)).unwrap();
    let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
    for flags in [&[][..], &["--exec"]] {
        let script = "cat secret 2>/dev/null; unshare --user true 2>/dev/null && echo made; echo ran";
        let output = sandbox(&place).args(flags).args(["--", "sh", "-c", script]).env("PATH", &path).output().unwrap();
        let said = stderr(&output);
        assert_eq!(stdout(&output), "ran\n", "{flags:?}: {said}");
        // Root owns the namespaces of a setuid bwrap.
        let is_told = said.starts_with("warning[not-covered-again]: ") && said.contains("a setuid bwrap");
        assert!(if root && flags.is_empty() { is_told } else { said.is_empty() }, "{flags:?}: {said}");
    }
    if root {
        let output = sandbox(&place).args(["--limit", "tmp=1M", "--", "true"]).env("PATH", &path).output().unwrap();
        failed(&output, 125, "error[limit-unavailable]: the limit `tmp` cannot be enforced: `");
        assert!(stderr(&output).contains("is setuid, and takes no `--size`"), "{}", stderr(&output));
    }
}
