//! The documents are true: examples compile, quoted help is current, links lead somewhere, named tests exist.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

#[path = "docs/advice.rs"]
mod advice;
#[path = "docs/answers.rs"]
mod answers;
#[path = "docs/examples.rs"]
mod examples;
#[path = "docs/markdown.rs"]
mod markdown;
#[path = "docs/references.rs"]
mod references;
#[path = "docs/rooms.rs"]
mod rooms;
#[path = "docs/steering.rs"]
mod steering;

use std::fs;
use std::path::{Path, PathBuf};

const REQUIRED: [&str; 2] = ["README.md", "SPEC.md"];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All documents at the top, by name, with their text.
fn documents() -> Vec<(String, String)> {
    let mut documents: Vec<(String, String)> = files_in(top())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    documents.sort();
    for required in REQUIRED {
        assert!(documents.iter().any(|(name, _)| name == required), "there is no {required}");
    }
    documents
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
