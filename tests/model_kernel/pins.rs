//! A directory with a mount on it cannot be moved, even where that mount is hidden.
//! `src/compile/plan/pins.rs` relies on this.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::sandbox::{BASE, abs, bwrap, give_away, model, strings, texts};
use crate::tree::Tree;

/// Performs an operation for each three arguments, and prints `done` or the error.
const ATTEMPTS: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    if libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2):
        raise OSError(ctypes.get_errno(), "")
do = {"rename": os.rename, "exchange": exchange, "rmdir": lambda a, b: os.rmdir(a), "mkdir": lambda a, b: os.mkdir(a)}
words = sys.argv[1:]
for what, a, b in zip(words[::3], words[1::3], words[2::3]):
    try:
        do[what](a, b)
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
"#;

fn attempt(flags: &[String], attempts: &[[&str; 3]]) -> Vec<String> {
    let command = strings(&["--", "python3", "-I", "-c", ATTEMPTS]);
    let (stdout, stderr) = texts(&bwrap(&[flags, &command, &strings(&attempts.concat())].concat()));
    assert_eq!(stderr, "", "{flags:?}");
    stdout.lines().map(str::to_owned).collect()
}

/// A tree in `/tmp`, in which `a/b/a` is read-only. Its parents and `b/empty` must not be movable.
struct Scene {
    tree: Tree,
}

impl Scene {
    fn new() -> Self {
        let tree = Tree::below("/tmp");
        let empty = format!("{}/b/empty", tree.root);
        fs::create_dir(&empty).unwrap();
        give_away(&empty);
        Self { tree }
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.tree.root)
    }

    fn bind(&self, flag: &str, path: &str) -> Vec<String> {
        let path = if path.is_empty() { self.tree.root.clone() } else { self.at(path) };
        strings(&[flag, &path, &path])
    }

    fn pins(&self) -> Vec<String> {
        ["a", "a/b", "b/empty"].map(|path| self.bind("--ro-bind", path)).concat()
    }

    /// The bind of the writable tree, and of the protected path in it.
    fn open(&self) -> Vec<String> {
        [self.bind("--bind", ""), self.bind("--ro-bind", "a/b/a")].concat()
    }

    /// The positions of a pin (a bind that keeps a directory from being moved) relative to the
    /// writable bind.
    fn pinned(&self) -> [(&'static str, Vec<String>); 3] {
        let base = strings(&BASE);
        let tmpfs = strings(&["--perms", "1777", "--tmpfs", "/tmp"]);
        [
            ("below the bind", [base.clone(), self.pins(), self.open()].concat()),
            (
                "between two binds on a tmpfs",
                [base.clone(), tmpfs.clone(), self.bind("--ro-bind", ""), self.pins(), self.open()].concat(),
            ),
            ("below the tmpfs that the bind is on", [base, self.pins(), tmpfs, self.open()].concat()),
        ]
    }

    fn can_rename(&self, flags: &[String], path: &str) -> bool {
        model(flags).unwrap().can_rename(&abs(&self.at(path)))
    }
}

// SPEC B12
#[test]
fn a_pinned_directory_can_be_neither_renamed_nor_exchanged_nor_removed() {
    let scene = Scene::new();
    let [a, ab, b, empty, away] = ["a", "a/b", "b/b", "b/empty", "away"].map(|path| scene.at(path));
    for (shape, flags) in scene.pinned() {
        let attempts = [
            ["rename", &a, &away],
            ["rename", &ab, &away],
            ["rename", &b, &empty],
            ["exchange", &a, &b],
            ["exchange", &b, &ab],
            ["rmdir", &empty, ""],
        ];
        assert_eq!(attempt(&flags, &attempts), ["EBUSY"; 6], "{shape}");
        for path in ["a", "a/b", "b/empty"] {
            assert!(!scene.can_rename(&flags, path), "{shape}: {path}");
        }
    }
}

#[test]
fn files_and_other_directories_move_freely_across_a_pin() {
    let scene = Scene::new();
    let [file, inside, deeper] = ["file", "a/moved", "a/b/moved"].map(|path| scene.at(path));
    let [b, renamed, into] = ["b/b", "b/renamed", "a/b/came"].map(|path| scene.at(path));
    let inode = |path: &str| fs::metadata(path).unwrap().ino();
    let before = (inode(&file), inode(&b));
    for (shape, flags) in scene.pinned() {
        let attempts = [
            ["rename", &file, &inside],
            ["rename", &inside, &deeper],
            ["rename", &deeper, &file],
            ["rename", &b, &renamed],
            ["rename", &renamed, &into],
            ["rename", &into, &b],
            ["mkdir", &renamed, ""],
            ["exchange", &renamed, &b],
            ["exchange", &renamed, &b],
            ["rmdir", &renamed, ""],
        ];
        assert_eq!(attempt(&flags, &attempts), ["done"; 10], "{shape}");
        assert_eq!((inode(&file), inode(&b)), before, "{shape}: moved, not copied");
        assert!(scene.can_rename(&flags, "b/b"), "{shape}");
    }
}

// SPEC B12
#[test]
fn a_pin_changes_nothing_that_can_be_seen() {
    let tree = Scene::new();
    for (_, flags) in tree.pinned() {
        let met = tree.tree.agree(&flags).unwrap();
        assert!(met.contains("Host, writable"), "{met:?}");
        let unpinned: Vec<String> = [strings(&BASE), tree.open()].concat();
        for path in tree.tree.paths() {
            let view = |flags: &[String]| model(flags).unwrap().view(&abs(&path));
            assert_eq!(view(&flags), view(&unpinned), "{path}");
        }
    }
}

#[test]
fn a_directory_above_a_mount_can_be_renamed_and_built_anew() {
    let scene = Scene::new();
    let [a, ab, aba, away] = ["a", "a/b", "a/b/a", "away"].map(|path| scene.at(path));
    let flags = [strings(&BASE), scene.open()].concat();
    assert!(scene.can_rename(&flags, "a"));
    let attempts = [["rename", &a, &away], ["mkdir", &a, ""], ["mkdir", &ab, ""], ["mkdir", &aba, ""]];
    assert_eq!(attempt(&flags, &attempts), ["done"; 4]);
    assert_eq!(fs::read_dir(aba).unwrap().count(), 0, "the host has the files that were created inside");
}

#[test]
fn a_pin_on_a_tmpfs_does_not_reach_the_host() {
    let scene = Scene::new();
    let [a, away] = ["a", "away"].map(|path| scene.at(path));
    let tmpfs = strings(&["--tmpfs", "/tmp"]);
    let flags = [strings(&BASE), tmpfs, scene.pins(), scene.open()].concat();
    assert!(scene.can_rename(&flags, "a"));
    assert_eq!(attempt(&flags, &[["rename", &a, &away]]), ["done"]);
}

#[test]
fn a_pin_holds_wherever_the_directory_shows() {
    let scene = Scene::new();
    let (root, elsewhere) = (&scene.tree.root, "/srv");
    let flags = [strings(&BASE), scene.pins(), strings(&["--bind", root, elsewhere])].concat();
    let model = model(&flags).unwrap();
    let attempts = [["rename", "/srv/a", "/srv/away"], ["rename", "/srv/b", "/srv/away"]];
    assert_eq!(attempt(&flags, &attempts), ["EBUSY", "done"]);
    assert_eq!(["/srv/a", "/srv/b"].map(|path| model.can_rename(&abs(path))), [false, true]);
}

/// `rmdir` of a directory that is not empty cannot succeed, and its error shows whether there is a
/// mount. `agent-sandbox verify` relies on this.
// SPEC V6
#[test]
fn rmdir_reports_a_mount_before_it_reports_content() {
    let scene = Scene::new();
    let [a, ab, b] = ["a", "a/b", "b"].map(|path| scene.at(path));
    for (shape, flags) in scene.pinned() {
        let attempts = [["rmdir", &a, ""], ["rmdir", &ab, ""], ["rmdir", &b, ""]];
        assert_eq!(attempt(&flags, &attempts), ["EBUSY", "EBUSY", "ENOTEMPTY"], "{shape}");
    }
    assert!(fs::metadata(&a).is_ok() && fs::metadata(&b).is_ok());
}
