//! `agent-sandbox trust`.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use crate::audit::consents::{Consent, ConsentStatus, Consents, Unusable, consents};
use crate::compile::layers;
use crate::diagnostic::{Code, Diagnostic, reason};
use crate::host::{FileKind, Host};
use crate::launch::is_inside;
use crate::policy::{AbsPath, escape_for_display};
use crate::trust::{self, Widening};

use super::answer::{Answered, CliError};
use super::args::{Options, RuleArgs};
use super::output::Output;
use super::style::Paint;

/// Agree to access that the project's `.agent-sandbox.toml` gives beyond your settings
///
/// Lists everything that the file opens, asks whether you agree, and records your consent: to these
/// openings, and to the exact content of the file. A file that only tightens needs no consent. A
/// run with a file that opens more than you agreed to is refused, with the same list. Give the
/// policy flags of the run here, too.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct TrustArgs {
    /// Show all that you have agreed to, in all projects, and whether it is still in force
    #[arg(long, conflicts_with_all = ["revoke", "RuleArgs"])]
    list: bool,
    /// Agree without being asked: for scripts, which have no terminal
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    yes: bool,
    /// Take back the consent to FILE; without FILE, to the project's file here
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "RuleArgs")]
    revoke: Option<Option<PathBuf>>,
    /// With `--list`: print one JSON object, see `agent-sandbox schema trust`
    #[arg(long, requires = "list")]
    json: bool,
    #[command(flatten)]
    rules: RuleArgs,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox trust                      show what the file here opens, and ask
  agent-sandbox trust --yes                the same without the question
  agent-sandbox --print-args -- true       show the same list, and record nothing
  agent-sandbox trust --list
  agent-sandbox trust --revoke ~/old/.agent-sandbox.toml

Exit codes: 0; 1 if you did not agree, or if there was no consent to revoke; 125 if it could not be
done.";

const LONGEST_ANSWER: u64 = 64;

pub(super) fn run(host: &Host, options: &Options, arguments: &TrustArgs, output: &Output) -> Answered {
    // The records can be read inside, but they say little about the sandbox, and cannot be changed.
    if is_inside(host) {
        let (message, command) = match &arguments.revoke {
            Some(_) => ("nothing can be revoked from inside a sandbox", "trust --revoke"),
            None if arguments.list => ("consents are not listed inside a sandbox", "trust --list"),
            None => ("nothing can be trusted from inside a sandbox", "trust"),
        };
        let help = format!("run `agent-sandbox {command}` outside");
        return Err(Diagnostic::new(Code::AlreadyInside, message).help(help).into());
    }
    match &arguments.revoke {
        Some(file) => revoke(host, options, file.as_deref(), output),
        None if arguments.list => {
            let session = super::session(options.cwd.as_deref())?;
            let found = consents(host, &layers::state_folder(host, &session)?)?;
            output.print_value(&found, arguments.json, text)
        }
        None => agree(host, options, arguments.yes, output),
    }
}

fn text(found: &Consents, paint: Paint) -> String {
    let mut out = String::new();
    for Consent { file, status, grants, .. } in &found.consents {
        let status = match status {
            ConsentStatus::InForce => paint.good("in force"),
            ConsentStatus::Changed => paint.warning("not in force: the file has changed"),
            ConsentStatus::Gone => paint.warning("not in force: the file is gone"),
            ConsentStatus::Unreadable => paint.warning("not in force: the file cannot be read"),
        };
        let grants = trust::lines(grants.iter().map(|grant| (grant, None)));
        let grants: String = grants.iter().map(|grant| format!("  {grant}\n")).collect();
        out += &format!("{}  {status}\n{grants}\n", paint.heading(file));
    }
    for Unusable { record, because } in &found.unusable {
        out += &format!("{record}  {}: {because}\n\n", paint.bad("no consent"));
    }
    let in_force = found.consents.iter().filter(|consent| consent.status == ConsentStatus::InForce).count();
    out + &match found.consents.len() {
        0 => "no consents\n".to_owned(),
        1 => format!("1 consent, {in_force} in force\n"),
        more => format!("{more} consents, {in_force} in force\n"),
    }
}

/// The answer is no if there was no consent.
fn revoke(host: &Host, options: &Options, file: Option<&Path>, output: &Output) -> Answered {
    let session = super::session(options.cwd.as_deref())?;
    let file = match file {
        Some(file) => named(host, file)?,
        None => {
            let own = super::project(host, &session, &options.request())?.root.child(layers::PROJECT_FILE);
            host.resolve(own.as_path()).map_or(own, |found| found.path)
        }
    };
    let revoked = trust::revoke(host, &layers::state_folder(host, &session)?, &file)?;
    let text = match &revoked {
        Some(at) => format!("revoked: the consent to {file} was removed from {at}\n"),
        None => format!("there was no consent to {file}\n"),
    };
    output.print(text.as_bytes())?;
    Ok(revoked.is_some())
}

/// The file that the user names. It need not exist. A folder stands for the project's file in it.
fn named(host: &Host, file: &Path) -> Result<AbsPath, Diagnostic> {
    let unfit = |e: io::Error| {
        let message = format!("cannot tell which file `{}` is: {}", escape_for_display(file.as_os_str()), reason(&e));
        Diagnostic::new(Code::TrustFailed, message).help("name it as `agent-sandbox trust --list` does")
    };
    let found = std::path::absolute(file).and_then(|absolute| host.resolve(&absolute)).map_err(unfit)?;
    if found.kind != Some(FileKind::Directory) {
        return Ok(found.path);
    }
    let own = found.path.child(layers::PROJECT_FILE);
    Ok(host.resolve(own.as_path()).map_err(unfit)?.path)
}

/// The answer is no if the user did not agree.
fn agree(host: &Host, options: &Options, yes: bool, output: &Output) -> Answered {
    let session = super::session(options.cwd.as_deref())?;
    let judged = super::judge(host, (&session, &options.request()), options, output, |_, _| {});
    let judged = judged.ok_or(CliError::Reported)?;
    let widening = match &judged.widening {
        None => return output.print(b"no file of this project sets anything: nothing to trust\n"),
        Some(Widening { name, grants, .. }) if grants.is_empty() => {
            let text =
                format!("{name} opens nothing beyond your own settings: nothing to trust, nothing was recorded\n");
            return output.print(text.as_bytes());
        }
        Some(widening) => widening,
    };
    if judged.refusal(host).is_none() {
        let text =
            format!("you have agreed to all that {} opens; `agent-sandbox trust --list` shows it\n", widening.name);
        return output.print(text.as_bytes());
    }
    let opened = trust::lines(widening.grants.iter().map(trust::Granted::parts));
    let opened: String = opened.iter().map(|granted| format!("  {granted}\n")).collect();
    output.print(format!("{} opens:\n{opened}", widening.name).as_bytes())?;
    if !yes && !asked("do you agree? [y/N] ")? {
        output.print(b"nothing was recorded\n")?;
        return Ok(false);
    }
    // The record is about the file as it was read above, even if the file has changed since.
    trust::record(host, &judged.compiled.layers, widening)?;
    let until = "this much, until a byte of the file changes; `agent-sandbox trust --list` shows it";
    output.print(format!("recorded: {until}\n").as_bytes())
}

/// Asks the user on the terminal. Everything but `y` and `yes` means no.
fn asked(question: &str) -> Result<bool, Diagnostic> {
    let failed = |message: String| {
        let help = "read the list above; then agree with `agent-sandbox trust --yes`";
        Diagnostic::new(Code::TrustFailed, message).help(help)
    };
    if !io::stdin().is_terminal() {
        return Err(failed("standard input is no terminal, so you cannot be asked; nothing was recorded".to_owned()));
    }
    let unanswered = |e: io::Error| failed(format!("there was no answer: {}; nothing was recorded", reason(&e)));
    io::stderr().write_all(question.as_bytes()).map_err(unanswered)?;
    let mut answer = String::new();
    io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut answer).map_err(unanswered)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
