//! Each rule of SPEC.md has a test. A test names its rules in a comment directly above it,
//! `// SPEC P11, R5`; a golden case does so in its `tree`, `# SPEC P11, R5`. docs/spec-tests.md
//! lists the tests of each rule, and is rendered from these comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{document, top};

const LIST: &str = "docs/spec-tests.md";
const CASES: &str = "tests/golden/cases";
const WIDTH: usize = 100;

const HEAD: &str = "\
# The tests of each rule

The rules are in [SPEC.md](../SPEC.md). A comment directly above a test, `// SPEC P11, R5`, names
the rules that the test holds; in the `tree` of a golden case it is `# SPEC P11, R5`. This list is
generated from these comments: `INSTA_UPDATE=always cargo test --test docs` writes it.
";

/// A test and the rules that its comment names.
struct Holder {
    /// Relative to the top of the tree.
    file: String,
    test: String,
    rules: Vec<String>,
}

#[test]
fn every_rule_of_the_specification_has_a_test() {
    let spec = document("SPEC.md");
    let rules: Vec<&str> = sections(&spec).into_iter().flat_map(|(_, rules)| rules).collect();
    assert!(rules.len() > 40, "{rules:?}");
    let holders = holders();
    for (at, rule) in rules.iter().enumerate() {
        assert!(!rules[..at].contains(rule), "SPEC.md has two rules called `{rule}`");
        let is_held = holders.iter().any(|holder| holder.rules.iter().any(|held| held == rule));
        assert!(is_held, "no test says `// SPEC {rule}`");
    }
    for Holder { file, test, rules: held } in &holders {
        let unknown: Vec<&String> = held.iter().filter(|held| !rules.contains(&held.as_str())).collect();
        assert!(unknown.is_empty(), "{file}: `{test}` names rules that SPEC.md does not have: {unknown:?}");
    }
}

/// Each section has a letter, and numbers its rules from 1.
#[test]
fn rules_are_numbered_in_order_without_gaps() {
    let spec = document("SPEC.md");
    let mut letters = BTreeSet::new();
    for (heading, rules) in sections(&spec) {
        let Some(letter) = rules.first().map(|rule| &rule[..1]) else { continue };
        let expected: Vec<String> = (1..=rules.len()).map(|number| format!("{letter}{number}")).collect();
        assert_eq!(rules, expected, "{heading}");
        assert!(letters.insert(letter.to_owned()), "two sections have the letter {letter}");
    }
}

#[test]
fn the_list_of_tests_is_rendered_from_their_comments() {
    let rendered = render(&document("SPEC.md"), &holders());
    let path = top().join(LIST);
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        fs::write(&path, &rendered).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == rendered, "{LIST} is stale: run `INSTA_UPDATE=always cargo test --test docs`");
}

/// The headings of SPEC.md, each with the rules below it: `- **L1** …`.
fn sections(spec: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in spec.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            sections.push((heading, Vec::new()));
        } else if let Some((name, _)) = line.strip_prefix("- **").and_then(|rest| rest.split_once("**"))
            && is_rule(name)
        {
            sections.last_mut().expect("a rule is below a heading").1.push(name);
        }
    }
    sections
}

/// A capital letter and a number.
fn is_rule(name: &str) -> bool {
    let digits = name.strip_prefix(|c: char| c.is_ascii_uppercase());
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The rules of a line `// SPEC P11, R5`, where `//` is `comment`.
fn marked(line: &str, comment: &str) -> Option<Vec<String>> {
    let rules: Vec<String> =
        line.trim().strip_prefix(comment)?.strip_prefix(" SPEC ")?.split(", ").map(str::to_owned).collect();
    rules.iter().all(|rule| is_rule(rule)).then_some(rules)
}

/// Every test with such a comment, by file and in the order of the file.
fn holders() -> Vec<Holder> {
    let mut files: Vec<PathBuf> = ["src", "tests"].iter().flat_map(|folder| below(&top().join(folder))).collect();
    files.sort();
    let mut holders = Vec::new();
    for path in files {
        let file = path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let marked = in_source(&text).unwrap_or_else(|line| panic!("{file}:{line}: no test follows this comment"));
            holders.extend(marked.into_iter().map(|(test, rules)| Holder { file: file.clone(), test, rules }));
        } else if let Some(case) = file.strip_prefix(CASES).and_then(|rest| rest.strip_suffix("/tree")) {
            let text = fs::read_to_string(&path).unwrap();
            let rules: Vec<String> = text.lines().filter_map(|line| marked(line, "#")).flatten().collect();
            let test = case.trim_start_matches('/').to_owned();
            holders.push(Holder { file: CASES.to_owned(), test, rules });
        }
    }
    holders
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

/// The tests of a source file that have such a comment. `Err` is the line of a comment that no test
/// follows.
fn in_source(text: &str) -> Result<Vec<(String, Vec<String>)>, usize> {
    let listed = listed(text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(rules) = marked(line, "//") {
            found.push((test_at(&lines[at + 1..], &listed).ok_or(at + 1)?.to_owned(), rules));
        }
    }
    Ok(found)
}

/// The test at the top of these lines: a function with `#[test]` or in the list of a macro, an
/// entry of a macro (`CODE the_name …`, `the_name = …`, `the_name,`), or one of a table
/// (`("the-name", …)`).
fn test_at<'t>(lines: &[&'t str], listed: &BTreeSet<&str>) -> Option<&'t str> {
    let is_around = |line: &&&str| line.starts_with("//") || line.starts_with("#[");
    let around = lines.iter().take_while(is_around).count();
    let line = lines.get(around)?;
    if let Some(text) = line.strip_prefix("(\"").or_else(|| line.strip_prefix('"')) {
        return text.split('"').next();
    }
    let is_test = |word: &&str| listed.contains(word) || lines[..around].contains(&"#[test]");
    match line.strip_prefix("fn ") {
        Some(rest) => words(rest).next().filter(is_test),
        // Only the code of a diagnostic may come before the name.
        None => words(line).take(2).find(|word| word.contains('_')).filter(is_test),
    }
}

/// The words in calls of macros that begin at the left margin. Such a macro makes tests of the
/// functions that it lists.
fn listed(text: &str) -> BTreeSet<&str> {
    let mut listed = BTreeSet::new();
    let mut is_inside = false;
    for line in text.lines() {
        let called = line
            .split_once('!')
            .is_some_and(|(name, rest)| words(name).next() == Some(name) && rest.trim_start().starts_with(['(', '{']));
        if called || is_inside {
            listed.extend(words(line));
            let closes = line.starts_with([')', '}']) || (called && (line.ends_with(");") || line.ends_with('}')));
            is_inside = !closes;
        }
    }
    listed
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Each rule in the order of SPEC.md, below its heading, with its tests by file.
fn render(spec: &str, holders: &[Holder]) -> String {
    let mut list = HEAD.to_owned();
    for (heading, rules) in sections(spec).into_iter().filter(|(_, rules)| !rules.is_empty()) {
        list.push_str(&format!("\n## {heading}\n\n"));
        for rule in rules {
            list.push_str(&format!("- **{rule}**\n"));
            let mut by_file: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for holder in holders.iter().filter(|holder| holder.rules.iter().any(|held| held == rule)) {
                by_file.entry(&holder.file).or_default().insert(&holder.test);
            }
            for (file, tests) in by_file {
                let words = tests.into_iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", ");
                list.push_str(&wrapped(&format!("  - `{file}`: {words}"), "    "));
            }
        }
    }
    list
}

/// `text` in lines of at most [`WIDTH`], broken at spaces; `indent` begins each line but the first.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    // The first word keeps the spaces before it.
    let start = text.len() - text.trim_start().len() + "- ".len();
    let words = text[start..].split(' ');
    lines[0].push_str(&text[..start]);
    for (at, word) in words.enumerate() {
        let line = lines.last_mut().unwrap();
        if at > 0 && line.len() + 1 + word.len() > WIDTH {
            lines.push(format!("{indent}{word}"));
        } else {
            line.push_str(if at > 0 { " " } else { "" });
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn comments_are_read_as_the_rules_of_the_test_below() {
    // The comments of this text must not count for this file.
    let source = "\
MARK P11, R5
/// Why.
#[test]
fn a_function() {}
macro!(
    MARK L1
    an_entry,
    MARK L2
    SomeCode another_entry rendered(x);
    MARK L3
    (\"a-case\", &[]),
);
MARK L4, of which more is said.
everywhere!(listed_by_a_macro);
MARK L5
fn listed_by_a_macro() {}
"
    .replace("MARK", "// SPEC");
    let found = in_source(&source).unwrap();
    let found: Vec<(&str, String)> = found.iter().map(|(test, rules)| (test.as_str(), rules.join(" "))).collect();
    let expected = [
        ("a_function", "P11 R5"),
        ("an_entry", "L1"),
        ("another_entry", "L2"),
        ("a-case", "L3"),
        ("listed_by_a_macro", "L5"),
    ];
    assert_eq!(found, expected.map(|(test, rules)| (test, rules.to_owned())));
    assert_eq!(in_source("\n// SPEC L1\nfn no_test() {}\n").unwrap_err(), 2);
    assert_eq!(in_source("// SPEC L1\n").unwrap_err(), 1);
}

#[test]
fn long_lines_of_the_list_are_wrapped() {
    let holder = |test: &str| Holder { file: "f.rs".into(), test: test.repeat(40), rules: vec!["L1".into()] };
    let list = render("## 1. One\n- **L1** Rule.\n", &[holder("a"), holder("b"), holder("c")]);
    let [a, b, c] = ["a", "b", "c"].map(|test| test.repeat(40));
    let rest = format!("\n## 1. One\n\n- **L1**\n  - `f.rs`: `{a}`, `{b}`,\n    `{c}`\n");
    assert_eq!(list.strip_prefix(HEAD), Some(rest.as_str()));
}
