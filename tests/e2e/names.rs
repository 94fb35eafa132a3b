//! Rules apply to names that shells, patterns, or programs that expect UTF-8, may misread.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::sandbox::{Found, policy, probe};
use crate::support::Place;

everywhere!(odd_names_hold_on_the_command_line, odd_names_hold_in_a_file);

const NAMES: [&[u8]; 18] = [
    b"two words",
    b" ",
    b"line\nbreak",
    b"\n",
    b"tab\t",
    b"[id]",
    b"[",
    b"*",
    b"?",
    b"{a,b}",
    b"back\\slash",
    b"-dash",
    b"--",
    b"~",
    b"$HOME",
    b"'single\"double`",
    "\u{fc}ber \u{202e}".as_bytes(),
    b"not \xff\xfe utf-8",
];

const KINDS: [&str; 2] = ["file", "directory"];

fn odd_names_hold_on_the_command_line(place: &Place) {
    policy(place, "");
    for kind in KINDS {
        hold(place, kind, &NAMES, |rules| {
            let flags =
                rules.iter().map(|(access, path)| OsString::from_vec([b"--", access.as_bytes(), b"=", path].concat()));
            flags.collect()
        });
    }
}

fn odd_names_hold_in_a_file(place: &Place) {
    let text: Vec<&[u8]> = NAMES.into_iter().filter(|name| std::str::from_utf8(name).is_ok()).collect();
    for kind in KINDS {
        hold(place, kind, &text, |rules| {
            let list = |access: &str| {
                let paths = rules.iter().filter(|(a, _)| *a == access);
                let texts = paths.map(|(_, path)| quoted(path));
                format!("{access} = [{}]\n", texts.collect::<Vec<_>>().join(", "))
            };
            policy(place, &["rw", "ro", "exclude"].map(list).concat());
            Vec::new()
        });
    }
}

/// Tests three paths with each name: one that is `rw` below a read-only folder, and one that is
/// `ro` and one that is `exclude` in the writable project. Each has a neighbour that no rule
/// names.
fn hold(place: &Place, kind: &str, names: &[&[u8]], state: impl Fn(&[(&str, Vec<u8>)]) -> Vec<OsString>) {
    let project = place.project();
    let mut rules = vec![("ro", b"rw".to_vec())];
    let (mut paths, mut expected) = (Vec::new(), Vec::new());
    let masked = || match kind {
        "file" => Found::masked_file(),
        _ => Found::new("directory", "EACCES", "EACCES"),
    };
    for (number, name) in names.iter().enumerate() {
        for (access, own, neighbour) in [
            ("rw", Found::rw(kind), Found::ro(kind)),
            ("ro", Found::ro(kind), Found::rw(kind)),
            ("exclude", masked(), Found::rw(kind)),
        ] {
            let folder = format!("{access}/{kind}{number}");
            for (found, name) in [(own, *name), (neighbour, b"neighbour".as_slice())] {
                let path = project.join(&folder).join(OsStr::from_bytes(name));
                make(kind, &path);
                paths.push(path);
                expected.push(found);
            }
            rules.push((access, [folder.as_bytes(), b"/", &escaped(name)].concat()));
        }
    }
    place.give_away();
    let found = probe(place, &state(&rules), &paths);
    for ((path, found), expected) in paths.iter().zip(found).zip(expected) {
        // The kernel may answer a write to a closed directory with either error.
        let found = if found.write == "EROFS" && expected.write == "EACCES" { expected.clone() } else { found };
        assert_eq!(found, expected, "{path:?}");
    }
}

fn make(kind: &str, path: &PathBuf) {
    if kind == "file" {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "host").unwrap();
    } else {
        fs::create_dir_all(path).unwrap();
    }
}

/// The path as a JSON string, which is also a TOML string.
fn quoted(path: &[u8]) -> String {
    serde_json::Value::from(std::str::from_utf8(path).unwrap()).to_string()
}

/// A pattern that matches exactly this name.
fn escaped(name: &[u8]) -> Vec<u8> {
    name.iter().flat_map(|byte| if b"*?[]{}\\,".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] }).collect()
}
