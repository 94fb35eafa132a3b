//! Every access level against every operation: the kernel's answer inside, and the state of the
//! host afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{policy, python, sandbox, snapshot};
use crate::support::Place;

/// The result of each operation of `operations.py` in a folder of each level: `.` is success,
/// anything else the error.
///
/// - open: a folder of the writable project
/// - reopened: `rw` in a read-only folder, so a mount of its own: no rename crosses its border
/// - ro: `ro` in the writable project
/// - ro-inside: `ro` in a read-only folder
/// - closed: `exclude`
/// - search: `exclude` with a re-opened path in it
/// - between: a folder between the excluded one and the re-opened path
/// - ro-files, hidden-files: the folder is writable, but no entry in it, so entries cannot move
const EXPECTED: &str = "
                 open  reopened  ro      ro-inside  closed  search  between  ro-files  hidden-files
list             .     .         .       .          EACCES  EACCES  EACCES   .         .
stat             .     .         .       .          EACCES  ENOENT  ENOENT   .         .
read             .     .         .       .          EACCES  ENOENT  ENOENT   .         EACCES
write            .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EACCES
append           .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EACCES
truncate         .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EINVAL
open-truncating  .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EACCES
mmap             .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EACCES
create           .     .         EROFS   EROFS      EACCES  EROFS   EROFS    .         .
delete           .     .         EROFS   EROFS      EACCES  EROFS   EROFS    EBUSY     EBUSY
rename           .     .         EROFS   EROFS      EACCES  EROFS   EROFS    EBUSY     EBUSY
rename-over      .     .         EROFS   EROFS      EACCES  EROFS   EROFS    EBUSY     EBUSY
move-out         .     EXDEV     EXDEV   EXDEV      EACCES  EXDEV   EXDEV    EBUSY     EBUSY
move-in          .     EXDEV     EXDEV   EXDEV      EACCES  EXDEV   EXDEV    .         .
move-over        .     EXDEV     EXDEV   EXDEV      EACCES  EXDEV   EXDEV    EBUSY     EBUSY
link             .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EXDEV     EXDEV
link-out         .     EXDEV     EXDEV   EXDEV      EACCES  ENOENT  ENOENT   EXDEV     EXDEV
symlink          .     .         EROFS   EROFS      EACCES  EROFS   EROFS    .         .
mkdir            .     .         EROFS   EROFS      EACCES  EROFS   EROFS    .         .
rmdir            .     .         EROFS   EROFS      EACCES  EROFS   EROFS    EBUSY     EBUSY
chmod            .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EROFS
utimes           .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EROFS
setxattr         .     .         EROFS   EROFS      EACCES  ENOENT  ENOENT   EROFS     EROFS
chmod-folder     .     .         EROFS   EROFS      EROFS   EROFS   EROFS    .         .
utimes-folder    .     .         EROFS   EROFS      EROFS   EROFS   EROFS    .         .
setxattr-folder  .     .         EROFS   EROFS      EROFS   EROFS   EROFS    .         .
rename-folder    .     EROFS     EBUSY   EROFS      EBUSY   EBUSY   EROFS    EBUSY     EBUSY
";

everywhere!(
    a_folder_of_the_project_works_as_without_a_sandbox,
    rw_inside_ro_is_writable,
    rw_inside_exclude_is_writable,
    rw_in_the_home_is_writable,
    ro_inside_rw_cannot_be_changed,
    ro_around_rw_cannot_be_changed,
    ro_inside_exclude_cannot_be_changed,
    the_home_cannot_be_changed,
    an_excluded_folder_can_be_neither_read_nor_changed,
    exclude_around_rw_can_be_neither_listed_nor_changed,
    a_folder_between_exclude_and_rw_can_be_neither_listed_nor_changed,
    read_only_files_in_a_writable_folder_cannot_be_changed,
    excluded_files_in_a_writable_folder_can_be_neither_read_nor_changed,
);

fn a_folder_of_the_project_works_as_without_a_sandbox(place: &Place) {
    changes(place, "open", "open", "");
}

fn rw_inside_ro_is_writable(place: &Place) {
    changes(place, "a/ro/deep/rw", "reopened", "ro = ['a/ro']\nrw = ['a/ro/deep/rw']");
}

// SPEC D2
fn rw_inside_exclude_is_writable(place: &Place) {
    changes(place, "a/hidden/deep/rw", "reopened", "exclude = ['a/hidden']\nrw = ['a/hidden/deep/rw']");
}

// SPEC B2
fn rw_in_the_home_is_writable(place: &Place) {
    changes(place, "../../other", "reopened", "rw = ['~/other']");
}

// SPEC D2
fn ro_inside_rw_cannot_be_changed(place: &Place) {
    changes_nothing(place, "a/ro", "ro", "ro = ['a/ro']");
}

fn ro_around_rw_cannot_be_changed(place: &Place) {
    fs::create_dir_all(place.project().join("a/ro/rw")).unwrap();
    changes_nothing(place, "a/ro", "ro", "ro = ['a/ro']\nrw = ['a/ro/rw']");
}

fn ro_inside_exclude_cannot_be_changed(place: &Place) {
    changes_nothing(place, "a/hidden/deep/ro", "ro-inside", "exclude = ['a/hidden']\nro = ['a/hidden/deep/ro']");
}

// SPEC B2
fn the_home_cannot_be_changed(place: &Place) {
    changes_nothing(place, "../../other", "ro-inside", "");
}

// SPEC B3
fn an_excluded_folder_can_be_neither_read_nor_changed(place: &Place) {
    changes_nothing(place, "a/hidden", "closed", "exclude = ['a/hidden']");
}

fn exclude_around_rw_can_be_neither_listed_nor_changed(place: &Place) {
    fs::create_dir_all(place.project().join("a/hidden/rw")).unwrap();
    changes_nothing(place, "a/hidden", "search", "exclude = ['a/hidden']\nrw = ['a/hidden/rw']");
}

// SPEC B3
fn a_folder_between_exclude_and_rw_can_be_neither_listed_nor_changed(place: &Place) {
    fs::create_dir_all(place.project().join("a/hidden/deep/rw")).unwrap();
    changes_nothing(place, "a/hidden/deep", "between", "exclude = ['a/hidden']\nrw = ['a/hidden/deep/rw']");
}

fn read_only_files_in_a_writable_folder_cannot_be_changed(place: &Place) {
    changes_no_file(place, "files", "ro-files", "ro = ['files/*']");
}

// SPEC B4
fn excluded_files_in_a_writable_folder_can_be_neither_read_nor_changed(place: &Place) {
    changes_no_file(place, "files", "hidden-files", "exclude = ['files/*']");
}

type Answers = BTreeMap<String, String>;

/// Asserts that a level is writable: every operation has the same result as without a sandbox,
/// except renames across the border of a mount.
fn changes(place: &Place, folder: &str, level: &str, rules: &str) {
    let (folder, landing) = prepare(place, folder);
    let (twin, twin_landing) = prepare(place, "twin");
    policy(place, rules);
    let mut outside = place.command("env");
    let without: Answers = serde_json::from_str(&tried(&mut outside, &twin, &twin_landing)).unwrap();
    let refused: Vec<_> = without.iter().filter(|(_, answer)| *answer != ".").collect();
    // Some file systems have no extended attributes.
    assert!(refused.iter().all(|(name, _)| name.starts_with("setxattr")), "{refused:?}");

    let expected: Answers = expected(level)
        .into_iter()
        .map(|(name, answer)| {
            let answer = if answer == "." { without[&name].clone() } else { answer };
            (name, answer)
        })
        .collect();
    let inside: Answers = serde_json::from_str(&tried(sandbox(place).arg("--"), &folder, &landing)).unwrap();
    assert_eq!(inside, expected);
    assert_eq!(state(&folder), state(&twin), "the host has the changes of the command");
    assert_eq!(fs::read_to_string(folder.join("write")).unwrap(), "changed inside");
}

/// Asserts that no operation changes anything of the level, not even a time.
fn changes_nothing(place: &Place, folder: &str, level: &str, rules: &str) {
    let (folder, landing) = prepare(place, folder);
    policy(place, rules);
    let before = (snapshot(&folder), snapshot(&landing));
    let inside: Answers = serde_json::from_str(&tried(sandbox(place).arg("--"), &folder, &landing)).unwrap();
    assert_eq!(inside, expected(level));
    assert_eq!((snapshot(&folder), snapshot(&landing)), before);
}

/// Asserts that the operations change no entry of the folder, and do create new ones.
fn changes_no_file(place: &Place, folder: &str, level: &str, rules: &str) {
    let (folder, landing) = prepare(place, folder);
    policy(place, rules);
    let entries = |lines: Vec<String>| -> Vec<String> {
        let names = FILES.iter().chain(&["rmdir"]);
        let starts: Vec<String> = names.map(|name| format!("{name} ")).collect();
        lines.into_iter().filter(|line| starts.iter().any(|start| line.starts_with(start))).collect()
    };
    let before = entries(snapshot(&folder));
    let inside: Answers = serde_json::from_str(&tried(sandbox(place).arg("--"), &folder, &landing)).unwrap();
    assert_eq!(inside, expected(level));
    assert_eq!(before.len(), FILES.len() + 1);
    assert_eq!(entries(snapshot(&folder)), before);
    assert!(folder.join("create").exists() && folder.join("move-in").exists(), "the folder itself is writable");
}

const FILES: [&str; 18] = [
    "stat",
    "read",
    "write",
    "append",
    "truncate",
    "open-truncating",
    "mmap",
    "delete",
    "rename",
    "rename-over-from",
    "rename-over",
    "move-out",
    "move-over",
    "link",
    "link-out",
    "chmod",
    "utimes",
    "setxattr",
];

/// Creates the folder with a file for each operation, and a writable folder for moves from and to
/// it.
fn prepare(place: &Place, folder: &str) -> (PathBuf, PathBuf) {
    let landing = place.project().join(format!("landing-{}", folder.replace(['/', '.'], "-")));
    let folder = place.project().join(folder);
    fs::create_dir_all(folder.join("rmdir")).unwrap();
    let folder = fs::canonicalize(folder).unwrap();
    fs::create_dir(&landing).unwrap();
    for name in FILES {
        fs::write(folder.join(name), "original").unwrap();
    }
    for name in ["move-in", "move-over"] {
        fs::write(landing.join(name), "original").unwrap();
    }
    place.give_away();
    (folder, landing)
}

fn tried(command: &mut std::process::Command, folder: &Path, landing: &Path) -> String {
    python(command, include_str!("operations.py"), &[folder.to_str().unwrap(), landing.to_str().unwrap()])
}

fn expected(level: &str) -> Answers {
    let mut rows = EXPECTED.trim_start_matches('\n').lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let column = rows.next().unwrap().iter().position(|name| *name == level).unwrap() + 1;
    rows.map(|row| (row[0].to_owned(), row[column].to_owned())).collect()
}

/// The content of a folder, without times, link counts, and files that an operation moves across
/// its border.
fn state(folder: &Path) -> Vec<String> {
    let without_time = |line: String| -> String {
        let (name, rest) = line.split_once(' ').unwrap();
        let mode = rest.split(' ').next().unwrap();
        format!("{name} {mode} {}", line.rsplit_once(") ").unwrap().1)
    };
    snapshot(folder).into_iter().filter(|line| !line.starts_with("move-")).map(without_time).collect()
}
