//! The one definition of all flags. Help, manual pages and completions are generated from it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, ColorChoice, Command, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StringDeserializer};

use crate::cli::print::PrintForm;
use crate::compile::Request;
use crate::compile::config::{BaseTree, Home};
use crate::diagnostic::nearest;
use crate::policy::Limit;
use crate::policy::limits::LimitError;

use super::check::CheckArgs;
use super::completions::CompletionsArgs;
use super::diff::DiffArgs;
use super::doctor::DoctorArgs;
use super::explain::ExplainArgs;
use super::init::InitArgs;
use super::lint::LintArgs;
use super::man::ManArgs;
use super::private::PrivateArgs;
use super::report::ReportArgs;
use super::schema::SchemaArgs;
use super::show::ShowArgs;
use super::trust::TrustArgs;
use super::verify::VerifyArgs;

/// Run a command in a sandbox compiled from a policy file
///
/// Reads `.agent-sandbox.toml` (and the user's and the system's file), compiles it to a bubblewrap
/// command line, and executes that. Without any file the defaults apply: the project is writable,
/// the rest of the host is read-only, secrets are hidden, `/tmp` and `/run` are private, the
/// network is on.
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
    pub options: Options,
    /// The command to run, with its arguments. Everything from here on belongs to it
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
}

// A comment on a variant would replace the documentation of its arguments in the help.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Subcommand {
    Check(CheckArgs),
    Explain(ExplainArgs),
    Show(ShowArgs),
    Diff(DiffArgs),
    Verify(VerifyArgs),
    Doctor(DoctorArgs),
    Init(InitArgs),
    Trust(TrustArgs),
    Lint(LintArgs),
    Report(ReportArgs),
    Private(PrivateArgs),
    Schema(SchemaArgs),
    /// Remove the placeholders of killed runs
    ///
    /// The next run removes them, too. Files that have changed since are kept and named.
    Sweep,
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Try steps that cannot be undone, for `doctor`
    #[command(name = "__doctor", hide = true)]
    DoctorProbe,
    /// Be the probe of `verify`
    #[command(name = "__verify", hide = true)]
    VerifyProbe {
        #[arg(long)]
        on_host: bool,
        /// Go beyond the limits of the supervisor
        #[arg(long)]
        exceed: bool,
    },
}

const AFTER_HELP: &str = "\
Examples:
  agent-sandbox -- claude --dangerously-skip-permissions
  agent-sandbox --print-args=annotated -- npm test     see every mount and why
  agent-sandbox --exclude '**/*.pem' --network=false -- make
  agent-sandbox --preset '!caches' -- cargo build       without a part of the defaults

Exit codes: that of the command; 124 if it reached a limit of time or output; 125 if agent-sandbox
itself failed, 126 if the command cannot be executed, 127 if it was not found, 2 for a mistake on
the command line.";

#[derive(Debug, Args)]
pub(super) struct Options {
    /// Start in DIR instead of the current directory
    #[arg(short = 'C', long, value_name = "DIR", global = true)]
    pub cwd: Option<PathBuf>,
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Print the command line of bwrap, and execute nothing
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "shell")]
    pub print_args: Option<PrintForm>,
    /// Replace this process by the sandbox, without a supervisor: signals to this process end the
    /// command, nothing is cleaned up or reported afterwards, and the command can create missing
    /// paths that presets block (`.vscode`)
    #[arg(long, conflicts_with = "print_args")]
    pub exec: bool,
    /// Create no placeholders: the command can create missing paths that presets block
    ///
    /// For a home that cannot be written, because a run notes its placeholders in the state folder.
    /// A report names the paths that the command creates.
    #[arg(long)]
    pub no_placeholders: bool,
    #[command(flatten)]
    pub mounts: MountArgs,
    /// Say whether this process is inside a sandbox (exit code 0) or outside (1)
    #[arg(long, alias = "check", conflicts_with_all = ["command", "print_args"])]
    pub inside: bool,
    /// Allow a run as root
    ///
    /// In a container (`/.dockerenv`, `/run/.containerenv`) and where `CI` is set, root needs no
    /// flag. There this flag silences the warning.
    #[arg(long)]
    pub allow_root: bool,
    /// Show the result of each stage, on standard error
    #[arg(long, global = true)]
    pub debug: bool,
    /// Do not show warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// The format of errors and warnings
    #[arg(long, value_name = "FORMAT", default_value = "text", global = true)]
    pub message_format: MessageFormat,
    /// Use colours: `auto` means on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub color: ColorChoice,
}

// Subcommands take these flags, too. A doc comment here would become the help of those
// subcommands.

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    pub file: FileArgs,
    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(super) struct FileArgs {
    /// Use FILE instead of the project's `.agent-sandbox.toml`
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_project_config")]
    pub config: Option<PathBuf>,
    /// Do not read the project's `.agent-sandbox.toml`
    #[arg(long)]
    pub no_project_config: bool,
}

#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(super) struct RuleArgs {
    /// Make PATH, or the matches of a pattern, read-only; repeatable
    #[arg(long, value_name = "PATH")]
    pub ro: Vec<OsString>,
    /// Make PATH writable; repeatable
    #[arg(long, value_name = "PATH")]
    pub rw: Vec<OsString>,
    /// Hide the contents of PATH; repeatable
    #[arg(long, value_name = "PATH")]
    pub exclude: Vec<OsString>,
    /// Let the command read FROM at the path TO, in this run alone; repeatable
    ///
    /// The host's file at TO stays as it is. The first `:` ends FROM.
    #[arg(long, value_name = "FROM:TO", value_parser = OsStringValueParser::new().try_map(from_and_to))]
    pub inject: Vec<(OsString, OsString)>,
    /// Turn a preset on, or off with `!NAME`; repeatable
    #[arg(long = "preset", value_name = "NAME")]
    pub presets: Vec<OsString>,
    /// Share the host's network [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub network: Option<bool>,
    /// Let the command use the container engine's socket, which is as good as root [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub docker: Option<bool>,
    /// Limit the resources of the command, such as `time=30m`; repeatable
    ///
    /// The limits: time=30m, processes=512, file-size=2G, output=10M, tmp=1G, memory=4G, cpus=2.0.
    #[arg(long = "limit", value_name = "KEY=VALUE", value_parser = limit)]
    pub limits: Vec<Limit>,
    /// Which home the command sees: the host's, or one of its own that is gone after the run
    /// [default: host]
    #[arg(long, value_name = "HOME", value_parser = choice::<Home>(
        [("host", "The host's home"), ("private", "A home of the sandbox's own")]
    ))]
    pub home: Option<Home>,
    /// Which other folders the command sees: all, or `/usr`, `/etc` and the like alone
    /// [default: host]
    #[arg(long, value_name = "BASE", value_parser = choice::<BaseTree>(
        [("host", "All folders of the host"), ("minimal", "The folders that programs need to start")]
    ))]
    pub base: Option<BaseTree>,
}

/// Parses one of two values, each with its help, by the name that it has in a file.
fn choice<T>(values: [(&'static str, &'static str); 2]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = values.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| T::deserialize(StringDeserializer::<ValueError>::new(name)))
}

#[derive(Debug, thiserror::Error)]
#[error("{error}\n\n  tip: {}", .error.help())]
struct LimitMistake {
    error: LimitError,
}

fn limit(text: &str) -> Result<Limit, LimitMistake> {
    text.parse().map_err(|error| LimitMistake { error })
}

#[derive(Debug, thiserror::Error)]
enum InjectMistake {
    #[error("write FROM:TO, two paths with a `:` between them")]
    NoColon,
    #[error("neither FROM nor TO may be empty")]
    Empty,
}

/// The two paths of `--inject`.
fn from_and_to(written: OsString) -> Result<(OsString, OsString), InjectMistake> {
    let bytes = written.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b':').ok_or(InjectMistake::NoColon)?;
    let [from, to] = [&bytes[..at], &bytes[at + 1..]].map(|part| OsStr::from_bytes(part).to_owned());
    if from.is_empty() || to.is_empty() { Err(InjectMistake::Empty) } else { Ok((from, to)) }
}

#[derive(Debug, Args)]
pub(super) struct MountArgs {
    /// Make one mount for each rule in force, even if the mount changes nothing
    #[arg(long)]
    pub no_optimize: bool,
    /// Run on bwrap alone, without the guard that compares and locks the mounts
    ///
    /// Without the guard, the mounts are not locked (a directory handed from one sandbox to another
    /// outlives them), nothing checks that the mounts are those in the plan, a policy can have only
    /// some 2,000 rules, and the command cannot handle Ctrl-C and SIGTERM.
    #[arg(long)]
    pub no_guard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum MessageFormat {
    /// For people
    Text,
    /// One JSON object on each line
    Json,
}

impl Options {
    /// Whether a flag changes the policy.
    pub(super) fn has_rules(&self) -> bool {
        self.policy.file != FileArgs::default() || self.policy.rules != RuleArgs::default()
    }

    pub(super) fn request(&self) -> Request {
        let PolicyArgs { file, rules } = &self.policy;
        Request {
            config: file.config.clone(),
            no_project_config: file.no_project_config,
            ro: rules.ro.clone(),
            rw: rules.rw.clone(),
            exclude: rules.exclude.clone(),
            inject: rules.inject.clone(),
            presets: rules.presets.clone(),
            network: rules.network,
            docker: rules.docker,
            limits: rules.limits.clone(),
            exec: self.exec,
            home: rules.home,
            base: rules.base,
            no_optimize: self.mounts.no_optimize,
            no_guard: self.mounts.no_guard,
            no_placeholders: self.exec || self.no_placeholders,
            cwd: self.cwd.clone(),
            ..Request::default()
        }
    }
}

/// Adds the flags behind a subcommand to those before it. `refuse_misplaced_flag` has refused a
/// flag that is in both places and may be given once only.
fn merge(options: &mut Options, behind: &ArgMatches) {
    // `try_get_one` fails if the subcommand does not take the flag.
    fn one<T: Clone + Send + Sync + 'static>(behind: &ArgMatches, flag: &str) -> Option<T> {
        behind.try_get_one(flag).ok().flatten().cloned()
    }
    let Options { policy: PolicyArgs { file, rules }, mounts, allow_root, .. } = options;
    let RuleArgs { ro, rw, exclude, inject, presets, network, docker, limits, home, base } = rules;
    for (list, flag) in [(ro, "ro"), (rw, "rw"), (exclude, "exclude"), (presets, "presets")] {
        list.extend(behind.try_get_many(flag).ok().flatten().into_iter().flatten().cloned());
    }
    limits.extend(behind.try_get_many("limits").ok().flatten().into_iter().flatten());
    inject.extend(behind.try_get_many("inject").ok().flatten().into_iter().flatten().cloned());
    file.config = file.config.take().or_else(|| one(behind, "config"));
    *network = network.or_else(|| one(behind, "network"));
    *docker = docker.or_else(|| one(behind, "docker"));
    *home = home.or_else(|| one(behind, "home"));
    *base = base.or_else(|| one(behind, "base"));
    file.no_project_config |= one(behind, "no_project_config").unwrap_or(false);
    mounts.no_optimize |= one(behind, "no_optimize").unwrap_or(false);
    mounts.no_guard |= one(behind, "no_guard").unwrap_or(false);
    *allow_root |= one(behind, "allow_root").unwrap_or(false);
}

/// The definition of the command line. Flags of the policy can come before a subcommand or after
/// it. Only the help of the program lists them; the help of each subcommand would repeat them.
pub(super) fn definition() -> Command {
    let program = Arguments::command();
    let of_run: Vec<_> = program.get_arguments().map(|flag| flag.get_id().clone()).collect();
    program.mut_subcommands(|subcommand| {
        subcommand.mut_args(|flag| if of_run.contains(flag.get_id()) { flag.hide(true) } else { flag })
    })
}

/// Parses all of `args`, or fails: no argument is ignored.
pub(super) fn parse(args: &[OsString]) -> Result<Arguments, clap::Error> {
    // clap's own `help` accepts only names of subcommands.
    if let [program, help, flag] = args
        && help == "help"
        && (flag == "--help" || flag == "-h")
    {
        return parse(&[program.clone(), flag.clone()]);
    }
    let matches = definition().color(requested_color(args)).try_get_matches_from(args)?;
    let mut arguments = Arguments::from_arg_matches(&matches)?;
    refuse_misplaced_value(args, &arguments)?;
    refuse_misplaced_flag(&matches)?;
    if let Some((_, behind)) = matches.subcommand() {
        merge(&mut arguments.options, behind);
    }
    Ok(arguments)
}

/// clap prints help and mistakes before it knows the value of `--color`.
fn requested_color(args: &[OsString]) -> ColorChoice {
    let ours = args.iter().take_while(|arg| *arg != "--");
    let values =
        ours.zip(args.iter().skip(1)).filter_map(|(arg, next)| match arg.to_str()?.strip_prefix("--color")? {
            "" => next.to_str(),
            value => value.strip_prefix('='),
        });
    values.last().and_then(|value| ColorChoice::from_str(value, false).ok()).unwrap_or_default()
}

/// A mistake that clap itself does not detect.
pub(super) fn mistake(kind: ErrorKind, message: impl std::fmt::Display) -> clap::Error {
    definition().error(kind, message)
}

/// Refuses a value behind a space: `--network false` would run a command called `false`, with the
/// network on, and `explain --network false` would look at a file of that name. After `--` such an
/// argument is a command or a path.
fn refuse_misplaced_value(args: &[OsString], arguments: &Arguments) -> Result<(), clap::Error> {
    let ours = args.len().saturating_sub(arguments.command.len());
    let mut pairs = args.iter().zip(args.iter().skip(1)).take(ours).take_while(|(flag, _)| *flag != "--");
    let found = pairs.find_map(|(flag, value)| {
        let (flag, value) = (flag.to_str()?, value.to_str()?);
        let is_value = match flag {
            "--network" | "--docker" => ["true", "false"].contains(&value),
            "--print-args" => PrintForm::from_str(value, false).is_ok(),
            _ => false,
        };
        is_value.then_some((flag, value))
    });
    let Some((flag, value)) = found else { return Ok(()) };
    let message = match arguments.subcommand {
        None => format!(
            "`{flag} {value}` would run the command `{value}`\n\n  tip: write `{flag}={value}`, or `{flag} -- {value}` to run it"
        ),
        Some(_) => format!("`{value}` is no value of `{flag}`\n\n  tip: write `{flag}={value}`"),
    };
    Err(mistake(ErrorKind::InvalidValue, message))
}

/// Refuses a flag before a subcommand if the subcommand does not take the flag, or does not take
/// it together with the arguments behind the subcommand.
fn refuse_misplaced_flag(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, behind)) = matches.subcommand() else { return Ok(()) };
    let program = definition();
    let Some(subcommand) = program.find_subcommand(name) else { return Ok(()) };
    let is_written =
        |matches: &ArgMatches, arg: &Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    for flag in program.get_arguments().filter(|flag| !flag.is_global_set() && is_written(matches, flag)) {
        let taken = subcommand.get_arguments().find(|known| known.get_id() == flag.get_id());
        let excludes = |one: &Arg, other: &Arg| subcommand.get_arg_conflicts_with(one).contains(&other);
        let rival = taken.and_then(|taken| {
            subcommand.get_arguments().filter(|other| is_written(behind, other)).find(|other| {
                let is_second = *other == taken && !matches!(taken.get_action(), ArgAction::Append);
                is_second || excludes(taken, other) || excludes(other, taken)
            })
        });
        let usage = match rival {
            _ if taken.is_none() => name.to_owned(),
            None => continue,
            Some(rival) => match rival.get_long() {
                Some(long) => format!("{name} --{long}"),
                None => format!("{name} {}", rival.get_id().as_str().to_uppercase()),
            },
        };
        let flag = flag.get_long().unwrap_or_default();
        let message = format!(
            "`--{flag}` does not go with the subcommand `{usage}`\n\n  tip: write `-- {name}` for a command of that name"
        );
        return Err(mistake(ErrorKind::ArgumentConflict, message));
    }
    Ok(())
}

/// The subcommand whose name is most similar to `wrong`.
pub(super) fn nearest_subcommand(wrong: &str) -> Option<String> {
    let program = definition();
    let names = program.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(|known| known.get_name());
    nearest(wrong, names).map(str::to_owned)
}
