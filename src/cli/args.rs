//! The one definition of all flags. Help, and whatever else describes them, is generated from it.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand as _, ValueEnum};

use crate::cli::print::Form;
use crate::compile::request::Request;

use super::misplaced;
use super::subcommand::Subcommand;

/// Run a command in a sandbox compiled from a policy file
///
/// Reads `.agent-sandbox.toml` (and the user's and the system's file), compiles it to a bubblewrap command line, and
/// executes that. Without any file the defaults apply: the project is writable, the rest of the host is read-only,
/// secrets are hidden, `/tmp` and `/run` are private, the network is on.
#[derive(Debug, Parser)]
#[command(
    name = "agent-sandbox",
    version,
    override_usage = "agent-sandbox [OPTIONS] [--] COMMAND [ARGS]…\n       agent-sandbox [OPTIONS] --print-args[=FORM] [--] COMMAND [ARGS]…\n       agent-sandbox [OPTIONS] SUBCOMMAND …",
    subcommand_help_heading = "Subcommands",
    after_help = AFTER_HELP
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub run: Run,
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
}

impl Deref for Arguments {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

// All but subcommands. A comment for documentation would become the help's.
#[derive(Debug, Args)]
pub(super) struct Run {
    #[command(flatten)]
    pub options: Options,
    /// The command to run, with its arguments. Everything from here on belongs to it
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox -- claude --dangerously-skip-permissions
  agent-sandbox --print-args=annotated -- npm test     see every mount and why
  agent-sandbox --exclude '**/*.pem' --network=false -- make
  agent-sandbox --preset '!caches' -- cargo build       without a part of the defaults

Exit codes: that of the command; 125 if agent-sandbox itself failed, 126 if the command
cannot be executed, 127 if it was not found, 2 for a mistake on the command line.";

#[derive(Debug, Default, Args)]
pub(super) struct Options {
    /// Start in DIR instead of the current directory
    #[arg(short = 'C', long, value_name = "DIR", global = true)]
    pub cwd: Option<PathBuf>,
    #[command(flatten)]
    pub policy: Policy,
    /// Print what would be executed, and execute nothing
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "shell")]
    pub print_args: Option<PrintForm>,
    /// Become the sandbox instead of staying to supervise it: signals sent to this process end the command, nothing is
    /// cleaned up or reported after it, and what presets keep from being made (`.vscode`) can be made
    #[arg(long, conflicts_with = "print_args")]
    pub exec: bool,
    /// Make one mount for each rule in force, also where it changes nothing
    #[arg(long)]
    pub no_optimize: bool,
    /// Run on bwrap alone, without the guard that compares and locks the mounts
    ///
    /// Gives up: locked mounts (a directory handed from one sandbox to another outlives them), the check that the mounts are
    /// those that were printed, more than some 2,000 rules, and handlers of the command for Ctrl-C and SIGTERM.
    #[arg(long)]
    pub no_guard: bool,
    /// Say whether this is inside a sandbox (exit code 0) or outside (1)
    #[arg(long, conflicts_with_all = ["command", "print_args"])]
    pub check: bool,
    /// Run although the caller is root
    ///
    /// In a container (`/.dockerenv`, `/run/.containerenv`) and where `CI` is set, root needs no flag. There this flag
    /// silences the warning.
    #[arg(long)]
    pub allow_root: bool,
    /// Show what each stage came to, on standard error
    #[arg(long, global = true)]
    pub debug: bool,
    /// Do not show warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// How to show errors and warnings
    #[arg(long, value_name = "FORMAT", default_value = "text", global = true)]
    pub message_format: MessageFormat,
    /// When to use colours: `auto` is on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: ColorChoice,
}

/// What a policy consists of besides its files, and which of these count. Also `check` takes them.
#[derive(Debug, Default, Args)]
pub(super) struct Policy {
    /// Use FILE instead of the project's `.agent-sandbox.toml`
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_project_config")]
    pub config: Option<PathBuf>,
    /// Do not read the project's `.agent-sandbox.toml`
    #[arg(long)]
    pub no_project_config: bool,
    /// Make PATH (or what the pattern matches) read-only; repeatable
    #[arg(long, value_name = "PATH")]
    pub ro: Vec<OsString>,
    /// Make PATH writable; repeatable
    #[arg(long, value_name = "PATH")]
    pub rw: Vec<OsString>,
    /// Hide the contents of PATH; repeatable
    #[arg(long, value_name = "PATH")]
    pub exclude: Vec<OsString>,
    /// Turn a preset on, or off with `!NAME`; repeatable
    #[arg(long = "preset", value_name = "NAME")]
    pub presets: Vec<OsString>,
    /// Share the host's network [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub network: Option<bool>,
    /// Let the command use the container engine's socket, which is as good as root [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub docker: Option<bool>,
}

/// [`Form`], as it is written and explained on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PrintForm {
    /// One bwrap command, one operation on each line; comments before it say what else a run does
    Shell,
    /// The operations in groups, each with its reason, and the rules that need no mount
    Annotated,
    /// A complete script for a POSIX shell
    Script,
    /// An object with the arguments, the environment, and all that must exist before the start
    Json,
    /// The arguments alone, one on each line; newline and backslash as `\n` and `\\`
    Lines,
    /// The arguments alone, as they are, each ended by a NUL byte
    Nul,
}

impl From<PrintForm> for Form {
    fn from(form: PrintForm) -> Self {
        match form {
            PrintForm::Shell => Form::Shell,
            PrintForm::Script => Form::Script,
            PrintForm::Json => Form::Json,
            PrintForm::Lines => Form::Lines,
            PrintForm::Nul => Form::Nul,
            PrintForm::Annotated => Form::Annotated,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum MessageFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object on each line
    Json,
}

impl Options {
    pub(super) fn request(&self) -> Request {
        let policy = &self.policy;
        Request {
            config: policy.config.clone(),
            no_project_config: policy.no_project_config,
            names_from: None,
            supposed: None,
            ro: policy.ro.clone(),
            rw: policy.rw.clone(),
            exclude: policy.exclude.clone(),
            presets: policy.presets.clone(),
            network: policy.network,
            docker: policy.docker,
            no_optimize: self.no_optimize,
            no_guard: self.no_guard,
            no_placeholders: self.exec,
            cwd: self.cwd.clone(),
        }
    }
}

/// All of `words` understood, or a mistake: nothing that was written is dropped in silence.
pub(super) fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    // clap's own `help` takes names alone.
    if let [program, help, flag] = words
        && help == "help"
        && (flag == "--help" || flag == "-h")
    {
        return understand(&[program.clone(), flag.clone()]);
    }
    understand(words).map_err(|e| misplaced::explained(words, e, |moved| understand(moved).map(|_| ())))
}

fn understand(words: &[OsString]) -> Result<Arguments, clap::Error> {
    if let Some(arguments) = without_flags(words) {
        return Ok(arguments);
    }
    if let Some(arguments) = understand_run(words) {
        refuse_misplaced_value(words, &arguments)?;
        return Ok(arguments);
    }
    let (arguments, matches) = understand_all(words)?;
    refuse_misplaced_value(words, &arguments)?;
    refuse_misplaced_flag(&matches, &arguments)?;
    Ok(arguments)
}

fn understand_all(words: &[OsString]) -> Result<(Arguments, ArgMatches), clap::Error> {
    let matches = Arguments::command().color(color_asked(words)).try_get_matches_from(words)?;
    Ok((Arguments::from_arg_matches(&matches)?, matches))
}

/// The same for `agent-sandbox -- COMMAND`, which is how most start: to define all flags takes a sixth of a millisecond, in a process that has just begun, before
/// bwrap can be started.
fn without_flags(words: &[OsString]) -> Option<Arguments> {
    let [_, separator, command @ ..] = words else { return None };
    let run = || Run { options: Options::default(), command: command.to_vec() };
    (separator == "--").then(|| Arguments { run: run(), subcommand: None })
}

/// The same where no word is the name of a subcommand. Each of these has all global flags once more: a start without them takes a
/// hundred kilobytes less. `None` also for mistakes and requests for help, which are to name them.
fn understand_run(words: &[OsString]) -> Option<Arguments> {
    let is_subcommand = |word: &str| word == "help" || Subcommand::has_subcommand(word);
    if words.iter().filter_map(|word| word.to_str()).any(is_subcommand) {
        return None;
    }
    let definition = Run::augment_args(clap::Command::new(env!("CARGO_PKG_NAME")));
    let matches = definition.try_get_matches_from(words).ok()?;
    Some(Arguments { run: Run::from_arg_matches(&matches).ok()?, subcommand: None })
}

/// Help and mistakes are shown before all words are understood, and in colours that `--color` chooses.
fn color_asked(words: &[OsString]) -> ColorChoice {
    let ours = words.iter().take_while(|word| *word != "--");
    let values =
        ours.zip(words.iter().skip(1)).filter_map(|(word, next)| match word.to_str()?.strip_prefix("--color")? {
            "" => next.to_str(),
            value => value.strip_prefix('='),
        });
    values.last().and_then(|value| ColorChoice::from_str(value, false).ok()).unwrap_or_default()
}

/// A mistake that clap does not know.
pub(super) fn mistake(kind: ErrorKind, message: impl std::fmt::Display) -> clap::Error {
    Arguments::command().error(kind, message)
}

/// `--network false` would run a command called `false`, with the network on. A value that stands where the command should
/// is refused; after `--` it is the command.
fn refuse_misplaced_value(words: &[OsString], arguments: &Arguments) -> Result<(), clap::Error> {
    match misplaced_value(words, arguments) {
        None => Ok(()),
        Some((flag, value)) => Err(mistake(
            ErrorKind::InvalidValue,
            format!(
                "`{flag} {value}` would run the command `{value}`\n\n  tip: write `{flag}={value}`, or `{flag} -- {value}` to run it"
            ),
        )),
    }
}

fn misplaced_value<'w>(words: &'w [OsString], arguments: &'w Arguments) -> Option<(&'w str, &'w str)> {
    let value = arguments.command.first()?.to_str()?;
    let before = words.len().checked_sub(arguments.command.len() + 1)?;
    let flag = words.get(before)?.to_str()?;
    let is_value = match flag {
        "--network" | "--docker" => ["true", "false"].contains(&value),
        "--print-args" => PrintForm::from_str(value, false).is_ok(),
        _ => false,
    };
    is_value.then_some((flag, value))
}

/// Flags that belong to a run, before a word that we took for a subcommand.
fn refuse_misplaced_flag(matches: &ArgMatches, arguments: &Arguments) -> Result<(), clap::Error> {
    let Some(subcommand) = &arguments.subcommand else { return Ok(()) };
    let definition = Arguments::command();
    let written = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let misplaced = definition
        .get_arguments()
        .filter(|flag| !flag.is_global_set() && written(flag.get_id().as_str()))
        .find(|flag| !subcommand.takes(flag.get_id().as_str()));
    let Some(flag) = misplaced.and_then(|flag| flag.get_long()) else { return Ok(()) };
    let name = matches.subcommand_name().unwrap_or_default();
    let usage = if let Subcommand::Check { file: Some(_) } = subcommand { "check FILE" } else { name };
    let message = format!(
        "`--{flag}` does not go with the subcommand `{usage}`\n\n  tip: write `-- {name}` for a command of that name"
    );
    Err(mistake(ErrorKind::ArgumentConflict, message))
}

pub(super) fn is_of_policy(flag: &str) -> bool {
    Policy::augment_args(clap::Command::new("")).get_arguments().any(|of_policy| of_policy.get_id() == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_the_same_whether_or_not_subcommands_are_looked_for() {
        for line in [
            "",
            "true",
            "-- true",
            "make test --quiet -C x",
            "-q -C x --debug make -q",
            "--print-args -- a",
            "--print-args=json a -- b",
            "--ro a --rw b --ro c --exclude=d --preset !caches -- x",
            "--network=false --docker --color never --message-format json a",
            "-c file --no-guard --no-optimize --allow-root chekc",
            "--check",
        ] {
            let quickly = understand_run(&words(line)).unwrap();
            let (fully, _) = understand_all(&words(line)).unwrap();
            assert_eq!(format!("{quickly:?}"), format!("{fully:?}"), "{line}");
        }
        for line in ["--", "-- true", "-- check", "-- help --help", "-- -q -C x -- --network false"] {
            let at_once = without_flags(&words(line)).unwrap();
            let (fully, _) = understand_all(&words(line)).unwrap();
            assert_eq!(format!("{at_once:?}"), format!("{fully:?}"), "{line}");
        }
        for line in ["", "true", "-q -- true", "--print-args -- a", "--- a"] {
            assert!(without_flags(&words(line)).is_none(), "{line}");
        }
        // Mistakes, requests for help, and what may be a subcommand.
        for line in [
            "--check -- true",
            "--exec --print-args a",
            "--no-such-flag a",
            "--help",
            "-V",
            "-- check",
            "check",
            "help",
        ] {
            assert!(understand_run(&words(line)).is_none(), "{line}");
        }
    }

    fn words(line: &str) -> Vec<OsString> {
        ["agent-sandbox"].into_iter().chain(line.split_whitespace()).map(Into::into).collect()
    }
}
