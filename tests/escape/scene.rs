//! The scene of an attack: a home and a project with canaries, in which the user starts the
//! product.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::Place;

/// The content of every file that no process inside may read.
pub const CANARY: &str = "canary-that-nobody-inside-may-read";
/// The content of every file that no process inside may change.
pub const ORIGINAL: &str = "#!/bin/sh\n# as the user left it\n";
/// The text that an attacker writes.
pub const PLANTED: &str = "planted";

/// A policy with `@base` alone: only the project is writable. A test adds its rules.
pub const BASE_ONLY: &str = "presets = [\"!@all\", \"@base\"]";
/// The default policy.
pub const DEFAULTS: &str = "presets = []";

/// Turns a hang into a failure. Even on a busy machine, no step takes this long.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Scene {
    pub place: Place,
    control: Option<&'static str>,
}

impl Scene {
    pub fn new(place: Place, control: Option<&'static str>) -> Self {
        place.write("home/.ssh/id_ed25519", format!("{CANARY}\n"));
        Self { place, control }
    }

    /// Whether this is the control of an attack.
    pub fn is_control(&self) -> bool {
        self.control.is_some()
    }

    /// The mitigations to switch off. A control that is described in words switches off none.
    fn off(&self) -> &'static str {
        self.control.filter(|control| !control.contains(' ')).unwrap_or_default()
    }

    pub fn home(&self) -> PathBuf {
        self.place.home()
    }

    pub fn project(&self) -> PathBuf {
        self.place.project()
    }

    /// Writes a file of the project.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        self.place.write(self.project().join(path), content);
    }

    pub fn write_home(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        self.place.write(self.home().join(path), content);
    }

    pub fn mkdir(&self, path: impl AsRef<Path>) {
        fs::create_dir_all(self.project().join(path)).unwrap();
        self.place.give_away();
    }

    /// Writes the user's policy, which needs no consent: presets, then rules.
    pub fn policy(&self, presets: &str, rules: &str) {
        self.write_home(".config/agent-sandbox/config.toml", format!("[filesystem]\n{presets}\n{rules}\n"));
    }

    /// The current content of a file of the project on the host.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        fs::read(self.project().join(path)).ok()
    }

    /// Whether a protected file of the project has changed.
    pub fn changed(&self, path: impl AsRef<Path>) -> bool {
        self.bytes(path) != Some(ORIGINAL.into())
    }

    /// The product, started by its user in the project.
    pub fn product(&self) -> Command {
        let mut command = self.place.agent_sandbox();
        self.prepare(&mut command);
        command
    }

    /// Adds the switches of the control, and the flag that root needs.
    pub fn prepare(&self, command: &mut Command) {
        self.switch_off(command);
        if self.place.uid == 0 {
            command.arg("--allow-root");
        }
    }

    pub fn switch_off(&self, command: &mut Command) {
        command.env("AGENT_SANDBOX_ABLATE", self.off());
    }

    /// A command of the user outside of a sandbox.
    pub fn outside(&self, program: impl AsRef<OsStr>) -> Command {
        self.place.command(program)
    }

    /// Runs an attack inside, with flags of the product.
    pub fn attack_with<A: AsRef<OsStr>>(&self, flags: &[&str], attack: &str, arguments: &[A]) -> Ran {
        let mut command = self.product();
        command.args(flags).arg("--");
        words(&mut command, attack, arguments);
        run(command)
    }

    pub fn attack<A: AsRef<OsStr>>(&self, attack: &str, arguments: &[A]) -> Ran {
        self.attack_with(&[], attack, arguments)
    }

    /// Starts an attack inside, and does not wait for it.
    pub fn start<A: AsRef<OsStr>>(&self, attack: &str, arguments: &[A]) -> Running {
        self.start_with(&[], attack, arguments)
    }

    /// Starts an attack inside, with flags of the product, and does not wait for it.
    pub fn start_with<A: AsRef<OsStr>>(&self, flags: &[&str], attack: &str, arguments: &[A]) -> Running {
        let mut command = self.product();
        command.args(flags).arg("--");
        words(&mut command, attack, arguments);
        Running::start(command)
    }

    /// Runs an attack inside that a test holds at each of `points` of its start.
    pub fn hold<A: AsRef<OsStr>>(&self, points: &[&str], flags: &[&str], attack: &str, arguments: &[A]) -> Held {
        let mut command = self.product();
        command.args(flags).arg("--");
        words(&mut command, attack, arguments);
        Held::start(self, command, points)
    }

    /// Compiles an attack in C, and puts the program into the project.
    pub fn compile(&self, source: &str) -> PathBuf {
        let program = self.project().join(source.trim_end_matches(".c"));
        let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(folder().join(source)).output();
        let compiled = compiled.expect("these tests need cc: run scripts/test, which installs it");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        self.place.give_away();
        program
    }

    /// Runs a command on the host as the user, which must succeed.
    pub fn host(&self, words: &[&str]) -> String {
        let mut command = self.outside(words[0]);
        command.args(&words[1..]);
        let ran = run(command);
        assert!(ran.code == Some(0), "{words:?}: {ran:?}");
        ran.out
    }

    /// Runs a command on the host as the user, which may fail.
    pub fn try_host(&self, words: &[&str]) -> Ran {
        let mut command = self.outside(words[0]);
        command.args(&words[1..]);
        run(command)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escape/attacks")
}

/// Adds the arguments that run an attack. They hold its text, because its folder may be hidden
/// inside.
pub fn words<A: AsRef<OsStr>>(command: &mut Command, attack: &str, arguments: &[A]) {
    let read = |name: &str| fs::read_to_string(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    if attack.ends_with(".py") {
        let text = read("common.py") + &read(attack);
        command.args(["/usr/bin/python3", "-I", "-c", &text]);
    } else if attack.ends_with(".sh") {
        command.args(["/bin/sh", "-c", &read(attack), attack]);
    } else {
        command.arg(attack);
    }
    command.args(arguments);
}

/// A run of the product that stops at pause points until the test lets it continue
/// (`ablate::pause`).
pub struct Held {
    pub running: Running,
    pauses: Vec<(String, PathBuf)>,
}

impl Held {
    /// Starts `command` and holds it at each of `points`, in the order in which it reaches them.
    pub fn start(scene: &Scene, mut command: Command, points: &[&str]) -> Self {
        let file = |number: usize| scene.place.path().join(format!("pause-{number}"));
        let pauses: Vec<_> =
            points.iter().enumerate().map(|(number, point)| (point.to_string(), file(number))).collect();
        let lines: Vec<String> = pauses.iter().map(|(point, file)| format!("{point} {}", file.display())).collect();
        command.env("AGENT_SANDBOX_PAUSE", lines.join("\n"));
        Self { running: Running::start(command), pauses }
    }

    /// Waits until the product stops, and returns the pause point.
    #[track_caller]
    pub fn stopped(&mut self) -> String {
        let at = |pauses: &[(String, PathBuf)]| pauses.iter().position(|(_, file)| file.exists());
        self.running.until("stopped", || at(&self.pauses).is_some());
        self.pauses[at(&self.pauses).unwrap()].0.clone()
    }

    /// Lets the product continue from this point.
    pub fn go_on(&self, point: &str) {
        let (_, file) = self.pauses.iter().find(|(name, _)| name == point).unwrap();
        fs::remove_file(file).unwrap();
    }
}

/// The result of one process.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// An attack that failed halfway proves nothing, so each prints `done` when it has tried
    /// everything.
    #[track_caller]
    pub fn completed(self) -> Self {
        assert!(self.out.ends_with("done\n"), "the attack was not completed: {self:#?}");
        self
    }

    /// Whether the product refused to start with this text, and ran no command.
    #[track_caller]
    pub fn refused(&self, text: &str) -> bool {
        for misunderstood in ["unknown-key", "invalid-value", "wrong-type", "invalid-toml"] {
            assert!(!self.err.contains(&format!("error[{misunderstood}]")), "the test's own policy: {self:#?}");
        }
        self.code == Some(125) && self.out.is_empty() && self.err.contains("error[") && self.err.contains(text)
    }

    /// Whether the product refused to start. Panics if the attack was neither refused nor
    /// completed, because that proves nothing.
    #[track_caller]
    pub fn refused_or_completed(&self, text: &str) -> bool {
        let refused = self.refused(text);
        assert!(refused || self.out.ends_with("done\n"), "neither refused with `{text}` nor completed: {self:#?}");
        refused
    }

    pub fn shows_canary(&self) -> bool {
        self.out.contains(CANARY) || self.err.contains(CANARY)
    }

    pub fn says(&self, line: &str) -> bool {
        self.out.lines().any(|said| said == line)
    }

    /// The rest of the line that begins with `key`.
    #[track_caller]
    pub fn value(&self, key: &str) -> &str {
        let mut lines = self.out.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        lines.next().unwrap_or_else(|| panic!("no `{key}` in {self:#?}"))
    }
}

pub fn run(command: Command) -> Ran {
    Running::start(command).wait()
}

/// A process whose output goes to files, so that a process that it leaves cannot block the test.
pub struct Running {
    child: Child,
    out: fs::File,
    err: fs::File,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let to = |file: &fs::File| Stdio::from(file.try_clone().unwrap());
        let child = command.stdout(to(&out)).stderr(to(&err)).spawn().unwrap();
        Self { child, out, err }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        // The process may have ended by itself.
        let _ = rustix::process::kill_process(pid, signal);
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until `happened`, or panics with the output of the process.
    #[track_caller]
    pub fn until(&mut self, what: &str, happened: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !happened() {
            if Instant::now() > deadline || self.has_ended() && !happened() {
                let _ = self.child.kill();
                panic!("never {what}: {:#?}", self.collect());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the process has written `text` to standard error.
    #[track_caller]
    pub fn until_said(&mut self, text: &str) {
        let err = self.err.try_clone().unwrap();
        let said = || {
            let mut bytes = vec![0; err.metadata().unwrap().len() as usize];
            err.read_exact_at(&mut bytes, 0).unwrap();
            String::from_utf8_lossy(&bytes).contains(text)
        };
        self.until("said", said);
    }

    pub fn wait(mut self) -> Ran {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_ended() {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("it hangs: {:#?}", self.collect());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.collect()
    }

    fn collect(&mut self) -> Ran {
        let status = self.child.wait().unwrap();
        let text = |file: &mut fs::File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (out, err) = (text(&mut self.out), text(&mut self.err));
        Ran { code: status.code(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
