//! `agent-sandbox verify`: runs a probe in a real sandbox and judges its answers.

mod limit_trial;
mod table;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::audit::verify::limit_trial::{self as limits, TriedLimit};
use crate::audit::verify::probe::{self, ProbeAnswers, Questions};
use crate::audit::verify::{self, Examination, Verification};
use crate::compile::Compiled;
use crate::compile::lower::Argv;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{Host, Session};
use crate::launch::{Ending, GivenStreams, Prepared, Ran, Residue, Sandbox, SupervisedLimits};
use crate::policy::{AbsPath, places};
use crate::sys::fd;
use crate::trust::Judged;

use super::answer::{self, Answered, CliError};
use super::args::{self, MountArgs, PolicyArgs};
use super::output::Output;
use super::run::{self, Terminal};
use limit_trial::{Trial, limits_to_try, try_limit};

/// Start a real sandbox and test each rule in it against the kernel
///
/// The sandbox is the one that `agent-sandbox -- COMMAND` would start here, and a probe is the
/// command. It tries to read and write at the path of each rule, to move pinned directories, and to
/// undo its own confinement. The answers are compared with the policy and with an independent model
/// of bwrap's command line. A refusal counts only where the host itself would have allowed the
/// same; otherwise it is reported as not testable. `--quiet` shows only tests that failed, and the
/// total. Nothing is written, and nothing stays on the host. A limit of time or output is tried in
/// a second sandbox, with a small limit in its place.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct VerifyArgs {
    /// Print one JSON object: `agent-sandbox schema verify` describes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    mounts: MountArgs,
    #[arg(long)]
    allow_root: bool,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox verify                               the policy that applies here
  agent-sandbox verify -q                            tests that failed, and the total
  agent-sandbox --exclude '**/*.pem' verify          with the flags of a run
  agent-sandbox verify --json | jq '.checks[] | select(.result != \"ok\")'

Exit codes: 0 if every possible test agrees with the policy; 1 if one does not, or if the sandbox
was refused because its mounts differ from the plan; 125 if there was no sandbox.";

pub(super) fn run(
    host: &Host,
    options: &args::Options,
    arguments: &VerifyArgs,
    output: &Output,
) -> Result<ExitCode, CliError> {
    let sandbox = run::sandbox(host, options, output)?;
    let sandbox = Sandbox { residue: Residue::Nothing, supervised: SupervisedLimits::Only(None), ..sandbox };
    let mut attempt = None;
    let mut streams = |prepared: &Prepared| {
        // An earlier attempt, in which the guard could not work, still listens on the same socket.
        attempt = None;
        let (running, streams) = Attempt::begin(host, prepared)?;
        attempt = Some(running);
        Ok(streams)
    };
    let mut terminal = Terminal { host, options, output, command: &probe_command, streams: &mut streams };
    let Ran { conclusion, supervisor, .. } = sandbox.run(&mut terminal)?;
    match conclusion.ending() {
        Ok(Ending::Exited(0)) => {}
        Ok(Ending::Exited(code)) => {
            return Err(cannot_verify(&format!("the probe ended with the exit code {code}")).into());
        }
        Ok(killed) => return Ok(supervisor.conclude(killed)),
        Err(failure) if failure.code != Code::GuardRefused => return Err(failure.into()),
        // The mounts are not those of the policy, so the answer is no.
        Err(refusal) => {
            output.report_one(refusal);
            return Ok(ExitCode::FAILURE);
        }
    }
    // A trial is a run of its own, with a supervisor of its own.
    drop(supervisor);
    let attempt = attempt.ok_or(CliError::Reported)?;
    let mut tried = Vec::new();
    for limit in limits_to_try(&attempt.compiled) {
        match try_limit(&sandbox, limit)? {
            Trial::Tried(end) => tried.push(end),
            Trial::Killed(supervisor, killed) => return Ok(supervisor.conclude(killed)),
        }
    }
    let verification = attempt.conclude(&tried)?;
    let text = |found: &Verification, paint| table::verification(found, options.quiet, paint);
    output.print_value(&verification, arguments.json, text)?;
    Ok(answer::exit_code(verification.holds))
}

fn cannot_verify(why: &str) -> Diagnostic {
    Diagnostic::new(Code::VerifyFailed, format!("the sandbox cannot be examined: {why}"))
        .help("find the cause with `agent-sandbox doctor` or `--debug`")
}

/// The probe is this executable. With a guard, it lies at the guard's path inside the sandbox.
fn probe_command(compiled: &Compiled) -> Vec<OsString> {
    let on_host = || super::session(None).ok().and_then(|session| session.executable);
    let program = if compiled.guard { None } else { on_host() };
    let program = program.map_or_else(|| OsString::from(places::GUARD), |path| path.as_os_str().to_owned());
    vec![program, probe::SUBCOMMAND.into()]
}

/// One sandbox that runs the probe.
struct Attempt {
    examination: Examination,
    compiled: Compiled,
    argv: Argv,
    on_host: ProbeAnswers,
    report: File,
    /// The probe tries to reach this socket of the host.
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
            .map_err(|e| cannot_verify(&format!("the model does not understand bwrap's arguments: {e}")))?;
        let on_host = ask_on_host(session, &examination.on_host).map_err(cannot("the probe on the host"))?;
        let questions = written(&examination.inside).map_err(cannot("the questions"))?;
        let report = memfd_create("agent-sandbox", MemfdFlags::CLOEXEC);
        let report = report.map(File::from).map_err(|e| cannot("the report")(e.into()))?;
        let theirs: OwnedFd = report.try_clone().map_err(cannot("the report"))?.into();
        let streams = [Some(questions), Some(theirs), None];
        let (compiled, argv) = (compiled.clone(), argv.clone());
        Ok((Self { examination, compiled, argv, on_host, report, _listener: listener }, streams))
    }

    fn conclude(mut self, tried: &[TriedLimit]) -> Result<Verification, Diagnostic> {
        let mut text = Vec::new();
        let read = self.report.rewind().and_then(|()| self.report.read_to_end(&mut text));
        let inside = read
            .and_then(|_| Ok(serde_json::from_slice(&text)?))
            .map_err(|e| cannot_verify(&format!("the report of the probe: {}", reason(&e))))?;
        let verification = self.examination.judge(&self.compiled, &self.argv, &inside, &self.on_host, tried);
        verification.ok_or_else(|| cannot_verify("the probe did not answer each question"))
    }
}

/// Runs the probe on the host, as the same user, for comparison.
fn ask_on_host(session: &Session, questions: &Questions) -> io::Result<ProbeAnswers> {
    let executable = session.executable.as_ref().map(AbsPath::as_path).ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(executable);
    command.args([probe::SUBCOMMAND, "--on-host"]).stdin(written(questions)?).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("it ended with {}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn written(questions: &Questions) -> io::Result<OwnedFd> {
    fd::holding(&serde_json::to_vec(questions)?)
}

/// The subcommand `__verify`: reads questions from standard input and writes the answers.
pub(super) fn answer(on_host: bool, output: &Output) -> Answered {
    let mut text = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut text);
    let answers = read
        .and_then(|_| probe::answer(&serde_json::from_slice(&text)?, on_host))
        .and_then(|answers| Ok(serde_json::to_vec(&answers)?));
    output.print(&answers.map_err(|e| cannot_verify(&reason(&e)))?)
}

/// The subcommand `__verify --exceed`.
pub(super) fn exceed() -> Answered {
    limits::exceed().map_err(|e| cannot_verify(&reason(&e)))?;
    Ok(true)
}
