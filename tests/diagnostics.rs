//! Every diagnostic, as people see it: the whole text, produced by the real pipeline, kept in
//! `snapshots/diagnostics`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

/// `CODE sentence produce;` defines a test with that name, which produces that code and no other.
macro_rules! cases {
    ($($code:ident $name:ident $produce:expr;)+) => {
        pub const CASES: &[(Code, &str)] = &[$((Code::$code, stringify!($name))),+];
        $(#[test] fn $name() { crate::assert_says(Code::$code, stringify!($name), &$produce); })+
    };
}

#[path = "diagnostics/aftermath.rs"]
mod aftermath;
#[path = "diagnostics/comparing.rs"]
mod comparing;
#[path = "diagnostics/files.rs"]
mod files;
#[path = "diagnostics/injections.rs"]
mod injections;
#[path = "diagnostics/inputs.rs"]
mod inputs;
#[path = "diagnostics/limits.rs"]
mod limits;
#[path = "diagnostics/lint.rs"]
mod lint;
#[path = "diagnostics/paths.rs"]
mod paths;
#[path = "diagnostics/private.rs"]
mod private;
#[path = "diagnostics/starting.rs"]
mod starting;
#[path = "diagnostics/trust.rs"]
mod trust;

use agent_sandbox::compile::Compiled;
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Code, Diagnostic, Diagnostics, Format, render};
use support::Tree;

#[test]
fn every_code_has_a_case() {
    let cases = cases();
    let without: Vec<_> =
        Code::ALL.iter().filter(|code| !cases.iter().any(|(of, _)| of == *code)).map(|code| code.name()).collect();
    assert!(without.is_empty(), "add a case to tests/diagnostics/ for each of {without:?}");
}

#[test]
fn every_snapshot_has_a_case() {
    let cases = cases();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots/diagnostics");
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let is_of = |(code, sentence): &(Code, &str)| file.starts_with(&format!("{}.snap", snapshot(*code, sentence)));
        assert!(cases.iter().any(is_of), "{file} is left over: remove it");
    }
}

fn cases() -> Vec<(Code, &'static str)> {
    [
        aftermath::CASES,
        comparing::CASES,
        files::CASES,
        injections::CASES,
        inputs::CASES,
        limits::CASES,
        lint::CASES,
        paths::CASES,
        private::CASES,
        starting::CASES,
        trust::CASES,
    ]
    .concat()
}

fn snapshot(code: Code, sentence: &str) -> String {
    format!("{}__{sentence}", code.name())
}

#[test]
fn the_names_of_the_codes_are_unique_and_searchable() {
    for (index, code) in Code::ALL.iter().enumerate() {
        assert!(code.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{}", code.name());
        assert!(Code::ALL[..index].iter().all(|earlier| earlier.name() != code.name()), "{} twice", code.name());
    }
}

/// Asserts that the text has this code alone, keeps to the style of `src/diagnostic/mod.rs`, and
/// equals its snapshot.
fn assert_says(code: Code, sentence: &str, text: &str) {
    let start = format!("{}[{}]: ", code.severity(), code.name());
    let titles: Vec<&str> =
        text.lines().filter(|l| ["error[", "warning[", "note["].iter().any(|level| l.starts_with(level))).collect();
    assert!(matches!(titles.as_slice(), [title] if title.starts_with(&start)), "only {start:?} in:\n{text}");
    assert_style(titles[0].strip_prefix(&start).unwrap());
    let help = text.lines().filter_map(|line| line.trim_start().strip_prefix("= help: ")).collect::<Vec<_>>();
    // The TOML parser describes mistakes of syntax, and knows no remedy.
    assert_eq!(help.len(), usize::from(code != Code::InvalidToml), "one remedy, as help, in:\n{text}");
    support::snapshots("diagnostics").bind(|| insta::assert_snapshot!(snapshot(code, sentence), text));
}

fn assert_style(message: &str) {
    let first = message.chars().next().unwrap();
    assert!(first == '`' || first.is_lowercase(), "lower case: {message}");
    assert!(!message.ends_with(['.', '!', ' ', ':']), "a full stop or a missing end: {message}");
}

fn rendered(diagnostics: &Diagnostics) -> String {
    render(diagnostics, Format::Text { color: false })
}

fn one(diagnostic: Diagnostic) -> String {
    let mut diagnostics = Diagnostics::default();
    diagnostics.push(diagnostic);
    rendered(&diagnostics)
}

/// The diagnostics for a project whose file has this text.
fn project(text: &str) -> String {
    project_with([], text)
}

/// The diagnostics for a project with this file, and with more files on the host: see
/// [`Tree::new`].
fn project_with<const N: usize>(entries: [&str; N], text: &str) -> String {
    let tree = tree(entries);
    tree.add(&format!("home/u/proj/.agent-sandbox.toml = {text}"));
    compiled(&tree, &Request::default())
}

fn tree<const N: usize>(entries: [&str; N]) -> Tree {
    let tree = Tree::new(entries);
    tree.add("home/u/proj/");
    tree
}

fn compiled(tree: &Tree, request: &Request) -> String {
    rendered(&tree.compile("/home/u/proj", request).1)
}

/// A project without a file, compiled without a diagnostic.
fn plain(tree: &Tree) -> Compiled {
    let (compiled, diagnostics) = tree.compile("/home/u/proj", &Request::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    compiled.unwrap()
}
