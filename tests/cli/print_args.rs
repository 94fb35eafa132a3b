use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::Place;
use crate::{ran, run};

/// A command that no form can carry without care.
const AWKWARD: [&str; 5] = ["printf", "%s|", "two words", "it's\n", "a\\b"];

fn print(place: &Place, form: &str) -> String {
    let flags = ["--exclude", "it's [hidden]", "--rw", "made\nup", form, "--"];
    let ran = run(place, flags.into_iter().chain(AWKWARD));
    assert_eq!((ran.code, ran.codes()), (Some(0), vec![]), "{form}");
    ran.out
}

fn awkward() -> Place {
    let place = Place::in_tmp();
    place.write("home/code/project/it's [hidden]", "");
    fs::create_dir(place.project().join("made\nup")).unwrap();
    place
}

fn words(place: &Place) -> Vec<String> {
    let out = print(place, "--print-args=nul");
    out.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
}

#[test]
fn every_form_carries_the_same_words() {
    let place = awkward();
    let words = words(&place);
    let command = words.iter().rposition(|word| word == "--").unwrap();
    assert_eq!(words[command + 1..], AWKWARD);

    assert_eq!(shell_words::split(&print(&place, "--print-args=shell")).unwrap(), words);
    let lines = print(&place, "--print-args=lines");
    let unescaped = |line: &str| line.replace("\\\\", "\0").replace("\\n", "\n").replace('\0', "\\");
    assert_eq!(lines.lines().map(unescaped).collect::<Vec<_>>(), words);
    let json: Value = serde_json::from_str(&print(&place, "--print-args=json")).unwrap();
    assert_eq!(json["argv"], Value::from(words.clone()));
    assert_eq!(json["create"], Value::from(Vec::<String>::new()));
}

#[test]
fn without_a_form_it_is_the_shells() {
    let place = awkward();
    assert_eq!(print(&place, "--print-args"), print(&place, "--print-args=shell"));
}

#[test]
fn annotated_words_are_those_of_the_shell_with_reasons() {
    let place = Place::in_tmp();
    let shell = run(&place, ["--print-args=shell", "--", "true"]).out;
    let annotated = run(&place, ["--print-args=annotated", "--", "true"]).out;
    assert_eq!(
        shell_words::split(
            &annotated.replace(" # ", "\n# ").lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n")
        )
        .unwrap(),
        shell_words::split(&shell).unwrap()
    );
    let operations = annotated.lines().filter(|line| line.starts_with("  --") && !line.starts_with("  -- "));
    for line in operations {
        assert!(line.contains(" # "), "a reason in {line:?}");
    }
}

#[test]
fn the_printed_script_runs_as_it_is() {
    let place = Place::in_tmp();
    place.write("home/code/project/secret", "secret");
    let script = "cat secret 2>/dev/null && exit 1; echo \"it's $1\" > made; exit 42";
    let printed = run(&place, ["--exclude", "secret", "--print-args", "--", "sh", "-c", script, "sh", "a b"]).out;
    let status = place.command("sh").args(["-c", &printed]).status().unwrap();
    assert_eq!(status.code(), Some(42));
    assert_eq!(fs::read_to_string(place.project().join("made")).unwrap(), "it's a b\n");
}

#[test]
fn printing_needs_no_command_and_changes_nothing() {
    let place = Place::in_tmp();
    let toml = "[filesystem]\nrw = [{ path = \"made\", if-missing = \"create\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    let ran = run(&place, ["--print-args"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let made = place.project().join("made");
    let expected = format!("(umask 077 && mkdir -p -- {}) &&\n/", made.display());
    assert!(ran.out.starts_with(&expected), "{}", ran.out);
    assert!(!place.project().join("made").exists());
    assert_eq!(run(&place, ["true"]).code, Some(0));
    assert!(place.project().join("made").is_dir());
}

#[test]
fn a_command_that_does_not_exist_can_still_be_printed() {
    let ran = ran(["--print-args", "--", "no-such-command"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.ends_with("-- no-such-command\n"));
}

/// What is printed does what a run does, whoever the reader is: files that read as empty need descriptors, and
/// directories to create need their mode, parents included.
#[test]
fn the_printed_script_does_what_a_run_does() {
    let report = "grep -v agent-sandbox/guard /proc/self/mountinfo | cut -d' ' -f5-6; cat ~/.netrc && echo empty; env | sort; ls /proc/self/fd";
    let toml = "[filesystem]\nrw = [{ path = \"~/made/up/here\", if-missing = \"create\" }]\n";
    let [direct, by_shell] = [false, true].map(|by_shell| {
        let place = Place::in_tmp();
        place.write("home/.netrc", "machine example.org password secret");
        place.write("home/code/project/.agent-sandbox.toml", toml);
        let words = ["--", "sh", "-c", report];
        let output = if by_shell {
            let printed = run(&place, ["--print-args"].into_iter().chain(words));
            assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
            place.command("sh").args(["-c", &printed.out]).output().unwrap()
        } else {
            place.agent_sandbox().args(words).output().unwrap()
        };
        let ran = crate::Ran::of(&output);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        let modes = ["made", "made/up", "made/up/here"]
            .map(|made| fs::metadata(place.home().join(made)).unwrap().permissions().mode() & 0o7777);
        let name = place.path().file_name().unwrap().to_str().unwrap();
        (ran.out.replace(name, "PLACE"), modes)
    });
    assert!(direct.0.contains("\nempty\n") && direct.0.contains("/home/made/up/here "), "{}", direct.0);
    assert_eq!(direct.1, [0o700; 3]);
    assert_eq!(by_shell, direct);
}

/// A directory that cannot be made keeps a run from starting, and so it does in the script.
#[test]
fn the_printed_script_starts_nothing_without_its_directories() {
    let place = Place::in_tmp();
    let toml = "[filesystem]\nrw = [{ path = \"~/locked/tool\", if-missing = \"create\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    let locked = place.home().join("locked");
    fs::create_dir(&locked).unwrap();
    place.give_away();
    let printed = run(&place, ["--print-args", "--", "touch", "started"]).out;
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let status = place.command("sh").args(["-c", &printed]).stderr(std::process::Stdio::null()).status().unwrap();
    assert!(!status.success() && !place.project().join("started").exists());
}

/// Words alone are not everything: who takes them is told what else they need.
#[test]
fn forms_of_words_alone_warn_where_that_is_not_enough() {
    let place = Place::in_tmp();
    for form in ["lines", "nul"] {
        assert_eq!(run(&place, [&format!("--print-args={form}")]).codes(), Vec::<&str>::new());
    }
    place.write("home/.netrc", "");
    for form in ["lines", "nul"] {
        let flag = format!("--print-args={form}");
        let warned = run(&place, [&flag]);
        assert_eq!((warned.code, warned.codes()), (Some(0), vec!["incomplete-form"]));
        let message =
            format!("`{form}` prints the words alone, and these words need more: descriptor 3 open on `/dev/null`\n");
        assert!(warned.err.contains(&message), "{}", warned.err);
        assert_eq!(run(&place, ["-q", &flag]).err, "");
    }
    for form in ["shell", "json", "annotated"] {
        assert_eq!(run(&place, [&format!("--print-args={form}")]).err, "");
    }
}

/// A name that a command gave to a file, to be read by whoever audits the next run.
const FORGED: &[u8] = b".env.\n  --ro-bind fake fake  # ro: forged\x1b[31m \xff\x9b it's \\ \tx";
const ESCAPED: &str = r"/.env.\n  --ro-bind fake fake  # ro: forged\x1b[31m \xff\x9b it\'s \\ \tx'";

#[test]
fn what_people_read_cannot_be_forged_by_the_name_of_a_file() {
    let place = Place::in_tmp();
    let name = OsString::from_vec(FORGED.to_vec());
    place.write(std::path::Path::new("home/code/project").join(&name), "");
    let words = [OsString::from("--print-args=annotated"), "--debug".into(), "--".into(), "echo".into(), name.clone()];
    let output = place.agent_sandbox().args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    for stream in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(stream).unwrap();
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("  --ro-bind fake")), "{text}");
        let mask = format!("  --ro-bind /dev/null $'{}{ESCAPED}", place.project().display());
        assert!(text.lines().any(|line| line.starts_with(&mask)), "{text}");
        let command = format!("  -- echo $'{}", &ESCAPED[1..]);
        assert!(text.lines().any(|line| line.starts_with(&command)), "{text}");
    }
    // What programs read is what is executed.
    let raw = place.agent_sandbox().arg("--print-args").arg(&name).output().unwrap();
    assert!(raw.stdout.windows(4).any(|at| at == b"\x1b[31"), "{}", String::from_utf8_lossy(&raw.stdout));
}

/// The shells that know `$'…'` read the same bytes back.
#[test]
fn an_escaped_word_is_the_word() {
    let place = Place::in_tmp();
    let name = OsString::from_vec(FORGED.to_vec());
    let annotated = place.agent_sandbox().arg("--print-args=annotated").arg(&name).output().unwrap().stdout;
    let annotated = String::from_utf8(annotated).unwrap();
    let word = annotated.lines().find_map(|line| line.strip_prefix("  -- ")).unwrap();
    let read = place.command("bash").args(["-c", &format!("printf %s {word}")]).output().unwrap();
    assert_eq!(OsString::from_vec(read.stdout), name);
}
