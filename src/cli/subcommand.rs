//! What can be asked besides running a command. Each subcommand has a file of its own, which holds its arguments, too.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::diagnostic;

use super::args::{Arguments, is_of_policy};
use super::{completions, diff, doctor, explain, init, lint, man, schema, show, trust, verify};

// A comment on a variant would take the place of all that its arguments say about themselves.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Subcommand {
    /// Validate configuration files and show everything that is wrong at once
    ///
    /// Without FILE: the files that a run here would use. Exit code 1 when there are errors.
    Check {
        /// A project file to validate, as it would apply in its own folder; a folder stands for its `.agent-sandbox.toml`. With
        /// `--cwd DIR` it is relative to DIR, and applies there
        file: Option<PathBuf>,
    },
    Explain(explain::Arguments),
    Show(show::Arguments),
    Diff(diff::Arguments),
    Verify(verify::Arguments),
    Doctor(doctor::Arguments),
    Init(init::Arguments),
    Trust(trust::Arguments),
    Lint(lint::Arguments),
    Schema(schema::Arguments),
    /// Remove what a run that was killed has left at blocked paths
    ///
    /// The next run does so as well. What was changed meanwhile is left, and named.
    Sweep,
    Completions(completions::Arguments),
    Man(man::Arguments),
    /// Try what only a process that ends thereafter can try, for `doctor`
    #[command(name = "__doctor", hide = true)]
    DoctorProbe,
    /// Be the probe of `verify`
    #[command(name = "__verify", hide = true)]
    VerifyProbe {
        #[arg(long)]
        on_host: bool,
    },
}

/// The subcommand that `wrong` was probably meant to be.
pub(super) fn nearest(wrong: &str) -> Option<String> {
    let definition = Arguments::command();
    let names = definition.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(|s| s.get_name());
    diagnostic::nearest(wrong, names).map(str::to_owned)
}

impl Subcommand {
    /// Whether a flag that stands before it, and is none of the global ones, means something to it.
    pub(super) fn takes(&self, flag: &str) -> bool {
        let is_of_start = ["no_guard", "no_optimize"].contains(&flag);
        match self {
            Subcommand::Trust(arguments) if !arguments.is_about_policy() => false,
            Subcommand::Check { file: None } | Subcommand::Lint(_) => is_of_policy(flag),
            Subcommand::Explain(_) | Subcommand::Show(_) => is_of_policy(flag) || is_of_start,
            Subcommand::Verify(_) => is_of_policy(flag) || is_of_start || flag == "allow_root",
            // An operand says which file, as these two do; and only the project's own needs trust.
            Subcommand::Check { file: Some(_) } | Subcommand::Diff(_) | Subcommand::Trust(_) => {
                is_of_policy(flag) && !["config", "no_project_config"].contains(&flag)
            }
            Subcommand::Doctor(_) => flag == "allow_root",
            Subcommand::Init(_)
            | Subcommand::Schema(_)
            | Subcommand::Sweep
            | Subcommand::Completions(_)
            | Subcommand::Man(_)
            | Subcommand::DoctorProbe
            | Subcommand::VerifyProbe { .. } => false,
        }
    }
}
