#![allow(clippy::unwrap_used)]

use std::fs;

use super::super::tests::fixture::Fixture;
use super::*;
use crate::diagnostic::Diagnostics;

/// The repositories in the project `root` as text, and the number of unclear indexes.
fn found(fixture: &Fixture, root: &str) -> (Vec<String>, usize) {
    let (host, root) = (Host::system(), fixture.abs(root));
    let repository = super::super::discover(&host, &root, std::slice::from_ref(&root), &mut Diagnostics::default());
    let NestedRepositories { found, unclear, .. } = nested(&host, &root, repository.as_ref());
    let said =
        |one: &Nested| fixture.shortened(&format!("{} {:?} {} {:?}", one.folder, one.form, one.git_dir, one.found_by));
    (found.iter().map(said).collect(), unclear.len())
}

fn name_in_index(fixture: &Fixture, repository: &str, folder: &str) {
    let id = "0123456789012345678901234567890123456789";
    fixture.git(repository, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},{folder}")]);
}

// SPEC P11
#[test]
fn submodules_of_any_depth_are_found() {
    let fixture = Fixture::with_repository("library");
    fixture.init("middle", &[]);
    fixture.git("middle", &["submodule", "--quiet", "add", "../library", "logs"]);
    fixture.git("middle", &["commit", "-qm", "module"]);
    fixture.init("super", &[]);
    fixture.git("super", &["submodule", "--quiet", "add", "../middle", "a/b"]);
    fixture.git("super", &["submodule", "--quiet", "update", "--init", "--recursive"]);
    let expected = [
        "/super/a/b Pointer /super/.git/modules/a/b Index",
        "/super/a/b/logs Pointer /super/.git/modules/a/b/modules/logs Index",
    ];
    assert_eq!(found(&fixture, "super"), (expected.map(str::to_owned).to_vec(), 0));
}

#[test]
fn only_repositories_that_the_index_names_are_found() {
    let fixture = Fixture::with_repository("repo");
    fixture.init("repo/named", &[]);
    fixture.init("repo/linked", &[]);
    fixture.init("repo/other", &[]);
    fs::rename(fixture.real("repo/linked/.git"), fixture.real("elsewhere")).unwrap();
    fixture.symlink("repo/linked/.git", "../../elsewhere");
    fixture.symlink("repo/way", "other");
    for name in ["named", "linked", "empty", "way"] {
        name_in_index(&fixture, "repo", name);
    }
    let expected = ["/repo/linked Link /elsewhere Index", "/repo/named Directory /repo/named/.git Index"];
    assert_eq!(found(&fixture, "repo"), (expected.map(str::to_owned).to_vec(), 0));
}

#[test]
fn submodules_are_found_in_every_form_of_an_index() {
    for format in ["sha1", "sha256"] {
        for version in ["2", "3", "4"] {
            let fixture = Fixture::new();
            fixture.init("repo", &[&format!("--object-format={format}")]);
            fixture.init("repo/n", &[&format!("--object-format={format}")]);
            fixture.write("repo/later", "x");
            if version != "2" {
                fixture.git("repo", &["add", "--intent-to-add", "later"]);
            }
            fixture.git("repo", &["add", "n"]);
            fixture.git("repo", &["update-index", "--index-version", version]);
            let (named, unclear) = found(&fixture, "repo");
            assert_eq!((named.len(), unclear), (1, 0), "{format} {version}");
        }
    }
}

// SPEC P11
#[test]
fn both_parts_of_a_split_index_name_submodules() {
    let split = ["-c", "splitIndex.maxPercentChange=100", "update-index", "--split-index"];
    let fixture = Fixture::with_repository("repo");
    for name in ["shared", "later", "replaced"] {
        fixture.init(&format!("repo/{name}"), &[]);
    }
    name_in_index(&fixture, "repo", "shared");
    let blob = fixture.git("repo", &["rev-parse", ":file"]);
    fixture.git("repo", &["update-index", "--add", "--cacheinfo", &format!("100644,{blob},replaced")]);
    fixture.git("repo", &split);
    let folders = |fixture: &Fixture| found(fixture, "repo").0.len();
    assert_eq!(folders(&fixture), 1);
    name_in_index(&fixture, "repo", "later");
    assert_eq!(folders(&fixture), 2);
    name_in_index(&fixture, "repo", "replaced");
    assert_eq!(folders(&fixture), 3);
    assert!(fs::read(fixture.real("repo/.git/index")).unwrap().windows(4).any(|part| part == b"link"));
}

// SPEC P11
#[test]
fn an_index_that_git_may_read_otherwise_is_unclear() {
    let fixture = Fixture::with_repository("repo");
    let path = fixture.real("repo/.git/index");
    let whole = fs::read(&path).unwrap();
    let entries_end = 12 + 72;
    assert_eq!(&whole[entries_end..entries_end + 4], b"TREE", "one entry, and the first extension");
    let with = |extension: &[u8]| [&whole[..entries_end], extension, &[0; 20]].concat();
    let table = |start: u32| [b"IEOT\0\0\0\x0c\0\0\0\x01".as_slice(), &start.to_be_bytes(), &[0, 0, 0, 1]].concat();
    let end = |at: u32| [b"EOIE\0\0\0\x18".as_slice(), &at.to_be_bytes(), &[0; 20]].concat();
    for (bytes, unclear) in [
        (with(b""), 0),
        (with(&table(12)), 0),
        (with(&table(16)), 1),
        (with(&end(84)), 0),
        (with(&end(92)), 1),
        (with(b"link\0\0\0\x14aaaaaaaaaaaaaaaaaaaa"), 1),
        (with(b"ABCD\0\0\0\x09"), 1),
        (b"DIRC\0\0\0\x05\0\0\0\0".to_vec(), 1),
    ] {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(found(&fixture, "repo").1, unclear, "{bytes:?}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(found(&fixture, "repo").1, 0);
}

#[test]
fn worktrees_anywhere_and_their_submodules_are_found() {
    let fixture = Fixture::with_repository("repo");
    fixture.git("repo", &["worktree", "add", "-q", "-b", "a", "trees/a"]);
    fixture.git("repo", &["worktree", "add", "-q", "-b", "b", "../outside"]);
    fixture.init("repo/trees/a/n", &[]);
    name_in_index(&fixture, "repo/trees/a", "n");
    let outside = "/outside Pointer /repo/.git/worktrees/outside Worktrees";
    let tree = "/repo/trees/a Pointer /repo/.git/worktrees/a Worktrees";
    let expected = [outside, tree, "/repo/trees/a/n Directory /repo/trees/a/n/.git Index"];
    assert_eq!(found(&fixture, "repo").0, expected);
    // A `gitdir` that names something else proves nothing.
    fixture.write("repo/.git/worktrees/a/gitdir", format!("{}\n", fixture.abs("repo/file")));
    assert_eq!(found(&fixture, "repo").0, [outside]);
}

#[test]
fn repositories_in_the_folders_of_a_plain_project_are_found() {
    let fixture = Fixture::with_repository("work/one");
    fixture.init("work/deep/er", &[]);
    assert_eq!(found(&fixture, "work").0, ["/work/one Directory /work/one/.git Folder"]);
}
