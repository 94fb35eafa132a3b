use crate::ran;
use crate::support::snapshots;

fn assert_help<const N: usize>(name: &str, words: [&str; N]) {
    let ran = ran(words);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!(name, ran.out));
}

#[test]
fn the_short_help_fits_a_screen() {
    assert_help("help-short", ["-h"]);
}

#[test]
fn the_long_help_explains_every_value() {
    assert_help("help-long", ["--help"]);
}

#[test]
fn subcommands_have_their_own_help() {
    assert_help("help-check", ["check", "--help"]);
    assert_help("help-diff", ["diff", "--help"]);
    assert_help("help-trust", ["trust", "--help"]);
    assert_help("help-schema", ["schema", "--help"]);
    assert_help("help-lint", ["lint", "--help"]);
    assert_help("help-private", ["private", "--help"]);
    assert_help("help-report", ["report", "--help"]);
    assert_help("help-init", ["init", "--help"]);
    assert_help("help-explain", ["explain", "--help"]);
    assert_help("help-show", ["show", "--help"]);
    assert_help("help-verify", ["verify", "--help"]);
    assert_help("help-doctor", ["doctor", "--help"]);
    assert_help("help-completions", ["completions", "--help"]);
    assert_help("help-man", ["man", "--help"]);
    assert_help("help-sweep", ["sweep", "--help"]);
}

#[test]
fn a_mistake_shows_the_usage() {
    let ran = ran(["--exclde", "x", "--", "true"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("usage-mistake", ran.err));
}

#[test]
fn without_a_command_there_is_a_hint() {
    let ran = ran([]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    snapshots("cli").bind(|| insta::assert_snapshot!("no-command", ran.err));
}

#[test]
fn the_version_is_that_of_the_package() {
    for flag in ["-V", "--version"] {
        let ran = ran([flag]);
        assert_eq!((ran.code, ran.out), (Some(0), format!("agent-sandbox {}\n", env!("CARGO_PKG_VERSION"))));
    }
}

#[test]
fn manual_pages_that_were_written_are_counted() {
    let place = crate::support::Place::in_tmp();
    let folder = place.project();
    let ran = crate::run(&place, ["man".as_ref(), "--dir".as_ref(), folder.as_os_str()]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let written = std::fs::read_dir(&folder).unwrap().count();
    assert!(ran.out.starts_with(&format!("wrote {written} manual pages to {}: ", folder.display())), "{}", ran.out);
}
