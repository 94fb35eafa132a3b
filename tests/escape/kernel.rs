//! System calls that reach the user's terminal or bypass other checks.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, Scene, run, words};
use crate::support::binary;

everywhere!("seccomp": typing_into_the_users_terminal);

for_everybody!("seccomp":
    using_the_keyring,
    talking_to_other_machines_by_vsock,
    handing_work_to_io_uring,
    taking_a_lease_on_a_file_of_the_host,
    leaving_a_program_that_runs_as_the_user,
);

// The kernel does not let a process without capabilities change one with capabilities, as root's
// are.
for_user!("seccomp": lowering_the_priority_of_the_callers_group);

#[cfg(target_arch = "x86_64")]
for_everybody!("seccomp": using_the_numbers_of_x32, using_the_numbers_of_i386);

// SPEC C6, A9
fn typing_into_the_users_terminal(scene: &Scene) -> Verdict {
    const EPERM: &str = "1";
    scene.policy(BASE_ONLY, "");
    let mut command = scene.outside("env");
    let launcher: &[&std::ffi::OsStr] = &[];
    words(&mut command, "host_terminal.py", launcher);
    command.arg(binary());
    scene.prepare(&mut command);
    command.arg("--");
    words::<&str>(&mut command, "terminal.py", &[]);
    let ran = run(command);
    assert!(ran.says("done") && scene.project().join("attempted").exists(), "{ran:#?}");
    assert_eq!(ran.value("size"), "ok", "the terminal works: {ran:#?}");
    // Newer kernels refuse some requests (EIO), and a terminal that is not a console does not know
    // all of them (ENOTTY). Only the filter answers EPERM to all requests.
    let answers: Vec<&str> =
        ran.out.lines().filter_map(|line| line.strip_prefix("TIOC")?.split_once(' ')).map(|(_, n)| n).collect();
    assert_eq!(answers.len(), 24, "{ran:#?}");
    let typed = ran.value("typed") != "b''";
    Verdict::broken_if(typed || answers.iter().any(|answer| *answer != EPERM), ran.out)
}

/// Makes system calls inside. In the control, they must have the same results as on the host.
fn calls(scene: &Scene, names: &[&str]) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let program = scene.compile("syscalls.c");
    let program = program.to_str().unwrap();
    let inside = scene.attack::<&str>(program, &[]).completed();
    let outside = scene.try_host(&[program]).completed();
    let broken = names.iter().any(|name| {
        if scene.is_control() {
            inside.value(name) == outside.value(name)
        } else {
            inside.value(name).starts_with("ok")
        }
    });
    Verdict::broken_if(broken, format!("inside: {}outside: {}", inside.out, outside.out))
}

// SPEC C6, A9
fn taking_a_lease_on_a_file_of_the_host(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    scene.write_home("settings", "");
    let ran = scene.attack("lease.py", &[scene.home().join("settings")]).completed();
    Verdict::broken_if(ran.value("lease") == "ok", ran.out)
}

/// A shell without job control starts commands in its own process group.
// SPEC C6, A9
fn lowering_the_priority_of_the_callers_group(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let mut command = scene.outside("env");
    words::<&str>(&mut command, "host_priority.py", &[]);
    command.arg(binary());
    scene.prepare(&mut command);
    command.arg("--");
    words::<&str>(&mut command, "priority.py", &[]);
    let ran = run(command);
    assert!(ran.says("done") && ran.value("status") == "0", "{ran:#?}");
    let lowered = ran.value("nice") != "0" || ran.value("ioprio") == "3";
    Verdict::broken_if(lowered, ran.out)
}

// SPEC C6, A9
fn leaving_a_program_that_runs_as_the_user(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    let ran = scene.attack::<&str>("setuid.py", &[]).completed();
    let left = fs::read_dir(scene.project()).unwrap().map(|entry| entry.unwrap());
    let is_setuid = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|it| it.mode() & 0o4000 != 0 && it.len() > 0);
    let left: Vec<_> = left.filter(is_setuid).map(|entry| entry.file_name()).collect();
    Verdict::broken_if(!left.is_empty(), format!("{left:?} {}", ran.out))
}

// SPEC A9
fn using_the_keyring(scene: &Scene) -> Verdict {
    calls(scene, &["add_key", "keyctl", "request_key"])
}

fn talking_to_other_machines_by_vsock(scene: &Scene) -> Verdict {
    calls(scene, &["vsock"])
}

fn handing_work_to_io_uring(scene: &Scene) -> Verdict {
    calls(scene, &["io_uring"])
}

#[cfg(target_arch = "x86_64")]
fn using_the_numbers_of_x32(scene: &Scene) -> Verdict {
    calls(scene, &["x32"])
}

#[cfg(target_arch = "x86_64")]
fn using_the_numbers_of_i386(scene: &Scene) -> Verdict {
    calls(scene, &["int80"])
}
