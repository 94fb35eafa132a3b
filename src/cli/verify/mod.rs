//! `agent-sandbox verify`: a real sandbox, with a probe for a command, and what it found.

mod table;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use serde::de::DeserializeOwned;

use crate::audit::verify::probe::{self, ProbeAnswers, Questions};
use crate::audit::verify::{self, Examination, Verification};
use crate::compile::Compiled;
use crate::compile::lower::Argv;
use crate::diagnostic::exit_code;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::Host;
use crate::host::session::Session;
use crate::launch::{Conclusion, Ending, GivenStreams, Prepared, Ran, Residue, Sandbox};
use crate::policy::path::AbsPath;
use crate::policy::places;
use crate::sys::fd;
use crate::trust::Judged;

use super::args;
use super::output::Output;
use super::run::{self, Terminal};

/// Start a real sandbox and test each rule in it against the kernel
///
/// The sandbox is the one that `agent-sandbox -- COMMAND` would start here, with a probe for a command. It tries to read and write at the
/// path of each rule, to move what is pinned, and to undo what confines it. The answers are compared with the policy and with an
/// independent model of bwrap's command line. A refusal counts only where the host itself would have allowed the same; otherwise it is
/// reported as not testable. `--quiet` shows only what does not hold or cannot be tested, and the total. Nothing is written, and nothing stays
/// on the host.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Print one JSON object: `agent-sandbox schema verify` describes it
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox verify                               the policy that applies here
  agent-sandbox verify -q                            what does not hold, and what cannot be tested
  agent-sandbox --exclude '**/*.pem' verify          with flags that go with a run
  agent-sandbox verify --json | jq '.checks[] | select(.result != \"ok\")'

Exit codes: 0 if all that could be tested is as the policy says, 1 if something is not or the
sandbox was refused because its mounts are not those that were planned, 125 if there was no sandbox.";

pub(super) fn run(host: &Host, options: &args::Options, arguments: &Arguments, output: &Output) -> ExitCode {
    let sandbox = match run::sandbox(host, options, output) {
        Ok(sandbox) => Sandbox { residue: Residue::Nothing, ..sandbox },
        Err(diagnostic) => return output.failed(diagnostic),
    };
    let mut attempt = None;
    let mut streams = |prepared: &Prepared| {
        // An earlier attempt, which could not have a guard, still listens under the same name.
        attempt = None;
        let (running, streams) = Attempt::begin(host, prepared)?;
        attempt = Some(running);
        Ok(streams)
    };
    let ran = sandbox.run(&mut Terminal { host, options, output, command: &probe_command, streams: &mut streams });
    let Ran { conclusion, supervisor, .. } = match ran {
        Ok(ran) => ran,
        Err(refusal) => return run::refused(refusal, &[], output),
    };
    match conclusion {
        Conclusion::Ended(Ending::Exited(0)) => {}
        Conclusion::Ended(Ending::Exited(code)) => {
            let why = format!("the probe ended with the exit code {code}");
            return fail(cannot_verify(&why), exit_code::OWN_FAILURE, output);
        }
        Conclusion::Ended(killed) => return supervisor.conclude(killed),
        Conclusion::Unavailable(why) => {
            return fail(Diagnostic::new(Code::StartFailed, why), exit_code::OWN_FAILURE, output);
        }
        Conclusion::Failed(diagnostic) | Conclusion::Changed(diagnostic) => {
            // The mounts are not those of the policy: that is an answer, and not a failure to get one.
            let code = if diagnostic.code == Code::GuardRefused { 1 } else { exit_code::of(diagnostic.code) };
            return fail(diagnostic, code, output);
        }
    }
    let Some(attempt) = attempt else { return ExitCode::from(exit_code::OWN_FAILURE) };
    match attempt.conclude() {
        Err(diagnostic) => fail(diagnostic, exit_code::OWN_FAILURE, output),
        Ok(verification) => {
            let printed = if arguments.json {
                output.print_json(&verification)
            } else {
                output.print(table::verification(&verification, options.quiet, output.paint()).as_bytes())
            };
            if verification.holds { printed } else { ExitCode::FAILURE }
        }
    }
}

fn fail(diagnostic: Diagnostic, code: u8, output: &Output) -> ExitCode {
    output.report_one(diagnostic);
    ExitCode::from(code)
}

fn cannot_verify(why: &str) -> Diagnostic {
    Diagnostic::new(Code::VerifyFailed, format!("the sandbox cannot be examined: {why}"))
        .help("`agent-sandbox doctor` says what this machine can do; `--debug` shows what was started")
}

/// Our own executable: inside at the place of the guard, or without a guard as it is on the host.
fn probe_command(compiled: &Compiled) -> Vec<OsString> {
    let on_host = || super::session(None).ok().and_then(|session| session.executable);
    let program = if compiled.guard { None } else { on_host() };
    let program = program.map_or_else(|| OsString::from(places::GUARD), |path| path.as_os_str().to_owned());
    vec![program, probe::SUBCOMMAND.into()]
}

/// One sandbox that was started for the sake of a probe.
struct Attempt {
    examination: Examination,
    compiled: Compiled,
    argv: Argv,
    on_host: ProbeAnswers,
    /// What the probe inside writes to. In memory: nobody has to read it while the probe runs, and it leaves no file.
    report: File,
    /// Held open while the probe runs.
    _listener: UnixListener,
}

impl Attempt {
    fn begin(host: &Host, prepared: &Prepared) -> Result<(Self, GivenStreams), Diagnostic> {
        let Prepared { session, judged: Judged { compiled, .. }, argv, .. } = prepared;
        let cannot = |what: &'static str| move |e: io::Error| cannot_verify(&format!("{what}: {}", reason(&e)));
        let socket = format!("agent-sandbox-verify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&socket);
        let listener = address.and_then(|address| UnixListener::bind_addr(&address)).map_err(cannot("a socket"))?;
        let examination = verify::examination(host, session, compiled, argv, &socket)
            .map_err(|e| cannot_verify(&format!("the model does not understand bwrap's words: {e}")))?;
        let on_host = ask_on_host(session, &examination.on_host).map_err(cannot("the probe on the host"))?;
        let questions = written(&examination.inside).map_err(cannot("the questions"))?;
        let report = in_memory().map_err(cannot("the report"))?;
        let theirs: OwnedFd = report.try_clone().map_err(cannot("the report"))?.into();
        let streams = GivenStreams { stdin: Some(questions), stdout: Some(theirs), stderr: None };
        let (compiled, argv) = (compiled.clone(), argv.clone());
        Ok((Self { examination, compiled, argv, on_host, report, _listener: listener }, streams))
    }

    fn conclude(mut self) -> Result<Verification, Diagnostic> {
        let inside: ProbeAnswers = read_from(&mut self.report)
            .map_err(|e| cannot_verify(&format!("the report of the probe: {}", reason(&e))))?;
        let verification = self.examination.judge(&self.compiled, &self.argv, &inside, &self.on_host);
        verification.ok_or_else(|| cannot_verify("the probe did not answer each question"))
    }
}

/// The same program, as the same user, without a sandbox.
fn ask_on_host(session: &Session, questions: &Questions) -> io::Result<ProbeAnswers> {
    let executable = session.executable.as_ref().map(AbsPath::as_path).ok_or(io::ErrorKind::NotFound)?;
    let mut report = in_memory()?;
    let mut command = Command::new(executable);
    command.args([probe::SUBCOMMAND, "--on-host"]).stdin(written(questions)?);
    let status = command.stdout(Stdio::from(report.try_clone()?)).status()?;
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}")));
    }
    read_from(&mut report)
}

fn in_memory() -> io::Result<File> {
    Ok(File::from(memfd_create("agent-sandbox", MemfdFlags::CLOEXEC)?))
}

fn written(questions: &Questions) -> io::Result<OwnedFd> {
    fd::holding(&serde_json::to_vec(questions)?)
}

fn read_from<T: DeserializeOwned>(file: &mut File) -> io::Result<T> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// What the probe is given on its standard input, answered on its standard output.
pub(super) fn answer(on_host: bool, output: &Output) -> ExitCode {
    let mut text = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut text);
    let answers = read
        .and_then(|_| serde_json::from_slice::<Questions>(&text).map_err(io::Error::from))
        .and_then(|questions| probe::answer(&questions, on_host))
        .and_then(|answers| serde_json::to_vec(&answers).map_err(io::Error::from));
    match answers {
        Ok(answers) => output.print(&answers),
        Err(e) => fail(cannot_verify(&reason(&e)), exit_code::OWN_FAILURE, output),
    }
}
