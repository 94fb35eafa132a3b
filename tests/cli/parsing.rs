use std::ffi::OsString;
use std::fs;

use serde_json::Value;

use crate::support::{Place, write_program};
use crate::{ran, run, undisturbed};

fn printed<const N: usize>(words: [&str; N]) -> String {
    let ran = ran(words);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
    ran.out
}

/// The command in a printed bwrap command.
fn command_in(printed: &str) -> &str {
    let (_, guard) = printed.split_once(" \\\n  -- /run/agent-sandbox/guard __guard ").unwrap();
    guard.split_once(" -- ").unwrap().1.trim_end()
}

#[test]
fn parsing_stops_at_the_command() {
    assert_eq!(printed(["sh", "-c", "echo $0", "-h"]), "-h\n");
    assert_eq!(
        printed(["printf", "%s ", "--help", "-V", "--ro", "x", "--no-such-flag"]),
        "--help -V --ro x --no-such-flag "
    );
    assert_eq!(printed(["printf", "%s ", "--network=false", "--print-args"]), "--network=false --print-args ");
    assert_eq!(printed(["-q", "echo", "-q"]), "-q\n");
}

#[test]
fn an_argument_of_the_command_is_never_a_subcommand() {
    assert_eq!(printed(["echo", "check"]), "check\n");
    assert_eq!(printed(["echo", "schema"]), "schema\n");
    assert_eq!(printed(["-q", "echo", "check", "x"]), "check x\n");
}

#[test]
fn a_second_separator_belongs_to_the_command() {
    assert_eq!(printed(["printf", "%s ", "--", "x"]), "-- x ");
    assert_eq!(printed(["--", "printf", "%s ", "--", "x", "--"]), "-- x -- ");
}

#[test]
fn after_the_separator_a_subcommand_is_a_command() {
    let place = Place::outside_tmp();
    let bin = place.path().join("bin");
    write_program(&bin.join("check"), "#!/bin/sh\necho \"ran $*\"\n");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let run = |words: &[&str]| {
        let output = place.agent_sandbox().env("PATH", &path).args(words).output().unwrap();
        crate::Ran::of(&output).out
    };
    assert_eq!(run(&["--", "check", "-h"]), "ran -h\n");
    assert_eq!(run(&["-q", "--", "check"]), "ran \n");
    assert!(run(&["check"]).starts_with("ok: "), "without the separator it is a subcommand");
}

#[test]
fn a_value_in_the_place_of_the_command_is_refused_with_both_spellings() {
    for (flag, value) in [
        ("--network", "false"),
        ("--network", "true"),
        ("--docker", "true"),
        ("--docker", "false"),
        ("--print-args", "json"),
        ("--print-args", "annotated"),
    ] {
        let ran = ran([flag, value]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
        let tip = format!("tip: write `{flag}={value}`, or `{flag} -- {value}` to run it\n");
        assert!(ran.err.contains(&tip), "{}", ran.err);
    }
}

#[test]
fn after_the_separator_such_a_value_is_the_command() {
    let ran = ran(["--network", "--", "false"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert_eq!(printed(["--docker=false", "--", "true"]), "");
    assert_eq!(command_in(&printed(["--preset", "!autorun", "--print-args", "--", "json"])), "json");
}

#[test]
fn an_optional_value_needs_its_equals_sign_and_nothing_else_is_taken_for_it() {
    assert_eq!(printed(["--network", "echo", "false"]), "false\n");
    assert_eq!(printed(["--network=false", "echo", "x"]), "x\n");
    assert_eq!(command_in(&printed(["--preset", "!autorun", "--print-args", "echo"])), "echo");
}

#[test]
fn a_flag_that_takes_one_value_does_not_swallow_the_command() {
    assert_eq!(
        printed(["-q", "--ro", "a", "--ro", "b", "--exclude", "c", "--preset", "lint/rust", "echo", "x"]),
        "x\n"
    );
}

#[test]
fn cwd_sets_the_working_directory_and_the_project() {
    let place = Place::in_tmp();
    place.write("home/code/other/.agent-sandbox.toml", "[filesystem]\nexclude = [\"hidden\"]\n");
    place.write("home/code/other/hidden", "secret");
    place.write("home/code/other/sub/open", "");
    let script = "pwd; cat ../hidden 2>/dev/null || echo denied";
    for flag in [["-C", "../other/sub"], ["--cwd", "../other/sub"]] {
        let ran = run(&place, flag.into_iter().chain(["--", "sh", "-c", script]));
        let pwd = fs::canonicalize(place.home()).unwrap().join("code/other/sub");
        assert_eq!(ran.out, format!("{}\ndenied\n", pwd.display()));
    }
}

#[test]
fn a_requested_file_takes_the_place_of_the_projects_own() {
    let place = Place::in_tmp();
    place.write("home/code/project/.agent-sandbox.toml", "[filesystem]\nexclude = [\"a\"]\n");
    place.write("home/code/project/strict.toml", "[filesystem]\nexclude = [\"b\"]\n");
    place.write("home/code/project/a", "a");
    place.write("home/code/project/b", "b");
    let script = ["sh", "-c", "cat a b 2>/dev/null"];
    assert_eq!(run(&place, script).out, "b");
    assert_eq!(run(&place, ["-c", "strict.toml"].into_iter().chain(script)).out, "a");
    assert_eq!(run(&place, ["--config", "strict.toml"].into_iter().chain(script)).out, "a");
    assert_eq!(run(&place, ["--no-project-config"].into_iter().chain(script)).out, "ab");
}

#[test]
fn quiet_hides_warnings_and_keeps_errors() {
    let place = Place::in_tmp();
    place.write("home/code/project/a[b]", "");
    place.write("home/code/project/ab", "");
    let warned = run(&place, ["--ro", "a[b]", "--", "true"]);
    assert_eq!((warned.code, warned.codes()), (Some(0), vec!["ambiguous-pattern"]));
    for flag in ["-q", "--quiet"] {
        let quiet = run(&place, [flag, "--ro", "a[b]", "--", "true"]);
        assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
        let failed = run(&place, [flag, "--ro", "a[b]", "--exclude", "[", "--", "true"]);
        assert_eq!((failed.code, failed.codes()), (Some(125), vec!["invalid-pattern"]));
    }
}

#[test]
fn debug_prints_every_stage_to_standard_error() {
    let ran = ran(["--debug", "--", "echo", "x"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "x\n"));
    let headings: Vec<&str> = ran.err.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    let stages = ["files:", "merged:", "rules:", "decisions:", "dropped mounts:", "argv:"];
    assert_eq!(headings.iter().filter(|heading| stages.contains(heading)).collect::<Vec<_>>(), Vec::from_iter(&stages));
}

#[test]
fn debug_prints_every_merged_setting_with_its_origin() {
    let place = Place::in_tmp();
    let text = "network = false\nnested = false\nrequire = [\"seccomp\"]\nsockets = [\"~/s\"]\n[filesystem]\ntmp = \"private\"\n";
    place.write("home/.config/agent-sandbox/config.toml", text);
    let said = run(&place, ["--debug", "check"]).err;
    let merged: Vec<&str> =
        said.lines().skip_while(|line| *line != "merged:").take_while(|line| *line != "rules:").collect();
    for (setting, place) in [
        ("network = false", "config.toml:1:11)"),
        ("docker = false", "(docker is off by default)"),
        ("nested = false", "config.toml:2:10)"),
        ("require seccomp", "config.toml:3:12)"),
        ("socket ~/s", "config.toml:4:12)"),
        ("tmp = Private", "config.toml:6:7)"),
        ("inherit = true", "(the environment passes by default)"),
    ] {
        let found = merged.iter().find(|line| line.trim_start().starts_with(setting));
        assert!(found.is_some_and(|line| line.ends_with(place)), "{setting}: {merged:?}");
    }
}

/// With `--message-format=json`, each line of standard error is a JSON object.
#[test]
fn debug_output_is_json_when_messages_are_json() {
    undisturbed(|| {
        let place = Place::in_tmp();
        place.write("home/code/project/a[b]", "");
        place.write("home/code/project/ab", "");
        for words in [["--ro", "a[b]", "--", "true"], ["--ro", "a[b]", "check", "--debug"]] {
            // With `@caches`, only the first run would create caches of this machine's programs.
            let words = ["--preset", "!caches"].into_iter().chain(words);
            let said = run(&place, ["--debug", "--message-format=json"].into_iter().chain(words.clone()));
            assert_eq!(said.code, Some(0), "{}", said.err);
            let objects: Vec<Value> = said.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let debug: Vec<&str> = objects.iter().filter_map(|object| object["debug"].as_str()).collect();
            let as_text = run(&place, ["--debug", "-q"].into_iter().chain(words)).err;
            assert_eq!(debug, as_text.lines().collect::<Vec<_>>());
            let others: Vec<&Value> = objects.iter().filter(|object| object.get("debug").is_none()).collect();
            assert!(matches!(others.as_slice(), [warning] if warning["code"] == "ambiguous-pattern"), "{others:?}");
        }
    });
}

/// Every flag, as it is written before a subcommand.
const FLAGS: [&[&str]; 19] = [
    &["--config", "x.toml"],
    &["--no-project-config"],
    &["--ro", "x"],
    &["--rw", "x"],
    &["--exclude", "x"],
    &["--inject", "x.toml:y"],
    &["--preset", "!caches"],
    &["--network=false"],
    &["--docker=false"],
    &["--limit", "time=1h"],
    &["--home=private"],
    &["--base=minimal"],
    &["--print-args"],
    &["--no-optimize"],
    &["--no-guard"],
    &["--inside"],
    &["--allow-root"],
    &["--exec"],
    &["--no-placeholders"],
];
/// The number of flags about the policy, and of those, the flags that choose the file.
const OF_THE_POLICY: usize = 12;
const CHOOSING_THE_FILE: usize = 2;

/// A flag of a run before a subcommand is a mistake: it is not ignored.
#[test]
fn flags_of_a_run_do_not_go_with_a_subcommand() {
    let place = Place::in_tmp();
    place.write("home/code/project/x.toml", "network = false\n");
    let subcommands: [(&[&str], &[&[&str]]); 3] = [
        (&["schema"], &FLAGS),
        (&["check"], &FLAGS[OF_THE_POLICY..]),
        (&["check", "x.toml"], &[&FLAGS[..CHOOSING_THE_FILE], &FLAGS[OF_THE_POLICY..]].map(|of| of.to_vec()).concat()),
    ];
    for (subcommand, refused) in subcommands {
        for flag in FLAGS {
            let words = [flag, subcommand].concat();
            let ran = run(&place, &words);
            if !refused.contains(&flag) {
                assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{words:?}");
                continue;
            }
            assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words:?}");
            let name = flag[0].split('=').next().unwrap();
            // Without FILE, `check` takes the flags that choose the file.
            let chooses = FLAGS[..CHOOSING_THE_FILE].contains(&flag) && subcommand.len() > 1;
            let usage = if chooses { "check FILE" } else { subcommand[0] };
            let said = format!(
                "error: `{name}` does not go with the subcommand `{usage}`\n\n  tip: write `-- {}` for a command of that name\n",
                subcommand[0]
            );
            assert!(ran.err.starts_with(&said), "{words:?}: {}", ran.err);
        }
    }
}

/// Each subcommand takes the listed flags, before it or after it. All others are a mistake, which
/// is found before the subcommand does anything.
#[test]
fn each_subcommand_accepts_only_its_own_flags() {
    let policy: Vec<&str> = FLAGS[..OF_THE_POLICY].iter().map(|flag| flag[0]).collect();
    let with_others = |others: &[&'static str]| [&policy[..], others].concat();
    for (subcommand, taken) in [
        (&["explain", "."] as &[&str], with_others(&["--no-optimize", "--no-guard"])),
        (&["show"], with_others(&["--no-optimize", "--no-guard"])),
        (&["verify"], with_others(&["--no-optimize", "--no-guard", "--allow-root"])),
        (&["lint"], policy.clone()),
        (&["diff", "/dev/null"], policy[CHOOSING_THE_FILE..].to_vec()),
        (&["trust"], policy[CHOOSING_THE_FILE..].to_vec()),
        (&["trust", "--list"], vec![]),
        (&["trust", "--revoke"], vec![]),
        (&["doctor"], vec!["--allow-root"]),
        (&["init", "--stdout"], vec![]),
        (&["sweep"], vec![]),
        (&["completions", "bash"], vec![]),
        (&["man"], vec![]),
    ] {
        for flag in FLAGS {
            let (before, behind) = ([flag, subcommand].concat(), [subcommand, flag].concat());
            assert_eq!(requested(&before).is_some(), taken.contains(&flag[0]), "{before:?}");
            assert_eq!(requested(&behind), requested(&before), "{behind:?}");
        }
    }
}

/// Each flag of the help must be in [`FLAGS`] or in `everywhere`.
#[test]
fn every_flag_is_tried_before_a_subcommand() {
    let help = ran(["--help"]).out;
    let everywhere = ["--cwd", "--debug", "--quiet", "--message-format", "--color", "--help", "--version"];
    let flags = help.lines().filter(|line| line.trim_start().starts_with('-') && !line.contains(": "));
    for line in flags {
        let name = line.split_whitespace().find(|word| word.starts_with("--")).unwrap();
        let name = name.split(['[', '=']).next().unwrap();
        let tried = FLAGS.iter().any(|flag| flag[0].split('=').next() == Some(name));
        assert!(tried || everywhere.contains(&name), "{name} is not in FLAGS");
    }
}

#[test]
fn global_flags_may_precede_a_subcommand() {
    for subcommand in ["schema", "check"] {
        let ran = ran(["-C", ".", "-q", "--debug", "--message-format=text", subcommand]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
}

/// The request of a command line; `None` for a mistake.
fn requested(words: &[&str]) -> Option<String> {
    let all: Vec<OsString> = ["agent-sandbox"].iter().chain(words).map(OsString::from).collect();
    agent_sandbox::cli::request(&all).ok().map(|request| format!("{request:?}"))
}

// SPEC J1
#[test]
fn flags_before_and_behind_a_subcommand_count_together() {
    for (words, meant) in [
        (&["--ro", "a", "show", "--ro", "b", "--rw=c"][..], &["--ro", "a", "--ro", "b", "--rw=c", "show"][..]),
        (&["lint", "--ro=x", "-q", "--rw", "a b"], &["--ro=x", "--rw", "a b", "lint", "-q"]),
        (&["--inject=a:b", "show", "--inject", "c:d"], &["--inject", "a:b", "--inject", "c:d", "show"]),
        (&["explain", "-c", "x.toml", "."], &["-c", "x.toml", "explain", "."]),
        (&["--no-guard", "verify", "--network=false"], &["--network=false", "--no-guard", "verify"]),
    ] {
        assert!(requested(words).is_some(), "{words:?}");
        assert_eq!(requested(words), requested(meant), "{words:?}");
    }
    let hidden = ran(["show", "--exclude", "/etc/hostname", "--json"]);
    let hidden: Value = serde_json::from_str(&hidden.out).unwrap();
    let paths = hidden["paths"].as_array().unwrap();
    assert!(paths.iter().any(|node| node["path"] == "/etc/hostname" && node["access"] == "exclude"));
}

/// Flags that exclude each other are a mistake also on different sides of the subcommand.
#[test]
fn flags_before_and_behind_a_subcommand_may_not_contradict() {
    for (words, said) in [
        (
            &["--config", "a", "show", "--no-project-config"][..],
            "`--config` does not go with the subcommand `show --no-project-config`",
        ),
        (&["--no-project-config", "show", "--config", "a"], "`--no-project-config` does not go with"),
        (&["--config", "a", "show", "--config", "b"], "`--config` does not go with the subcommand `show --config`"),
        (&["--network", "show", "--network=false"], "`--network` does not go with the subcommand `show --network`"),
        (&["--ro", "x", "trust", "--list"], "`--ro` does not go with the subcommand `trust --list`"),
        (&["check", "x.toml", "--config", "y.toml"], "cannot be used with"),
        (&["trust", "--list", "--ro", "x"], "cannot be used with"),
        (&["schema", "--ro", "x"], "unexpected argument '--ro' found"),
        (&["show", "--exclde", "x"], "a similar argument exists: '--exclude'"),
        (&["show", "--exclude"], "a value is required"),
        (&["show", "--exec"], "unexpected argument '--exec' found"),
        (&["explain", "--network", "false"], "tip: write `--network=false`"),
        (&["--docker", "true", "show"], "tip: write `--docker=true`"),
    ] {
        let ran = ran_with_args(words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words:?}");
        assert!(ran.err.contains(said), "{words:?}: {}", ran.err);
    }
}

fn ran_with_args(words: &[&str]) -> crate::Ran {
    run(&Place::in_tmp(), words)
}

#[test]
fn help_has_a_help() {
    assert_eq!(printed(["help", "--help"]), printed(["--help"]));
    assert_eq!(printed(["help", "-h"]), printed(["-h"]));
}

#[test]
fn help_for_run_and_exec_says_that_no_subcommand_is_needed() {
    for (words, meant) in [(&["run", "ls", "-l"][..], "ls -l"), (&["exec"], "COMMAND")] {
        let ran = ran_with_args(words);
        assert_eq!((ran.code, ran.codes()), (Some(127), vec!["command-not-found"]));
        let help = format!("no subcommand is needed: `agent-sandbox -- {meant}`");
        assert!(ran.err.contains(&help), "{}", ran.err);
    }
}
