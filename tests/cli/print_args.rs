//! `--print-args`: every form carries the same arguments, and the printed command gives the sandbox
//! of a run.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::Place;
use crate::{ran, run, undisturbed};

/// A command with arguments that need quotes in every form.
const AWKWARD: [&str; 5] = ["printf", "%s|", "two words", "it's\n", "a\\b"];

const GUARD: [&str; 2] = ["/run/agent-sandbox/guard", "__guard"];

/// The flags of a run with the guard, and of one without it.
const STAGES: [&[&str]; 2] = [&[], &["--no-guard"]];

fn print(place: &Place, stages: &[&str], form: &str) -> String {
    let flags =
        ["--preset", "!autorun", "--preset", "!caches", "--exclude", "it's [hidden]", "--rw", "made\nup", form, "--"];
    let ran = run(place, stages.iter().copied().chain(flags).chain(AWKWARD));
    // Without the guard, bwrap reads the filter from a file descriptor, and only a process can
    // apply Landlock before bwrap starts.
    let carries_all = ["--print-args=json", "--print-args=annotated"].contains(&form) || stages.is_empty();
    let is_shell = !["--print-args=lines", "--print-args=nul"].contains(&form);
    let expected: &[&str] = if carries_all || is_shell && !has_landlock(place) { &[] } else { &["incomplete-form"] };
    assert_eq!((ran.code, ran.codes().as_slice()), (Some(0), expected), "{stages:?} {form}");
    ran.out
}

/// Whether a run without the guard applies Landlock, which no script can do.
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

/// The arguments of the default form, as a shell that knows `$'…'` reads them.
fn read_by_bash(place: &Place, printed: &str) -> Vec<String> {
    let commandless = format!("set -- \\\n{}\nprintf '%s\\0' \"$@\"", without_comments(printed));
    let output = place.command("bash").args(["-c", &commandless]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    out.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
}

fn without_comments(printed: &str) -> String {
    printed.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

// SPEC S15
#[test]
fn every_form_carries_the_same_arguments() {
    undisturbed(|| {
        let place = awkward();
        for stages in STAGES {
            let words = words(&place, stages);
            let inside = words.iter().position(|word| word == "--").unwrap();
            let guard: &[&str] = if stages.is_empty() { &GUARD } else { &[] };
            assert!(words[inside + 1..].iter().zip(guard).all(|(word, expected)| word == expected));
            assert_eq!(words[words.len() - AWKWARD.len()..], AWKWARD);
            assert_eq!(words.len() - inside - 1 - AWKWARD.len(), if stages.is_empty() { 4 } else { 0 });

            assert_eq!(read_by_bash(&place, &print(&place, stages, "--print-args=shell")), words);
            let lines = print(&place, stages, "--print-args=lines");
            let unescaped = |line: &str| line.replace("\\\\", "\0").replace("\\n", "\n").replace('\0', "\\");
            assert_eq!(lines.lines().map(unescaped).collect::<Vec<_>>(), words);
            let json: Value = serde_json::from_str(&print(&place, stages, "--print-args=json")).unwrap();
            assert_eq!(json["argv"], Value::from(words.clone()));
            assert_eq!(json["create"], Value::from(Vec::<String>::new()));
            let is_filtered = words.windows(2).any(|pair| pair == ["--seccomp", "5"]);
            assert_eq!(is_filtered, !stages.is_empty(), "{words:?}");
            assert_eq!(json["data"].as_array().unwrap().len(), usize::from(is_filtered));
            assert_eq!(json.get("guard").is_some(), stages.is_empty());
        }
    });
}

#[test]
fn without_a_form_it_is_shell() {
    undisturbed(|| {
        let place = awkward();
        for stages in STAGES {
            assert_eq!(print(&place, stages, "--print-args"), print(&place, stages, "--print-args=shell"));
        }
    });
}

// SPEC S15
#[test]
fn the_default_form_is_one_bwrap_command_with_an_operation_on_each_line() {
    let place = Place::in_tmp();
    place.write("home/code/project/.env", "secret");
    let printed = run(&place, ["--print-args", "--", "npm", "test"]).out;
    let lines: Vec<&str> = printed.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines[0], "/usr/bin/bwrap \\");
    assert!(lines[1].starts_with("  --die-with-parent --unshare-all --share-net --ro-bind / / "), "{}", lines[1]);
    // Short operations of the sandbox itself share a line.
    let before_last = lines[lines.len() - 4..lines.len() - 1].join("\n").replace(" \\\n ", "");
    let end = format!(" --remount-ro /run --setenv AGENT_SANDBOX 1 --chdir {} \\", place.project().display());
    assert!(before_last.ends_with(&end), "{before_last}");
    let last = lines[lines.len() - 1];
    assert!(last.starts_with("  -- /run/agent-sandbox/guard __guard ") && last.ends_with(" -- npm test"), "{last}");
    let words = shell_words::split(&without_comments(&printed)).unwrap();
    for absent in ["--uid", "--cap-add", "--args", "--seccomp", "--ro-bind-data", "--file"] {
        assert!(!words.iter().any(|word| word == absent), "{absent}: {printed}");
    }
    // Comments come first.
    let first = printed.lines().position(|line| !line.starts_with('#')).unwrap();
    assert!(!printed.lines().skip(first).any(|line| line.starts_with('#')), "{printed}");
}

/// A typical home: two agents, keys, and ten other secrets.
// SPEC S15
#[test]
fn the_default_form_of_an_ordinary_project_fits_a_screen() {
    let place = Place::outside_tmp();
    let secrets = [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".config/gh/hosts.yml",
        ".netrc",
        ".docker/config.json",
        ".kube/config",
        ".gnupg/secring.gpg",
        ".pypirc",
        ".cargo/credentials.toml",
        ".git-credentials",
        ".config/gcloud/credentials.db",
    ];
    for file in secrets.into_iter().chain([".claude/settings.json", ".claude.json", ".codex/config.toml", ".bashrc"]) {
        place.write(std::path::Path::new("home").join(file), "x");
    }
    for file in ["deploy/keys/key", ".env", "package.json", "scripts/build", ".env.production"] {
        place.write(std::path::Path::new("home/code/project").join(file), "x");
    }
    let toml = "[filesystem]\nexclude = [\"deploy/keys\", \".env.production\"]\nro = [\"package.json\", \"scripts\"]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    assert!(place.command("git").args(["init", "-q", "."]).status().unwrap().success());
    place.give_away();
    // Other package managers of this machine on PATH would add their caches.
    let programs = place.home().join("bin");
    fs::create_dir(&programs).unwrap();
    for name in ["bwrap", "npm"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{name}"), programs.join(name)).unwrap();
    }
    let printed = place.agent_sandbox().env("PATH", programs).args(["--print-args", "--", "npm", "test"]).output();
    let printed = crate::Ran::of(&printed.unwrap());
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
    // A service of the machine may add a comment about its socket.
    let lines = printed.out.lines().filter(|line| !line.starts_with("# mounts that the guard makes")).count();
    assert!(lines <= 70, "{lines} lines\n{}", printed.out);
    for hidden in ["/.ssh", "/.aws", "/.kube", "/.gnupg", "/deploy/keys", "/.env"] {
        assert!(printed.out.contains(&format!("{hidden} ")), "{hidden}: {}", printed.out);
    }
}

/// A pasted command has the environment of the shell. The command gets none of the variables that a
/// run takes away.
// SPEC S15
#[test]
fn the_default_form_unsets_the_variables_that_a_run_drops() {
    let place = Place::in_tmp();
    place.write("home/.config/agent-sandbox/config.toml", "[env]\nunset = [\"GONE_*\"]\n");
    let mut command = place.agent_sandbox();
    command.envs([("GONE_A", "secret"), ("GONE_B", "secret"), ("KEPT", "x")]);
    // A pasted command creates no placeholders, which `@caches` may need.
    let printed = command.args(["--preset", "!caches", "--print-args", "--", "env"]).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains(" --unsetenv GONE_A --unsetenv GONE_B \\\n"), "{printed}");
    assert!(!printed.contains("secret") && !printed.contains("KEPT"), "{printed}");
    let shell = ["-c", &format!("GONE_A=secret GONE_B=secret KEPT=x; export GONE_A GONE_B KEPT\n{printed}")];
    let inside = String::from_utf8(place.command("sh").args(shell).output().unwrap().stdout).unwrap();
    let has = |name: &str| inside.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert_eq!(["KEPT", "GONE_A", "GONE_B"].map(has), [true, false, false], "{inside}");
}

/// Without the guard bwrap reads the filter from a descriptor, and the comment says how to give it.
// SPEC S15
#[test]
fn the_default_form_without_a_guard_names_its_descriptor() {
    let place = Place::in_tmp();
    let printed = run(&place, ["--no-guard", "--print-args", "--", "true"]).out;
    let comment = "# redirect these file descriptors (`5<FILE`) from files with `data` of `--print-args=json`: 5\n";
    assert!(printed.contains(comment) && printed.contains("--seccomp 5"), "{printed}");
}

// SPEC S15
#[test]
fn annotated_lines_are_the_operations_in_groups_with_reasons() {
    undisturbed(|| {
        let place = awkward();
        place.write("home/code/project/secret", "");
        place.write("home/code/project/kept", "");
        for stages in STAGES {
            let print = |form| {
                let flags = [
                    "--preset",
                    "!autorun",
                    "--preset",
                    "!caches",
                    "--exclude",
                    "secret",
                    "--ro",
                    "kept",
                    form,
                    "--",
                    "true",
                ];
                run(&place, stages.iter().copied().chain(flags)).out
            };
            let annotated = print("--print-args=annotated");
            let is_operation = |line: &&str| line.starts_with("  --") && !line.starts_with("  -- ");
            let mut operations: Vec<String> = Vec::new();
            for line in annotated.lines().filter(is_operation) {
                let (words, _reason) = line.split_once(" # ").unwrap_or_else(|| panic!("a reason in {line:?}"));
                operations.extend(words.split_whitespace().map(str::to_owned));
            }
            let printed = print("--print-args=shell");
            let operation_lines = printed.lines().filter(is_operation);
            let mut expected: Vec<String> = operation_lines
                .flat_map(|line| line.trim_end_matches('\\').split_whitespace().map(str::to_owned))
                .collect();
            operations.sort();
            expected.sort();
            assert_eq!(operations, expected);
            let headings: Vec<&str> = annotated
                .split("\n\n")
                .skip(1)
                .map(|section| section.lines().next().unwrap().trim_start_matches("# "))
                .collect();
            let groups = ["plumbing", "writable", "read-only inside writable", "hidden", "the command"];
            let listed: Vec<&str> = headings.into_iter().filter(|heading| groups.contains(heading)).collect();
            assert_eq!(listed, groups, "{annotated}");
            let section = |name: &str| {
                let from = annotated.split(&format!("\n# {name}\n")).nth(1).unwrap();
                from.split("\n\n").next().unwrap().to_owned()
            };
            assert!(
                section("hidden").contains("/secret ") && section("hidden").contains("# exclude: --exclude secret")
            );
            assert!(section("read-only inside writable").contains("# ro: --ro kept"), "{annotated}");
            assert!(section("writable").contains("# rw: @base"), "{annotated}");
        }
    });
}

/// Comments before the command name the other effects of a run.
// SPEC S15
#[test]
fn comments_name_the_other_effects_of_a_run() {
    let place = Place::in_tmp();
    // For programs of this machine, `@caches` creates folders of its own.
    let toml = "[filesystem]\npresets = [\"!@caches\"]\nrw = [{ path = \"made\", if-missing = \"create\" }]\n\
        private = [\"blocked\", \"c\", \"d\", \"e\"]\n[env]\nset = { A = \"b\" }\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    let output = place.agent_sandbox().env("DISPLAY", ":0").args(["--print-args", "--", "true"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let at = |path: &str| place.project().join(path).display().to_string();
    for line in [
        format!("# a run creates: {}", at("made")),
        "  --unsetenv DISPLAY \\".to_owned(),
        "# a run sets the variables: A".to_owned(),
    ] {
        assert!(printed.lines().any(|found| found == line), "{line} in {printed}");
    }
    let placeholders = printed.lines().find(|line| line.starts_with("# a run creates placeholders"));
    let placeholders = placeholders.unwrap();
    assert!(placeholders.ends_with(&format!("exist: {}, {}, 2 more", at("blocked"), at("c"))), "{printed}");
    assert!(!place.project().join("made").exists() && !place.project().join("blocked").exists());
}

/// Contents that bwrap binds are the only files that printing writes.
// SPEC S6
#[test]
fn printing_needs_no_command_and_writes_contents_alone() {
    let place = Place::in_tmp();
    let toml = "[filesystem]\nrw = [{ path = \"made\", if-missing = \"create\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    place.write("home/.netrc", "password");
    let ran = run(&place, ["--preset", "!autorun", "--preset", "!caches", "--print-args=script"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let made = place.project().join("made");
    let expected = format!("(umask 077 && mkdir -p -- {}) &&\n/", made.display());
    assert!(ran.out.starts_with(&expected), "{}", ran.out);
    assert!(!made.exists());
    let state = place.home().join(".local/state/agent-sandbox");
    let names = |folder: &std::path::Path| -> Vec<_> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(&state), ["mounts"]);
    // The plan, the README, and the empty file that replaces `.netrc`. A socket of this machine
    // may add the file that masks it.
    assert_eq!(names(&state.join("mounts")).iter().filter(|name| name.len() == 64).count(), 3);
    assert_eq!(run(&place, ["true"]).code, Some(0));
    assert!(made.is_dir());
}

/// Without a state folder, contents travel over file descriptors, and the printed form says so.
// SPEC B15
#[test]
fn without_a_state_folder_contents_are_file_descriptors() {
    let place = Place::in_tmp();
    place.write("home/code/project/secret", "secret");
    let with = |args: &[&str]| {
        let mut command = place.agent_sandbox();
        command.env("XDG_STATE_HOME", "/proc/1/nowhere").args([
            "-q",
            "--preset",
            "!autorun",
            "--preset",
            "!caches",
            "--exclude",
            "secret",
        ]);
        crate::Ran::of(&command.args(args).output().unwrap())
    };
    let printed = with(&["--print-args", "--", "true"]).out;
    assert!(printed.contains("--ro-bind-data 6 /run/agent-sandbox/plan"), "{printed}");
    assert!(printed.contains("# redirect these file descriptors"), "{printed}");
    let ran = with(&["--", "sh", "-c", "cat secret 2>/dev/null || echo hidden"]);
    assert_eq!((ran.out.as_str(), ran.code), ("hidden\n", Some(0)), "{}", ran.err);
    let script = with(&["--print-args=script", "--", "sh", "-c", "cat secret 2>/dev/null || echo hidden"]).out;
    let output = place.command("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(crate::Ran::of(&output).out, "hidden\n");
}

/// A POSIX shell redirects only file descriptors of one digit.
#[test]
fn a_script_with_many_contents_and_no_state_folder_needs_bash() {
    let place = Place::in_tmp();
    for number in 0..8 {
        place.write(format!("home/code/project/{number}/.npmrc"), "a=b\n_auth=T0KEN\n");
    }
    let mut command = place.agent_sandbox();
    command.env("XDG_STATE_HOME", "/proc/1/nowhere").args(["--preset", "!autorun", "--print-args=script", "--"]);
    let printed = crate::Ran::of(&command.args(["cat", "7/.npmrc"]).output().unwrap());
    assert!(printed.err.contains("warning[incomplete-form]") && printed.err.contains("bash"), "{}", printed.err);
    let output = place.command("bash").args(["-c", &printed.out]).output().unwrap();
    assert_eq!(crate::Ran::of(&output).out, "a=b\n");
}

/// The guard also compares the mounts of a pasted command with its plan.
// SPEC C1
#[test]
fn a_pasted_command_without_its_plan_starts_nothing() {
    let place = Place::in_tmp();
    let printed = run(&place, ["--preset", "!autorun", "--preset", "!caches", "--print-args", "--", "echo", "ran"]).out;
    let paste = |text: &str| crate::Ran::of(&place.command("sh").args(["-c", text]).output().unwrap());
    assert_eq!(paste(&printed).out, "ran\n");
    let without: String = printed.lines().filter(|line| !line.ends_with("/plan \\")).collect::<Vec<_>>().join("\n");
    let refused = paste(&without);
    assert_eq!((refused.code, refused.out.as_str()), (Some(125), ""));
    assert!(
        refused.err.contains("error[guard-refused]") && refused.err.contains("the guard's plan"),
        "{}",
        refused.err
    );
    // The guard notices a mount that was removed from the command.
    place.write("home/code/project/secret", "secret");
    let printed = run(
        &place,
        ["--preset", "!autorun", "--preset", "!caches", "--exclude", "secret", "--print-args", "--", "cat", "secret"],
    )
    .out;
    let without: String = printed.lines().filter(|line| !line.ends_with("/secret \\")).collect::<Vec<_>>().join("\n");
    let refused = paste(&without);
    assert!(refused.err.contains("/secret` is not mounted"), "{}", refused.err);
}

#[test]
fn the_printed_script_runs_as_it_is() {
    let place = Place::in_tmp();
    place.write("home/code/project/secret", "secret");
    let script = "cat secret 2>/dev/null && exit 1; echo \"it's $1\" > made; exit 42";
    let printed =
        run(&place, ["--exclude", "secret", "--print-args=script", "--", "sh", "-c", script, "sh", "a b"]).out;
    let status = place.command("sh").args(["-c", &printed]).status().unwrap();
    assert_eq!(status.code(), Some(42));
    assert_eq!(fs::read_to_string(place.project().join("made")).unwrap(), "it's a b\n");
}

#[test]
fn a_command_that_does_not_exist_can_still_be_printed() {
    let ran = ran(["--preset", "!autorun", "--preset", "!caches", "--print-args", "--", "no-such-command"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.ends_with(" -- no-such-command\n"), "{}", ran.out);
}

/// The script also creates directories, and their parents, with the mode that a run gives them.
#[test]
fn the_printed_script_has_the_effects_of_a_run() {
    undisturbed(|| {
        let report =
            "cat /proc/self/mountinfo | cut -d' ' -f5-6; cat ~/.netrc && echo empty; env | sort; ls /proc/self/fd";
        let toml = "[filesystem]\nrw = [{ path = \"~/made/up/here\", if-missing = \"create\" }]\n";
        let [direct, by_shell] = [false, true].map(|by_shell| {
            let place = Place::in_tmp();
            place.write("home/.netrc", "machine example.org password secret");
            place.write("home/code/project/.agent-sandbox.toml", toml);
            place.trust();
            let words = ["--", "sh", "-c", report];
            let output = if by_shell {
                let printed = run(&place, ["--print-args=script"].into_iter().chain(words));
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

/// If a directory cannot be created, neither a run nor the script starts the command.
#[test]
fn the_printed_script_starts_nothing_without_its_directories() {
    let place = Place::in_tmp();
    let toml = "[filesystem]\nrw = [{ path = \"~/locked/tool\", if-missing = \"create\" }]\n";
    place.write("home/code/project/.agent-sandbox.toml", toml);
    let locked = place.home().join("locked");
    fs::create_dir(&locked).unwrap();
    place.give_away();
    let printed = run(&place, ["--print-args=script", "--", "touch", "started"]).out;
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let status = place.command("sh").args(["-c", &printed]).stderr(std::process::Stdio::null()).status().unwrap();
    assert!(!status.success() && !place.project().join("started").exists());
}

/// `lines` and `nul` print only arguments, and warn if a run without the guard needs more.
// SPEC S15
#[test]
fn forms_of_arguments_alone_warn_about_missing_effects() {
    let place = Place::in_tmp();
    let scope = ", and signals and abstract sockets kept inside by Landlock";
    let scope = if has_landlock(&place) { scope } else { "" };
    for form in ["lines", "nul"] {
        let flag = format!("--print-args={form}");
        assert_eq!(
            run(&place, ["--preset", "!autorun", "--preset", "!caches", &flag]).err,
            "",
            "the arguments name files with all contents"
        );
        let warned = run(&place, ["--no-guard", "--preset", "!autorun", "--preset", "!caches", &flag]);
        assert_eq!((warned.code, warned.codes()), (Some(0), vec!["incomplete-form"]));
        let needs = format!("file descriptor 5 open on the content that `json` shows{scope}");
        let message = format!("`{form}` prints the arguments alone, and these need more: {needs}\n");
        assert!(warned.err.contains(&message), "{}", warned.err);
        assert_eq!(run(&place, ["--no-guard", "-q", &flag]).err, "");
    }
    for form in ["shell", "script", "json", "annotated"] {
        assert_eq!(run(&place, [&format!("--print-args={form}")]).err, "");
    }
    for form in ["json", "annotated"] {
        assert_eq!(run(&place, ["--no-guard", &format!("--print-args={form}")]).err, "");
    }
}

/// The guard applies Landlock. Without it, agent-sandbox does so before it becomes bwrap, and a
/// script cannot.
#[test]
fn a_script_without_the_guard_warns_about_landlock() {
    let place = Place::in_tmp();
    let warned = run(&place, ["--no-guard", "--print-args"]);
    let expected = if has_landlock(&place) { vec!["incomplete-form"] } else { vec![] };
    assert_eq!((warned.code, warned.codes()), (Some(0), expected));
}

/// The output has names, reasons, and values of the policy's file, but no value of the caller.
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
        "  --unsetenv $'A\\nB' --unsetenv DISPLAY \\",
    ] {
        let spaces = |text: &str| text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|found| spaces(found).contains(&spaces(line))), "{line} in {text}");
    }
    let text = said("[env]\ninherit = false\npass = [\"CI\"]\n", "--print-args=annotated");
    assert!(text.contains("\n# pass CI ") && text.contains("\n# pass PATH ") && !text.contains("\n# unset"), "{text}");
    let json = said("[env]\ninherit = false\npass = [\"CI\"]\nset = { B = \"b\" }\n", "--print-args=json");
    let json: Value = serde_json::Deserializer::from_str(&json).into_iter().next().unwrap().unwrap();
    assert_eq!(json["environment"], serde_json::json!({ "pass": ["CI", "HOME", "LANG", "PATH"], "set": { "B": "b" } }));
}

/// A name that a command gave to a file, to mislead the user who audits the next run.
const FORGED: &[u8] = b".env.\n  --ro-bind fake fake  # ro: forged\x1b[31m \xff\x9b it's \\ \tx";
const ESCAPED: &str = r"/.env.\n  --ro-bind fake fake  # ro: forged\x1b[31m \xff\x9b it\047s \\ \tx'";

#[test]
fn a_file_name_cannot_forge_annotated_or_debug_output() {
    for (stages, guard) in STAGES.into_iter().zip([true, false]) {
        let place = Place::in_tmp();
        // In a repository, the copy of `info/exclude` also holds the names.
        assert!(place.command("git").args(["init", "-q", "."]).status().unwrap().success());
        let name = OsString::from_vec(FORGED.to_vec());
        for name in [&name, &OsString::from(".env.\u{9b}31m\u{7f}\u{202e}")] {
            place.write(std::path::Path::new("home/code/project").join(name), "");
        }
        let words = ["--print-args=annotated", "--debug", "--", "echo"];
        let mut command = place.agent_sandbox();
        let output = command.args(stages).args(words).arg(&name).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        for stream in [&output.stdout, &output.stderr] {
            let text = std::str::from_utf8(stream).unwrap();
            let drives = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!text.contains(drives), "{}", text.escape_debug());
            assert!(!text.lines().any(|line| line.starts_with("  --ro-bind fake")), "{text}");
            let path = format!("$'{}{ESCAPED}", place.project().display());
            let is_mask =
                |line: &str| line.starts_with("  --ro-bind /") && line.contains(&format!("/mounts/masked {path}"));
            assert!(text.lines().any(is_mask), "{text}");
            let start = if guard { "  -- /run/agent-sandbox/guard __guard " } else { "  -- echo " };
            let command = format!("-- echo $'{}", &ESCAPED[1..]);
            assert!(text.lines().any(|line| line.starts_with(start) && line.contains(&command)), "{text}");
        }
        // The form for programs prints the bytes unchanged.
        let raw = place.agent_sandbox().args(stages).arg("--print-args=nul").arg(&name).output().unwrap();
        assert!(raw.stdout.windows(4).any(|at| at == b"\x1b[31"), "{}", String::from_utf8_lossy(&raw.stdout));
    }
}

/// People read JSON, too, so it escapes control characters. Programs read the same names from it.
// SPEC S15
#[test]
fn no_form_of_json_drives_a_terminal_or_misleads_a_reader() {
    const NAME: &str = ".env.\u{9b}31m\u{7f}\u{202e}\u{200b}";
    let place = Place::in_tmp();
    place.write(std::path::Path::new("home/code/project").join(NAME), "");
    let unknown = format!("ro = [\"{NAME}\"]\nkey{NAME:?} = 1");
    place.write("home/unknown.toml", format!("[filesystem]\n{unknown}\n"));
    let calls: [&[&str]; 8] = [
        &["show", "--json"],
        &["explain", "--json", NAME],
        &["lint", "--json", "--exclude", NAME],
        &["lint", "--format", "sarif", "--exclude", NAME],
        &["diff", "--json", "/dev/null", "/dev/null", "--exclude", NAME],
        &["--print-args=json", "--", "echo", NAME],
        &["--message-format=json", "--debug", "--print-args=json", "--", "echo", NAME],
        &["--message-format=json", "check", "../../unknown.toml"],
    ];
    let mut named = 0;
    for words in calls {
        let output = place.agent_sandbox().args(words).output().unwrap();
        for stream in [&output.stdout, &output.stderr] {
            let text = std::str::from_utf8(stream).unwrap();
            let drives = |c: char| c.is_control() && c != '\n' || ['\u{202e}', '\u{200b}'].contains(&c);
            assert!(!text.contains(drives), "{words:?}: {}", text.escape_debug());
            let values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
            assert!(values.into_iter().all(|value| value.is_ok()), "{words:?}: {text}");
            named += usize::from(text.contains(r"\u009b31m\u007f\u202e\u200b"));
        }
    }
    assert!(named >= 4, "{named}");
}

/// The shells that know `$'…'` read the same bytes back.
#[test]
fn bash_reads_an_escaped_argument_back_unchanged() {
    let place = Place::in_tmp();
    let name = OsString::from_vec(FORGED.to_vec());
    for (stages, before) in STAGES.into_iter().zip(["  -- /run/agent-sandbox/guard __guard ", "  -- "]) {
        let mut command = place.agent_sandbox();
        let annotated = command.args(stages).arg("--print-args=annotated").arg(&name).output().unwrap().stdout;
        let annotated = String::from_utf8(annotated).unwrap();
        let word = annotated.lines().find_map(|line| line.strip_prefix(before)).unwrap();
        let word = word.split_once(" -- ").map_or(word, |(_hash, word)| word);
        let read = place.command("bash").args(["-c", &format!("printf %s {word}")]).output().unwrap();
        assert_eq!(OsString::from_vec(read.stdout), name);
    }
}

/// The script creates and removes placeholders as a run does, and passes data as here-documents.
#[test]
fn the_printed_script_creates_and_removes_placeholders() {
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
                let printed = run(&place, ["--print-args=script"].into_iter().chain(words));
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

// SPEC B15
#[test]
fn json_names_placeholders_and_contents() {
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
    let files = json["files"].as_array().unwrap();
    let exclude = files.iter().find(|file| file["content"] == content).unwrap();
    let words = json["argv"].as_array().unwrap();
    let bound = [json!("--ro-bind"), exclude["path"].clone(), json!(at(".git/info/exclude"))];
    assert!(words.windows(3).any(|words| words == bound), "{json}");
    let plan = files.iter().find(|file| file["content"].as_str().is_some_and(|text| text.contains("overflow")));
    let plan: Value = serde_json::from_str(plan.unwrap()["content"].as_str().unwrap()).unwrap();
    assert_eq!(json["guard"]["plan"], plan);
    assert!(!place.project().join("a").exists(), "printing makes nothing");
}
