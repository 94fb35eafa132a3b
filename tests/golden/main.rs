//! Each folder in `cases/` is a host and a policy. The compiled policy is a reviewed snapshot in
//! `snapshots/golden`. Adding a folder adds a case; README.md describes the files of a folder.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod explain;
mod lint;
mod show;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use agent_sandbox::audit::diff::diff;
use agent_sandbox::cli;
use agent_sandbox::cli::print::{PrintForm, display_args, display_link, display_step, print};
use agent_sandbox::compile::Compiled;
use agent_sandbox::compile::environment::{Fate, VariableOutcome};
use agent_sandbox::compile::lower::{MountContent, MountFile};
use agent_sandbox::compile::placeholder;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostic, Diagnostics, Format, render};
use agent_sandbox::host::session::Session;
use agent_sandbox::model::ModelView as View;
use agent_sandbox::policy::origin::{Origin, Source};
use agent_sandbox::policy::path::escape_for_display;
use agent_sandbox::policy::rule::{Exactness, LayerKind};
use support::{Tree, abs, leads_to_copy, machine, model, session};

#[test]
fn every_case_compiles_to_its_snapshot() {
    let cases = cases();
    assert!(!cases.is_empty(), "tests/golden/cases holds the cases");
    let settings = support::snapshots("golden");
    let differs = |name: &&String| {
        let text = Case::read(name).compile();
        settings.bind(|| std::panic::catch_unwind(|| insta::assert_snapshot!(name.as_str(), text)).is_err())
    };
    // A failure names all different cases, not only the first.
    let different: Vec<&String> = cases.iter().filter(differs).collect();
    assert!(different.is_empty(), "different from snapshots/golden: {different:?}");
}

/// The printed command, read by a shell, is the argv of the case to the byte.
#[test]
fn every_case_is_printed_as_a_command_that_a_shell_reads_back() {
    let mut read = 0;
    for name in cases() {
        let Some(compiled) = Case::read(&name).compiled() else { continue };
        let argv = compiled.argv(&machine(), &["true".into()], &mut Diagnostics::default());
        let printed = String::from_utf8(print(&argv, PrintForm::Shell)).unwrap();
        let command: Vec<&str> = printed.lines().filter(|line| !line.starts_with('#')).collect();
        let script = format!("set -- {}\nprintf '%s\\0' \"$@\"", command.join("\n"));
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let words: Vec<OsString> = output
            .stdout
            .strip_suffix(b"\0")
            .unwrap()
            .split(|byte| *byte == 0)
            .map(|word| OsStr::from_bytes(word).to_owned())
            .collect();
        // Only the printed command has these arguments: a run removes the variables itself.
        let unset = words.iter().position(|word| word == "--unsetenv").unwrap_or(words.len());
        let rest = words[unset..].chunks(2).position(|pair| pair[0] != "--unsetenv").unwrap_or(0);
        let words: Vec<OsString> = [&words[..unset], &words[unset + 2 * rest..]].concat();
        assert_eq!(words, argv.all_args(), "{name}");
        read += 1;
    }
    assert!(read > 50, "{read}");
}

// SPEC B5, C1
#[test]
fn every_case_means_the_same_without_optimising() {
    for name in cases() {
        Case::read(&name).assert_optimising_changes_nothing(&name);
    }
}

#[test]
fn every_snapshot_belongs_to_a_case() {
    let stale: Vec<String> = names_in("snapshots/golden")
        .into_iter()
        .filter_map(|name| name.strip_suffix(".snap").map(str::to_owned))
        .filter(|name| !cases().contains(name))
        .collect();
    assert!(stale.is_empty(), "snapshots without a folder in tests/golden/cases: {stale:?}");
}

/// The difference that the project's file of a case makes, as `diff --json` prints it.
const COMPARED: [&str; 12] = [
    "nesting",
    "tmp-host",
    "env-layers",
    "missing-block",
    "missing-create",
    "sockets-allowed",
    "preset-all-removed-in-part",
    "device",
    "odd-names",
    "private-in-the-projects-file",
    "home-private-in-the-projects-file",
    "inject-over-a-mask",
];

// SPEC F1, F6, J7
#[test]
fn the_diff_of_each_project_file_matches_its_snapshot() {
    let settings = support::snapshots("diff");
    for name in COMPARED {
        let case = Case::read(name);
        let project = fs::read_to_string(case.tree.real("home/u/proj/.agent-sandbox.toml")).unwrap();
        let compile = |text: String| {
            let source = Source::new(".agent-sandbox.toml".to_owned(), text);
            let request = Request { supposed: Some(source.into()), ..case.request.clone() };
            let (compiled, diagnostics) = case.tree.compile_as(&case.session, &request);
            assert!(!diagnostics.has_errors(), "{name}");
            compiled.unwrap()
        };
        let (old, new) = (compile(String::new()), compile(project));
        let found = diff(("nothing", &old), (".agent-sandbox.toml", &new));
        let text = format!("{}\n\n{}\n", case.why, serde_json::to_string_pretty(&found).unwrap());
        settings.bind(|| insta::assert_snapshot!(name, text));
    }
}

fn cases() -> BTreeSet<String> {
    names_in("tests/golden/cases")
}

fn names_in(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Whether the host's file is visible, and then whether it is writable.
fn shows(view: &View) -> Option<bool> {
    match view {
        View::Host { writable, .. } => Some(*writable),
        // A private file counts as read-only, as it is without the guard.
        View::Symlink { target, .. } if leads_to_copy(target) => Some(false),
        _ => None,
    }
}

struct Case {
    why: String,
    tree: Tree,
    session: Session,
    request: Request,
}

/// The files that a case may have. Any other name is a mistake that would go unnoticed.
const FILES: [&str; 6] = ["tree", "project.toml", "user.toml", "system.toml", "args", "env"];

impl Case {
    fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cases").join(name);
        for file in names_in(&format!("tests/golden/cases/{name}")) {
            assert!(FILES.contains(&file.as_str()), "{name}/{file} is no part of a case");
        }
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let manifest = read("tree");
        let comment = manifest.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let why: Vec<&str> = comment.filter(|line| !line.starts_with("SPEC ")).collect();
        assert!(!why.is_empty(), "{name}/tree begins with a comment that says what the case shows");
        let case = Self {
            why: why.join(" "),
            tree: Tree::new(["home/u/proj/", "tmp/"]),
            session: session_from(&read("env")),
            request: request_from(&read("args")),
        };
        for entry in manifest.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            case.add(entry);
        }
        for (file, place) in [
            ("project.toml", "home/u/proj/.agent-sandbox.toml"),
            ("user.toml", "home/u/.config/agent-sandbox/config.toml"),
            ("system.toml", "etc/agent-sandbox/config.toml"),
        ] {
            if folder.join(file).exists() {
                case.tree.add(&format!("{place} = {}", read(file)));
            }
        }
        case
    }

    fn add(&self, entry: &str) {
        match String::from_utf8(unescape(entry)) {
            Ok(entry) => self.tree.add(&entry),
            // A name or a content that is not UTF-8 is allowed for a file in an existing folder.
            Err(bytes) => {
                let bytes = bytes.into_bytes();
                let end = bytes.windows(3).position(|part| part == b" = ");
                let (name, content) = end.map_or((&bytes[..], &b""[..]), |end| (&bytes[..end], &bytes[end + 3..]));
                fs::write(self.tree.real(PathBuf::from(OsString::from_vec(name.to_vec()))), content).unwrap();
            }
        }
    }

    /// SPEC B5, for every path that a rule decides: the access is the same with and without
    /// redundant mounts, and with and without the guard.
    fn assert_optimising_changes_nothing(&self, name: &str) {
        let views = |no_optimize, no_guard| {
            let request = Request { no_optimize, no_guard, ..self.request.clone() };
            let session = &self.session;
            let (compiled, diagnostics) = self.tree.compile_as(session, &request);
            // Some limits need a guard, but no limit changes the access at a path.
            let is_about_paths = |said: &Diagnostic| said.code != Code::LimitUnavailable;
            let has_errors =
                diagnostics.iter().filter(|said| is_about_paths(said)).cloned().collect::<Diagnostics>().has_errors();
            let compiled = compiled.filter(|_| !has_errors)?;
            let model = model(&compiled);
            Some(
                compiled.decisions.iter().map(|(path, _)| (path.clone(), shows(&model.view(path)))).collect::<Vec<_>>(),
            )
        };
        let (plain, all) = (views(false, true), views(true, true));
        assert_eq!(plain, all, "{name}");
        assert_eq!(views(false, false), plain, "{name}, by the guard");
        assert_eq!(views(true, false), plain, "{name}, all mounts, by the guard");
    }

    /// The policy, if it can be run.
    fn compiled(&self) -> Option<Compiled> {
        let (compiled, diagnostics) = self.tree.compile_as(&self.session, &self.request);
        compiled.filter(|_| !diagnostics.has_errors())
    }

    fn compile(&self) -> String {
        let (compiled, mut diagnostics) = self.tree.compile_as(&self.session, &self.request);
        let command = ["true".into()];
        let argv = compiled.as_ref().map(|compiled| {
            let argv = compiled.argv(&machine(), &command, &mut diagnostics);
            assert_eq!(argv.environment, compiled.environment);
            argv
        });
        let mut out = format!("{}\n", self.why);
        said(&diagnostics, &mut out);
        match (compiled, argv) {
            (Some(compiled), Some(argv)) if !diagnostics.has_errors() => {
                found(&compiled, &mut out);
                decided(&compiled, &mut out);
                environment(&compiled, &mut out);
                section("argv", &mut out);
                for operation in &argv.operations {
                    let words: Vec<String> = operation.words.iter().map(|word| quoted(word)).collect();
                    writeln!(out, "  {}  # {}", without_hash(&words.join(" ")), operation.why()).unwrap();
                }
                if let Some(cgroup) = &argv.cgroup {
                    writeln!(out, "  in front: {}", display_args(&cgroup.words)).unwrap();
                }
                for (limit, origin) in argv.guard.iter().flat_map(|guard| &guard.limits) {
                    writeln!(out, "  guard: --limit {limit}  # {origin}").unwrap();
                }
                for (limit, origin) in &argv.supervised {
                    writeln!(out, "  supervisor: {limit}  # {origin}").unwrap();
                }
                for step in argv.guard.iter().flat_map(|guard| &guard.plan.overflow) {
                    writeln!(out, "  {}", display_step(step)).unwrap();
                }
                for link in argv.guard.iter().flat_map(|guard| &guard.plan.links) {
                    writeln!(out, "  {}", display_link(link)).unwrap();
                }
                for MountFile { path, content } in &argv.files {
                    if let MountContent::Bytes(content) = content
                        && !content.is_empty()
                        && argv.guard.as_ref().is_none_or(|guard| guard.text.as_bytes() != content)
                    {
                        let path = without_hash(&path.to_string());
                        writeln!(out, "  {path} holds {:?}", OsStr::from_bytes(content)).unwrap();
                    }
                }
                for data in argv.data.iter().filter(|data| !data.content.is_empty()) {
                    writeln!(out, "  descriptor {} holds {:?}", data.descriptor, OsStr::from_bytes(&data.content))
                        .unwrap();
                }
            }
            _ => out.push_str("\nNothing runs.\n"),
        }
        out
    }
}

/// Replaces the hash in the name of a content, which tells a reader nothing.
fn without_hash(line: &str) -> String {
    const FOLDER: &str = "/agent-sandbox/mounts/";
    let Some(at) = line.find(FOLDER).map(|at| at + FOLDER.len()) else { return line.to_owned() };
    let (before, name) = line.split_at(at);
    match name.split_at_checked(64) {
        Some((hash, rest)) if hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            format!("{before}{}…{rest}", if is_empty(hash) { "EMPTY" } else { "SHA256" })
        }
        _ => line.to_owned(),
    }
}

fn is_empty(hash: &str) -> bool {
    hash.starts_with("e3b0c44298fc1c14")
}

fn section(title: &str, out: &mut String) {
    writeln!(out, "\n{title}:").unwrap();
}

fn said(diagnostics: &Diagnostics, out: &mut String) {
    if !diagnostics.is_empty() {
        section("diagnostics", out);
        out.push_str(&render(diagnostics, Format::Text { color: false }));
    }
}

/// Prints the project, and the results of rules that decide no path.
fn found(compiled: &Compiled, out: &mut String) {
    let project = &compiled.layers.project;
    section("project", out);
    writeln!(out, "  root {}", project.root).unwrap();
    if project.outermost != project.root {
        writeln!(out, "  outermost {}", project.outermost).unwrap();
    }
    if let Some(repository) = &project.repository {
        writeln!(out, "  git directory {}, shared part {}", repository.git_dir, repository.common_dir).unwrap();
    }
    for (rule, path) in &compiled.resolution.missing {
        // Presets name hundreds of files that a host may lack.
        if rule.layer != LayerKind::Preset {
            writeln!(
                out,
                "  nothing at {path} for {} {} [{}]",
                rule.access,
                escape_for_display(&rule.text),
                rule.origin
            )
            .unwrap();
        }
    }
    for (rule, path) in &compiled.resolution.left_alone {
        writeln!(out, "  {path} left alone by {} {} [{}]", rule.access, escape_for_display(&rule.text), rule.origin)
            .unwrap();
    }
    for item in placeholder::items(&compiled.plan.placeholders) {
        let kind = match item.content {
            None if item.is_parent => "a directory on the way".to_owned(),
            None => "a directory".to_owned(),
            Some(content) => format!("a file with {:?}", OsStr::from_bytes(content)),
        };
        writeln!(out, "  during the run {kind} stands at {}", item.path).unwrap();
    }
    for path in &compiled.resolution.create {
        writeln!(out, "  created before the start: {path}").unwrap();
    }
    for file in &compiled.resolution.new_files {
        writeln!(out, "  created before the start: {} with {:?}", file.path, file.content).unwrap();
    }
}

fn decided(compiled: &Compiled, out: &mut String) {
    section("decisions", out);
    for (path, decision) in compiled.decisions.iter() {
        let glob = if decision.exactness == Exactness::Glob { ", glob" } else { "" };
        let links: String = decision.links.iter().map(|link| format!(", via {link}")).collect();
        writeln!(out, "  {} {path}  [{}{glob}{links}]", decision.access, decision.origin).unwrap();
        for loser in &decision.losers {
            let rule = &loser.rule;
            writeln!(out, "    over {} {}  [{}]", rule.access, escape_for_display(&rule.text), rule.origin).unwrap();
        }
    }
    if !compiled.plan.redundant.is_empty() {
        section("not mounted", out);
    }
    for dropped in &compiled.plan.redundant {
        let (path, access) = (&dropped.path, dropped.access);
        writeln!(out, "  {access} {path}  [{}], is {} already", dropped.because, dropped.inherited).unwrap();
    }
}

/// Prints the environment, without variables that pass because no entry names them.
fn environment(compiled: &Compiled, out: &mut String) {
    let environment = &compiled.environment;
    let is_news = |outcome: &VariableOutcome| {
        let unasked = matches!(outcome.because, Origin::BuiltIn(_)) && !environment.only_named;
        !(outcome.fate == Fate::Passed && unasked)
    };
    let news: Vec<_> = environment.outcomes.iter().filter(|(_, outcome)| is_news(outcome)).collect();
    if !news.is_empty() {
        section("environment", out);
    }
    for (name, VariableOutcome { fate, because }) in news {
        let name = escape_for_display(name);
        match (fate, environment.variables.get(OsStr::new(&name))) {
            (Fate::Passed, Some(_)) => writeln!(out, "  pass {name}  [{because}]").unwrap(),
            (Fate::Dropped, None) => writeln!(out, "  unset {name}  [{because}]").unwrap(),
            (Fate::Set, Some(value)) => writeln!(out, "  set {name} to {}  [{because}]", quoted(value)).unwrap(),
            contradiction => panic!("{name}: {contradiction:?}"),
        }
    }
}

/// The argument on one line, so that different arguments look different.
fn quoted(word: &OsStr) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(byte);
    match word.as_bytes() {
        bytes if !bytes.is_empty() && bytes.iter().all(plain) => escape_for_display(word),
        _ => format!("{word:?}"),
    }
}

fn session_from(text: &str) -> Session {
    let mut session = Session { executable: Some(abs("/usr/bin/agent-sandbox")), ..session("/home/u/proj") };
    for (name, value) in text.lines().map(|line| line.split_once('=').expect("NAME=VALUE")) {
        match name {
            "CWD" => session.cwd = abs(value),
            "EXECUTABLE" => session.executable = Some(abs(value)),
            "UID" => session.uid = value.parse().unwrap(),
            _ => _ = session.env.insert(name.into(), value.into()),
        }
    }
    session
}

/// Parses flags as agent-sandbox does.
fn request_from(text: &str) -> Request {
    let words: Vec<OsString> = ["agent-sandbox"].into_iter().chain(text.lines()).map(OsString::from).collect();
    cli::request(&words).unwrap()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend(before.bytes());
        let (byte, length) = match after.as_bytes() {
            [b'n', ..] => (b'\n', 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', ..] => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            _ => panic!("unknown escape in {text:?}"),
        };
        out.push(byte);
        rest = &after[length..];
    }
    out.extend(rest.bytes());
    out
}
