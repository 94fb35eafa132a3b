//! Each printed form carries every byte of every argument.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use agent_sandbox::cli::print::{PrintForm, print};
use agent_sandbox::compile::environment::{Environment, Fate, VariableOutcome};
use agent_sandbox::compile::lower::{Argv, Data, Operation, PreExec};
use agent_sandbox::compile::plan::Purpose;
use agent_sandbox::policy::origin::Origin;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{abs, write_program};

/// An argument with characters that are special to shells, TOML, JSON and terminals.
fn word() -> impl Strategy<Value = OsString> {
    let odd = b" '\"\\\n\t$`*?[]{}()<>|&;#~!=-\x7f\x01\xff\xc3".to_vec();
    let byte = prop_oneof![3 => select(odd), 2 => 1..=255_u8, 4 => select(b"abc/.".to_vec())];
    vec(byte, 0..9).prop_map(OsString::from_vec)
}

fn text_word() -> impl Strategy<Value = OsString> {
    prop_oneof![word().prop_filter("text", |word| word.to_str().is_some()), "\\PC{0,6}".prop_map(OsString::from)]
}

fn argv(program: &Path, operations: Vec<Vec<OsString>>, command: Vec<OsString>) -> Argv {
    let because = Origin::BuiltIn("a test");
    let operations =
        operations.into_iter().map(|words| Operation { words, purpose: Purpose::Base, because: because.clone() });
    Argv {
        guard: None,
        pre_exec: PreExec::default(),
        program: abs(program),
        operations: operations.collect(),
        command,
        create: Vec::new(),
        new_files: Vec::new(),
        environment: Environment::default(),
        placeholders: Vec::new(),
        files: Vec::new(),
        data: Vec::new(),
        dropped: Vec::new(),
        supervised: Vec::new(),
        tmp_size: None,
        cgroup: None,
    }
}

fn owned(argv: &Argv) -> Vec<OsString> {
    argv.words()
}

type Parts = (Vec<Vec<OsString>>, Vec<OsString>);

fn parts<S: Strategy<Value = OsString>>(word: impl Fn() -> S) -> impl Strategy<Value = Parts> {
    (vec(vec(word(), 1..4), 0..4), vec(word(), 1..4))
}

const PROGRAM: &str = "/opt/o'dd dir/bwrap";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shell_form_is_read_back_as_the_arguments((operations, command) in parts(text_word)) {
        let argv = argv(Path::new(PROGRAM), operations, command);
        let printed = String::from_utf8(print(&argv, PrintForm::Script)).unwrap();
        let words: Vec<OsString> = shell_words::split(&printed).unwrap().into_iter().map(OsString::from).collect();
        prop_assert_eq!(words, owned(&argv));
    }

    #[test]
    fn the_nul_form_is_split_into_the_arguments((operations, command) in parts(word)) {
        let argv = argv(Path::new(PROGRAM), operations, command);
        let printed = print(&argv, PrintForm::Nul);
        let all = printed.strip_suffix(b"\0").unwrap();
        let words: Vec<OsString> = all.split(|byte| *byte == 0).map(|w| OsStr::from_bytes(w).to_owned()).collect();
        prop_assert_eq!(words, owned(&argv));
    }

    #[test]
    fn the_lines_form_is_unescaped_into_the_arguments((operations, command) in parts(word)) {
        let argv = argv(Path::new(PROGRAM), operations, command);
        let printed = print(&argv, PrintForm::Lines);
        let all = printed.strip_suffix(b"\n").unwrap();
        let words: Vec<OsString> = all.split(|byte| *byte == b'\n').map(unescape).collect();
        prop_assert_eq!(words, owned(&argv));
    }

    #[test]
    fn the_json_form_is_decoded_into_the_arguments((operations, command) in parts(word)) {
        let argv = argv(Path::new(PROGRAM), operations, command);
        let printed: serde_json::Value = serde_json::from_slice(&print(&argv, PrintForm::Json)).unwrap();
        let words: Vec<OsString> = printed["argv"].as_array().unwrap().iter().map(decode).collect();
        prop_assert_eq!(words, owned(&argv));
    }
}

/// The shell of this machine reads the printed form, for arguments of any bytes.
#[test]
fn a_shell_executes_the_shell_form_with_the_same_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("it's a\tprogram");
    write_program(&program, "#!/bin/sh\nprintf '%s\\0' \"$0\" \"$@\"\n");
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&(parts(word), 3..10_i32), |((operations, command), end)| {
        let mut argv = argv(&program, operations, command);
        argv.data = (3..end).map(|descriptor| Data { descriptor, content: Vec::new() }).collect();
        let script = OsString::from_vec(print(&argv, PrintForm::Script));
        let output = Command::new("sh").arg("-c").arg(script).env_clear().output().unwrap();
        prop_assert!(output.status.success(), "{output:?}");
        let all = output.stdout.strip_suffix(b"\0").unwrap();
        let words: Vec<OsString> = all.split(|byte| *byte == 0).map(|w| OsStr::from_bytes(w).to_owned()).collect();
        prop_assert_eq!(words, owned(&argv));
        Ok(())
    });
    assert_eq!(result, Ok(()));
}

/// Names of variables that are not special to a shell. Some could be special to the script.
fn variable() -> impl Strategy<Value = OsString> {
    prop_oneof![
        "[A-F_][A-F0-9_]{1,2}".prop_map(OsString::from),
        select(vec!["ENV", "HOME", "LC_ALL", "POSIXLY_CORRECT", "i", "name", "pass"]).prop_map(OsString::from),
    ]
}

/// Variables that are special to a shell, and that a policy can set.
fn of_the_shell() -> impl Strategy<Value = OsString> {
    select(vec!["IFS", "PATH", "PPID", "UID", "PS1", "OPTIND", "SHELLOPTS"]).prop_map(OsString::from)
}

/// A variable that a policy can set, with a name that no shell can assign to.
fn odd_variable() -> impl Strategy<Value = OsString> {
    "[a-z0-9 /:'\"$*.-]{1,5}".prop_map(OsString::from)
}

/// The fate of a variable of the caller: passed, dropped, or set to another value.
fn fate() -> impl Strategy<Value = Option<Option<OsString>>> {
    prop_oneof![Just(Some(None)), Just(None), word().prop_map(|value| Some(Some(value)))]
}

/// The environment of a caller, and the environment that a policy makes of it.
fn environments() -> impl Strategy<Value = (BTreeMap<OsString, OsString>, Environment)> {
    let callers = proptest::collection::btree_map(variable(), (word(), fate()), 0..5);
    let added = proptest::collection::btree_map(prop_oneof![variable(), odd_variable(), of_the_shell()], word(), 0..3);
    (callers, added, any::<bool>()).prop_map(|(callers, added, only_named)| {
        let mut environment = Environment { only_named, ..Environment::default() };
        let mut settle = |name: &OsString, value: Option<&OsString>, fate| {
            environment.variables.remove(name);
            environment.variables.extend(value.map(|value| (name.clone(), value.clone())));
            environment.outcomes.insert(name.clone(), VariableOutcome { fate, because: Origin::BuiltIn("a test") });
        };
        for (name, (own, fate)) in &callers {
            match fate {
                Some(None) => settle(name, Some(own), Fate::Passed),
                Some(Some(value)) => settle(name, Some(value), Fate::Set),
                None => settle(name, None, Fate::Dropped),
            }
        }
        added.iter().for_each(|(name, value)| settle(name, Some(value), Fate::Set));
        (callers.into_iter().map(|(name, (own, _))| (name, own)).collect(), environment)
    })
}

/// Whatever the variables are, the script starts bwrap with the environment of a run.
// SPEC E9
#[test]
fn the_shell_form_gives_the_environment() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&environments(), |(mut caller, environment)| {
        // The shell needs a real PATH to find `env` and `awk`.
        caller.insert("PATH".into(), "/usr/bin:/bin".into());
        let expected = environment.variables.clone();
        let mut argv = argv(Path::new("/usr/bin/env"), vec![vec!["-0".into()]], Vec::new());
        argv.environment = environment;
        let script = OsString::from_vec(print(&argv, PrintForm::Script));
        let output = Command::new("/bin/sh").arg("-c").arg(&script).env_clear().envs(&caller).output().unwrap();
        prop_assert!(output.status.success(), "{output:?} of {script:?}");
        let lines = output.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        let mut found: BTreeMap<OsString, OsString> = lines
            .map(|line| line.splitn(2, |byte| *byte == b'=').map(|part| OsStr::from_bytes(part).to_owned()))
            .map(|mut parts| (parts.next().unwrap(), parts.next().unwrap()))
            .collect();
        // Shells set these variables, not the script.
        for made in ["PWD", "OLDPWD", "SHLVL", "_", "PATH"] {
            if !expected.contains_key(OsStr::new(made)) {
                found.remove(OsStr::new(made));
            }
        }
        prop_assert_eq!(found, expected, "{:?}", script);
        Ok(())
    });
    assert_eq!(result, Ok(()));
}

fn unescape(line: &[u8]) -> OsString {
    let mut out = Vec::new();
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'\\') => b'\\',
                other => panic!("{other:?} is not escaped by a backslash"),
            },
            byte => *byte,
        });
    }
    OsString::from_vec(out)
}

fn decode(word: &serde_json::Value) -> OsString {
    match word.as_str() {
        Some(text) => text.into(),
        None => {
            let bytes = word["bytes"].as_array().unwrap().iter();
            OsString::from_vec(bytes.map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap()).collect())
        }
    }
}
