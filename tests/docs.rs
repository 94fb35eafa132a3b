//! The documents are true: examples compile, quoted help is current, links lead somewhere, named
//! tests exist.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "docs/answers.rs"]
mod answers;
#[path = "docs/console.rs"]
mod console;
#[path = "docs/examples.rs"]
mod examples;
#[path = "docs/markdown.rs"]
mod markdown;
#[path = "docs/pictures.rs"]
mod pictures;
#[path = "docs/policy_page.rs"]
mod policy_page;
#[path = "docs/prose.rs"]
mod prose;
#[path = "docs/references.rs"]
mod references;
#[path = "docs/rooms.rs"]
mod rooms;
#[path = "docs/spec_tests.rs"]
mod spec_tests;
#[path = "docs/steering.rs"]
mod steering;

use std::fs;
use std::path::{Path, PathBuf};

const REQUIRED: [&str; 4] = ["README.md", "SPEC.md", "docs/policy.md", "docs/commands/explain.md"];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All documents, by their path from the top, with their text: those at the top, and all of
/// `docs/`.
fn documents() -> Vec<(String, String)> {
    let folders = [top().to_owned()].into_iter().chain(folders_below(&top().join("docs")));
    let mut documents: Vec<(String, String)> = folders
        .flat_map(|folder| files_in(&folder))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            (path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    documents.sort();
    for required in REQUIRED {
        assert!(documents.iter().any(|(name, _)| name == required), "there is no {required}");
    }
    documents
}

/// Documents beside the tests and snapshots, which explain them.
fn maps() -> [(String, String); 3] {
    let maps = ["tests/README.md", "tests/golden/README.md", "snapshots/matrix/README.md"];
    maps.map(|name| (name.to_owned(), document(name)))
}

/// A folder, and all folders below it.
fn folders_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let below =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).flat_map(|path| folders_below(&path));
    [folder.to_owned()].into_iter().chain(below).collect()
}

fn document(name: &str) -> String {
    fs::read_to_string(top().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The files in a folder, not below it, sorted.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}
