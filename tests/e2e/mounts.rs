//! The mounts of the second stage, where the host, or the number of rules, makes them difficult.

use std::fs;

use crate::sandbox::{policy, sandbox, succeeded, write};
use crate::support::{Place, binary, stderr};

everywhere!(
    mounts_of_the_host_are_as_open_as_what_they_lie_in,
    what_is_re_opened_may_be_more_than_descriptors,
    what_the_caller_takes_away_from_new_files_changes_nothing,
    what_the_caller_takes_away_from_himself_breaks_nothing,
);

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
