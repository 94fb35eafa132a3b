//! A file that the caller opened for reading can only be read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use crate::outcome::Verdict;
use crate::scene::{BASE_ONLY, ORIGINAL, PLANTED, Scene, run, words};

everywhere!("streams": writing_a_read_only_file_that_is_standard_input, writing_a_file_that_only_standard_input_shows);
for_everybody!("streams": writing_standard_input_without_supervision, writing_standard_input_without_a_guard);

fn write_through_standard_input(scene: &Scene, file: PathBuf, flags: &[&str]) -> Verdict {
    scene.place.write(&file, ORIGINAL);
    let before = fs::metadata(&file).unwrap();
    let mut command: Command = scene.product();
    command.args(flags).arg("--").stdin(fs::File::open(&file).unwrap());
    words(&mut command, "streams.py", &[PLANTED]);
    let ran = run(command).completed();
    let after = fs::metadata(&file).unwrap();
    let as_before = fs::read(&file).unwrap() == ORIGINAL.as_bytes()
        && (before.mode(), before.mtime(), before.nlink()) == (after.mode(), after.mtime(), after.nlink());
    Verdict::broken_if(!as_before, format!("{ran:?}"))
}

// SPEC A6
fn writing_a_read_only_file_that_is_standard_input(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "ro = ['notes.md']");
    write_through_standard_input(scene, scene.project().join("notes.md"), &[])
}

// SPEC A6
fn writing_a_file_that_only_standard_input_shows(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "exclude = ['~/.hidden']");
    write_through_standard_input(scene, scene.home().join(".hidden/notes.md"), &[])
}

fn writing_standard_input_without_supervision(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    write_through_standard_input(scene, scene.home().join("notes.md"), &["--exec"])
}

fn writing_standard_input_without_a_guard(scene: &Scene) -> Verdict {
    scene.policy(BASE_ONLY, "");
    write_through_standard_input(scene, scene.home().join("notes.md"), &["--no-guard"])
}
