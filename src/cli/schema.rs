//! `agent-sandbox schema`.

use clap::ValueEnum;

use crate::audit;
use crate::compile::config;
use crate::launch::ReportList;
use crate::private::PrivateCopies;

use super::answer::Answered;
use super::output::Output;

/// Print the JSON schema of the configuration file, or of an answer in JSON
///
/// An editor that knows the schema of `.agent-sandbox.toml` completes its keys and shows their
/// meaning: put `#:schema FILE` in its first line, with the FILE of `agent-sandbox schema > FILE`.
/// The other schemas describe the answers of `--json`, for programs.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    /// The document that the schema describes
    #[arg(value_name = "WHAT", default_value = "config")]
    of: Described,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Described {
    /// `.agent-sandbox.toml`, and the other configuration files
    Config,
    /// The output of `diff --json`
    Diff,
    /// The output of `doctor --json`
    Doctor,
    /// The output of `explain --json`
    Explain,
    /// The output of `lint --format json`
    Lint,
    /// The output of `private list --json` and `private show --json`
    Private,
    /// The output of `report --json`
    Report,
    /// The output of `show --json`
    Show,
    /// The output of `trust --list --json`
    Trust,
    /// The output of `verify --json`
    Verify,
}

pub(super) fn run(arguments: &SchemaArgs, output: &Output) -> Answered {
    let schema = match arguments.of {
        Described::Config => config::schema(),
        Described::Diff => audit::schema::<audit::diff::Diff>(),
        Described::Doctor => audit::schema::<audit::doctor::Diagnosis>(),
        Described::Explain => audit::schema::<audit::explain::Explained>(),
        Described::Lint => audit::schema::<audit::lint::LintReport>(),
        Described::Private => audit::schema::<PrivateCopies>(),
        Described::Report => audit::schema::<ReportList>(),
        Described::Show => audit::schema::<audit::show::Shown>(),
        Described::Trust => audit::schema::<audit::consents::Consents>(),
        Described::Verify => audit::schema::<audit::verify::Verification>(),
    };
    output.print(format!("{schema:#}\n").as_bytes())
}
