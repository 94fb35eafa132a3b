use std::sync::Arc;

use super::*;
use crate::compile::config;
use crate::compile::decide::Decisions;
use crate::compile::layers::Project;
use crate::compile::plan::{self, Base};
use crate::compile::resolve::Runtime;
use crate::policy::origin::Source;

/// The text of `[env]` in a layer.
type Written = (LayerKind, &'static str);

const SYSTEM: LayerKind = LayerKind::System;
const USER: LayerKind = LayerKind::User;
const PROJECT: LayerKind = LayerKind::Project;

/// Of two texts on the project layer, the first is that of a file above the root.
fn filtered(written: &[Written], caller: &[(&str, &str)], docker: bool) -> (Environment, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    let root = AbsPath::root().join("home/u/proj");
    let project = Project::plain(&root, AbsPath::root().join("home/u"));
    let layers = written.iter().enumerate().map(|(index, (kind, text))| {
        let text = format!("docker = {docker}\n[env]\n{text}\n");
        let source = Arc::new(Source::new(kind.name().to_owned(), text));
        let config = config::parse(&source, &mut diagnostics);
        let protective_only = written.get(index + 1).is_some_and(|(next, _)| next == kind);
        Layer { kind: *kind, base: root.clone(), config, protective_only, needs_trust: false, file: None, source: None }
    });
    let layers = layers.collect();
    let layers = Layers {
        project,
        layers,
        own_files: Vec::new(),
        absent: Vec::new(),
        state: AbsPath::root(),
        has_private: false,
        has_reports: false,
    };
    let env = caller.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
    let session = Session { cwd: root, uid: 1000, env, executable: None, memory: u64::MAX };
    let policy = Policy::of(&layers, &session, &mut diagnostics);
    let base = Base {
        uid: 1000,
        guard: None,
        runtime: &Runtime::default(),
        private: None,
        own_files: &[],
        git_excludes: &[],
        second_places: &[],
        links: &[],
        variables: Vec::new(),
    };
    let plan = plan::plan(&Decisions::default(), &base, true);
    let environment = filter(&session, &layers, &policy, &plan, &mut diagnostics);
    (environment, diagnostics)
}

/// The value of `A` for the command. The caller has set it to `caller`.
fn value(written: &[Written]) -> Option<String> {
    let (environment, diagnostics) = filtered(written, &[("A", "caller")], false);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    environment.var("A").map(escape_for_display)
}

// SPEC E2, E3
#[test]
fn the_latest_layer_that_names_a_variable_decides() {
    let table: &[(&[Written], Option<&str>)] = &[
        (&[], Some("caller")),
        (&[(USER, "unset = ['A']")], None),
        (&[(USER, "unset = ['B']")], Some("caller")),
        (&[(USER, "unset = ['*']")], None),
        // One layer: `set` over `unset` over `pass`.
        (&[(USER, "pass = ['A']\nunset = ['A']")], None),
        (&[(USER, "pass = ['A']\nunset = ['?']")], None),
        (&[(USER, "unset = ['A']\nset = { A = 'user' }")], Some("user")),
        (&[(USER, "pass = ['A']\nset = { A = 'user' }")], Some("user")),
        (&[(USER, "pass = ['A']\nunset = ['A']\nset = { A = 'user' }")], Some("user")),
        // Two layers: the later one wins, in every combination.
        (&[(SYSTEM, "unset = ['A']"), (USER, "pass = ['A']")], Some("caller")),
        (&[(SYSTEM, "unset = ['A']"), (USER, "pass = ['*']")], Some("caller")),
        (&[(SYSTEM, "pass = ['A']"), (USER, "unset = ['*']")], None),
        (&[(SYSTEM, "unset = ['A']"), (USER, "set = { A = 'user' }")], Some("user")),
        (&[(SYSTEM, "set = { A = 'system' }"), (USER, "unset = ['A']")], None),
        (&[(SYSTEM, "set = { A = 'system' }"), (USER, "pass = ['A']")], Some("caller")),
        (&[(SYSTEM, "set = { A = 'system' }"), (USER, "set = { A = 'user' }")], Some("user")),
        (&[(SYSTEM, "set = { A = 'system' }"), (USER, "set = { B = 'user' }")], Some("system")),
        (&[(SYSTEM, "unset = ['A']"), (USER, "pass = ['A']"), (PROJECT, "unset = ['A']")], None),
        (&[(SYSTEM, "unset = ['A']"), (USER, ""), (PROJECT, "pass = ['B']")], None),
        // `inherit` decides about variables that no layer names.
        (&[(USER, "inherit = false")], None),
        (&[(SYSTEM, "pass = ['A']"), (USER, "inherit = false")], Some("caller")),
        (&[(SYSTEM, "inherit = false"), (USER, "pass = ['A']")], Some("caller")),
        (&[(SYSTEM, "inherit = false"), (USER, "inherit = true")], Some("caller")),
        (&[(SYSTEM, "inherit = true"), (USER, "inherit = false")], None),
        (&[(SYSTEM, "unset = ['A']"), (USER, "inherit = true")], None),
        (&[(USER, "inherit = false\nset = { A = 'user' }")], Some("user")),
    ];
    for (written, expected) in table {
        assert_eq!(value(written).as_deref(), *expected, "{written:?}");
    }
}

// SPEC E7
#[test]
fn a_file_above_the_root_only_forbids() {
    let table: &[(&[Written], Option<&str>)] = &[
        (&[(PROJECT, "unset = ['A']"), (PROJECT, "")], None),
        // On one layer the more restrictive entry wins, whichever file has it.
        (&[(PROJECT, "unset = ['A']"), (PROJECT, "pass = ['A']")], None),
        (&[(PROJECT, "unset = ['A']"), (PROJECT, "set = { A = 'root' }")], Some("root")),
        (&[(PROJECT, "set = { A = 'above' }"), (PROJECT, "")], Some("caller")),
        (&[(PROJECT, "set = { A = 'above' }"), (PROJECT, "unset = ['A']")], None),
        (&[(USER, "unset = ['A']"), (PROJECT, "pass = ['A']"), (PROJECT, "")], None),
        (&[(PROJECT, "inherit = false"), (PROJECT, "")], None),
        (&[(PROJECT, "inherit = false"), (PROJECT, "inherit = true")], Some("caller")),
        (&[(USER, "inherit = false"), (PROJECT, "inherit = true"), (PROJECT, "")], None),
    ];
    for (written, expected) in table {
        assert_eq!(value(written).as_deref(), *expected, "{written:?}");
    }
}

// SPEC E3
#[test]
fn passing_a_variable_that_the_caller_lacks_has_no_effect() {
    let (environment, _) = filtered(&[(SYSTEM, "set = { A = 'system' }"), (USER, "pass = ['A', 'B']")], &[], false);
    assert_eq!(environment.var("A"), Some(OsStr::new("system")));
    assert_eq!(environment.outcomes.len(), 1);
}

#[test]
fn each_outcome_says_which_entry_decided_it() {
    let caller = [("A", "x"), ("B", "x"), ("C", "x"), ("DISPLAY", "x"), ("E", "x")];
    let (environment, _) = filtered(&[(USER, "pass = ['A']\nunset = ['B']\nset = { C = 'c' }")], &caller, false);
    let outcomes = environment.outcomes.iter();
    let said: Vec<String> =
        outcomes.map(|(name, o)| format!("{} {:?} {}", escape_for_display(name), o.fate, o.because)).collect();
    assert_eq!(
        said,
        [
            "A Passed user:3:9",
            "B Dropped user:4:10",
            "C Set user:5:13",
            "DISPLAY Dropped the display sees your keys and your screen",
            "E Passed the environment passes by default"
        ]
    );
}

// SPEC E5
#[test]
fn container_engine_variables_pass_only_with_docker() {
    for (written, docker, expected) in
        [("", false, false), ("", true, true), ("inherit = false", true, true), ("inherit = false", false, false)]
    {
        for name in ["DOCKER_HOST", "CONTAINER_HOST"] {
            let (environment, _) = filtered(&[(USER, written)], &[(name, "tcp://host")], docker);
            assert_eq!(environment.var(name).is_some(), expected, "{name} with docker = {docker}, {written}");
        }
    }
}

// SPEC E4
#[test]
fn an_entry_of_a_user_beats_the_built_in_ones() {
    let caller = [("SSH_AUTH_SOCK", "/s"), ("PATH", "/bin"), ("XDG_RUNTIME_DIR", "/r"), ("TMPDIR", "/nowhere")];
    let entries = "pass = ['SSH_*']\nunset = ['PATH']\nset = { XDG_RUNTIME_DIR = '/own', TMPDIR = '/own' }";
    let (environment, _) = filtered(&[(USER, entries)], &caller, false);
    let found: Vec<(String, String)> = environment
        .variables
        .iter()
        .map(|(name, value)| (escape_for_display(name), escape_for_display(value)))
        .collect();
    let expected = [("SSH_AUTH_SOCK", "/s"), ("TMPDIR", "/own"), ("XDG_RUNTIME_DIR", "/own")];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

// SPEC E6
#[test]
fn the_runtime_directory_is_the_private_one() {
    for (written, outside, inside) in [
        ("", "/home/u/.runtime", Some("/run/user/1000")),
        ("", "/run/user/1000", Some("/run/user/1000")),
        ("inherit = false", "/home/u/.runtime", Some("/run/user/1000")),
        ("unset = ['XDG_RUNTIME_DIR']", "/home/u/.runtime", None),
    ] {
        let (environment, _) = filtered(&[(USER, written)], &[("XDG_RUNTIME_DIR", outside)], false);
        assert_eq!(
            environment.var("XDG_RUNTIME_DIR").map(escape_for_display).as_deref(),
            inside,
            "{outside}, {written}"
        );
    }
    assert_eq!(filtered(&[], &[], false).0.var("XDG_RUNTIME_DIR"), None);
}

#[test]
fn every_built_in_name_can_be_parsed_and_none_is_both_unset_and_passed() {
    let all = || defaults::UNSET.iter().chain(defaults::PASS).flat_map(|default| default.names);
    let reserved = defaults::RESERVED.iter().flat_map(|reserved| reserved.names);
    for name in all().chain(reserved) {
        assert!(built_in_pattern(name).is_some(), "{name}");
    }
    for unset in defaults::UNSET.iter().filter(|default| matches!(default.when, When::Always)) {
        for pass in defaults::PASS.iter().flat_map(|default| default.names) {
            let example = pass.replace('*', "HOME");
            let both = unset.names.iter().find(|name| built_in_pattern(name).unwrap().matches(OsStr::new(&example)));
            assert_eq!(both, None, "{pass}");
        }
    }
}

// SPEC E11
#[test]
fn names_that_look_like_credentials_are_dropped_but_for_those_of_agents() {
    let dropped = [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "STRIPE_API_KEY",
        "CLIENT_SECRET",
        "PGPASSWORD",
        "npm_config_//registry.example/:_authToken",
        "SECRET",
        "TOKEN",
        "PASS",
        "PASSWD",
        "CREDENTIALS",
        "API_KEY",
        "password",
        "Db_Password",
        "TF_VAR_secret",
        "TF_VAR_db_password",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "RAILS_MASTER_KEY",
        "deploy_private_key",
    ];
    let kept = [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "MAX_THINKING_TOKENS",
        "TOKENIZERS_PARALLELISM",
        // A part of a word, or a word that is not the last.
        "COMPASS",
        "PASSWORD_STORE_DIR",
        "GIT_ASKPASS",
        "SECRETS_DIR",
        "API_KEY_FILE",
        "USERPAT",
        // Many harmless names also end in `KEY`.
        "MY_KEY",
        "GPG_KEY",
        "KEY",
    ];
    let caller: Vec<(&str, &str)> = dropped.iter().chain(&kept).map(|name| (*name, "x")).collect();
    let is_there = |environment: &Environment, name: &&&str| environment.var(name).is_some();
    let (environment, _) = filtered(&[], &caller, false);
    assert_eq!(dropped.iter().filter(|name| is_there(&environment, name)).count(), 0);
    assert_eq!(kept.iter().filter(|name| is_there(&environment, name)).count(), kept.len());
    let (environment, _) = filtered(&[(USER, "pass = ['GITHUB_TOKEN']")], &caller, false);
    assert_eq!(environment.var("GITHUB_TOKEN"), Some(OsStr::new("x")));
    // With `inherit = false`, a kept variable passes only if an entry names it.
    let (environment, _) = filtered(&[(USER, "inherit = false")], &caller, false);
    assert_eq!(environment.var("ANTHROPIC_API_KEY"), None);
}

#[test]
fn every_name_of_a_preset_is_a_valid_pattern_and_cheap() {
    for preset in crate::compile::presets::data::PRESETS {
        for group in preset.variables {
            for name in group.names {
                assert!(built_in_pattern(name).is_some(), "{name}");
                let inner = name.trim_start_matches('*').trim_end_matches('*');
                assert!(!inner.contains(['*', '?', '[', '{', '\\']), "{name} is no prefix, suffix or name");
                match group.effect {
                    VariableEffect::Drop => {}
                    VariableEffect::DropWord => {
                        assert!(name.starts_with("*_") && *name == name.to_uppercase(), "{name}");
                    }
                    _ => assert_eq!(inner, *name, "it is no name"),
                }
            }
        }
    }
}

/// Of two texts on the project layer, the first is that of a file above the root. Such a file
/// cannot pass a variable that the user removed.
#[test]
fn a_file_above_the_root_keeps_no_variable() {
    let above = "inherit = true\n[filesystem]\npresets = ['@agents']";
    let user = "inherit = true\n[filesystem]\npresets = ['!@agents']";
    let (environment, diagnostics) =
        filtered(&[(USER, user), (PROJECT, above), (PROJECT, "")], &[("OPENAI_API_KEY", "x")], false);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert_eq!(environment.var("OPENAI_API_KEY"), None);
    let (environment, _) = filtered(&[(USER, user), (PROJECT, above)], &[("OPENAI_API_KEY", "x")], false);
    assert_eq!(environment.var("OPENAI_API_KEY"), Some(OsStr::new("x")));
}
