//! Compiles any bytes as a policy. The compiler may refuse them, but must not panic, hang, or give
//! an argv that the model does not understand.
//!
//! The fuzz target and the bounded test share this file.
#![allow(dead_code, clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use agent_sandbox::audit::verify::model_files;
use agent_sandbox::cli::print::{PrintForm, print};
use agent_sandbox::compile;
use agent_sandbox::compile::lower::{Kernel, Machine, MountFiles};
use agent_sandbox::compile::request::Request;
use agent_sandbox::diagnostic::{Diagnostics, Format, render};
use agent_sandbox::host::Host;
use agent_sandbox::host::session::Session;
use agent_sandbox::model::{Model, ModelView};
use agent_sandbox::policy::path::AbsPath;
use tempfile::TempDir;

const PROJECT_FILE: &str = "home/u/proj/.agent-sandbox.toml";
const USER_FILE: &str = "home/u/.config/agent-sandbox/config.toml";

/// The small host for which every input is compiled.
pub struct Target {
    root: TempDir,
}

/// The result of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Understood,
}

impl Target {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in [
            "dev",
            "proc",
            "run/user/1000",
            "tmp",
            "etc",
            "home/u/.config/agent-sandbox",
            "home/u/.ssh",
            "home/u/proj/src/a/b/c",
        ] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["home/u/proj/.env", "home/u/proj/src/a/b/c/d", "home/u/proj/[x]", "home/u/.ssh/id", "tmp/t"] {
            fs::write(at(file), "").unwrap();
        }
        for (link, target) in [("home", "/home/u"), ("loop", "loop"), ("src/side", "a/b"), ("gone", "nowhere")] {
            symlink(target, at("home/u/proj").join(link)).unwrap();
        }
        Self { root }
    }

    pub fn project(&self) -> PathBuf {
        self.root.path().join("home/u/proj")
    }

    /// Reads `input` as the project's file, the user's file, and flags, with a NUL byte after each.
    /// The first byte of a flag says which one it is.
    pub fn run(&self, input: &[u8]) -> Outcome {
        let mut parts = input.split(|byte| *byte == 0);
        let project = parts.next().unwrap_or_default();
        let user = parts.next().unwrap_or_default();
        let mut request = Request::default();
        for flag in parts {
            let [which, value @ ..] = flag else { continue };
            let value = OsStr::from_bytes(value).to_owned();
            match which % 5 {
                0 => request.ro.push(value),
                1 => request.rw.push(value),
                2 => request.exclude.push(value),
                3 => request.presets.push(value),
                _ => request.no_optimize = true,
            }
        }
        self.compile(project, user, &request)
    }

    pub fn compile(&self, project: &[u8], user: &[u8], request: &Request) -> Outcome {
        fs::write(self.root.path().join(PROJECT_FILE), project).unwrap();
        fs::write(self.root.path().join(USER_FILE), user).unwrap();
        let session = Session {
            cwd: abs("/home/u/proj"),
            uid: 1000,
            env: BTreeMap::from([(OsString::from("HOME"), OsString::from("/home/u"))]),
            executable: None,
            memory: u64::MAX,
        };
        let mut diagnostics = Diagnostics::default();
        let compiled = compile::compile(&Host::at(self.root.path()), &session, request, &mut diagnostics);
        let compiled = compiled.expect("there is a project, whatever the input says");
        let argv = compiled.argv(
            &Machine {
                bwrap: abs("/usr/bin/bwrap"),
                kernel: Kernel { landlock: true, landlock_changes: true, seccomp: true },
                disables_userns: true,
                own_mounts: false,
                mount_files: MountFiles::In(abs("/home/u/.local/state/agent-sandbox/mounts")),
                takes_size: true,
                cgroup: None,
            },
            &["true".into()],
            &mut diagnostics,
        );
        for format in [Format::Text { color: false }, Format::Json] {
            assert_eq!(render(&diagnostics, format).is_empty(), diagnostics.is_empty());
        }
        if diagnostics.has_errors() {
            return Outcome::Refused;
        }
        for form in [PrintForm::Shell, PrintForm::Script, PrintForm::Json, PrintForm::Lines, PrintForm::Annotated] {
            assert!(!print(&argv, form).is_empty());
        }
        let words = argv.words();
        let model =
            Model::read(&words, &model_files(&argv), |_| true).unwrap_or_else(|error| panic!("{error}: {words:?}"));
        assert_eq!(model.cwd.as_ref(), Some(&session.cwd));
        let own_file = model.view(&abs("/home/u/proj").join(".agent-sandbox.toml"));
        let is_writable = matches!(
            own_file,
            ModelView::Host { writable: true, .. }
                | ModelView::Fresh { writable: true, .. }
                | ModelView::Absent { creatable: true }
        );
        assert!(!is_writable, "our own file: {words:?}");
        Outcome::Understood
    }
}

fn abs(path: &str) -> AbsPath {
    AbsPath::normalize(path).unwrap()
}
