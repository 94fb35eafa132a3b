//! Builders that several suites share: real trees in temporary folders, and places in which the
//! built binary runs as an ordinary user.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod effective;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use agent_sandbox::audit::verify::model_files;
use agent_sandbox::compile::lower::{Argv, CgroupSource, Kernel, Machine, MountFiles};
use agent_sandbox::compile::request::Request;
use agent_sandbox::compile::{self, Compiled};
use agent_sandbox::diagnostic::Diagnostics;
use agent_sandbox::host::Host;
use agent_sandbox::host::session::Session;
use agent_sandbox::model::{Model, ModelError, ModelFiles};
use agent_sandbox::policy::path::AbsPath;
use agent_sandbox::policy::path_json::Word;
use agent_sandbox::trust::{self, Judged};
use tempfile::TempDir;

/// The id of "an ordinary user" when the tests themselves run as root. It has no entry in
/// `/etc/passwd` and owns nothing but what the tests give it.
pub const USER: u32 = 12345;

pub fn abs(path: impl AsRef<Path>) -> AbsPath {
    AbsPath::normalize(path).expect("an absolute path")
}

/// A real directory tree that stands for a whole host. [`Tree::compile`] compiles for it.
pub struct Tree {
    root: TempDir,
}

impl Tree {
    /// `home/u/proj/` is a directory, `a/b` an empty file, `a/l -> t` a symlink, `a/f = text` a
    /// file with content, `a/s=` a socket without a listener, `a/h => a/b` one more name of the
    /// file `a/b`, `a/x *` an empty file that can be executed. Missing parents are made.
    pub fn new<S: AsRef<str>>(entries: impl IntoIterator<Item = S>) -> Self {
        let tree = Self { root: tempfile::tempdir().expect("a temporary folder") };
        for entry in entries {
            tree.add(entry.as_ref());
        }
        tree
    }

    pub fn add(&self, entry: &str) {
        if let Some((path, target)) = entry.split_once(" -> ") {
            symlink(target, self.make_parent(path)).unwrap();
        } else if let Some((path, file)) = entry.split_once(" => ").filter(|(path, _)| !path.contains(" = ")) {
            fs::hard_link(self.real(file), self.make_parent(path)).unwrap();
        } else if let Some((path, content)) = entry.split_once(" = ") {
            fs::write(self.make_parent(path), content).unwrap();
        } else if let Some(path) = entry.strip_suffix(" *") {
            fs::write(self.make_parent(path), "").unwrap();
            fs::set_permissions(self.real(path), fs::Permissions::from_mode(0o755)).unwrap();
        } else if let Some(path) = entry.strip_suffix('/') {
            fs::create_dir_all(self.real(path)).unwrap();
        } else if let Some(path) = entry.strip_suffix('=') {
            let (kind, mode) = (rustix::fs::FileType::Socket, rustix::fs::Mode::from_raw_mode(0o755));
            rustix::fs::mknodat(rustix::fs::CWD, self.make_parent(path), kind, mode, 0).unwrap();
        } else {
            fs::write(self.make_parent(entry), "").unwrap();
        }
    }

    /// Makes a folder a git repository that tracks all files in it.
    pub fn track(&self, folder: &str) {
        for words in [&["init", "-q"][..], &["add", "-A"]] {
            let mut git = Command::new("git");
            git.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.root.path());
            git.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(self.real(folder)).args(words);
            assert!(git.status().unwrap().success());
        }
    }

    fn make_parent(&self, path: &str) -> PathBuf {
        let real = self.real(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        real
    }

    pub fn real(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(path.as_ref().strip_prefix("/").unwrap_or(path.as_ref()))
    }

    pub fn host(&self) -> Host {
        Host::at(self.root.path())
    }

    /// Compiles with `cwd` as the working directory and `/home/u` as the home of the user 1000.
    pub fn compile(&self, cwd: &str, request: &Request) -> (Option<Compiled>, Diagnostics) {
        self.compile_as(&session(cwd), request)
    }

    pub fn compile_as(&self, session: &Session, request: &Request) -> (Option<Compiled>, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let compiled = compile::compile(&self.host(), session, request, &mut diagnostics);
        (compiled, diagnostics)
    }
}

impl Tree {
    /// Compiles, and judges the project's own file.
    pub fn judge(&self, cwd: &str, request: &Request) -> (Option<Judged>, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let judged = trust::compile(&self.host(), &session(cwd), request, &mut diagnostics);
        (judged, diagnostics)
    }
}

pub fn session(cwd: &str) -> Session {
    let env = BTreeMap::from([(OsString::from("HOME"), OsString::from("/home/u"))]);
    Session { cwd: abs(cwd), uid: 1000, env, executable: Some(abs("/usr/bin/agent-sandbox")), memory: u64::MAX }
}

fn cgroup() -> CgroupSource {
    let (systemd_run, env) = (abs("/usr/bin/systemd-run"), abs("/usr/bin/env"));
    CgroupSource::Systemd { systemd_run, env, runtime: abs("/run/user/1000") }
}

/// A machine that supports every feature.
pub fn machine() -> Machine {
    Machine {
        bwrap: abs("/usr/bin/bwrap"),
        kernel: Kernel { landlock: true, landlock_changes: true, seccomp: true },
        disables_userns: true,
        own_mounts: false,
        mount_files: MountFiles::In(abs("/home/u/.local/state/agent-sandbox/mounts")),
        takes_size: true,
        cgroup: Some(cgroup()),
    }
}

/// The argv that runs `true`.
pub fn argv(compiled: &Compiled) -> Argv {
    let mut diagnostics = Diagnostics::default();
    let argv = compiled.argv(&machine(), &["true".into()], &mut diagnostics);
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    argv
}

/// Whether this is the target of the link of a private file.
pub fn leads_to_copy(target: &OsStr) -> bool {
    Path::new(target).starts_with("/run/agent-sandbox/private")
}

/// The arguments of the argv that runs `true`.
pub fn words(compiled: &Compiled) -> Vec<OsString> {
    argv(compiled).words()
}

/// The model of an argv, guard included, where each bind's source exists.
pub fn read(argv: &Argv) -> Result<Model, ModelError> {
    Model::read(&argv.words(), &model_files(argv), |_| true)
}

pub fn model(compiled: &Compiled) -> Model {
    read(&argv(compiled)).unwrap()
}

/// The model of an argv that `--print-args=json` printed.
pub fn model_of_printed(printed: &serde_json::Value, exists: impl Fn(&AbsPath) -> bool) -> Model {
    let word = |value: &serde_json::Value| serde_json::from_value::<Word>(value.clone()).unwrap().0;
    let words: Vec<OsString> = printed["argv"].as_array().unwrap().iter().map(word).collect();
    let mut files = ModelFiles::default();
    for file in printed["files"].as_array().unwrap() {
        let path = abs(word(&file["path"]));
        match file.get("content") {
            Some(content) => _ = files.contents.insert(path, word(content).into_vec()),
            None => _ = files.unreadable.insert(path),
        }
    }
    for data in printed["data"].as_array().unwrap() {
        let number = i32::try_from(data["descriptor"].as_i64().unwrap()).unwrap();
        files.descriptors.insert(number, word(&data["content"]).into_vec());
    }
    Model::read(&words, &files, exists).unwrap()
}

/// A folder in which the built binary runs for real: a home and a project in it, owned by an
/// ordinary user.
pub struct Place {
    folder: TempDir,
    pub uid: u32,
}

impl Place {
    /// Below `/tmp`, which is private inside.
    pub fn in_tmp() -> Self {
        Self::below(Path::new("/tmp"), ordinary_uid())
    }

    /// Below the build folder, which the sandbox shows read-only.
    pub fn outside_tmp() -> Self {
        Self::below(build_folder(), ordinary_uid())
    }

    /// Below `/tmp`, owned by root. Root of a user namespace cannot give files to another user.
    pub fn root_in_tmp() -> Self {
        Self::below(Path::new("/tmp"), 0)
    }

    pub fn root_outside_tmp() -> Self {
        Self::below(build_folder(), 0)
    }

    fn below(parent: &Path, uid: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("agent-sandbox-test-").tempdir_in(parent).unwrap();
        let folder = Self { folder, uid };
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(folder.project()).unwrap();
        // The home is not a new one: the paths that a start creates in a new home (SPEC P9) exist.
        for made in Self::MADE_FOR_PROGRAMS {
            fs::create_dir(folder.home().join(made)).unwrap();
        }
        folder.give_away();
        folder
    }

    /// Folders that a start creates in a new home, for programs on the PATH of the tests.
    const MADE_FOR_PROGRAMS: [&str; 2] = [".cache", ".npm"];

    /// Makes the home a new one.
    pub fn renew_home(&self) {
        for made in Self::MADE_FOR_PROGRAMS {
            fs::remove_dir_all(self.home().join(made)).unwrap();
        }
    }

    /// Gives the place to root.
    pub fn for_root(mut self) -> Self {
        self.uid = 0;
        self.give_away();
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub fn project(&self) -> PathBuf {
        self.home().join("code/project")
    }

    /// Writes a file below the folder, with its parents.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self.give_away();
    }

    /// Makes the ordinary user the owner of all files in the place.
    pub fn give_away(&self) {
        if rustix::process::getuid().is_root() {
            give(self.path(), self.uid);
        }
    }

    /// The built binary, as the ordinary user, in the project.
    pub fn agent_sandbox(&self) -> Command {
        self.command(binary())
    }

    /// Gives consent to the project's file, as a user does. The file and the paths that it opens
    /// must be final.
    #[track_caller]
    pub fn trust(&self) {
        let output = self.agent_sandbox().args(["trust", "--yes"]).output().unwrap();
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    }

    /// A command of the same user in the project, outside of a sandbox.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .current_dir(self.project())
            .stdin(Stdio::null());
        if rustix::process::getuid().is_root() && self.uid != 0 {
            command.uid(self.uid).gid(self.uid);
        }
        command
    }
}

/// The product, at a path that the ordinary user can execute.
pub fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_agent-sandbox"))
}

/// A folder of this build, which the sandbox shows read-only.
pub fn build_folder() -> &'static Path {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    assert!(!target.starts_with("/tmp"), "the build folder {target:?} must not be below /tmp for this test");
    target
}

fn ordinary_uid() -> u32 {
    let uid = rustix::process::getuid();
    if uid.is_root() { USER } else { uid.as_raw() }
}

/// Changes the owner of all files at and below the path. Skips files that a command removes or
/// renames meanwhile: they already belong to the user.
fn give(path: &Path, uid: u32) {
    let unless_gone = |result: std::io::Result<()>| match result {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        result => result.unwrap(),
    };
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.uid() != uid {
        unless_gone(lchown(path, Some(uid), Some(uid)));
    }
    if found.is_dir() {
        unless_gone(fs::read_dir(path).map(|entries| {
            for entry in entries {
                give(&entry.unwrap().path(), uid);
            }
        }));
    }
}

/// A suite that needs bwrap fails without it, because a skipped test would count as passed.
pub fn require_bwrap() {
    let found = Command::new("bwrap").arg("--version").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "these tests need bwrap: run scripts/test, which installs it"
    );
}

/// Kills the process if it is a child of bwrap that waits forever, and no other process. bwrap 0.8
/// forks before the child can ask to die with its parent. If bwrap is killed in between, it leaves
/// a child that has neither mounted nor run anything.
pub fn end_if_unborn(pid: u32) {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let is_first = read("status").lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"));
    let is_childless = read(&format!("task/{pid}/children")).trim().is_empty();
    if is_first && is_childless && read("comm") == "bwrap\n" {
        // The process may have ended by itself.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The settings for the snapshots of one suite, which are at the top of the tree and reviewed like
/// code.
pub fn snapshots(suite: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(suite));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// Writes a program. Another process does it: a file that this one has open for writing while
/// another test forks cannot be executed (ETXTBSY).
pub fn write_program(path: &Path, text: &str) {
    let status = Command::new("sh")
        .args(["-c", "mkdir -p -- \"$(dirname -- \"$1\")\" && printf %s \"$2\" >\"$1\" && chmod 755 -- \"$1\"", "sh"])
        .arg(path)
        .arg(text)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cannot write {path:?}");
}
