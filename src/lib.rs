//! A declarative policy compiler: layers of TOML to one deterministic bubblewrap argv.
//!
//! The library runs commands in the sandbox that `agent-sandbox -- COMMAND` makes, with the
//! project's policy, the user's, and the rules that the program adds:
//!
#![doc = "```no_run"]
#![doc = include_str!("../examples/make_test.rs")]
#![doc = "```"]
//!
//! The guard is the program `agent-sandbox`. The library finds it on PATH, unless
//! [`Sandbox::guard`] names another one. A process has one run at a time; other runs wait. A run
//! blocks the signals of the calling thread, makes the process a subreaper, marks its file
//! descriptors close-on-exec, and raises its limit of open files.

#![warn(unreachable_pub)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

// The rooms (top-level modules), in the order of their imports: a room imports only rooms above
// it. `model` imports `policy` alone. tests/docs/rooms.rs tests this order. Blank lines keep
// rustfmt from sorting them. The rooms are public only for the tests of this repository.
#[doc(hidden)]
pub mod policy;

#[doc(hidden)]
pub mod diagnostic;

#[doc(hidden)]
pub mod sys;

#[doc(hidden)]
pub mod host;

#[doc(hidden)]
pub mod compile;

#[doc(hidden)]
pub mod trust;

#[doc(hidden)]
pub mod placeholders;

#[doc(hidden)]
pub mod private;

#[doc(hidden)]
pub mod guard;

#[doc(hidden)]
pub mod launch;

#[doc(hidden)]
pub mod model;

#[doc(hidden)]
pub mod audit;

#[doc(hidden)]
pub mod cli;

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use compile::Compiled;
use compile::request::Request;
use diagnostic::reason;
use host::Host;
use host::session::Session;
use launch::{FrontEnd, GivenStreams, Prepared};
use policy::path::AbsPath;

pub use compile::config::{BaseTree, Home};
pub use compile::lower::Argv;
pub use diagnostic::{Code, Diagnostic, Diagnostics, Severity};
pub use launch::{Ending, Refusal, Sandbox};
pub use policy::Limit;

impl Sandbox {
    /// A sandbox for the project that holds `directory`, with the policy files that apply there.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn for_project(directory: impl AsRef<Path>) -> Result<Self, Refusal> {
        let host = Host::system();
        let session = Session::of_this_process(Some(directory.as_ref()))?;
        let executable = launch::find_guard(&host, &session);
        Ok(Self::new(host, Session { executable, ..session }, Request::default()))
    }

    /// Uses this `agent-sandbox` as the guard. It must have the same version as this library.
    pub fn guard(mut self, executable: impl AsRef<Path>) -> Self {
        let found = std::fs::canonicalize(executable).ok();
        self.session.executable = found.and_then(AbsPath::normalize);
        self
    }

    /// Sets a variable of the caller's environment, from which the policy chooses.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.session.env.insert(name.into(), value.into());
        self
    }

    /// Makes a path, or the matches of a pattern, read-only.
    pub fn ro(mut self, path: impl Into<OsString>) -> Self {
        self.request.ro.push(path.into());
        self
    }

    /// Makes a path writable.
    pub fn rw(mut self, path: impl Into<OsString>) -> Self {
        self.request.rw.push(path.into());
        self
    }

    /// Hides the contents of a path.
    pub fn exclude(mut self, path: impl Into<OsString>) -> Self {
        self.request.exclude.push(path.into());
        self
    }

    /// Lets the command read `from` at the path `to`, in this run alone.
    pub fn inject(mut self, from: impl Into<OsString>, to: impl Into<OsString>) -> Self {
        self.request.inject.push((from.into(), to.into()));
        self
    }

    /// Turns a preset on, or off with `!NAME`.
    pub fn preset(mut self, name: impl Into<OsString>) -> Self {
        self.request.presets.push(name.into());
        self
    }

    /// Sets whether the command shares the host's network.
    pub fn network(mut self, shared: bool) -> Self {
        self.request.network = Some(shared);
        self
    }

    /// Limits the resources of the command. A limit that this machine cannot enforce is an error.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.request.limits.push(limit);
        self
    }

    /// Gives the command the host's home, or one of its own.
    pub fn home(mut self, home: Home) -> Self {
        self.request.home = Some(home);
        self
    }

    /// Shows the command the whole file system of the host, or only the folders that programs need.
    pub fn base(mut self, base: BaseTree) -> Self {
        self.request.base = Some(base);
        self
    }

    /// Permits a run as root.
    pub fn allow_root(mut self) -> Self {
        self.allow_root = true;
        self
    }

    /// Compiles the policy, to show its mistakes and warnings before a run.
    ///
    /// # Errors
    /// If the policy has errors: all of them.
    pub fn compile(self) -> Result<CompiledSandbox, Refusal> {
        let mut warnings = Diagnostics::default();
        let judged = trust::compile(&self.host, &self.session, &self.request, &mut warnings);
        match judged.filter(|_| !warnings.has_errors()) {
            None => Err(Refusal(warnings)),
            Some(judged) => {
                warnings.extend(judged.warning(&self.host));
                Ok(CompiledSandbox { sandbox: self, warnings })
            }
        }
    }
}

/// A sandbox whose policy compiles. Each start compiles it again, because files come and go.
pub struct CompiledSandbox {
    sandbox: Sandbox,
    warnings: Diagnostics,
}

impl CompiledSandbox {
    /// The warnings about the policy.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// The bubblewrap command that runs `command`.
    ///
    /// # Errors If the policy can no longer be compiled, if the user has not agreed to the openings
    /// of the project's file, or if this machine cannot carry it out.
    pub fn argv<I>(&self, command: I) -> Result<Argv, Refusal>
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        let command = command.into_iter().map(Into::into).collect();
        let prepared = self.sandbox.lower(&mut Embedding::new(command, false))?;
        match prepared.judged.refusal(&self.sandbox.host) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(prepared.argv),
        }
    }

    /// A command to run in the sandbox.
    pub fn command<I>(&self, command: I) -> SandboxedCommand<'_>
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        let command = command.into_iter().map(Into::into).collect();
        SandboxedCommand { sandbox: &self.sandbox, command, captures: false }
    }
}

/// A command that will run in a sandbox.
#[must_use]
pub struct SandboxedCommand<'s> {
    sandbox: &'s Sandbox,
    command: Vec<OsString>,
    captures: bool,
}

impl SandboxedCommand<'_> {
    /// Collects standard output and standard error; standard input is empty. Without this the
    /// command has the caller's streams.
    pub fn capture(self) -> Self {
        Self { captures: true, ..self }
    }

    /// Runs the command under the guard and returns when every process inside has ended. On a
    /// machine that does not allow a guard, the run has none and the outcome has a warning, unless
    /// the policy requires the guard.
    ///
    /// # Errors
    /// If the command did not start, or if the sandbox was killed while it ran.
    pub fn run(self) -> Result<Outcome, Refusal> {
        // A run changes the umask, and its temporary names hold the process id.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut front = Embedding::new(self.command, self.captures);
        let ending = match self.sandbox.run(&mut front)?.conclusion.ending() {
            Ok(ending) => ending,
            Err(diagnostic) => {
                front.said.push(diagnostic);
                return Err(Refusal(front.said));
            }
        };
        let [stdout, stderr] =
            front.readers.map(|reader| reader.and_then(|reader| reader.join().ok()).unwrap_or_default());
        Ok(Outcome { ending, stdout, stderr, diagnostics: front.said })
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// The way in which the command ended.
    pub ending: Ending,
    /// The standard output, if it was captured.
    pub stdout: Vec<u8>,
    /// The standard error, if it was captured.
    pub stderr: Vec<u8>,
    /// Warnings from before the run, and reports from after it.
    pub diagnostics: Diagnostics,
}

/// A program that embeds this library, as the front end of a run.
struct Embedding {
    command: Vec<OsString>,
    captures: bool,
    readers: [Option<JoinHandle<Vec<u8>>>; 2],
    said: Diagnostics,
}

impl Embedding {
    fn new(command: Vec<OsString>, captures: bool) -> Self {
        Self { command, captures, readers: [None, None], said: Diagnostics::default() }
    }

    fn pipes(&mut self) -> io::Result<GivenStreams> {
        let stdin = sys::fd::null()?;
        let (from_stdout, stdout) = io::pipe()?;
        let (from_stderr, stderr) = io::pipe()?;
        // The user may have no more processes left.
        let reader = |pipe| thread::Builder::new().spawn(move || read_all(pipe)).map(Some);
        self.readers = [reader(from_stdout)?, reader(from_stderr)?];
        Ok([Some(stdin), Some(stdout.into()), Some(stderr.into())])
    }
}

/// Reads until every process that could write has ended. An error ends the reading, too.
fn read_all(mut pipe: PipeReader) -> Vec<u8> {
    let mut text = Vec::new();
    let _ = pipe.read_to_end(&mut text);
    text
}

impl FrontEnd for Embedding {
    fn command(&self, _: &Compiled) -> Vec<OsString> {
        self.command.clone()
    }

    fn tell(&mut self, said: &Diagnostics) {
        self.said.extend(said.iter().cloned());
    }

    fn report(&mut self, said: &Diagnostics, _: bool) -> bool {
        self.tell(said);
        true
    }

    fn streams(&mut self, _: &Prepared) -> Result<GivenStreams, Diagnostic> {
        if !self.captures {
            return Ok(GivenStreams::default());
        }
        self.pipes().map_err(|e| {
            Diagnostic::new(Code::StartFailed, format!("cannot make pipes for the command: {}", reason(&e)))
                .help("free some file descriptors (`ulimit -n`) or processes (`ulimit -u`)")
        })
    }
}
