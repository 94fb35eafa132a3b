//! The meaning of arguments. `tests/model_kernel` compares views with real sandboxes.
#![allow(clippy::unwrap_used)]

use std::os::unix::ffi::OsStrExt;

use super::*;

fn words(flags: &str) -> Vec<OsString> {
    let all = format!("bwrap {flags} -- true");
    all.split_whitespace().map(OsString::from).collect()
}

/// Reads an argv for a host where each source of a bind exists.
fn read<S: AsRef<OsStr>>(argv: &[S]) -> Result<Model, ModelError> {
    Model::read(argv, &ModelFiles::default(), |_| true)
}

fn model(flags: &str) -> Model {
    read(&words(flags)).unwrap()
}

fn error(flags: &str) -> String {
    read(&words(flags)).err().map(|error| error.to_string()).unwrap_or_default()
}

fn abs(path: &str) -> AbsPath {
    AbsPath::normalize(path).unwrap()
}

fn host(source: &str, writable: bool) -> ModelView {
    ModelView::Host { source: abs(source), writable, devices: false }
}

#[test]
fn a_flag_that_is_not_understood_is_an_error() {
    let unknown = |flag| format!("`{flag}` is not a bwrap flag that the model knows");
    for flag in
        ["--overlay-src", "--unsetenv", "--unshare-net", "--bind-data", "--file", "--args", "--chmod", "/", "-v"]
    {
        assert_eq!(error(&format!("--ro-bind / / {flag} 3 /x")), unknown(flag));
    }
    let stray_bytes = [OsStr::new("bwrap"), OsStr::from_bytes(b"--\xff"), OsStr::new("--")];
    let error = read(&stray_bytes).err().unwrap();
    assert_eq!(error.to_string(), unknown("--\\xff"));
}

#[test]
fn arguments_that_bwrap_refuses_are_errors() {
    let refused = [
        ("--perms 0700 --ro-bind / /", "`--perms` does not apply to `--ro-bind`"),
        ("--perms 0700 --perms 0700 --tmpfs /a", "`--perms` does not apply to `--perms`"),
        ("--perms 0700", "`--perms` does not apply to `--`"),
        ("--size 4096 --dir /a", "`--size` does not apply to `--dir`"),
        ("--size 4096 --size 4096 --tmpfs /a", "`--size` does not apply to `--size`"),
        ("--size 4096 --perms 0700 --dir /a", "`--size` does not apply to `--dir`"),
        ("--size 4096", "`--size` does not apply to `--`"),
        ("--size 0 --tmpfs /a", "`--size 0` is invalid: expected a number of bytes"),
        ("--size 1K --tmpfs /a", "`--size 1K` is invalid: expected a number of bytes"),
        ("--perms 0800 --tmpfs /a", "`--perms 0800` is invalid: expected an octal mode up to 7777"),
        ("--perms 17777 --tmpfs /a", "`--perms 17777` is invalid: expected an octal mode up to 7777"),
        ("--disable-userns --unshare-all", "`--disable-userns` needs `--unshare-user`"),
        ("--tmpfs /a --remount-ro /a --dir /a/b", "`/a/b` cannot be made: the tmpfs at `/a` is read-only by then"),
        ("--dir /a --symlink b /a", "`/a` exists already"),
    ];
    for (flags, sentence) in refused {
        assert_eq!(error(flags), sentence);
    }
}

#[test]
fn the_model_refuses_arguments_that_it_cannot_interpret() {
    let refused = [
        ("--bind a /a", "`a` of `--bind` is not an absolute path in normal form"),
        ("--bind /a /a/../b", "`/a/../b` of `--bind` is not an absolute path in normal form"),
        ("--tmpfs /a/", "`/a/` of `--tmpfs` is not an absolute path in normal form"),
        (
            "--cap-add CAP_SYS_ADMIN",
            "`--cap-add CAP_SYS_ADMIN` is not modelled: a capability may undo what the mounts say",
        ),
        ("--bind / / --remount-ro /", "`--remount-ro /` is not modelled: no tmpfs of this argv is seen there"),
        ("--bind / / --symlink a /b", "`--symlink /b` is not modelled: it would be made outside a tmpfs"),
        ("--symlink /a /b --tmpfs /b/c", "`--symlink /b` is not modelled: a later operation passes through it"),
    ];
    for (flags, sentence) in refused {
        assert_eq!(error(flags), sentence);
    }
}

#[test]
fn a_command_is_needed_and_starts_after_the_dashes() {
    let command = |argv: &[&str]| read(argv).map(|model| model.command);
    assert_eq!(command(&["/usr/bin/bwrap", "--", "env", "--bind"]), Ok(vec!["env".into(), "--bind".into()]));
    assert_eq!(command(&["bwrap", "--ro-bind", "/", "/"]), Err(ModelError::NoCommand));
    assert_eq!(command(&["bwrap", "--"]), Err(ModelError::NoCommand));
    assert_eq!(command(&["bwrap", "--chdir"]), Err(ModelError::MissingValue { flag: "--chdir".into() }));
    assert_eq!(command(&["env", "--", "true"]), Err(ModelError::NotBwrap));
    assert_eq!(command(&[]), Err(ModelError::NotBwrap));
}

#[test]
fn bwrap_accepts_at_most_nine_thousand_arguments() {
    let length = |count: usize| {
        let mut words = vec!["bwrap", "--"];
        words.resize(1 + count, "x");
        read(&words).map(|model| model.command.len())
    };
    assert_eq!(length(9_000), Ok(8_999));
    assert_eq!(length(9_001), Err(ModelError::TooManyWords { limit: 9_000 }));
}

#[test]
fn the_last_network_argument_decides_whether_the_network_is_shared() {
    assert!(!model("").is_unshared(Namespace::Net));
    assert!(!model("--unshare-all --share-net").is_unshared(Namespace::Net));
    assert!(model("--unshare-all").is_unshared(Namespace::Net));
    assert!(model("--share-net --unshare-all").is_unshared(Namespace::Net));
    assert!(model("--unshare-all --share-net").is_unshared(Namespace::Pid));
}

#[test]
fn the_environment_names_the_working_directory() {
    let outer = || [("A", "1"), ("PWD", "/x")].map(|(name, value)| (name.into(), value.into()));
    let inner = |flags| -> Vec<String> {
        let environment = model(flags).environment(outer());
        environment.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect()
    };
    assert_eq!(inner(""), ["A=1", "PWD=/x"]);
    assert_eq!(inner("--chdir /y"), ["A=1", "PWD=/y"]);
    assert_eq!(inner("--setenv A 2 --setenv B 3"), ["A=2", "B=3", "PWD=/x"]);
}

#[test]
fn a_bind_shows_its_source_and_its_access() {
    let model = model("--ro-bind / / --bind /src /dst --dev-bind /dev/kvm /kvm --ro-bind /dev/null /dst/key");
    assert_eq!(model.view(&abs("/etc/hosts")), host("/etc/hosts", false));
    assert_eq!(model.view(&abs("/dst/a/b")), host("/src/a/b", true));
    assert_eq!(model.view(&abs("/dst-2")), host("/dst-2", false));
    let kvm = ModelView::Host { source: abs("/dev/kvm"), writable: true, devices: true };
    assert_eq!(model.view(&abs("/kvm")), kvm);
    assert_eq!(model.view(&abs("/dst/key")), ModelView::MaskedFile);
    assert_eq!(model.view(&abs("/dst/key/x")), ModelView::Absent { creatable: false });
}

#[test]
fn a_missing_source_is_skipped_only_in_the_try_forms() {
    let read = |flags| Model::read(&words(flags), &ModelFiles::default(), |path| *path != abs("/gone"));
    let model = read("--ro-bind / / --bind-try /gone /a").unwrap();
    assert_eq!(model.view(&abs("/a")), host("/a", false));
    let error = read("--bind /gone /a").err().unwrap();
    assert_eq!(error, ModelError::MissingSource { path: abs("/gone") });
}

#[test]
fn a_way_that_stays_closed_outweighs_one_that_can_be_opened() {
    let closed = "--perms 0000 --tmpfs /a --perms 0000 --tmpfs /a/b --bind /x /a/b/c";
    let unreachable = |at, reopenable| ModelView::Unreachable { closed: abs(at), reopenable };
    assert_eq!(model(closed).view(&abs("/a/b/c")), unreachable("/a", true));
    let inner_stays = format!("{closed} --remount-ro /a/b");
    assert_eq!(model(&inner_stays).view(&abs("/a/b/c")), unreachable("/a/b", false));
    assert_eq!(model(&inner_stays).view(&abs("/a/b")), unreachable("/a", true));
    assert_eq!(model(&inner_stays).view(&abs("/a")), ModelView::Fresh { mode: 0, writable: true });
}

#[test]
fn a_link_on_the_way_is_reported_where_it_is() {
    let model = model("--symlink usr/bin /bin");
    let link = ModelView::Symlink { at: abs("/bin"), target: "usr/bin".into() };
    assert_eq!(model.view(&abs("/bin")), link);
    assert_eq!(model.view(&abs("/bin/sh")), link);
}

/// `/r` is writable, and `/r/a/b/c` in it is not.
const PROTECTED: &str = "--bind /r /r --ro-bind /r/a/b/c /r/a/b/c";

fn renamable(flags: &str) -> Vec<&'static str> {
    let model = model(flags);
    ["/", "/r", "/r/a", "/r/a/b", "/r/a/b/c", "/r/a/b/c/d", "/r/n"]
        .into_iter()
        .filter(|path| model.can_rename(&abs(path)))
        .collect()
}

#[test]
fn folders_above_a_mount_can_be_renamed_and_the_mount_point_cannot() {
    assert_eq!(renamable(&format!("--ro-bind / / {PROTECTED}")), ["/r/a", "/r/a/b", "/r/n"]);
}

#[test]
fn a_hidden_mount_keeps_the_directory_of_the_host_that_it_is_on() {
    let pins = "--ro-bind /r/a /r/a --ro-bind /r/a/b /r/a/b";
    for flags in [
        format!("--ro-bind / / {pins} {PROTECTED}"),
        format!("--ro-bind / / --tmpfs /r --bind /r /r {pins} {PROTECTED}"),
        format!("--ro-bind / / {pins} --tmpfs / {PROTECTED}"),
        // The mounted file does not matter, only the mount point.
        format!("--ro-bind / /x --tmpfs /x/r/a --ro-bind /r /y --ro-bind /etc /y/a/b {PROTECTED}"),
    ] {
        assert_eq!(renamable(&flags), ["/r/n"], "{flags}");
    }
}

#[test]
fn a_mount_on_a_tmpfs_keeps_nothing_of_the_host() {
    let flags = format!("--ro-bind / / --tmpfs / --ro-bind /r/a /r/a {PROTECTED}");
    assert_eq!(renamable(&flags), ["/r/a", "/r/a/b", "/r/n"]);
    // The second mount is on a directory that the first one shows. That is a directory of the host.
    let flags = format!("--ro-bind / / --tmpfs / --ro-bind /r/a /r/a --ro-bind /r/a/b /r/a/b {PROTECTED}");
    assert_eq!(renamable(&flags), ["/r/a", "/r/n"]);
}

#[test]
fn directories_on_a_tmpfs_can_be_renamed_until_it_is_read_only() {
    let made = "--perms 0000 --tmpfs /r --dir /r/a/b --tmpfs /r/a/b/c";
    assert_eq!(renamable(made), ["/r/a", "/r/a/b"], "after chmod");
    assert_eq!(renamable(&format!("{made} --remount-ro /r")), [""; 0]);
}
