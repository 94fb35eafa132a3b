//! The rooms of the source tree, and the order of their imports.

use std::fs;
use std::path::{Path, PathBuf};

use super::top;

/// Each room imports only rooms before it.
const ORDER: [&str; 12] = [
    "policy",
    "diagnostic",
    "sys",
    "host",
    "compile",
    "trust",
    "placeholders",
    "private",
    "guard",
    "launch",
    "audit",
    "cli",
];

/// The model works out the meaning of an argv without any code of the stages. So it imports the
/// vocabulary alone, and only the rooms that compare policies with argvs import it.
const MODEL: &str = "model";

fn may_import(room: &str, other: &str) -> bool {
    let place = |name: &str| ORDER.iter().position(|room| *room == name);
    match (room, other) {
        _ if room == other => true,
        (MODEL, other) => other == "policy",
        (room, MODEL) => ["audit", "cli"].contains(&room),
        (room, other) => place(other).is_some_and(|other| Some(other) < place(room)),
    }
}

#[test]
fn a_room_imports_only_rooms_before_it() {
    let source = top().join("src");
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in rust_files(&source) {
        let name = file.strip_prefix(&source).unwrap();
        let room = name.iter().next().unwrap().to_str().unwrap();
        if ["lib.rs", "main.rs"].contains(&room) {
            continue;
        }
        for other in imports(&fs::read_to_string(&file).unwrap()) {
            count += 1;
            if !may_import(room, &other) {
                wrong.push(format!("{}: `crate::{other}`", name.display()));
            }
        }
    }
    assert!(count > 500, "{count} imports were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_lies_beside_the_rooms() {
    let entries = fs::read_dir(top().join("src")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut entries: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    let mut rooms: Vec<&str> = ORDER.into_iter().chain([MODEL, "lib.rs", "main.rs"]).collect();
    entries.sort();
    rooms.sort_unstable();
    assert_eq!(entries, rooms);
}

/// The rooms after `crate::` in code. Comments may name any room.
fn imports(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let after = code.flat_map(|line| line.split("crate::").skip(1).map(str::to_owned).collect::<Vec<_>>());
    after.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned()).collect()
}

pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}
