//! Limits that only a cgroup enforces, with a systemd user manager of the test's own or in a folder
//! of cgroups that the test delegates. If the kernel gives the cgroup no controller, the product
//! must start nothing.

use std::fs;
use std::process::Command;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, Ran, Scene, run, words};
use crate::support::write_program;

for_user_with_cgroups!("limits": taking_more_memory_than_allowed, keeping_processors_busy);
for_user_with_cgroups!("limits": taking_more_memory_below_a_delegated_folder, keeping_processors_busy_below_one);
for_user_with_cgroups!("cgroup-check": taking_memory_that_systemd_does_not_limit);

/// The scripts that prepare a host.
const MANAGER: &str = include_str!("attacks/host_manager.sh");
const DELEGATED: &str = include_str!("attacks/host_delegated.sh");

/// Runs an attack on a host that `script` prepares.
fn attack_on(script: &str, scene: &Scene, path: &str, attack: &str) -> Ran {
    let product = scene.product();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", &scene.place.uid.to_string()]).arg(product.get_program());
    let variables = product.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(product.get_args()).env_clear().envs(variables).current_dir(scene.project());
    command.env("PATH", format!("{path}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")).arg("--");
    words::<&str>(&mut command, attack, &[]);
    run(command)
}

/// Whether the kernel offers this controller to cgroups of version 2.
fn is_controlled(controller: &str) -> bool {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let lists = roots.map(|root| fs::read_to_string(format!("{root}/cgroup.controllers")).unwrap_or_default());
    lists.iter().any(|list| list.split_whitespace().any(|name| name == controller))
}

/// The product refuses a limit that no controller of the manager enforces, and says where it
/// looked.
#[track_caller]
fn assert_refused(ran: &Ran, limit: &str, file: &str) {
    let said = format!(
        "error[limit-unavailable]: the limit `{limit}` cannot be enforced: `{file}` does not appear in \
         `/sys/fs/cgroup/app.slice/run-"
    );
    assert!(ran.refused(&said), "{ran:#?}");
}

/// The product refuses a limit for which no controller is delegated.
#[track_caller]
fn assert_not_delegated(ran: &Ran, limit: &str) {
    let said = format!(
        "error[limit-unavailable]: the limit `{limit}` cannot be enforced: `XDG_RUNTIME_DIR` is not set, so no user \
         manager of systemd runs, and no cgroup above this process is delegated to you"
    );
    assert!(ran.refused(&said), "{ran:#?}");
}

/// Judges an attack that takes more memory than the policy allows.
fn memory(scene: &Scene, host: &str, assert_refused: impl Fn(&Ran)) -> Verdict {
    scene.policy(BASE_ONLY, "[limits]\nmemory = '64M'");
    let ran = attack_on(host, scene, "", "memory.py");
    if !scene.is_control() {
        match is_controlled("memory") {
            // The kernel kills the process at the limit.
            true => assert!(ran.out.starts_with("variables ") && ran.code == Some(137), "{ran:#?}"),
            false => assert_refused(&ran),
        }
    }
    Verdict::broken_if(ran.out.contains("taken"), format!("{ran:?}"))
}

/// Judges an attack that takes more processor time than the policy allows.
fn processors(scene: &Scene, host: &str, assert_refused: impl Fn(&Ran)) -> Verdict {
    scene.policy(BASE_ONLY, "[limits]\ncpus = 0.2");
    let ran = attack_on(host, scene, "", "busy.py");
    if !scene.is_control() && !is_controlled("cpu") {
        assert_refused(&ran);
        return Verdict::Held(ran.err);
    }
    // In each period of 100 ms the kernel gives 20 ms, so one second takes 50 periods, however busy
    // the machine is. Two are subtracted for an incomplete first and last period.
    let periods: u64 = ran.value("periods").parse().unwrap();
    Verdict::broken_if(periods < 48, format!("{ran:?}"))
}

// SPEC A24, Z7
fn taking_more_memory_than_allowed(scene: &Scene) -> Verdict {
    memory(scene, MANAGER, |ran| assert_refused(ran, "memory", "memory.max"))
}

// SPEC A24, Z7
fn keeping_processors_busy(scene: &Scene) -> Verdict {
    processors(scene, MANAGER, |ran| assert_refused(ran, "cpus", "cpu.max"))
}

// SPEC A24, Z7
fn taking_more_memory_below_a_delegated_folder(scene: &Scene) -> Verdict {
    memory(scene, DELEGATED, |ran| assert_not_delegated(ran, "memory"))
}

// SPEC A24, Z7
fn keeping_processors_busy_below_one(scene: &Scene) -> Verdict {
    processors(scene, DELEGATED, |ran| assert_not_delegated(ran, "cpus"))
}

/// A systemd without the controller accepts the property and ignores it. This wrapper ignores it,
/// too.
// SPEC A24, Z7
fn taking_memory_that_systemd_does_not_limit(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "[limits]\nmemory = '64M'");
    let wrapper = "#!/bin/bash
words=()
while [ $# -gt 0 ]; do
    if [ \"$1\" = -p ]; then shift 2; else words+=(\"$1\"); shift; fi
done
exec /usr/bin/systemd-run \"${words[@]}\"
";
    let folder = scene.place.path().join("bin");
    write_program(&folder.join("systemd-run"), wrapper);
    scene.place.give_away();
    let ran = attack_on(MANAGER, scene, &format!("{}:", folder.display()), "memory.py");
    let is_taken = ran.out.contains("taken");
    if is_taken {
        // The programs that make the scope add no variable.
        let variables: Vec<&str> = ran.value("variables").split(' ').collect();
        assert!(!variables.contains(&"INVOCATION_ID") && variables.contains(&"HOME"), "{ran:#?}");
        assert_eq!(ran.code, Some(0));
    } else {
        assert!(
            ran.refused("error[limit-unavailable]: the limit `memory` cannot be enforced: `memory.max` "),
            "{ran:#?}"
        );
    }
    Verdict::broken_if(is_taken, format!("{ran:?}"))
}
