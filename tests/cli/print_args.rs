use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{Place, binary};
use crate::{ran, run, undisturbed};

/// A command that no form can carry without care.
const AWKWARD: [&str; 5] = ["printf", "%s|", "two words", "it's\n", "a\\b"];

/// With the second stage, and on bwrap alone.
const STAGES: [&[&str]; 2] = [&[], &["--no-guard"]];

fn print(place: &Place, stages: &[&str], form: &str) -> String {
    let flags = ["--preset", "!autorun", "--exclude", "it's [hidden]", "--rw", "made\nup", form, "--"];
    let ran = run(place, stages.iter().copied().chain(flags).chain(AWKWARD));
    // Each way needs a descriptor, for a plan or a filter.
    let is_complete = ["--print-args=json", "--print-args=annotated"].contains(&form)
        || stages.is_empty() && ["--print-args", "--print-args=shell"].contains(&form);
    let is_script = form == "--print-args" || form == "--print-args=shell";
    let expected: &[&str] = if is_complete || is_script && !has_landlock(place) { &[] } else { &["incomplete-form"] };
    assert_eq!((ran.code, ran.codes().as_slice()), (Some(0), expected), "{stages:?} {form}");
    ran.out
}

/// Whether a run on bwrap alone has something that no script has.
fn has_landlock(place: &Place) -> bool {
    let json: Value = serde_json::from_str(&run(place, ["--no-guard", "--print-args=json"]).out).unwrap();
    json["landlock"] == true
}

fn awkward() -> Place {
    let place = Place::in_tmp();
    place.write("home/code/project/it's [hidden]", "");
    fs::create_dir(place.project().join("made\nup")).unwrap();
    place
}

fn words(place: &Place, stages: &[&str]) -> Vec<String> {
    let out = print(place, stages, "--print-args=nul");
    out.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
}

/// The words of a script that puts up no placeholders, and what it hands over on descriptor 3.
fn script(printed: &str, stages: &[&str]) -> (Vec<String>, Vec<u8>) {
    let (words, data) = if stages.is_empty() {
        let (words, document) = printed.split_once(" 3<<'END'\n").unwrap();
        (words, document.strip_suffix("\nEND\n").unwrap().as_bytes().to_vec())
    } else {
        let (data, words) = printed.strip_prefix("{ printf '").unwrap().split_once("' | {\n").unwrap();
        let bytes = data.split('\\').skip(1).map(|byte| u8::from_str_radix(byte, 8).unwrap());
        let words = words.strip_prefix("exec 3<&0 0<&4 4<&- &&\n").unwrap();
        (words.strip_suffix("\n}\n} 4<&0\n").unwrap(), bytes.collect())
    };
    (shell_words::split(words).unwrap(), data)
}

#[test]
fn every_form_carries_the_same_words() {
    undisturbed(|| {
        let place = awkward();
        for stages in STAGES {
            let words = words(&place, stages);
            let inside = words.iter().position(|word| word == "--").unwrap();
            let binary = binary();
            let guard: &[&str] =
                if stages.is_empty() { &[binary.to_str().unwrap(), "__guard", "3", "--"] } else { &[] };
            assert_eq!(words[inside + 1..], [guard, &AWKWARD].concat());

            let (in_script, held) = script(&print(&place, stages, "--print-args=shell"), stages);
            assert_eq!(in_script, words);
            let lines = print(&place, stages, "--print-args=lines");
            let unescaped = |line: &str| line.replace("\\\\", "\0").replace("\\n", "\n").replace('\0', "\\");
            assert_eq!(lines.lines().map(unescaped).collect::<Vec<_>>(), words);
            let json: Value = serde_json::from_str(&print(&place, stages, "--print-args=json")).unwrap();
            assert_eq!(json["argv"], Value::from(words.clone()));
            assert_eq!(json["create"], Value::from(Vec::<String>::new()));

            // And what the words need is the same in the forms that carry it.
            if stages.is_empty() {
                let plan: Value = serde_json::from_slice(&held).unwrap();
                let hidden = place.project().join("it's [hidden]");
                let mask = serde_json::json!({ "mask": hidden.to_str().unwrap() });
                assert!(plan["mounts"].as_array().unwrap().contains(&mask), "{plan}");
                assert_eq!(json["guard"], serde_json::json!({ "descriptor": 3, "plan": plan }));
                assert_eq!(json["data"], serde_json::json!([]));
            } else {
                let filter = serde_json::json!([{ "descriptor": 3, "content": { "bytes": held } }]);
                assert_eq!((&json["data"], &json["guard"]), (&filter, &Value::Null));
                assert!(words.windows(2).any(|pair| pair == ["--seccomp", "3"]), "{words:?}");
            }
        }
    });
}

#[test]
fn without_a_form_it_is_the_shells() {
    undisturbed(|| {
        let place = awkward();
        for stages in STAGES {
            assert_eq!(print(&place, stages, "--print-args"), print(&place, stages, "--print-args=shell"));
        }
    });
}

#[test]
fn annotated_words_are_those_of_the_shell_with_reasons() {
    undisturbed(|| {
        let place = awkward();
        place.write("home/code/project/secret", "");
        for stages in STAGES {
            let print = |form| {
                let flags = ["--preset", "!autorun", "--exclude", "secret", form, "--", "true"];
                run(&place, stages.iter().copied().chain(flags)).out
            };
            let annotated = print("--print-args=annotated");
            let without_reasons = annotated.replace(" # ", "\n# ");
            let words: Vec<&str> = without_reasons.lines().filter(|line| !line.starts_with('#')).collect();
            let (in_script, _) = script(&print("--print-args=shell"), stages);
            assert_eq!(shell_words::split(&words.join("\n")).unwrap(), in_script);
            let operations = annotated.lines().filter(|line| line.starts_with("  --") && !line.starts_with("  -- "));
            // What the second stage mounts has its lines too.
            let tightenings = annotated.lines().filter(|line| line.starts_with("# guard: "));
            assert_eq!(tightenings.clone().next().is_some(), stages.is_empty(), "{annotated}");
            for line in operations.chain(tightenings) {
                assert!(line.trim_start_matches("# guard").contains(" # "), "a reason in {line:?}");
            }
            let secret = format!("{}/secret ", place.project().display());
            assert!(
                annotated.lines().any(|line| line.contains(&secret) && line.ends_with("# exclude: --exclude secret")),
                "{annotated}"
            );
        }
    });
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
    let ran = run(&place, ["--preset", "!autorun", "--print-args"]);
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
    let ran = ran(["--preset", "!autorun", "--print-args", "--", "no-such-command"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.contains(" -- no-such-command 3<<'END'\n"), "{}", ran.out);
}

/// What is printed does what a run does, whoever the reader is: files that read as empty need descriptors, and
/// directories to create need their mode, parents included.
#[test]
fn the_printed_script_does_what_a_run_does() {
    undisturbed(|| {
        let report = "grep -v agent-sandbox/guard /proc/self/mountinfo | cut -d' ' -f5-6; cat ~/.netrc && echo empty; env | sort; ls /proc/self/fd";
        let toml = "[filesystem]\nrw = [{ path = \"~/made/up/here\", if-missing = \"create\" }]\n";
        let [direct, by_shell] = [false, true].map(|by_shell| {
            let place = Place::in_tmp();
            place.write("home/.netrc", "machine example.org password secret");
            place.write("home/code/project/.agent-sandbox.toml", toml);
            place.trust();
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
    });
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
fn forms_of_words_alone_say_what_else_is_needed() {
    let place = Place::in_tmp();
    let scope = ", and signals and abstract sockets kept inside by Landlock";
    let scope = if has_landlock(&place) { scope } else { "" };
    let plan = "open on the plan of the second stage";
    let filter = "open on what `json` shows for it";
    let assert_needs = |stages: &[&str], needs: &str| {
        for form in ["lines", "nul"] {
            let flag = format!("--print-args={form}");
            let warned = run(&place, stages.iter().copied().chain(["--preset", "!autorun", &flag]));
            assert_eq!((warned.code, warned.codes()), (Some(0), vec!["incomplete-form"]));
            let message = format!("`{form}` prints the words alone, and these words need more: {needs}\n");
            assert!(warned.err.contains(&message), "{}", warned.err);
            assert_eq!(run(&place, stages.iter().copied().chain(["-q", &flag])).err, "");
        }
    };
    assert_needs(&[], &format!("descriptor 3 {plan}"));
    assert_needs(&["--no-guard"], &format!("descriptor 3 {filter}{scope}"));
    place.write("home/.netrc", "");
    assert_needs(&[], &format!("descriptor 3 {plan}"));
    assert_needs(&["--no-guard"], &format!("descriptor 3 open on `/dev/null`, and descriptor 4 {filter}{scope}"));
    for form in ["shell", "json", "annotated"] {
        assert_eq!(run(&place, [&format!("--print-args={form}")]).err, "");
    }
    for form in ["json", "annotated"] {
        assert_eq!(run(&place, ["--no-guard", &format!("--print-args={form}")]).err, "");
    }
}

/// The second stage confines itself; without it, it is the process before bwrap that is confined.
#[test]
fn a_script_without_the_second_stage_says_what_it_cannot_do() {
    let place = Place::in_tmp();
    let warned = run(&place, ["--no-guard", "--print-args"]);
    let expected = if has_landlock(&place) { vec!["incomplete-form"] } else { vec![] };
    assert_eq!((warned.code, warned.codes()), (Some(0), expected));
}

/// Names and reasons, and the values that are in the policy's file; never a value of the caller.
#[test]
fn the_environment_is_printed_with_its_reasons() {
    let place = Place::in_tmp();
    let said = |toml: &str, form: &str| {
        place.write("home/code/project/.agent-sandbox.toml", toml);
        let mut command = place.agent_sandbox();
        command.env("DISPLAY", "of-the-caller").env("CI", "of-the-caller").env("A\nB", "of-the-caller");
        let output = command.args([form, "--debug", "--", "true"]).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!text.contains("of-the-caller"), "{text}");
        text
    };
    let text = said("[env]\nunset = [\"A*\"]\nset = { B = \"it's\" }\n", "--print-args=annotated");
    for line in [
        "# unset $'A\\nB'  # env: .agent-sandbox.toml:2:10",
        "# unset DISPLAY  # env: the display sees your keys and your screen",
        "# set B 'it'\\''s'  # env: .agent-sandbox.toml:3:13",
        "  unset A\\nB  [.agent-sandbox.toml:2:10]",
        "  pass CI  [the environment passes by default]",
        "  set B  [.agent-sandbox.toml:3:13]",
        "env -u $'A\\nB' -u DISPLAY",
    ] {
        let spaces = |text: &str| text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|found| spaces(found).contains(&spaces(line))), "{line} in {text}");
    }
    let text = said("[env]\ninherit = false\npass = [\"CI\"]\n", "--print-args=annotated");
    assert!(text.starts_with("# pass CI ") && text.contains("\n# pass PATH ") && !text.contains("\n# unset"), "{text}");
    let json = said("[env]\ninherit = false\npass = [\"CI\"]\nset = { B = \"b\" }\n", "--print-args=json");
    let json: Value = serde_json::Deserializer::from_str(&json).into_iter().next().unwrap().unwrap();
    assert_eq!(json["environment"], serde_json::json!({ "pass": ["CI", "HOME", "LANG", "PATH"], "set": { "B": "b" } }));
}

/// A name that a command gave to a file, to be read by whoever audits the next run.
const FORGED: &[u8] = b".env.\n  --ro-bind fake fake  # ro: forged\x1b[31m \xff\x9b it's \\ \tx";
const ESCAPED: &str = r"/.env.\n  --ro-bind fake fake  # ro: forged\x1b[31m \xff\x9b it\'s \\ \tx'";

#[test]
fn what_people_read_cannot_be_forged_by_the_name_of_a_file() {
    for (stages, guard) in STAGES.into_iter().zip([true, false]) {
        let place = Place::in_tmp();
        // Names are in the list of what git leaves alone, too.
        assert!(place.command("git").args(["init", "-q", "."]).status().unwrap().success());
        let name = OsString::from_vec(FORGED.to_vec());
        for name in [&name, &OsString::from(".env.\u{9b}31m\u{7f}\u{202e}")] {
            place.write(std::path::Path::new("home/code/project").join(name), "");
        }
        let words = ["--print-args=annotated", "--debug", "--", "echo"];
        let mut command = place.agent_sandbox();
        let output = command.args(stages).args(words).arg(&name).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        for (stream, is_annotated) in [(&output.stdout, true), (&output.stderr, false)] {
            let text = std::str::from_utf8(stream).unwrap();
            let drives = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!text.contains(drives), "{}", text.escape_debug());
            assert!(!text.lines().any(|line| line.starts_with("  --ro-bind fake")), "{text}");
            let path = format!("$'{}{ESCAPED}", place.project().display());
            let mask = if guard { format!("# guard: mask {path}") } else { format!("  --ro-bind /dev/null {path}") };
            // Each stage's mounts are in the annotated form; in the script the second stage's are JSON.
            if is_annotated || !guard {
                assert!(text.lines().any(|line| line.starts_with(&mask)), "{text}");
            }
            let second = if guard { format!("{} __guard 3 -- ", binary().display()) } else { String::new() };
            let command = format!("  -- {second}echo $'{}", &ESCAPED[1..]);
            assert!(text.lines().any(|line| line.starts_with(&command)), "{text}");
        }
        // What programs read is what is executed.
        let raw = place.agent_sandbox().args(stages).arg("--print-args").arg(&name).output().unwrap();
        assert!(raw.stdout.windows(4).any(|at| at == b"\x1b[31"), "{}", String::from_utf8_lossy(&raw.stdout));
    }
}

/// The shells that know `$'…'` read the same bytes back.
#[test]
fn an_escaped_word_is_the_word() {
    let place = Place::in_tmp();
    let name = OsString::from_vec(FORGED.to_vec());
    let guard = format!("  -- {} __guard 3 -- ", binary().display());
    for (stages, before) in STAGES.into_iter().zip([&*guard, "  -- "]) {
        let mut command = place.agent_sandbox();
        let annotated = command.args(stages).arg("--print-args=annotated").arg(&name).output().unwrap().stdout;
        let annotated = String::from_utf8(annotated).unwrap();
        let word = annotated.lines().find_map(|line| line.strip_prefix(before)).unwrap();
        let read = place.command("bash").args(["-c", &format!("printf %s {word}")]).output().unwrap();
        assert_eq!(OsString::from_vec(read.stdout), name);
    }
}

/// What stands at blocked paths is put up by the script as by a run, and taken away; data passes as documents.
#[test]
fn the_printed_script_puts_up_placeholders_and_takes_them_away() {
    undisturbed(|| {
        let toml = "[filesystem]\nexclude = [{ path = \"a b/secret.json\", if-missing = \"block\" }]\n\
                ro = [{ path = \"it's/\", if-missing = \"block\" }]\n";
        let report =
            "cut -d' ' -f5-6 /proc/self/mountinfo; tail -n1 .git/info/exclude; find . -path ./.git -prune -o -print";
        let [direct, by_shell] = [false, true].map(|by_shell| {
            let place = Place::in_tmp();
            place.write("home/code/project/.agent-sandbox.toml", toml);
            assert!(place.command("git").args(["init", "-q", "."]).status().unwrap().success());
            let words = ["--", "sh", "-c", &format!("{report} | sort; exit 7")];
            let output = if by_shell {
                let printed = run(&place, ["--print-args"].into_iter().chain(words));
                assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
                place.command("sh").args(["-c", &printed.out]).output().unwrap()
            } else {
                place.agent_sandbox().args(words).output().unwrap()
            };
            let ran = crate::Ran::of(&output);
            assert_eq!((ran.code, ran.err.as_str()), (Some(7), ""));
            let mut left: Vec<_> =
                fs::read_dir(place.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            left.sort();
            assert_eq!(left, [".agent-sandbox.toml", ".git"], "by shell: {by_shell}");
            assert!(!place.project().join(".git/commondir").exists());
            ran.out.replace(place.path().file_name().unwrap().to_str().unwrap(), "PLACE")
        });
        assert!(direct.contains("/a b/secret.json\n") && direct.contains("./it's\n"), "{direct}");
        assert_eq!(by_shell, direct);
    });
}

#[test]
fn json_names_placeholders_and_the_contents_of_descriptors() {
    let place = Place::in_tmp();
    let toml =
        "[filesystem]\npresets = [\"!@all\", \"@base\"]\nro = [{ path = \"a/b.json\", if-missing = \"block\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    assert!(place.command("git").args(["init", "-q", "--template=", "."]).status().unwrap().success());
    let json: Value = serde_json::from_str(&run(&place, ["--print-args=json"]).out).unwrap();
    let at = |path: &str| place.project().join(path).to_str().unwrap().to_owned();
    let expected = serde_json::json!([
        { "path": at(".git/info"), "kind": "directory" },
        { "path": at(".git/info/exclude"), "kind": "file", "content": "" },
        { "path": at("a"), "kind": "directory" },
        { "path": at("a/b.json"), "kind": "file", "content": "{}\n" },
    ]);
    assert_eq!(json["placeholders"], expected);
    let content = "/.agent-sandbox.toml\n/a/b.json\n";
    let by_guard = serde_json::json!({ "data": { "path": at(".git/info/exclude"), "content": content } });
    assert!(json["guard"]["plan"]["mounts"].as_array().unwrap().contains(&by_guard), "{json}");
    let json: Value = serde_json::from_str(&run(&place, ["--no-guard", "--print-args=json"]).out).unwrap();
    assert_eq!(json["data"][0], serde_json::json!({ "descriptor": 3, "content": content }));
    assert!(!place.project().join("a").exists(), "printing makes nothing");
}
