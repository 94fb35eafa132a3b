//! Comments and documents are readable: narrow, and in plain English (CONTRIBUTING.md, "Prose").

use std::fs;
use std::path::{Path, PathBuf};

use super::{document, documents, files_in, folders_below, maps, top};

const COLUMNS: usize = 100;

/// Phrases that made readers read twice, each with a plain one.
const PHRASES: [(&str, &str); 15] = [
    ("who looks", "name the actor: the supervisor, the caller, the user"),
    ("// Who ", "a process that, a user who"),
    ("//! Who ", "a process that, a user who"),
    (". Who ", "a process that, a user who"),
    ("for who ", "for the caller, for a user who"),
    ("who types", "the caller"),
    ("who asks", "the caller"),
    ("company", "another live run"),
    (" dear ", "expensive"),
    ("somebody else", "another user, another process"),
    ("somebody who", "a process that"),
    ("in their stead", "instead of them"),
    ("in its stead", "instead of it"),
    ("without a word", "without a diagnostic"),
    ("what stands", "what is, what exists"),
];

/// A line of prose: where it is, and its text.
struct Line {
    place: String,
    text: String,
}

/// Files of the code base whose comments are checked, from the top.
fn sources() -> Vec<PathBuf> {
    let below = ["src", "tests", "examples", "benches", "fuzz/fuzz_targets", "scripts", ".ci", "packaging", "docs"];
    let folders = below.iter().flat_map(|folder| folders_below(&top().join(folder)));
    folders.flat_map(|folder| files_in(&folder)).filter(|file| comment_marks(file).is_some()).collect()
}

/// The text that begins a comment in a file of this kind.
fn comment_marks(file: &Path) -> Option<&'static str> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Some("//"),
        Some("py" | "sh" | "toml" | "apparmor") => Some("#"),
        // Scripts. The other files without an extension describe the hosts of the golden cases.
        None if !file.starts_with(top().join("tests")) => Some("#"),
        _ => None,
    }
}

/// All lines of comments, except indented commands, which may be longer.
fn comments() -> Vec<Line> {
    let mut lines = Vec::new();
    for file in sources() {
        let marks = comment_marks(&file).unwrap();
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let name = file.strip_prefix(top()).unwrap().display();
        for (index, line) in text.lines().enumerate() {
            let begins = line.trim_start().starts_with(marks) && !line.starts_with("#!");
            if begins && !line.trim_start().starts_with("#  ") {
                lines.push(Line { place: format!("{name}:{}", index + 1), text: line.to_owned() });
            }
        }
    }
    lines
}

/// All lines of the documents outside of blocks, tables and the targets of links.
fn prose() -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, text) in documents().into_iter().chain(maps()) {
        let mut in_block = false;
        for (index, line) in text.lines().enumerate() {
            let is_fence = line.trim_start().starts_with("```");
            in_block ^= is_fence;
            if !is_fence && !in_block {
                lines.push(Line { place: format!("{name}:{}", index + 1), text: without_targets(line) });
            }
        }
    }
    lines
}

fn without_targets(line: &str) -> String {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "]" + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// People read these documents first.
#[test]
fn the_first_documents_have_at_most_200_lines() {
    for name in ["README.md", "TECHNICAL_STEERING.md"] {
        let lines = document(name).lines().count();
        assert!(lines <= 200, "{name} has {lines} lines: move details to docs/");
    }
}

#[test]
fn comments_and_documents_fit_into_100_columns() {
    let is_table = |line: &Line| line.text.starts_with('|');
    let lines = comments().into_iter().chain(prose().into_iter().filter(|line| !is_table(line)));
    let long = lines.filter(|line| line.text.chars().count() > COLUMNS);
    let long: Vec<String> = long.map(|line| format!("{}: {}", line.place, line.text)).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// A doc comment says what its item is. One that begins with a comparison cannot stand alone.
#[test]
fn no_doc_comment_begins_with_the_same() {
    let mut wrong = Vec::new();
    let mut before = String::new();
    for line in comments() {
        let text = line.text.trim_start();
        let is_doc = |text: &str| text.starts_with("///") || text.starts_with("//!");
        let (file, number) = line.place.rsplit_once(':').unwrap();
        let follows = before == format!("{file}:{}", number.parse::<usize>().unwrap() - 1);
        if is_doc(text) && !follows && text[3..].trim_start().starts_with("The same") {
            wrong.push(format!("{}: {text}", line.place));
        }
        before = if is_doc(text) { line.place.clone() } else { String::new() };
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_and_documents_are_plain() {
    let mut wrong = Vec::new();
    for line in comments().into_iter().chain(prose()) {
        let is_list = line.place.starts_with("tests/docs/prose.rs") || line.place.starts_with("CONTRIBUTING.md");
        let (text, lower) = (format!("{} ", line.text), format!("{} ", line.text.to_lowercase()));
        let is_in = |phrase: &str| text.contains(phrase) || lower.contains(phrase);
        for (phrase, plain) in PHRASES.iter().filter(|(phrase, _)| !is_list && is_in(phrase)) {
            wrong.push(format!("{}: `{phrase}` ({plain}): {}", line.place, line.text.trim()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn targets_of_links_do_not_count() {
    assert_eq!(without_targets("a [b](c.md#d) e [f](g), h"), "a [b] e [f], h");
    assert_eq!(without_targets("plain"), "plain");
}
