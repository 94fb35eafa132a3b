//! Starts agent-sandbox, and examines the access of a process inside.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Place, binary, stderr, stdout};

/// A policy with `@base` alone: only the project is writable. A test adds its rules.
pub const BASE_ONLY: &str = "[filesystem]\npresets = [\"!@all\", \"@base\"]\n";

/// Writes `BASE_ONLY` and `rules` as the user's policy: a project's file that removes presets needs
/// consent. The project has an empty file, which marks its root.
pub fn policy(place: &Place, rules: &str) {
    place.write("home/.config/agent-sandbox/config.toml", format!("{BASE_ONLY}{rules}"));
    write(place, ".agent-sandbox.toml", "# what counts is in the user's file\n");
}

/// Writes a file of the project.
pub fn write(place: &Place, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    place.write(place.project().join(path), content);
}

/// agent-sandbox with the flags that the test needs. A project's file that removes presets needs
/// consent, but not if the caller names it with `--config`.
pub fn sandbox(place: &Place) -> Command {
    let mut command = place.agent_sandbox();
    let file = place.project().join(".agent-sandbox.toml");
    if fs::read_to_string(&file).is_ok_and(|text| text.contains(BASE_ONLY)) {
        command.arg("--config").arg(file);
    }
    if place.uid == 0 {
        command.arg("--allow-root");
    }
    command
}

/// agent-sandbox without `--allow-root`, on a host with exactly these marker files of containers.
pub fn marked(place: &Place, markers: &[&str]) -> Command {
    let mut command = with_markers(place, markers);
    command.arg(binary());
    command
}

/// Runs the arguments that follow in a root directory that has exactly these marker files of
/// containers. This machine may itself be a container, and no mount can hide its marker file.
pub fn with_markers(place: &Place, markers: &[&str]) -> Command {
    let mut command = place.command("bwrap");
    command.args(["--cap-add", "ALL"]);
    for entry in fs::read_dir("/").unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            command.arg("--symlink").arg(fs::read_link(entry.path()).unwrap()).arg(entry.path());
        } else if kind.is_dir() && entry.file_name() != "run" {
            command.arg("--dev-bind").args([entry.path(), entry.path()]);
        }
    }
    command.args(["--tmpfs", "/run"]).args(markers.iter().flat_map(|marker| ["--dir", marker]));
    command.arg("--chdir").arg(place.project()).arg("--");
    command
}

/// Runs agent-sandbox with these arguments: flags, and then the command.
pub fn run<S: AsRef<OsStr>>(place: &Place, words: &[S]) -> Output {
    sandbox(place).args(words).output().unwrap()
}

/// The output of a shell script inside. It must succeed.
pub fn shell(place: &Place, script: &str) -> String {
    shell_with(place, &[], script)
}

pub fn shell_with(place: &Place, flags: &[&str], script: &str) -> String {
    succeeded(sandbox(place).args(flags).args(["--", "sh", "-c", script]).output().unwrap())
}

/// The output of a Python program inside, or outside with [`Place::command`].
pub fn python(command: &mut Command, program: &str, arguments: &[&str]) -> String {
    succeeded(command.args(["/usr/bin/python3", "-I", "-c", program]).args(arguments).output().unwrap())
}

#[track_caller]
pub fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}\n{}{}", output.status, stdout(&output), stderr(&output));
    stdout(&output)
}

/// Asserts that agent-sandbox itself failed, with this exit code and a message that has `cause`.
#[track_caller]
pub fn failed(output: &Output, code: i32, cause: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(cause), "not {cause}: {said}");
    assert_eq!(stdout(output), "", "the command must not run");
}

/// Asserts that an answer in JSON fits its schema.
#[track_caller]
pub fn assert_fits(schema: &str, answer: &Value) {
    let text = fs::read_to_string(format!("{}/schema/{schema}.schema.json", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap();
    let mistakes: Vec<String> = validator.iter_errors(answer).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(mistakes.is_empty(), "{mistakes:?}");
}

/// The answer of the probe for a path: `ok`, or the name of the error, for reading and for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub kind: String,
    pub read: String,
    pub write: String,
}

impl Found {
    pub fn new(kind: &str, read: &str, write: &str) -> Self {
        Self { kind: kind.into(), read: read.into(), write: write.into() }
    }

    /// No file is visible, because of this error.
    pub fn none(error: &str) -> Self {
        Self::new("none", error, error)
    }

    pub fn rw(kind: &str) -> Self {
        Self::new(kind, "ok", "ok")
    }

    pub fn ro(kind: &str) -> Self {
        Self::new(kind, "ok", "EROFS")
    }

    pub fn masked_file() -> Self {
        Self::new("file", "EACCES", "EACCES")
    }
}

/// A command that reports the access at the paths on its standard input.
pub const PROBE: [&str; 5] = ["/usr/bin/python3", "-I", "-S", "-c", include_str!("probe.py")];

/// Asks the probe inside about each path.
pub fn probe<F: AsRef<OsStr>>(place: &Place, flags: &[F], paths: &[PathBuf]) -> Vec<Found> {
    let mut command = sandbox(place);
    command.args(flags).arg("--").args(PROBE);
    answers(&mut command, paths)
}

/// The answer of the probe, which `command` starts, for each path.
pub fn answers(command: &mut Command, paths: &[PathBuf]) -> Vec<Found> {
    let input: Vec<u8> = paths.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    let output = succeeded(with_input(command, &input));
    let found: Vec<Found> = output.lines().map(read_answer).collect();
    assert_eq!(found.len(), paths.len(), "{output}");
    found
}

fn read_answer(line: &str) -> Found {
    let answer: Value = serde_json::from_str(line).unwrap();
    let text = |key: &str| match &answer[key] {
        Value::Number(number) => errno_name(number.as_i64().unwrap()),
        value => value.as_str().unwrap_or_default().to_owned(),
    };
    match answer.get("error") {
        Some(_) => Found::none(&text("error")),
        None => Found { kind: text("kind"), read: text("read"), write: text("write") },
    }
}

fn errno_name(number: i64) -> String {
    match number {
        2 => "ENOENT".to_owned(),
        13 => "EACCES".to_owned(),
        20 => "ENOTDIR".to_owned(),
        30 => "EROFS".to_owned(),
        other => format!("errno {other}"),
    }
}

/// Runs a command with `input` on its standard input, which must not be larger than a pipe holds.
pub fn with_input(command: &mut Command, input: &[u8]) -> Output {
    assert!(input.len() < 60_000, "{} bytes would block", input.len());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// All files below a path, with the attributes that a change would alter.
pub fn snapshot(path: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    describe(path, Path::new(""), &mut lines);
    lines.sort();
    lines
}

fn describe(root: &Path, relative: &Path, lines: &mut Vec<String>) {
    use std::os::unix::fs::MetadataExt;
    let path = root.join(relative);
    let found = fs::symlink_metadata(&path).unwrap();
    let content = match found.file_type() {
        kind if kind.is_file() => String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
        kind if kind.is_symlink() => format!("-> {}", fs::read_link(&path).unwrap().display()),
        _ => String::new(),
    };
    let attributes = attributes(&path);
    let (mode, links, time) = (found.mode(), found.nlink(), (found.mtime(), found.mtime_nsec()));
    lines.push(format!("{} {mode:o} {links} {time:?} {attributes:?} {content:?}", relative.display()));
    if found.is_dir() {
        for entry in fs::read_dir(&path).unwrap() {
            describe(root, &relative.join(entry.unwrap().file_name()), lines);
        }
    }
}

/// The names of a file's `user.*` attributes.
fn attributes(path: &Path) -> String {
    let mut names = [0; 1024];
    // A file system without attributes answers with an error, and has none that could change.
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or_default();
    String::from_utf8_lossy(&names[..length]).split('\0').filter(|name| name.starts_with("user.")).collect()
}

/// The folder of the journals.
pub fn runs(place: &Place) -> PathBuf {
    place.home().join(".local/state/agent-sandbox/runs")
}

pub fn journals(place: &Place) -> usize {
    let names = fs::read_dir(runs(place)).into_iter().flatten().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(".journal")).count()
}
