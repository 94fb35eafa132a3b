//! Streams that are closed or full cause no panic, and the exit code is correct.

use std::fs::OpenOptions;

use crate::Ran;
use crate::support::Place;

const PRINTING: [&[&str]; 6] =
    [&["--help"], &["-V"], &["schema"], &["check"], &["--print-args", "--", "true"], &["--print-args=annotated"]];

/// The reader has closed the pipe before the first byte.
#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let place = Place::in_tmp();
    for words in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.agent_sandbox().args(words).stdout(writer).output().unwrap();
        let ran = Ran::of(&output);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn a_reader_that_takes_one_byte_is_no_failure() {
    let place = Place::in_tmp();
    let script = "{ \"$0\" --print-args; echo $? >&2; } | head -c1";
    let output = place.command("sh").args(["-c", script]).arg(crate::support::binary()).output().unwrap();
    let ran = Ran::of(&output);
    assert_eq!((ran.out.len(), ran.err.as_str()), (1, "0\n"));
}

#[test]
fn closed_streams_do_not_matter() {
    let place = Place::in_tmp();
    for words in PRINTING.iter().chain(&[&["--", "true"] as &[&str]]) {
        for closing in ["exec \"$0\" \"$@\" >&-", "exec \"$0\" \"$@\" 2>&-", "exec \"$0\" \"$@\" <&- >&- 2>&-"] {
            let mut command = place.command("sh");
            command.args(["-c", closing]).arg(crate::support::binary()).args(*words);
            assert_eq!(Ran::of(&command.output().unwrap()).code, Some(0), "{words:?} {closing}");
        }
    }
}

#[test]
fn an_error_that_cannot_be_printed_still_has_its_exit_code() {
    let place = Place::in_tmp();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = place.agent_sandbox().args(["--exclude", ".", "--", "true"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(125));
    let usage = place.agent_sandbox().arg("--no-such-flag").stderr(full()).status().unwrap();
    assert_eq!(usage.code(), Some(2));
}

/// A run that could not write its result must not look like a success.
#[test]
fn a_full_disk_is_a_failure_with_a_reason() {
    let place = Place::in_tmp();
    for words in [&["schema"] as &[&str], &["check"], &["--print-args", "--", "true"]] {
        let ran = Ran::of(&place.agent_sandbox().args(words).stdout(full()).output().unwrap());
        assert_eq!(ran.code, Some(125), "{words:?}");
        assert!(ran.err.contains("no space left on device"), "{words:?}: {:?}", ran.err);
    }
}

fn full() -> std::fs::File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}
