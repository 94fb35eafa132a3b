//! Files, headings and tests that the documents name.

use std::fs;
use std::path::Path;

use super::markdown::{anchors, code_spans, links};
use super::{document, documents, top};

#[test]
fn every_link_leads_somewhere() {
    for (name, text) in documents() {
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&name).parent().unwrap();
            let path = if path.is_empty() { name.clone() } else { folder.join(path).to_str().unwrap().to_owned() };
            assert!(!path.starts_with('/') && top().join(&path).exists(), "{name}: `{link}` leads nowhere");
            if !anchor.is_empty() {
                let known = anchors(&document(&path));
                assert!(known.iter().any(|known| known == anchor), "{name}: `{link}`: {path} has {known:?}");
            }
        }
    }
}

/// Drafts of decisions get their number, and their place in the book, when they are accepted.
#[test]
fn every_page_is_in_the_summary_of_the_book() {
    let summary = links(&document("docs/SUMMARY.md"));
    for (name, _) in documents() {
        let Some(page) = name.strip_prefix("docs/") else { continue };
        let is_listed =
            page == "SUMMARY.md" || page.starts_with("adr/draft-") || summary.iter().any(|link| link == page);
        assert!(is_listed, "docs/SUMMARY.md does not list {page}");
    }
}

#[test]
fn every_decision_has_the_number_of_its_file() {
    let index = document("docs/adr/README.md");
    let mut count = 0;
    for (name, text) in documents() {
        let Some(number) =
            name.strip_prefix("docs/adr/").and_then(|name| name.split_once('-')?.0.parse::<usize>().ok())
        else {
            continue;
        };
        let title = text.lines().next().unwrap();
        assert!(title.starts_with(&format!("# {number}. ")), "{name}: {title}");
        for part in ["## Context", "## Decision", "## Consequences"] {
            assert!(text.contains(&format!("\n{part}\n")), "{name} has no `{part}`");
        }
        assert!(index.contains(name.strip_prefix("docs/adr/").unwrap()), "docs/adr/README.md does not list {name}");
        count += 1;
    }
    assert!(count > 25, "{count}");
}

/// The rules of SPEC.md: `- **L1** …`.
fn rules(spec: &str) -> Vec<&str> {
    let names = spec.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**")).map(|(name, _)| name);
    let is_rule = |name: &&str| name.len() > 1 && name[1..].bytes().all(|b| b.is_ascii_digit());
    names.filter(is_rule).collect()
}

/// The rows of "Where each rule is held": the rule, and what is said to hold it, as (path, name of
/// a test).
fn holders(spec: &str) -> Vec<(&str, Vec<(&str, &str)>)> {
    let (_, table) = spec.split_once("Where each rule is held").expect("SPEC.md says `Where each rule is held`");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let spans = code_spans(row);
        let tests = spans[1..].iter().filter_map(|span| span.split_once(": ")).collect();
        (spans[0], tests)
    })
    .collect()
}

#[test]
fn every_rule_of_the_specification_is_held_by_a_test() {
    let spec = document("SPEC.md");
    let rules = rules(&spec);
    assert!(rules.len() > 40, "{rules:?}");
    let holders = holders(&spec);
    for (at, rule) in rules.iter().enumerate() {
        assert!(!rules[..at].contains(rule), "SPEC.md has two rules called `{rule}`");
        let held = holders.iter().any(|(name, tests)| name == rule && !tests.is_empty());
        assert!(held, "`{rule}` has no row with a test in SPEC.md");
    }
    for (name, _) in &holders {
        assert!(rules.contains(name), "SPEC.md has a row for `{name}`, and no such rule");
    }
}

#[test]
fn every_test_that_the_specification_names_exists() {
    for (rule, tests) in holders(&document("SPEC.md")) {
        for (path, name) in tests {
            let found = top().join(path);
            assert!(found.exists(), "`{rule}`: there is no {path}");
            assert!(holds(&found, name), "`{rule}`: {path} has no `{name}`");
        }
    }
}

/// Whether `name` is a whole word in the file, in a file below the folder, or the name of one.
fn holds(path: &Path, name: &str) -> bool {
    if path.is_dir() {
        let mut entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries.any(|entry| entry.file_stem().is_some_and(|stem| stem == name) || holds(&entry, name));
    }
    let Ok(text) = fs::read_to_string(path) else { return false };
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}
