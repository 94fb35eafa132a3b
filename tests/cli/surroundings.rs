//! Strange callers: no home, no directory, names that are not text.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::support::{Place, binary, write_program};
use crate::{Ran, run};

fn bytes(text: &[u8]) -> OsString {
    OsString::from_vec(text.to_vec())
}

#[test]
fn without_a_home_nothing_runs() {
    let place = Place::in_tmp();
    for home in [None, Some(""), Some("relative")] {
        let mut command = place.agent_sandbox();
        match home {
            None => command.env_remove("HOME"),
            Some(home) => command.env("HOME", home),
        };
        let ran = Ran::of(&command.args(["--", "true"]).output().unwrap());
        assert_eq!((ran.code, ran.codes()), (Some(125), vec!["no-home"]), "{home:?}");
    }
}

/// Starts the binary in a directory that was just removed.
fn in_a_deleted_directory(place: &Place, words: &[&OsStr]) -> Ran {
    let mut command = place.command("sh");
    command.args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" \"$@\""]).arg(binary()).args(words);
    Ran::of(&command.output().unwrap())
}

#[test]
fn a_working_directory_that_was_deleted_is_named_as_the_reason() {
    let place = Place::in_tmp();
    for words in [["--", "true"], ["--print-args", "true"], ["check", "-q"]] {
        let ran = in_a_deleted_directory(&place, &words.map(OsStr::new));
        assert_eq!((ran.code, ran.codes()), (Some(125), vec!["invalid-cwd"]), "{words:?}");
    }
}

#[test]
fn an_absolute_directory_does_not_need_the_one_that_was_deleted() {
    let place = Place::in_tmp();
    let project = place.project();
    let ran = in_a_deleted_directory(&place, &["-C".as_ref(), project.as_ref(), "--".as_ref(), "pwd".as_ref()]);
    assert_eq!((ran.code, ran.out), (Some(0), format!("{}\n", project.display())));
}

#[test]
fn arguments_that_are_not_utf8_reach_the_command_unchanged() {
    let place = Place::in_tmp();
    let output = place.agent_sandbox().args(["--", "printf", "%s"]).arg(bytes(b"a\xff\nb")).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"a\xff\nb"[..]));
}

#[test]
fn paths_that_are_not_text_are_protected_like_others() {
    let place = Place::in_tmp();
    let name = bytes(b"secret\xff");
    place.write(std::path::Path::new("home/code/project").join(&name), "secret");
    let read = |flags: &[&OsStr]| {
        let mut command = place.agent_sandbox();
        let output = command.args(flags).args(["--", "cat"]).arg(&name).output().unwrap();
        Ran::of(&output).out
    };
    assert_eq!(read(&[]), "secret");
    assert_eq!(read(&["--exclude".as_ref(), &name]), "");
    assert_eq!(read(&["--exclude".as_ref(), &bytes(b"*\xff")]), "");
}

#[test]
fn an_argv_that_is_not_text_prints_in_every_form() {
    let place = Place::in_tmp();
    for form in ["shell", "script", "json", "lines", "nul", "annotated"] {
        let output = place.agent_sandbox().arg(format!("--print-args={form}")).arg(bytes(b"x\xff")).output().unwrap();
        let expected: &[u8] = match form {
            "json" => b"\"bytes\": [",
            "shell" | "annotated" => b"$'x\\xff'",
            _ => b"x\xff",
        };
        assert_eq!(Ran::of(&output).code, Some(0), "{form}");
        assert!(output.stdout.windows(expected.len()).any(|at| at == expected), "{form}");
    }
}

#[test]
fn flags_that_are_not_text_are_mistakes_and_no_panic() {
    let place = Place::in_tmp();
    let cases: [(&[&[u8]], i32, &str); 8] = [
        (&[b"--preset", b"\xff", b"--", b"true"], 125, "unknown-preset"),
        (&[b"--config", b"\xff", b"--", b"true"], 125, "missing-config"),
        (&[b"-C", b"\xff", b"--", b"true"], 125, "invalid-cwd"),
        (&[b"check", b"\xff"], 1, "missing-config"),
        (&[b"--", b"\xff"], 127, "command-not-found"),
        (&[b"--network=\xff", b"--", b"true"], 2, ""),
        (&[b"--\xff", b"--", b"true"], 2, ""),
        (&[b"--print-args=\xff"], 2, ""),
    ];
    for (words, code, diagnostic) in cases {
        let ran = run(&place, words.iter().map(|word| OsStr::from_bytes(word)));
        assert_eq!((ran.code, ran.codes().join(" ")), (Some(code), diagnostic.to_owned()), "{words:?}: {}", ran.err);
    }
}

#[test]
fn an_environment_that_is_not_text_passes() {
    let place = Place::in_tmp();
    let mut command = place.agent_sandbox();
    command.env("ODD", bytes(b"\xff")).env(bytes(b"ODD\xff"), "x").env("DOCKER_HOST", bytes(b"unix:///\xff"));
    let output = command.args(["--", "sh", "-c", "printf %s \"$ODD\""]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"\xff"[..]));
}

#[test]
fn a_working_directory_reached_through_a_symlink_is_the_one_behind_it() {
    let place = Place::in_tmp();
    std::os::unix::fs::symlink(place.project(), place.home().join("link")).unwrap();
    let mut command = place.agent_sandbox();
    let ran = Ran::of(&command.current_dir(place.home().join("link")).args(["--", "pwd", "-P"]).output().unwrap());
    assert_eq!(ran.out, format!("{}\n", fs::canonicalize(place.project()).unwrap().display()));
}

/// `link` points to a folder outside of the project, so `link/..` is the parent of that folder.
fn with_a_link() -> Place {
    let place = Place::in_tmp();
    std::os::unix::fs::symlink("../other/inner", place.project().join("link")).unwrap();
    fs::create_dir_all(place.home().join("code/other/inner")).unwrap();
    place.give_away();
    place
}

#[test]
fn another_directory_is_followed_as_the_kernel_does() {
    let place = with_a_link();
    place.write("home/code/other/sub/file", "");
    place.write("home/code/project/only-here/file", "");
    let pwd = |words: [&str; 2]| run(&place, words.into_iter().chain(["--", "pwd", "-P"]));
    let other = fs::canonicalize(place.home()).unwrap().join("code/other");
    assert_eq!(pwd(["-C", "link/.."]).out, format!("{}\n", other.display()));
    assert_eq!(pwd(["-C", "link/../sub"]).out, format!("{}/sub\n", other.display()));
    // Without following the link, the path would lead to an existing folder.
    let absent = pwd(["-C", "link/../only-here"]);
    assert_eq!((absent.code, absent.codes(), absent.out.as_str()), (Some(125), vec!["invalid-cwd"], ""));
    assert!(absent.err.contains("the working directory `link/../only-here` does not exist"), "{}", absent.err);
}

#[test]
fn a_checked_file_is_followed_as_the_kernel_does() {
    let place = with_a_link();
    place.write("home/code/other/a.toml", "network = false\n");
    place.write("home/code/project/a.toml", "netwrk = false\n");
    place.write("home/code/project/only-here/b.toml", "network = false\n");
    let other = fs::canonicalize(place.home()).unwrap().join("code/other");
    assert_eq!(run(&place, ["check", "link/../a.toml"]).out, format!("ok: {}/a.toml\n", other.display()));
    let absent = run(&place, ["check", "link/../only-here/b.toml"]);
    assert_eq!((absent.code, absent.codes()), (Some(1), vec!["missing-config"]));
}

#[test]
fn a_command_is_followed_as_the_kernel_does() {
    let place = with_a_link();
    write_program(&place.home().join("code/other/tool"), "#!/bin/sh\necho other\n");
    write_program(&place.project().join("only-here"), "#!/bin/sh\necho here\n");
    place.give_away();
    let flags = ["--ro", "../other"];
    let run_with = |path: &str, name: &str| {
        let path = format!("{path}:/usr/bin:/bin");
        let output = place.agent_sandbox().env("PATH", path).args(flags).args(["--", name]).output().unwrap();
        let ran = Ran::of(&output);
        (ran.code, ran.codes().join(" "), ran.out)
    };
    let other = (Some(0), String::new(), "other\n".to_owned());
    assert_eq!(run_with("", "link/../tool"), other);
    assert_eq!(run_with("link/..", "tool"), other);
    assert_eq!(run_with(place.project().join("link/..").to_str().unwrap(), "tool"), other);
    let absent = (Some(127), "command-not-found".to_owned(), String::new());
    assert_eq!(run_with("", "link/../only-here"), absent);
    assert_eq!(run_with("link/..", "only-here"), absent);
}

/// A caller that gives a flag relies on its effect.
// SPEC M1
#[test]
fn a_flag_that_does_nothing_is_pointed_out_once() {
    let place = Place::in_tmp();
    place.write("home/code/project/there", "");
    let said = |words: &[&str]| {
        let ran = run(&place, words);
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.err);
        ran.err
    };
    for words in
        [&["--exclude", "secrts", "--", "true"][..], &["--ro", "secrts", "show"], &["--ro=secrts", "--print-args"]]
    {
        let err = said(words);
        assert!(err.starts_with("warning[unused-rule]: `secrts` does not exist, so nothing is protected\n"), "{err}");
        assert_eq!(err.matches("unused-rule").count(), 1, "{err}");
    }
    // A pattern may match nothing in this project, so this is only a note.
    let pattern = said(&["--exclude", "**/*.none", "--", "true"]);
    assert!(pattern.starts_with("note[unused-rule]: `**/*.none` matches nothing here\n"), "{pattern}");
    // The command can create `made-inside`, and `there` exists: neither is a finding.
    assert_eq!(said(&["--rw", "made-inside", "--exclude", "there", "--", "true"]), "");
    // The command cannot create this folder: its parent is read-only.
    let closed = said(&["--rw", "../elsewhere", "--", "true"]);
    assert!(
        closed.starts_with("warning[unused-rule]: `../elsewhere` does not exist, so nothing is opened\n"),
        "{closed}"
    );
    assert_eq!(said(&["-q", "--exclude", "secrts", "--", "true"]), "");
    let literal = run(&place, ["--exclude", "$HOME/x", "--", "true"]);
    assert_eq!((literal.code, literal.codes()), (Some(125), vec!["literal-path"]));
}

// SPEC M1
#[test]
fn a_path_of_the_projects_file_that_looks_misspelled_is_pointed_out() {
    let place = Place::in_tmp();
    place.write("home/code/project/deploy/keys/key", "");
    place.write("home/code/project/.env.local", "");
    let said = |list: &str| {
        place.write("home/code/project/.agent-sandbox.toml", format!("[filesystem]\n{list}\n"));
        let ran = run(&place, ["--", "true"]);
        assert_eq!(ran.code, Some(0), "{list}: {}", ran.err);
        ran.err
    };
    for (path, meant) in [("deplo/keys", "deploy/keys"), ("deploy/kyes", "deploy/keys"), (".env.locl", ".env.local")] {
        let err = said(&format!("exclude = [{path:?}]"));
        assert!(err.starts_with(&format!("warning[unused-rule]: `{path}` does not exist")), "{err}");
        assert!(err.contains(&format!("= help: did you mean `{meant}`?")), "{err}");
    }
    for silent in ["exclude = ['elsewhere']", "rw = ['deplo']", "exclude = ['deplo*']", "exclude = ['x']"] {
        assert_eq!(said(silent), "", "{silent}");
    }
}
