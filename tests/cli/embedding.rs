//! A harness written in Rust, which uses the library and not the binary.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use agent_sandbox::{Code, CompiledSandbox, Ending, Limit, Outcome, Sandbox, cli};

use crate::support::{Place, binary, require_bwrap, stderr, stdout};

/// The sandbox of the project in `place`, for the user who runs the tests.
fn sandbox(place: &Place) -> Sandbox {
    require_bwrap();
    Sandbox::for_project(place.project()).unwrap().guard(binary()).env("HOME", place.home()).allow_root()
}

fn run(sandbox: &CompiledSandbox, script: &str) -> Outcome {
    let outcome = sandbox.command(["sh", "-c", script]).capture().run().unwrap();
    assert!(outcome.diagnostics.is_empty(), "{:?}", outcome.diagnostics);
    outcome
}

fn text(output: &[u8]) -> &str {
    std::str::from_utf8(output).unwrap()
}

/// A place of the user of this process, which the tests cannot change.
fn own_place() -> Place {
    if rustix::process::getuid().is_root() { Place::root_in_tmp() } else { Place::in_tmp() }
}

/// Builds the example, which `cargo test --test cli` alone does not build.
fn example() -> PathBuf {
    let target = binary().ancestors().nth(2).unwrap().to_owned();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--quiet", "--example", "make_test", "--target-dir"]).arg(&target);
    assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
    target.join("debug/examples/make_test")
}

#[test]
fn the_example_of_the_documentation_runs() {
    require_bwrap();
    let example = example();
    for place in [Place::in_tmp(), Place::outside_tmp()] {
        place.write("home/code/project/deploy/keys/id", "secret");
        place.write("home/code/project/Makefile", "test:\n\t@ls deploy/keys >/dev/null 2>&1 || echo hidden\n");
        // A folder on PATH that every user can enter.
        place.write("bin/agent-sandbox", fs::read(binary()).unwrap());
        fs::set_permissions(place.path().join("bin/agent-sandbox"), fs::Permissions::from_mode(0o755)).unwrap();
        place.give_away();
        let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
        let output = place.command(&example).env("PATH", path).output().unwrap();
        let printed = stdout(&output);
        assert!(printed.ends_with("\nhidden\nmake ended with the exit code 0\n"), "{printed}\n{}", stderr(&output));
        assert!(printed.contains(" --ro-bind / / "), "{printed}");
        assert!(printed.contains("make test\n"), "{printed}");
    }
}

#[test]
fn an_embedded_run_has_the_guard_and_the_rules_of_the_program() {
    let place = own_place();
    place.write("home/.netrc", "password");
    place.write("home/code/project/secret", "secret");
    let sandbox = sandbox(&place).exclude("secret").compile().unwrap();
    let words = sandbox.argv(["true"]).unwrap().words();
    assert!(words.iter().any(|word| word == "/run/agent-sandbox/guard"), "{words:?}");
    let script = format!(
        "cat {}/.netrc && echo empty; cat secret 2>/dev/null || echo hidden; pwd; echo heard >&2",
        place.home().display()
    );
    let outcome = run(&sandbox, &script);
    assert_eq!(text(&outcome.stdout), format!("empty\nhidden\n{}\n", place.project().display()));
    assert_eq!(text(&outcome.stderr), "heard\n");
}

/// An inherited directory would lead out of the sandbox.
#[test]
fn an_embedded_run_inherits_no_descriptor() {
    let place = own_place();
    // A duplicate lacks CLOEXEC, which Rust sets on the files that it opens.
    let held: Vec<_> = (0..4).map(|_| rustix::io::dup(fs::File::open("/").unwrap()).unwrap()).collect();
    let outcome = run(&sandbox(&place).compile().unwrap(), "ls /proc/self/fd");
    assert_eq!(text(&outcome.stdout), "0\n1\n2\n3\n", "the standard streams, and the descriptor of `ls`");
    drop(held);
}

// SPEC S10
#[test]
fn the_outcome_has_the_ending_of_the_command() {
    let place = own_place();
    let sandbox = sandbox(&place).compile().unwrap();
    for (script, expected) in [
        ("exit 0", Ending::Exited(0)),
        ("exit 3", Ending::Exited(3)),
        ("kill -TERM $$", Ending::Killed(15)),
        ("kill -KILL $$", Ending::Killed(9)),
    ] {
        assert_eq!(run(&sandbox, script).ending, expected, "{script}");
    }
}

#[test]
fn an_embedded_run_has_its_limits() {
    let place = own_place();
    let run = |limit: Limit, script: &str| {
        let sandbox = sandbox(&place).limit(limit).compile().unwrap();
        sandbox.command(["sh", "-c", script]).capture().run().unwrap()
    };
    let codes = |outcome: &Outcome| outcome.diagnostics.iter().map(|said| said.code).collect::<Vec<_>>();
    let outcome = run(Limit::time(Duration::from_millis(500)), "sleep 1000");
    assert_eq!((outcome.ending, codes(&outcome)), (Ending::Exited(124), vec![Code::LimitReached]));
    let outcome = run(Limit::output(4), "echo 12345");
    assert_eq!((outcome.ending, text(&outcome.stdout)), (Ending::Exited(124), "1234"));
    let outcome = run(Limit::tmp(1 << 20), "yes 2>/dev/null >/tmp/x; echo ok");
    assert_eq!((text(&outcome.stdout), codes(&outcome)), ("ok\n", vec![Code::TmpFull]));
}

/// Each pipe holds 64 KiB.
#[test]
fn more_output_than_a_pipe_holds_is_captured() {
    let place = own_place();
    let sandbox = sandbox(&place).compile().unwrap();
    let outcome = run(&sandbox, "head -c 1000000 /dev/zero; head -c 500000 /dev/zero >&2");
    assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (1_000_000, 500_000));
}

#[test]
fn a_refusal_has_the_diagnostics() {
    let place = own_place();
    place.write("home/code/project/file", "");
    let refused = |path: &str| Sandbox::for_project(place.project().join(path)).err().unwrap().to_string();
    for (path, said) in [("gone", "gone` does not exist"), ("file/x", "file/x` cannot be used: not a directory")] {
        let message = refused(path);
        assert!(message.ends_with(said), "{message}");
    }
    let refusal = sandbox(&place).preset("@nothing").compile().err().unwrap();
    assert!(refusal.to_string().contains("nothing"), "{refusal}");
    let sandbox = sandbox(&place).compile().unwrap();
    let refusal = sandbox.command(["no-such-command"]).run().unwrap_err();
    assert!(refusal.to_string().contains("no-such-command"), "{refusal}");
    let refusal = Sandbox::for_project(place.project()).unwrap().guard("/gone").allow_root().compile().unwrap();
    let refusal = refusal.command(["true"]).run().unwrap_err();
    assert!(refusal.to_string().contains("agent-sandbox"), "{refusal}");
}

#[test]
fn nothing_is_lowered_or_run_without_consent() {
    let place = own_place();
    place.write("home/data/file", "");
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nrw = ['~/data']\n");
    let sandbox = sandbox(&place).compile().unwrap();
    assert!(sandbox.warnings().iter().any(|warning| warning.code == Code::WideningPolicy), "{:?}", sandbox.warnings());
    for refusal in [sandbox.argv(["true"]).err().unwrap(), sandbox.command(["true"]).run().err().unwrap()] {
        assert!(refusal.0.iter().any(|error| error.code == Code::UntrustedPolicy), "{refusal:?}");
    }
}

#[test]
fn request_parses_a_command_line_as_the_binary_does() {
    let request = |words: &[&str]| {
        let words: Vec<OsString> = ["agent-sandbox"].iter().chain(words).map(OsString::from).collect();
        cli::request(&words)
    };
    let asked = request(&["--ro", "a", "--network=false", "--no-optimize", "--", "make", "--ro", "b"]).unwrap();
    assert_eq!((asked.ro, asked.network, asked.no_optimize), (vec!["a".into()], Some(false), true));
    // A command line that clap alone would accept.
    assert!(request(&["--network", "false"]).is_err());
    assert!(request(&["--no-optimize", "check"]).is_err());
}
