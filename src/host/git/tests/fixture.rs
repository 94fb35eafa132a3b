//! Real repositories in a temporary directory, made by the real `git`.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::policy::path::AbsPath;

pub(crate) struct Fixture {
    _folder: TempDir,
    top: PathBuf,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        Self { _folder: folder, top }
    }

    /// A repository with one commit, which holds `file`.
    pub(crate) fn with_repository(name: &str) -> Self {
        let fixture = Self::new();
        fixture.init(name, &[]);
        fixture
    }

    pub(crate) fn init(&self, name: &str, options: &[&str]) {
        let folder = self.top.join(name);
        fs::create_dir_all(&folder).unwrap();
        self.git(name, &[&["init", "-q", "-b", "main"], options].concat());
        self.write(&format!("{name}/file"), "content\n");
        self.git(name, &["add", "file"]);
        self.git(name, &["commit", "-q", "-m", "first"]);
    }

    /// Runs git in the folder `within`, with the repository's own settings alone. Returns its
    /// output.
    pub(crate) fn git(&self, within: &str, arguments: &[&str]) -> String {
        let settings = ["user.name=t", "user.email=t@example.org", "protocol.file.allow=always", "core.fsync=none"];
        let output = Command::new("git")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.top)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .current_dir(self.top.join(within))
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn symlink(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.top.join(path)).unwrap();
    }

    pub(crate) fn real(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    pub(crate) fn abs(&self, path: &str) -> AbsPath {
        AbsPath::normalize(self.top.join(path)).unwrap()
    }

    /// `text` without the name of the temporary directory.
    pub(crate) fn shortened(&self, text: &str) -> String {
        text.replace(self.top.to_str().unwrap(), "")
    }
}
