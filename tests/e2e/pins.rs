//! A path that a rule names cannot be moved: the command cannot move the folders above it away and
//! create new ones. Ordinary work is not affected.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::git::{inside, outside, repository};
use crate::sandbox::{policy, python, run, sandbox, shell, shell_with, snapshot, write};
use crate::support::Place;

everywhere!(
    a_hook_cannot_be_planted_by_building_git_anew,
    a_submodules_hook_cannot_be_planted_by_building_it_anew,
    files_can_be_moved_across_pinned_folders,
    a_project_in_a_writable_parent_stays_where_it_is,
    a_hidden_file_stays_hidden_in_the_next_run,
    folders_of_named_paths_in_a_re_opened_folder_cannot_be_moved,
);

/// Tries to move each folder away by all system calls for it, and prints those that succeed.
const MOVE_AWAY: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    if libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2):
        raise OSError(ctypes.get_errno(), "")
os.mkdir("decoy")
for path in sys.argv[1:]:
    for name, attempt in {
        "rename": lambda: os.rename(path, "away"),
        "rename in place": lambda: os.rename(path, path + ".away"),
        "exchange": lambda: exchange(path, "decoy"),
        "exchange the other way": lambda: exchange("decoy", path),
        "replace": lambda: os.rename("decoy", path),
        "remove": lambda: os.rmdir(path),
    }.items():
        try:
            attempt()
            print(path, name)
        except OSError:
            pass
os.rmdir("decoy")
"#;

#[track_caller]
fn stays(place: &Place, flags: &[&str], folders: &[&str]) {
    let inode = |folder: &str| fs::metadata(place.project().join(folder)).unwrap().ino();
    let before: Vec<u64> = folders.iter().map(|folder| inode(folder)).collect();
    assert_eq!(python(sandbox(place).args(flags).arg("--"), MOVE_AWAY, folders), "");
    let after: Vec<u64> = folders.iter().map(|folder| inode(folder)).collect();
    assert_eq!(after, before);
}

// SPEC B12
fn a_hook_cannot_be_planted_by_building_git_anew(place: &Place) {
    let git = repository(place).join(".git");
    write(place, ".git/hooks/pre-push", "#!/bin/sh\n");
    write(place, ".git/info/attributes", "");
    let before = snapshot(&git.join("hooks"));
    stays(place, &[], &[".git", ".git/info", ".git/hooks"]);
    let rebuild = "mv .git .old; cp -r .old .git; mkdir -p .git/hooks; echo evil >.git/hooks/post-checkout";
    run(place, &["--", "sh", "-c", rebuild]);
    assert_eq!(snapshot(&git.join("hooks")), before);
    assert!(!place.project().join(".old").exists());
}

// SPEC B13
fn a_submodules_hook_cannot_be_planted_by_building_it_anew(place: &Place) {
    let project = repository(place);
    outside(place, &project, "git clone -q . ../library && git submodule --quiet add ../library && git commit -qm sub");
    stays(place, &[], &[".git", ".git/modules", ".git/modules/library", ".git/modules/library/hooks"]);
}

// SPEC B12
fn files_can_be_moved_across_pinned_folders(place: &Place) {
    policy(place, "ro = [\"app/conf/keep.toml\"]\nexclude = [\"**/.env\"]\n");
    for file in ["app/conf/keep.toml", "app/conf/free", "app/src/main", "app/web/page"] {
        write(place, file, file);
    }
    let project = repository(place);
    write(place, "app/web/.env", "SECRET");
    let inode = |path: &str| fs::metadata(project.join(path)).unwrap().ino();
    let before = (inode("app/conf/free"), inode("app/src"));
    let script = "
        mv app/conf/free free; mv free app/free; mv app/free app/conf/moved
        mkdir app/conf/new; mv app/conf/new app/newer; mv app/newer newest; rmdir newest
        echo more >>app/conf/moved; ln app/conf/moved app/linked; rm app/linked
        git mv app/src app/conf/lib; git add app/conf; git commit -qm moved
        mv app/web site; cat site/.env 2>/dev/null || cat site/page
        git log --format=%s";
    assert_eq!(inside(place, &project, script), "app/web/pagemoved\nfirst\n");
    assert_eq!((inode("app/conf/moved"), inode("app/conf/lib")), before, "moved, not copied");
    assert_eq!(fs::read_to_string(project.join("app/conf/keep.toml")).unwrap(), "app/conf/keep.toml");
}

fn a_project_in_a_writable_parent_stays_where_it_is(place: &Place) {
    repository(place);
    write(place, "app/.env", "SECRET=1");
    place.write(place.home().join("code/neighbour/file"), "");
    let parent = place.home().join("code");
    let flags = ["--rw", parent.to_str().unwrap()];
    stays(place, &flags, &["../project", ".git", "app"]);
    shell_with(place, &flags, "mv ../neighbour ../renamed && mv ../renamed/file . && rmdir ../renamed");
    assert!(place.project().join("file").exists());
}

// SPEC B13
fn a_hidden_file_stays_hidden_in_the_next_run(place: &Place) {
    policy(place, "exclude = [\"vault/deep/key\", \"*.d/*.key\", \"data/**/*.pem\", \"**/.env\", \"**/own/*.pem\"]\n");
    let hidden = ["vault/deep/key", "conf.d/a.key", "data/x/y/a.pem", "web/app/.env", "web/own/b.pem"];
    for file in hidden {
        write(place, file, "SECRET");
    }
    stays(place, &[], &["vault", "vault/deep", "conf.d", "data", "data/x", "data/x/y", "web/own"]);
    let search = "cat $(find . -type f) 2>/dev/null | grep -c SECRET || true";
    assert_eq!(shell(place, &format!("mv web/app web/other && mv web moved && {search}")), "0\n");
    assert_eq!(shell(place, search), "0\n");
    assert!(place.project().join("moved/other/.env").exists());
}

fn folders_of_named_paths_in_a_re_opened_folder_cannot_be_moved(place: &Place) {
    policy(place, "exclude = [\"a/hidden\"]\nrw = [\"a/hidden/b/open\"]\nro = [\"a/hidden/b/open/c/d/keep\"]\n");
    write(place, "a/hidden/b/open/c/d/keep", "kept");
    write(place, "a/hidden/b/open/other/file", "");
    let open = Path::new("a/hidden/b/open");
    stays(place, &[], &["a", "a/hidden", "a/hidden/b/open", "a/hidden/b/open/c", "a/hidden/b/open/c/d"]);
    shell(place, "cd a/hidden/b/open && mv other/file c/d/came && mv other c/moved");
    assert!(place.project().join(open).join("c/d/came").exists());
    assert!(place.project().join(open).join("c/moved").is_dir());
}
