//! Placeholders are removed only when no process inside is alive any more.

use std::fs;

use crate::sandbox::{policy, run, succeeded};
use crate::support::{Place, stderr};

everywhere!(a_process_that_outlives_the_command_plants_nothing, the_exit_status_is_that_of_the_command);

const BLOCKED: &str = "ro = [{ path = 'blocked/', if-missing = 'block' }]\n";

/// Each script leaves a process that keeps trying to create the path.
const OUTLIVING: [&str; 4] = [
    // Orphans, which become children of the first process.
    "for i in 1 2 3; do (setsid sh -c 'while :; do mkdir -p blocked/in && touch planted; done' 2>/dev/null &) ; done",
    // Children of a subreaper that outlives the command.
    "python3 -c '
import ctypes, os
if os.fork() == 0:
    os.setsid()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    if os.fork() == 0:
        os.fork()
        while True:
            try:
                os.makedirs(\"blocked/in\")
                open(\"planted\", \"w\")
            except OSError:
                pass
    while True:
        os.wait()
'",
    // A chain of processes, each of which ends at once and leaves a child.
    "python3 -c '
import os
if os.fork() == 0:
    while True:
        if os.fork() != 0:
            os._exit(0)
        try:
            os.makedirs(\"blocked/in\")
            open(\"planted\", \"w\")
        except OSError:
            pass
'",
    // A thread that goes on after the main thread of the command has ended.
    "exec python3 -c '
import ctypes, os, threading
def plant():
    for _ in range(3000):
        try:
            os.makedirs(\"blocked/in\")
            open(\"planted\", \"w\")
        except OSError:
            pass
threading.Thread(target=plant).start()
ctypes.CDLL(None).pthread_exit(None)
'",
];

// SPEC S7
fn a_process_that_outlives_the_command_plants_nothing(place: &Place) {
    policy(place, BLOCKED);
    place.give_away();
    for script in OUTLIVING {
        for _ in 0..10 {
            let output = run(place, &["--", "sh", "-c", script]);
            assert_eq!(stderr(&output), "", "{script}");
            for name in ["planted", "blocked"] {
                assert!(fs::symlink_metadata(place.project().join(name)).is_err(), "{name}: {script}");
            }
        }
    }
}

// SPEC S7
fn the_exit_status_is_that_of_the_command(place: &Place) {
    policy(place, BLOCKED);
    place.give_away();
    for _ in 0..10 {
        assert_eq!(run(place, &["--", "sh", "-c", "sleep 10 & exit 7"]).status.code(), Some(7));
        assert_eq!(run(place, &["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
        assert_eq!(succeeded(run(place, &["--", "echo", "said"])), "said\n");
    }
    assert!(!place.project().join("blocked").exists());
}
