//! TECHNICAL_STEERING.md describes the code base correctly.

use std::fs;
use std::path::{Path, PathBuf};

use super::{document, top};

/// The table of TECHNICAL_STEERING.md has a row with a reason for each dependency.
#[test]
fn every_dependency_has_a_reason() {
    let manifest: toml::Table = document("Cargo.toml").parse().unwrap();
    let steering = document("TECHNICAL_STEERING.md");
    let (_, table) = steering.split_once("\n## Dependencies\n").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    for kind in ["dependencies", "dev-dependencies"] {
        for name in manifest[kind].as_table().unwrap().keys() {
            let first = |row: &&&str| row.split(" | ").next().is_some_and(|cell| cell.contains(&format!("`{name}`")));
            assert!(rows.iter().find(first).is_some(), "{kind}: `{name}` has no row");
        }
    }
}

#[test]
fn unsafe_code_is_in_sys_alone() {
    assert!(document("TECHNICAL_STEERING.md").contains("\nUnsafe code is in `sys/` alone"));
    let source = top().join("src");
    let files = below(&source).into_iter();
    let allowing = files.filter(|file| fs::read_to_string(file).unwrap().contains("allow(unsafe_code)"));
    let (inside, outside): (Vec<_>, Vec<_>) = allowing.partition(|file| file.starts_with(source.join("sys")));
    assert!(inside.len() > 4, "{inside:?}");
    assert!(outside.is_empty(), "{outside:?}");
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}
