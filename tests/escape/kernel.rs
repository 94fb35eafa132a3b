//! System calls: the user's terminal, and what leads past other checks.

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, Scene, run, words};
use crate::support::binary;

everywhere!("seccomp": typing_into_the_users_terminal);

for_everybody!("seccomp":
    using_the_keyring,
    talking_to_other_machines_by_vsock,
    handing_work_to_io_uring,
    taking_a_lease_on_a_file_of_the_host,
);

#[cfg(target_arch = "x86_64")]
for_everybody!("seccomp": using_the_numbers_of_x32, using_the_numbers_of_i386);

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
    // Newer kernels refuse by themselves (EIO), and a terminal that is none of the console's has no TIOCLINUX (ENOTTY).
    // Only the filter says EPERM to all of them.
    let answers: Vec<&str> =
        ran.out.lines().filter_map(|line| line.strip_prefix("TIOC")?.split_once(' ')).map(|(_, n)| n).collect();
    assert_eq!(answers.len(), 6, "{ran:#?}");
    let typed = ran.value("typed") != "b''";
    Verdict::broken_if(typed || answers.iter().any(|answer| *answer != EPERM), ran.out)
}

/// Makes system calls inside. The control must find what the host finds, whatever this kernel has of it.
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

fn taking_a_lease_on_a_file_of_the_host(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    scene.write_home("settings", "");
    let ran = scene.attack("lease.py", &[scene.home().join("settings")]).completed();
    Verdict::broken_if(ran.value("lease") == "ok", ran.out)
}

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
