//! Runs bwrap as an ordinary user, and makes the model of the same arguments.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use agent_sandbox::model::{Model, ModelError, ModelFiles, ModelView as View};
use agent_sandbox::policy::path::AbsPath;

/// Root runs bwrap as this user, because modes do not stop a process with root's capabilities.
const ORDINARY_USER: u32 = 12_345;

fn we_are_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

pub fn give_away(path: impl AsRef<Path>) {
    if we_are_root() {
        chown(path, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
    }
}

pub fn bwrap(words: &[String]) -> Output {
    let mut command = Command::new("bwrap");
    command.args(words).env("LC_ALL", "C").current_dir("/");
    if we_are_root() {
        command.uid(ORDINARY_USER).gid(ORDINARY_USER);
    }
    command.output().unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound => panic!("bwrap is missing: install the package `bubblewrap`"),
        _ => panic!("bwrap cannot be run: {error}"),
    })
}

/// Runs `script` inside, and returns its standard output and standard error.
pub fn run(flags: &[&str], script: &str) -> (String, String) {
    texts(&bwrap(&[strings(flags), strings(&["--", "sh", "-c", script])].concat()))
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

pub fn model(flags: &[String]) -> Result<Model, ModelError> {
    let words = [&strings(&["bwrap"]), flags, &strings(&["--", "true"])].concat();
    Model::read(&words, &ModelFiles::default(), |path| path.as_path().exists())
}

pub fn view(flags: &[&str], path: &str) -> View {
    model(&strings(flags)).unwrap().view(&abs(path))
}

pub fn identity(path: impl AsRef<Path>) -> Option<String> {
    fs::symlink_metadata(path).ok().map(|node| format!("{}:{}", node.dev(), node.ino()))
}

pub fn abs(path: &str) -> AbsPath {
    AbsPath::normalize(path).unwrap()
}

pub fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub const BASE: [&str; 8] = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent"];

pub fn above(base: &[&'static str], more: &[&str]) -> Vec<String> {
    [strings(base), strings(more)].concat()
}
