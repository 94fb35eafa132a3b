//! A harness written in Rust, which uses the library and not the binary.

use std::ffi::OsString;
use std::fs;
use std::process::Output;

use agent_sandbox::cli;
use agent_sandbox::compile::lower::Argv;
use agent_sandbox::diagnostic::{Code, Diagnostics};
use agent_sandbox::host::Host;
use agent_sandbox::host::session::{Request, Session};
use agent_sandbox::launch::{Ending, GivenStreams, Outcome, Supervisor};
use agent_sandbox::placeholders::{Removed, Undo};
use agent_sandbox::policy::path::AbsPath;
use agent_sandbox::{compile, launch, placeholders};

use crate::support::{Place, binary, require_bwrap, stdout};

/// Compiles for the project of `place`, and runs `script` there as this very user.
fn run(place: &Place, request: &Request, script: &str) -> Output {
    let (argv, undo) = ready(place, request, script);
    let output = launch::command(&argv).unwrap().output().unwrap();
    assert_eq!(undo.finish(), Diagnostics::default());
    output
}

fn ready(place: &Place, request: &Request, script: &str) -> (Argv, Undo) {
    ready_with(None, place, request, script)
}

/// `executable`: agent-sandbox itself, to be the guard.
fn ready_with(executable: Option<AbsPath>, place: &Place, request: &Request, script: &str) -> (Argv, Undo) {
    require_bwrap();
    let host = Host::system();
    let mut session = Session::of_this_process(Some(&place.project())).unwrap();
    session.env.insert("HOME".into(), place.home().into());
    session.executable = executable;
    let mut diagnostics = Diagnostics::default();
    let compiled = compile::compile(&host, &session, request, &mut diagnostics).unwrap();
    let engine = launch::engine(&host, &session, &compiled).unwrap();
    let command = ["sh", "-c", script].map(OsString::from);
    let argv = compiled.argv(&engine, &command, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    launch::ready(&host, &session, &compiled, &argv).unwrap();
    let undo = placeholders::put_up_for(&host, &compiled, &argv, Removed::Kept).unwrap();
    (argv, undo)
}

/// A place for whoever runs the tests, since nobody changes the user here.
fn own_place() -> Place {
    if rustix::process::getuid().is_root() { Place::root_in_tmp() } else { Place::in_tmp() }
}

#[test]
fn a_spawned_sandbox_is_the_one_that_the_binary_makes() {
    let place = own_place();
    place.write("home/.netrc", "password");
    place.write("home/code/project/secret", "secret");
    let request = Request { exclude: vec!["secret".into()], ..Request::default() };
    let script =
        format!("cat {}/.netrc && echo empty; cat secret 2>/dev/null || echo hidden; pwd", place.home().display());
    let output = run(&place, &request, &script);
    assert_eq!(stdout(&output), format!("empty\nhidden\n{}\n", place.project().display()), "{output:?}");
}

/// An open directory would be a way out.
#[test]
fn a_spawned_sandbox_inherits_no_descriptor() {
    let place = own_place();
    place.write("home/.netrc", "password");
    // Unlike what Rust opens, a duplicate is inherited.
    let held: Vec<_> = (0..4).map(|_| rustix::io::dup(fs::File::open("/").unwrap()).unwrap()).collect();
    let output = run(&place, &Request::default(), "ls /proc/self/fd");
    assert_eq!(stdout(&output), "0\n1\n2\n3\n", "the standard ones, and the one that lists them: {output:?}");
    drop(held);
}

/// With our binary as the guard, and without one, where all that can be known of the end is bwrap's exit code.
#[test]
fn a_supervised_run_tells_how_the_command_ended() {
    let place = own_place();
    let supervisor = Supervisor::new().unwrap();
    let guard = AbsPath::normalize(binary()).unwrap();
    for executable in [Some(guard), None] {
        for (script, expected) in [
            ("exit 0", Ending::Exited(0)),
            ("exit 3", Ending::Exited(3)),
            ("kill -TERM $$", Ending::Killed(15)),
            ("kill -KILL $$", Ending::Killed(9)),
        ] {
            let (argv, undo) = ready_with(executable.clone(), &place, &Request::default(), script);
            assert_eq!(argv.guard.is_some(), executable.is_some());
            let host = Host::system();
            let sheet = launch::run_sheet(&argv, &launch::look(&host, &argv).unwrap(), false);
            let outcome = supervisor.run(&host, &argv, sheet, GivenStreams::default(), &mut ());
            undo.finish();
            assert!(
                matches!(outcome, Outcome::Ended(ending) if ending == expected),
                "{executable:?} {script}: {outcome:?}"
            );
        }
    }
}

#[test]
fn a_working_directory_that_cannot_be_used_says_why() {
    let place = own_place();
    let refused = |path: &str| Session::of_this_process(Some(&place.project().join(path))).unwrap_err();
    place.write("home/code/project/file", "");
    for (path, said) in [("gone", "gone` does not exist"), ("file/x", "file/x` cannot be used: not a directory")] {
        let diagnostic = refused(path);
        assert_eq!(diagnostic.code, Code::InvalidCwd);
        assert!(diagnostic.message.ends_with(said), "{}", diagnostic.message);
    }
}

#[test]
fn a_command_line_is_understood_as_the_binary_does() {
    let request = |words: &[&str]| {
        let words: Vec<OsString> = ["agent-sandbox"].iter().chain(words).map(OsString::from).collect();
        cli::request(&words)
    };
    let asked = request(&["--ro", "a", "--network=false", "--no-optimize", "--", "make", "--ro", "b"]).unwrap();
    assert_eq!((asked.ro, asked.network, asked.no_optimize), (vec!["a".into()], Some(false), true));
    // What clap alone would accept.
    assert!(request(&["--network", "false"]).is_err());
    assert!(request(&["--no-optimize", "check"]).is_err());
}
