//! However it ends, the printed script removes exactly the placeholders that it created.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::sandbox::{policy, run, succeeded};
use crate::support::{Place, stderr, stdout};

for_both!(
    a_script_that_is_interrupted_leaves_nothing,
    a_signal_to_the_script_alone_waits_for_the_command,
    a_script_removes_only_files_that_it_created,
    a_script_ends_as_the_command_did,
    a_script_gives_its_input_to_the_command,
);

/// The paths below a folder.
fn names(folder: &Path) -> BTreeSet<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let below: BTreeSet<PathBuf> = entries.iter().filter(|path| path.is_dir()).flat_map(|path| names(path)).collect();
    entries.into_iter().chain(below).collect()
}

const SHELLS: [&[&str]; 4] = [&["sh"], &["bash"], &["sh", "-eu"], &["bash", "-eu"]];
const STAGES: [&[&str]; 2] = [&["-q"], &["-q", "--no-guard"]];

/// Prints the script that runs `command`, in a project with files and folders that are blocked.
fn print(place: &Place, stages: &[&str], command: &str) {
    policy(
        place,
        "ro = [{ path = 'a/.mcp.json', if-missing = 'block' }, { path = 'hooks/', if-missing = 'block' }]
exclude = [{ path = 'token', if-missing = 'block' }]",
    );
    let flags = [stages, &["--print-args=script", "--", "sh", "-c", command]].concat();
    let printed = succeeded(run(place, &flags));
    assert!(printed.contains("mkdir -- "), "{printed}");
    place.write("script", printed);
}

/// Runs the script in a process group of its own, and waits until the command prints `started`.
fn started(place: &Place, shell: &[&str]) -> (Child, Pid) {
    let mut command = place.command(shell[0]);
    command.args(&shell[1..]).arg(place.path().join("script")).process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    assert!(place.project().join("hooks").exists());
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    (child, pid)
}

// SPEC M9
fn a_script_that_is_interrupted_leaves_nothing(place: &Place) {
    for stages in STAGES {
        print(place, stages, "echo started; cat");
        let before = names(&place.project());
        for shell in SHELLS {
            for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
                let (mut child, group) = started(place, shell);
                // The input stays open, so that only the signal ends the command.
                let _input = child.stdin.take();
                kill_process_group(group, signal).unwrap();
                let output = child.wait_with_output().unwrap();
                let status = output.status;
                let number = signal.as_raw();
                assert!(
                    status.code() == Some(128 + number) || status.signal() == Some(number),
                    "{stages:?} {shell:?} {signal:?} {status}"
                );
                assert_eq!(names(&place.project()), before, "{shell:?} {signal:?} {}", stderr(&output));
            }
        }
    }
}

// SPEC M9
fn a_signal_to_the_script_alone_waits_for_the_command(place: &Place) {
    for stages in STAGES {
        print(place, stages, "echo started; cat; exit 7");
        let before = names(&place.project());
        for shell in SHELLS {
            let (mut child, pid) = started(place, shell);
            kill_process(pid, Signal::TERM).unwrap();
            drop(child.stdin.take());
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(7), "{shell:?} {}", stderr(&output));
            assert_eq!(names(&place.project()), before, "{shell:?}");
        }
    }
}

/// If another process has created a file meanwhile, the script starts nothing and keeps the file.
// SPEC M9
fn a_script_removes_only_files_that_it_created(place: &Place) {
    print(place, STAGES[0], "echo ran");
    for (made, is_file) in [("a", false), ("hooks", false), ("token", true)] {
        let path = place.project().join(made);
        if is_file { fs::write(&path, "") } else { fs::create_dir(&path) }.unwrap();
        place.give_away();
        let before = names(&place.project());
        for shell in SHELLS {
            let output = place.command(shell[0]).args(&shell[1..]).arg(place.path().join("script")).output().unwrap();
            assert!(!output.status.success() && output.stdout.is_empty(), "{shell:?}");
            assert_eq!(names(&place.project()), before, "{made} {shell:?}");
        }
        if is_file { fs::remove_file(&path) } else { fs::remove_dir(&path) }.unwrap();
    }
}

// SPEC M9
fn a_script_ends_as_the_command_did(place: &Place) {
    for (stages, code) in [(STAGES[0], 0), (STAGES[1], 0), (STAGES[0], 42), (STAGES[1], 42)] {
        print(place, stages, &format!("exit {code}"));
        let before = names(&place.project());
        for shell in SHELLS {
            let output = place.command(shell[0]).args(&shell[1..]).arg(place.path().join("script")).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{shell:?} {}", stderr(&output));
            assert_eq!(names(&place.project()), before, "{shell:?}");
        }
    }
    // A shell that reads more commands after the script keeps its own traps.
    let text = fs::read_to_string(place.path().join("script")).unwrap();
    for shell in ["sh", "bash"] {
        let script = format!("{text}echo $?; kill -TERM $$; echo still there");
        let output = place.command(shell).args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{shell}");
        assert_eq!(output.status.signal(), Some(Signal::TERM.as_raw()), "{shell}");
    }
}

// SPEC M9
fn a_script_gives_its_input_to_the_command(place: &Place) {
    for stages in STAGES {
        print(place, stages, "cat; echo end");
        for shell in SHELLS {
            let mut command = place.command(shell[0]);
            command.args(&shell[1..]).arg(place.path().join("script"));
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(b"given\n").unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(stdout(&output), "given\nend\n", "{stages:?} {shell:?}");
        }
    }
}
