//! The one definition of all flags. Help, and whatever else describes them, is generated from it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, ValueEnum};

use crate::print::Form;
use crate::session::Request;

/// Run a command in a sandbox compiled from a policy file
///
/// Reads `.agent-sandbox.toml` (and the user's and the system's file), compiles it to a bubblewrap command line, and
/// executes that. Without any file the defaults apply: the project is writable, the rest of the host is read-only,
/// secrets are hidden, `/tmp` and `/run` are private, the network is on.
#[derive(Debug, Parser)]
#[command(
    name = "agent-sandbox",
    version,
    disable_help_subcommand = true,
    override_usage = "agent-sandbox [OPTIONS] [--] COMMAND [ARGS]…\n       agent-sandbox [OPTIONS] --print-args[=FORM] [--] COMMAND [ARGS]…\n       agent-sandbox check [FILE]\n       agent-sandbox schema",
    after_help = AFTER_HELP
)]
pub struct Arguments {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
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

#[derive(Debug, Args)]
pub struct Options {
    /// Start in DIR instead of the current directory
    #[arg(short = 'C', long, value_name = "DIR", global = true)]
    pub cwd: Option<PathBuf>,
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
    /// Print what would be executed, and execute nothing
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "shell")]
    pub print_args: Option<Form>,
    /// Make one mount for each rule in force, also where it changes nothing
    #[arg(long)]
    pub no_optimize: bool,
    /// Say whether this is inside a sandbox (exit code 0) or outside (1)
    #[arg(long, conflicts_with_all = ["command", "print_args"])]
    pub check: bool,
    /// Run although the caller is root, for containers and CI
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MessageFormat {
    /// For people
    Text,
    /// One JSON object on each line
    Json,
}

#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Validate configuration files and show everything that is wrong at once
    ///
    /// Without FILE: the files that a run here would use. Exit code 1 when there are errors.
    Check {
        /// A project file to validate, as it would apply in its own folder
        file: Option<PathBuf>,
    },
    /// Print the JSON schema of the configuration file
    Schema,
    /// Report what can be read and written, for paths given on standard input, each ended by a NUL byte
    #[command(name = "__probe", hide = true)]
    Probe,
}

impl Options {
    pub fn request(&self) -> Request {
        Request {
            config: self.config.clone(),
            no_project_config: self.no_project_config,
            ro: self.ro.clone(),
            rw: self.rw.clone(),
            exclude: self.exclude.clone(),
            presets: self.presets.clone(),
            network: self.network,
            docker: self.docker,
            no_optimize: self.no_optimize,
        }
    }
}

/// The definition itself, for generating documents from it.
pub fn definition() -> clap::Command {
    Arguments::command()
}

/// `--network false` would run a command called `false`, with the network on. A value that stands where the command should
/// is refused; after `--` it is the command.
pub fn misplaced_value(words: &[OsString], arguments: &Arguments) -> Option<clap::Error> {
    let value = arguments.command.first()?;
    let before = words.len().checked_sub(arguments.command.len() + 1)?;
    let flag = words.get(before)?.to_str()?;
    let is_value = match flag {
        "--network" | "--docker" => [OsStr::new("true"), OsStr::new("false")].contains(&value.as_os_str()),
        "--print-args" => Form::value_variants().iter().any(|form| Some(form_name(*form).as_str()) == value.to_str()),
        _ => false,
    };
    is_value.then(|| {
        let value = value.to_string_lossy();
        let message = format!("`{flag} {value}` would run the command `{value}`\n\n  tip: write `{flag}={value}`, or `{flag} -- {value}` to run it");
        definition().error(clap::error::ErrorKind::InvalidValue, message)
    })
}

/// Flags that belong to a run, before a word that we took for a subcommand.
pub fn misplaced_flag(arguments: &Arguments) -> Option<clap::Error> {
    let options = &arguments.options;
    let name = match &arguments.subcommand {
        Some(Subcommand::Check { .. }) => "check",
        Some(Subcommand::Schema) => "schema",
        Some(Subcommand::Probe) | None => return None,
    };
    let problem = if options.print_args.is_some() {
        format!(
            "`--print-args` does not go with the subcommand `{name}`\n\n  tip: write `-- {name}` for a command of that name"
        )
    } else if options.check {
        format!("`--check` does not go with the subcommand `{name}`")
    } else if options.config.is_some() && matches!(&arguments.subcommand, Some(Subcommand::Check { file: Some(_) })) {
        "`--config` and FILE both name the file to check".to_owned()
    } else {
        return None;
    };
    Some(definition().error(clap::error::ErrorKind::ArgumentConflict, problem))
}

fn form_name(form: Form) -> String {
    form.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
