//! The facts about the kernel that the lowering relies on. Each test shows one fact with the
//! kernel, and that the model agrees.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use agent_sandbox::model::{ModelError, ModelView as View, Namespace};

use crate::sandbox::{BASE, above, abs, bwrap, model, run, strings, texts, view};
use crate::tree::Tree;

#[test]
fn the_last_mount_that_covers_a_path_wins() {
    let tree = Tree::below("/var/tmp");
    let (root, a, aa) = (&tree.root, &tree.directories[1], &format!("{}/a", tree.directories[1]));
    for order in [
        ["--bind", a, a, "--ro-bind", aa, aa],
        ["--ro-bind", aa, aa, "--bind", a, a],
        ["--bind", aa, aa, "--ro-bind", root, root],
    ] {
        tree.agree(&above(&BASE, &order)).unwrap();
    }
}

#[test]
fn a_tmpfs_mask_is_writable_until_it_is_remounted_read_only() {
    let tree = Tree::below("/var/tmp");
    let mask = ["--tmpfs", &tree.root];
    let write = format!("echo lost >{}/new && cat {}/new", tree.root, tree.root);
    let writable = [&BASE[..], &mask].concat();
    assert_eq!(run(&writable, &write).0, "lost\n");
    assert_eq!(view(&writable, &tree.root), View::Fresh { mode: 0o755, writable: true });
    assert!(!Path::new(&tree.root).join("new").exists(), "the write stays inside");

    let read_only = [&writable[..], &["--remount-ro", &tree.root]].concat();
    assert!(run(&read_only, &write).1.contains("Read-only file system"));
    assert_eq!(view(&read_only, &tree.root), View::Fresh { mode: 0o755, writable: false });
}

#[test]
fn a_tmpfs_with_a_size_behaves_as_any_tmpfs_until_it_is_full() {
    let tree = Tree::below("/var/tmp");
    let sized = [&BASE[..], &["--size", "8192", "--perms", "0700", "--tmpfs", &tree.root]].concat();
    assert_eq!(view(&sized, &tree.root), View::Fresh { mode: 0o700, writable: true });
    let fill = |bytes: u32| run(&sized, &format!("head -c {bytes} /dev/zero >{}/new && echo fits", tree.root));
    assert_eq!(fill(8192).0, "fits\n");
    assert!(fill(8193).1.contains("No space left on device"));
}

#[test]
fn remount_ro_leaves_a_mount_below_writable() {
    let tree = Tree::below("/var/tmp");
    let (root, a) = (&tree.root, &tree.directories[1]);
    let flags = above(&BASE, &["--tmpfs", root, "--bind", a, a, "--remount-ro", root]);
    let met = tree.agree(&flags).unwrap();
    assert!(met.contains("Fresh, read-only") && met.contains("Host, writable"), "{met:?}");
}

#[test]
fn dev_null_bound_over_a_file_gives_permission_denied() {
    let tree = Tree::below("/var/tmp");
    let file = format!("{}/file", tree.root);
    for flag in ["--bind", "--ro-bind"] {
        let flags = [&BASE[..], &[flag, "/dev/null", &file]].concat();
        assert!(run(&flags, &format!("cat {file}")).1.contains("Permission denied"));
        assert_eq!(view(&flags, &file), View::MaskedFile);
    }
    let with_devices = [&BASE[..], &["--dev-bind", "/dev/null", &file]].concat();
    assert_eq!(run(&with_devices, &format!("cat {file} && echo read")).0, "read\n");
    assert!(matches!(view(&with_devices, &file), View::Host { devices: true, .. }));
}

// SPEC P7
#[test]
fn data_bound_over_a_file_reads_as_passed_and_cannot_be_changed() {
    let tree = Tree::below("/var/tmp");
    let file = format!("{}/file", tree.root);
    // The descriptor is standard input, which is empty here.
    let flags = [&BASE[..], &["--bind", &tree.root, &tree.root, "--ro-bind-data", "0", &file]].concat();
    assert_eq!(run(&flags, &format!("cat {file} && echo read")).0, "read\n");
    for change in [format!("echo x >>{file}"), format!("chmod 600 {file}")] {
        assert!(run(&flags, &change).1.contains("Read-only file system"), "{change}");
    }
    assert!(run(&flags, &format!("rm -f {file}")).1.contains("busy"));
    assert_eq!(view(&flags, &file), View::Data);
}

#[test]
fn masking_a_missing_path_in_a_writable_bind_creates_it_on_the_host() {
    let tree = Tree::below("/var/tmp");
    let missing = format!("{}/new/deeper/file", tree.root);
    let flags = [&BASE[..], &["--bind", &tree.root, &tree.root, "--ro-bind", "/dev/null", &missing]];
    assert_eq!(run(&flags.concat(), "echo started").0, "started\n");
    let left = fs::metadata(&missing).unwrap();
    assert_eq!((left.len(), left.mode() & 0o7777), (0, 0o444));
}

#[test]
fn mounting_onto_an_absolute_symlink_fails() {
    let tree = Tree::below("/var/tmp");
    let link = format!("{}/link", tree.root);
    symlink(format!("{}/a", tree.root), &link).unwrap();
    let onto_host_link = [&BASE[..], &["--tmpfs", &link]].concat();
    let (stdout, stderr) = run(&onto_host_link, "echo started");
    assert_eq!(stdout, "");
    assert!(stderr.contains(&link), "{stderr}");

    // The model knows a link that the argv itself makes, and refuses it, too.
    let own = ["--tmpfs", &tree.root, "--symlink", "/etc", &link, "--tmpfs", &link];
    let own = [&BASE[..], &own].concat();
    assert_eq!(run(&own, "echo started").0, "");
    assert!(matches!(model(&strings(&own)), Err(ModelError::NotModelled { .. })));
}

#[test]
fn a_later_bind_that_covers_dev_breaks_dev_null() {
    let flags = ["--dev", "/dev", "--ro-bind", "/", "/"];
    assert!(run(&flags, "echo x >/dev/null").1.contains("Permission denied"));
    assert_eq!(view(&flags, "/dev/null"), View::MaskedFile);

    let flags = ["--ro-bind", "/", "/", "--dev", "/dev"];
    assert_eq!(run(&flags, "echo x >/dev/null && echo written").0, "written\n");
    assert_eq!(view(&flags, "/dev/null"), View::Dev);
}

#[test]
fn a_closed_directory_can_be_reopened_only_while_its_tmpfs_is_writable() {
    let tree = Tree::below("/var/tmp");
    let (a, aa) = (&tree.directories[1], &format!("{}/a", tree.directories[1]));
    let closed = [&BASE[..], &["--perms", "0000", "--tmpfs", a, "--bind", aa, aa]].concat();
    let locked = [&closed[..], &["--remount-ro", a]].concat();
    for (flags, reopenable) in [(closed, true), (locked, false)] {
        tree.agree(&strings(&flags)).unwrap();
        assert_eq!(view(&flags, aa), View::Unreachable { closed: abs(a), reopenable });
        let (stdout, _) = run(&flags, &format!("chmod 0700 {a}; cat {aa}/file"));
        assert_eq!(stdout == *aa, reopenable, "{stdout}");
    }
}

#[test]
fn without_a_bind_the_root_is_an_empty_writable_tmpfs() {
    let flags = "--ro-bind /usr /usr --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 \
                 --dir /made --ro-bind /bin/sh /deep/er/sh";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let script = "stat -c %a / /made /deep; test -e /etc || echo absent; true >/new && echo writable";
    let words = [strings(&flags), strings(&["--", "/deep/er/sh", "-c", script])].concat();
    let (stdout, stderr) = texts(&bwrap(&words));
    assert_eq!(stdout, "755\n755\n700\nabsent\nwritable\n", "{stderr}");
    for (path, mode) in [("/", 0o755), ("/made", 0o755), ("/deep", 0o700)] {
        assert_eq!(view(&flags, path), View::Fresh { mode, writable: true });
    }
    assert_eq!(view(&flags, "/etc"), View::Absent { creatable: true });
}

#[test]
fn the_model_of_a_whole_policy_agrees_with_the_kernel() {
    let tree = Tree::below("/tmp");
    let root = &tree.root;
    let [secret, deep, public, key] = ["a", "a/b", "a/b/a", "b/file"].map(|p| format!("{root}/{p}"));
    let head = "--die-with-parent --unshare-all --share-net --ro-bind / / --dev /dev --proc /proc \
                --tmpfs /run --perms 0700 --tmpfs /run/user/1000 --tmpfs /run/agent-sandbox \
                --dir /run/agent-sandbox/inside --remount-ro /run/agent-sandbox --remount-ro /run \
                --perms 1777 --tmpfs /tmp";
    let head: Vec<&str> = head.split_whitespace().collect();
    let open = ["--bind-try", root, root, "--perms", "0111", "--tmpfs", &secret];
    let reopen = ["--perms", "0111", "--dir", &deep, "--bind-try", &public, &public];
    let end = ["--remount-ro", &secret, "--ro-bind", "/dev/null", &key, "--chdir", root];
    let flags = [&head[..], &open, &reopen, &end].concat();
    let met = tree.agree(&strings(&flags)).unwrap();
    let all = ["Absent", "Fresh, read-only", "Host, writable", "MaskedFile", "Not renamed", "Renamed"];
    assert_eq!(met, BTreeSet::from(all));

    let script = "stat -c %a /run /run/user /run/user/1000; true >/run/x || true >/run/agent-sandbox/x || pwd";
    assert_eq!(run(&flags, script).0, format!("755\n700\n700\n{root}\n"));
    for (path, mode, writable) in [
        ("/run", 0o755, false),
        ("/run/user", 0o700, false),
        ("/run/user/1000", 0o700, true),
        ("/run/agent-sandbox/inside", 0o755, false),
    ] {
        assert_eq!(view(&flags, path), View::Fresh { mode, writable });
    }
}

#[test]
fn the_model_of_network_and_environment_agrees_with_the_kernel() {
    let outside = fs::read_link("/proc/self/ns/net").unwrap().to_str().unwrap().to_owned();
    for flags in [&["--unshare-all", "--share-net"][..], &["--unshare-all"], &["--share-net", "--unshare-all"]] {
        let flags = [flags, &BASE].concat();
        let (inside, _) = run(&flags, "readlink /proc/self/ns/net");
        let model = model(&strings(&flags)).unwrap();
        assert_eq!(inside.trim_end() == outside, !model.is_unshared(Namespace::Net));
    }
    let flags = strings(&[&BASE[..], &["--chdir", "/usr"]].concat());
    let words = [&flags[..], &strings(&["--", "/usr/bin/env", "-0"])].concat();
    let outer = std::env::vars_os().chain([("LC_ALL".into(), "C".into())]);
    let environment = model(&flags).unwrap().environment(outer);
    let expected: BTreeSet<String> =
        environment.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect();
    let inside = texts(&bwrap(&words)).0;
    assert_eq!(inside.split_terminator('\0').map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}
