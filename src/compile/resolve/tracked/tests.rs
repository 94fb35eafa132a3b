#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::host::git::tests::fixture::Fixture;

fn holds(fixture: &Fixture, path: &str) -> bool {
    TrackedFiles::new(&Host::system()).holds(&fixture.abs(path))
}

/// `repo` with a few tracked files whose names share prefixes.
fn with_tracked(options: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    fixture.init("repo", options);
    fixture.write("repo/.env", "SECRET=1\n");
    fixture.write("repo/config/a.pem", "a\n");
    fixture.write("repo/config/ab.pem", "");
    fixture.write("repo/config/ab/größe [x].pem", "c\0d");
    fixture.git("repo", &["add", "-A"]);
    fixture
}

const TRACKED: [&str; 5] =
    ["repo/.env", "repo/config/a.pem", "repo/config/ab.pem", "repo/config/ab/größe [x].pem", "repo/file"];

#[track_caller]
fn assert_tracks_exactly(fixture: &Fixture) {
    for path in TRACKED {
        assert!(holds(fixture, path), "{path}");
    }
    fixture.write("repo/config/a", "a\n");
    for path in ["repo/config/a", "repo/config", "repo/missing", "repo/.git/HEAD"] {
        assert!(!holds(fixture, path), "{path}");
    }
}

#[test]
fn tracked_files_with_their_content_are_held() {
    assert_tracks_exactly(&with_tracked(&[]));
}

#[test]
fn every_index_version_is_read() {
    for version in ["2", "3", "4"] {
        let fixture = with_tracked(&[]);
        // git writes version 3 only where an entry needs the flags that it adds.
        fixture.write("repo/later", "x");
        if version != "2" {
            fixture.git("repo", &["add", "--intent-to-add", "later"]);
        }
        fixture.git("repo", &["update-index", "--index-version", version]);
        let written = fs::read(fixture.real("repo/.git/index")).unwrap()[7];
        assert_eq!(written.to_string(), version);
        assert_tracks_exactly(&fixture);
        assert!(!holds(&fixture, "repo/later"));
    }
}

#[test]
fn a_repository_with_sha256_ids_is_read() {
    let fixture = with_tracked(&["--object-format=sha256"]);
    assert_tracks_exactly(&fixture);
    fixture.git("repo", &["update-index", "--index-version", "4"]);
    assert_tracks_exactly(&fixture);
}

#[test]
fn an_unknown_object_format_holds_nothing() {
    let fixture = with_tracked(&[]);
    fixture.git("repo", &["config", "extensions.objectformat", "sha3"]);
    assert!(!holds(&fixture, "repo/.env"));
}

#[test]
fn a_modified_file_is_not_held_until_it_is_staged() {
    let fixture = with_tracked(&[]);
    fixture.write("repo/.env", "SECRET=2\n");
    assert!(!holds(&fixture, "repo/.env"));
    fixture.git("repo", &["add", ".env"]);
    assert!(holds(&fixture, "repo/.env"), "staged, and the same as the index");
    fixture.write("repo/.env", "SECRET=1\n");
    assert!(!holds(&fixture, "repo/.env"), "as it was before, while the index has the new content");
}

#[test]
fn same_size_and_times_do_not_prove_the_same_content() {
    let fixture = with_tracked(&[]);
    let path = fixture.real("repo/.env");
    let times = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "SECRET=9\n").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(times).unwrap();
    assert!(!holds(&fixture, "repo/.env"));
}

// SPEC P6
#[test]
fn a_planted_entry_for_an_untracked_secret_does_not_unmask_it() {
    let fixture = with_tracked(&[]);
    fixture.write("repo/prod.env", "PASSWORD=correct horse\n");
    let other = fixture.git("repo", &["rev-parse", ":file"]);
    fixture.git("repo", &["update-index", "--add", "--cacheinfo", &format!("100644,{other},prod.env")]);
    assert!(!holds(&fixture, "repo/prod.env"));
}

/// An index of version 2 for files with these names and stages, each with the blob id of `guess`.
fn forged(entries: &[(&str, u16)], extension: &[u8]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
    for (name, stage) in entries {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend(blob_id(HashKind::Sha1, b"guess"));
        bytes.extend((u16::try_from(name.len().min(0xfff)).unwrap() | stage << 12).to_be_bytes());
        bytes.extend(name.as_bytes());
        let length = bytes.len() - start;
        bytes.resize(start + ((length + 8) & !7), 0);
    }
    bytes.extend(extension);
    bytes.extend([0; 20]);
    bytes
}

/// Whether the forged index is accepted, and then whether it holds `a`.
fn forged_holds_a(entries: &[(&str, u16)], extension: &[u8]) -> Option<bool> {
    let index = Index::parse(forged(entries, extension), HashKind::Sha1)?;
    Some(index.blob_id(b"a") == Some(&blob_id(HashKind::Sha1, b"guess")))
}

#[test]
fn an_index_with_a_name_twice_or_out_of_order_is_refused_as_a_whole() {
    assert_eq!(forged_holds_a(&[("a", 0), ("b", 0)], b""), Some(true));
    assert_eq!(forged_holds_a(&[("a", 0), ("a", 0), ("b", 0)], b""), None);
    assert_eq!(forged_holds_a(&[("b", 0), ("a", 0)], b""), None);
}

#[test]
fn a_name_that_is_both_merged_and_unmerged_is_not_held() {
    assert_eq!(forged_holds_a(&[("a", 0), ("a", 2), ("b", 0)], b""), Some(false));
}

#[test]
fn an_extension_that_changes_the_meaning_of_the_entries_is_refused() {
    assert_eq!(forged_holds_a(&[("a", 0)], b"ABCD\0\0\0\x01x"), Some(true));
    assert_eq!(forged_holds_a(&[("a", 0)], b"sdir\0\0\0\0"), Some(true));
    assert_eq!(forged_holds_a(&[("a", 0)], b"link\0\0\0\0"), None);
    assert_eq!(forged_holds_a(&[("a", 0)], b"abcd\0\0\0\0"), None);
    assert_eq!(forged_holds_a(&[("a", 0)], b"ABCD\xff\xff\xff\xff"), None);
}

#[test]
fn a_name_longer_than_the_flags_can_say_is_found() {
    let long = "d/".repeat(2100) + "x";
    let index = Index::parse(forged(&[("a", 0), (&long, 0), ("e", 0)], b""), HashKind::Sha1).unwrap();
    assert!(index.blob_id(long.as_bytes()).is_some() && index.blob_id(b"e").is_some());
}

#[test]
fn entries_that_are_not_plain_files_of_the_work_tree_are_not_held() {
    let fixture = with_tracked(&[]);
    fixture.git("repo", &["update-index", "--skip-worktree", ".env"]);
    assert!(!holds(&fixture, "repo/.env"));
    fixture.git("repo", &["update-index", "--no-skip-worktree", ".env"]);
    assert!(holds(&fixture, "repo/.env"));

    fixture.symlink("repo/link", "file");
    fixture.git("repo", &["add", "link"]);
    assert!(!holds(&fixture, "repo/link"));
    // A link's blob is its target; a file with that content still differs from the index.
    fs::remove_file(fixture.real("repo/link")).unwrap();
    fixture.write("repo/link", "file");
    assert!(!holds(&fixture, "repo/link"));
}

#[test]
fn a_path_through_a_symlink_is_not_held() {
    let fixture = with_tracked(&[]);
    fs::rename(fixture.real("repo/config"), fixture.real("moved")).unwrap();
    fixture.symlink("repo/config", "../moved");
    assert!(!holds(&fixture, "repo/config/a.pem"));
}

#[test]
fn an_unmerged_file_is_not_held() {
    let fixture = with_tracked(&[]);
    let id = fixture.git("repo", &["rev-parse", ":.env"]);
    for stages in [&[2, 3][..], &[1, 2, 3], &[2]] {
        fixture.git("repo", &["update-index", "--force-remove", ".env"]);
        for stage in stages {
            let line = format!("100644 {id} {stage}\t.env\n");
            fixture.write("line", line);
            let script = "update-index --index-info < ../line";
            fixture.git("repo", &["-c", &format!("alias.x=!git {script}"), "x"]);
        }
        assert_eq!(fixture.git("repo", &["ls-files", "-u"]).lines().count(), stages.len());
        assert!(!holds(&fixture, "repo/.env"));
        assert!(holds(&fixture, "repo/file"));
    }
}

#[test]
fn a_split_index_holds_nothing() {
    let fixture = with_tracked(&[]);
    fixture.git("repo", &["update-index", "--split-index"]);
    fixture.write("repo/new", "x");
    fixture.git("repo", &["add", "new"]);
    assert!(!holds(&fixture, "repo/.env"));
    assert!(!holds(&fixture, "repo/new"));
}

#[test]
fn files_beside_the_directories_of_a_sparse_index_are_held() {
    let fixture = with_tracked(&[]);
    fixture.git("repo", &["commit", "-q", "-m", "all"]);
    fixture.git("repo", &["sparse-checkout", "set", "--cone", "--sparse-index", "config"]);
    fixture.write("repo/zz/x.pem", "x\n");
    assert!(fs::read(fixture.real("repo/.git/index")).unwrap().windows(4).any(|name| name == b"sdir"));
    assert!(holds(&fixture, "repo/config/a.pem"));
    assert!(!holds(&fixture, "repo/zz/x.pem"));
}

#[test]
fn worktrees_and_submodules_answer_for_their_own_files() {
    let fixture = with_tracked(&["--object-format=sha256"]);
    fixture.git("repo", &["commit", "-q", "-m", "all"]);
    fixture.git("repo", &["worktree", "add", "-q", "../wt"]);
    assert!(holds(&fixture, "wt/.env"));
    fixture.write("wt/.env", "SECRET=2\n");
    assert!(!holds(&fixture, "wt/.env"));

    fixture.init("super", &["--object-format=sha256"]);
    fixture.git("super", &["submodule", "--quiet", "add", "../repo", "sub"]);
    assert!(holds(&fixture, "super/sub/.env"));
    fixture.write("super/sub/untracked.env", "x");
    assert!(!holds(&fixture, "super/sub/untracked.env"));
}

#[test]
fn the_nearest_repository_answers_even_when_broken() {
    let fixture = with_tracked(&[]);
    fs::create_dir(fixture.real("repo/config/.git")).unwrap();
    assert!(!holds(&fixture, "repo/config/a.pem"));
    assert!(holds(&fixture, "repo/.env"));
}

#[test]
fn without_a_repository_nothing_is_held() {
    let fixture = Fixture::new();
    fixture.write("a/.env", "x");
    assert!(!holds(&fixture, "a/.env"));
}

#[test]
fn filtered_content_is_compared_as_it_lies_in_the_work_tree() {
    let fixture = Fixture::with_repository("repo");
    fixture.write("repo/.gitattributes", "*.key filter=rot\n");
    fixture.git("repo", &["config", "filter.rot.clean", "tr a-z n-za-m"]);
    fixture.git("repo", &["config", "filter.rot.smudge", "tr a-z n-za-m"]);
    fixture.write("repo/a.key", "plain\n");
    fixture.git("repo", &["add", "-A"]);
    assert_eq!(fixture.git("repo", &["status", "--porcelain", "a.key"]), "A  a.key");
    assert!(!holds(&fixture, "repo/a.key"));
}

#[test]
fn a_file_past_the_limit_is_not_held() {
    let fixture = Fixture::with_repository("repo");
    let limit = usize::try_from(LARGEST_FILE).unwrap();
    fixture.write("repo/at", vec![0; limit]);
    fixture.write("repo/past", vec![0; limit + 1]);
    fixture.git("repo", &["add", "-A"]);
    assert!(holds(&fixture, "repo/at"));
    assert!(!holds(&fixture, "repo/past"));
}

#[test]
fn an_index_that_would_unfold_to_gigabytes_is_refused() {
    let long = 1 << 20;
    let entry = |suffix: &[u8]| {
        let mut bytes = vec![0; 60];
        bytes.extend(0xfff_u16.to_be_bytes());
        // Nothing of the name before is removed.
        bytes.push(0);
        bytes.extend(suffix);
        bytes.push(0);
        bytes
    };
    let index = |count: u32| {
        let mut bytes = b"DIRC\0\0\0\x04".to_vec();
        bytes.extend(count.to_be_bytes());
        bytes.extend(entry(&vec![b'a'; long]));
        bytes.extend((1..count).flat_map(|_| entry(b"a")));
        bytes.extend([0; 20]);
        bytes
    };
    assert!(Index::parse(index(2), HashKind::Sha1).is_some());
    assert!(Index::parse(index(300), HashKind::Sha1).is_none());
}

/// Every truncation, and many random changes, of real index files. No index may cause a panic, and
/// an index that still parses gives an id of the right length.
#[test]
fn a_damaged_index_never_panics() {
    for options in [&[][..], &["--object-format=sha256"]] {
        for version in ["2", "4"] {
            let fixture = with_tracked(options);
            fixture.git("repo", &["update-index", "--index-version", version]);
            let whole = fs::read(fixture.real("repo/.git/index")).unwrap();
            let kind = if options.is_empty() { HashKind::Sha1 } else { HashKind::Sha256 };
            let sound = Index::parse(whole.clone(), kind).unwrap();
            let mut parsed = 0;
            for length in 0..whole.len() {
                // A cut between two extensions leaves all entries whole.
                let Some(cut) = Index::parse(whole[..length].to_vec(), kind) else { continue };
                assert_eq!(cut.blob_id(b"file"), sound.blob_id(b"file"), "{length}");
                parsed += 1;
            }
            assert!(parsed <= 1, "{parsed}");
            let mut random = 0x9e37_79b9_7f4a_7c15_u64;
            let mut next = |below: usize| {
                // Xorshift: the same changes in every run.
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                usize::try_from(random % below as u64).unwrap()
            };
            let mut refused = 0;
            for _ in 0..20_000 {
                let mut bytes = whole.clone();
                for _ in 0..=next(4) {
                    let at = next(bytes.len());
                    bytes[at] = [0, 0x7f, 0x80, 0xff, u8::try_from(next(256)).unwrap()][next(5)];
                }
                match Index::parse(bytes, kind) {
                    None => refused += 1,
                    Some(index) => {
                        let id = index.blob_id(b".env");
                        assert!(id.is_none_or(|id| id.len() == kind.length()));
                    }
                }
            }
            assert!(refused > 1000, "{refused}");
        }
    }
}
