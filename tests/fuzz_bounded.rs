//! The fuzz targets of `fuzz/` with a bounded number of inputs, and inputs that once failed.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/fuzzing.rs"]
mod fuzzing;

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;

use agent_sandbox::compile::request::Request;
use fuzzing::{Outcome, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A valid project file, user file and flags, which the tests damage.
const DOCUMENTS: [&str; 3] = [
    "network = false\n[filesystem]\npresets = [\"!@all\", \"@mine\"]\ntmp = \"host\"\nrw = [\".\", \"src/**/{a,b*}\"]\nro = [{ path = \"~/.ssh\", if-missing = \"error\" }]\n[presets.mine]\nexclude = [\"[a-c]?\", '\\[x\\]']\ninclude = [\"@git\"]\n\0docker = false\nfilesystem.exclude = [\"**/.env\"]\n\0\x02src/*\0\x01/tmp",
    "[filesystem]\nexclude = [\"src/a\"]\nrw = [\"src/a/b\", \"/tmp/t\"]\n\0[presets.x]\nro = [\"s*\"]\n\0\x03@x\0\x04",
    "filesystem.presets = [\"!@secrets\", \"@lint/all\"]\nfilesystem.ro = [\"home/.ssh\", \"src/side/**\"]\n\0\0\x05gone\0\x03!git",
];

/// Characters and words with a meaning in TOML, in a pattern, or in a policy.
const PIECES: [&str; 32] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "\\",
    "*",
    "**",
    "?",
    ",",
    "=",
    "\n",
    "\0",
    "#",
    "/",
    "..",
    "~",
    "~/",
    "!@",
    "@all",
    "\"\"\"",
    "\\u0000",
    "{ path = ",
    "if-missing = \"create\"",
    "rw = [",
    "[presets.x]",
    "/proc",
    "/run/x",
    "loop",
    "\u{e9}",
    "\u{202e}",
];

#[derive(Clone, Debug)]
enum Damage {
    Insert(Index, &'static str),
    Delete(Index, usize),
    Copy(Index, Index, usize),
    Byte(Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), select(PIECES.to_vec())).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        2 => (any::<Index>(), 1..9_usize).prop_map(|(at, length)| Damage::Delete(at, length)),
        2 => (any::<Index>(), any::<Index>(), 1..30_usize).prop_map(|(from, to, length)| Damage::Copy(from, to, length)),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
    ]
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (select(DOCUMENTS.to_vec()), vec(damage(), 0..5)).prop_map(|(document, damages)| {
        let mut bytes = document.as_bytes().to_vec();
        for damage in damages {
            let end = bytes.len() + 1;
            match damage {
                Damage::Insert(at, piece) => {
                    let at = at.index(end);
                    bytes.splice(at..at, piece.bytes());
                }
                Damage::Delete(at, length) => {
                    let at = at.index(end);
                    bytes.drain(at..(at + length).min(bytes.len()));
                }
                Damage::Copy(from, to, length) => {
                    let from = from.index(end);
                    let copy = bytes[from..(from + length).min(bytes.len())].to_vec();
                    let to = to.index(end);
                    bytes.splice(to..to, copy);
                }
                Damage::Byte(at, byte) => {
                    if let Some(there) = bytes.get_mut(at.index(end)) {
                        *there = byte;
                    }
                }
            }
        }
        bytes
    })
}

#[test]
fn every_undamaged_document_compiles_to_an_argv() {
    for document in DOCUMENTS {
        assert_eq!(Target::new().run(document.as_bytes()), Outcome::Understood, "{document}");
    }
}

/// Runs a fixed set of inputs, and returns the number of those that compile to an argv.
fn run(inputs: &impl Strategy<Value = Vec<u8>>, cases: u32) -> u32 {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let target = Target::new();
    let understood = Cell::new(0);
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(inputs, |input| {
        understood.set(understood.get() + u32::from(target.run(&input) == Outcome::Understood));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    understood.get()
}

#[test]
fn a_damaged_policy_is_refused_or_understood() {
    let understood = run(&damaged(), 1200);
    assert!((200..1000).contains(&understood), "{understood} of 1200 inputs were understood");
}

#[test]
fn any_bytes_are_refused_or_understood() {
    run(&vec(any::<u8>(), 0..200), 400);
    run(&vec(select(b"[]{}=\"'\\*?/,.~!@\n\0\x01ab".to_vec()), 0..60), 400);
}

fn project(text: &str) -> Outcome {
    Target::new().compile(text.as_bytes(), b"", &Request::default())
}

fn excluding(patterns: impl IntoIterator<Item = String>) -> Outcome {
    let exclude = patterns.into_iter().map(Into::into).collect();
    Target::new().compile(b"", b"", &Request { exclude, ..Request::default() })
}

fn ten_thousand(entry: impl Fn(usize) -> String) -> String {
    format!("filesystem.exclude = [{}]", (0..10_000).map(|n| format!("'{}',", entry(n))).collect::<String>())
}

#[test]
fn ten_thousand_rules_are_understood() {
    assert_eq!(project(&ten_thousand(|n| format!("missing/{n}"))), Outcome::Understood);
    assert_eq!(project(&ten_thousand(|n| format!("**/*.{n}"))), Outcome::Understood);
}

#[test]
fn two_thousand_mistakes_are_all_reported() {
    let mistakes: String = (0..2_000).map(|n| format!("'[{n}',\n")).collect();
    assert_eq!(project(&format!("filesystem.exclude = [{mistakes}]")), Outcome::Refused);
}

#[test]
fn braces_within_braces_end_at_some_depth() {
    for depth in [10, 1000, 100_000] {
        let nested = format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        excluding([nested, format!("{}a", "{".repeat(depth)), "}".repeat(depth), "{a,".repeat(depth)]);
    }
    let nested = format!("{}a{}", "{b,".repeat(100_000), "}".repeat(100_000));
    assert_eq!(excluding([nested]), Outcome::Refused);
}

#[test]
fn a_pattern_of_a_megabyte_is_refused_or_matches_nothing() {
    for piece in ["a", "*", "?", "[a-z]", "a*", "a?", "**/", "*/", "../", "./", "\\a", "{a,b}", "\u{e9}*"] {
        let long = piece.repeat(1_000_000 / piece.len());
        excluding([long]);
    }
    // The pattern is as long as a file may be.
    project(&format!("filesystem.ro = ['{}']", "*/".repeat(500_000)));
}

#[test]
fn nesting_in_toml_ends_at_some_depth() {
    for (open, close) in [("[", "]"), ("{ a = ", "}"), ("[{ a = ", "}]")] {
        for depth in [100, 10_000, 100_000] {
            let value = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(project(&format!("filesystem.ro = {value}")), Outcome::Refused);
            assert_eq!(project(&format!("filesystem.ro = {}", open.repeat(depth))), Outcome::Refused);
        }
    }
    assert_eq!(project(&format!("{}x = 1", "a.".repeat(100_000))), Outcome::Refused);
    assert_eq!(project(&format!("[{}x]", "a.".repeat(100_000))), Outcome::Refused);
}

#[test]
fn a_long_chain_of_presets_is_understood_and_a_circle_is_refused() {
    let row: String = (0..2_000).map(|n| format!("[presets.p{n}]\ninclude = ['@p{}']\n", n + 1)).collect();
    let ended = format!("{row}[presets.p2000]\n[filesystem]\npresets = ['@p0']\n");
    assert_eq!(project(&ended), Outcome::Understood);
    let circle = format!("{row}[presets.p2000]\ninclude = ['@p0']\n[filesystem]\npresets = ['@p0']\n");
    assert_eq!(project(&circle), Outcome::Refused);
}

#[test]
fn many_wildcards_over_a_deep_tree_take_no_exponential_time() {
    let target = Target::new();
    let deep = target.project().join("a/".repeat(150));
    fs::create_dir_all(deep).unwrap();
    let exclude = ["**/a/".repeat(60) + "b", "*/**/".repeat(60) + "b", "**/*a*a*a*/".repeat(20), "*a".repeat(60)];
    let request = Request { exclude: exclude.map(Into::into).to_vec(), ..Request::default() };
    assert_eq!(target.compile(b"", b"", &request), Outcome::Understood);
}

#[test]
fn circles_of_symlinks_are_left_again() {
    let target = Target::new();
    for (link, to) in [("x", "y"), ("y", "z"), ("z", "x"), ("src/self", "."), ("src/a/top", "../..")] {
        symlink(to, target.project().join(link)).unwrap();
    }
    for path in ["x", "x/a", "src/self/self/self/a", "src/a/top/src/a/top/src/side", "x*"] {
        let request = Request { exclude: vec![path.into()], ..Request::default() };
        target.compile(b"", b"", &request);
    }
    let request = Request { rw: vec!["**/x*".into(), "**/top/**".into()], ..Request::default() };
    assert_eq!(target.compile(b"", b"", &request), Outcome::Understood);
    let request = Request { exclude: vec!["x".into()], ..Request::default() };
    assert_eq!(target.compile(b"", b"", &request), Outcome::Refused);
}
